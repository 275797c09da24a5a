/*
 * The run: an order of samples for each epoch, batches of them, a step for each batch, a measurement after each epoch.
 *
 * In a batch the loss is the mean over training weights plus kl_weight times the mean over anchor tokens, so that
 * neither depends on how many of the other there are.
 */
#include "learn/deep.h"

#include "base/alloc.h"
#include "base/rng.h"
#include "base/sha256.h"
#include "learn/deep_state.h"

#include <math.h>
#include <string.h>

enum {
    STRIP = 32,
    MAX_SEQUENCES = 64,
    CALL_COLUMNS = 512, // tokens computed at once, unless a sample is longer: weights are decoded once for all
};

struct rv_deep {
    struct rv_deep_config config;
    const struct rv_deep_sample *samples;
    size_t n_samples;
    struct rv_trainable trainable;
    struct rv_backward *backward;
    struct rv_adamw adamw;
    float *best;        // as many as the pairs have numbers
    float **references; // one a sample: the frozen model's states of anchors
    float *weights;     // batch_columns: of the sequences of a call, scaled
    float *kl_weights;
    size_t *order; // training samples of the epoch
    size_t n_train;
    bool *is_held_out; // one a sample
    size_t n_held_out;
    int32_t batch_columns;
    struct rv_deep_state state;
};

struct rv_deep_config rv_deep_config_default(void)
{
    return (struct rv_deep_config){.rank = 8,
                                   .alpha = 16,
                                   .parts = rv_trainable_all_parts(),
                                   .max_tokens = 512,
                                   .batch_tokens = 1024,
                                   .n_epochs = 3,
                                   .patience = 2,
                                   .held_out = 0.1f,
                                   .kl_weight = 0.3f,
                                   .adamw = rv_adamw_config_default(),
                                   .seed = 1,
                                   .max_state_bytes = (uint64_t)1 << 30};
}

static int32_t columns_of(const struct rv_deep_sample *s)
{
    return (s->n + STRIP - 1) / STRIP * STRIP;
}

/* ---- sums over samples -------------------------------------------------------------------------- */

/* What a set of samples weighs. */
struct totals {
    double weight;  // sum of |weights|
    double anchors; // tokens
};

static void add_totals(struct totals *t, const struct rv_deep_sample *s)
{
    if (s->is_anchor)
        t->anchors += s->n - 1;
    for (int32_t i = 1; i < s->n && !s->is_anchor; i++)
        t->weight += fabs((double)s->weights[i]);
}

/* Sums of loss over a set. */
struct sums {
    double nll;
    double kl;
};

/* The frozen model's log-probabilities of a sample's tokens. */
static ruvllm_status frozen_logp(struct rv_deep *d, const struct rv_deep_sample *s, float *out,
                                 struct ruvllm_error *err)
{
    struct rv_backward_sequence sequence = {.tokens = s->tokens, .n = s->n, .weights = s->weights, .nll = out};
    struct rv_backward_result result;
    ruvllm_status rc = rv_backward_run(d->backward, NULL, &sequence, 1, false, &result, err);

    for (int32_t i = 0; i < s->n; i++)
        out[i] = -out[i];
    return rc;
}

/* What a sample needs to know of the frozen model, computed when first asked for. */
static ruvllm_status reference_of(struct rv_deep *d, size_t index, struct ruvllm_error *err)
{
    const struct rv_deep_sample *s = &d->samples[index];
    size_t width = s->is_anchor ? (size_t)d->config.hparams->n_embd : 1;

    if (d->references[index] || (!s->is_anchor && (!s->is_vote || s->old_logp)))
        return RUVLLM_OK;
    d->references[index] = rv_calloc((size_t)s->n, width * sizeof(float));
    if (!d->references[index])
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot keep what the frozen model says of %d tokens", s->n);
    return s->is_anchor ? rv_backward_states(d->backward, NULL, s->tokens, s->n, d->references[index], err)
                        : frozen_logp(d, s, d->references[index], err);
}

