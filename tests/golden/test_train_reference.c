/*
 * The loss curve of a run beside a reference: the same samples and first values, gradients by ggml's automatic
 * differentiation of the model in F32, and AdamW in doubles. Within 1 % at every step; measured, within 1e-4.
 */
#include "golden/autograd_model.h"
#include "learn/deep.h"
#include "support/test.h"
#include "support/vocab_from_gguf.h"

#include "base/alloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH = 32, N_SAMPLES = 6, N_STEPS = 12 };

static const double STEP = 4e-3, BETA1 = 0.9, BETA2 = 0.99, EPS = 1e-8, CLIP = 1;

struct fixture {
    struct test_vocab vocab;
    struct rv_hparams hparams;
    struct rv_manifest manifest;
    struct rv_team *team;
    struct double_model *doubles;
    int32_t *tokens;
    float weights[LENGTH];
    struct rv_deep_sample samples[N_SAMPLES];
};

static struct fixture f;

static int setup(void **state)
{
    struct rv_rope_override rope = {.ext_factor = -1};
    size_t len, n;
    char *text;

    (void)state;
    test_vocab_open(&f.vocab, test_data("models/stories260K.gguf"));
    assert_ok(rv_hparams_read(&f.hparams, f.vocab.file, &rope, err));
    assert_ok(rv_manifest_init(&f.manifest, f.vocab.file, &f.hparams, err));
    assert_ok(rv_team_open(&f.team, 2, false, err));
    f.doubles = double_model_new(&f.hparams, &f.manifest);
    text = test_read_file(test_data("text/tinyshakespeare.txt"), &len);
    assert_ok(rv_vocab_encode(f.vocab.vocab, text, 4000, NULL, 0, &f.tokens, &n, err));
    assert_true(n >= LENGTH * N_SAMPLES);
    free(text);
    for (int i = 0; i < LENGTH; i++)
        f.weights[i] = 1.0f;
    for (int i = 0; i < N_SAMPLES; i++)
        f.samples[i] = (struct rv_deep_sample){.tokens = f.tokens + i * LENGTH, .n = LENGTH, .weights = f.weights};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rv_free(f.tokens);
    double_model_free(f.doubles);
    rv_team_close(f.team);
    rv_manifest_release(&f.manifest);
    test_vocab_close(&f.vocab);
    return 0;
}

static bool note_loss(void *user, const struct rv_deep_progress *p)
{
    double *losses = user;

    if (isnan(p->held_out) && p->step >= 1 && p->step <= N_STEPS && p->length > 0)
        losses[p->step - 1] = p->loss;
    return true;
}

static struct rv_deep_config config_of(double *losses)
{
    struct rv_deep_config c = rv_deep_config_default();

    c.hparams = &f.hparams;
    c.manifest = &f.manifest;
    c.team = f.team;
    c.batch_tokens = LENGTH * N_SAMPLES; // all of them in every step: their order does not matter
    c.n_epochs = N_STEPS;
    c.patience = 0;
    c.held_out = 0;
    c.adamw.step = (float)STEP;
    c.adamw.clip = (float)CLIP;
    c.adamw.schedule = RV_ADAMW_CONSTANT;
    c.adamw.n_warmup = 0;
    c.on_progress = note_loss;
    c.user = losses;
    return c;
}

/* The mean loss over all samples and its gradients, by ggml. */
static double autograd(const struct rv_trainable *t, float *one, double *sum)
{
    double loss = 0;

    memset(sum, 0, t->n * sizeof(*sum));
    for (int s = 0; s < N_SAMPLES; s++) {
        loss += autograd_model_run(f.doubles, &f.hparams, &f.manifest, t, f.samples[s].tokens, LENGTH, one);
        for (size_t i = 0; i < t->n; i++)
            sum[i] += (double)one[i] / N_SAMPLES;
    }
    return loss / N_SAMPLES;
}

static void adamw(struct rv_trainable *t, const double *grads, double *mean, double *square, int step)
{
    double length = 0, scale;

    for (size_t i = 0; i < t->n; i++)
        length += grads[i] * grads[i];
    scale = sqrt(length) > CLIP ? CLIP / sqrt(length) : 1;
    for (size_t i = 0; i < t->n; i++) {
        double g = grads[i] * scale;

        mean[i] = BETA1 * mean[i] + (1 - BETA1) * g;
        square[i] = BETA2 * square[i] + (1 - BETA2) * g * g;
        t->values[i] -=
            (float)(STEP * (mean[i] / (1 - pow(BETA1, step))) / (sqrt(square[i] / (1 - pow(BETA2, step))) + EPS));
    }
}

static void the_loss_curve_is_that_of_the_reference(void **state)
{
    double got[N_STEPS] = {0}, worst = 0, last = 0;
    struct rv_deep_config c = config_of(got);
    struct rv_trainable_shape shape = {.hparams = &f.hparams,
                                       .manifest = &f.manifest,
                                       .parts = c.parts,
                                       .rank = c.rank,
                                       .alpha = c.alpha,
                                       .seed = c.seed};
    struct rv_deep_result result;
    struct rv_trainable t;
    struct rv_deep *d;
    double *grads, *mean, *square;
    float *one;

    (void)state;
    assert_ok(rv_deep_open(&d, &c, f.samples, N_SAMPLES, err));
    assert_ok(rv_trainable_init(&t, &shape, err));
    assert_memory_equal(t.values, rv_deep_trainable(d)->values, t.n * sizeof(*t.values));
    grads = calloc(t.n, sizeof(*grads));
    mean = calloc(t.n, sizeof(*mean));
    square = calloc(t.n, sizeof(*square));
    one = calloc(t.n, sizeof(*one));
    assert_true(grads && mean && square && one);
    assert_ok(rv_deep_run(d, &result, err));
    for (int step = 1; step <= N_STEPS; step++) {
        last = autograd(&t, one, grads);
        worst = fmax(worst, fabs(got[step - 1] / last - 1));
        if (!(fabs(got[step - 1] / last - 1) < 0.01))
            fail_msg("step %d: loss %.6f, the reference has %.6f", step, got[step - 1], last);
        adamw(&t, grads, mean, square, step);
    }
    print_message("loss %.4f -> %.4f, off by %.2e at most\n", got[0], last, worst);
    assert_true(last < 0.9 * got[0]); // it went somewhere
    free(grads);
    free(mean);
    free(square);
    free(one);
    rv_trainable_release(&t);
    rv_deep_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_loss_curve_is_that_of_the_reference),
    };

    test_need_data();
    return cmocka_run_group_tests(tests, setup, teardown);
}
