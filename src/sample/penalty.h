/*
 * Penalties on tokens seen before, over the last `window` tokens of prompt and answer. Counts are kept up to date as
 * tokens come and go, so applying them costs one visit to each distinct token of the window and allocates nothing.
 *
 * For a token seen `count` > 0 times: a positive logit is divided by `repetition`, any other multiplied with it; then
 * count * frequency + presence is subtracted.
 */
#ifndef RV_SAMPLE_PENALTY_H
#define RV_SAMPLE_PENALTY_H

#include "base/error.h"

#define RV_PENALTY_MAX_WINDOW 1048576 // a larger one is spelled -1

struct rv_penalty_params {
    float repetition; // 1 is off
    float frequency;  // 0 is off
    float presence;   // 0 is off
    int32_t window;   // tokens; 0 is off; -1: all; at most RV_PENALTY_MAX_WINDOW
};

struct rv_penalty_entry {
    int32_t count; // in the window
    int32_t place; // in `seen`, when count > 0
};

struct rv_penalty {
    struct rv_penalty_params params;
    size_t n_vocab;
    struct rv_penalty_entry *entries; // by token; NULL when nothing is penalised
    int32_t *seen;                    // the distinct tokens of the window, in no order
    size_t n_seen;
    int32_t *ring;   // the window, oldest at `oldest` once full; NULL when it holds all
    size_t ring_len; // used
    size_t oldest;
};

/* Values are the caller's to check; see rv_sampler_new. */
RV_CHECKED ruvllm_status rv_penalty_init(struct rv_penalty *penalty, const struct rv_penalty_params *params,
                                         size_t n_vocab, struct ruvllm_error *err);
void rv_penalty_release(struct rv_penalty *penalty);
/* The newest token; the oldest leaves a full window. An id outside the vocabulary fills its place and has no effect. */
void rv_penalty_accept(struct rv_penalty *penalty, int32_t token);
void rv_penalty_apply(const struct rv_penalty *penalty, float *logits);
/* How often the window holds the token. */
int32_t rv_penalty_count(const struct rv_penalty *penalty, int32_t token);
/* True when counts, list and window agree; for tests. */
bool rv_penalty_check(const struct rv_penalty *penalty);

#endif