static struct rv_backward_sequence sequence_of(const struct rv_deep *d, size_t index, const float *weights,
                                               const float *kl_weights)
{
    const struct rv_deep_sample *s = &d->samples[index];
    struct rv_backward_sequence q = {.tokens = s->tokens, .n = s->n, .weights = weights};

    if (s->is_anchor) {
        q.kl_weights = kl_weights;
        q.reference = d->references[index];
    } else if (s->is_vote) {
        q.old_logp = s->old_logp ? s->old_logp : d->references[index];
    }
    return q;
}

/*
 * Some samples of a list that fit one call, from *at on: their loss, and with `grad` its gradients. Weights are divided
 * by the totals, 0 meaning that there are none.
 */
static ruvllm_status run_call(struct rv_deep *d, const struct rv_trainable *trainable, const size_t *list, size_t n,
                              size_t *at, const struct totals *totals, bool grad, struct sums *sums,
                              struct ruvllm_error *err)
{
    struct rv_backward_sequence sequences[MAX_SEQUENCES];
    struct rv_backward_result result;
    int32_t n_sequences = 0, column = 0;
    size_t first = *at;
    ruvllm_status rc = RUVLLM_OK;
    float kl_weight = totals->anchors > 0 ? (float)((double)d->config.kl_weight / totals->anchors) : 0.0f;

    for (size_t i = first; i < n && !rc; i++)
        rc = reference_of(d, list[i], err);
    if (rc)
        return rc;
    for (; *at < n && n_sequences < MAX_SEQUENCES; (*at)++) {
        const struct rv_deep_sample *s = &d->samples[list[*at]];
        float *weights = d->weights + column, *kl_weights = d->kl_weights + column;

        if (column + columns_of(s) > d->batch_columns)
            break;
        for (int32_t i = 0; i < s->n; i++) {
            weights[i] = s->is_anchor || i == 0 ? 0.0f : (float)((double)s->weights[i] / totals->weight);
            kl_weights[i] = s->is_anchor && i > 0 ? kl_weight : 0.0f;
        }
        sequences[n_sequences++] = sequence_of(d, list[*at], weights, kl_weights);
        column += columns_of(s);
    }
    rc = rv_backward_run(d->backward, trainable, sequences, n_sequences, grad, &result, err);
    if (rc)
        return rv_fail_in(err, rc, "cannot compute samples %zu to %zu of a batch", first + 1, *at);
    sums->nll += result.nll;
    sums->kl += result.kl;
    return RUVLLM_OK;
}

static ruvllm_status run_list(struct rv_deep *d, const struct rv_trainable *trainable, const size_t *list, size_t n,
                              bool grad, struct sums *sums, struct totals *totals, struct ruvllm_error *err)
{
    size_t at = 0;
    ruvllm_status rc = RUVLLM_OK;

    *sums = (struct sums){0};
    *totals = (struct totals){0};
    for (size_t i = 0; i < n; i++)
        add_totals(totals, &d->samples[list[i]]);
    while (at < n && !rc)
        rc = run_call(d, trainable, list, n, &at, totals, grad, sums, err);
    return rc;
}

/* ---- order and batches ---------------------------------------------------------------------------- */

/* The order of an epoch depends on the seed and its number alone. */
static void shuffle(struct rv_deep *d, int32_t epoch)
{
    struct rv_rng rng;
    size_t n = 0;

    for (size_t i = 0; i < d->n_samples; i++)
        if (!d->is_held_out[i])
            d->order[n++] = i;
    rv_rng_init(&rng, d->config.seed * 0x9E3779B97F4A7C15u + (uint64_t)epoch + 1);
    for (size_t i = n; i > 1; i--) {
        size_t j = (size_t)rv_rng_below(&rng, i), swapped = d->order[i - 1];

        d->order[i - 1] = d->order[j];
        d->order[j] = swapped;
    }
}

/* How many samples from `first` on make a batch. */
static size_t batch_size(const struct rv_deep *d, size_t first)
{
    int64_t tokens = 0;
    size_t n = 0;

    while (first + n < d->n_train && (n == 0 || tokens < d->config.batch_tokens)) {
        tokens += d->samples[d->order[first + n]].n;
        if (n > 0 && tokens > d->config.batch_tokens)
            break;
        n++;
    }
    return n;
}

