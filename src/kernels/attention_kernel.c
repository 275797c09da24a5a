/* The scalar statement of the kernel, and the choice among the variants. */
#include "kernels/attention_kernel.h"

#include "base/error.h"

#include <math.h>

enum { MAX_DIM = 512, LINE_FLOATS = 16 };

/*
 * What the variants keep of each query: itself times scale, the sum of values so far, the maximum so far, and a sum of
 * weights in each lane. Rows of values are padded to whole lines.
 */
size_t rv_attention_kernel_scratch(int32_t head_dim)
{
    size_t row = ((size_t)head_dim + LINE_FLOATS - 1) / LINE_FLOATS * LINE_FLOATS;

    return RV_ATTENTION_KERNEL_MAX_Q * (2 * row + 1 + LINE_FLOATS);
}

static void attend(const struct rv_attention_call *call, int32_t i_q)
{
    double sums[MAX_DIM] = {0}, weights = 0, max = -INFINITY;
    float key[MAX_DIM], value[MAX_DIM];

    for (int32_t pos = call->first[i_q]; pos < call->end[i_q]; pos++) {
        const struct rv_attention_block *b = &call->blocks[call->table[pos / RV_KV_BLOCK_TOKENS]];
        double score = 0, weight;

        rv_kv_block_get(b->format, b->data + call->k_offset[b->format], b->data + call->v_offset[b->format],
                        call->head_dim, pos % RV_KV_BLOCK_TOKENS, key, value);
        for (int32_t d = 0; d < call->head_dim; d++)
            score += (double)call->q[i_q][d] * (double)key[d];
        score *= (double)call->scale;
        if (call->cap != 0.0f)
            score = (double)call->cap * tanh(score / (double)call->cap);
        if (score > max) {
            double shrink = exp(max - score);

            max = score;
            weights *= shrink;
            for (int32_t d = 0; d < call->head_dim; d++)
                sums[d] *= shrink;
        }
        weight = exp(score - max);
        weights += weight;
        for (int32_t d = 0; d < call->head_dim; d++)
            sums[d] += weight * (double)value[d];
    }
    for (int32_t d = 0; d < call->head_dim; d++)
        call->out[i_q][d] = (float)(sums[d] / weights);
}

void rv_attention_kernel_scalar(const struct rv_attention_call *call)
{
    RV_ASSERT(call->head_dim <= MAX_DIM && call->n_q <= RV_ATTENTION_KERNEL_MAX_Q);
    for (int32_t i = 0; i < call->n_q; i++)
        attend(call, i);
}

rv_attention_kernel_fn rv_attention_kernel_best(void)
{
    rv_attention_kernel_fn fn = rv_attention_kernel_avx512();

    if (!fn)
        fn = rv_attention_kernel_avx2();
    if (!fn)
        fn = rv_attention_kernel_neon();
    return fn ? fn : rv_attention_kernel_scalar;
}
