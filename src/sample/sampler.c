/*
 * The order of work from logits to a token. The arithmetic of each step lives beside it: weight.c (softmax), penalty.c,
 * truncate.c. This file keeps the promise that the same seed and the same logits give the same token on every
 * machine: draws go through candidates in token order, with sums in that order.
 */
#include "sample/sampler.h"

#include "base/alloc.h"
#include "base/rng.h"
#include "sample/penalty.h"
#include "sample/truncate.h"
#include "sample/weight.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define MAX_TEMPERATURE 100.0f
#define MIN_REPETITION 0.01f
#define MAX_REPETITION 100.0f
#define MAX_LOGPROBS 20
#define MAX_VOCAB (1u << 24)
#define TOP_K_ROOM 4096 // candidates a small top-k fills before it cuts; a few thousand make the cuts rare

struct rv_sampler {
    size_t n_vocab;
    uint64_t seed;
    struct rv_rng rng;
    float scale;  // 0: greedy
    size_t top_k; // 0: off
    float top_p;
    float min_p;
    float typical_p;
    struct ruvllm_logit_bias *bias;
    size_t n_bias;
    struct rv_penalty penalty;
    float *weights; // n_vocab; NULL when top-k or greedy makes the whole row's needless
    struct rv_candidates set;
};

/* Written so that NaN fails. */
static ruvllm_status check_range(const char *field, double value, double min, double max, struct ruvllm_error *err)
{
    if (value >= min && value <= max)
        return RUVLLM_OK;
    return rv_fail(err, RUVLLM_INVALID, "'%s' must lie between %g and %g, and is %g", field, min, max, value);
}

static ruvllm_status check_params(const struct ruvllm_generate_params *p, struct ruvllm_error *err)
{
    const struct {
        const char *field;
        double value, min, max;
    } ranges[] = {
        {"max_tokens", p->max_tokens, 0, INT32_MAX},
        {"temperature", (double)p->temperature, 0, (double)MAX_TEMPERATURE},
        {"top_p", (double)p->top_p, 0, 1},
        {"top_k", p->top_k, 0, INT32_MAX},
        {"min_p", (double)p->min_p, 0, 1},
        {"typical_p", (double)p->typical_p, 0, 1},
        {"repetition_penalty", (double)p->repetition_penalty, (double)MIN_REPETITION, (double)MAX_REPETITION},
        {"frequency_penalty", (double)p->frequency_penalty, -2, 2},
        {"presence_penalty", (double)p->presence_penalty, -2, 2},
        {"penalty_window", p->penalty_window, -1, RV_PENALTY_MAX_WINDOW},
        {"n_logprobs", p->n_logprobs, -1, MAX_LOGPROBS},
    };

    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
        ruvllm_status rc = check_range(ranges[i].field, ranges[i].value, ranges[i].min, ranges[i].max, err);

        if (rc)
            return rc;
    }
    return RUVLLM_OK;
}

static ruvllm_status check_bias(const struct ruvllm_generate_params *p, size_t n_vocab, struct ruvllm_error *err)
{
    if (p->n_logit_bias > n_vocab)
        return rv_fail(err, RUVLLM_INVALID, "'logit_bias' has %zu entries for a vocabulary of %zu", p->n_logit_bias,
                       n_vocab);
    if (p->n_logit_bias && !p->logit_bias)
        return rv_fail(err, RUVLLM_INVALID, "'logit_bias' is NULL with %zu entries", p->n_logit_bias);
    for (size_t i = 0; i < p->n_logit_bias; i++) {
        const struct ruvllm_logit_bias *bias = &p->logit_bias[i];

        if (bias->token < 0 || (size_t)bias->token >= n_vocab)
            return rv_fail(err, RUVLLM_INVALID, "'logit_bias' names token %d, outside the vocabulary of %zu",
                           (int)bias->token, n_vocab);
        if (!(bias->bias < INFINITY)) // NaN too; -INFINITY bans
            return rv_fail(err, RUVLLM_INVALID, "'logit_bias' of token %d must be finite or -infinity, and is %g",
                           (int)bias->token, (double)bias->bias);
    }
    return RUVLLM_OK;
}

