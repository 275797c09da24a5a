/*
 * Training stories260K on Shakespeare: what is learned is measured on held-out parts, what was there before by anchors
 * of its own stories. Controls: no steps, and what a stopped and resumed run gives.
 */
#include "learn/deep.h"
#include "support/test.h"
#include "support/vocab_from_gguf.h"

#include "base/alloc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLE = 64, N_SAMPLES = 48, N_ANCHORS = 16 };

struct fixture {
    struct test_vocab vocab;
    struct rv_hparams hparams;
    struct rv_manifest manifest;
    struct rv_team *team;
    int32_t *play, *story;
    struct rv_deep_sample samples[N_SAMPLES + N_ANCHORS];
    float weights[SAMPLE];
};

static struct fixture f;

static int32_t *tokens_of(const char *name, size_t least)
{
    size_t len, n;
    char *text = test_read_file(test_data(name), &len);
    int32_t *ids;

    assert_ok(rv_vocab_encode(f.vocab.vocab, text, len < 20000 ? len : 20000, NULL, 0, &ids, &n, err));
    assert_true(n >= least);
    free(text);
    return ids;
}

static int setup(void **state)
{
    struct rv_rope_override rope = {.ext_factor = -1};

    (void)state;
    test_vocab_open(&f.vocab, test_data("models/stories260K.gguf"));
    assert_ok(rv_hparams_read(&f.hparams, f.vocab.file, &rope, err));
    assert_ok(rv_manifest_init(&f.manifest, f.vocab.file, &f.hparams, err));
    assert_ok(rv_team_open(&f.team, 1, false, err));
    f.play = tokens_of("text/tinyshakespeare.txt", SAMPLE * N_SAMPLES);
    f.story = tokens_of("text/tinystories_val_100k.txt", SAMPLE * N_ANCHORS);
    for (int i = 0; i < SAMPLE; i++)
        f.weights[i] = 1.0f;
    for (int i = 0; i < N_SAMPLES; i++)
        f.samples[i] = (struct rv_deep_sample){
            .tokens = f.play + i * SAMPLE, .n = SAMPLE - i % 7, .weights = f.weights, .episode = i / 2};
    for (int i = 0; i < N_ANCHORS; i++)
        f.samples[N_SAMPLES + i] =
            (struct rv_deep_sample){.tokens = f.story + i * SAMPLE, .n = SAMPLE, .is_anchor = true, .episode = 1000};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rv_free(f.play);
    rv_free(f.story);
    rv_team_close(f.team);
    rv_manifest_release(&f.manifest);
    test_vocab_close(&f.vocab);
    return 0;
}

static struct rv_deep_config config_of(void)
{
    struct rv_deep_config c = rv_deep_config_default();

    c.hparams = &f.hparams;
    c.manifest = &f.manifest;
    c.team = f.team;
    c.batch_tokens = 512;
    c.n_epochs = 4;
    c.held_out = 0.25f;
    c.adamw.step = 3e-3f;
    return c;
}

/* Stops after some steps; remembers the first and the last loss. */
struct watch {
    int32_t stop_after, n_seen;
    double first, last;
};

static bool watch_step(void *user, const struct rv_deep_progress *p)
{
    struct watch *w = user;

    if (!isnan(p->held_out))
        return true;
    if (w->n_seen++ == 0)
        w->first = p->loss;
    w->last = p->loss;
    return p->step < w->stop_after;
}

static float *values_of(const struct rv_deep *d)
{
    const struct rv_trainable *t = rv_deep_trainable(d);
    float *copy = malloc(t->n * sizeof(*copy));

    assert_non_null(copy);
    memcpy(copy, t->values, t->n * sizeof(*copy));
    return copy;
}

static struct rv_deep_result train(const struct rv_deep_config *c, size_t n_samples, float **values)
{
    struct rv_deep_result result;
    struct rv_deep *d;

    assert_ok(rv_deep_open(&d, c, f.samples, n_samples, err));
    assert_ok(rv_deep_run(d, &result, err));
    if (values)
        *values = values_of(d);
    rv_deep_close(d);
    return result;
}

