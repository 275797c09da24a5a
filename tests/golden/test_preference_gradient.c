/*
 * Gradients of preferences, and the Fisher matrix, against a model in doubles: central differences of the loss as it is
 * written in the papers, and the exact expectation over all labels.
 *
 * Tolerances: as in test_gradient.c for gradients. The Fisher matrix is estimated by draws; with N_DRAWS texts the sum
 * over the numbers that are compared has a standard error of about 3 %, so 15 % is five of them.
 */
#include "golden/double_model.h"
#include "learn/fisher.h"
#include "support/maker_file.h"
#include "support/test.h"

#include "base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RANK = 2, LENGTH = 12, N_SEQUENCES = 4, N_DRAWS = 600, N_FISHER = 64 };

struct fixture {
    struct rv_gguf_file *file;
    struct rv_hparams hparams;
    struct rv_manifest manifest;
    struct rv_team *team;
    struct rv_backward *backward;
    struct rv_trainable trainable;
    struct double_model *doubles;
    int32_t tokens[N_SEQUENCES][LENGTH];
    float weights[LENGTH]; // the answer's
    float kl_weights[LENGTH];
    float *reference; // states of the last sequence, an anchor
    struct rv_preference preferences[N_SEQUENCES - 1];
    struct rv_backward_sequence sequences[N_SEQUENCES]; // chosen, rejected, a vote, an anchor
};

static struct fixture f;

static void fill(void)
{
    struct rv_rng rng;

    rv_rng_init(&rng, 29);
    for (size_t i = 0; i < f.trainable.n; i++)
        if (f.trainable.values[i] == 0.0f)
            f.trainable.values[i] = (float)(0.05 * rv_rng_normal(&rng));
    for (int s = 0; s < N_SEQUENCES; s++)
        for (int i = 0; i < LENGTH; i++)
            f.tokens[s][i] = (int32_t)rv_rng_below(&rng, (uint64_t)f.hparams.n_vocab);
    for (int i = 0; i < LENGTH; i++) {
        f.weights[i] = i < 4 ? 0.0f : 1.0f;
        f.kl_weights[i] = i < 1 ? 0.0f : 0.05f;
    }
}

static int setup(void **state)
{
    static char *argv[] = {"--arch",     "llama", "--type",   "f32", "--embd", "32", "--heads", "2",
                           "--head-dim", "16",    "--layers", "2",   "--ffn",  "64", "--vocab", "280"};
    const char *path = test_temp_path(".gguf");
    struct rv_rope_override rope = {.ext_factor = -1};
    struct rv_backward_config config = {.hparams = &f.hparams, .manifest = &f.manifest, .max_columns = 256};
    struct rv_trainable_shape shape = {.hparams = &f.hparams,
                                       .manifest = &f.manifest,
                                       .parts = rv_trainable_all_parts(),
                                       .rank = RANK,
                                       .alpha = 2 * RANK,
                                       .seed = 5};
    struct maker_spec spec;

    (void)state;
    assert_ok(maker_spec_parse(&spec, (int)(sizeof(argv) / sizeof(argv[0])), argv, err));
    assert_ok(maker_file_write(&spec, path, err));
    assert_ok(rv_gguf_file_open(&f.file, path, err));
    assert_ok(rv_hparams_read(&f.hparams, f.file, &rope, err));
    assert_ok(rv_manifest_init(&f.manifest, f.file, &f.hparams, err));
    assert_ok(rv_team_open(&f.team, 2, false, err));
    config.team = f.team;
    assert_ok(rv_backward_new(&f.backward, &config, err));
    assert_ok(rv_trainable_init(&f.trainable, &shape, err));
    f.doubles = double_model_new(&f.hparams, &f.manifest);
    fill();
    f.reference = calloc((size_t)LENGTH * (size_t)f.hparams.n_embd, sizeof(*f.reference));
    assert_non_null(f.reference);
    assert_ok(rv_backward_states(
        f.backward, NULL, &(struct rv_backward_sequence){.tokens = f.tokens[3], .n = LENGTH, .states = f.reference}, 1,
        err));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    free(f.reference);
    double_model_free(f.doubles);
    rv_trainable_release(&f.trainable);
    rv_backward_free(f.backward);
    rv_team_close(f.team);
    rv_manifest_release(&f.manifest);
    rv_gguf_file_close(f.file);
    return 0;
}

