/*
 * The run: an order of samples for each epoch, batches of them, a step for each batch, a measurement after each epoch.
 */
#include "learn/deep.h"

#include "base/alloc.h"
#include "base/rng.h"
#include "base/sha256.h"
#include "learn/deep_batch.h"
#include "learn/deep_guard.h"
#include "learn/deep_state.h"

#include <math.h>
#include <string.h>

/*
 * How far values that are beyond the limit at last are taken back, at most: where something is held out it says what is
 * left of them. And how much further than must be.
 */
static const double LEAST_SHARE = 0.1, LEAST_SHARE_BLIND = 0.5, SHARE_SPARE = 0.99;
/* First values that have used up more of the limit than this go back with the others. */
static const double ROOM_USED = 0.5;
/* How many anchors say what the result moves them by; all would take as long as some epochs. */
enum { MEASURED_ANCHORS = 64 };

struct rv_deep {
    struct rv_deep_config config; // kl_weight times the state's scale
    float kl_weight;              // as it was given
    struct rv_deep_batch batch;
    struct rv_trainable trainable;
    struct rv_adamw adamw;
    float *first;    // values the run began with, as many as the pairs have numbers
    double first_kl; // the guard's divergence at those; NaN: not measured
    float *best;     // likewise
    size_t *order;   // training samples of the epoch; from n_train on those that are held out, then the guard
    size_t n_now;    // training samples of the epoch
    size_t n_train;
    bool *is_apart; // one a sample: held out or guard
    size_t n_held_out;
    size_t n_guard;
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
                                   .guard_slack = 4,
                                   .beta = 0.1f,
                                   .preference_weight = 1,
                                   .adamw = rv_adamw_config_default(),
                                   .seed = 1,
                                   .max_state_bytes = (uint64_t)1 << 30};
}

float rv_deep_suited_step(const struct rv_hparams *hparams)
{
    return fminf(2e-3f, 0.1f / (float)hparams->n_embd);
}

/* ---- order and batches ---------------------------------------------------------------------------- */

static bool has_turn(const struct rv_deep_sample *s, int32_t epoch)
{
    return s->n_turns <= 1 || epoch % s->n_turns == s->turn;
}

/* The order of an epoch depends on the seed and its number alone. */
static void shuffle(struct rv_deep *d, int32_t epoch)
{
    struct rv_rng rng;
    size_t n = 0;

    for (size_t i = 0; i < d->batch.n_samples; i++)
        if (!d->is_apart[i] && has_turn(&d->batch.samples[i], epoch))
            d->order[n++] = i;
    d->n_now = n;
    rv_rng_init(&rng, d->config.seed * 0x9E3779B97F4A7C15u + (uint64_t)epoch + 1);
    for (size_t i = n; i > 1; i--) {
        size_t j = (size_t)rv_rng_below(&rng, i), swapped = d->order[i - 1];

        d->order[i - 1] = d->order[j];
        d->order[j] = swapped;
    }
}

static int64_t tokens_of(const struct rv_deep_sample *s)
{
    return s->n + (s->rejected ? s->rejected->n : 0);
}

/* How many samples from `first` on make a batch. */
static size_t batch_size(const struct rv_deep *d, size_t first)
{
    int64_t tokens = 0;
    size_t n = 0;

    while (first + n < d->n_now && (n == 0 || tokens < d->config.batch_tokens)) {
        tokens += tokens_of(&d->batch.samples[d->order[first + n]]);
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
        for (size_t at = 0; at < d->n_now; at += batch_size(d, at))
            n++;
    }
    return n < INT32_MAX ? (int32_t)n : INT32_MAX;
}

static void add_ewc(struct rv_deep *d)
{
    const struct rv_deep_config *c = &d->config;

    for (size_t i = 0; c->fisher && i < d->trainable.n; i++)
        d->trainable.grads[i] += c->ewc * c->fisher[i] * (d->trainable.values[i] - (c->center ? c->center[i] : 0.0f));
}

