/* Patterns are found again by likeness, by their tenant alone, also after a restart; there are never too many. */
#include "learn/reasoning_bank.h"
#include "support/store_fixture.h"

#include "base/rng.h"
#include "store/store_patterns.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

enum { DIMS = 64 };

static struct rv_whitening whitening;

static int make_whitening(void **state)
{
    static float states[500 * DIMS];
    struct ruvllm_error err;
    struct rv_rng rng;

    (void)state;
    rv_rng_init(&rng, 1);
    for (int i = 0; i < 500 * DIMS; i++)
        states[i] = (float)rv_rng_normal(&rng);
    return rv_whitening_init(&whitening, states, 500, DIMS, &err) == RUVLLM_OK ? 0 : -1;
}

static int free_whitening(void **state)
{
    (void)state;
    rv_whitening_release(&whitening);
    return 0;
}

/* A question of a kind: near its kind's centre, which its number says. */
static void question(int kind, uint64_t seed, uint16_t *out)
{
    float x[DIMS];
    struct rv_rng rng;

    rv_rng_init(&rng, (uint64_t)kind + 1000);
    for (int i = 0; i < DIMS; i++)
        x[i] = (float)rv_rng_normal(&rng);
    rv_rng_init(&rng, seed);
    for (int i = 0; i < DIMS; i++)
        x[i] += 0.3f * (float)rv_rng_normal(&rng);
    assert_true(rv_pattern_scan_embed(&whitening, x, out));
}

static struct rv_reasoning_bank *open_bank(ruvllm_store *store, size_t max_patterns, size_t max_in_memory)
{
    const struct rv_reasoning_bank_config config = {.store = store,
                                                    .model = "m",
                                                    .whitening = &whitening,
                                                    .max_patterns = max_patterns,
                                                    .max_in_memory = max_in_memory};
    struct rv_reasoning_bank *bank;

    assert_ok(rv_reasoning_bank_new(&bank, &config, err));
    return bank;
}

static void add(struct rv_reasoning_bank *bank, const char *tenant, int kind, uint64_t seed, double quality)
{
    uint16_t x[RV_PATTERN_SCAN_MAX_DIMS];

    question(kind, seed, x);
    assert_ok(rv_reasoning_bank_add(bank, tenant, x, quality, (int64_t)seed, err));
}

/* Of the five nearest to a new question of the kind: how many there are, and their mean quality. */
static size_t recall(struct rv_reasoning_bank *bank, const char *tenant, int kind, double *quality)
{
    struct rv_reasoning_pattern found[5];
    uint16_t x[RV_PATTERN_SCAN_MAX_DIMS];
    size_t n;

    question(kind, 999999, x);
    assert_ok(rv_reasoning_bank_search(bank, tenant, x, found, 5, &n, err));
    *quality = 0;
    for (size_t i = 0; i < n; i++) {
        *quality += found[i].quality / (double)n;
        assert_true(i == 0 || found[i].likeness <= found[i - 1].likeness);
        assert_true(found[i].n_used >= 1 && found[i].time_us > 1600000000000000);
        assert_int_equal(found[i].verdict, found[i].quality > 0.5 ? RV_REASONING_GOOD : RV_REASONING_BAD);
    }
    return n;
}

static void judged_questions_are_found_by_likeness(void **state)
{
    struct rv_reasoning_bank *bank = open_bank(NULL, 0, 0);
    struct rv_reasoning_pattern found[5];
    double quality;
    size_t n, n_all;

    (void)state;
    assert_int_equal(recall(bank, "anna", 0, &quality), 0);
    for (uint64_t i = 0; i < 400; i++)
        add(bank, "anna", (int)(i % 8), i, i % 8 < 4 ? 0.9 : 0.1);
    for (int kind = 0; kind < 8; kind++) {
        assert_int_equal(recall(bank, "anna", kind, &quality), 5);
        assert_true(fabs(quality - (kind < 4 ? 0.9 : 0.1)) < 1e-9);
    }
    assert_int_equal(recall(bank, "bert", 0, &quality), 0); // another's
    assert_ok(rv_reasoning_bank_list(bank, "anna", found, 5, &n, &n_all, err));
    assert_true(n == 5 && n_all == 400 && found[0].seq == 399 && found[4].seq == 395);
    assert_ok(rv_reasoning_bank_forget(bank, "anna", 0, 0, err));
    assert_int_equal(recall(bank, "anna", 0, &quality), 0);
    rv_reasoning_bank_free(bank);
}

