/*
 * Blocks are made for what the table names, not for all there are; a block's slots are read only as far as the sequence
 * goes.
 */
#include "kernels/plain_attention.h"

#include "base/alloc.h"
#include "kernels/attention_kernel.h"

#include <stdlib.h>
#include <string.h>

enum { TOKENS = RV_KV_BLOCK_TOKENS, MAX_Q = RV_ATTENTION_KERNEL_MAX_Q, ALIGNMENT = 64 };
enum { MAX_HEADS = 1 << 14, MAX_DIM = 512, MAX_TOKENS = 1 << 24 };

struct work {
    const struct rv_plain_attention *call;
    rv_attention_kernel_fn kernel;
    int32_t n_entries;                 // of the table
    int32_t n_blocks;                  // that it can name
    int32_t *own_table;                // when the caller has none
    struct rv_attention_block *blocks; // n_blocks; those not in the table have no data
    int32_t *filled;                   // n_blocks: slots written
    uint8_t *storage;                  // n_entries blocks of one head
    float *scratch;
};

ruvllm_status rv_plain_attention_check_shape(int32_t n_heads, int32_t n_kv_heads, int32_t head_dim,
                                             struct ruvllm_error *err)
{
    if (n_heads < 1 || n_heads > MAX_HEADS || n_kv_heads < 1 || n_heads % n_kv_heads)
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_CONFIG,
                            "%d heads cannot share %d KV heads: one must divide the other, and 1 to %d are possible",
                            n_heads, n_kv_heads, MAX_HEADS);
    if (head_dim < 8 || head_dim > MAX_DIM || head_dim % 8)
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_CONFIG,
                            "'head_dim' is %d; it must be a multiple of 8, at most %d", head_dim, MAX_DIM);
    return RUVLLM_OK;
}

static ruvllm_status check(const struct rv_plain_attention *c, struct ruvllm_error *err)
{
    ruvllm_status rc = rv_plain_attention_check_shape(c->n_heads, c->n_kv_heads, c->head_dim, err);

    if (rc)
        return rc;
    if (c->n_q < 1 || c->n_q > MAX_TOKENS || c->n_kv < 1 || c->n_kv > MAX_TOKENS)
        return rv_fail(err, RUVLLM_INVALID, "%d queries over %d positions: 1 to %d of each are possible", c->n_q,
                       c->n_kv, MAX_TOKENS);
    if (c->causal && c->n_q > c->n_kv)
        return rv_fail(err, RUVLLM_INVALID, "the last of %d causal queries is at position %d: the first sees nothing",
                       c->n_q, c->n_kv - 1);
    for (int32_t i = 0; c->table && i * TOKENS < c->n_kv; i++) {
        if (c->table[i] < 0 || c->table[i] >= c->n_blocks)
            return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_PAGED_ATTENTION,
                                "entry %d of the block table is %d, there are %d blocks", i, c->table[i], c->n_blocks);
    }
    return RUVLLM_OK;
}

static size_t head_bytes(const struct work *w)
{
    return rv_kv_block_k_bytes(RV_KV_BLOCK_F16, w->call->head_dim);
}

