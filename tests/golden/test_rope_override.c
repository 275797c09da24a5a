/*
 * What the user says about rope over the file's word gives what libllama gives when it is told the same; and each
 * such word does change the distributions. On synthetic weights, in a context of 512.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "golden/parity.h"

enum { N_TOKENS = 512 };

static const double max_kl = 1e-4;
static const double min_change = 1e-2; // a word that changes less than this proves nothing

static const char plain[] = "synth-qwen2.gguf";         // head of 64, base 1e6, no scaling in the file
static const char linear[] = "synth-llama-linear.gguf"; // linear by 4
static const char yarn[] = "synth-qwen2-yarn.gguf";     // YaRN by 4 from 128

static double measure(const char *file, const struct oracle_rope *theirs, const struct ruvllm_model_params *ours)
{
    struct parity parity;
    struct divergence sum = {0};
    struct rv_rng rng;
    int32_t tokens[N_TOKENS];

    parity_open_rope(&parity, test_model(file), N_TOKENS, theirs, ours);
    rv_rng_init(&rng, 22);
    for (size_t i = 0; i < N_TOKENS; i++)
        tokens[i] = (int32_t)rv_rng_below(&rng, parity.n_vocab);
    parity_forward(&parity, tokens, N_TOKENS, &sum);
    parity_close(&parity);
    return divergence_mean_kl(&sum);
}

/* Both told: equal. Only libllama told: far apart. */
static void check(const char *file, const struct oracle_rope *theirs, const struct ruvllm_model_params *ours)
{
    struct ruvllm_model_params untold = ruvllm_model_params_default();
    double kl, untold_kl;

    test_need_file(test_model(file));
    kl = measure(file, theirs, ours);
    untold_kl = measure(file, theirs, &untold);
    printf("rope override on %-24s kl %.2e, untold %.2e\n", file, kl, untold_kl);
    if (!(kl <= max_kl))
        fail_msg("told the same, the two are %.2e apart", kl);
    if (!(untold_kl >= min_change))
        fail_msg("the override changes nothing: %.2e", untold_kl);
}

static void linear_scaling_is_libllamas(void **state)
{
    struct oracle_rope theirs = {.scaling = ORACLE_ROPE_LINEAR, .freq_scale = 0.25f};
    struct ruvllm_model_params ours = ruvllm_model_params_default();

    (void)state;
    ours.rope_scaling = RUVLLM_ROPE_LINEAR;
    ours.rope_scale = 4;
    check(plain, &theirs, &ours);
}

static void scaling_of_the_file_can_be_switched_off(void **state)
{
    struct oracle_rope theirs = {.scaling = ORACLE_ROPE_NONE};
    struct ruvllm_model_params ours = ruvllm_model_params_default();

    (void)state;
    ours.rope_scaling = RUVLLM_ROPE_NONE;
    check(linear, &theirs, &ours);
    check(yarn, &theirs, &ours);
}

static void frequency_base_is_libllamas(void **state)
{
    struct oracle_rope theirs = {.freq_base = 2000};
    struct ruvllm_model_params ours = ruvllm_model_params_default();

    (void)state;
    ours.rope_freq_base = 2000;
    check(plain, &theirs, &ours);
}

/* libllama knows no NTK by name; it is the base that makes the slowest pair of dimensions `scale` times slower. */
static void ntk_is_the_base_it_stands_for(void **state)
{
    struct oracle_rope theirs = {.freq_base = 1e6f * powf(4.0f, 64.0f / 62.0f)};
    struct ruvllm_model_params ours = ruvllm_model_params_default();

    (void)state;
    ours.rope_scaling = RUVLLM_ROPE_NTK;
    ours.rope_scale = 4;
    check(plain, &theirs, &ours);
}

static void yarn_is_libllamas(void **state)
{
    struct oracle_rope theirs = {.scaling = ORACLE_ROPE_YARN, .freq_scale = 0.25f, .original_context = 128};
    struct ruvllm_model_params ours = ruvllm_model_params_default();

    (void)state;
    ours.rope_scaling = RUVLLM_ROPE_YARN;
    ours.rope_scale = 4;
    ours.rope_original_context = 128;
    check(plain, &theirs, &ours);
    theirs.beta_fast = ours.yarn_beta_fast = 8;
    theirs.beta_slow = ours.yarn_beta_slow = 2;
    check(plain, &theirs, &ours);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(linear_scaling_is_libllamas), cmocka_unit_test(scaling_of_the_file_can_be_switched_off),
        cmocka_unit_test(frequency_base_is_libllamas), cmocka_unit_test(ntk_is_the_base_it_stands_for),
        cmocka_unit_test(yarn_is_libllamas),
    };

    return cmocka_run_group_tests(cases, NULL, NULL);
}
