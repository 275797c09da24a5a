/*
 * Rotary position embedding (arXiv 2104.09864) from a table of sines and cosines, with the scalings that stretch a
 * model's context. Numbers are ggml's (ggml_rope_ext), computed in doubles. A table is never changed: any thread may
 * read it.
 */
#ifndef RV_KERNELS_ROPE_TABLE_H
#define RV_KERNELS_ROPE_TABLE_H

#include "base/error.h"
#include "ruvllm_kernels.h"

/* INVALID, naming the field, when the config makes no sense. *out is NULL on failure. */
RV_CHECKED ruvllm_status rv_rope_table_new(struct ruvllm_rope_table **out, const struct ruvllm_rope_config *config,
                                           struct ruvllm_error *err);
void rv_rope_table_free(struct ruvllm_rope_table *table);

/* How many numbers of a head are rotated. */
int32_t rv_rope_table_dim(const struct ruvllm_rope_table *table);
int32_t rv_rope_table_n_positions(const struct ruvllm_rope_table *table);
/* Rotates the beginning of each of n_heads rows of head_dim floats in place; all belong to one position. */
void rv_rope_table_rotate(const struct ruvllm_rope_table *table, int32_t position, ruvllm_rope_pairing pairing,
                          float *rows, int32_t n_heads, int32_t head_dim);

#endif