static bool allocate(struct work *w)
{
    size_t scratch = rv_attention_kernel_scratch(w->call->head_dim) * sizeof(float);

    w->own_table = rv_calloc((size_t)w->n_entries, sizeof(*w->own_table));
    w->blocks = rv_calloc((size_t)w->n_blocks, sizeof(*w->blocks));
    w->filled = rv_calloc((size_t)w->n_blocks, sizeof(*w->filled));
    w->storage = aligned_alloc(ALIGNMENT, (size_t)w->n_entries * 2 * head_bytes(w)); // 64 bytes a number of the head
    w->scratch = aligned_alloc(ALIGNMENT, (scratch + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    return w->own_table && w->blocks && w->filled && w->storage && w->scratch;
}

static void release(struct work *w)
{
    rv_free(w->own_table);
    rv_free(w->blocks);
    rv_free(w->filled);
    free(w->storage);
    free(w->scratch);
}

static const int32_t *table_of(const struct work *w)
{
    return w->call->table ? w->call->table : w->own_table;
}

/* Names and places, the same for every head. What stands in the table twice is given a place twice, once in vain. */
static void lay_out(struct work *w)
{
    for (int32_t i = 0; i < w->n_entries; i++) {
        w->own_table[i] = i;
        w->blocks[table_of(w)[i]] =
            (struct rv_attention_block){.data = w->storage + (size_t)i * 2 * head_bytes(w), .format = RV_KV_BLOCK_F16};
    }
}

static void copy_head(struct work *w, int32_t kv_head)
{
    const struct rv_plain_attention *c = w->call;

    memset(w->filled, 0, (size_t)w->n_blocks * sizeof(*w->filled));
    for (int32_t i = 0; i < w->n_entries; i++) {
        int32_t b = table_of(w)[i], n = c->n_kv - i * TOKENS < TOKENS ? c->n_kv - i * TOKENS : TOKENS;
        uint8_t *data = w->storage + (w->blocks[b].data - w->storage); // what the kernel may only read

        for (; w->filled[b] < n; w->filled[b]++) {
            size_t row = ((size_t)b * TOKENS + (size_t)w->filled[b]) * (size_t)c->n_kv_heads + (size_t)kv_head;

            rv_kv_block_put(data, data + head_bytes(w), c->head_dim, w->filled[b], c->k + row * (size_t)c->head_dim,
                            c->v + row * (size_t)c->head_dim);
        }
    }
}

/* Queries of one KV head, query by query and within it head by head, in calls of as many as the kernel takes. */
static void attend_head(const struct work *w, int32_t kv_head)
{
    const struct rv_plain_attention *c = w->call;
    int32_t group = c->n_heads / c->n_kv_heads, first[MAX_Q] = {0}, end[MAX_Q];
    int64_t n = (int64_t)c->n_q * group;
    const float *q[MAX_Q];
    float *out[MAX_Q];
    struct rv_attention_call call = {.head_dim = c->head_dim,
                                     .scale = c->scale,
                                     .blocks = w->blocks,
                                     .table = table_of(w),
                                     .v_offset = {[RV_KV_BLOCK_F16] = head_bytes(w)},
                                     .q = q,
                                     .out = out,
                                     .first = first,
                                     .end = end,
                                     .scratch = w->scratch};

    for (int64_t start = 0; start < n; start += MAX_Q) {
        call.n_q = n - start < MAX_Q ? (int32_t)(n - start) : MAX_Q;
        for (int32_t j = 0; j < call.n_q; j++) {
            int32_t i = (int32_t)((start + j) / group), head = kv_head * group + (int32_t)((start + j) % group);
            size_t at = ((size_t)i * (size_t)c->n_heads + (size_t)head) * (size_t)c->head_dim;

            q[j] = c->q + at;
            out[j] = c->out + at;
            end[j] = c->causal ? c->n_kv - c->n_q + i + 1 : c->n_kv;
        }
        w->kernel(&call);
    }
}

ruvllm_status rv_plain_attention(const struct rv_plain_attention *call, struct ruvllm_error *err)
{
    struct work w = {.call = call, .kernel = rv_attention_kernel_best()};
    ruvllm_status rc = check(call, err);

    if (rc)
        return rc;
    w.n_entries = (call->n_kv + TOKENS - 1) / TOKENS;
    w.n_blocks = call->table ? call->n_blocks : w.n_entries;
    if (allocate(&w)) {
        lay_out(&w);
        for (int32_t head = 0; head < call->n_kv_heads; head++) {
            copy_head(&w, head);
            attend_head(&w, head);
        }
    } else {
        rc = rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate attention over %d positions", call->n_kv);
    }
    release(&w);
    return rc;
}