/* Bans that leave nothing to choose are the request's fault; found here, they never look like a broken model. */
static ruvllm_status check_bans(struct rv_sampler *s, struct ruvllm_error *err)
{
    size_t n_banned = 0;
    uint8_t *banned;

    if (s->n_bias < s->n_vocab)
        return RUVLLM_OK;
    banned = rv_calloc(s->n_vocab, 1);
    if (!banned)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the sampler");
    for (size_t i = 0; i < s->n_bias; i++) {
        uint8_t *is_banned = &banned[s->bias[i].token];

        if (s->bias[i].bias == -INFINITY && !*is_banned) {
            *is_banned = 1;
            n_banned++;
        }
    }
    rv_free(banned);
    if (n_banned == s->n_vocab)
        return rv_fail(err, RUVLLM_INVALID, "'logit_bias' bans every token");
    return RUVLLM_OK;
}

/* Room for the worst row, so that choosing allocates nothing. */
static bool allocate_scratch(struct rv_sampler *s)
{
    size_t room = s->n_vocab;

    if (s->n_bias) {
        s->bias = rv_calloc(s->n_bias, sizeof(*s->bias));
        if (!s->bias)
            return false;
    }
    if (s->scale == 0.0f)
        return true;
    if (s->top_k && s->top_k < s->n_vocab / 2) {
        size_t wanted = 2 * s->top_k > TOP_K_ROOM ? 2 * s->top_k : TOP_K_ROOM;

        room = wanted < room ? wanted : room;
    }
    s->set.items = rv_calloc(room, sizeof(*s->set.items));
    s->set.cap = room;
    if (!s->top_k)
        s->weights = rv_calloc(s->n_vocab, sizeof(*s->weights));
    return s->set.items && (s->top_k || s->weights);
}

ruvllm_status rv_sampler_new(struct rv_sampler **out, const struct ruvllm_generate_params *params, size_t n_vocab,
                             struct ruvllm_error *err)
{
    const struct rv_penalty_params penalties = {
        .repetition = params->repetition_penalty,
        .frequency = params->frequency_penalty,
        .presence = params->presence_penalty,
        .window = params->penalty_window,
    };
    struct rv_sampler *s;
    ruvllm_status rc;

    *out = NULL;
    if (n_vocab == 0 || n_vocab > MAX_VOCAB)
        return rv_fail(err, RUVLLM_INVALID, "cannot sample from a vocabulary of %zu", n_vocab);
    rc = check_params(params, err);
    if (!rc)
        rc = check_bias(params, n_vocab, err);
    if (rc)
        return rc;
    s = rv_calloc(1, sizeof(*s));
    if (!s)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the sampler");
    s->n_vocab = n_vocab;
    s->scale = params->temperature > 0.0f ? rv_weight_scale(params->temperature) : 0.0f;
    s->top_k = (size_t)params->top_k < n_vocab ? (size_t)params->top_k : 0;
    s->top_p = params->top_p;
    s->min_p = params->min_p;
    s->typical_p = params->typical_p;
    s->n_bias = params->n_logit_bias;
    s->seed = params->has_seed ? params->seed : rv_rng_seed_from_system();
    rv_rng_init(&s->rng, s->seed);
    rc = rv_penalty_init(&s->penalty, &penalties, n_vocab, err);
    if (rc)
        goto fail;
    if (!allocate_scratch(s)) {
        rc = rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the sampler for a vocabulary of %zu", n_vocab);
        goto fail;
    }
    if (s->n_bias)
        memcpy(s->bias, params->logit_bias, s->n_bias * sizeof(*s->bias));
    rc = check_bans(s, err);
    if (rc)
        goto fail;
    *out = s;
    return RUVLLM_OK;
fail:
    rv_sampler_free(s);
    return rc;
}

void rv_sampler_free(struct rv_sampler *sampler)
{
    if (!sampler)
        return;
    rv_penalty_release(&sampler->penalty);
    rv_free(sampler->bias);
    rv_free(sampler->weights);
    rv_free(sampler->set.items);
    rv_free(sampler);
}

uint64_t rv_sampler_seed(const struct rv_sampler *sampler)
{
    return sampler->seed;
}

void rv_sampler_accept(struct rv_sampler *sampler, int32_t token)
{
    rv_penalty_accept(&sampler->penalty, token);
}

