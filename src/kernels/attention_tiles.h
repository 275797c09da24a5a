/*
 * The arithmetic of the vector variants of the attention kernel, for some queries and one block. The file that includes
 * it is one variant: before, it defines the type `lanes` (WIDTH floats in a register), the lanes_ functions used here,
 * and the shape of a tile: QUERIES queries times SPAN registers of sums, which must fit the registers of the machine
 * with some to spare.
 *
 * Scores: tokens lie in the lanes, so each register of keys, once loaded and converted, serves all queries of the tile,
 * and no sum crosses lanes. Values: the head's numbers lie in the lanes, and a token's weights are broadcast. Quantised
 * keys are summed as codes over 32 numbers and then take their scale; values give their scale to the weight.
 */
#ifndef RV_KERNELS_ATTENTION_TILES_H
#define RV_KERNELS_ATTENTION_TILES_H

#include "kernels/half.h"

#include <string.h>

/*
 * Inlined with constants for `n` and the format: the loops over queries and registers must vanish. Builds that check
 * every access leave it to the compiler, which would otherwise take minutes.
 */
#ifndef TILE
#define TILE inline __attribute__((always_inline))
#endif

enum { TOKENS = RV_KV_BLOCK_TOKENS, CHUNK = 32, LINE_FLOATS = 16, SCALES_BYTES = TOKENS * 2 };

/* The scratch memory, and what is the same for the whole call. */
struct work {
    const struct rv_attention_call *call;
    int32_t dim, n_q, last_block;
    int32_t row;  // floats from one query's sums to the next
    float *q;     // [dim][n_q], times scale
    float *sums;  // [n_q][row]
    float *max;   // [n_q]
    float *total; // [n_q][WIDTH]: the weights so far, one sum a lane
};

/* A block's part that some queries see, and the queries. */
struct part {
    const uint8_t *k, *v;
    enum rv_kv_block_format format;
    int32_t i_q, n;             // queries i_q to i_q + n - 1
    int32_t first, end;         // tokens of the block
    uintptr_t k_ahead, v_ahead; // from here to the same place in the next block
};

/* Scores, and then weights, of a tile's queries. */
struct weights {
    _Alignas(64) float of[QUERIES][TOKENS];
};

/*
 * Asks for what the next block has where this one is being read. Blocks lie far apart, so the processor does not guess
 * them; asking line by line between the multiplications keeps the few requests it can have under way from queueing.
 */
static inline void fetch(const uint8_t *address, uintptr_t ahead)
{
    __builtin_prefetch((const void *)((uintptr_t)address + ahead));
}

/* sums[i] += q[i] * keys: one number of the head, all queries. */
static TILE void add_products(int n, lanes sums[QUERIES][SPAN], const float *q, const lanes keys[SPAN])
{
    for (int i = 0; i < n; i++) {
        lanes factor = lanes_set(q[i]);

        for (int s = 0; s < SPAN; s++)
            sums[i][s] = lanes_fma(factor, keys[s], sums[i][s]);
    }
}

static TILE void score_f16(int n, const struct work *w, const struct part *p, int t, struct weights *out)
{
    const uint8_t *k = p->k + (size_t)t * 2;
    const float *q = w->q + p->i_q;
    lanes sums[QUERIES][SPAN], keys[SPAN];

    for (int i = 0; i < n; i++)
        for (int s = 0; s < SPAN; s++)
            sums[i][s] = lanes_set(0.0f);
    for (int32_t d = 0; d < w->dim; d++) {
        fetch(k, p->k_ahead);
        for (int s = 0; s < SPAN; s++)
            keys[s] = lanes_load_halves(k + s * WIDTH * 2);
        add_products(n, sums, q, keys);
        k += TOKENS * 2;
        q += w->n_q;
    }
    for (int i = 0; i < n; i++)
        for (int s = 0; s < SPAN; s++)
            lanes_store(&out->of[i][t + s * WIDTH], sums[i][s]);
}

