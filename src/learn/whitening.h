/*
 * The inverse of the covariance of a model's states at the head's input, in a form that costs little to apply: the
 * largest directions each with their own size, everything else with one. A step that is multiplied with it goes where
 * the model seldom is: it changes the answer it came from and little else.
 *
 * Made once for a model from states of ordinary text; immutable after that, read from any thread.
 */
#ifndef RV_LEARN_WHITENING_H
#define RV_LEARN_WHITENING_H

#include "base/error.h"

enum { RV_WHITENING_MAX_DIRECTIONS = 128 };

struct rv_whitening {
    int32_t n_dims;
    int32_t n_directions;
    float *directions; // n_directions rows of n_dims, orthonormal
    uint16_t *halves;  // the same as bfloat16, for what is done often: half as much to fetch
    float *squares;    // the squared lengths they are left with
    float *variances;  // of each, the largest first
    float rest;        // of every other direction
    float ridge;       // added to all: 2 % of the mean variance
    float radius;      // of keys in whitened coordinates, see memory_radius.h; 0: not measured
};

/* `states` are n rows of n_dims; at least one, all finite (else INVALID). The same rows give the same bits. */
RV_CHECKED ruvllm_status rv_whitening_init(struct rv_whitening *out, const float *states, size_t n, int32_t n_dims,
                                           struct ruvllm_error *err);
/* Makes halves and squares of one whose other numbers are there; on failure it is released. */
RV_CHECKED ruvllm_status rv_whitening_round(struct rv_whitening *whitening, struct ruvllm_error *err);
void rv_whitening_release(struct rv_whitening *whitening);

/* The mean squared length of ordinary states. */
double rv_whitening_mean_square(const struct rv_whitening *whitening);
/* out[k * stride + i] = direction k . row i, for each of n rows and all directions. */
void rv_whitening_parts(const struct rv_whitening *whitening, const float *rows, size_t n, size_t stride, float *out);
/*
 * Each of n rows of out = row C^-1, with C normed to a mean variance of 1, so that ordinary directions keep their size.
 * Rows together cost less than one by one, and come to the same bits; likewise below.
 */
void rv_whitening_apply(const struct rv_whitening *whitening, const float *rows, size_t n, float *out);
/* Each of n rows becomes row C^-1/2: in these coordinates the model's states lie equally far in all directions. */
void rv_whitening_root(const struct rv_whitening *whitening, float *rows, size_t n);
/* out = row C, with the ridge and not normed: row . out is what the row's inner products with ordinary states square
 * to. */
void rv_whitening_metric(const struct rv_whitening *whitening, const float *row, float *out);

#endif
