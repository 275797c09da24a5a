/*
 * Attention over keys and values in plain arrays of floats: copies them into blocks of the engine's format, one KV head
 * at a time, and calls the engine's kernel. For embedding and testing; the engine writes its blocks once and attends to
 * them in place.
 */
#ifndef RV_KERNELS_PLAIN_ATTENTION_H
#define RV_KERNELS_PLAIN_ATTENTION_H

#include "base/error.h"

struct rv_plain_attention {
    int32_t n_heads, n_kv_heads, head_dim; // as rv_plain_attention_check_shape has them
    float scale;
    bool causal; // query i sees positions up to n_kv - n_q + i; else all
    int32_t n_q, n_kv;
    const float *q;       // [n_q][n_heads][head_dim]
    const float *k, *v;   // [n_kv][n_kv_heads][head_dim], or [n_blocks][32][n_kv_heads][head_dim] with a table
    const int32_t *table; // entry i: which block holds positions 32 i to 32 i + 31; NULL: they lie in order
    int32_t n_blocks;     // with a table only
    float *out;           // [n_q][n_heads][head_dim]
};

/* INVALID unless the kernel can do it: KV heads that divide the heads, head_dim a multiple of 8 up to 512. */
RV_CHECKED ruvllm_status rv_plain_attention_check_shape(int32_t n_heads, int32_t n_kv_heads, int32_t head_dim,
                                                        struct ruvllm_error *err);
/* Checks counts and table, allocates blocks for one KV head, and computes. `out` is untouched by a failure. */
RV_CHECKED ruvllm_status rv_plain_attention(const struct rv_plain_attention *call, struct ruvllm_error *err);

#endif
