/* Counts of the window's tokens, kept as a table by token and a dense list of those that occur. */
#include "sample/penalty.h"

#include "base/alloc.h"

#include <string.h>

static bool is_off(const struct rv_penalty_params *p)
{
    return p->window == 0 || (p->repetition == 1.0f && p->frequency == 0.0f && p->presence == 0.0f);
}

ruvllm_status rv_penalty_init(struct rv_penalty *penalty, const struct rv_penalty_params *params, size_t n_vocab,
                              struct ruvllm_error *err)
{
    size_t n_distinct = n_vocab;

    memset(penalty, 0, sizeof(*penalty));
    penalty->params = *params;
    penalty->n_vocab = n_vocab;
    if (is_off(params))
        return RUVLLM_OK;
    penalty->entries = rv_calloc(n_vocab, sizeof(*penalty->entries));
    if (params->window > 0) {
        penalty->ring = rv_calloc((size_t)params->window, sizeof(*penalty->ring));
        n_distinct = (size_t)params->window < n_vocab ? (size_t)params->window : n_vocab;
    }
    penalty->seen = rv_calloc(n_distinct, sizeof(*penalty->seen));
    if (penalty->entries && penalty->seen && (penalty->ring || params->window < 0))
        return RUVLLM_OK;
    rv_penalty_release(penalty);
    return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the penalties' window");
}

void rv_penalty_release(struct rv_penalty *penalty)
{
    rv_free(penalty->entries);
    rv_free(penalty->seen);
    rv_free(penalty->ring);
    memset(penalty, 0, sizeof(*penalty));
}

static bool is_known(const struct rv_penalty *penalty, int32_t token)
{
    return token >= 0 && (size_t)token < penalty->n_vocab;
}

static void add(struct rv_penalty *penalty, int32_t token)
{
    struct rv_penalty_entry *entry;

    if (!is_known(penalty, token))
        return;
    entry = &penalty->entries[token];
    if (entry->count++ == 0) {
        entry->place = (int32_t)penalty->n_seen;
        penalty->seen[penalty->n_seen++] = token;
    }
}

static void drop(struct rv_penalty *penalty, int32_t token)
{
    struct rv_penalty_entry *entry;

    if (!is_known(penalty, token))
        return;
    entry = &penalty->entries[token];
    if (--entry->count == 0) {
        int32_t last = penalty->seen[--penalty->n_seen]; // fills the gap

        penalty->seen[entry->place] = last;
        penalty->entries[last].place = entry->place;
    }
}

void rv_penalty_accept(struct rv_penalty *penalty, int32_t token)
{
    size_t window = (size_t)penalty->params.window;

    if (!penalty->entries)
        return;
    if (penalty->ring && penalty->ring_len == window) {
        drop(penalty, penalty->ring[penalty->oldest]);
        penalty->ring[penalty->oldest] = token;
        penalty->oldest = (penalty->oldest + 1) % window;
    } else if (penalty->ring) {
        penalty->ring[penalty->ring_len++] = token;
    }
    add(penalty, token);
}

void rv_penalty_apply(const struct rv_penalty *penalty, float *logits)
{
    const struct rv_penalty_params *p = &penalty->params;

    for (size_t i = 0; i < penalty->n_seen; i++) {
        int32_t token = penalty->seen[i];
        float logit = logits[token];
        float often = (float)penalty->entries[token].count * p->frequency;

        logit = logit > 0.0f ? logit / p->repetition : logit * p->repetition;
        often = often + p->presence;
        logits[token] = logit - often;
    }
}

int32_t rv_penalty_count(const struct rv_penalty *penalty, int32_t token)
{
    return penalty->entries && is_known(penalty, token) ? penalty->entries[token].count : 0;
}

bool rv_penalty_check(const struct rv_penalty *penalty)
{
    size_t n_seen = 0, n_counted = 0, n_known = 0;

    if (!penalty->entries)
        return penalty->n_seen == 0;
    for (size_t t = 0; t < penalty->n_vocab; t++) {
        const struct rv_penalty_entry *entry = &penalty->entries[t];

        if (entry->count < 0)
            return false;
        if (entry->count == 0)
            continue;
        if ((size_t)entry->place >= penalty->n_seen || penalty->seen[entry->place] != (int32_t)t)
            return false;
        n_seen++;
        n_counted += (size_t)entry->count;
    }
    for (size_t i = 0; i < penalty->ring_len; i++)
        n_known += is_known(penalty, penalty->ring[i]);
    return n_seen == penalty->n_seen && (!penalty->ring || n_counted == n_known);
}