static void another_domain_is_learned_and_the_old_one_kept(void **state)
{
    struct rv_deep_config c = config_of();
    struct watch w = {.stop_after = INT32_MAX};
    struct rv_deep_result alone, anchored;

    (void)state;
    c.on_progress = watch_step;
    c.user = &w;
    c.kl_weight = 1e-6f; // measured, and of no weight
    alone = train(&c, N_SAMPLES + N_ANCHORS, NULL);
    assert_true(w.last < 0.9 * w.first);
    assert_true(alone.held_out_after < 0.92 * alone.held_out_before);
    c.kl_weight = 1.0f;
    anchored = train(&c, N_SAMPLES + N_ANCHORS, NULL);
    print_message("held out %.3f -> %.3f, divergence on stories %.3f; with anchors -> %.3f, %.3f\n",
                  alone.held_out_before, alone.held_out_after, alone.anchor_kl, anchored.held_out_after,
                  anchored.anchor_kl);
    assert_true(anchored.held_out_after < 0.95 * anchored.held_out_before);
    assert_true(anchored.anchor_kl < 0.5 * alone.anchor_kl);
}

static void without_steps_nothing_is_gained(void **state)
{
    struct rv_deep_config c = config_of();
    struct rv_deep_result result;

    (void)state;
    c.adamw.step = 0.0f;
    result = train(&c, N_SAMPLES, NULL);
    assert_true(result.held_out_after == result.held_out_before && result.best_epoch == -1);
}

static void a_pull_to_the_center_keeps_values_near_it(void **state)
{
    struct rv_deep_config c = config_of();
    float *free_values, *held_values, *fisher;
    double moved = 0, held = 0;
    size_t n = 0;
    struct rv_deep *d;

    (void)state;
    c.held_out = 0;
    c.n_epochs = 2;
    assert_ok(rv_deep_open(&d, &c, f.samples, N_SAMPLES, err));
    n = rv_deep_trainable(d)->n;
    rv_deep_close(d);
    fisher = malloc(n * sizeof(*fisher));
    assert_non_null(fisher);
    for (size_t i = 0; i < n; i++)
        fisher[i] = 1.0f;
    (void)train(&c, N_SAMPLES, &free_values);
    c.fisher = fisher;
    c.ewc = 10.0f;
    (void)train(&c, N_SAMPLES, &held_values); // towards 0, where A does not begin: all of it shrinks
    for (size_t i = 0; i < n; i++) {
        moved += (double)(free_values[i] * free_values[i]);
        held += (double)(held_values[i] * held_values[i]);
    }
    assert_true(held < 0.8 * moved);
    free(fisher);
    free(free_values);
    free(held_values);
}

static void a_vote_against_makes_an_answer_less_likely(void **state)
{
    struct rv_deep_config c = config_of();
    struct rv_deep_sample votes[2] = {f.samples[0], f.samples[1]};
    float down[SAMPLE], nll[2][SAMPLE], before[2] = {0, 0}, after[2] = {0, 0};
    struct rv_backward_config b = {.hparams = &f.hparams, .manifest = &f.manifest, .team = f.team, .max_columns = 128};
    struct rv_backward_sequence sequences[2];
    struct rv_backward *backward;
    struct rv_backward_result sums;
    struct rv_deep_result result;
    struct rv_deep *d;

    (void)state;
    for (int i = 0; i < SAMPLE; i++)
        down[i] = -1.0f;
    votes[1].weights = down;
    votes[0].is_vote = votes[1].is_vote = true;
    c.held_out = 0;
    c.n_epochs = 6;
    c.patience = 0;
    assert_ok(rv_backward_new(&backward, &b, err));
    assert_ok(rv_deep_open(&d, &c, votes, 2, err));
    for (int s = 0; s < 2; s++)
        sequences[s] = (struct rv_backward_sequence){
            .tokens = votes[s].tokens, .n = votes[s].n, .weights = f.weights, .nll = nll[s]};
    assert_ok(rv_backward_run(backward, NULL, sequences, 2, false, &sums, err));
    for (int s = 0; s < 2; s++)
        for (int i = 1; i < votes[s].n; i++)
            before[s] += nll[s][i];
    assert_ok(rv_deep_run(d, &result, err));
    assert_ok(rv_backward_run(backward, rv_deep_trainable(d), sequences, 2, false, &sums, err));
    for (int s = 0; s < 2; s++)
        for (int i = 1; i < votes[s].n; i++)
            after[s] += nll[s][i];
    assert_true(after[0] < before[0] && after[1] > before[1]);
    rv_deep_close(d);
    rv_backward_free(backward);
}

