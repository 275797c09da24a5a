/* The small adapter by its public calls: what it raises and lowers, how far, and what EWC holds on to. */
#include "ruvllm_sona.h"

#include "base/rng.h"
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { IN = 48, OUT = 32, ROWS = 24 };

static float inputs[ROWS][IN], gradients[ROWS][OUT];

static void make_rows(uint64_t seed)
{
    struct rv_rng rng;

    rv_rng_init(&rng, seed);
    for (int i = 0; i < ROWS; i++) {
        for (int j = 0; j < IN; j++)
            inputs[i][j] = (float)rv_rng_normal(&rng);
        for (int j = 0; j < OUT; j++)
            gradients[i][j] = 0.3f * (float)rv_rng_normal(&rng);
    }
}

static ruvllm_microlora *make(uint32_t modules, int32_t rank)
{
    struct ruvllm_microlora_config config = ruvllm_microlora_config_for_hidden_dim(IN);
    ruvllm_microlora *lora;

    config.out_features = OUT;
    config.rank = rank;
    config.alpha = (float)rank;
    config.target_modules = modules;
    assert_ok(ruvllm_microlora_new(&lora, &config, err));
    return lora;
}

static void teach(ruvllm_microlora *lora, ruvllm_target_module module, double quality, int n)
{
    for (int i = 0; i < n; i++) {
        struct ruvllm_microlora_feedback feedback = ruvllm_microlora_feedback_from_quality(quality);

        feedback.gradient = gradients[i];
        feedback.module = module;
        feedback.has_reward = true; // all of the same weight
        feedback.reward = quality > 0.5 ? 2 : -2;
        assert_ok(ruvllm_microlora_adapt(lora, inputs[i], &feedback, err));
    }
}

/* Change of the loss of row i, to first order. */
static double slope(const ruvllm_microlora *lora, ruvllm_target_module module, int i)
{
    float out[OUT];
    double sum = 0;

    assert_ok(ruvllm_microlora_forward(lora, module, inputs[i], out, err));
    for (int j = 0; j < OUT; j++)
        sum += (double)out[j] * (double)gradients[i][j];
    return sum;
}

static double mean_slope(const ruvllm_microlora *lora, ruvllm_target_module module, int n, double *square)
{
    double sum = 0;

    *square = 0;
    for (int i = 0; i < n; i++) {
        double s = slope(lora, module, i);

        sum += s / n;
        *square += s * s / 2 / n;
    }
    return sum;
}

static void good_feedback_raises_and_bad_feedback_lowers_as_far_as_it_may(void **state)
{
    struct ruvllm_microlora_stats stats = {.struct_size = sizeof(stats)};
    double square;

    (void)state;
    make_rows(1);
    for (int bad = 0; bad < 2; bad++) {
        ruvllm_microlora *lora = make(1u << RUVLLM_TARGET_HEAD, 2);
        double mean;

        assert_true(mean_slope(lora, RUVLLM_TARGET_HEAD, ROWS, &square) == 0); // no change before
        teach(lora, RUVLLM_TARGET_HEAD, bad ? 0.1 : 0.9, ROWS);
        assert_true(mean_slope(lora, RUVLLM_TARGET_HEAD, ROWS, &square) == 0); // nor before it is applied
        assert_ok(ruvllm_microlora_apply_updates(lora, 0.01f, err));
        mean = mean_slope(lora, RUVLLM_TARGET_HEAD, ROWS, &square);
        assert_true(bad ? mean > 0.01 : mean < -0.01);
        assert_true(square > 0.003 && square < 0.0105);
        assert_ok(ruvllm_microlora_stats_get(lora, &stats, err));
        assert_true(fabs(stats.last_kl - square) < 0.03 * square);
        assert_true(stats.n_samples == ROWS && stats.n_pending == 0 && stats.n_updates == 1 && stats.n_bytes > 0);
        assert_true(bad ? stats.mean_quality < 0.3 : stats.mean_quality > 0.7);
        ruvllm_microlora_reset(lora);
        assert_true(mean_slope(lora, RUVLLM_TARGET_HEAD, ROWS, &square) == 0);
        ruvllm_microlora_free(lora);
    }
}

