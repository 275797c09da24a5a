/*
 * Whose turn it is among prompts: first by urgency (priority, one more for every age_ms without a turn, one more
 * for every time its blocks were lost), then by tenant, the one that was served least first, then by what is left to
 * compute, least first, then by who came first.
 *
 * A tenant that had more than another one here does not get ahead of it by waiting: of a flood everything waits, and
 * its sender's share would be what it sent. Its requests age a sixtieth as fast, so that still none waits for ever.
 *
 * Shares of tenants are compared in steps of `quantum` tokens: a prompt that was begun is not left for another tenant's
 * after every chunk, which would have everybody wait until all are finished.
 */
#ifndef RV_SCHED_TURN_H
#define RV_SCHED_TURN_H

#include "sched/fair_share.h"
#include "sched/request.h"

/* What decides, kept together: thousands of waiting requests are looked through in every step. */
struct rv_turn {
    struct rv_request *request;
    uint64_t ticket;
    int64_t served_us;
    int32_t rank;
    int32_t tenant;
    int32_t n_left;

    /* As of rv_turn_list_add. */
    int32_t urgency;
    uint64_t share;
};

/* The best ones of those added, in order. */
struct rv_turn_list {
    const struct rv_fair_share *share;
    int64_t now_us;
    int64_t age_us; // 0: waiting does not count
    uint64_t quantum;
    uint64_t least; // share, in quanta, of the tenant served least among those that are added
    struct rv_turn *turns;
    int32_t n;
    int32_t max;
};

struct rv_turn rv_turn_of(struct rv_request *request);
/* True when a comes before b. */
bool rv_turn_before(const struct rv_turn *a, const struct rv_turn *b);
/* Finds the turn's place among the best; the last one falls out when there are more than max. */
void rv_turn_list_add(struct rv_turn_list *list, const struct rv_turn *turn);

#endif