/* The state is that of what comes next: whoever is told may save it. */
static bool tell(const struct rv_deep *d, int32_t epoch, struct rv_deep_progress *p)
{
    p->epoch = epoch;
    p->n_epochs = d->config.n_epochs;
    p->step = d->adamw.step;
    p->n_steps = d->adamw.config.n_steps;
    p->held_out_before = d->state.held_out_before;
    p->best = d->state.best_loss;
    return !d->config.on_progress || d->config.on_progress(d->config.user, p);
}

/* ---- measuring ------------------------------------------------------------------------------------------ */

/* The loss of what is held out. */
static ruvllm_status measure(struct rv_deep *d, const struct rv_trainable *trainable, double *out,
                             struct ruvllm_error *err)
{
    struct rv_deep_batch_sums sums;
    ruvllm_status rc;

    *out = NAN;
    if (d->n_held_out == 0)
        return RUVLLM_OK;
    rc = rv_deep_batch_run(&d->batch, trainable, d->order + d->n_train, d->n_held_out, false, &sums, err);
    if (!rc)
        *out = sums.nll + sums.preference;
    return rc;
}

/* The mean divergence of anchors: the same bits whatever they weigh now. */
static ruvllm_status measure_kl(struct rv_deep *d, const size_t *list, size_t n, double *out, struct ruvllm_error *err)
{
    struct rv_deep_batch_sums sums;
    float weight = d->config.kl_weight;
    ruvllm_status rc;

    *out = NAN;
    if (n == 0 || !(weight > 0.0f))
        return RUVLLM_OK;
    d->config.kl_weight = 1.0f;
    rc = rv_deep_batch_run(&d->batch, &d->trainable, list, n, false, &sums, err);
    d->config.kl_weight = weight;
    *out = rc ? NAN : sums.kl;
    return rc;
}

static ruvllm_status measure_guard(struct rv_deep *d, double *out, struct ruvllm_error *err)
{
    return measure_kl(d, d->order + d->n_train + d->n_held_out, d->n_guard, out, err);
}

static bool is_within(const struct rv_deep *d, double guard_kl)
{
    return !(d->config.max_guard_kl > 0.0f && guard_kl > (double)d->config.max_guard_kl);
}

static void set_kl_scale(struct rv_deep *d, double scale)
{
    d->state.kl_scale = scale;
    d->config.kl_weight = (float)((double)d->kl_weight * scale);
}

static void swap_first(struct rv_deep *d)
{
    for (size_t i = 0; i < d->trainable.n; i++) {
        float value = d->trainable.values[i];

        d->trainable.values[i] = d->first[i];
        d->first[i] = value;
    }
}

static ruvllm_status know_first(struct rv_deep *d, struct ruvllm_error *err)
{
    ruvllm_status rc;

    if (!isnan(d->first_kl))
        return RUVLLM_OK;
    swap_first(d);
    rc = measure_guard(d, &d->first_kl, err);
    swap_first(d);
    return rc;
}

/* All that was ever learned becomes less, the last run's and those before. */
static void shrink(struct rv_trainable *t, float by)
{
    for (int32_t layer = 0; layer < t->n_layers; layer++) {
        for (int part = 0; part < RV_N_PARTS; part++) {
            struct rv_trainable_pair *p = &t->layers[layer][part];

            for (size_t i = 0; i < (size_t)p->rank * (size_t)p->n_out; i++)
                p->b[i] *= by;
        }
    }
}

/*
 * Takes values back until the guard, which says guard_kl, should say `most`: towards the first ones where those leave
 * room, else towards the frozen model. *share is what stays of the way; below `least` nothing is done.
 */
static ruvllm_status go_back(struct rv_deep *d, double guard_kl, double most, double least, double *share,
                             struct ruvllm_error *err)
{
    ruvllm_status rc = know_first(d, err);
    bool has_room = d->config.start && d->first_kl <= ROOM_USED * most;

