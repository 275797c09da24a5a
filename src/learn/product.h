/*
 * Linear maps of a frozen model with what is learned beside them, forward and backward, on all threads of a team.
 * Activations are [rows][n_columns], a column for each token; n_columns is a multiple of 32 (tile_gemm.h).
 */
#ifndef RV_LEARN_PRODUCT_H
#define RV_LEARN_PRODUCT_H

#include "kernels/tile_gemm.h"
#include "learn/team.h"
#include "learn/trainable.h"

struct rv_product {
    const struct rv_tile_gemm_ops *ops;
    struct rv_team *team;
    float *scratch;   // RV_TILE_GEMM_SCRATCH floats for each thread
    float *packed;    // max_rows x max_columns
    float *low[3];    // max_rank x max_columns each: A x, B dy, and a packed one
    int32_t max_rows; // of the widest input or output
    int32_t max_columns;
};

/* One map: y = W x + bias, and the pair beside it. */
struct rv_product_linear {
    struct rv_tile_gemm_matrix w;
    const float *bias;                    // NULL: none
    const struct rv_trainable_pair *pair; // NULL or of rank 0: none
};

RV_CHECKED ruvllm_status rv_product_init(struct rv_product *out, struct rv_team *team, int32_t max_rows,
                                         int32_t max_columns, struct ruvllm_error *err);
void rv_product_release(struct rv_product *product);
float *rv_product_scratch(const struct rv_product *product, int32_t thread);

/* The matrix of a tensor where it lies in the file; UNSUPPORTED for a type whose numbers ggml cannot decode. */
RV_CHECKED ruvllm_status rv_product_matrix(struct rv_tile_gemm_matrix *out, const struct rv_gguf_tensor *tensor,
                                           struct ruvllm_error *err);

/* y = W x + bias + scale B' (A x) */
void rv_product_forward(struct rv_product *product, const struct rv_product_linear *linear, const float *x,
                        int32_t n_columns, float *y);

/*
 * dx = W' dy + scale A' (B dy), added to what dx holds if `adds`; the gradients of the pair grow by scale (A x) dy' and
 * scale (B dy) x'. dx may be NULL when nobody asks for it.
 */
void rv_product_backward(struct rv_product *product, const struct rv_product_linear *linear, const float *x,
                         const float *dy, int32_t n_columns, bool adds, float *dx);

#endif
