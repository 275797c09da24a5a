/*
 * How near a state must be to a key of memory to be taken for it: measured for a model on text of its own, so that
 * keys seldom speak where they have nothing to say. Distances are those of whitened states after the same token.
 */
#ifndef RV_LEARN_MEMORY_RADIUS_H
#define RV_LEARN_MEMORY_RADIUS_H

#include "learn/memory_page.h"

/* Rows of texts that the model has written. */
struct rv_memory_radius_rows {
    size_t n;
    const float *states;     // n rows of n_dims
    const int32_t *texts;    // n: which text a row is of; -1: it does not count
    const int32_t *contexts; // n of RV_MEMORY_PAGE_CONTEXT: tokens that were read before, the last first
    const int32_t *tokens;   // n: that was drawn
    const float *logprobs;   // n: of it
};

/*
 * The largest radius for which at most `rate` of the rows find a key among all surprising rows of other
 * texts that would have them say another token. 0 when the rows are too few to tell.
 */
RV_CHECKED ruvllm_status rv_memory_radius_measure(const struct rv_memory_radius_rows *rows,
                                                  const struct rv_whitening *whitening, double rate, float *radius,
                                                  struct ruvllm_error *err);

/* The rate that memories are used with. */
extern const double rv_memory_radius_rate;

#endif
