/*
 * Softmax weights. A logit's depth is how far it lies below the row's best one, in bits and after temperature; its
 * weight is 2^-depth: 1 for the best token, 0 for one that is not finite or lies deeper than float can say.
 *
 * The same logits give the same bits on every machine: no libm, one rounding per statement (so that no
 * compiler fuses a multiply with an add), sums in a fixed order. The relative error of a weight is below 2^-22
 * for depths up to 8; it grows with the depth as the rounding of the logits themselves does.
 */
#ifndef RV_SAMPLE_WEIGHT_H
#define RV_SAMPLE_WEIGHT_H

#include <stddef.h>

/* From this depth on a weight is 0: 2^-120 never wins a draw of 53 bits. What cannot be chosen has this depth. */
#define RV_WEIGHT_MAX_DEPTH 120.0f

/* The largest finite logit; -INFINITY when there is none. */
float rv_weight_max(const float *logits, size_t n);
/* Bits of depth per unit of logit at this temperature (> 0; tiny ones are held where 0 * scale is still 0). */
float rv_weight_scale(float temperature);
/* Depth (0 to RV_WEIGHT_MAX_DEPTH) and weight of one logit. */
float rv_weight_depth(float logit, float max, float scale);
float rv_weight_at(float logit, float max, float scale);
/* Writes n weights and returns their sum. */
double rv_weight_fill(float *weights, const float *logits, size_t n, float max, float scale);
/* The sum alone. */
double rv_weight_sum(const float *logits, size_t n, float max, float scale);

#endif