/* log p of an answer, in doubles. */
static double logp(const struct rv_trainable *trainable, int s)
{
    return -double_model_loss(f.doubles, trainable, f.tokens[s], LENGTH, f.weights, NULL);
}

static double gain(int s)
{
    return logp(&f.trainable, s) - logp(NULL, s);
}

/* What is tested, as the papers have it: KTO's point is a constant, so it is handed in. */
static double loss_in_doubles(bool is_good, double point)
{
    float none[LENGTH] = {0};
    double margin = gain(0) - gain(1), away = 0.4 * (gain(2) - point) * (is_good ? 1 : -1);

    return 0.7 * log(1 + exp(-0.25 * margin)) + 1.3 * (1 - 1 / (1 + exp(-away))) +
           double_model_loss(f.doubles, &f.trainable, f.tokens[3], LENGTH, none, f.kl_weights);
}

/* The mean divergence a token of the anchor, times the tokens of the vote's answer. */
static double point_in_doubles(void)
{
    float none[LENGTH] = {0}, ones[LENGTH];

    for (int i = 0; i < LENGTH; i++)
        ones[i] = i < 1 ? 0.0f : 1.0f;
    return double_model_loss(f.doubles, &f.trainable, f.tokens[3], LENGTH, none, ones) / (LENGTH - 1) * (LENGTH - 4);
}

static void arrange(bool is_good)
{
    static float no_weights[LENGTH];
    static const enum rv_preference_kind kinds[] = {RV_PREFERENCE_CHOSEN, RV_PREFERENCE_REJECTED, RV_PREFERENCE_GOOD};

    for (int s = 0; s < 3; s++) {
        f.preferences[s] = (struct rv_preference){
            .kind = kinds[s], .weight = s < 2 ? 0.7f : 1.3f, .beta = s < 2 ? 0.25f : 0.4f, .reference = logp(NULL, s)};
        f.sequences[s] = (struct rv_backward_sequence){
            .tokens = f.tokens[s], .n = LENGTH, .weights = f.weights, .preference = &f.preferences[s]};
    }
    if (!is_good)
        f.preferences[2].kind = RV_PREFERENCE_BAD;
    f.sequences[3] = (struct rv_backward_sequence){.tokens = f.tokens[3],
                                                   .n = LENGTH,
                                                   .weights = no_weights,
                                                   .kl_weights = f.kl_weights,
                                                   .reference = f.reference};
}

static double difference_at(size_t at, bool is_good, double point)
{
    float old = f.trainable.values[at];
    double up, down, width;

    f.trainable.values[at] = old + 2e-3f;
    width = (double)f.trainable.values[at];
    up = loss_in_doubles(is_good, point);
    f.trainable.values[at] = old - 2e-3f;
    width -= (double)f.trainable.values[at];
    down = loss_in_doubles(is_good, point);
    f.trainable.values[at] = old;
    return (up - down) / width;
}

