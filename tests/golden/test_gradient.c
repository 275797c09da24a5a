/*
 * Gradients of the backward pass against ggml's automatic differentiation on decoded weights, and against central
 * differences of a model in doubles, which knows every family.
 *
 * Tolerances: both sides sum floats in different orders. The angle between gradients of a module must have a cosine of
 * 0.999 at least and their lengths must agree within 1 %; measured, cosines differ from 1 by less than 1e-8 and lengths
 * by less than 3e-5. A wrong sign, a forgotten term or a mask off by one gives cosines below 0.99.
 */
#include "learn/backward.h"
#include "golden/autograd_model.h"
#include "support/maker_file.h"
#include "support/test.h"

#include "base/rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANK = 3, LENGTH = 14, SAMPLES = 6, MAX_LENGTH = 64 };

static double worst_cosine = 1, worst_ratio = 1;

static const double LEAST_COSINE = 0.999, LENGTH_TOLERANCE = 0.01;

/* A model from a maker's options or a file, opened for training. */
struct subject {
    const char *name;
    struct rv_gguf_file *file;
    struct rv_hparams hparams;
    struct rv_manifest manifest;
    struct rv_team *team;
    struct rv_backward *backward;
    struct rv_trainable trainable;
    struct double_model *doubles;
    int32_t tokens[MAX_LENGTH];
    float weights[MAX_LENGTH];
    int32_t n;
};

static void subject_open(struct subject *s, const char *name, const char *path, uint64_t max_state_bytes)
{
    struct rv_rope_override rope = {.ext_factor = -1};
    struct rv_backward_config config;
    struct rv_trainable_shape shape = {.rank = RANK, .alpha = 2 * RANK, .seed = 5};
    struct rv_rng rng;

    memset(s, 0, sizeof(*s));
    s->name = name;
    assert_ok(rv_gguf_file_open(&s->file, path, err));
    assert_ok(rv_hparams_read(&s->hparams, s->file, &rope, err));
    assert_ok(rv_manifest_init(&s->manifest, s->file, &s->hparams, err));
    assert_ok(rv_team_open(&s->team, 2, false, err));
    config = (struct rv_backward_config){.hparams = &s->hparams,
                                         .manifest = &s->manifest,
                                         .team = s->team,
                                         .max_columns = 2 * MAX_LENGTH,
                                         .max_state_bytes = max_state_bytes};
    assert_ok(rv_backward_new(&s->backward, &config, err));
    shape.hparams = &s->hparams;
    shape.manifest = &s->manifest;
    shape.parts = rv_trainable_all_parts();
    assert_ok(rv_trainable_init(&s->trainable, &shape, err));
    s->doubles = double_model_new(&s->hparams, &s->manifest);
    rv_rng_init(&rng, 17);
    for (size_t i = 0; i < s->trainable.n; i++) // B too, or A would have no gradient
        if (s->trainable.values[i] == 0.0f)
            s->trainable.values[i] = (float)(0.03 * rv_rng_normal(&rng));
    s->n = LENGTH;
    for (int32_t i = 0; i < MAX_LENGTH; i++) {
        s->tokens[i] = (int32_t)rv_rng_below(&rng, (uint64_t)s->hparams.n_vocab);
        s->weights[i] = 1.0f;
    }
}

static void subject_close(struct subject *s)
{
    double_model_free(s->doubles);
    rv_trainable_release(&s->trainable);
    rv_backward_free(s->backward);
    rv_team_close(s->team);
    rv_manifest_release(&s->manifest);
    rv_gguf_file_close(s->file);
}

/* A synthetic model by options of make_model. */
static const char *make(const char *options)
{
    const char *path = test_temp_path(".gguf");
    struct maker_spec spec;
    char text[256], *argv[64];
    int argc = 0;

    snprintf(text, sizeof(text), "%s", options);
    for (char *at = text; *at && argc < 64;) {
        argv[argc++] = at;
        at += strcspn(at, " ");
        if (*at)
            *at++ = '\0';
    }
    assert_ok(maker_spec_parse(&spec, argc, argv, err));
    assert_ok(maker_file_write(&spec, path, err));
    return path;
}

static struct rv_backward_result run(struct subject *s, const struct rv_backward_sequence *sequences, int32_t n)
{
    struct rv_backward_result result;

