/* Samples to sequences with scaled weights, as many at once as a call of the backward pass holds. */
#include "learn/deep_batch.h"

#include "base/alloc.h"

#include <math.h>

enum {
    STRIP = 32,
    MAX_SEQUENCES = 64,
    CALL_COLUMNS = 512, // tokens computed at once, unless a sample is longer: weights are decoded once for all
};

static int32_t columns_of(const struct rv_deep_sample *s)
{
    int32_t own = (s->n + STRIP - 1) / STRIP * STRIP;

    return s->rejected ? own + columns_of(s->rejected) : own;
}

static bool is_judged(const struct rv_deep_batch *b, const struct rv_deep_sample *s)
{
    return !s->is_anchor && (s->rejected || (s->is_vote && b->config->has_kto));
}

/* ---- how much there is ------------------------------------------------------------------------- */

struct totals {
    double weight;  // sum of |weights|
    double anchors; // tokens
    double judged;  // sum of what each counts
};

/* What a judged sample counts: a vote as much as its score says, a pair as one. */
static double count_of(const struct rv_deep_sample *s)
{
    double most = 0;

    for (int32_t i = 1; i < s->n; i++)
        most = fmax(most, fabs((double)s->weights[i]));
    return s->rejected ? 1 : most;
}

static void add_totals(const struct rv_deep_batch *b, struct totals *t, const struct rv_deep_sample *s)
{
    if (s->is_anchor)
        t->anchors += s->n - 1;
    else if (is_judged(b, s))
        t->judged += count_of(s);
    else
        for (int32_t i = 1; i < s->n; i++)
            t->weight += fabs((double)s->weights[i]);
}

/* ---- the frozen model -------------------------------------------------------------------------- */

/* Log-probabilities of a sample's tokens. */
static ruvllm_status frozen_logp(struct rv_deep_batch *b, const struct rv_deep_sample *s, float *out,
                                 struct ruvllm_error *err)
{
    struct rv_backward_sequence sequence = {.tokens = s->tokens, .n = s->n, .weights = s->weights, .nll = out};
    struct rv_backward_result result;
    ruvllm_status rc = rv_backward_run(b->backward, NULL, &sequence, 1, false, &result, err);

    for (int32_t i = 0; i < s->n; i++)
        out[i] = -out[i];
    return rc;
}

/* The sum of those that have a weight; `scratch` has room for s->n. */
static ruvllm_status frozen_sum(struct rv_deep_batch *b, const struct rv_deep_sample *s, float *scratch, double *out,
                                struct ruvllm_error *err)
{
    ruvllm_status rc = frozen_logp(b, s, scratch, err);

    *out = 0;
    for (int32_t i = 1; i < s->n; i++)
        *out += s->weights[i] != 0.0f ? (double)scratch[i] : 0;
    return rc;
}

static ruvllm_status know_sums(struct rv_deep_batch *b, const struct rv_deep_sample *s, struct rv_deep_known *known,
                               struct ruvllm_error *err)
{
    ruvllm_status rc = frozen_sum(b, s, b->weights, &known->sums[0], err);

    if (!rc && s->rejected)
        rc = frozen_sum(b, s->rejected, b->weights, &known->sums[1], err);
    known->has_sums = !rc;
    return rc;
}

/* Anchors whose states are asked for together: the weights are decoded once for all. */
struct group {
    struct rv_backward_sequence sequences[MAX_SEQUENCES];
    struct rv_deep_known *known[MAX_SEQUENCES];
    int32_t n;
    int32_t n_columns;
};

/* False when it has no room for one more. */
static bool has_joined(struct rv_deep_batch *b, struct group *g, size_t index, struct ruvllm_error *err,
                       ruvllm_status *rc)
{
    const struct rv_deep_sample *s = &b->samples[index];
    struct rv_deep_known *known = &b->known[index];

    if (!s->is_anchor || known->numbers)
        return true;
    if (g->n == MAX_SEQUENCES || g->n_columns + columns_of(s) > b->max_columns)
        return false;
    known->numbers = rv_calloc((size_t)s->n, (size_t)b->config->hparams->n_embd * sizeof(float));
    if (!known->numbers) {
        *rc = rv_fail(err, RUVLLM_NO_MEMORY, "cannot keep what the frozen model says of %d tokens", s->n);
        return false;
    }
    g->known[g->n] = known;
    g->sequences[g->n++] = (struct rv_backward_sequence){.tokens = s->tokens, .n = s->n, .states = known->numbers};
    g->n_columns += columns_of(s);
    return true;
}