/* Sums of -log p of samples' tokens, by what was learned or by the frozen model. */
static void measure(const struct rv_deep_sample *samples, int n, const struct rv_trainable *trainable, double *out)
{
    struct rv_backward_config config = {
        .hparams = &f.hparams, .manifest = &f.manifest, .team = f.team, .max_columns = 128};
    struct rv_backward_result result;
    struct rv_backward *backward;

    assert_ok(rv_backward_new(&backward, &config, err));
    for (int i = 0; i < n; i++) {
        struct rv_backward_sequence q = {.tokens = samples[i].tokens, .n = samples[i].n, .weights = f.weights};

        assert_ok(rv_backward_run(backward, trainable, &q, 1, false, &result, err));
        out[i] = result.nll;
    }
    rv_backward_free(backward);
}

static void a_preferred_answer_wins_over_the_rejected_one(void **state)
{
    struct rv_deep_config c = config_of();
    struct rv_deep_sample rejected[4], chosen[4];
    double before[2][4], after[2][4];
    struct rv_deep_result result;
    struct watch w = {.stop_after = INT32_MAX};
    struct rv_deep *d;

    (void)state;
    for (int i = 0; i < 4; i++) {
        rejected[i] = f.samples[2 * i + 1];
        chosen[i] = f.samples[2 * i];
        chosen[i].rejected = &rejected[i];
    }
    c.held_out = 0;
    c.n_epochs = 12;
    c.on_progress = watch_step;
    c.user = &w;
    assert_ok(rv_deep_open(&d, &c, chosen, 4, err));
    measure(chosen, 4, NULL, before[0]);
    measure(rejected, 4, NULL, before[1]);
    assert_ok(rv_deep_run(d, &result, err));
    measure(chosen, 4, rv_deep_trainable(d), after[0]);
    measure(rejected, 4, rv_deep_trainable(d), after[1]);
    print_message("DPO %.4f -> %.4f\n", w.first, w.last);
    assert_true(fabs(w.first - log(2)) < 1e-4); // nothing is preferred yet
    assert_true(w.last < 0.5 * w.first);
    for (int i = 0; i < 4; i++)
        assert_true(after[1][i] - before[1][i] > after[0][i] - before[0][i] + 2); // nats of margin
    rv_deep_close(d);
}

static void votes_by_kto_move_both_ways_and_then_stop(void **state)
{
    struct rv_deep_config c = config_of();
    struct rv_deep_sample votes[4];
    float down[SAMPLE];
    double before[4], after[4];
    struct rv_deep_result result;
    struct rv_deep *d;

    (void)state;
    for (int i = 0; i < SAMPLE; i++)
        down[i] = -1.0f;
    for (int i = 0; i < 4; i++) {
        votes[i] = f.samples[i];
        votes[i].is_vote = true;
        votes[i].weights = i % 2 ? down : f.weights;
    }
    c.has_kto = true;
    c.held_out = 0;
    c.n_epochs = 60;
    assert_ok(rv_deep_open(&d, &c, votes, 4, err));
    measure(votes, 4, NULL, before);
    assert_ok(rv_deep_run(d, &result, err));
    measure(votes, 4, rv_deep_trainable(d), after);
    for (int i = 0; i < 4; i++) {
        double moved = (after[i] - before[i]) * (i % 2 ? 1 : -1);

        print_message("vote %d moved %.1f nats\n", i, moved);
        assert_true(moved > 5 && moved < 400); // what is decided has no slope left: unlearning does not run away
    }
    rv_deep_close(d);
}

