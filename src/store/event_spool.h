/*
 * Events that wait on this machine's disk while the database is away: a small store of its own, of which only the event
 * log is used. What it gave to the database and then could not remove, it gives again: the database knows each event by
 * its uid and takes it once.
 *
 * Belongs to one thread.
 */
#ifndef RV_STORE_EVENT_SPOOL_H
#define RV_STORE_EVENT_SPOOL_H

#include "store/sql_db.h"

struct rv_event_spool;

/* Opens the SQLite file at `path`, or makes it. */
RV_CHECKED ruvllm_status rv_event_spool_open(struct rv_event_spool **out, const char *path,
                                             const struct ruvllm_store_params *params, struct ruvllm_error *err);
/* Accepts NULL. */
void rv_event_spool_close(struct rv_event_spool *spool);

/* How many wait. */
uint64_t rv_event_spool_n(const struct rv_event_spool *spool);
/* All of them on this machine's disk, or none. */
RV_CHECKED ruvllm_status rv_event_spool_write(struct rv_event_spool *spool, struct rv_store_event **events, size_t n,
                                              struct ruvllm_error *err);
/* Gives up to `max` of the oldest to the database, in their order. */
RV_CHECKED ruvllm_status rv_event_spool_deliver(struct rv_event_spool *spool, struct rv_store_db *db, size_t max,
                                                struct ruvllm_error *err);

#endif
