/* The router against truths that are known, and against the best it could do without looking at the question. */
#include "learn/router.h"
#include "support/store_fixture.h"

#include "base/alloc.h"
#include "base/rng.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DIMS = 64, LESSONS = 600, TESTS = 2000, SEEDS = 5 };

static void question(struct rv_rng *rng, uint16_t *out)
{
    double x[DIMS], length = 0;

    for (int i = 0; i < DIMS; i++) {
        x[i] = rv_rng_normal(rng);
        length += x[i] * x[i];
    }
    for (int i = 0; i < DIMS; i++)
        out[i] = rv_vec_to_bf16((float)(x[i] / sqrt(length)));
}

/* How likely an answer by `arm` is good: a matter of three directions, or of none. */
static double truth(int world, int32_t arm, const uint16_t *q)
{
    double s = (double)(rv_vec_from_bf16(q[0]) + rv_vec_from_bf16(q[3]) - rv_vec_from_bf16(q[9])) * 4;

    s = s > 1 ? 1 : s < -1 ? -1 : s;
    if (world == 0)
        return 0.5 + (arm == 1 ? 0.4 : -0.4) * s;
    return arm == 2 ? 0.7 : 0.4; // the question does not matter, and one is simply better
}

struct score {
    double routed, fixed, best; // mean quality: of the router, of the best fixed arm, of who knows the truth
    double while_learning;      // of the router, while it tried
};

static struct score play(int world, int32_t n_arms, uint64_t seed, bool shuffled)
{
    struct score s = {0};
    struct rv_router router;
    struct rv_rng rng;
    uint16_t q[DIMS], other[DIMS];
    double fixed[RV_ROUTER_MAX_ARMS] = {0};

    rv_rng_init(&rng, seed);
    rv_router_init(&router, n_arms);
    for (int i = 0; i < LESSONS; i++) {
        int32_t arm;
        double p;

        question(&rng, q);
        question(&rng, other);
        arm = rv_router_choose(&router, q, DIMS, 0.5);
        p = truth(world, arm, q);
        s.while_learning += p / LESSONS;
        assert_ok(rv_router_learn(&router, arm, shuffled ? other : q, DIMS, rv_rng_uniform(&rng) < p ? 1 : 0, err));
    }
    for (int i = 0; i < TESTS; i++) {
        double best = 0;

        question(&rng, q);
        for (int32_t arm = 0; arm < n_arms; arm++) {
            double p = truth(world, arm, q);

            fixed[arm] += p / TESTS;
            best = p > best ? p : best;
        }
        s.best += best / TESTS;
        s.routed += truth(world, rv_router_choose(&router, q, DIMS, 0), q) / TESTS;
    }
    for (int32_t arm = 0; arm < n_arms; arm++)
        s.fixed = fixed[arm] > s.fixed ? fixed[arm] : s.fixed;
    return s;
}

static void it_beats_every_fixed_choice_where_questions_differ(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct score s = play(0, 2, seed, false), control = play(0, 2, seed, true);

        print_message("seed %d: routed %.3f, fixed %.3f, best %.3f, while learning %.3f; shuffled %.3f\n", (int)seed,
                      s.routed, s.fixed, s.best, s.while_learning, control.routed);
        assert_true(s.best - s.routed < 0.35 * (s.best - s.fixed)); // regret on questions it has not seen
        assert_true(s.while_learning > s.fixed + 0.05);
        assert_true(fabs(control.routed - s.fixed) < 0.1); // judgements of other questions teach nothing
    }
}

static void it_finds_the_best_arm_where_they_do_not(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct score s = play(1, 4, seed, false);

        print_message("seed %d: routed %.3f, best %.3f, while learning %.3f\n", (int)seed, s.routed, s.best,
                      s.while_learning);
        assert_true(s.routed > s.best - 0.05);
    }
}

static void the_first_arm_is_taken_until_something_is_known(void **state)
{
    struct rv_router router;
    struct ruvllm_error err;
    struct rv_rng rng;
    uint16_t q[DIMS];

    (void)state;
    rv_rng_init(&rng, 1);
    question(&rng, q);
    rv_router_init(&router, 3);
    assert_int_equal(rv_router_choose(&router, q, DIMS, 0.5), 0);
    assert_int_equal(rv_router_learn(&router, 0, q, DIMS, 0, &err), RUVLLM_OK);
    assert_int_equal(rv_router_choose(&router, q, DIMS, 0), 1); // a bad judgement teaches too
    assert_fails(rv_router_learn(&router, 3, q, DIMS, 0, &err), RUVLLM_INVALID, err, "arm");
    assert_fails(rv_router_learn(&router, 0, q, DIMS, (double)NAN, &err), RUVLLM_INVALID, err, "quality");
}

