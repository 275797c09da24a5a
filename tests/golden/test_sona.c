/* The seeds' SONA on a real model: texts teach as answers do, good ones and bad ones, and what is learned answers. */
#include "ruvllm_sona.h"

#include "engine/teacher.h"
#include "golden/learn_bed.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char REQUEST[] = "Once upon a time there was a little girl who";
static const char RESPONSE[] = " wanted to fly to the moon. She found a big red balloon.";

static ruvllm_engine *open_engine(bool learns)
{
    return learn_bed_open(&(struct learn_bed_wishes){.no_learning = !learns});
}

/* The linker puts this before the engine's: whether it is to fail is counted down. */
ruvllm_status __real_rv_teacher_trace(struct ruvllm_engine *engine, const struct rv_teacher_text *text,
                                      struct rv_trace **out, struct ruvllm_error *err);
ruvllm_status __wrap_rv_teacher_trace(struct ruvllm_engine *engine, const struct rv_teacher_text *text,
                                      struct rv_trace **out, struct ruvllm_error *err);

static int n_until_failure; // 0: never

ruvllm_status __wrap_rv_teacher_trace(struct ruvllm_engine *engine, const struct rv_teacher_text *text,
                                      struct rv_trace **out, struct ruvllm_error *err)
{
    if (n_until_failure == 0 || --n_until_failure > 0)
        return __real_rv_teacher_trace(engine, text, out, err);
    *out = NULL;
    return rv_fail(err, RUVLLM_BUSY, "there is no room for it now");
}

static ruvllm_sona *open_sona(ruvllm_engine *engine, const char *tenant, float rate)
{
    struct ruvllm_sona_config config = ruvllm_sona_config_default();
    ruvllm_sona *sona;

    config.instant_lr = rate;
    assert_ok(ruvllm_sona_new(&sona, engine, tenant, &config, err));
    return sona;
}

static struct ruvllm_sona_result adapt(ruvllm_sona *sona, double quality)
{
    struct ruvllm_sona_result result = {.struct_size = sizeof(result)};

    assert_ok(ruvllm_sona_instant_adapt(sona, REQUEST, RESPONSE, quality, &result, err));
    return result;
}

static void good_texts_become_likelier_and_bad_ones_less_so(void **state)
{
    ruvllm_engine *engine = open_engine(true);
    ruvllm_sona *good = open_sona(engine, "good", 0.01f), *bad = open_sona(engine, "bad", 0.01f);
    struct ruvllm_sona_result up = adapt(good, 1), down = adapt(bad, 0);

    (void)state;
    assert_true(up.applied && up.samples_used > 10 && up.kl > 0 && up.generation == 1);
    assert_true(up.latency_us > 0 && up.read_us > 0 && up.commit_us == 0);
    assert_true(up.loss_before == down.loss_before); // two tenants that nothing was said to
    assert_true(up.loss_after < up.loss_before - 0.02);
    assert_true(down.applied && down.loss_after > down.loss_before + 0.02);
    up = adapt(good, 0.9);
    assert_int_equal(up.generation, 2);
    ruvllm_sona_free(good);
    ruvllm_sona_free(bad);
    ruvllm_engine_close(engine);
}

/* Who is told of a failure says it again: so none is told of what was learned. */
static void what_was_learned_is_no_failure(void **state)
{
    ruvllm_engine *engine = open_engine(true);
    ruvllm_sona *sona = open_sona(engine, "anna", 0.01f);
    struct ruvllm_sona_result result = {.struct_size = sizeof(result)};
    struct ruvllm_error failure;

    (void)state;
    n_until_failure = 1; // before
    assert_fails(ruvllm_sona_instant_adapt(sona, REQUEST, RESPONSE, 1, &result, &failure), RUVLLM_BUSY, failure,
                 "no room");
    n_until_failure = 2; // after
    assert_ok(ruvllm_sona_instant_adapt(sona, REQUEST, RESPONSE, 1, &result, err));
    assert_true(result.applied && result.generation == 1 && isnan(result.loss_after) && result.loss_before > 0);
    assert_int_equal(n_until_failure, 0);
    ruvllm_sona_free(sona);
    ruvllm_engine_close(engine);
}

