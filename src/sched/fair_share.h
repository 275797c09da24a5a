/*
 * Who got how much: tokens served, by tenant. Only differences between tenants that want something at the same time
 * mean anything. A tenant that comes, or comes back after a pause, starts no lower than the lowest of those that are
 * there: time in which it wanted nothing is not saved up for it. (The counters of Sheng et al., Fairness in Serving
 * Large Language Models, OSDI 2024, with input and output weighed alike.) Weights make the shares unequal: who has
 * weight 3 is charged a third for a token, and so gets three for one of who has weight 1.
 *
 * Nothing allocates after rv_fair_share_init.
 */
#ifndef RV_SCHED_FAIR_SHARE_H
#define RV_SCHED_FAIR_SHARE_H

#include "base/id_heap.h"
#include "base/id_map.h"

struct rv_fair_share_tenant {
    uint64_t id;
    uint64_t served;    // tokens at weight 1
    double rest;        // what is not yet a whole one; below 1
    int32_t n_requests; // -1: the row is free
};

struct rv_fair_share {
    struct rv_fair_share_tenant *tenants;
    int32_t n_rows;
    int32_t *free_rows; // stack
    int32_t n_free;
    struct rv_id_map row_by_id;
    struct rv_id_heap present; // rows with requests, by what they were served
};

/* For up to max_requests requests at a time. */
RV_CHECKED ruvllm_status rv_fair_share_init(struct rv_fair_share *share, int32_t max_requests,
                                            struct ruvllm_error *err);
void rv_fair_share_release(struct rv_fair_share *share);
/* One more request of a tenant; returns the tenant's row, which stays the same until its last request left. */
int32_t rv_fair_share_enter(struct rv_fair_share *share, uint64_t tenant);
void rv_fair_share_leave(struct rv_fair_share *share, int32_t row);
/* Counts n tokens as served to a tenant that has requests; a weight of 0 is 1, and one below 1/1000 counts as that. */
void rv_fair_share_charge(struct rv_fair_share *share, int32_t row, int32_t n, float weight);
/* True when counters and tables agree; for tests. */
bool rv_fair_share_check(const struct rv_fair_share *share);

#endif