/* Qualities are weighed against each other: of two kinds, the better is raised and the worse lowered. */
static void what_is_better_than_usual_is_raised(void **state)
{
    ruvllm_microlora *lora = make(1u << RUVLLM_TARGET_Q, 8);
    double good = 0, bad = 0;

    (void)state;
    make_rows(2);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < ROWS; i++) {
            struct ruvllm_microlora_feedback feedback = ruvllm_microlora_feedback_from_quality(i % 2 ? 0.9 : 0.7);

            feedback.gradient = gradients[i];
            feedback.module = RUVLLM_TARGET_Q;
            assert_ok(ruvllm_microlora_adapt(lora, inputs[i], &feedback, err));
        }
        assert_ok(ruvllm_microlora_apply_updates(lora, 0.01f, err));
    }
    for (int i = 0; i < ROWS; i++)
        *(i % 2 ? &good : &bad) += slope(lora, RUVLLM_TARGET_Q, i);
    assert_true(good < -0.1 && bad > 0.1);
    ruvllm_microlora_free(lora);
}

static void modules_have_adapters_of_their_own(void **state)
{
    ruvllm_microlora *lora = make(1u << RUVLLM_TARGET_K | 1u << RUVLLM_TARGET_DOWN, 2);
    struct ruvllm_error err;
    float out[OUT], more[OUT];
    double square;

    (void)state;
    make_rows(3);
    teach(lora, RUVLLM_TARGET_K, 1, ROWS);
    assert_int_equal(ruvllm_microlora_apply_updates(lora, 0.01f, &err), RUVLLM_OK);
    assert_true(mean_slope(lora, RUVLLM_TARGET_K, ROWS, &square) < 0);
    assert_true(mean_slope(lora, RUVLLM_TARGET_DOWN, ROWS, &square) == 0);
    assert_int_equal(ruvllm_microlora_forward(lora, RUVLLM_TARGET_K, inputs[0], out, &err), RUVLLM_OK);
    for (int i = 0; i < OUT; i++)
        more[i] = 1;
    assert_int_equal(ruvllm_microlora_forward_add(lora, RUVLLM_TARGET_K, inputs[0], more, &err), RUVLLM_OK);
    for (int i = 0; i < OUT; i++)
        assert_true(fabsf(more[i] - 1 - out[i]) < 1e-6f);
    assert_fails(ruvllm_microlora_forward(lora, RUVLLM_TARGET_V, inputs[0], out, &err), RUVLLM_INVALID, err, "module");
    ruvllm_microlora_free(lora);
}

/* Usual inputs all lie in a few directions; what is learned from one that does not leaves them alone. */
static void a_calibrated_adapter_leaves_usual_inputs_alone(void **state)
{
    static float usual[200][IN];
    float out[OUT];
    double moved[2] = {0};
    struct rv_rng rng;

    (void)state;
    make_rows(4);
    rv_rng_init(&rng, 1);
    for (int i = 0; i < 200; i++) {
        for (int j = 0; j < IN; j++)
            usual[i][j] = (float)rv_rng_normal(&rng) * (j < 6 ? 8.0f : 0.1f);
    }
    for (int i = 0; i < ROWS; i++) {
        for (int j = 0; j < 6; j++)
            inputs[i][j] *= 4;
    }
    for (int calibrated = 0; calibrated < 2; calibrated++) {
        ruvllm_microlora *lora = make(1u << RUVLLM_TARGET_HEAD, 2);

        if (calibrated)
            assert_ok(ruvllm_microlora_calibrate(lora, RUVLLM_TARGET_HEAD, usual[0], 200, err));
        teach(lora, RUVLLM_TARGET_HEAD, 1, 4);
        assert_ok(ruvllm_microlora_apply_updates(lora, 0.01f, err));
        for (int i = 0; i < 200; i++) {
            assert_ok(ruvllm_microlora_forward(lora, RUVLLM_TARGET_HEAD, usual[i], out, err));
            for (int j = 0; j < OUT; j++)
                moved[calibrated] += (double)out[j] * (double)out[j];
        }
        ruvllm_microlora_free(lora);
    }
    assert_true(moved[1] < moved[0] / 4);
}