static void set_guard(bool has_any)
{
    for (int i = 0; i < N_ANCHORS; i += 2)
        f.samples[N_SAMPLES + i].is_guard = has_any;
}

static void what_moves_the_guard_too_far_is_no_result(void **state)
{
    struct rv_deep_config c = config_of();
    struct rv_deep_result loose, tight;

    (void)state;
    set_guard(true);
    c.kl_weight = 1e-6f;
    loose = train(&c, N_SAMPLES + N_ANCHORS, NULL);
    assert_true(loose.best_epoch >= 0 && loose.guard_kl > 0 && loose.anchor_kl > 0);
    c.max_guard_kl = (float)(loose.guard_kl / 1e6); // too little for any way
    tight = train(&c, N_SAMPLES + N_ANCHORS, NULL);
    assert_true(tight.best_epoch == -1 && tight.held_out_after == tight.held_out_before && tight.guard_kl == 0);
    c.n_epochs = 1;
    c.max_guard_kl = 0;
    loose = train(&c, N_SAMPLES + N_ANCHORS, NULL);
    c.max_guard_kl = (float)(loose.guard_kl / 2); // little enough to go back by
    tight = train(&c, N_SAMPLES + N_ANCHORS, NULL);
    print_message("the guard moved by %.4f, allowed %.4f: %.4f, held out %.3f -> %.3f\n", loose.guard_kl,
                  (double)c.max_guard_kl, tight.guard_kl, tight.held_out_before, tight.held_out_after);
    assert_true(tight.best_epoch == 0 && tight.held_out_after < tight.held_out_before);
    assert_true(tight.guard_kl <= (double)c.max_guard_kl && tight.guard_kl > 0.6 * (double)c.max_guard_kl);
    set_guard(false);
}

/*
 * Steps so long that a run of two epochs is far beyond the limit at the end of the first one: the guard is asked within
 * epochs, values go back, and something is learned all the same. A run that goes on from there has little room left.
 */
static void long_steps_are_no_reason_to_learn_nothing(void **state)
{
    struct rv_deep_config c = config_of();
    struct rv_deep_result free_run, first, second;
    float *values;

    (void)state;
    set_guard(true);
    c.n_epochs = 2;
    c.adamw.step = 1e-2f;
    c.kl_weight = 0.1f;
    free_run = train(&c, N_SAMPLES + N_ANCHORS, NULL);
    c.max_guard_kl = (float)(free_run.guard_kl / 50);
    first = train(&c, N_SAMPLES + N_ANCHORS, &values);
    c.start = values;
    second = train(&c, N_SAMPLES + N_ANCHORS, NULL);
    print_message("the guard moved by %.4f, allowed %.4f: %.4f and %.4f; held out %.3f -> %.3f -> %.3f\n",
                  free_run.guard_kl, (double)c.max_guard_kl, first.guard_kl, second.guard_kl, first.held_out_before,
                  first.held_out_after, second.held_out_after);
    assert_true(first.best_epoch >= 0 && first.held_out_after < 0.99 * first.held_out_before);
    assert_true(first.guard_kl <= (double)c.max_guard_kl && second.guard_kl <= (double)c.max_guard_kl);
    assert_true(second.held_out_after <= first.held_out_after + 1e-9);
    free(values);
    set_guard(false);
}

struct scales {
    double guard[32];
    int n;
};

static bool keep_guard(void *user, const struct rv_deep_progress *p)
{
    struct scales *s = user;

    if (p->length == 0 && s->n < 32)
        s->guard[s->n++] = p->kl;
    return true;
}

/* What the guard says after each epoch of a run of few samples. */
static struct rv_deep_result watch_guard(struct rv_deep_config *c, struct scales *scales)
{
    struct rv_deep_result result;
    struct rv_deep *d;

    *scales = (struct scales){.n = 0};
    c->on_progress = keep_guard;
    c->user = scales;
    assert_ok(rv_deep_open(&d, c, f.samples + N_SAMPLES - 8, 8 + N_ANCHORS, err));
    assert_ok(rv_deep_run(d, &result, err));
    rv_deep_close(d);
    return result;
}

