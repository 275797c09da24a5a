/*
 * With scores s = scale k'q (bent by cap tanh(s / cap) where there is a cap), p = softmax(s), o = v p:
 * dv = p do', dp = v' do, ds = p (dp - sum(p dp)), dq = scale k ds, dk = scale ds q'.
 * dk and dv are summed the other way round, [key][number], because then the keys are the rows of the product.
 */
#include "learn/train_attention.h"

#include <math.h>
#include <string.h>

enum { STRIP = RV_TILE_GEMM_STRIP };

static int32_t padded_dim(const struct rv_hparams *h)
{
    return (h->head_dim + STRIP - 1) / STRIP * STRIP;
}

/* The pieces of the scratch memory. */
struct pieces {
    float *in;     // [padded dim][32]: packed queries or gradients of a strip
    float *turned; // [padded dim / 32][32 tokens][32]: the same with tokens as rows
    float *p;      // [keys][32]
    float *dp;     // [keys][32]
    float *slope;  // [keys][32]: of the cap
    float *dk;     // [keys][padded dim]
    float *dv;
};

size_t rv_train_attention_scratch(const struct rv_hparams *hparams, int32_t n_columns)
{
    size_t dim = (size_t)padded_dim(hparams), n = (size_t)n_columns;

    return 2 * dim * STRIP + 3 * n * STRIP + 2 * n * dim;
}

static struct pieces cut(const struct rv_train_attention *a)
{
    size_t dim = (size_t)padded_dim(a->hparams), n = (size_t)a->n_columns;
    struct pieces s = {.in = a->scratch};

    s.turned = s.in + dim * STRIP;
    s.p = s.turned + dim * STRIP;
    s.dp = s.p + n * STRIP;
    s.slope = s.dp + n * STRIP;
    s.dk = s.slope + n * STRIP;
    s.dv = s.dk + n * dim;
    return s;
}

/* Rows of one head in the columns of the sequence, as a matrix [head_dim][n_keys]. */
static struct rv_tile_gemm_matrix head_matrix(const struct rv_train_attention *a, const float *x, int32_t head,
                                              int32_t n_keys)
{
    int32_t dim = a->hparams->head_dim;

    return (struct rv_tile_gemm_matrix){.data = x + (size_t)head * (size_t)dim * a->stride + (size_t)a->first,
                                        .row_bytes = a->stride * sizeof(float),
                                        .n_rows = dim,
                                        .n_cols = n_keys,
                                        .block = 1,
                                        .block_bytes = sizeof(float)};
}

/* Where a head's rows begin, at a column of the sequence. */
static size_t place(const struct rv_train_attention *a, int32_t head, int32_t column)
{
    return (size_t)head * (size_t)a->hparams->head_dim * a->stride + (size_t)(a->first + column);
}

/* out[keys][32] = x' in, for a head's keys or values. */
static void against(const struct rv_train_attention *a, const float *x, int32_t kv_head, int32_t n_keys,
                    const float *in, float *out)
{
    struct rv_tile_gemm_matrix m = head_matrix(a, x, kv_head, n_keys);

    memset(out, 0, (size_t)n_keys * STRIP * sizeof(*out));
    rv_tile_gemm_multiply_transposed(a->ops, &m, 0, n_keys, in, STRIP, out, STRIP, a->panels);
}

/* Scores of key j to what softmax takes: scaled, bent, -INFINITY where the query does not see it. */
static void shape_scores(const struct rv_train_attention *a, int32_t strip, int32_t j, float *row, float *slope)
{
    const struct rv_hparams *h = a->hparams;
    float cap = h->attention_cap;

    for (int t = 0; t < STRIP; t++)
        row[t] *= h->attention_scale;
    if (cap > 0.0f) {
        a->ops->tanh_scaled(row, 1.0f / cap, row, STRIP);
        for (int t = 0; t < STRIP; t++) {
            slope[t] = 1.0f - row[t] * row[t];
            row[t] *= cap;
        }
    }
    for (int32_t t = 0; t < STRIP; t++) {
        int32_t distance = strip + t - j;

        if (distance < 0 || (a->window > 0 && distance >= a->window))
            row[t] = -INFINITY;
    }
}

/* p[keys][32]: the weights of the queries of a strip. */
static void weigh(const struct rv_train_attention *a, const struct pieces *s, int32_t head, int32_t strip)
{
    const struct rv_hparams *h = a->hparams;
    int32_t n_keys = strip + STRIP;
    float max[STRIP], sums[STRIP] = {0};

    rv_tile_gemm_pack(a->q + place(a, head, strip), a->stride, h->head_dim, STRIP, s->in);
    against(a, a->k, head / (h->n_heads / h->n_kv_heads), n_keys, s->in, s->p);
    for (int t = 0; t < STRIP; t++)
        max[t] = -INFINITY;
    for (int32_t j = 0; j < n_keys; j++) {
        float *row = s->p + (size_t)j * STRIP;

        shape_scores(a, strip, j, row, s->slope + (size_t)j * STRIP);
        for (int t = 0; t < STRIP; t++)
            max[t] = row[t] > max[t] ? row[t] : max[t];
    }
    for (int32_t j = 0; j < n_keys; j++) {
        float *row = s->p + (size_t)j * STRIP;

        a->ops->exp_below(row, max, STRIP);
        for (int t = 0; t < STRIP; t++)
            sums[t] += row[t];
    }
    for (int32_t j = 0; j < n_keys; j++)
        for (int t = 0; t < STRIP; t++)
            s->p[j * STRIP + t] /= sums[t];
}

