/*
 * Anchors to fit to, drawn by how far an adapter moves them. Few lie far out along it, and those have most of the
 * divergence: whoever draws evenly meets them seldom, and learns too late what the adapter costs there.
 *
 * One thread at a time.
 */
#ifndef RV_LEARN_ANCHOR_DRAW_H
#define RV_LEARN_ANCHOR_DRAW_H

#include "base/rng.h"
#include "learn/anchors.h"
#include "learn/head_adapter.h"

struct rv_anchor_draw {
    const struct rv_anchors *anchors;
    float *reach; // of each anchor: the squared length of B (A h)
    float *sums;  // of chances, up to and with each
};

/* The anchors outlive it. */
RV_CHECKED ruvllm_status rv_anchor_draw_init(struct rv_anchor_draw *out, const struct rv_anchors *anchors,
                                             struct ruvllm_error *err);
void rv_anchor_draw_release(struct rv_anchor_draw *draw);
/* Looks how far the adapter moves each; there must be two anchors or more. */
void rv_anchor_draw_look(struct rv_anchor_draw *draw, const struct rv_head_adapter *adapter);
/* One that is no guard. Who is drawn more often than others weighs less: weights are 1 on average. */
size_t rv_anchor_draw(const struct rv_anchor_draw *draw, struct rv_rng *rng, float *weight);

#endif
