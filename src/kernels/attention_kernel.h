/*
 * Attention of some query vectors of one KV head over a sequence's blocks: softmax(q k * scale) v by running maximum
 * and sum, one pass, each block read once in its own precision.
 *
 * A query's result depends on nothing but itself and what it sees: not on the other queries of the call, and not on the
 * rest of a block, which may hold anything. Queries that see the same positions are cheapest as neighbours.
 */
#ifndef RV_KERNELS_ATTENTION_KERNEL_H
#define RV_KERNELS_ATTENTION_KERNEL_H

#include "kernels/kv_block.h"

enum { RV_ATTENTION_KERNEL_MAX_Q = 64 };

/* A block in memory: all layers and heads of 32 tokens. */
struct rv_attention_block {
    const uint8_t *data;
    enum rv_kv_block_format format;
};

struct rv_attention_call {
    int32_t head_dim; // a multiple of 8, at most 512
    float scale;
    float cap;                               // scores become cap * tanh(score / cap); 0: they stay
    const struct rv_attention_block *blocks; // all there are; those nobody sees are not touched
    const int32_t *table;                    // entry i: which of them holds positions 32 i to 32 i + 31
    size_t k_offset[RV_KV_BLOCK_N_FORMATS];  // where this layer's and head's keys are in a block of that format
    size_t v_offset[RV_KV_BLOCK_N_FORMATS];
    int32_t n_q;           // 1 to RV_ATTENTION_KERNEL_MAX_Q
    const float *const *q; // n_q vectors of head_dim
    float *const *out;     // n_q vectors of head_dim
    const int32_t *first;  // n_q: query i sees positions first[i] to end[i] - 1, at least one
    const int32_t *end;    // n_q
    float *scratch;        // rv_attention_kernel_scratch(head_dim) floats, 64-byte aligned
};

size_t rv_attention_kernel_scratch(int32_t head_dim);

typedef void (*rv_attention_kernel_fn)(const struct rv_attention_call *call);

/* The plain statement of what the others compute. */
void rv_attention_kernel_scalar(const struct rv_attention_call *call);
/* NULL where the build or the machine does not have the instructions. */
rv_attention_kernel_fn rv_attention_kernel_avx2(void);
rv_attention_kernel_fn rv_attention_kernel_avx512(void);
rv_attention_kernel_fn rv_attention_kernel_neon(void);
/* The best there is here. */
rv_attention_kernel_fn rv_attention_kernel_best(void);

#endif
