/*
 * What ticks and the gate write into the log, as bytes: what a tick made, or what was decided. Reading checks every
 * length and number; bytes that are none are FORMAT.
 */
#ifndef RV_LEARN_TICK_EVENT_H
#define RV_LEARN_TICK_EVENT_H

#include "learn/tenant_learner.h"
#include "learn/tick.h"

enum rv_tick_event_decision {
    RV_TICK_EVENT_REJECTED = 1, // a tick; nothing changed
    RV_TICK_EVENT_PAUSED        // a flood: back to a generation, and votes teach nothing for a while
};

/* The bytes are the caller's to rv_free. */
RV_CHECKED ruvllm_status rv_tick_event_write(const struct rv_head_adapter *made, const struct rv_tick_result *result,
                                             int64_t base, struct rv_str *out, struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_tick_event_write_gate(enum rv_tick_event_decision decision,
                                                  const struct rv_tick_result *result, int64_t generation,
                                                  struct rv_str *out, struct ruvllm_error *err);

/* What an event's bytes say; `made` must have room and stays as it was for a gate's. */
struct rv_tick_event {
    enum rv_tick_event_decision decision; // 0: a tick's
    int64_t generation;                   // that the tick began with, or to go back to
    struct rv_tick_result result;
};
RV_CHECKED ruvllm_status rv_tick_event_read(struct rv_tick_event *out, struct rv_head_adapter *made,
                                            struct rv_str bytes, struct ruvllm_error *err);
/* The generation that the bytes of a gate's event go back to; -1: to none, or they are no such bytes. */
int64_t rv_tick_event_goes_back_to(struct rv_str bytes);
/* Does to a tenant what the bytes say: for the event that was just written, and for every one of the log. */
RV_CHECKED ruvllm_status rv_tick_event_apply(struct rv_tenant_learner *learner, struct rv_str bytes,
                                             struct ruvllm_error *err);

#endif