/* Two outputs matter and the rest do not: EWC keeps the change off them, and holds on to the anchor. */
static void ewc_holds_what_matters(void **state)
{
    ruvllm_microlora *lora = make(1u << RUVLLM_TARGET_HEAD, 8), *free_one = make(1u << RUVLLM_TARGET_HEAD, 8);
    float fisher[OUT] = {0}, held[OUT], loose[OUT], first[OUT], again[OUT], gradient[OUT] = {0};
    struct ruvllm_ewc_state ewc = {.struct_size = sizeof(ewc), .module = RUVLLM_TARGET_HEAD, .fisher = fisher};

    (void)state;
    make_rows(5);
    gradient[0] = gradient[1] = 3;
    for (int i = 0; i < 50; i++)
        assert_ok(ruvllm_ewc_update(fisher, gradient, OUT, 0.9f, err));
    assert_true(fabsf(fisher[0] - 9) < 0.1f && fisher[2] == 0);
    teach(lora, RUVLLM_TARGET_HEAD, 1, 8);
    teach(free_one, RUVLLM_TARGET_HEAD, 1, 8);
    assert_ok(ruvllm_microlora_apply_updates_with_ewc(lora, 0.01f, &ewc, 1, 10, err));
    assert_ok(ruvllm_microlora_apply_updates(free_one, 0.01f, err));
    assert_ok(ruvllm_microlora_forward(lora, RUVLLM_TARGET_HEAD, inputs[0], held, err));
    assert_ok(ruvllm_microlora_forward(free_one, RUVLLM_TARGET_HEAD, inputs[0], loose, err));
    assert_true(fabsf(loose[0]) > 1e-4f && fabsf(held[0]) < fabsf(loose[0]) / 50);
    assert_true(fabsf(held[5] - loose[5]) < 1e-5f); // what does not matter is free to change

    /* With an anchor the pull is towards that, not towards nothing. */
    assert_ok(ruvllm_microlora_anchor(free_one, err));
    memcpy(first, loose, sizeof(first));
    for (int i = 0; i < 8; i++) {
        memcpy(gradients[i], gradients[i + 8], sizeof(gradients[i]));
        memcpy(inputs[i + 8], inputs[i], sizeof(inputs[i]));
    }
    teach(free_one, RUVLLM_TARGET_HEAD, 1, 8);
    assert_ok(ruvllm_microlora_apply_updates_with_ewc(free_one, 0.01f, &ewc, 1, 1000, err));
    assert_ok(ruvllm_microlora_forward(free_one, RUVLLM_TARGET_HEAD, inputs[0], again, err));
    assert_true(fabsf(again[0] - first[0]) < 0.02f * fabsf(first[0]) &&
                fabsf(again[1] - first[1]) < 0.02f * fabsf(first[1]));
    assert_true(fabsf(again[5] - first[5]) > 0.01f * fabsf(first[5]));
    ruvllm_microlora_free(lora);
    ruvllm_microlora_free(free_one);
}

static void dropout_leaves_out_a_share_and_is_the_same_every_time(void **state)
{
    struct ruvllm_microlora_config config = ruvllm_microlora_config_for_hidden_dim(IN);
    float results[3][OUT];

    (void)state;
    make_rows(6);
    config.out_features = OUT;
    for (int i = 0; i < 3; i++) {
        ruvllm_microlora *lora;

        config.dropout = i < 2 ? 0.5f : 0;
        assert_ok(ruvllm_microlora_new(&lora, &config, err));
        teach(lora, RUVLLM_TARGET_HEAD, 1, ROWS);
        assert_ok(ruvllm_microlora_apply_updates(lora, 0.01f, err));
        assert_ok(ruvllm_microlora_forward(lora, RUVLLM_TARGET_HEAD, inputs[0], results[i], err));
        ruvllm_microlora_free(lora);
    }
    assert_memory_equal(results[0], results[1], sizeof(results[0]));
    assert_memory_not_equal(results[0], results[2], sizeof(results[0]));
}