static void a_larger_rate_goes_further(void **state)
{
    ruvllm_engine *engine = open_engine(true);
    ruvllm_sona *small = open_sona(engine, "small", 0.0025f), *large = open_sona(engine, "large", 0.01f);
    struct ruvllm_sona_result one = adapt(small, 0), four = adapt(large, 0);

    (void)state;
    assert_true(fabs(four.kl / one.kl - 4) < 0.2);
    assert_true(four.loss_after > one.loss_after && one.loss_after > one.loss_before);
    ruvllm_sona_free(small);
    ruvllm_sona_free(large);
    ruvllm_engine_close(engine);
}

/* What is learned is the tenant's own: votes on answers and texts go the same way, and reset undoes both. */
static void it_is_the_tenants_learning(void **state)
{
    struct ruvllm_learned_info info = {.struct_size = sizeof(info)};
    struct ruvllm_sona_stats stats = {.struct_size = sizeof(stats)};
    ruvllm_engine *engine = open_engine(true);
    ruvllm_sona *sona = open_sona(engine, "anna", 0.01f);
    static float x[8192], y[8192];
    struct ruvllm_sona_result result;
    double sum = 0, base;

    (void)state;
    base = adapt(sona, 0).loss_before;
    for (size_t i = 0; i < 8192; i++)
        x[i] = 1;
    assert_ok(ruvllm_sona_forward(sona, x, y, err));
    for (size_t i = 0; i < 8192; i++)
        sum += fabs((double)y[i]);
    assert_true(sum > 0);
    assert_ok(ruvllm_engine_learned(engine, "anna", &info, err));
    assert_true(info.generation == 1 && info.n_votes == 1);
    assert_ok(ruvllm_sona_stats_get(sona, &stats, err));
    assert_true(stats.n_instant == 1 && stats.n_pending == 1 && stats.generation == 1 && stats.mean_latency_us > 0);
    assert_true(stats.surprise > 1 && stats.mean_quality < 0.5 && stats.spent_kl == info.spent_kl);
    assert_ok(ruvllm_engine_learned(engine, "bert", &info, err));
    assert_int_equal(info.generation, 0);
    assert_ok(ruvllm_sona_reset(sona, err));
    assert_ok(ruvllm_sona_forward(sona, x, y, err));
    for (size_t i = 0; i < 64; i++)
        assert_true(y[i] == 0);
    result = adapt(sona, 0.5);
    assert_true(result.loss_before == base);
    assert_false(result.applied); // neither good nor bad
    assert_int_equal(result.generation, 3);
    ruvllm_sona_free(sona);
    ruvllm_engine_close(engine);
}

static void enough_surprises_ask_for_a_deep_run(void **state)
{
    struct ruvllm_sona_config config = ruvllm_sona_config_default();
    ruvllm_engine *engine = open_engine(true);
    ruvllm_sona *sona;
    int n = 0;

    (void)state;
    assert_true(fabsf(config.instant_lr - 0.01f) < 1e-9f && config.max_pending_samples == 1000);
    config.deep_trigger_threshold = 3;
    assert_ok(ruvllm_sona_new(&sona, engine, NULL, &config, err));
    assert_false(ruvllm_sona_should_trigger_deep(sona));
    for (; n < 10 && !ruvllm_sona_should_trigger_deep(sona); n++)
        adapt(sona, n % 2);
    assert_true(n == 2 || n == 3);
    ruvllm_sona_free(sona);
    config.deep_trigger_threshold = 1000;
    config.max_pending_samples = 2;
    assert_ok(ruvllm_sona_new(&sona, engine, NULL, &config, err));
    adapt(sona, 0.4);
    assert_false(ruvllm_sona_should_trigger_deep(sona));
    adapt(sona, 0.4);
    assert_true(ruvllm_sona_should_trigger_deep(sona));
    ruvllm_sona_free(sona);
    ruvllm_engine_close(engine);
}