static void gradients_are_central_differences_in_doubles(void **state)
{
    (void)state;
    for (int is_good = 0; is_good < 2; is_good++) {
        struct rv_backward_result result;
        double point = point_in_doubles(), want = loss_in_doubles(is_good, point), dot = 0, got2 = 0, want2 = 0;
        struct rv_rng rng;

        arrange(is_good);
        rv_trainable_clear_grads(&f.trainable);
        assert_ok(rv_backward_run(f.backward, &f.trainable, f.sequences, N_SEQUENCES, true, &result, err));
        if (!(fabs(result.loss - want) < 1e-4 * want))
            fail_msg("loss %.7f, in doubles %.7f", result.loss, want);
        assert_true(result.nll == 0 && result.preference > 0 && result.kl > 0);
        rv_rng_init(&rng, 31);
        for (int i = 0; i < 150; i++) {
            size_t at = (size_t)rv_rng_below(&rng, f.trainable.n);
            double d = difference_at(at, is_good, point), g = (double)f.trainable.grads[at];

            dot += d * g;
            got2 += g * g;
            want2 += d * d;
        }
        print_message("cosine %.9f, lengths %.7f\n", dot / sqrt(got2 * want2), sqrt(got2 / want2));
        assert_true(dot / sqrt(got2 * want2) > 0.9999 && fabs(sqrt(got2 / want2) - 1) < 0.01);
    }
}

/* At the frozen model both gains are 0: DPO's gradient is half beta of the plain one, up for one and down for other. */
static void a_pair_pulls_both_ways(void **state)
{
    float up[LENGTH], down[LENGTH];
    struct rv_backward_sequence plain[2];
    struct rv_backward_result result;
    float *pairs = calloc(f.trainable.n, sizeof(*pairs));
    double off = 0, size = 0;

    (void)state;
    assert_non_null(pairs);
    arrange(true);
    f.preferences[0].reference = logp(&f.trainable, 0); // as if this were the frozen model
    f.preferences[1].reference = logp(&f.trainable, 1);
    rv_trainable_clear_grads(&f.trainable);
    assert_ok(rv_backward_run(f.backward, &f.trainable, f.sequences, 2, true, &result, err));
    assert_true(fabs(result.preference - 0.7 * log(2)) < 1e-5);
    memcpy(pairs, f.trainable.grads, f.trainable.n * sizeof(*pairs));
    for (int i = 0; i < LENGTH; i++) {
        up[i] = 0.7f * 0.125f * f.weights[i];
        down[i] = -up[i];
    }
    for (int s = 0; s < 2; s++)
        plain[s] = (struct rv_backward_sequence){.tokens = f.tokens[s], .n = LENGTH, .weights = s ? down : up};
    rv_trainable_clear_grads(&f.trainable);
    assert_ok(rv_backward_run(f.backward, &f.trainable, plain, 2, true, &result, err));
    for (size_t i = 0; i < f.trainable.n; i++) {
        off += pow((double)(pairs[i] - f.trainable.grads[i]), 2);
        size += pow((double)pairs[i], 2);
    }
    assert_true(size > 0 && sqrt(off / size) < 1e-4);
    free(pairs);
}

/* ---- the Fisher matrix --------------------------------------------------------------------------- */

/* Derivatives of the logits of the first LENGTH - 1 tokens by one number: [LENGTH][n_vocab]. */
static void logit_slopes(size_t at, double *up, double *down)
{
    size_t n = (size_t)LENGTH * (size_t)f.hparams.n_vocab;
    float old = f.trainable.values[at];
    double width;

    f.trainable.values[at] = old + 2e-3f;
    width = (double)f.trainable.values[at];
    double_model_logits(f.doubles, &f.trainable, f.tokens[0], LENGTH, up);
    f.trainable.values[at] = old - 2e-3f;
    width -= (double)f.trainable.values[at];
    double_model_logits(f.doubles, &f.trainable, f.tokens[0], LENGTH, down);
    f.trainable.values[at] = old;
    for (size_t i = 0; i < n; i++)
        up[i] = (up[i] - down[i]) / width;
}