/* With slack the guard is moved further at first, and no further at the end; in a short run there is none. */
static void slack_is_taken_back(void **state)
{
    struct rv_deep_config c = config_of();
    struct scales with, without;
    struct rv_deep_result result;

    (void)state;
    set_guard(true);
    c.n_epochs = 24;
    c.patience = 0;
    c.held_out = 0;
    c.kl_weight = 4;
    c.max_guard_kl = 0.08f;
    c.guard_slack = 0;
    (void)watch_guard(&c, &without);
    c.guard_slack = 4;
    result = watch_guard(&c, &with);
    for (int i = 0; i < 24; i++)
        print_message("%.4f %.4f\n", without.guard[i], with.guard[i]);
    assert_true(with.n == 24 && without.n == 24);
    assert_true(with.guard[9] > 1.1 * without.guard[9]);
    assert_true(result.best_epoch == 23 && result.guard_kl <= (double)c.max_guard_kl);
    c.n_epochs = 4;
    (void)watch_guard(&c, &with);
    c.guard_slack = 0;
    (void)watch_guard(&c, &without);
    assert_memory_equal(with.guard, without.guard, sizeof(with.guard));
    set_guard(false);
}

static void a_run_can_begin_where_another_ended(void **state)
{
    struct rv_deep_config c = config_of();
    struct rv_deep_result first, second;
    float *values;

    (void)state;
    c.n_epochs = 2;
    first = train(&c, N_SAMPLES, &values);
    c.start = values;
    second = train(&c, N_SAMPLES, NULL);
    assert_true(fabs(second.held_out_before - first.held_out_after) < 1e-9);
    assert_true(second.held_out_after < first.held_out_after);
    free(values);
}

/* Keeps the losses of the first steps. */
struct losses {
    double all[64];
    int n;
};

static bool keep_loss(void *user, const struct rv_deep_progress *p)
{
    struct losses *l = user;

    if (p->length > 0 && l->n < 64)
        l->all[l->n++] = p->loss;
    return true;
}

static void samples_that_take_turns_are_seen_in_theirs(void **state)
{
    struct rv_deep_config c = config_of();
    struct losses turns = {.n = 0}, halves = {.n = 0};
    struct rv_deep_sample samples[4];
    struct ruvllm_error error;
    struct rv_deep_result result;
    struct rv_deep *d;

    (void)state;
    c.held_out = 0;
    c.n_epochs = 3;
    c.batch_tokens = 4096; // a step an epoch
    c.adamw.step = 0.0f;
    c.on_progress = keep_loss;
    for (int i = 0; i < 4; i++) {
        samples[i] = f.samples[i];
        samples[i].turn = i / 2;
        samples[i].n_turns = 2;
    }
    c.user = &turns;
    assert_ok(rv_deep_open(&d, &c, samples, 4, err));
    assert_ok(rv_deep_run(d, &result, err));
    rv_deep_close(d);
    c.n_epochs = 1;
    c.user = &halves;
    for (size_t i = 0; i < 4; i += 2) {
        assert_ok(rv_deep_open(&d, &c, f.samples + i, 2, err));
        assert_ok(rv_deep_run(d, &result, err));
        rv_deep_close(d);
    }
    assert_true(turns.n == 3 && halves.n == 2);
    assert_true(fabs(turns.all[0] - halves.all[0]) < 1e-6 && fabs(turns.all[1] - halves.all[1]) < 1e-6);
    assert_true(fabs(turns.all[2] - halves.all[0]) < 1e-6 && fabs(halves.all[0] - halves.all[1]) > 1e-3);
    samples[1].turn = 2;
    assert_fails(rv_deep_open(&d, &c, samples, 4, &error), RUVLLM_INVALID, error, "sample 2 has turn 2 of 2");
}

