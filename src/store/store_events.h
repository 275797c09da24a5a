/*
 * The event log: everything that was learned from, in the order it was committed. Learning is a function of it alone.
 *
 * Every call may be made from any thread. Append waits for the disk together with all others that append; the rest wait
 * for the store's lock.
 */
#ifndef RV_STORE_STORE_EVENTS_H
#define RV_STORE_STORE_EVENTS_H

#include "store/event_writer.h"
#include "store/sql_events.h"
#include "store/store.h"

/*
 * Adds `n` events (up to 512) in one transaction and returns when they are on the disk, with uid, time, seq and fate
 * filled in; or with the reason why none is. NO_SPACE: the disk is full, and it works again once there is room. BUSY:
 * too many wait. To try again after a failure without adding twice, keep the uid.
 */
RV_CHECKED ruvllm_status rv_store_events_append(struct ruvllm_store *store, struct rv_store_event *events, size_t n,
                                                struct ruvllm_error *err);

/* Borrowed for the call, which is made with nothing locked. False: no more of them. */
typedef bool (*rv_store_events_fn)(void *user, const struct rv_store_event *event);

/* Every event of a tenant with a number beyond `after`, in order, a page at a time. */
RV_CHECKED ruvllm_status rv_store_events_replay(struct ruvllm_store *store, const char *tenant, int64_t after,
                                                rv_store_events_fn fn, void *user, struct ruvllm_error *err);
/* The last number of a tenant; 0: none. */
RV_CHECKED ruvllm_status rv_store_events_last(struct ruvllm_store *store, const char *tenant, int64_t *seq,
                                              struct ruvllm_error *err);
/* The newest event about a response; 0: none. */
RV_CHECKED ruvllm_status rv_store_events_about(struct ruvllm_store *store, const char *tenant, const char *response_id,
                                               int64_t *seq, struct ruvllm_error *err);
/* Removes what an event said and did; its number stays, so that others keep theirs. NOT_FOUND. */
RV_CHECKED ruvllm_status rv_store_events_forget(struct ruvllm_store *store, const char *tenant, int64_t seq,
                                                struct ruvllm_error *err);
/* Puts other bytes in the place of its update, unless it is forgotten or there is none. */
RV_CHECKED ruvllm_status rv_store_events_set_delta(struct ruvllm_store *store, const char *tenant, int64_t seq,
                                                   struct rv_str delta, struct ruvllm_error *err);
/* Forgets all events of a kind after a number, of one model. */
RV_CHECKED ruvllm_status rv_store_events_forget_later(struct ruvllm_store *store, const char *tenant, const char *model,
                                                      int64_t after, enum rv_store_event_kind kind,
                                                      struct ruvllm_error *err);
/* Whether events wait on this machine for the database to come back: then the log is not all there is. */
bool rv_store_events_are_spooled(struct ruvllm_store *store);
RV_CHECKED ruvllm_status rv_store_events_stats(struct ruvllm_store *store, struct rv_event_writer_stats *out,
                                               struct ruvllm_error *err);

#endif
