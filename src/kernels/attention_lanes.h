/*
 * The body of the vector variants of the attention kernel: walks over the blocks and keeps the running maximum and sum
 * of each query. Included by the file that is one variant, after what attention_tiles.h asks for.
 *
 * Each query goes through the same operations in the same order whatever tile it is in, and only over positions that it
 * sees: therefore the queries of a tile are neighbours that see the same part of the block.
 */
#ifndef RV_KERNELS_ATTENTION_LANES_H
#define RV_KERNELS_ATTENTION_LANES_H

#include "base/error.h"
#include "kernels/attention_tiles.h"
#include "kernels/lane_math.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* A larger maximum makes all that was summed smaller. */
static void raise_max(const struct work *w, int32_t i_q, float max)
{
    lanes shrink = exp_lanes(lanes_set(w->max[i_q] - max));
    float *total = w->total + i_q * WIDTH, *sums = w->sums + (size_t)i_q * (size_t)w->row;

    lanes_store(total, lanes_mul(lanes_load(total), shrink));
    for (int32_t d = 0; d < w->row; d += WIDTH)
        lanes_store(sums + d, lanes_mul(lanes_load(sums + d), shrink));
    w->max[i_q] = max;
}

/* Scores become weights: exp(score - maximum so far), 0 where the query does not see. */
static void weigh(const struct work *w, const struct part *p, struct weights *weights)
{
    float cap = w->call->cap;
    _Alignas(64) float limits[TOKENS]; // the hidden tokens' slots may hold anything, NaN too

    for (int t = 0; t < TOKENS; t++)
        limits[t] = t >= p->first && t < p->end ? INFINITY : -INFINITY;
    for (int i = 0; i < p->n; i++) {
        float *scores = weights->of[i], *total = w->total + (p->i_q + i) * WIDTH;
        lanes most = lanes_set(-INFINITY), sum = lanes_load(total);
        float max;

        for (int t = 0; t < TOKENS; t += WIDTH) {
            lanes x = lanes_load(scores + t);

            if (cap != 0.0f)
                x = lanes_mul(tanh_lanes(lanes_mul(x, lanes_set(1.0f / cap))), lanes_set(cap));
            x = lanes_at_most(x, lanes_load(limits + t));
            most = lanes_max(most, x);
            lanes_store(scores + t, x);
        }
        max = lanes_largest(most);
        if (max > w->max[p->i_q + i]) {
            raise_max(w, p->i_q + i, max);
            sum = lanes_load(total);
        }
        for (int t = 0; t < TOKENS; t += WIDTH) {
            lanes weight = exp_lanes(lanes_sub(lanes_load(scores + t), lanes_set(w->max[p->i_q + i])));

            sum = lanes_add(sum, weight);
            lanes_store(scores + t, weight);
        }
        lanes_store(total, sum);
    }
}

static TILE void attend_tile(int n, const struct work *w, const struct part *p)
{
    struct weights weights;

    score(n, w, p, &weights);
    weigh(w, p, &weights);
    combine(n, w, p, &weights);
}

static void attend_part(const struct work *w, struct part *p, int32_t n_left)
{
    while (n_left > 0) {
        p->n = n_left >= QUERIES ? QUERIES : n_left >= 4 ? 4 : n_left;
        if (p->n == QUERIES)
            attend_tile(QUERIES, w, p);
        else if (p->n == 4)
            attend_tile(4, w, p);
        else if (p->n == 3)
            attend_tile(3, w, p);
        else if (p->n == 2)
            attend_tile(2, w, p);
        else
            attend_tile(1, w, p);
        p->i_q += p->n;
        n_left -= p->n;
    }
}

/* The tokens of block b that query i sees; none when *first >= *end. */
static void visible(const struct rv_attention_call *call, int32_t b, int32_t i, int32_t *first, int32_t *end)
{
    *first = call->first[i] - b * TOKENS > 0 ? call->first[i] - b * TOKENS : 0;
    *end = call->end[i] - b * TOKENS < TOKENS ? call->end[i] - b * TOKENS : TOKENS;
}

static void attend_block(const struct work *w, int32_t b)
{
    const struct rv_attention_block *block = &w->call->blocks[w->call->table[b]];
    const struct rv_attention_block *next_block =
        b < w->last_block ? &w->call->blocks[w->call->table[b + 1]] : NULL; // blocks lie in any order
    struct part p = {.format = block->format};
    int32_t i = 0;

    while (i < w->n_q) {
        int32_t next = i, first, end;

        p.i_q = i;
        visible(w->call, b, i, &p.first, &p.end);
        do {
            next++;
            if (next < w->n_q)
                visible(w->call, b, next, &first, &end);
        } while (next < w->n_q && first == p.first && end == p.end);
        if (p.first < p.end) {
            p.k = block->data + w->call->k_offset[block->format]; // not before: an unseen block may not be there
            p.v = block->data + w->call->v_offset[block->format];
            p.k_ahead = p.v_ahead = 0;
            if (next_block && next_block->data) {
                p.k_ahead = (uintptr_t)next_block->data + w->call->k_offset[next_block->format] - (uintptr_t)p.k;
                p.v_ahead = (uintptr_t)next_block->data + w->call->v_offset[next_block->format] - (uintptr_t)p.v;
            }
            attend_part(w, &p, next - i);
        }
        i = next;
    }
}

static void start_work(struct work *w, const struct rv_attention_call *call)
{
    int32_t n_q = call->n_q, dim = call->head_dim;

    w->call = call;
    w->dim = dim;
    w->n_q = n_q;
    w->row = (dim + LINE_FLOATS - 1) / LINE_FLOATS * LINE_FLOATS;
    w->sums = call->scratch;
    w->total = w->sums + (size_t)n_q * (size_t)w->row;
    w->q = w->total + (size_t)n_q * LINE_FLOATS;
    w->max = w->q + (size_t)n_q * (size_t)dim;
    memset(w->sums, 0, (size_t)n_q * (size_t)(w->row + LINE_FLOATS) * sizeof(float));
    for (int32_t i = 0; i < n_q; i++) {
        w->max[i] = -INFINITY;
        for (int32_t d = 0; d < dim; d++)
            w->q[(size_t)d * (size_t)n_q + (size_t)i] = call->q[i][d] * call->scale;
    }
}

static void attend(const struct rv_attention_call *call)
{
    int32_t first = INT32_MAX, end = 0;
    struct work w;

    _Static_assert(QUERIES >= 4 && TOKENS % (SPAN * WIDTH) == 0 && CHUNK % (SPAN * WIDTH) == 0, "tiles fill blocks");
    RV_ASSERT(call->n_q > 0 && call->n_q <= RV_ATTENTION_KERNEL_MAX_Q && call->head_dim % 8 == 0);
    start_work(&w, call);
    for (int32_t i = 0; i < call->n_q; i++) {
        first = call->first[i] < first ? call->first[i] : first;
        end = call->end[i] > end ? call->end[i] : end;
    }
    w.last_block = (end - 1) / TOKENS;
    for (int32_t b = first / TOKENS; b <= w.last_block; b++)
        attend_block(&w, b);
    for (int32_t i = 0; i < call->n_q; i++) {
        float share = 1.0f / lanes_total(lanes_load(w.total + i * WIDTH));

        for (int32_t d = 0; d < w.dim; d++)
            call->out[i][d] = w.sums[(size_t)i * (size_t)w.row + (size_t)d] * share;
    }
}

#endif