static ruvllm_status know_anchors(struct rv_deep_batch *b, const size_t *list, size_t n, struct ruvllm_error *err)
{
    ruvllm_status rc = RUVLLM_OK;
    struct group g;

    for (size_t at = 0; at < n && !rc;) {
        g.n = g.n_columns = 0;
        while (at < n && has_joined(b, &g, list[at], err, &rc))
            at++;
        if (!rc && g.n > 0)
            rc = rv_backward_states(b->backward, NULL, g.sequences, g.n, err);
        for (int32_t i = 0; i < g.n && rc; i++) {
            rv_free(g.known[i]->numbers);
            g.known[i]->numbers = NULL;
        }
    }
    return rc;
}

/* What a sample that is no anchor needs to know of the frozen model, computed when first asked for. */
static ruvllm_status know(struct rv_deep_batch *b, size_t index, struct ruvllm_error *err)
{
    const struct rv_deep_sample *s = &b->samples[index];
    struct rv_deep_known *known = &b->known[index];
    ruvllm_status rc;

    if (is_judged(b, s))
        return known->has_sums ? RUVLLM_OK : know_sums(b, s, known, err);
    if (known->numbers || s->is_anchor || !s->is_vote || s->old_logp)
        return RUVLLM_OK;
    known->numbers = rv_calloc((size_t)s->n, sizeof(float));
    if (!known->numbers)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot keep what the frozen model says of %d tokens", s->n);
    rc = frozen_logp(b, s, known->numbers, err);
    if (rc) {
        rv_free(known->numbers);
        known->numbers = NULL;
    }
    return rc;
}

/* ---- one call ---------------------------------------------------------------------------------- */

struct call {
    struct rv_backward_sequence sequences[MAX_SEQUENCES];
    struct rv_preference preferences[MAX_SEQUENCES];
    int32_t n;
    int32_t column;
};

/* Room for the next sequence's weights. */
static struct rv_backward_sequence *next_sequence(struct rv_deep_batch *b, struct call *c,
                                                  const struct rv_deep_sample *s, float **weights, float **kl_weights)
{
    struct rv_backward_sequence *q = &c->sequences[c->n++];

    *weights = b->weights + c->column;
    *kl_weights = b->kl_weights + c->column;
    *q = (struct rv_backward_sequence){.tokens = s->tokens, .n = s->n, .weights = *weights};
    c->column += (s->n + STRIP - 1) / STRIP * STRIP;
    return q;
}

static void add_plain(struct rv_deep_batch *b, struct call *c, size_t index, const struct totals *totals)
{
    const struct rv_deep_sample *s = &b->samples[index];
    float *weights, *kl_weights;
    struct rv_backward_sequence *q = next_sequence(b, c, s, &weights, &kl_weights);
    float kl = s->is_anchor ? (float)((double)b->config->kl_weight / totals->anchors) : 0.0f;

    for (int32_t i = 0; i < s->n; i++) {
        weights[i] = s->is_anchor || i == 0 ? 0.0f : (float)((double)s->weights[i] / totals->weight);
        kl_weights[i] = i > 0 ? kl : 0.0f;
    }
    if (s->is_anchor) {
        q->kl_weights = kl_weights;
        q->reference = b->known[index].numbers;
    } else if (s->is_vote) {
        q->old_logp = s->old_logp ? s->old_logp : b->known[index].numbers;
    }
}

static void add_judged_one(struct rv_deep_batch *b, struct call *c, const struct rv_deep_sample *s,
                           struct rv_preference preference)
{
    float *weights, *kl_weights;
    struct rv_backward_sequence *q = next_sequence(b, c, s, &weights, &kl_weights);

    for (int32_t i = 0; i < s->n; i++)
        weights[i] = i > 0 && s->weights[i] != 0.0f ? 1.0f : 0.0f;
    c->preferences[c->n - 1] = preference;
    q->preference = &c->preferences[c->n - 1];
}

static void add_judged(struct rv_deep_batch *b, struct call *c, size_t index, const struct totals *totals)
{
    const struct rv_deep_sample *s = &b->samples[index];
    const struct rv_deep_known *known = &b->known[index];
    struct rv_preference p = {.weight = (float)((double)b->config->preference_weight * count_of(s) / totals->judged),
                              .beta = b->config->beta,
                              .reference = known->sums[0]};
    double sign = 0;

    for (int32_t i = 1; i < s->n; i++)
        sign += (double)s->weights[i];
    p.kind = s->rejected ? RV_PREFERENCE_CHOSEN : sign > 0 ? RV_PREFERENCE_GOOD : RV_PREFERENCE_BAD;
    add_judged_one(b, c, s, p);
    if (s->rejected) {
        p.kind = RV_PREFERENCE_REJECTED;
        p.reference = known->sums[1];
        add_judged_one(b, c, s->rejected, p);
    }
}

