/*
 * Importance sampling: with q the probability of a token to be drawn, and N draws, each time it was drawn a token
 * counts 1 / (N q). q is half what was noted, half uniform, so that none is left out.
 */
#include "learn/tail_draw.h"

#include "base/alloc.h"

#include <math.h>
#include <string.h>

static const double UNIFORM = 0.5;

ruvllm_status rv_tail_draw_init(struct rv_tail_draw *out, size_t n_vocab, struct ruvllm_error *err)
{
    *out = (struct rv_tail_draw){.n_vocab = n_vocab};
    out->counts = rv_calloc(n_vocab, sizeof(*out->counts));
    return out->counts ? RUVLLM_OK : rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate counts of %zu tokens", n_vocab);
}

void rv_tail_draw_release(struct rv_tail_draw *draw)
{
    rv_free(draw->counts);
    rv_free(draw->noted);
    *draw = (struct rv_tail_draw){0};
}

void rv_tail_draw_clear(struct rv_tail_draw *draw)
{
    memset(draw->counts, 0, draw->n_vocab * sizeof(*draw->counts));
    draw->n_noted = 0;
}

ruvllm_status rv_tail_draw_note(struct rv_tail_draw *draw, const int32_t *tokens, size_t n, struct ruvllm_error *err)
{
    if (draw->n_noted + n > draw->cap) {
        size_t cap = 2 * draw->cap > draw->n_noted + n ? 2 * draw->cap : draw->n_noted + n;
        int32_t *noted = rv_realloc_array(draw->noted, cap, sizeof(*noted));

        if (!noted)
            return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate room for %zu tokens", cap);
        draw->noted = noted;
        draw->cap = cap;
    }
    for (size_t i = 0; i < n; i++) {
        if (tokens[i] < 0 || (size_t)tokens[i] >= draw->n_vocab)
            continue;
        draw->counts[tokens[i]]++;
        draw->noted[draw->n_noted++] = tokens[i];
    }
    return RUVLLM_OK;
}

static int32_t one(const struct rv_tail_draw *d, struct rv_rng *rng)
{
    if (d->n_noted == 0 || rv_rng_uniform(rng) < UNIFORM)
        return (int32_t)rv_rng_below(rng, d->n_vocab);
    return d->noted[rv_rng_below(rng, d->n_noted)];
}

static double chance_of(const struct rv_tail_draw *d, int32_t token)
{
    double uniform = 1 / (double)d->n_vocab;

    return d->n_noted ? UNIFORM * uniform + (1 - UNIFORM) * d->counts[token] / (double)d->n_noted : uniform;
}

void rv_tail_draw(struct rv_tail_draw *draw, struct rv_rng *rng)
{
    float times[RV_TAIL_DRAW_MAX];

    draw->n = 0;
    for (size_t i = 0; i < RV_TAIL_DRAW_MAX; i++) {
        bool is_whole = draw->n_vocab <= RV_TAIL_DRAW_MAX;
        int32_t token = is_whole ? (int32_t)i : one(draw, rng);
        size_t at = 0;

        if (is_whole && i >= draw->n_vocab)
            return;
        while (at < draw->n && draw->tokens[at] != token)
            at++;
        times[at] = at < draw->n ? times[at] + 1 : 1;
        draw->tokens[at] = token;
        draw->many[at] = is_whole ? 0 : (float)log((double)times[at] / (RV_TAIL_DRAW_MAX * chance_of(draw, token)));
        draw->n += at == draw->n;
    }
}