static int32_t count_steps(struct rv_deep *d)
{
    int64_t n = 0;

    for (int32_t epoch = 0; epoch < d->config.n_epochs; epoch++) {
        shuffle(d, epoch);
        for (size_t at = 0; at < d->n_train; at += batch_size(d, at))
            n++;
    }
    return n < INT32_MAX ? (int32_t)n : INT32_MAX;
}

/* ---- steps ------------------------------------------------------------------------------------------ */

static void add_ewc(struct rv_deep *d)
{
    const struct rv_deep_config *c = &d->config;

    for (size_t i = 0; c->fisher && i < d->trainable.n; i++)
        d->trainable.grads[i] += c->ewc * c->fisher[i] * (d->trainable.values[i] - (c->center ? c->center[i] : 0.0f));
}

static bool tell(const struct rv_deep *d, struct rv_deep_progress *p)
{
    p->epoch = d->state.epoch;
    p->n_epochs = d->config.n_epochs;
    p->step = d->adamw.step;
    p->n_steps = d->adamw.config.n_steps;
    p->held_out_before = d->state.held_out_before;
    p->best = d->state.best_loss;
    return !d->config.on_progress || d->config.on_progress(d->config.user, p);
}

static ruvllm_status step(struct rv_deep *d, bool *goes_on, struct ruvllm_error *err)
{
    size_t n = batch_size(d, d->state.at);
    struct rv_deep_progress p = {.held_out = NAN};
    struct totals totals;
    struct sums sums;
    ruvllm_status rc;

    rv_trainable_clear_grads(&d->trainable);
    rc = run_list(d, &d->trainable, d->order + d->state.at, n, true, &sums, &totals, err);
    if (rc)
        return rc;
    add_ewc(d);
    p.step_size = (double)rv_adamw_step_size(&d->adamw.config, d->adamw.step);
    if (!rv_adamw_step(&d->adamw, d->trainable.values, d->trainable.grads, &p.length))
        return rv_fail(err, RUVLLM_BACKEND, "the gradient of step %d is not finite; try a smaller step",
                       d->adamw.step + 1);
    d->state.at += n;
    p.loss = sums.nll;
    p.kl = d->config.kl_weight > 0.0f ? sums.kl / (double)d->config.kl_weight : 0;
    *goes_on = tell(d, &p);
    return RUVLLM_OK;
}

/* Mean loss over what is held out. */
static ruvllm_status measure(struct rv_deep *d, const struct rv_trainable *trainable, double *out,
                             struct ruvllm_error *err)
{
    struct totals totals;
    struct sums sums;
    ruvllm_status rc;

    *out = NAN;
    if (d->n_held_out == 0)
        return RUVLLM_OK;
    rc = run_list(d, trainable, d->order + d->n_train, d->n_held_out, false, &sums, &totals, err);
    if (!rc)
        *out = sums.nll;
    return rc;
}

/* After an epoch: is this the best so far, and is there hope for better? */
static ruvllm_status end_epoch(struct rv_deep *d, bool *goes_on, struct ruvllm_error *err)
{
    struct rv_deep_progress p = {0};
    ruvllm_status rc = measure(d, &d->trainable, &p.held_out, err);

    if (rc)
        return rc;
    if (d->n_held_out == 0 || p.held_out < d->state.best_loss) {
        memcpy(d->best, d->trainable.values, d->trainable.n * sizeof(*d->best));
        d->state.best_loss = p.held_out;
        d->state.best_epoch = d->state.epoch;
        d->state.n_worse = 0;
    } else {
        d->state.n_worse++;
    }
    *goes_on = tell(d, &p);
    d->state.epoch++;
    d->state.at = 0;
    if (d->config.patience > 0 && d->state.n_worse >= d->config.patience)
        d->state.epoch = d->config.n_epochs;
    else if (d->state.epoch < d->config.n_epochs)
        shuffle(d, d->state.epoch);
    return RUVLLM_OK;
}