    rv_trainable_clear_grads(&s->trainable);
    assert_ok(rv_backward_run(s->backward, &s->trainable, sequences, n, true, &result, err));
    return result;
}

/* The head's inputs of the frozen model for its first n tokens. */
static void frozen_states(struct subject *s, int32_t n, float *out)
{
    struct rv_backward_sequence sequence = {.tokens = s->tokens, .n = n, .states = out};

    assert_ok(rv_backward_states(s->backward, NULL, &sequence, 1, err));
}

static double dot(const float *a, const float *b, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

static void expect_same(const struct subject *s, int32_t layer, int part, const float *got, const float *want, size_t n,
                        const char *which)
{
    double length = sqrt(dot(want, want, n)), cosine = dot(got, want, n) / sqrt(dot(got, got, n)) / length;
    double ratio = sqrt(dot(got, got, n)) / length;

    worst_cosine = fmin(worst_cosine, cosine);
    worst_ratio = fabs(ratio - 1) > fabs(worst_ratio - 1) ? ratio : worst_ratio;
    if (!(cosine >= LEAST_COSINE) || !(fabs(ratio - 1) <= LENGTH_TOLERANCE))
        fail_msg("%s: layer %d part %d, gradient of %s: cosine %.6f, length ratio %.6f", s->name, layer, part, which,
                 cosine, ratio);
}

/* ---- ggml's automatic differentiation ---------------------------------------------------------- */

static void compare_with_autograd(struct subject *s)
{
    struct rv_backward_sequence sequence = {.tokens = s->tokens, .n = s->n, .weights = s->weights};
    struct rv_backward_result result = run(s, &sequence, 1);
    float *grads = calloc(s->trainable.n, sizeof(*grads));
    double loss;

    assert_non_null(grads);
    loss = autograd_model_run(s->doubles, &s->hparams, &s->manifest, &s->trainable, s->tokens, s->n, grads);
    if (!(fabs(result.loss / (s->n - 1) - loss) < 1e-4 * loss))
        fail_msg("%s: loss %.7f, ggml says %.7f", s->name, result.loss / (s->n - 1), loss);
    for (size_t i = 0; i < s->trainable.n; i++)
        grads[i] *= (float)(s->n - 1); // its loss is a mean
    for (int32_t layer = 0; layer < s->trainable.n_layers; layer++)
        for (int part = 0; part < RV_N_PARTS; part++) {
            const struct rv_trainable_pair *p = &s->trainable.layers[layer][part];
            size_t n_a = (size_t)p->rank * (size_t)p->n_in, n_b = (size_t)p->rank * (size_t)p->n_out;

            if (p->rank == 0)
                continue;
            expect_same(s, layer, part, p->grad_a, grads + (p->a - s->trainable.values), n_a, "A");
            expect_same(s, layer, part, p->grad_b, grads + (p->b - s->trainable.values), n_b, "B");
        }
    free(grads);
}

/* Prints the worst agreement since the last time. */
static void tell_worst(const char *what)
{
    print_message("%s: cosine %.9f at least, lengths within a factor of %.7f\n", what, worst_cosine, worst_ratio);
    worst_cosine = worst_ratio = 1;
}

static void gradients_are_those_of_ggml_for_every_type_and_family(void **state)
{
    static const char *const families[] = {
        "--arch llama --layers 2 --vocab 300 --ffn 512",
        "--arch qwen2 --layers 2 --vocab 300 --ffn 512 --rope-scaling yarn --rope-factor 4 --rope-original 16",
        "--arch phi3 --layers 2 --vocab 300 --ffn 512 --rope-scaling longrope --rope-factor 4 --rope-original 256",
    };
    static const char *const types[] = {"f32", "q8_0", "q4_0", "q4_K"};

    (void)state;
    for (size_t f = 0; f < sizeof(families) / sizeof(families[0]); f++)
        for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++) {
            char options[256];
            struct subject s;

            snprintf(options, sizeof(options), "%s --embd 256 --heads 8 --head-dim 32 --type %s", families[f],
                     types[t]);
            subject_open(&s, options, make(options), UINT64_MAX);
            compare_with_autograd(&s);
            subject_close(&s);
        }
    tell_worst("ggml, llama, qwen2, phi3 x f32, q8_0, q4_0, q4_K");
}

