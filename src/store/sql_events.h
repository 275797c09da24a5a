/* The SQL of the event log, for every engine. Each function is for the thread that has the connection. */
#ifndef RV_STORE_SQL_EVENTS_H
#define RV_STORE_SQL_EVENTS_H

#include "base/arena.h"
#include "store/sql_db.h"

/* Rows that were read, with the memory they are in. */
struct rv_sql_events_page {
    struct rv_store_event *rows;
    int64_t *numbers; // of the table's rows, as drop takes them
    size_t n;
    struct rv_arena arena;
};

/*
 * Writes all of them in one transaction, or none; fills in seq and fate of each. The pointers are put in the order of
 * tenants; within a tenant theirs stays.
 */
RV_CHECKED ruvllm_status rv_sql_events_write(struct rv_store_db *db, struct rv_store_event **events, size_t n,
                                             struct ruvllm_error *err);
/*
 * Up to `max` events of a tenant with a number beyond `after`, ascending; NULL tenant: of all, `after` and the order
 * being of the table's rows. Fewer when their bytes get many, but one if there is one. The page is released by the
 * caller, also after a failure.
 */
RV_CHECKED ruvllm_status rv_sql_events_read(struct rv_store_db *db, const char *tenant, int64_t after, size_t max,
                                            struct rv_sql_events_page *page, struct ruvllm_error *err);
void rv_sql_events_page_release(struct rv_sql_events_page *page);
/* The last number of a tenant; 0: there is none. */
RV_CHECKED ruvllm_status rv_sql_events_last(struct rv_store_db *db, const char *tenant, int64_t *seq,
                                            struct ruvllm_error *err);
/* The newest event of a tenant about a response; 0: there is none. */
RV_CHECKED ruvllm_status rv_sql_events_about(struct rv_store_db *db, const char *tenant, const char *response_id,
                                             int64_t *seq, struct ruvllm_error *err);
/* Removes the texts and bytes of an event; its number, kind and time stay. */
RV_CHECKED ruvllm_status rv_sql_events_forget(struct rv_store_db *db, const char *tenant, int64_t seq, bool *found,
                                              struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_sql_events_forget_later(struct rv_store_db *db, const char *tenant, const char *model,
                                                    int64_t after, enum rv_store_event_kind kind,
                                                    struct ruvllm_error *err);
/* Puts other bytes in the place of an event's update, unless that is forgotten or there is no such event. */
RV_CHECKED ruvllm_status rv_sql_events_set_delta(struct rv_store_db *db, const char *tenant, int64_t seq,
                                                 struct rv_str delta, struct ruvllm_error *err);
/* Removes the rows of a page, as far as they are still there; no others, also if those have such numbers by now. */
RV_CHECKED ruvllm_status rv_sql_events_drop(struct rv_store_db *db, const struct rv_sql_events_page *page,
                                            struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_sql_events_count(struct rv_store_db *db, uint64_t *n, struct ruvllm_error *err);

#endif
