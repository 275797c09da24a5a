/*
 * Votes with what the engine's background loop does between them, here one after the other and without a clock, so that
 * a seed says it all: a tick after every eighth vote, and the alarm that stops floods.
 */
#ifndef RV_BENCH_LEARN_TICKS_H
#define RV_BENCH_LEARN_TICKS_H

#include "learn/tick.h"
#include "learn_lab.h"

struct ticks {
    struct rv_anchors anchors;
    struct rv_tick tick;
    struct rv_study *study;
    int n_new;    // votes since the last tick
    int n_ticks;  // that changed something
    int n_alarms; // of floods
};

/* The anchors are the same for every seed. */
void ticks_open(struct ticks *ticks, struct lab *lab, int32_t rank);
void ticks_close(struct ticks *ticks);
/* As if nothing had been voted on, perhaps with another rank. */
void ticks_restart(struct ticks *ticks, struct lab *lab, int32_t rank);
/* A vote, and what comes of it in the background. */
void ticks_vote(struct ticks *ticks, struct rv_tenant_learner *learner, const struct rv_trace *trace, double score);

#endif