static void a_real_models_gradients_are_those_of_ggml(void **state)
{
    struct subject s;

    (void)state;
    test_need_file(test_data("models/stories260K.gguf"));
    subject_open(&s, "stories260K", test_data("models/stories260K.gguf"), UINT64_MAX);
    compare_with_autograd(&s);
    subject_close(&s);
    tell_worst("ggml, stories260K");
}

/* ---- doubles ------------------------------------------------------------------------------------ */

/* Central differences at some of the numbers of a matrix, against what the backward pass says of them. */
static void compare_samples(struct subject *s, int32_t layer, int part, float *values, const float *grads, size_t n,
                            const float *kl_weights, struct rv_rng *rng)
{
    float got[SAMPLES], want[SAMPLES];

    for (int i = 0; i < SAMPLES; i++) {
        size_t at = (size_t)rv_rng_below(rng, n);
        float old = values[at], step = 2e-3f;
        double up, down, width;

        values[at] = old + step;
        width = (double)values[at];
        up = double_model_loss(s->doubles, &s->trainable, s->tokens, s->n, s->weights, kl_weights);
        values[at] = old - step;
        width -= (double)values[at];
        down = double_model_loss(s->doubles, &s->trainable, s->tokens, s->n, s->weights, kl_weights);
        values[at] = old;
        want[i] = (float)((up - down) / width);
        got[i] = grads[at];
    }
    expect_same(s, layer, part, got, want, SAMPLES, values == s->trainable.layers[layer][part].a ? "A" : "B");
}

static void compare_with_doubles(struct subject *s, const float *kl_weights, const float *reference)
{
    struct rv_backward_sequence sequence = {
        .tokens = s->tokens, .n = s->n, .weights = s->weights, .kl_weights = kl_weights, .reference = reference};
    struct rv_backward_result result = run(s, &sequence, 1);
    double loss = double_model_loss(s->doubles, &s->trainable, s->tokens, s->n, s->weights, kl_weights);
    struct rv_rng rng;

    if (!(fabs(result.loss - loss) < 1e-4 * (1 + fabs(loss))))
        fail_msg("%s: loss %.7f, in doubles %.7f", s->name, result.loss, loss);
    rv_rng_init(&rng, 23);
    for (int32_t layer = 0; layer < s->trainable.n_layers; layer++)
        for (int part = 0; part < RV_N_PARTS; part++) {
            const struct rv_trainable_pair *p = &s->trainable.layers[layer][part];

            if (p->rank == 0)
                continue;
            compare_samples(s, layer, part, p->a, p->grad_a, (size_t)p->rank * (size_t)p->n_in, kl_weights, &rng);
            compare_samples(s, layer, part, p->b, p->grad_b, (size_t)p->rank * (size_t)p->n_out, kl_weights, &rng);
        }
}

static void every_familys_gradients_are_central_differences_in_doubles(void **state)
{
    static const char *const families[] = {
        "--arch llama --rope-scaling llama3 --rope-factor 8 --rope-original 128 --rope-base 500000",
        "--arch qwen2 --type q8_0 --tied",
        "--arch qwen3 --type q8_0",
        "--arch phi3 --type q4_0 --tied --rot 16 --kv-heads 2",
        "--arch gemma2 --window 8 --attn-softcap 4 --attn-gain 4 --final-softcap 20 --logit-gain 8",
        "--arch gemma2 --type q4_0 --window 8 --attn-softcap 4 --attn-gain 4 --final-softcap 20 --logit-gain 8",
        "--arch gemma3 --window 8 --kv-heads 1 --rope-base 1000000 --rope-base-local 10000",
        "--arch stablelm --qkv-bias --rot 16",
        "--arch stablelm --parallel --head-norm --rot 16",
    };

    (void)state;
    for (size_t f = 0; f < sizeof(families) / sizeof(families[0]); f++) {
        char options[256];
        struct subject s;

        snprintf(options, sizeof(options), "%s%s --embd 32 --heads 2 --head-dim 32 --layers 2 --ffn 64 --vocab 280",
                 families[f], strstr(families[f], "--type") ? "" : " --type f32");
        subject_open(&s, options, make(options), 0);
        for (int32_t i = 0; i < s.n; i++) // votes of both signs, and tokens nobody asked about
            s.weights[i] = i % 5 == 0 ? 0.0f : i % 3 == 0 ? -0.5f : 1.0f;
        compare_with_doubles(&s, NULL, NULL);
        subject_close(&s);
    }
    tell_worst("doubles, all families");
}