/* The anchors' mean divergence of the result. */
static ruvllm_status measure_anchors(struct rv_deep *d, double *out, struct ruvllm_error *err)
{
    size_t *list = rv_calloc(d->n_samples, sizeof(*list)), n = 0;
    struct totals totals;
    struct sums sums;
    ruvllm_status rc = RUVLLM_OK;

    *out = NAN;
    if (!list)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot list the anchors");
    for (size_t i = 0; i < d->n_samples; i++)
        if (d->samples[i].is_anchor)
            list[n++] = i;
    if (n > 0 && d->config.kl_weight > 0.0f) {
        rc = run_list(d, &d->trainable, list, n, false, &sums, &totals, err);
        *out = sums.kl / (double)d->config.kl_weight;
    }
    rv_free(list);
    return rc;
}

ruvllm_status rv_deep_run(struct rv_deep *deep, struct rv_deep_result *result, struct ruvllm_error *err)
{
    struct rv_deep *d = deep;
    bool goes_on = true;
    ruvllm_status rc = RUVLLM_OK;
    float *current;

    *result = (struct rv_deep_result){0};
    if (!d->state.has_begun) {
        rc = measure(d, NULL, &d->state.held_out_before, err);
        d->state.best_loss = d->state.held_out_before; // what was learned must beat what was there
        d->state.has_begun = !rc;
    }
    while (!rc && goes_on && d->state.epoch < d->config.n_epochs) {
        if (d->state.at < d->n_train)
            rc = step(d, &goes_on, err);
        else
            rc = end_epoch(d, &goes_on, err);
    }
    if (rc)
        return rc;
    current = d->trainable.values;
    result->was_stopped = d->state.epoch < d->config.n_epochs;
    if (!result->was_stopped) {
        memcpy(current, d->best, d->trainable.n * sizeof(*current));
        rc = measure_anchors(d, &result->anchor_kl, err);
    }
    result->held_out_before = d->state.held_out_before;
    result->held_out_after = d->state.best_loss;
    result->n_steps = d->adamw.step;
    result->n_epochs = d->state.epoch;
    result->best_epoch = d->state.best_epoch;
    return rc;
}

const struct rv_trainable *rv_deep_trainable(const struct rv_deep *deep)
{
    return &deep->trainable;
}

/* ---- saving ------------------------------------------------------------------------------------------ */

/* Of everything that decides how the run goes on. */
static void fingerprint(const struct rv_deep *d, char hex[RV_SHA256_HEX_LEN + 1])
{
    const struct rv_deep_config *c = &d->config;
    const struct rv_adamw_config *a = &d->adamw.config;
    int64_t counts[] = {
        c->rank,     c->parts,    c->batch_tokens,         c->n_epochs,          c->patience, (int64_t)c->seed,
        a->schedule, a->n_warmup, (int64_t)d->trainable.n, (int64_t)d->n_samples};
    float numbers[] = {c->alpha, c->held_out, c->kl_weight, c->ewc,   a->step,
                       a->beta1, a->beta2,    a->eps,       a->decay, a->clip};
    struct rv_sha256 sha;

    rv_sha256_init(&sha);
    rv_sha256_add(&sha, counts, sizeof(counts));
    rv_sha256_add(&sha, numbers, sizeof(numbers));
    rv_sha256_add(&sha, c->manifest->roots[RV_ROOT_OUTPUT_NORM]->data,
                  c->manifest->roots[RV_ROOT_OUTPUT_NORM]->n_bytes);
    for (size_t i = 0; i < d->n_samples; i++) {
        const struct rv_deep_sample *s = &d->samples[i];
        int32_t facts[] = {s->n, s->is_anchor, s->episode, s->is_vote, s->old_logp != NULL};

        rv_sha256_add(&sha, facts, sizeof(facts));
        rv_sha256_add(&sha, s->tokens, (size_t)s->n * sizeof(*s->tokens));
        if (!s->is_anchor)
            rv_sha256_add(&sha, s->weights, (size_t)s->n * sizeof(*s->weights));
    }
    rv_sha256_finish(&sha, hex);
}