/* out (rows of the head, columns of the strip) = x p */
static void combine(const struct rv_train_attention *a, const float *x, int32_t kv_head, int32_t strip, const float *p,
                    float *out)
{
    struct rv_tile_gemm_matrix m = head_matrix(a, x, kv_head, strip + STRIP);

    for (int32_t d = 0; d < a->hparams->head_dim; d++)
        memset(out + (size_t)d * a->stride, 0, STRIP * sizeof(*out));
    rv_tile_gemm_multiply(a->ops, &m, 0, a->hparams->head_dim, p, STRIP, out, a->stride, a->panels);
}

void rv_train_attention_forward(const struct rv_train_attention *a, int32_t kv_head, float *out)
{
    int32_t group = a->hparams->n_heads / a->hparams->n_kv_heads;
    struct pieces s = cut(a);

    for (int32_t head = kv_head * group; head < (kv_head + 1) * group; head++)
        for (int32_t strip = 0; strip < a->n_columns; strip += STRIP) {
            weigh(a, &s, head, strip);
            combine(a, a->v, kv_head, strip, s.p, out + place(a, head, strip));
        }
}

/* A head's rows in a strip with tokens as rows: out[part][token][32]; what is beyond the head stays 0. */
static void turn(const struct rv_train_attention *a, const float *rows, float *out)
{
    for (int32_t d = 0; d < a->hparams->head_dim; d++)
        for (int32_t t = 0; t < STRIP; t++)
            out[(d / STRIP * STRIP + t) * STRIP + d % STRIP] = rows[(size_t)d * a->stride + (size_t)t];
}

/* sums[keys][dim] += p turned */
static void gather(const struct rv_train_attention *a, const float *p, int32_t n_keys, const float *turned, float *sums)
{
    struct rv_tile_gemm_matrix m = {.data = p,
                                    .row_bytes = STRIP * sizeof(float),
                                    .n_rows = n_keys,
                                    .n_cols = STRIP,
                                    .block = 1,
                                    .block_bytes = sizeof(float)};
    int32_t dim = padded_dim(a->hparams);

    rv_tile_gemm_multiply(a->ops, &m, 0, n_keys, turned, dim, sums, (size_t)dim, a->panels);
}

/* dp becomes the gradient of the scores before scaling. */
static void through_softmax(const struct rv_train_attention *a, const struct pieces *s, int32_t n_keys)
{
    float dots[STRIP] = {0}, scale = a->hparams->attention_scale;
    bool bent = a->hparams->attention_cap > 0.0f;

    for (int32_t i = 0; i < n_keys * STRIP; i++)
        dots[i % STRIP] += s->p[i] * s->dp[i];
    for (int32_t i = 0; i < n_keys * STRIP; i++)
        s->dp[i] = s->p[i] * (s->dp[i] - dots[i % STRIP]) * scale * (bent ? s->slope[i] : 1.0f);
}

/* [keys][dim] back to rows of a head. */
static void put_back(const struct rv_train_attention *a, const float *sums, int32_t kv_head, float *out)
{
    size_t dim = (size_t)padded_dim(a->hparams);
    float *rows = out + place(a, kv_head, 0);

    for (int32_t d = 0; d < a->hparams->head_dim; d++)
        for (int32_t j = 0; j < a->n_columns; j++)
            rows[(size_t)d * a->stride + (size_t)j] = sums[(size_t)j * dim + (size_t)d];
}

void rv_train_attention_backward(const struct rv_train_attention *a, int32_t kv_head, const float *dout, float *dq,
                                 float *dk, float *dv)
{
    const struct rv_hparams *h = a->hparams;
    int32_t group = h->n_heads / h->n_kv_heads;
    size_t dim = (size_t)padded_dim(h), n = (size_t)a->n_columns;
    struct pieces s = cut(a);

    memset(s.dk, 0, 2 * n * dim * sizeof(float));
    memset(s.turned, 0, dim * STRIP * sizeof(float));
    for (int32_t head = kv_head * group; head < (kv_head + 1) * group; head++)
        for (int32_t strip = 0; strip < a->n_columns; strip += STRIP) {
            int32_t n_keys = strip + STRIP;

            weigh(a, &s, head, strip);
            turn(a, dout + place(a, head, strip), s.turned);
            gather(a, s.p, n_keys, s.turned, s.dv);
            rv_tile_gemm_pack(dout + place(a, head, strip), a->stride, h->head_dim, STRIP, s.in);
            against(a, a->v, kv_head, n_keys, s.in, s.dp);
            through_softmax(a, &s, n_keys);
            combine(a, a->k, kv_head, strip, s.dp, dq + place(a, head, strip));
            turn(a, a->q + place(a, head, strip), s.turned);
            gather(a, s.dp, n_keys, s.turned, s.dk);
        }
    put_back(a, s.dk, kv_head, dk);
    put_back(a, s.dv, kv_head, dv);
}
