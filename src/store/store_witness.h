/*
 * The witness log: a bounded buffer in memory, and a thread that writes it to the store in batches.
 *
 * Whoever appends takes a short lock and copies half a kilobyte. The writer takes up to a batch out of the buffer,
 * releases the lock, and writes it in one transaction. When the disk cannot keep up, the oldest entries that wait are
 * dropped and counted: a server does not stop serving because its log is slow.
 */
#ifndef RV_STORE_STORE_WITNESS_H
#define RV_STORE_STORE_WITNESS_H

#include "store/store_rows.h"

enum { RV_STORE_LOG_BATCH = 256 }; // entries of one transaction

struct ruvllm_store;
struct rv_store_log;

/* Starts the writer, to which `db` belongs from now on. On failure *out is NULL and `db` is still the caller's. */
RV_CHECKED ruvllm_status rv_store_witness_open(struct rv_store_log **out, struct rv_store_db *db,
                                               const struct ruvllm_store_params *params, struct ruvllm_error *err);
/* Writes what waits and stops; what cannot be written is lost, and the log sink is told. Accepts NULL. */
void rv_store_witness_close(struct rv_store_log *log);

/* As the public calls of the same names. */
RV_CHECKED ruvllm_status rv_store_witness_append(struct rv_store_log *log, const struct ruvllm_witness *entry,
                                                 struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_store_witness_flush(struct rv_store_log *log, struct ruvllm_error *err);
void rv_store_witness_stats(struct rv_store_log *log, struct ruvllm_witness_stats *out);
RV_CHECKED ruvllm_status rv_store_witness_query(struct ruvllm_store *store, const struct ruvllm_witness_filter *filter,
                                                ruvllm_witness_fn fn, void *user, struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_store_witness_prune(struct ruvllm_store *store, int32_t days, uint64_t *n_deleted,
                                                struct ruvllm_error *err);

/* That a key was used: written with the next batch. One that waits already counts once; too many are forgotten. */
void rv_store_witness_touch(struct rv_store_log *log, const char *key_id, int64_t time);

#endif