static void what_is_no_quality_is_refused(void **state)
{
    struct rv_reasoning_bank *bank = open_bank(NULL, 0, 0);
    struct rv_reasoning_pattern found[65];
    uint16_t x[RV_PATTERN_SCAN_MAX_DIMS];
    struct ruvllm_error err;
    size_t n;

    (void)state;
    question(0, 1, x);
    assert_fails(rv_reasoning_bank_add(bank, "anna", x, 1.1, 0, &err), RUVLLM_INVALID, err, "quality");
    assert_fails(rv_reasoning_bank_add(bank, "anna", x, (double)NAN, 0, &err), RUVLLM_INVALID, err, "quality");
    assert_fails(rv_reasoning_bank_search(bank, "anna", x, found, 65, &n, &err), RUVLLM_INVALID, err, "at most");
    rv_reasoning_bank_free(bank);
}

static bool count(void *user, const struct rv_store_pattern *row)
{
    (void)row;
    ++*(size_t *)user;
    return true;
}

static size_t n_stored(ruvllm_store *store, const char *tenant)
{
    size_t n = 0;

    assert_ok(rv_store_patterns_list(store, tenant, "m", 0, count, &n, err));
    return n;
}

static void patterns_outlive_the_process(void **state)
{
    ruvllm_store *store = store_open(store_temp_url());
    struct rv_reasoning_bank *bank = open_bank(store, 0, 0);
    double quality;

    (void)state;
    for (uint64_t i = 0; i < 700; i++)
        add(bank, i % 2 ? "anna" : NULL, (int)(i / 2 % 2), i, i / 2 % 2 ? 1 : 0);
    rv_reasoning_bank_free(bank);
    assert_int_equal(n_stored(store, "anna"), 350);
    assert_int_equal(n_stored(store, "default"), 350);
    bank = open_bank(store, 0, 0);
    add(bank, "anna", 1, 701, 1);
    assert_int_equal(recall(bank, "anna", 1, &quality), 5);
    assert_true(quality == 1);
    assert_int_equal(recall(bank, "anna", 0, &quality), 5);
    assert_true(quality == 0);
    assert_ok(rv_reasoning_bank_flush(bank, err));
    assert_int_equal(n_stored(store, "anna"), 351);
    assert_ok(rv_reasoning_bank_forget(bank, "anna", 701, 1, err));
    assert_int_equal(n_stored(store, "anna"), 350);
    add(bank, "anna", 1, 702, 1); // on its way to the store
    assert_ok(rv_reasoning_bank_forget(bank, "anna", 702, 1, err));
    assert_ok(rv_reasoning_bank_flush(bank, err));
    assert_int_equal(n_stored(store, "anna"), 350);
    assert_int_equal(recall(bank, "anna", 1, &quality), 5);
    assert_ok(rv_reasoning_bank_forget(bank, "anna", 0, 0, err));
    assert_int_equal(n_stored(store, "anna"), 0);
    assert_int_equal(recall(bank, "anna", 0, &quality), 0);
    assert_int_equal(recall(bank, "", 0, &quality), 5);
    rv_reasoning_bank_free(bank);
    ruvllm_store_close(store);
}

static void the_oldest_go_first(void **state)
{
    ruvllm_store *store = store_open(store_temp_url());
    struct rv_reasoning_bank *bank = open_bank(store, 80, 100);
    struct rv_reasoning_pattern found[200];
    double quality;
    size_t n;

    (void)state;
    for (uint64_t i = 1; i <= 300; i++) {
        add(bank, "anna", 0, i, 1);
        if (i % 10 == 0)
            assert_ok(rv_reasoning_bank_flush(bank, err));
    }
    assert_ok(rv_reasoning_bank_list(bank, "anna", found, 200, &n, NULL, err));
    assert_true(n >= 69 && n <= 91 && found[0].seq == 300 && found[n - 1].seq == 301 - (int64_t)n);
    assert_true(n_stored(store, "anna") >= 80 && n_stored(store, "anna") <= 101);
    for (uint64_t i = 1; i <= 60; i++) // anna's are let go of, but not forgotten
        add(bank, "bert", 1, i, 0);
    assert_int_equal(recall(bank, "bert", 1, &quality), 5);
    assert_int_equal(recall(bank, "anna", 0, &quality), 5);
    assert_true(quality == 1);
    rv_reasoning_bank_free(bank);
    ruvllm_store_close(store);
}

