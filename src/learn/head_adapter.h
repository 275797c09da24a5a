/*
 * A tenant's change of the head's input while it is learned: h becomes h + B (A h). Kept as pairs of rows in 32 bits; a
 * step adds pairs, and folding brings them back to the adapter's rank, leaving out what changes ordinary states least.
 * Everything here is a pure function of its inputs: the same steps in the same order give the same bits.
 */
#ifndef RV_LEARN_HEAD_ADAPTER_H
#define RV_LEARN_HEAD_ADAPTER_H

#include "learn/whitening.h"

enum {
    RV_HEAD_ADAPTER_MAX_RANK = 8,
    RV_HEAD_ADAPTER_STEP_RANK = 2,
    RV_HEAD_ADAPTER_SCRATCH = RV_HEAD_ADAPTER_MAX_RANK + 2 * RV_HEAD_ADAPTER_STEP_RANK // rows, for steps and folding
};

struct rv_head_adapter {
    int32_t n_dims;
    int32_t rank;    // most pairs it may have
    int32_t n_pairs; // that it has
    float *a;        // rank + step rank rows of n_dims
    float *b;        // likewise: the columns of B
};

/* What an answer left behind for learning: rows of one response, as bfloat16. */
struct rv_head_rows {
    size_t n;
    const uint16_t *states;    // n rows of n_dims: what the head read, before any adapter
    const uint16_t *gradients; // n rows: of -log p(token) by the head's input
    const uint16_t *probes;    // n rows: the same of tokens drawn from p, which may be those or others
    const float *weights;      // of each: how much to raise (above 0) or lower its token's likelihood
};

/* One event's own change, of at most RV_HEAD_ADAPTER_STEP_RANK pairs: what an event of the log carries. */
struct rv_head_step {
    int32_t n_pairs;
    uint16_t *a; // pairs of rows, bfloat16, room for RV_HEAD_ADAPTER_STEP_RANK
    uint16_t *b;
    double kl;   // estimated mean KL divergence on the rows, in nats a token
    double gain; // estimated mean change of log p of the rows' tokens in the wanted direction; likewise
};

RV_CHECKED ruvllm_status rv_head_adapter_init(struct rv_head_adapter *out, int32_t n_dims, int32_t rank,
                                              struct ruvllm_error *err);
void rv_head_adapter_release(struct rv_head_adapter *adapter);
/* Back to no change at all. */
void rv_head_adapter_clear(struct rv_head_adapter *adapter);
/* Into one of as many dimensions, with room for as many pairs. */
void rv_head_adapter_copy(struct rv_head_adapter *to, const struct rv_head_adapter *from);

/*
 * The step that raises the likelihood of the rows' tokens by their weights, whitened. Its KL on the rows is at most
 * `target_kl`, and less where going further would gain nothing. A step of no pairs when the rows say nothing.
 * `scratch` is RV_HEAD_ADAPTER_SCRATCH rows, here and below.
 */
void rv_head_adapter_step(struct rv_head_step *step, const struct rv_head_rows *rows,
                          const struct rv_whitening *whitening, double target_kl, int32_t n_pairs, float *scratch);
/* Adds `share` of a step and folds. */
void rv_head_adapter_fold(struct rv_head_adapter *adapter, const struct rv_head_step *step, float share,
                          const struct rv_whitening *whitening, float *scratch);
/* out = B (A h) */
void rv_head_adapter_apply(const struct rv_head_adapter *adapter, const float *state, float *out);
/* The mean of |B (A h)|^2 over ordinary states: what the certificate bounds. */
double rv_head_adapter_energy(const struct rv_head_adapter *adapter, const struct rv_whitening *whitening);

#endif