    if (rc)
        return rc;
    *share = SHARE_SPARE * rv_deep_guard_share(has_room ? d->first_kl : 0, guard_kl, most);
    if (*share < least)
        return RUVLLM_OK;
    if (!has_room)
        shrink(&d->trainable, (float)*share);
    for (size_t i = 0; has_room && i < d->trainable.n; i++)
        d->trainable.values[i] = d->first[i] + (float)*share * (d->trainable.values[i] - d->first[i]);
    return RUVLLM_OK;
}

/*
 * Anchors weigh as the guard says; values that weight alone would not bring back in time go back themselves, unless
 * nothing would be left of them: what comes of a limit that leaves no room at all is nothing.
 */
static ruvllm_status adapt(struct rv_deep *d, double guard_kl, double n_done, struct ruvllm_error *err)
{
    double aim = rv_deep_guard_aim(&d->config, n_done), share;
    ruvllm_status rc = RUVLLM_OK;

    set_kl_scale(d, rv_deep_guard_scale(&d->config, d->state.kl_scale, guard_kl, aim));
    if (rv_deep_guard_is_lost(guard_kl, aim))
        rc = go_back(d, guard_kl, aim, LEAST_SHARE, &share, err);
    return rc;
}

/* At the end, values that move the guard too far are taken back as far as must be. */
static ruvllm_status take_back(struct rv_deep *d, double *guard_kl, struct ruvllm_error *err)
{
    double limit = (double)d->config.max_guard_kl, left = 1, share = 1;
    double least = d->n_held_out > 0 ? LEAST_SHARE : LEAST_SHARE_BLIND;
    ruvllm_status rc = RUVLLM_OK;

    if (limit <= 0 || d->state.epoch + 1 < d->config.n_epochs)
        return RUVLLM_OK;
    while (!rc && *guard_kl > limit && left >= least) {
        rc = go_back(d, *guard_kl, limit, least / left, &share, err);
        left *= share;
        if (!rc && left >= least)
            rc = measure_guard(d, guard_kl, err);
    }
    return rc;
}

/* ---- steps ------------------------------------------------------------------------------------------ */

/* In runs of few epochs the guard is asked within them too: after the first step of each part but the first. */
static ruvllm_status ask_guard(struct rv_deep *d, size_t before, struct ruvllm_error *err)
{
    size_t n_rounds = (size_t)rv_deep_guard_rounds(&d->config), at = d->state.at;
    ruvllm_status rc;
    double kl;

    if (at >= d->n_now || before * n_rounds / d->n_now == at * n_rounds / d->n_now)
        return RUVLLM_OK;
    rc = measure_guard(d, &kl, err);
    return rc ? rc : adapt(d, kl, d->state.epoch + (double)at / (double)d->n_now, err);
}

static ruvllm_status step(struct rv_deep *d, bool *goes_on, struct ruvllm_error *err)
{
    size_t n = batch_size(d, d->state.at);
    struct rv_deep_progress p = {.held_out = NAN};
    struct rv_deep_batch_sums sums;
    ruvllm_status rc;

    rv_trainable_clear_grads(&d->trainable);
    rc = rv_deep_batch_run(&d->batch, &d->trainable, d->order + d->state.at, n, true, &sums, err);
    if (rc)
        return rc;
    add_ewc(d);
    p.step_size = (double)rv_adamw_step_size(&d->adamw.config, d->adamw.step);
    if (!rv_adamw_step(&d->adamw, d->trainable.values, d->trainable.grads, &p.length))
        return rv_fail(err, RUVLLM_BACKEND, "the gradient of step %d is not finite; try a smaller step",
                       d->adamw.step + 1);
    d->state.at += n;
    p.loss = sums.nll + sums.preference;
    p.kl = d->config.kl_weight > 0.0f ? sums.kl / (double)d->config.kl_weight : 0;
    rc = ask_guard(d, d->state.at - n, err);
    if (!rc)
        *goes_on = tell(d, d->state.epoch, &p);
    return rc;
}

