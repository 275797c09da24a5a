/*
 * Anchors: states of text the model itself wrote, with the tokens that were likeliest there. What learning does to them
 * is what it does to everything that nobody voted on. Made once for a model, beside its whitening; immutable after
 * that, read from any thread.
 *
 * The distribution at an anchor is taken over its likeliest tokens and whichever tokens learning is about to raise;
 * rows of the head are read again, so an anchor is a state and some numbers of tokens.
 */
#ifndef RV_LEARN_ANCHORS_H
#define RV_LEARN_ANCHORS_H

#include "learn/trace.h"

enum {
    RV_ANCHORS_TEXTS = 96,   // many: states in which a model repeats itself are in few of them, and are moved furthest
    RV_ANCHORS_OF_TEXT = 32, // states of each
    RV_ANCHORS_MAX = RV_ANCHORS_TEXTS * RV_ANCHORS_OF_TEXT,
    RV_ANCHORS_GUARD = 4 // every fourth only measures: what was fitted to would flatter itself
};

struct rv_anchors {
    int32_t n_dims;
    int32_t n;
    uint16_t *states; // RV_ANCHORS_MAX rows of n_dims, bfloat16; n are in use
    int32_t *top;     // likewise, RV_TRACE_TOP tokens each, the likeliest first; -1: fewer
};

RV_CHECKED ruvllm_status rv_anchors_init(struct rv_anchors *out, int32_t n_dims, struct ruvllm_error *err);
void rv_anchors_release(struct rv_anchors *anchors);
/* How many of them measure: 0, 4, 8, ... */
size_t rv_anchors_n_guards(const struct rv_anchors *anchors);
/* Takes RV_ANCHORS_OF_TEXT rows of a text's trace, from all over it, or all that it has; as long as there is room. */
void rv_anchors_add(struct rv_anchors *anchors, const struct rv_trace *trace);

#endif
