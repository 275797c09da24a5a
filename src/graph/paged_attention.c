/*
 * Work is cut into items of one KV head and some neighbouring rows of one sequence; threads draw items from a counter
 * until none is left. Which thread computes an item, and with which others it shares a call of the kernel, changes no
 * bit of its result.
 *
 * Threads: begin() runs alone, before the step. During the step the plan is only read; the counters are atomic
 * (relaxed: ggml's barrier between nodes orders everything else); each thread has scratch memory of its own.
 */
#include "graph/paged_attention.h"

#include "base/alloc.h"
#include "kernels/hadamard.h"
#include "kv/kv_seq.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64, MAX_Q = RV_ATTENTION_KERNEL_MAX_Q };

/* Neighbouring rows of one sequence. */
struct tile {
    int32_t seq;
    int32_t first_row; // of q
    int32_t n_rows;
};

/* The rows a node attends for: all of the batch, or those read out. */
struct plan {
    int32_t n_rows;
    int32_t *pos; // n_rows
    struct tile *tiles;
    int32_t n_tiles;
    int32_t heads_per_item; // query heads of a KV head that an item takes
    int32_t items_per_head; // items that a KV head's queries of a tile are cut into
};

/* What a node knows besides its tensors. */
struct node {
    struct rv_paged_attention *paged;
    int32_t layer;
    atomic_int next_item[2]; // by only_out
};

struct scratch {
    float *kernel;
    float *rotated; // MAX_Q vectors
    const float *q[MAX_Q];
    float *out[MAX_Q];
    int32_t first[MAX_Q];
    int32_t end[MAX_Q];
};

struct rv_paged_attention {
    struct rv_paged_attention_config config;
    rv_attention_kernel_fn kernel;
    int32_t group; // query heads a KV head serves
    const struct rv_batch *batch;
    struct plan plans[2];    // by only_out
    struct node *nodes;      // n_layers
    struct scratch *scratch; // n_threads
    float *memory;           // of all scratch
};

/* ---- planning ------------------------------------------------------------------------------ */

static void add_row(const struct rv_paged_attention *p, struct plan *plan, int32_t row, int32_t max_rows)
{
    int32_t seq = p->batch->seq[row];
    struct tile *last = plan->n_tiles > 0 ? &plan->tiles[plan->n_tiles - 1] : NULL;

    if (last && last->seq == seq && last->n_rows < max_rows)
        last->n_rows++;
    else
        plan->tiles[plan->n_tiles++] = (struct tile){.seq = seq, .first_row = plan->n_rows, .n_rows = 1};
    plan->pos[plan->n_rows++] = p->batch->pos[row];
}

/* One row's queries fill an item at most; several rows share one where they fit; few tiles are cut for idle threads. */
static void fill_plan(const struct rv_paged_attention *p, struct plan *plan, const int32_t *rows, int32_t n_rows)
{
    int32_t max_rows = p->group < MAX_Q ? MAX_Q / p->group : 1;
    int32_t n_cuts;

    plan->n_rows = 0;
    plan->n_tiles = 0;
    for (int32_t i = 0; i < n_rows; i++)
        add_row(p, plan, rows ? rows[i] : i, max_rows);
    if (plan->n_tiles == 0)
        return;
    n_cuts = (p->config.n_threads + plan->n_tiles * p->config.hparams->n_kv_heads - 1) /
             (plan->n_tiles * p->config.hparams->n_kv_heads);
    plan->heads_per_item = (p->group + n_cuts - 1) / n_cuts;
    if (plan->heads_per_item > MAX_Q)
        plan->heads_per_item = MAX_Q;
    plan->items_per_head = (p->group + plan->heads_per_item - 1) / plan->heads_per_item;
}

void rv_paged_attention_begin(struct rv_paged_attention *paged, const struct rv_batch *batch)
{
    RV_ASSERT(batch->seqs && batch->n_rows <= paged->config.max_rows);
    paged->batch = batch;
    fill_plan(paged, &paged->plans[0], NULL, batch->n_rows);
    fill_plan(paged, &paged->plans[1], batch->out_rows, batch->n_out);
    for (int32_t i = 0; i < paged->config.hparams->n_layers; i++) {
        atomic_store_explicit(&paged->nodes[i].next_item[0], 0, memory_order_relaxed);
        atomic_store_explicit(&paged->nodes[i].next_item[1], 0, memory_order_relaxed);
    }
}

/* ---- storing ------------------------------------------------------------------------------- */

static const float *row_of(const struct ggml_tensor *t, int32_t head, int32_t row)
{
    return (const float *)(const void *)((const char *)t->data + (size_t)head * t->nb[1] + (size_t)row * t->nb[2]);
}

