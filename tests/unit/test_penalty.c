/* Penalties: incremental counts against recounting the whole window, and the formula against plain doubles. */
#include "base/rng.h"
#include "sample/penalty.h"
#include "support/test.h"

#include <math.h>

#define N_VOCAB 60
#define N_TOKENS 500

static int32_t recount(const int32_t *history, int n, int window, int32_t token)
{
    int first = window < 0 || window > n ? 0 : n - window;
    int32_t count = 0;

    for (int i = first; i < n; i++)
        count += history[i] == token;
    return count;
}

static void counts_equal_a_recount_of_the_window(void **state)
{
    static const int32_t windows[] = {-1, 0, 1, 2, 7, 64, N_TOKENS, N_TOKENS + 1, RV_PENALTY_MAX_WINDOW};
    int32_t history[N_TOKENS];

    (void)state;
    for (size_t w = 0; w < sizeof(windows) / sizeof(windows[0]); w++) {
        struct rv_penalty_params params = {.repetition = 1.1f, .window = windows[w]};
        struct rv_penalty penalty;
        struct rv_rng rng;

        rv_rng_init(&rng, w);
        assert_ok(rv_penalty_init(&penalty, &params, N_VOCAB, err));
        for (int i = 0; i < N_TOKENS; i++) {
            history[i] = (int32_t)rv_rng_below(&rng, N_VOCAB + 4) - 2; // some outside the vocabulary
            rv_penalty_accept(&penalty, history[i]);
            assert_true(rv_penalty_check(&penalty));
            for (int32_t t = -3; t < N_VOCAB + 3; t++) {
                int32_t expected = t < 0 || t >= N_VOCAB ? 0 : recount(history, i + 1, windows[w], t);

                assert_int_equal(rv_penalty_count(&penalty, t), expected);
            }
        }
        rv_penalty_release(&penalty);
    }
}

static void the_formula_is_the_common_one(void **state)
{
    struct rv_rng rng;

    (void)state;
    rv_rng_init(&rng, 9);
    for (int round = 0; round < 2000; round++) {
        struct rv_penalty_params params = {
            .repetition = (float)(0.5 + 2 * rv_rng_uniform(&rng)),
            .frequency = (float)(4 * rv_rng_uniform(&rng) - 2),
            .presence = (float)(4 * rv_rng_uniform(&rng) - 2),
            .window = round % 3 == 0 ? -1 : (int32_t)rv_rng_below(&rng, 40),
        };
        float logits[N_VOCAB], before[N_VOCAB];
        struct rv_penalty penalty;
        int n = (int)rv_rng_below(&rng, 100);
        int32_t history[100];

        assert_ok(rv_penalty_init(&penalty, &params, N_VOCAB, err));
        for (int i = 0; i < n; i++) {
            history[i] = (int32_t)rv_rng_below(&rng, N_VOCAB);
            rv_penalty_accept(&penalty, history[i]);
        }
        for (int i = 0; i < N_VOCAB; i++)
            before[i] = logits[i] = i % 10 == 0 ? 0.0f : (float)(5 * rv_rng_normal(&rng));
        rv_penalty_apply(&penalty, logits);
        for (int i = 0; i < N_VOCAB; i++) {
            int32_t count = params.window == 0 ? 0 : recount(history, n, params.window, i);
            double expected = (double)before[i];

            if (count > 0) {
                expected = expected > 0 ? expected / (double)params.repetition : expected * (double)params.repetition;
                expected -= count * (double)params.frequency + (double)params.presence;
            }
            assert_true(fabs((double)logits[i] - expected) < 1e-5 * (1 + fabs(expected) + count));
        }
        rv_penalty_release(&penalty);
    }
}

static void neutral_values_change_nothing_and_take_no_memory(void **state)
{
    const struct rv_penalty_params off[] = {
        {.repetition = 1.0f, .window = 64},
        {.repetition = 1.5f, .frequency = 1.0f, .presence = 1.0f, .window = 0},
    };

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct rv_penalty penalty;
        float logits[N_VOCAB] = {[3] = 2.0f};

        assert_ok(rv_penalty_init(&penalty, &off[i], N_VOCAB, err));
        assert_null(penalty.entries);
        rv_penalty_accept(&penalty, 3);
        rv_penalty_apply(&penalty, logits);
        assert_true(logits[3] == 2.0f);
        assert_true(rv_penalty_check(&penalty));
        rv_penalty_release(&penalty);
    }
}

static void what_is_banned_or_broken_stays_so(void **state)
{
    struct rv_penalty_params params = {.repetition = 1.3f, .frequency = -2.0f, .presence = -2.0f, .window = -1};
    float logits[4] = {-INFINITY, NAN, 1.0f, 1.0f};
    struct rv_penalty penalty;

    (void)state;
    assert_ok(rv_penalty_init(&penalty, &params, 4, err));
    for (int32_t t = 0; t < 3; t++)
        rv_penalty_accept(&penalty, t);
    rv_penalty_apply(&penalty, logits);
    assert_true(logits[0] == -INFINITY);
    assert_true(isnan(logits[1]));
    assert_true(logits[3] == 1.0f);
    rv_penalty_release(&penalty);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_equal_a_recount_of_the_window),
        cmocka_unit_test(the_formula_is_the_common_one),
        cmocka_unit_test(neutral_values_change_nothing_and_take_no_memory),
        cmocka_unit_test(what_is_banned_or_broken_stays_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
