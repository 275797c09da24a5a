/*
 * Queries, keys and values; RoPE; the cache; attention: ggml's flash attention over cells, or ours over block tables.
 *
 * The projections come in two layouts, as the file has them: three matrices, or one. Putting them behind each other at
 * load time was tried and lost: see docs/adr/0011.
 */
#include "graph/attention.h"

/* Heads of the rows: each [head_dim, heads, rows]. */
struct heads {
    struct ggml_tensor *q, *k, *v;
    struct ggml_tensor *qk; // q and k as neighbours in memory, where one matrix made them; else NULL
};

/* `n_heads` heads starting `first` values into each row of x [n, rows]. */
static struct ggml_tensor *view_heads(const struct rv_build *b, struct ggml_tensor *x, int32_t n_heads, int32_t first)
{
    int32_t dim = b->hparams->head_dim;
    size_t size = ggml_element_size(x);

    return ggml_view_3d(b->ctx, x, dim, n_heads, x->ne[1], (size_t)dim * size, x->nb[1], (size_t)first * size);
}

/* Three matrices: queries of the rows of x_q, or none. All three change in one node where they share their rows. */
static struct heads project_apart(const struct rv_build *b, int32_t layer, struct ggml_tensor *x,
                                  struct ggml_tensor *x_q)
{
    const struct rv_layer_weights *l = &b->weights->layers[layer];
    const struct rv_hparams *h = b->hparams;
    struct rv_lora_targets t = {.layer = layer,
                                .n = x_q == x ? 3 : 2,
                                .parts = {RV_PART_V, RV_PART_K, RV_PART_Q},
                                .y = {rv_build_linear(b, l->v, l->v_b, x), rv_build_linear(b, l->k, l->k_b, x)}};
    struct ggml_tensor *q = x_q ? rv_build_linear(b, l->q, l->q_b, x_q) : NULL;

    t.y[2] = q;
    rv_build_change(b, x, &t);
    if (q)
        q = x_q == x ? t.y[2] : rv_build_change_one(b, layer, RV_PART_Q, x_q, q);
    return (struct heads){.q = q ? view_heads(b, q, h->n_heads, 0) : NULL,
                          .k = view_heads(b, t.y[1], h->n_kv_heads, 0),
                          .v = view_heads(b, t.y[0], h->n_kv_heads, 0)};
}

static struct heads project(const struct rv_build *b, int32_t layer, struct ggml_tensor *x, struct ggml_tensor *x_q)
{
    const struct rv_layer_weights *l = &b->weights->layers[layer];
    const struct rv_hparams *h = b->hparams;
    int32_t n_q = rv_hparams_n_q(h), n_kv = rv_hparams_n_kv(h);
    struct heads out = {0};

    if (l->qkv) {
        struct ggml_tensor *all = rv_build_linear(b, l->qkv, l->qkv_b, x); /* [n_q + 2 n_kv, rows] */
        all = rv_build_change_one(b, layer, RV_PART_QKV, x, all);
        out.q = view_heads(b, all, h->n_heads, 0);
        out.k = view_heads(b, all, h->n_kv_heads, n_q);
        out.v = view_heads(b, all, h->n_kv_heads, n_q + n_kv);
        out.qk = view_heads(b, all, h->n_heads + h->n_kv_heads, 0);
        return out;
    }
    return project_apart(b, layer, x, x_q);
}

static struct ggml_tensor *rotate(const struct rv_build *b, int32_t layer, struct ggml_tensor *x,
                                  struct ggml_tensor *pos)
{
    const struct rv_rope *r = &b->hparams->rope;
    bool windowed = b->hparams->layer_has_window[layer];
    int mode = b->hparams->arch->rope_neox ? GGML_ROPE_TYPE_NEOX : GGML_ROPE_TYPE_NORMAL;

    return ggml_rope_ext(b->ctx, x, pos, b->rope_factors, r->n_dims, mode, r->original_context,
                         windowed ? r->freq_base_window : r->freq_base, windowed ? r->freq_scale_window : r->freq_scale,
                         r->ext_factor, r->attn_factor, r->beta_fast, r->beta_slow);
}

/* Norms of queries and keys, then positions. Where q and k are neighbours and bare, one node turns both. */
static void normalise_and_rotate(const struct rv_build *b, int32_t layer, struct heads *heads,
                                 struct ggml_tensor *q_pos)
{
    const struct rv_layer_weights *l = &b->weights->layers[layer];
    const struct rv_hparams *h = b->hparams;