/* One chunk of 32 numbers in integers. */
static TILE void score_chunk(enum rv_kv_block_format format, int n, const struct work *w, const struct part *p,
                             const uint8_t *k, const float *q, lanes sums[QUERIES][SPAN])
{
    lanes keys[SPAN];

    for (int i = 0; i < n; i++)
        for (int s = 0; s < SPAN; s++)
            sums[i][s] = lanes_set(0.0f);
    if (format == RV_KV_BLOCK_Q8) {
        for (int j = 0; j < CHUNK; j++, k += TOKENS, q += w->n_q) {
            fetch(k, p->k_ahead);
            for (int s = 0; s < SPAN; s++)
                keys[s] = lanes_load_bytes(k + s * WIDTH);
            add_products(n, sums, q, keys);
        }
        return;
    }
    for (int j = 0; j < CHUNK / 2; j++, k += TOKENS, q += w->n_q) {
        fetch(k, p->k_ahead);
        for (int s = 0; s < SPAN; s++)
            keys[s] = lanes_load_low_nibbles(k + s * WIDTH);
        add_products(n, sums, q, keys);
        for (int s = 0; s < SPAN; s++)
            keys[s] = lanes_load_high_nibbles(k + s * WIDTH);
        add_products(n, sums, q + CHUNK / 2 * w->n_q, keys);
    }
}

static TILE void score_quantised(enum rv_kv_block_format format, int n, const struct work *w, const struct part *p,
                                 const float *base, int t, struct weights *out)
{
    size_t chunk_bytes = SCALES_BYTES + (size_t)CHUNK * TOKENS / (format == RV_KV_BLOCK_Q8 ? 1 : 2);
    lanes sums[QUERIES][SPAN], scale;

    for (int32_t c = 0; c < w->dim / CHUNK; c++) {
        const uint8_t *chunk = p->k + (size_t)c * chunk_bytes;

        fetch(chunk, p->k_ahead);
        score_chunk(format, n, w, p, chunk + SCALES_BYTES + t, w->q + (size_t)c * CHUNK * (size_t)w->n_q + p->i_q,
                    sums);
        for (int s = 0; s < SPAN; s++) {
            scale = lanes_load_halves(chunk + (size_t)(t + s * WIDTH) * 2);
            for (int i = 0; i < n; i++) {
                float *score = &out->of[i][t + s * WIDTH];

                lanes_store(score, lanes_fma(sums[i][s], scale, c ? lanes_load(score) : lanes_set(base[i])));
            }
        }
    }
}

/* The products of the queries with what the block's keys have in common: where their scores begin. */
static TILE void score_means(int n, const struct work *w, const struct part *p, float *base)
{
    const uint8_t *means = p->k + (size_t)(w->dim / CHUNK) * (SCALES_BYTES + (size_t)CHUNK * TOKENS / 2);
    lanes sums[QUERIES];

    fetch(means, p->k_ahead);
    for (int i = 0; i < n; i++)
        sums[i] = lanes_set(0.0f);
    for (int32_t d = 0; d < w->dim; d += WIDTH) {
        uint16_t half;
        lanes mean;

        memcpy(&half, means + w->dim + d / CHUNK * 2, sizeof(half));
        mean = lanes_mul(lanes_load_bytes(means + d), lanes_set(rv_half_to_float(half)));
        for (int i = 0; i < n; i++)
            sums[i] = lanes_fma(lanes_load(w->call->q[p->i_q + i] + d), mean, sums[i]);
    }
    for (int i = 0; i < n; i++)
        base[i] = lanes_total(sums[i]) * w->call->scale;
}

static TILE void score(int n, const struct work *w, const struct part *p, struct weights *out)
{
    float base[QUERIES] = {0};

    if (p->format == RV_KV_BLOCK_Q4)
        score_means(n, w, p, base);
    for (int t = 0; t < TOKENS; t += SPAN * WIDTH) {
        if (p->format == RV_KV_BLOCK_F16)
            score_f16(n, w, p, t, out);
        else if (p->format == RV_KV_BLOCK_Q8)
            score_quantised(RV_KV_BLOCK_Q8, n, w, p, base, t, out);
        else
            score_quantised(RV_KV_BLOCK_Q4, n, w, p, base, t, out);
    }
}

/* Numbers j and on of a token's values; `values` is where its chunk of them begins, or its row in halves. */
static TILE lanes load_value(enum rv_kv_block_format format, const uint8_t *values, int j)
{
    if (format == RV_KV_BLOCK_F16)
        return lanes_load_halves(values + j * 2);
    if (format == RV_KV_BLOCK_Q8)
        return lanes_load_bytes(values + j);
    return j < CHUNK / 2 ? lanes_load_low_nibbles(values + j) : lanes_load_high_nibbles(values + j - CHUNK / 2);
}