static void store_row(const struct node *n, const struct ggml_tensor *k, const struct ggml_tensor *v, int32_t head,
                      int32_t row, float *rotated)
{
    const struct rv_paged_attention *p = n->paged;
    const struct rv_batch *batch = p->batch;
    const struct rv_kv_seq *seq = batch->seqs[batch->seq[row]];
    int32_t dim = p->config.hparams->head_dim, pos = batch->pos[row];
    uint8_t *block = rv_block_pool_data(p->config.pool, seq->blocks[pos / RV_KV_BLOCK_TOKENS]);
    const float *k_row = row_of(k, head, row), *v_row = row_of(v, head, row);

    if (p->config.rotates) {
        memcpy(rotated, k_row, (size_t)dim * sizeof(float));
        memcpy(rotated + dim, v_row, (size_t)dim * sizeof(float));
        rv_hadamard(rotated, dim);
        rv_hadamard(rotated + dim, dim);
        k_row = rotated;
        v_row = rotated + dim;
    }
    rv_kv_block_put(block + rv_block_pool_k_offset(p->config.pool, RV_KV_BLOCK_F16, n->layer, head),
                    block + rv_block_pool_v_offset(p->config.pool, RV_KV_BLOCK_F16, n->layer, head), dim,
                    pos % RV_KV_BLOCK_TOKENS, k_row, v_row);
}

/* Items run head by head, so that two threads meet in a block's cache lines at one place only. */
static void store(struct ggml_tensor *dst, int i_thread, int n_threads, void *user)
{
    const struct node *n = user;
    int32_t n_rows = n->paged->batch->n_rows;
    int32_t n_items = n_rows * n->paged->config.hparams->n_kv_heads;
    int32_t first = (int32_t)((int64_t)n_items * i_thread / n_threads);
    int32_t end = (int32_t)((int64_t)n_items * (i_thread + 1) / n_threads);

    RV_ASSERT(i_thread < n->paged->config.n_threads);
    for (int32_t i = first; i < end; i++)
        store_row(n, dst->src[0], dst->src[1], i / n_rows, i % n_rows, n->paged->scratch[i_thread].rotated);
}

struct ggml_tensor *rv_paged_attention_store(struct rv_paged_attention *paged, struct ggml_context *ctx, int32_t layer,
                                             struct ggml_tensor *k, struct ggml_tensor *v)
{
    struct ggml_tensor *args[] = {k, v};

    return ggml_custom_4d(ctx, GGML_TYPE_F32, 1, 1, 1, 1, args, 2, store, GGML_N_TASKS_MAX, &paged->nodes[layer]);
}

/* ---- attending ----------------------------------------------------------------------------- */

/* The queries of an item; rotated copies where the keys are. */
static int32_t gather(const struct node *n, const struct plan *plan, const struct tile *tile, int32_t first_head,
                      int32_t n_heads, const struct ggml_tensor *q, struct ggml_tensor *dst, struct scratch *s)
{
    const struct rv_hparams *h = n->paged->config.hparams;
    int32_t window = h->layer_has_window[n->layer] ? h->window : 0, n_q = 0;

    for (int32_t row = tile->first_row; row < tile->first_row + tile->n_rows; row++) {
        for (int32_t head = first_head; head < first_head + n_heads; head++, n_q++) {
            s->q[n_q] = row_of(q, head, row);
            s->out[n_q] = (float *)dst->data + ((size_t)row * (size_t)h->n_heads + (size_t)head) * (size_t)h->head_dim;
            s->end[n_q] = plan->pos[row] + 1;
            s->first[n_q] = window > 0 && s->end[n_q] > window ? s->end[n_q] - window : 0;
            if (n->paged->config.rotates) {
                float *copy = s->rotated + (size_t)n_q * (size_t)h->head_dim;
                memcpy(copy, s->q[n_q], (size_t)h->head_dim * sizeof(float));
                rv_hadamard(copy, h->head_dim);
                s->q[n_q] = copy;
            }
        }
    }
    return n_q;
}

static void attend_item(const struct node *n, const struct plan *plan, int32_t item, struct ggml_tensor *dst,
                        struct scratch *s)
{
    const struct rv_paged_attention *p = n->paged;
    const struct rv_hparams *h = p->config.hparams;
    int32_t per_tile = plan->items_per_head * h->n_kv_heads;
    const struct tile *tile = &plan->tiles[item / per_tile];
    int32_t kv_head = item % per_tile / plan->items_per_head;
    int32_t cut = item % plan->items_per_head * plan->heads_per_item;
    int32_t n_heads = p->group - cut < plan->heads_per_item ? p->group - cut : plan->heads_per_item;
    struct rv_attention_call call = {.head_dim = h->head_dim,
                                     .scale = h->attention_scale,
                                     .cap = h->attention_cap,
                                     .blocks = rv_block_pool_blocks(p->config.pool),
                                     .table = p->batch->seqs[tile->seq]->blocks,
                                     .q = s->q,
                                     .out = s->out,
                                     .first = s->first,
                                     .end = s->end,
                                     .scratch = s->kernel};