    if (heads->qk && !l->q_norm && !l->k_norm) {
        struct ggml_tensor *qk = rotate(b, layer, heads->qk, b->in.pos); /* [head_dim, heads + kv heads, rows] */
        heads->q = ggml_view_3d(b->ctx, qk, h->head_dim, h->n_heads, qk->ne[2], qk->nb[1], qk->nb[2], 0);
        heads->k = ggml_view_3d(b->ctx, qk, h->head_dim, h->n_kv_heads, qk->ne[2], qk->nb[1], qk->nb[2],
                                (size_t)h->n_heads * qk->nb[1]);
        return;
    }
    if (heads->q) {
        if (l->q_norm)
            heads->q = rv_build_norm(b, heads->q, l->q_norm, NULL);
        heads->q = rotate(b, layer, heads->q, q_pos);
    }
    if (l->k_norm)
        heads->k = rv_build_norm(b, heads->k, l->k_norm, NULL);
    heads->k = rotate(b, layer, heads->k, b->in.pos);
}

/* Writes rows of heads [head_dim, kv heads, rows] to their cells. */
static void store(const struct rv_build *b, struct ggml_tensor *cache, struct ggml_tensor *heads)
{
    struct ggml_tensor *rows = ggml_permute(b->ctx, heads, 0, 2, 1, 3); /* [head_dim, rows, kv heads] */

    ggml_build_forward_expand(b->graph, ggml_set_rows(b->ctx, cache, rows, b->in.cells));
}

/* The cells attention looks at: [head_dim, n_kv, kv heads]. */
static struct ggml_tensor *view_cells(struct rv_build *b, struct ggml_tensor *cache)
{
    struct ggml_tensor *view =
        ggml_view_3d(b->ctx, cache, cache->ne[0], b->n_kv, cache->ne[2], cache->nb[1], cache->nb[2], 0);

    b->kv_views[b->n_kv_views++] = view;
    return view;
}

static struct ggml_tensor *attend(struct rv_build *b, int32_t layer, struct ggml_tensor *q, struct ggml_tensor *mask)
{
    const struct rv_hparams *h = b->hparams;
    struct ggml_tensor *out;

    q = ggml_permute(b->ctx, q, 0, 2, 1, 3); /* [head_dim, rows, heads] */
    out = ggml_flash_attn_ext(b->ctx, q, view_cells(b, rv_kv_cache_k(b->kv, layer)),
                              view_cells(b, rv_kv_cache_v(b->kv, layer)), mask, h->attention_scale, 0.0f,
                              h->attention_cap);
    ggml_prec_set_acc(out, GGML_PREC_F32);
    return ggml_reshape_2d(b->ctx, out, rv_hparams_n_q(h), out->ne[2]); /* [n_q, rows] */
}

struct ggml_tensor *rv_attention(struct rv_build *b, int32_t layer, struct ggml_tensor *x, enum rv_attention_rows rows)
{
    const struct rv_layer_weights *l = &b->weights->layers[layer];
    const struct rv_build_inputs *in = &b->in;
    bool windowed = b->hparams->layer_has_window[layer] && in->window;
    bool narrow = rows == RV_ATTENTION_OUT && in->out_rows; // fewer results than rows
    bool early = narrow && !l->qkv;                         // ... and the queries can already be only those
    struct ggml_tensor *mask = windowed ? in->window : in->mask;
    struct ggml_tensor *x_q = x, *out;
    struct heads heads;

    if (early) {
        x_q = ggml_get_rows(b->ctx, x, in->out_rows);
        mask = windowed ? in->out_window : in->out_mask;
    }
    heads = project(b, layer, x, rows == RV_ATTENTION_NONE ? NULL : x_q);
    normalise_and_rotate(b, layer, &heads, early ? in->out_pos : in->pos);
    if (b->paged) {
        struct ggml_tensor *stored = rv_paged_attention_store(b->paged, b->ctx, layer, heads.k, heads.v);
        ggml_build_forward_expand(b->graph, stored);
        out = rows == RV_ATTENTION_NONE ? NULL
                                        : rv_paged_attention_attend(b->paged, b->ctx, layer, heads.q, stored, early);
    } else {
        store(b, rv_kv_cache_k(b->kv, layer), heads.k);
        store(b, rv_kv_cache_v(b->kv, layer), heads.v);
        out = rows == RV_ATTENTION_NONE ? NULL : attend(b, layer, heads.q, mask);
    }
    if (!out)
        return NULL;
    if (narrow && !early)
        out = ggml_get_rows(b->ctx, out, in->out_rows);
    return rv_build_change_one(b, layer, RV_PART_O, out, rv_build_linear(b, l->o, l->o_b, out)); /* [n_embd, rows] */
}