/* How many samples of a list fit one call. */
static size_t n_fitting(const struct rv_deep_batch *b, const size_t *list, size_t n)
{
    int32_t n_columns = 0, n_sequences = 0;
    size_t i = 0;

    for (; i < n; i++) {
        const struct rv_deep_sample *s = &b->samples[list[i]];

        n_columns += columns_of(s);
        n_sequences += s->rejected ? 2 : 1;
        if (n_columns > b->max_columns || n_sequences > MAX_SEQUENCES)
            break;
    }
    return i;
}

/* Samples that fit one call together. Anchors first: the frozen model's side is computed up to the last of them. */
static ruvllm_status run_call(struct rv_deep_batch *b, const struct rv_trainable *trainable, const size_t *list,
                              size_t n, const struct totals *totals, bool grad, struct rv_deep_batch_sums *sums,
                              struct ruvllm_error *err)
{
    struct rv_backward_result result;
    struct call c = {.n = 0};
    ruvllm_status rc;

    for (size_t i = 0; i < n; i++)
        if (b->samples[list[i]].is_anchor)
            add_plain(b, &c, list[i], totals);
    for (size_t i = 0; i < n; i++) {
        const struct rv_deep_sample *s = &b->samples[list[i]];

        if (is_judged(b, s))
            add_judged(b, &c, list[i], totals);
        else if (!s->is_anchor)
            add_plain(b, &c, list[i], totals);
    }
    rc = rv_backward_run(b->backward, trainable, c.sequences, c.n, grad, &result, err);
    if (rc)
        return rc;
    sums->nll += result.nll;
    sums->kl += result.kl;
    sums->preference += result.preference;
    return RUVLLM_OK;
}

ruvllm_status rv_deep_batch_run(struct rv_deep_batch *batch, const struct rv_trainable *trainable, const size_t *list,
                                size_t n, bool has_gradients, struct rv_deep_batch_sums *sums, struct ruvllm_error *err)
{
    struct totals totals = {0};
    ruvllm_status rc = know_anchors(batch, list, n, err);

    *sums = (struct rv_deep_batch_sums){0};
    for (size_t i = 0; i < n && !rc; i++) {
        add_totals(batch, &totals, &batch->samples[list[i]]);
        rc = know(batch, list[i], err);
    }
    for (size_t at = 0, n_now; at < n && !rc; at += n_now) {
        n_now = n_fitting(batch, list + at, n - at);
        rc = run_call(batch, trainable, list + at, n_now, &totals, has_gradients, sums, err);
        if (rc)
            (void)rv_fail_in(err, rc, "cannot compute samples %zu to %zu of a batch", at + 1, at + n_now);
    }
    return rc;
}

/* ---- life -------------------------------------------------------------------------------------- */

ruvllm_status rv_deep_batch_init(struct rv_deep_batch *batch, struct ruvllm_error *err)
{
    const struct rv_deep_config *c = batch->config;
    struct rv_backward_config backward = {.hparams = c->hparams,
                                          .manifest = c->manifest,
                                          .team = c->team,
                                          .context = c->context,
                                          .max_state_bytes = c->max_state_bytes};
    int32_t longest = 0;

    for (size_t i = 0; i < batch->n_samples; i++)
        longest = columns_of(&batch->samples[i]) > longest ? columns_of(&batch->samples[i]) : longest;
    batch->max_columns = longest > CALL_COLUMNS ? longest : CALL_COLUMNS;
    backward.max_columns = batch->max_columns;
    batch->known = rv_calloc(batch->n_samples, sizeof(*batch->known));
    batch->weights = rv_calloc((size_t)batch->max_columns, sizeof(*batch->weights));
    batch->kl_weights = rv_calloc((size_t)batch->max_columns, sizeof(*batch->kl_weights));
    if (!batch->known || !batch->weights || !batch->kl_weights)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a run of %zu samples", batch->n_samples);
    return rv_backward_new(&batch->backward, &backward, err);
}

void rv_deep_batch_release(struct rv_deep_batch *batch)
{
    for (size_t i = 0; i < batch->n_samples && batch->known; i++)
        rv_free(batch->known[i].numbers);
    rv_free(batch->known);
    rv_free(batch->weights);
    rv_free(batch->kl_weights);
    rv_backward_free(batch->backward);
    *batch = (struct rv_deep_batch){0};
}