    for (int f = 0; f < RV_KV_BLOCK_N_FORMATS; f++) {
        call.k_offset[f] = rv_block_pool_k_offset(p->config.pool, (enum rv_kv_block_format)f, n->layer, kv_head);
        call.v_offset[f] = rv_block_pool_v_offset(p->config.pool, (enum rv_kv_block_format)f, n->layer, kv_head);
    }
    call.n_q = gather(n, plan, tile, kv_head * p->group + cut, n_heads, dst->src[0], dst, s);
    p->kernel(&call);
    for (int32_t i = 0; p->config.rotates && i < call.n_q; i++)
        rv_hadamard(s->out[i], h->head_dim);
}

static void attend(struct node *n, struct ggml_tensor *dst, int i_thread, int only_out)
{
    const struct plan *plan = &n->paged->plans[only_out];
    int32_t n_items = plan->n_tiles * plan->items_per_head * n->paged->config.hparams->n_kv_heads;

    RV_ASSERT(i_thread < n->paged->config.n_threads);
    for (;;) {
        int32_t item = atomic_fetch_add_explicit(&n->next_item[only_out], 1, memory_order_relaxed);
        if (item >= n_items)
            return;
        attend_item(n, plan, item, dst, &n->paged->scratch[i_thread]);
    }
}

static void attend_all(struct ggml_tensor *dst, int i_thread, int n_threads, void *user)
{
    (void)n_threads;
    attend(user, dst, i_thread, 0);
}

static void attend_out(struct ggml_tensor *dst, int i_thread, int n_threads, void *user)
{
    (void)n_threads;
    attend(user, dst, i_thread, 1);
}

struct ggml_tensor *rv_paged_attention_attend(struct rv_paged_attention *paged, struct ggml_context *ctx, int32_t layer,
                                              struct ggml_tensor *q, struct ggml_tensor *stored, bool only_out)
{
    struct ggml_tensor *args[] = {q, stored};

    return ggml_custom_4d(ctx, GGML_TYPE_F32, q->ne[0] * q->ne[1], q->ne[2], 1, 1, args, 2,
                          only_out ? attend_out : attend_all, GGML_N_TASKS_MAX, &paged->nodes[layer]);
}

/* ---- life ---------------------------------------------------------------------------------- */

static bool allocate_scratch(struct rv_paged_attention *p)
{
    size_t dim = (size_t)p->config.hparams->head_dim, n_threads = (size_t)p->config.n_threads;
    size_t kernel = (rv_attention_kernel_scratch(p->config.hparams->head_dim) + 15) / 16 * 16;
    size_t rotated = (MAX_Q * dim + 15) / 16 * 16; // floats, in whole cache lines

    p->scratch = rv_calloc(n_threads, sizeof(*p->scratch));
    p->memory = aligned_alloc(ALIGNMENT, n_threads * (kernel + rotated) * sizeof(float));
    if (!p->scratch || !p->memory)
        return false;
    for (size_t i = 0; i < n_threads; i++) {
        p->scratch[i].kernel = p->memory + i * (kernel + rotated);
        p->scratch[i].rotated = p->scratch[i].kernel + kernel;
    }
    return true;
}

ruvllm_status rv_paged_attention_new(struct rv_paged_attention **out, const struct rv_paged_attention_config *config,
                                     struct ruvllm_error *err)
{
    struct rv_paged_attention *p = rv_calloc(1, sizeof(*p));
    size_t max_rows = (size_t)config->max_rows;

    *out = NULL;
    if (!p)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate attention");
    p->config = *config;
    p->kernel = rv_attention_kernel_best();
    p->group = config->hparams->n_heads / config->hparams->n_kv_heads;
    p->nodes = rv_calloc((size_t)config->hparams->n_layers, sizeof(*p->nodes));
    for (int i = 0; i < 2; i++) {
        p->plans[i].pos = rv_calloc(max_rows, sizeof(*p->plans[i].pos));
        p->plans[i].tiles = rv_calloc(max_rows, sizeof(*p->plans[i].tiles));
    }
    if (!p->nodes || !p->plans[0].pos || !p->plans[1].pos || !p->plans[0].tiles || !p->plans[1].tiles ||
        !allocate_scratch(p)) {
        rv_paged_attention_free(p);
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate attention for %zu rows", max_rows);
    }
    for (int32_t i = 0; i < config->hparams->n_layers; i++) {
        p->nodes[i].paged = p;
        p->nodes[i].layer = i;
    }
    *out = p;
    return RUVLLM_OK;
}

void rv_paged_attention_free(struct rv_paged_attention *paged)
{
    if (!paged)
        return;
    for (int i = 0; i < 2; i++) {
        rv_free(paged->plans[i].pos);
        rv_free(paged->plans[i].tiles);
    }
    rv_free(paged->nodes);
    rv_free(paged->scratch);
    free(paged->memory);
    rv_free(paged);
}