/* The background loop is the engine's; what it comes to is told as the tenant's numbers have it. */
static void the_background_loop_goes_over_what_is_new(void **state)
{
    struct ruvllm_learned_info before = {.struct_size = sizeof(before)}, after = before;
    struct ruvllm_sona_result result = {.struct_size = sizeof(result)};
    struct ruvllm_sona_stats stats = {.struct_size = sizeof(stats)};
    struct ruvllm_sona_config config = ruvllm_sona_config_default();
    ruvllm_engine *engine = open_engine(true);
    struct ruvllm_error err;
    ruvllm_sona *sona;
    bool was_due;

    (void)state;
    assert_true(config.background_interval_ms == 100 && config.background_min_samples == 10);
    config.background_interval_ms = 0;
    config.background_min_samples = 3;
    assert_int_equal(ruvllm_sona_new(&sona, engine, "anna", &config, &err), RUVLLM_OK);
    assert_int_equal(ruvllm_sona_background_consolidate(sona, &result, &err), RUVLLM_OK); // nothing was said
    assert_true(!result.applied && result.samples_used == 0 && result.generation == 0);
    adapt(sona, 0);
    adapt(sona, 1);
    assert_int_equal(ruvllm_sona_maybe_background(sona, &was_due, &result, &err), RUVLLM_OK);
    assert_false(was_due);
    adapt(sona, 1);
    assert_int_equal(ruvllm_engine_learned(engine, "anna", &before, &err), RUVLLM_OK);
    assert_int_equal(ruvllm_sona_maybe_background(sona, &was_due, &result, &err), RUVLLM_OK);
    assert_int_equal(ruvllm_engine_learned(engine, "anna", &after, &err), RUVLLM_OK);
    assert_true(was_due && result.samples_used == 3 && result.latency_us > 0 && isnan(result.loss_after));
    assert_true(result.applied == (after.n_ticks > before.n_ticks) && result.generation == after.generation);
    assert_int_equal(ruvllm_sona_background_consolidate(sona, &result, &err), RUVLLM_OK);
    assert_true(!result.applied && result.samples_used == 0); // nothing new
    assert_int_equal(ruvllm_sona_stats_get(sona, &stats, &err), RUVLLM_OK);
    assert_true(stats.n_background == 3 && stats.n_instant == 3);
    ruvllm_sona_free(sona);
    ruvllm_engine_close(engine);
}

/* A dataset of judged texts goes through the log into a deep run, whose verdict is reported as it is. */
static void a_dataset_is_judged_and_trained_on(void **state)
{
    const char *path = test_temp_path(".db");
    struct ruvllm_train_params train = ruvllm_deep_train_params_default();
    struct ruvllm_deep_params params = ruvllm_deep_params_default();
    struct ruvllm_sona_result result = {.struct_size = sizeof(result)};
    struct ruvllm_sona_stats stats = {.struct_size = sizeof(stats)};
    struct ruvllm_train_sample samples[10];
    struct ruvllm_error err;
    ruvllm_engine *engine;
    ruvllm_store *store;
    ruvllm_sona *sona;

    (void)state;
    (void)unlink(path);
    for (int i = 0; i < 10; i++)
        samples[i] = (struct ruvllm_train_sample){.struct_size = sizeof(samples[i]),
                                                  .prompt = i % 2 ? REQUEST : "One day, Tom and his dog",
                                                  .response = RESPONSE,
                                                  .score = i % 2 ? 1 : NAN};
    train.n_epochs = 1;
    train.n_threads = 1;
    params.train = &train;
    params.max_forgetting = 1;
    assert_int_equal(ruvllm_store_open(&store, path, NULL, &err), RUVLLM_OK);
    engine = learn_bed_open_with(store);
    sona = open_sona(engine, "anna", 0.01f);
    assert_int_equal(ruvllm_sona_deep_optimize(sona, samples, 10, &params, &result, &err), RUVLLM_OK);
    assert_true(result.samples_used > 0 && result.latency_us > 0 && result.loss_before > 0 && result.loss_after > 0);
    assert_true(result.applied == (result.generation > 10));
    assert_int_equal(ruvllm_sona_stats_get(sona, &stats, &err), RUVLLM_OK);
    assert_true(stats.n_instant == 10 && stats.n_deep == 1 && stats.n_pending == 0 && stats.surprise == 0);
    samples[3].is_anchor = true;
    assert_fails(ruvllm_sona_deep_optimize(sona, samples, 10, &params, &result, &err), RUVLLM_INVALID, err, "sample 3");
    samples[3].is_anchor = false;
    samples[3].score = 2;
    assert_fails(ruvllm_sona_deep_optimize(sona, samples, 10, &params, &result, &err), RUVLLM_INVALID, err, "sample 3");
    ruvllm_sona_free(sona);
    ruvllm_engine_close(engine);
    ruvllm_store_close(store);
    (void)unlink(path);
    engine = open_engine(true);
    sona = open_sona(engine, "anna", 0.01f);
    assert_int_equal(ruvllm_sona_deep_optimize(sona, NULL, 0, &params, &result, &err), RUVLLM_UNSUPPORTED);
    ruvllm_sona_free(sona);
    ruvllm_engine_close(engine);
}