/* A huge bias stops at the largest finite logit: only -INFINITY takes a token out. */
static void apply_bias(const struct rv_sampler *s, float *logits)
{
    for (size_t i = 0; i < s->n_bias; i++) {
        float *logit = &logits[s->bias[i].token];
        float sum = *logit + s->bias[i].bias;

        if (isinf(sum) && isfinite(*logit) && isfinite(s->bias[i].bias))
            sum = sum > 0.0f ? FLT_MAX : -FLT_MAX;
        *logit = sum;
    }
}

/* The candidates left by every cut. */
static void truncate_row(struct rv_sampler *s, const float *logits, float max)
{
    double total;

    if (s->top_k) {
        rv_truncate_top_k(&s->set, logits, s->n_vocab, s->top_k);
        total = rv_truncate_weigh(&s->set, max, s->scale);
    } else {
        float floor = 0.0f;

        total = rv_weight_fill(s->weights, logits, s->n_vocab, max, s->scale);
        if (s->typical_p >= 1.0f) { // a typical set may hold unlikely tokens: no shortcut
            if (s->top_p < 1.0f)
                floor = rv_truncate_top_p_floor(s->top_p, total, s->n_vocab);
            floor = s->min_p > floor ? s->min_p : floor;
        }
        rv_truncate_gather(&s->set, logits, s->weights, s->n_vocab, floor);
    }
    if (s->typical_p < 1.0f) {
        rv_truncate_typical(&s->set, s->typical_p, max, s->scale);
        total = rv_truncate_total(&s->set);
    }
    if (s->top_p < 1.0f)
        rv_truncate_top_p(&s->set, s->top_p, total);
    if (s->min_p > 0.0f)
        rv_truncate_min_p(&s->set, s->min_p);
}

static int32_t draw(struct rv_sampler *s)
{
    double mark = rv_rng_uniform(&s->rng) * rv_truncate_total(&s->set);
    int32_t token = s->set.items[0].token;
    double passed = 0.0;

    for (size_t i = 0; i < s->set.n; i++) {
        if (s->set.items[i].weight > 0.0f)
            token = s->set.items[i].token;
        passed += (double)s->set.items[i].weight;
        if (passed > mark)
            break;
    }
    return token;
}

ruvllm_status rv_sampler_choose(struct rv_sampler *sampler, float *logits, int32_t *token, struct ruvllm_error *err)
{
    float max;

    apply_bias(sampler, logits);
    rv_penalty_apply(&sampler->penalty, logits);
    max = rv_weight_max(logits, sampler->n_vocab);
    if (max == -INFINITY)
        return rv_fail_kind(err, RUVLLM_BACKEND, RUVLLM_ERROR_GENERATION,
                            "the model's output has no finite logit to choose from");
    if (sampler->scale == 0.0f) {
        size_t i = 0;

        while (logits[i] != max)
            i++;
        *token = (int32_t)i;
        return RUVLLM_OK;
    }
    truncate_row(sampler, logits, max);
    *token = draw(sampler);
    return RUVLLM_OK;
}

void rv_sampler_top_logprobs(const float *logits, size_t n_vocab, size_t n_top, struct ruvllm_token_logprob *top,
                             double *logsumexp)
{
    float max = rv_weight_max(logits, n_vocab);
    double lse = -INFINITY;
    float least = -INFINITY; // what a logit must beat: the list's last, once it is full
    size_t n = 0;

    if (max > -INFINITY)
        lse = (double)max + log(rv_weight_sum(logits, n_vocab, max, rv_weight_scale(1.0f)));
    /* Insertion into a short sorted list; almost every logit fails the comparison with its last. */
    for (size_t i = 0; i < n_vocab && n_top; i++) {
        size_t at;

        if (!(logits[i] > least) || logits[i] == INFINITY)
            continue;
        n = n < n_top ? n + 1 : n;
        for (at = n - 1; at > 0 && top[at - 1].logprob < logits[i]; at--)
            top[at] = top[at - 1];
        top[at] = (struct ruvllm_token_logprob){.token = (int32_t)i, .logprob = logits[i]};
        least = n == n_top ? top[n - 1].logprob : least;
    }
    for (size_t i = 0; i < n; i++)
        top[i].logprob = (float)((double)top[i].logprob - lse);
    for (size_t i = n; i < n_top; i++)
        top[i] = (struct ruvllm_token_logprob){.token = -1, .logprob = -INFINITY};
    if (logsumexp)
        *logsumexp = lse;
}
