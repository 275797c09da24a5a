/*
 * Group commit: many threads hand in events, one thread writes all that wait in one transaction, and each caller goes
 * on when that is on the disk. One fsync serves everybody who came while the one before it ran.
 */
#ifndef RV_STORE_EVENT_WRITER_H
#define RV_STORE_EVENT_WRITER_H

#include "store/event_spool.h"

struct rv_event_writer;

struct rv_event_writer_stats {
    uint64_t n_events;   // acknowledged
    uint64_t n_batches;  // transactions that served them
    uint64_t n_failed;   // events whose caller was told of a failure
    uint64_t n_spooled;  // events that went to the spool first
    uint64_t n_in_spool; // that wait there now
};

/*
 * Starts the threads, to which `db`, `tidy_db` (NULL: there is nothing to tidy) and `spool` (NULL: none) belong from
 * now on. On failure *out is NULL and all three are still the caller's.
 */
RV_CHECKED ruvllm_status rv_event_writer_open(struct rv_event_writer **out, struct rv_store_db *db,
                                              struct rv_store_db *tidy_db, struct rv_event_spool *spool,
                                              struct ruvllm_error *err);
/* No write may be under way. What is in the spool stays there for the next time. Accepts NULL. */
void rv_event_writer_close(struct rv_event_writer *writer);

/*
 * Returns when all `n` events are on the disk, in one transaction and in this order, with seq and fate filled in, or
 * with the reason why none of them is. BUSY: too many wait already. After a failure of the disk or the connection an
 * event may be there all the same: who tries again does so with the same uid, and it is added once.
 */
RV_CHECKED ruvllm_status rv_event_writer_write(struct rv_event_writer *writer, struct rv_store_event *events, size_t n,
                                               struct ruvllm_error *err);
void rv_event_writer_stats(struct rv_event_writer *writer, struct rv_event_writer_stats *out);

#endif