/* After an epoch: is this the best so far, and is there hope for better? */
static ruvllm_status end_epoch(struct rv_deep *d, bool *goes_on, struct ruvllm_error *err)
{
    struct rv_deep_progress p = {0};
    int32_t epoch = d->state.epoch;
    ruvllm_status rc = measure_guard(d, &p.kl, err);

    if (!rc)
        rc = take_back(d, &p.kl, err);
    if (!rc)
        rc = measure(d, &d->trainable, &p.held_out, err);
    if (rc)
        return rc;
    if (is_within(d, p.kl) && (d->n_held_out == 0 || p.held_out < d->state.best_loss)) {
        memcpy(d->best, d->trainable.values, d->trainable.n * sizeof(*d->best));
        d->state.best_loss = p.held_out;
        d->state.best_epoch = d->state.epoch;
        d->state.n_worse = 0;
    } else if (is_within(d, p.kl)) { // while the guard is being brought back there is hope
        d->state.n_worse++;
    }
    rc = adapt(d, p.kl, epoch + 1, err);
    if (rc)
        return rc;
    d->state.epoch++;
    d->state.at = 0;
    if (d->config.patience > 0 && d->state.n_worse >= d->config.patience)
        d->state.epoch = d->config.n_epochs;
    else if (d->state.epoch < d->config.n_epochs)
        shuffle(d, d->state.epoch);
    *goes_on = tell(d, epoch, &p);
    return RUVLLM_OK;
}

/* The mean divergence by the result: of anchors that were trained on, some out of all, and of the guard. */
static ruvllm_status measure_anchors(struct rv_deep *d, struct rv_deep_result *result, struct ruvllm_error *err)
{
    size_t list[MEASURED_ANCHORS], n_all = 0, n = 0, seen = 0;
    ruvllm_status rc;

    for (size_t i = 0; i < d->batch.n_samples; i++)
        n_all += d->batch.samples[i].is_anchor && !d->is_apart[i];
    for (size_t i = 0; i < d->batch.n_samples && n < MEASURED_ANCHORS; i++) {
        if (!d->batch.samples[i].is_anchor || d->is_apart[i])
            continue;
        if (seen * MEASURED_ANCHORS / n_all >= n)
            list[n++] = i;
        seen++;
    }
    rc = measure_kl(d, list, n, &result->anchor_kl, err);
    return rc ? rc : measure_guard(d, &result->guard_kl, err);
}