static void the_divergence_from_the_frozen_model_has_the_right_gradient(void **state)
{
    static const char *const families[] = {"--arch llama", "--arch gemma2 --window 8 --final-softcap 6 --logit-gain 8"};

    (void)state;
    for (size_t f = 0; f < 2; f++) {
        float kl_weights[MAX_LENGTH], *reference;
        char options[256];
        struct subject s;

        snprintf(options, sizeof(options),
                 "%s --type f32 --embd 32 --heads 2 --head-dim 16 --layers 2 --ffn 64 --vocab 280", families[f]);
        subject_open(&s, options, make(options), UINT64_MAX);
        reference = calloc((size_t)s.n * (size_t)s.hparams.n_embd, sizeof(*reference));
        assert_non_null(reference);
        frozen_states(&s, s.n, reference);
        for (int32_t i = 0; i < s.n; i++) {
            s.weights[i] = i < 6 ? 1.0f : 0.0f;
            kl_weights[i] = i < 4 ? 0.0f : 0.7f;
        }
        compare_with_doubles(&s, kl_weights, reference);
        free(reference);
        subject_close(&s);
    }
    tell_worst("doubles, with divergence");
}

/* ---- batches and memory ------------------------------------------------------------------------- */

static const char *small(void)
{
    return make("--arch qwen2 --type q8_0 --embd 64 --heads 4 --head-dim 16 --layers 3 --ffn 96 --vocab 280");
}

static void expect_sum_of_each_alone(struct subject *s, const struct rv_backward_sequence both[2])
{
    float *sum = calloc(s->trainable.n, sizeof(*sum));
    double loss;

    assert_non_null(sum);
    loss = run(s, &both[0], 1).loss;
    memcpy(sum, s->trainable.grads, s->trainable.n * sizeof(*sum));
    loss += run(s, &both[1], 1).loss;
    for (size_t i = 0; i < s->trainable.n; i++)
        sum[i] += s->trainable.grads[i];
    assert_true(fabs(run(s, both, 2).loss - loss) < 1e-4 * fabs(loss));
    expect_same(s, -1, -1, s->trainable.grads, sum, s->trainable.n, "two sequences");
    assert_true(dot(sum, s->trainable.grads, s->trainable.n) > 0);
    free(sum);
}

static void sequences_side_by_side_give_the_sum_of_each_alone(void **state)
{
    struct subject s;

    (void)state;
    subject_open(&s, "two sequences", small(), UINT64_MAX);
    expect_sum_of_each_alone(&s,
                             (struct rv_backward_sequence[]){{.tokens = s.tokens, .n = 19, .weights = s.weights},
                                                             {.tokens = s.tokens + 19, .n = 40, .weights = s.weights}});
    subject_close(&s);
}

static void states_of_sequences_together_are_those_of_each_alone(void **state)
{
    enum { N = 50, SHORT = 19 };
    struct rv_backward_sequence both[2];
    float *alone, *together;
    struct subject s;
    size_t width;

    (void)state;
    subject_open(&s, "states", small(), 0);
    width = (size_t)s.hparams.n_embd;
    alone = calloc(N, width * sizeof(*alone));
    together = calloc(N + SHORT, width * sizeof(*together));
    assert_non_null(alone);
    assert_non_null(together);
    frozen_states(&s, N, alone);
    both[0] = (struct rv_backward_sequence){.tokens = s.tokens, .n = SHORT, .states = together + N * width};
    both[1] = (struct rv_backward_sequence){.tokens = s.tokens, .n = N, .states = together};
    assert_ok(rv_backward_states(s.backward, NULL, both, 2, err));
    assert_memory_equal(together, alone, N * width * sizeof(*alone));
    assert_memory_equal(together + N * width, alone, SHORT * width * sizeof(*alone)); // nothing later is seen
    free(alone);
    free(together);
    subject_close(&s);
}