static void what_cannot_be_learned_from_is_refused(void **state)
{
    struct ruvllm_microlora_config config = ruvllm_microlora_config_for_hidden_dim(4096);
    struct ruvllm_microlora_feedback feedback = ruvllm_microlora_feedback_from_quality(0.9);
    struct ruvllm_ewc_state ewc = {.struct_size = sizeof(ewc), .module = RUVLLM_TARGET_HEAD};
    float fisher[OUT] = {-1};
    ruvllm_microlora *lora;
    struct ruvllm_error err;

    (void)state;
    make_rows(7);
    assert_true(config.in_features == 4096 && config.out_features == 4096 && config.rank == 2);
    config.rank = 9;
    assert_fails(ruvllm_microlora_new(&lora, &config, &err), RUVLLM_INVALID, err, "rank");
    assert_null(lora);
    config = ruvllm_microlora_config_for_hidden_dim(IN);
    config.out_features = OUT;
    config.max_pending = 1;
    assert_int_equal(ruvllm_microlora_new(&lora, &config, &err), RUVLLM_OK);
    assert_fails(ruvllm_microlora_adapt(lora, inputs[0], &feedback, &err), RUVLLM_INVALID, err, "gradient");
    feedback.gradient = gradients[0];
    feedback.quality = 1.5;
    assert_fails(ruvllm_microlora_adapt(lora, inputs[0], &feedback, &err), RUVLLM_INVALID, err, "quality");
    feedback.quality = (double)NAN;
    assert_fails(ruvllm_microlora_adapt(lora, inputs[0], &feedback, &err), RUVLLM_INVALID, err, "quality");
    feedback.quality = 0.9;
    inputs[1][3] = INFINITY;
    assert_fails(ruvllm_microlora_adapt(lora, inputs[1], &feedback, &err), RUVLLM_INVALID, err, "finite");
    feedback.has_reward = true;
    feedback.reward = 7;
    assert_fails(ruvllm_microlora_adapt(lora, inputs[0], &feedback, &err), RUVLLM_INVALID, err, "reward");
    feedback.has_reward = false;
    assert_int_equal(ruvllm_microlora_adapt(lora, inputs[0], &feedback, &err), RUVLLM_OK);
    assert_fails(ruvllm_microlora_adapt(lora, inputs[0], &feedback, &err), RUVLLM_BUSY, err, "wait");
    assert_fails(ruvllm_microlora_apply_updates(lora, 0, &err), RUVLLM_INVALID, err, "learning rate");
    ewc.fisher = fisher;
    assert_fails(ruvllm_microlora_apply_updates_with_ewc(lora, 0.01f, &ewc, 1, 1, &err), RUVLLM_INVALID, err, "Fisher");
    assert_fails(ruvllm_microlora_calibrate(lora, RUVLLM_TARGET_HEAD, inputs[1], 1, &err), RUVLLM_INVALID, err,
                 "finite");
    assert_fails(ruvllm_ewc_update(fisher, gradients[0], OUT, 1, &err), RUVLLM_INVALID, err, "decay");
    ruvllm_microlora_free(lora);
    ruvllm_microlora_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_feedback_raises_and_bad_feedback_lowers_as_far_as_it_may),
        cmocka_unit_test(what_is_better_than_usual_is_raised),
        cmocka_unit_test(modules_have_adapters_of_their_own),
        cmocka_unit_test(a_calibrated_adapter_leaves_usual_inputs_alone),
        cmocka_unit_test(ewc_holds_what_matters),
        cmocka_unit_test(dropout_leaves_out_a_share_and_is_the_same_every_time),
        cmocka_unit_test(what_cannot_be_learned_from_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