ruvllm_status rv_deep_run(struct rv_deep *deep, struct rv_deep_result *result, struct ruvllm_error *err)
{
    struct rv_deep *d = deep;
    bool goes_on = true;
    ruvllm_status rc = RUVLLM_OK;
    float *current;

    *result = (struct rv_deep_result){.anchor_kl = NAN, .guard_kl = NAN};
    if (!d->state.has_begun) {
        rc = measure(d, d->config.start ? &d->trainable : NULL, &d->state.held_out_before, err);
        d->state.best_loss = d->state.held_out_before; // what was learned must beat what was there
        d->state.has_begun = !rc;
    }
    while (!rc && goes_on && d->state.epoch < d->config.n_epochs) {
        if (d->state.at < d->n_now)
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
        rc = measure_anchors(d, result, err);
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

static void add_sample(struct rv_sha256 *sha, const struct rv_deep_sample *s)
{
    int32_t facts[] = {s->n,       s->is_anchor,        s->is_guard,         s->episode, s->turn,
                       s->n_turns, s->old_logp != NULL, s->rejected != NULL, s->is_vote};

    rv_sha256_add(sha, facts, sizeof(facts));
    rv_sha256_add(sha, s->tokens, (size_t)s->n * sizeof(*s->tokens));
    if (!s->is_anchor)
        rv_sha256_add(sha, s->weights, (size_t)s->n * sizeof(*s->weights));
}

static void add_numbers(struct rv_sha256 *sha, const float *numbers, size_t n)
{
    int32_t has_any = numbers != NULL;

    rv_sha256_add(sha, &has_any, sizeof(has_any));
    if (numbers)
        rv_sha256_add(sha, numbers, n * sizeof(*numbers));
}

/* Of everything that decides how the run goes on. */
static void fingerprint(const struct rv_deep *d, char hex[RV_SHA256_HEX_LEN + 1])
{
    const struct rv_deep_config *c = &d->config;
    const struct rv_adamw_config *a = &d->adamw.config;
    int64_t counts[] = {c->rank,
                        c->parts,
                        c->batch_tokens,
                        c->n_epochs,
                        c->patience,
                        c->has_kto,
                        (int64_t)c->seed,
                        a->schedule,
                        a->n_warmup,
                        (int64_t)d->trainable.n,
                        (int64_t)d->batch.n_samples};
    float numbers[] = {c->alpha, c->held_out,   d->kl_weight, c->max_guard_kl, c->beta, c->preference_weight,
                       c->ewc,   a->step,       a->beta1,     a->beta2,        a->eps,  a->decay,
                       a->clip,  c->guard_slack};
    struct rv_sha256 sha;

    rv_sha256_init(&sha);
    rv_sha256_add(&sha, counts, sizeof(counts));
    rv_sha256_add(&sha, numbers, sizeof(numbers));
    rv_sha256_add(&sha, c->manifest->roots[RV_ROOT_OUTPUT_NORM]->data,
                  c->manifest->roots[RV_ROOT_OUTPUT_NORM]->n_bytes);
    add_numbers(&sha, c->start, d->trainable.n);
    add_numbers(&sha, c->fisher, d->trainable.n);
    add_numbers(&sha, c->center, d->trainable.n);
    for (size_t i = 0; i < d->batch.n_samples; i++) {
        add_sample(&sha, &d->batch.samples[i]);
        if (d->batch.samples[i].rejected)
            add_sample(&sha, d->batch.samples[i].rejected);
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
    if (!rc)
        set_kl_scale(deep, deep->state.kl_scale);
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
    if (s->n_turns < 0 || (s->n_turns > 1 && (s->turn < 0 || s->turn >= s->n_turns)))
        return rv_fail(err, RUVLLM_INVALID, "sample %zu has turn %d of %d", i + 1, s->turn, s->n_turns);
    for (int32_t t = 1; t < s->n && !s->is_anchor; t++)
        weight += fabs((double)s->weights[t]);
    if (!s->is_anchor && (!(weight > 0) || !isfinite(weight)))
        return rv_fail(err, RUVLLM_INVALID, "sample %zu has no token with a weight", i + 1);
    if (s->rejected && (s->is_anchor || s->rejected->rejected || s->rejected->is_anchor))
        return rv_fail(err, RUVLLM_INVALID, "sample %zu is a pair of what cannot be one", i + 1);
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
    if (!(c->beta > 0.0f && isfinite(c->beta)) || !(c->preference_weight >= 0.0f && isfinite(c->preference_weight)) ||
        !(c->max_guard_kl >= 0.0f))
        return rv_fail(err, RUVLLM_INVALID, "beta must be above 0, the weight of preferences and the limit at least 0");
    for (size_t i = 0; i < n && !rc; i++) {
        rc = check_sample(c, &samples[i], i, err);
        if (!rc && samples[i].rejected)
            rc = check_sample(c, samples[i].rejected, i, err);
    }
    return rc;
}

/* A number in [0, 1) for an episode, the same on every machine. */
static double lot_of(uint64_t seed, int32_t episode)
{
    struct rv_rng rng;

    rv_rng_init(&rng, seed ^ ((uint64_t)(uint32_t)episode << 20) ^ 0x5EED);
    return rv_rng_uniform(&rng);
}

/* Episodes with a lot below this are held out: at least one, where something is to be. */
static double draw_limit(const struct rv_deep *d)
{
    double least = 1, limit = (double)d->config.held_out;

    for (size_t i = 0; i < d->batch.n_samples; i++)
        if (!d->batch.samples[i].is_anchor)
            least = fmin(least, lot_of(d->config.seed, d->batch.samples[i].episode));
    return limit > 0 && least >= limit ? nextafter(least, 2) : limit;
}

/* Draws the episodes that are held out; anchors never are. Puts them behind the training samples, then the guard. */
static ruvllm_status hold_out(struct rv_deep *d, struct ruvllm_error *err)
{
    size_t n = d->batch.n_samples, n_useful = 0, at, guard;
    double limit = draw_limit(d);

    for (size_t i = 0; i < n; i++) {
        const struct rv_deep_sample *s = &d->batch.samples[i];
        bool is_held_out = !s->is_anchor && lot_of(d->config.seed, s->episode) < limit;
        bool is_guard = s->is_anchor && s->is_guard;

        d->is_apart[i] = is_held_out || is_guard;
        d->n_held_out += is_held_out && s->n_turns <= 1;
        d->n_guard += is_guard;
        d->n_train += !d->is_apart[i];
        n_useful += !s->is_anchor && !is_held_out;
    }
    if (n_useful == 0)
        return rv_fail(err, RUVLLM_INVALID, "nothing is left to train on: hold out less");
    at = d->n_train;
    guard = at + d->n_held_out;
    for (size_t i = 0; i < n; i++)
        if (d->is_apart[i] && (d->batch.samples[i].is_anchor || d->batch.samples[i].n_turns <= 1))
            d->order[d->batch.samples[i].is_anchor ? guard++ : at++] = i;
    return RUVLLM_OK;
}

static ruvllm_status allocate(struct rv_deep *d, struct ruvllm_error *err)
{
    size_t n = d->trainable.n;

    d->order = rv_calloc(d->batch.n_samples, sizeof(*d->order));
    d->is_apart = rv_calloc(d->batch.n_samples, sizeof(*d->is_apart));
    d->best = rv_calloc(n, sizeof(*d->best));
    d->first = rv_calloc(n, sizeof(*d->first));
    if (!d->order || !d->is_apart || !d->best || !d->first)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a run of %zu samples", d->batch.n_samples);
    if (d->config.start)
        memcpy(d->trainable.values, d->config.start, n * sizeof(*d->best));
    memcpy(d->best, d->trainable.values, n * sizeof(*d->best));
    memcpy(d->first, d->trainable.values, n * sizeof(*d->first));
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
    struct rv_adamw_config adamw = c->adamw;
    ruvllm_status rc = rv_trainable_init(&d->trainable, &shape, err);

    if (!rc)
        rc = allocate(d, err);
    if (!rc)
        rc = hold_out(d, err);
    if (!rc)
        rc = rv_deep_batch_init(&d->batch, err);
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

    *out = NULL;
    if (rc)
        return rc;
    d = rv_calloc(1, sizeof(*d));
    if (!d)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a run");
    d->config = *config;
    d->kl_weight = config->kl_weight;
    d->first_kl = config->start ? NAN : 0;
    d->batch = (struct rv_deep_batch){.config = &d->config, .samples = samples, .n_samples = n_samples};
    d->state = (struct rv_deep_state){.best_epoch = -1, .held_out_before = NAN, .best_loss = NAN, .kl_scale = 1};
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
    rv_deep_batch_release(&deep->batch);
    rv_free(deep->order);
    rv_free(deep->is_apart);
    rv_free(deep->best);
    rv_free(deep->first);
    rv_adamw_release(&deep->adamw);
    rv_trainable_release(&deep->trainable);
    rv_free(deep);
}