/* The reference is there for some strips of columns only when the anchor comes first. */
static void an_anchor_before_or_behind_another_sequence_gives_the_sum(void **state)
{
    float none[MAX_LENGTH] = {0}, kl_weights[MAX_LENGTH], *reference;
    struct rv_backward_sequence anchor, other;
    struct subject s;

    (void)state;
    subject_open(&s, "an anchor and another", small(), UINT64_MAX);
    reference = calloc(19 * (size_t)s.hparams.n_embd, sizeof(*reference));
    assert_non_null(reference);
    frozen_states(&s, 19, reference);
    for (int32_t i = 0; i < MAX_LENGTH; i++)
        kl_weights[i] = 20.0f;
    anchor = (struct rv_backward_sequence){
        .tokens = s.tokens, .n = 19, .weights = none, .kl_weights = kl_weights, .reference = reference};
    other = (struct rv_backward_sequence){.tokens = s.tokens, .n = MAX_LENGTH, .weights = s.weights};
    expect_sum_of_each_alone(&s, (struct rv_backward_sequence[]){anchor, other});
    expect_sum_of_each_alone(&s, (struct rv_backward_sequence[]){other, anchor});
    free(reference);
    subject_close(&s);
}

static void gradients_do_not_depend_on_threads_or_on_what_is_kept(void **state)
{
    const char *path = small();
    float *first = NULL;

    (void)state;
    for (int round = 0; round < 4; round++) {
        struct subject s;
        struct rv_backward_sequence sequence;

        subject_open(&s, "one of four", path, round % 2 ? 0 : UINT64_MAX);
        if (round >= 2) {
            struct rv_backward_config config = {.hparams = &s.hparams,
                                                .manifest = &s.manifest,
                                                .max_columns = 2 * MAX_LENGTH,
                                                .max_state_bytes = round % 2 ? 0 : UINT64_MAX};

            rv_backward_free(s.backward);
            rv_team_close(s.team);
            assert_ok(rv_team_open(&s.team, 1 + 2 * (round % 2), false, err));
            config.team = s.team;
            assert_ok(rv_backward_new(&s.backward, &config, err));
        }
        sequence = (struct rv_backward_sequence){.tokens = s.tokens, .n = MAX_LENGTH, .weights = s.weights};
        (void)run(&s, &sequence, 1);
        if (!first) {
            first = calloc(s.trainable.n, sizeof(*first));
            assert_non_null(first);
            memcpy(first, s.trainable.grads, s.trainable.n * sizeof(*first));
        }
        assert_memory_equal(first, s.trainable.grads, s.trainable.n * sizeof(*first));
        subject_close(&s);
    }
    free(first);
}

static void what_does_not_fit_is_an_error_that_says_so(void **state)
{
    struct subject s;
    struct ruvllm_error error;
    struct rv_backward_result result;
    struct rv_backward_sequence sequence;
    int32_t wrong[2] = {1, 280};

    (void)state;
    subject_open(&s, "limits", small(), 0);
    sequence = (struct rv_backward_sequence){.tokens = s.tokens, .n = 2 * MAX_LENGTH + 1, .weights = s.weights};
    assert_fails(rv_backward_run(s.backward, &s.trainable, &sequence, 1, true, &result, &error), RUVLLM_TOO_LARGE,
                 error, "not between 1 and 128");
    sequence = (struct rv_backward_sequence){.tokens = wrong, .n = 2, .weights = s.weights};
    assert_fails(rv_backward_run(s.backward, &s.trainable, &sequence, 1, true, &result, &error), RUVLLM_INVALID, error,
                 "token 280");
    subject_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_those_of_ggml_for_every_type_and_family),
        cmocka_unit_test(a_real_models_gradients_are_those_of_ggml),
        cmocka_unit_test(every_familys_gradients_are_central_differences_in_doubles),
        cmocka_unit_test(the_divergence_from_the_frozen_model_has_the_right_gradient),
        cmocka_unit_test(sequences_side_by_side_give_the_sum_of_each_alone),
        cmocka_unit_test(states_of_sequences_together_are_those_of_each_alone),
        cmocka_unit_test(an_anchor_before_or_behind_another_sequence_gives_the_sum),
        cmocka_unit_test(gradients_do_not_depend_on_threads_or_on_what_is_kept),
        cmocka_unit_test(what_does_not_fit_is_an_error_that_says_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