static void taught_router(struct rv_router *router, int n)
{
    struct rv_rng rng;
    uint16_t q[DIMS];

    rv_rng_init(&rng, 7);
    rv_router_init(router, 2);
    for (int i = 0; i < n; i++) {
        question(&rng, q);
        assert_ok(rv_router_learn(router, i % 2, q, DIMS, i % 3 ? 0.9 : 0.2, err));
    }
}

/* After very many judgements the updated inverse still is what solving anew gives. */
static void the_inverse_stays_an_inverse(void **state)
{
    static struct rv_router router;
    static double gram[RV_ROUTER_TERMS][RV_ROUTER_TERMS];
    struct rv_rng rng;
    uint16_t q[DIMS];
    double worst = 0;

    (void)state;
    rv_rng_init(&rng, 7);
    rv_router_init(&router, 2);
    memset(gram, 0, sizeof(gram));
    for (int i = 0; i < RV_ROUTER_TERMS; i++)
        gram[i][i] = 1;
    for (int k = 0; k < 20000; k++) {
        double x[RV_ROUTER_TERMS] = {1};

        question(&rng, q);
        for (int i = 1; i < RV_ROUTER_TERMS; i++)
            x[i] = (double)rv_vec_from_bf16(q[i - 1]);
        for (int i = 0; i < RV_ROUTER_TERMS; i++) {
            for (int j = 0; j < RV_ROUTER_TERMS; j++)
                gram[i][j] += x[i] * x[j];
        }
        assert_ok(rv_router_learn(&router, 1, q, DIMS, 0.5, err));
    }
    for (int i = 0; i < RV_ROUTER_TERMS; i++) {
        for (int j = 0; j < RV_ROUTER_TERMS; j++) {
            double sum = 0;

            for (int k = 0; k < RV_ROUTER_TERMS; k++)
                sum += gram[i][k] * router.arms[1].inverse[k >= j ? k * (k + 1) / 2 + j : j * (j + 1) / 2 + k];
            worst = fmax(worst, fabs(sum - (i == j)));
        }
    }
    assert_true(worst < 1e-8);
}

static void it_comes_back_from_the_store_to_the_bit(void **state)
{
    ruvllm_store *store = store_open(store_temp_url());
    static struct rv_router router, again;
    struct ruvllm_error err;

    (void)state;
    assert_int_equal(rv_router_load(&again, store, "anna", "adapter", 2, &err), RUVLLM_OK);
    assert_true(again.n_arms == 2 && again.arms[0].n_votes == 0);
    taught_router(&router, 300);
    assert_int_equal(rv_router_save(&router, store, "anna", "adapter", &err), RUVLLM_OK);
    assert_int_equal(rv_router_load(&again, store, "anna", "adapter", 2, &err), RUVLLM_OK);
    assert_memory_equal(&router, &again, sizeof(router));
    assert_fails(rv_router_load(&again, store, "anna", "adapter", 3, &err), RUVLLM_INVALID, err, "2 arms");
    assert_int_equal(rv_router_load(&again, store, "bert", "adapter", 2, &err), RUVLLM_OK);
    assert_int_equal(again.arms[0].n_votes, 0);
    ruvllm_store_close(store);
}

static void damaged_text_is_refused(void **state)
{
    static struct rv_router router, again;
    struct ruvllm_error err;
    char *text;
    size_t len;

    (void)state;
    taught_router(&router, 30);
    assert_int_equal(rv_router_write(&router, &text, &len, &err), RUVLLM_OK);
    assert_int_equal(rv_router_read(&again, text, len, &err), RUVLLM_OK);
    for (size_t cut = 0; cut < len; cut += 1 + cut / 3)
        assert_int_equal(rv_router_read(&again, text, cut, &err), RUVLLM_FORMAT);
    assert_fails(rv_router_read(&again, text, len - 1, &err), RUVLLM_FORMAT, err, "damaged");
    text[9] = '9';
    assert_fails(rv_router_read(&again, text, len, &err), RUVLLM_FORMAT, err, "not a router");
    text[9] = '2';
    memset(text + 11, 'f', 16); // NaN
    assert_fails(rv_router_read(&again, text, len, &err), RUVLLM_FORMAT, err, "damaged");
    text[11] = 'x';
    assert_fails(rv_router_read(&again, text, len, &err), RUVLLM_FORMAT, err, "damaged");
    rv_free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_beats_every_fixed_choice_where_questions_differ),
        cmocka_unit_test(it_finds_the_best_arm_where_they_do_not),
        cmocka_unit_test(the_first_arm_is_taken_until_something_is_known),
        cmocka_unit_test(the_inverse_stays_an_inverse),
        cmocka_unit_test(it_comes_back_from_the_store_to_the_bit),
        cmocka_unit_test(damaged_text_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