/* Of what is held out only those are measured that are in every epoch. */
static void turns_of_what_is_held_out_are_not_measured(void **state)
{
    struct rv_deep_config c = config_of();
    struct rv_deep_sample samples[N_SAMPLES + N_SAMPLES];
    struct rv_deep_result plain = train(&c, N_SAMPLES, NULL), more;
    struct rv_deep *d;

    (void)state;
    memcpy(samples, f.samples, N_SAMPLES * sizeof(*samples));
    memcpy(samples + N_SAMPLES, f.samples, N_SAMPLES * sizeof(*samples));
    for (int i = 0; i < N_SAMPLES; i++) {
        samples[N_SAMPLES + i].tokens = f.story; // of the same episode, and another text
        samples[N_SAMPLES + i].turn = i % 3;
        samples[N_SAMPLES + i].n_turns = 3;
    }
    assert_ok(rv_deep_open(&d, &c, samples, N_SAMPLES + N_SAMPLES, err));
    assert_ok(rv_deep_run(d, &more, err));
    rv_deep_close(d);
    assert_true(fabs(plain.held_out_before - more.held_out_before) < 1e-6);
    assert_true(more.held_out_after != plain.held_out_after);
}

static void a_stopped_run_goes_on_to_the_same_end(void **state)
{
    struct rv_deep_config c = config_of();
    struct rv_deep_result whole, part;
    struct ruvllm_error error;
    const char *path = test_temp_path(".run");
    float *want, *got;
    struct rv_deep *d;

    (void)state;
    c.n_epochs = 2;
    for (int i = 0; i < N_SAMPLES; i += 3) { // some take turns
        f.samples[i].turn = i / 3 % 2;
        f.samples[i].n_turns = 2;
    }
    whole = train(&c, N_SAMPLES, &want);
    for (int32_t stop = 3;; stop += 4) { // stopped again and again
        struct watch w = {.stop_after = stop};

        c.on_progress = watch_step;
        c.user = &w;
        assert_ok(rv_deep_open(&d, &c, f.samples, N_SAMPLES, err));
        if (stop > 3)
            assert_ok(rv_deep_load(d, path, err));
        assert_ok(rv_deep_run(d, &part, err));
        if (!part.was_stopped)
            break;
        assert_ok(rv_deep_save(d, path, err));
        rv_deep_close(d);
    }
    got = values_of(d);
    assert_memory_equal(got, want, rv_deep_trainable(d)->n * sizeof(*got));
    assert_true(part.held_out_after == whole.held_out_after && part.n_steps == whole.n_steps);
    rv_deep_close(d);
    c.rank = 4;
    assert_ok(rv_deep_open(&d, &c, f.samples, N_SAMPLES, err));
    assert_fails(rv_deep_load(d, path, &error), RUVLLM_INVALID, error, "another run");
    rv_deep_close(d);
    c.rank = rv_deep_config_default().rank;
    f.samples[0].turn = 1;
    assert_ok(rv_deep_open(&d, &c, f.samples, N_SAMPLES, err));
    assert_fails(rv_deep_load(d, path, &error), RUVLLM_INVALID, error, "another run");
    rv_deep_close(d);
    for (int i = 0; i < N_SAMPLES; i++)
        f.samples[i].turn = f.samples[i].n_turns = 0;
    free(want);
    free(got);
}

enum { MAX_SAVES = 40, PATH = 512 };

/* Saves whenever it is told something, each time in a file of its own. */
struct saves {
    struct rv_deep *deep;
    const char *path;
    int n;
};

static void path_of(const struct saves *s, int i, char out[PATH])
{
    assert_true(snprintf(out, PATH, "%s.%d", s->path, i) < PATH);
}

static bool save_now(void *user, const struct rv_deep_progress *p)
{
    struct saves *s = user;
    char path[PATH];

    assert_true(p->step > 0 && s->n < MAX_SAVES);
    path_of(s, s->n++, path);
    assert_ok(rv_deep_save(s->deep, path, err));
    return true;
}