ruvllm_status rv_deep_save(const struct rv_deep *deep, const char *path, struct ruvllm_error *err)
{
    struct rv_deep copy = *deep; // the file's struct serves reading as well and knows no const
    struct rv_deep_state_file file = {
        .state = &copy.state, .adamw = &copy.adamw, .values = copy.trainable.values, .best = copy.best};
    ruvllm_status rc;

    fingerprint(deep, file.fingerprint);
    rc = rv_deep_state_write(&file, path, err);
    return rc ? rv_fail_in(err, rc, "cannot save the run as '%s'", path) : RUVLLM_OK;
}

ruvllm_status rv_deep_load(struct rv_deep *deep, const char *path, struct ruvllm_error *err)
{
    struct rv_deep_state_file file = {
        .state = &deep->state, .adamw = &deep->adamw, .values = deep->trainable.values, .best = deep->best};
    ruvllm_status rc;

    fingerprint(deep, file.fingerprint);
    rc = rv_deep_state_read(&file, path, err);
    if (!rc && deep->state.epoch < deep->config.n_epochs)
        shuffle(deep, deep->state.epoch);
    return rc;
}

/* ---- life ---------------------------------------------------------------------------------------------- */

static ruvllm_status check_sample(const struct rv_deep_config *c, const struct rv_deep_sample *s, size_t i,
                                  struct ruvllm_error *err)
{
    double weight = 0;

    if (s->n < 2 || s->n > c->max_tokens)
        return rv_fail(err, RUVLLM_INVALID, "sample %zu has %d tokens, which is not between 2 and %d", i + 1, s->n,
                       c->max_tokens);
    for (int32_t t = 1; t < s->n && !s->is_anchor; t++)
        weight += fabs((double)s->weights[t]);
    if (!s->is_anchor && (!(weight > 0) || !isfinite(weight)))
        return rv_fail(err, RUVLLM_INVALID, "sample %zu has no token with a weight", i + 1);
    return RUVLLM_OK;
}

static ruvllm_status check(const struct rv_deep_config *c, const struct rv_deep_sample *samples, size_t n,
                           struct ruvllm_error *err)
{
    ruvllm_status rc = RUVLLM_OK;

    if (n == 0)
        return rv_fail(err, RUVLLM_INVALID, "there is nothing to train on");
    if (c->n_epochs < 1 || c->batch_tokens < 1 || c->max_tokens < 2 || c->patience < 0)
        return rv_fail(err, RUVLLM_INVALID, "epochs, tokens of a batch and of a sample must be above 0");
    if (!(c->held_out >= 0.0f && c->held_out < 1.0f) || !(c->kl_weight >= 0.0f) || !(c->ewc >= 0.0f) ||
        !isfinite(c->kl_weight) || !isfinite(c->ewc))
        return rv_fail(err, RUVLLM_INVALID, "the held-out share must be below 1, weights of terms at least 0");
    for (size_t i = 0; i < n && !rc; i++)
        rc = check_sample(c, &samples[i], i, err);
    return rc;
}

/* A number in [0, 1) for an episode, the same on every machine. */
static double lot_of(uint64_t seed, int32_t episode)
{
    struct rv_rng rng;

    rv_rng_init(&rng, seed ^ ((uint64_t)(uint32_t)episode << 20) ^ 0x5EED);
    return rv_rng_uniform(&rng);
}

/* Draws the episodes that are held out; anchors never are. Puts them behind the training samples of `order`. */
static ruvllm_status hold_out(struct rv_deep *d, struct ruvllm_error *err)
{
    size_t n_useful = 0, at;

    for (size_t i = 0; i < d->n_samples; i++) {
        const struct rv_deep_sample *s = &d->samples[i];

        d->is_held_out[i] = !s->is_anchor && lot_of(d->config.seed, s->episode) < (double)d->config.held_out;
        d->n_held_out += d->is_held_out[i];
        n_useful += !s->is_anchor && !d->is_held_out[i];
    }
    if (n_useful == 0)
        return rv_fail(err, RUVLLM_INVALID, "nothing is left to train on: hold out less");
    if (d->config.held_out > 0.0f && d->n_held_out == 0)
        return rv_fail(err, RUVLLM_INVALID, "no episode was drawn to be held out: give more samples, or hold out none");
    d->n_train = d->n_samples - d->n_held_out;
    at = d->n_train;
    for (size_t i = 0; i < d->n_samples; i++)
        if (d->is_held_out[i])
            d->order[at++] = i;
    return RUVLLM_OK;
}