/* Adds the weighted values of the part's tokens, `registers` of them from number d + j on, `stride` bytes a token. */
static TILE void add_values(enum rv_kv_block_format format, int n, int registers, const struct work *w,
                            const struct part *p, const struct weights *weights, const uint8_t *values, size_t stride,
                            int32_t d, int j)
{
    float *to = w->sums + (size_t)p->i_q * (size_t)w->row + d + j;
    lanes sums[QUERIES][SPAN], value[SPAN];

    for (int i = 0; i < n; i++)
        for (int s = 0; s < registers; s++)
            sums[i][s] = lanes_load(to + i * w->row + s * WIDTH);
    values += (size_t)p->first * stride;
    for (int32_t t = p->first; t < p->end; t++, values += stride) {
        fetch(values, p->v_ahead);
        for (int s = 0; s < registers; s++)
            value[s] = load_value(format, values, j + s * WIDTH);
        for (int i = 0; i < n; i++) {
            lanes factor = lanes_set(weights->of[i][t]);

            for (int s = 0; s < registers; s++)
                sums[i][s] = lanes_fma(factor, value[s], sums[i][s]);
        }
    }
    for (int i = 0; i < n; i++)
        for (int s = 0; s < registers; s++)
            lanes_store(to + i * w->row + s * WIDTH, sums[i][s]);
}

/* The numbers at the end of a row that do not fill a register, which happens only in halves. */
static void add_last_values(const struct work *w, const struct part *p, const struct weights *weights, int32_t d)
{
    for (int i = 0; i < p->n; i++) {
        float *to = w->sums + (size_t)(p->i_q + i) * (size_t)w->row + d;
        lanes sum = lanes_load(to);

        for (int32_t t = p->first; t < p->end; t++) {
            const uint8_t *values = p->v + ((size_t)t * (size_t)w->dim + (size_t)d) * 2;

            sum = lanes_fma(lanes_set(weights->of[i][t]), lanes_load_some_halves(values, w->dim - d), sum);
        }
        lanes_store(to, sum);
    }
}

static TILE void combine_f16(int n, const struct work *w, const struct part *p, const struct weights *weights)
{
    size_t stride = (size_t)w->dim * 2;
    int32_t d = 0;

    for (; d + SPAN * WIDTH <= w->dim; d += SPAN * WIDTH)
        add_values(RV_KV_BLOCK_F16, n, SPAN, w, p, weights, p->v + (size_t)d * 2, stride, d, 0);
    for (; d + WIDTH <= w->dim; d += WIDTH)
        add_values(RV_KV_BLOCK_F16, n, 1, w, p, weights, p->v + (size_t)d * 2, stride, d, 0);
    if (d < w->dim)
        add_last_values(w, p, weights, d);
}

/* The weights of the part's queries times the values' scales. */
static TILE void scale_weights(int n, const struct part *p, const uint8_t *scales, const struct weights *weights,
                               struct weights *out)
{
    fetch(scales, p->v_ahead);
    for (int t = 0; t < TOKENS; t += WIDTH) {
        lanes scale = lanes_load_halves(scales + (size_t)t * 2);

        for (int i = 0; i < n; i++)
            lanes_store(&out->of[i][t], lanes_mul(scale, lanes_load(&weights->of[i][t])));
    }
}

static TILE void combine_q8(int n, const struct work *w, const struct part *p, const struct weights *weights)
{
    int32_t n_chunks = w->dim / CHUNK;
    struct weights scaled;

    for (int32_t c = 0; c < n_chunks; c++) {
        const uint8_t *values = p->v + (size_t)n_chunks * SCALES_BYTES + (size_t)c * CHUNK;

        scale_weights(n, p, p->v + (size_t)c * SCALES_BYTES, weights, &scaled);
        for (int j = 0; j < CHUNK; j += SPAN * WIDTH)
            add_values(RV_KV_BLOCK_Q8, n, SPAN, w, p, &scaled, values, (size_t)w->dim, c * CHUNK, j);
    }
}

static TILE void combine_q4(int n, const struct work *w, const struct part *p, const struct weights *weights)
{
    struct weights scaled;

    scale_weights(n, p, p->v, weights, &scaled);
    for (int32_t c = 0; c < w->dim / CHUNK; c++) {
        const uint8_t *values = p->v + SCALES_BYTES + (size_t)c * CHUNK / 2;

        for (int j = 0; j < CHUNK; j += SPAN * WIDTH)
            add_values(RV_KV_BLOCK_Q4, n, SPAN, w, p, &scaled, values, (size_t)w->dim / 2, c * CHUNK, j);
    }
}

static TILE void combine(int n, const struct work *w, const struct part *p, const struct weights *weights)
{
    if (p->format == RV_KV_BLOCK_F16)
        combine_f16(n, w, p, weights);
    else if (p->format == RV_KV_BLOCK_Q8)
        combine_q8(n, w, p, weights);
    else
        combine_q4(n, w, p, weights);
}

#endif