/* The mean over tokens of the variance of the logits' slopes under the softmax. */
static double exact_fisher(size_t at, const double *logits, double *up, double *down)
{
    size_t n_vocab = (size_t)f.hparams.n_vocab;
    double sum = 0;

    logit_slopes(at, up, down);
    for (size_t t = 0; t + 1 < LENGTH; t++) {
        const double *z = logits + t * n_vocab, *dz = up + t * n_vocab;
        double total = 0, mean = 0, square = 0;

        for (size_t v = 0; v < n_vocab; v++)
            total += exp(z[v]);
        for (size_t v = 0; v < n_vocab; v++) {
            double p = exp(z[v]) / total;

            mean += p * dz[v];
            square += p * dz[v] * dz[v];
        }
        sum += square - mean * mean;
    }
    return sum / (LENGTH - 1);
}

static void the_fisher_matrix_is_the_expectation_over_labels(void **state)
{
    static struct rv_fisher_text texts[N_DRAWS];
    struct rv_fisher_config config = {.hparams = &f.hparams, .manifest = &f.manifest, .team = f.team, .seed = 3};
    size_t n = (size_t)LENGTH * (size_t)f.hparams.n_vocab;
    double *logits = calloc(n, sizeof(*logits)), *up = calloc(n, sizeof(*up)), *down = calloc(n, sizeof(*down));
    float *fisher = calloc(f.trainable.n, sizeof(*fisher));
    double got = 0, want = 0, dot = 0, got2 = 0, want2 = 0;
    struct rv_rng rng;

    (void)state;
    assert_true(logits && up && down && fisher);
    for (int i = 0; i < N_DRAWS; i++) // always the same text, with other labels
        texts[i] = (struct rv_fisher_text){.tokens = f.tokens[0], .n = LENGTH};
    assert_ok(rv_fisher_measure(&config, &f.trainable, texts, N_DRAWS, fisher, err));
    double_model_logits(f.doubles, &f.trainable, f.tokens[0], LENGTH, logits);
    rv_rng_init(&rng, 37);
    for (int i = 0; i < N_FISHER; i++) {
        size_t at = (size_t)rv_rng_below(&rng, f.trainable.n);
        double exact = exact_fisher(at, logits, up, down), estimate = (double)fisher[at];

        got += estimate;
        want += exact;
        dot += exact * estimate;
        got2 += estimate * estimate;
        want2 += exact * exact;
    }
    print_message("sum %.3f of the exact one, cosine %.4f\n", got / want, dot / sqrt(got2 * want2));
    assert_true(fabs(got / want - 1) < 0.15 && dot / sqrt(got2 * want2) > 0.95);
    free(logits);
    free(up);
    free(down);
    free(fisher);
}

static void a_running_mean_keeps_what_it_is_told_to(void **state)
{
    const struct rv_fisher_text text = {.tokens = f.tokens[0], .n = LENGTH};
    struct rv_fisher_config config = {.hparams = &f.hparams, .manifest = &f.manifest, .team = f.team, .seed = 3};
    float *once = calloc(f.trainable.n, sizeof(*once)), *again = calloc(f.trainable.n, sizeof(*again));
    struct ruvllm_error error;

    (void)state;
    assert_non_null(once);
    assert_non_null(again);
    assert_ok(rv_fisher_measure(&config, &f.trainable, &text, 1, once, err));
    for (size_t i = 0; i < f.trainable.n; i++)
        again[i] = 2.0f;
    config.keep = 0.75f;
    assert_ok(rv_fisher_measure(&config, &f.trainable, &text, 1, again, err));
    for (size_t i = 0; i < f.trainable.n; i++)
        assert_true(fabsf(again[i] - (1.5f + 0.25f * once[i])) < 1e-5f * (1.0f + again[i]));
    assert_fails(rv_fisher_measure(&config, &f.trainable, &text, 0, once, &error), RUVLLM_INVALID, error, "no token");
    free(once);
    free(again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_central_differences_in_doubles),
        cmocka_unit_test(a_pair_pulls_both_ways),
        cmocka_unit_test(the_fisher_matrix_is_the_expectation_over_labels),
        cmocka_unit_test(a_running_mean_keeps_what_it_is_told_to),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