static ruvllm_status allocate(struct rv_deep *d, struct ruvllm_error *err)
{
    d->references = rv_calloc(d->n_samples, sizeof(*d->references));
    d->order = rv_calloc(d->n_samples, sizeof(*d->order));
    d->is_held_out = rv_calloc(d->n_samples, sizeof(*d->is_held_out));
    d->weights = rv_calloc((size_t)d->batch_columns, sizeof(*d->weights));
    d->kl_weights = rv_calloc((size_t)d->batch_columns, sizeof(*d->kl_weights));
    d->best = rv_calloc(d->trainable.n, sizeof(*d->best));
    if (!d->references || !d->order || !d->is_held_out || !d->weights || !d->kl_weights || !d->best)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a run of %zu samples", d->n_samples);
    memcpy(d->best, d->trainable.values, d->trainable.n * sizeof(*d->best));
    return RUVLLM_OK;
}

static ruvllm_status open_parts(struct rv_deep *d, struct ruvllm_error *err)
{
    const struct rv_deep_config *c = &d->config;
    struct rv_trainable_shape shape = {.hparams = c->hparams,
                                       .manifest = c->manifest,
                                       .parts = c->parts,
                                       .rank = c->rank,
                                       .alpha = c->alpha,
                                       .seed = c->seed};
    struct rv_backward_config backward = {.hparams = c->hparams,
                                          .manifest = c->manifest,
                                          .team = c->team,
                                          .max_columns = d->batch_columns,
                                          .context = c->context,
                                          .max_state_bytes = c->max_state_bytes};
    struct rv_adamw_config adamw = c->adamw;
    ruvllm_status rc = rv_trainable_init(&d->trainable, &shape, err);

    if (!rc)
        rc = allocate(d, err);
    if (!rc)
        rc = hold_out(d, err);
    if (!rc)
        rc = rv_backward_new(&d->backward, &backward, err);
    if (rc)
        return rc;
    adamw.n_steps = count_steps(d);
    if (adamw.n_warmup > adamw.n_steps / 5)
        adamw.n_warmup = adamw.n_steps / 5;
    shuffle(d, 0);
    return rv_adamw_init(&d->adamw, &adamw, d->trainable.n, err);
}

ruvllm_status rv_deep_open(struct rv_deep **out, const struct rv_deep_config *config,
                           const struct rv_deep_sample *samples, size_t n_samples, struct ruvllm_error *err)
{
    ruvllm_status rc = check(config, samples, n_samples, err);
    struct rv_deep *d;
    int32_t longest = 0;

    *out = NULL;
    if (rc)
        return rc;
    d = rv_calloc(1, sizeof(*d));
    if (!d)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a run");
    d->config = *config;
    d->samples = samples;
    d->n_samples = n_samples;
    d->state = (struct rv_deep_state){.best_epoch = -1, .held_out_before = NAN, .best_loss = NAN};
    for (size_t i = 0; i < n_samples; i++)
        longest = columns_of(&samples[i]) > longest ? columns_of(&samples[i]) : longest;
    d->batch_columns = longest > CALL_COLUMNS ? longest : CALL_COLUMNS;
    rc = open_parts(d, err);
    if (rc) {
        rv_deep_close(d);
        return rc;
    }
    *out = d;
    return RUVLLM_OK;
}

void rv_deep_close(struct rv_deep *deep)
{
    if (!deep)
        return;
    for (size_t i = 0; i < deep->n_samples && deep->references; i++)
        rv_free(deep->references[i]);
    rv_free(deep->references);
    rv_free(deep->order);
    rv_free(deep->is_held_out);
    rv_free(deep->weights);
    rv_free(deep->kl_weights);
    rv_free(deep->best);
    rv_adamw_release(&deep->adamw);
    rv_backward_free(deep->backward);
    rv_trainable_release(&deep->trainable);
    rv_free(deep);
}