/* Whatever it was saved after, the end of an epoch and the last step included, a run comes to the same bits. */
static void check_saves(struct rv_deep_config c)
{
    struct saves s = {.path = test_temp_path(".saves")};
    struct rv_deep_result whole, rest;
    float *want, *got;
    struct rv_deep *d;

    c.on_progress = save_now;
    c.user = &s;
    assert_ok(rv_deep_open(&s.deep, &c, f.samples + N_SAMPLES - 12, 12 + N_ANCHORS, err));
    assert_ok(rv_deep_run(s.deep, &whole, err));
    want = values_of(s.deep);
    rv_deep_close(s.deep);
    assert_true(s.n == whole.n_steps + whole.n_epochs && whole.best_epoch >= 0);
    c.on_progress = NULL;
    for (int i = 0; i < s.n; i++) {
        char path[PATH];

        path_of(&s, i, path);
        assert_ok(rv_deep_open(&d, &c, f.samples + N_SAMPLES - 12, 12 + N_ANCHORS, err));
        assert_ok(rv_deep_load(d, path, err));
        assert_ok(rv_deep_run(d, &rest, err));
        got = values_of(d);
        assert_memory_equal(got, want, rv_deep_trainable(d)->n * sizeof(*got));
        assert_true(rest.guard_kl == whole.guard_kl && rest.best_epoch == whole.best_epoch);
        assert_true(rest.n_steps == whole.n_steps && rest.n_epochs == whole.n_epochs);
        rv_deep_close(d);
        free(got);
        assert_int_equal(remove(path), 0);
    }
    free(want);
}

static void a_run_saved_at_any_time_goes_on_to_the_same_end(void **state)
{
    struct rv_deep_config c = config_of();

    (void)state;
    set_guard(true);
    c.n_epochs = 3;
    c.patience = 0;
    c.held_out = 0;
    c.kl_weight = 2;
    c.max_guard_kl = 0.05f;
    check_saves(c);
    c.held_out = 0.25f;
    c.patience = 1;
    check_saves(c);
    set_guard(false);
}

static void what_cannot_be_trained_on_is_named(void **state)
{
    struct rv_deep_config c = config_of();
    struct rv_deep_sample wrong = f.samples[0];
    float none[SAMPLE] = {0};
    struct ruvllm_error error;
    struct rv_deep *d;

    (void)state;
    assert_fails(rv_deep_open(&d, &c, f.samples, 0, &error), RUVLLM_INVALID, error, "nothing to train on");
    wrong.weights = none;
    assert_fails(rv_deep_open(&d, &c, &wrong, 1, &error), RUVLLM_INVALID, error, "sample 1 has no token");
    wrong = f.samples[0];
    wrong.n = 1;
    assert_fails(rv_deep_open(&d, &c, &wrong, 1, &error), RUVLLM_INVALID, error, "1 tokens");
    assert_fails(rv_deep_open(&d, &c, f.samples + N_SAMPLES, N_ANCHORS, &error), RUVLLM_INVALID, error,
                 "left to train");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_domain_is_learned_and_the_old_one_kept),
        cmocka_unit_test(without_steps_nothing_is_gained),
        cmocka_unit_test(a_pull_to_the_center_keeps_values_near_it),
        cmocka_unit_test(a_vote_against_makes_an_answer_less_likely),
        cmocka_unit_test(a_preferred_answer_wins_over_the_rejected_one),
        cmocka_unit_test(votes_by_kto_move_both_ways_and_then_stop),
        cmocka_unit_test(what_moves_the_guard_too_far_is_no_result),
        cmocka_unit_test(a_run_can_begin_where_another_ended),
        cmocka_unit_test(samples_that_take_turns_are_seen_in_theirs),
        cmocka_unit_test(a_stopped_run_goes_on_to_the_same_end),
        cmocka_unit_test(what_cannot_be_trained_on_is_named),
        /* Not under sanitizers: the same with other figures. */
        cmocka_unit_test(long_steps_are_no_reason_to_learn_nothing),
        cmocka_unit_test(slack_is_taken_back),
        cmocka_unit_test(turns_of_what_is_held_out_are_not_measured),
        cmocka_unit_test(a_run_saved_at_any_time_goes_on_to_the_same_end),
    };
    enum { N = sizeof(tests) / sizeof(tests[0]) };

    test_need_data();
    return _cmocka_run_group_tests("deep", tests, TEST_SANITIZED(N - 4, N), setup, teardown);
}