static void what_cannot_teach_is_refused(void **state)
{
    struct ruvllm_sona_config config = ruvllm_sona_config_default();
    ruvllm_engine *engine = open_engine(false);
    struct ruvllm_error err;
    ruvllm_sona *sona;

    (void)state;
    assert_fails(ruvllm_sona_new(&sona, engine, "anna", NULL, &err), RUVLLM_INVALID, err, "does not learn");
    assert_null(sona);
    ruvllm_engine_close(engine);
    engine = open_engine(true);
    config.instant_lr = 0;
    assert_fails(ruvllm_sona_new(&sona, engine, "anna", &config, &err), RUVLLM_INVALID, err, "instant_lr");
    assert_int_equal(ruvllm_sona_new(&sona, engine, "anna", NULL, &err), RUVLLM_OK);
    assert_fails(ruvllm_sona_instant_adapt(sona, REQUEST, "", 1, NULL, &err), RUVLLM_INVALID, err, "response");
    assert_fails(ruvllm_sona_instant_adapt(sona, "\xff", RESPONSE, 1, NULL, &err), RUVLLM_INVALID, err, "request");
    assert_fails(ruvllm_sona_instant_adapt(sona, REQUEST, RESPONSE, 2, NULL, &err), RUVLLM_INVALID, err, "score");
    assert_fails(ruvllm_sona_instant_adapt(sona, REQUEST, RESPONSE, (double)NAN, NULL, &err), RUVLLM_INVALID, err,
                 "score");
    assert_fails(ruvllm_sona_instant_adapt(sona, NULL, RESPONSE, 1, NULL, &err), RUVLLM_INVALID, err, "request");
    assert_false(ruvllm_sona_should_trigger_deep(NULL));
    ruvllm_sona_free(sona);
    ruvllm_engine_close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_texts_become_likelier_and_bad_ones_less_so),
        cmocka_unit_test(what_was_learned_is_no_failure),
        cmocka_unit_test(a_larger_rate_goes_further),
        cmocka_unit_test(it_is_the_tenants_learning),
        cmocka_unit_test(enough_surprises_ask_for_a_deep_run),
        cmocka_unit_test(the_background_loop_goes_over_what_is_new),
        cmocka_unit_test(what_cannot_teach_is_refused),
        cmocka_unit_test(
            a_dataset_is_judged_and_trained_on), // as test_train_samples and test_deep: not under sanitizers
    };
    enum { N = sizeof(tests) / sizeof(tests[0]) };

    return _cmocka_run_group_tests("sona", tests, TEST_SANITIZED(N - 1, N), NULL, NULL);
}