static void damaged_patterns_are_an_error(void **state)
{
    ruvllm_store *store = store_open(store_temp_url());
    struct rv_store_pattern p = {
        .tenant = "anna", .model = "m", .outcome = 1, .verdict = 3, .embedding = {.data = "abc", .len = 3}};
    struct rv_reasoning_bank *bank = open_bank(store, 0, 0);
    struct rv_reasoning_pattern found[5];
    uint16_t x[RV_PATTERN_SCAN_MAX_DIMS];
    struct ruvllm_error err;
    size_t n;

    (void)state;
    assert_int_equal(rv_store_patterns_add(store, &p, &err), RUVLLM_OK);
    question(0, 1, x);
    assert_fails(rv_reasoning_bank_search(bank, "anna", x, found, 5, &n, &err), RUVLLM_FORMAT, err, "damaged");
    memset(x, 0xff, sizeof(x)); // NaN
    p.embedding = (struct rv_str){.data = (const char *)x, .len = DIMS * sizeof(*x)};
    assert_int_equal(rv_store_patterns_delete(store, "anna", "m", 0, NULL, &err), RUVLLM_OK);
    assert_int_equal(rv_store_patterns_add(store, &p, &err), RUVLLM_OK);
    question(0, 1, x);
    assert_fails(rv_reasoning_bank_search(bank, "anna", x, found, 5, &n, &err), RUVLLM_FORMAT, err, "damaged");
    assert_int_equal(rv_reasoning_bank_forget(bank, "anna", 0, 0, &err), RUVLLM_OK);
    assert_int_equal(rv_reasoning_bank_search(bank, "anna", x, found, 5, &n, &err), RUVLLM_OK);
    rv_reasoning_bank_free(bank);
    ruvllm_store_close(store);
}

struct crowd {
    struct rv_reasoning_bank *bank;
    int number;
};

static void *add_and_search(void *arg)
{
    const struct crowd *c = arg;
    double quality;

    for (uint64_t i = 0; i < 200; i++) {
        add(c->bank, i % 3 ? "anna" : "bert", c->number, i, 1);
        if (i % 20 == 0)
            recall(c->bank, "anna", c->number, &quality);
    }
    return NULL;
}

static void many_threads_may_use_it(void **state)
{
    ruvllm_store *store = store_open(store_temp_url());
    struct rv_reasoning_bank *bank = open_bank(store, 0, 0);
    struct crowd crowd[4];
    pthread_t threads[4];
    struct rv_reasoning_pattern found[1];
    size_t n, n_all;

    (void)state;
    for (int i = 0; i < 4; i++) {
        crowd[i] = (struct crowd){.bank = bank, .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, add_and_search, &crowd[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_ok(rv_reasoning_bank_flush(bank, err));
    assert_ok(rv_reasoning_bank_list(bank, "anna", found, 1, &n, &n_all, err));
    assert_int_equal(n_all, n_stored(store, "anna"));
    assert_int_equal(n_all + n_stored(store, "bert"), 800);
    assert_int_equal(rv_reasoning_bank_n_lost(bank), 0);
    rv_reasoning_bank_free(bank);
    ruvllm_store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(judged_questions_are_found_by_likeness), cmocka_unit_test(what_is_no_quality_is_refused),
        cmocka_unit_test(patterns_outlive_the_process),           cmocka_unit_test(the_oldest_go_first),
        cmocka_unit_test(damaged_patterns_are_an_error),          cmocka_unit_test(many_threads_may_use_it),
    };

    return cmocka_run_group_tests(tests, make_whitening, free_whitening);
}
