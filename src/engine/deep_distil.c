#include "engine/deep_distil.h"

#include "base/alloc.h"
#include "learn/distil.h"

#include <math.h>

/* Whether a key's token is likely enough at every place of the answer where it follows the key's other token. */
static bool is_superfluous(const struct rv_deep_events_key *key, const struct rv_deep_sample *s, const float *nll)
{
    float most = (float)-log(rv_distil_enough);
    bool found = false;

    for (int32_t i = 1; i < s->n; i++) {
        if (s->weights[i] == 0.0f || s->tokens[i - 1] != key->last || s->tokens[i] != key->token)
            continue;
        if (!(nll[i] <= most))
            return false;
        found = true;
    }
    return found;
}

/* Adds the names of one sample's keys, from *at on. */
static ruvllm_status look_at(struct rv_backward *backward, const struct rv_trainable *trainable,
                             const struct rv_deep_events *events, size_t *at, float *nll, uint64_t *names, size_t *n,
                             struct ruvllm_error *err)
{
    size_t sample = events->keys[*at].sample;
    const struct rv_deep_sample *s = &events->items[sample];
    struct rv_backward_sequence sequence = {.tokens = s->tokens, .n = s->n, .weights = s->weights, .nll = nll};
    struct rv_backward_result result;
    ruvllm_status rc = rv_backward_run(backward, trainable, &sequence, 1, false, &result, err);

    for (; !rc && *at < events->n_keys && events->keys[*at].sample == sample; (*at)++)
        if (is_superfluous(&events->keys[*at], s, nll))
            names[(*n)++] = events->keys[*at].name;
    return rc;
}

ruvllm_status rv_deep_distil_names(struct rv_str *out, const struct rv_deep_config *config,
                                   const struct rv_trainable *trainable, const struct rv_deep_events *events,
                                   struct ruvllm_error *err)
{
    struct rv_backward_config backward_config = {.hparams = config->hparams,
                                                 .manifest = config->manifest,
                                                 .team = config->team,
                                                 .max_columns = config->max_tokens,
                                                 .context = config->context};
    uint64_t *names = rv_realloc_array(NULL, events->n_keys + 1, sizeof(*names));
    float *nll = rv_calloc((size_t)config->max_tokens, sizeof(*nll));
    struct rv_backward *backward = NULL;
    size_t at = 0, n = 0;
    ruvllm_status rc = names && nll ? rv_backward_new(&backward, &backward_config, err)
                                    : rv_fail(err, RUVLLM_NO_MEMORY, "cannot look at %zu keys", events->n_keys);

    while (!rc && at < events->n_keys)
        rc = look_at(backward, trainable, events, &at, nll, names, &n, err);
    rv_backward_free(backward);
    rv_free(nll);
    if (rc) {
        rv_free(names);
        return rc;
    }
    *out = (struct rv_str){(const char *)names, n * sizeof(*names)};
    return RUVLLM_OK;
}
