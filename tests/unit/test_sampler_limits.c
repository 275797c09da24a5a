/* Every numeric field of the sampler at and beyond its limits, and rows no token can be chosen from. */
#include "sample/penalty.h"
#include "support/sampling.h"

#include <float.h>
#include <math.h>
#include <string.h>

static void assert_refused(const struct ruvllm_generate_params *p, const char *field)
{
    struct ruvllm_error err = {0};
    struct rv_sampler *s = (struct rv_sampler *)&err;

    assert_fails(rv_sampler_new(&s, p, 100, &err), RUVLLM_INVALID, err, field);
    assert_null(s);
}

/* Accepted values must also survive use. */
static void assert_accepted(const struct ruvllm_generate_params *p)
{
    struct rv_sampler *s = sampling_new(p, 100);
    float logits[100];

    for (int i = 0; i < 100; i++)
        logits[i] = (float)(i % 13) - 6.0f;
    for (int i = 0; i < 20; i++) {
        int32_t token = sampling_choose(s, logits, 100);

        assert_in_range(token, 0, 99);
        rv_sampler_accept(s, token);
    }
    rv_sampler_free(s);
}

static void every_float_field_holds_its_limits(void **state)
{
    static const struct {
        const char *name;
        size_t offset;
        float min, max;
    } fields[] = {
        {"temperature", offsetof(struct ruvllm_generate_params, temperature), 0.0f, 100.0f},
        {"top_p", offsetof(struct ruvllm_generate_params, top_p), 0.0f, 1.0f},
        {"min_p", offsetof(struct ruvllm_generate_params, min_p), 0.0f, 1.0f},
        {"typical_p", offsetof(struct ruvllm_generate_params, typical_p), 0.0f, 1.0f},
        {"repetition_penalty", offsetof(struct ruvllm_generate_params, repetition_penalty), 0.01f, 100.0f},
        {"frequency_penalty", offsetof(struct ruvllm_generate_params, frequency_penalty), -2.0f, 2.0f},
        {"presence_penalty", offsetof(struct ruvllm_generate_params, presence_penalty), -2.0f, 2.0f},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        const float good[] = {fields[i].min, fields[i].max, 0.5f * (fields[i].min + fields[i].max)};
        const float bad[] = {nextafterf(fields[i].min, -INFINITY),
                             fields[i].min - 1.0f,
                             nextafterf(fields[i].max, INFINITY),
                             fields[i].max + 1.0f,
                             NAN,
                             INFINITY,
                             -INFINITY,
                             (float)1e38,
                             -FLT_MAX};
        struct ruvllm_generate_params p = sampling_params_off();

        for (size_t j = 0; j < sizeof(good) / sizeof(good[0]); j++) {
            memcpy((char *)&p + fields[i].offset, &good[j], sizeof(float));
            assert_accepted(&p);
        }
        for (size_t j = 0; j < sizeof(bad) / sizeof(bad[0]); j++) {
            memcpy((char *)&p + fields[i].offset, &bad[j], sizeof(float));
            assert_refused(&p, fields[i].name);
        }
    }
}

static void every_integer_field_holds_its_limits(void **state)
{
    static const struct {
        const char *name;
        size_t offset;
        int32_t min, max;
    } fields[] = {
        {"max_tokens", offsetof(struct ruvllm_generate_params, max_tokens), 0, INT32_MAX},
        {"top_k", offsetof(struct ruvllm_generate_params, top_k), 0, INT32_MAX},
        {"penalty_window", offsetof(struct ruvllm_generate_params, penalty_window), -1, RV_PENALTY_MAX_WINDOW},
        {"n_logprobs", offsetof(struct ruvllm_generate_params, n_logprobs), -1, 20},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        const int32_t good[] = {fields[i].min, fields[i].min + 1, 20, fields[i].max};
        const int64_t bad[] = {(int64_t)fields[i].min - 1, (int64_t)fields[i].max + 1, INT32_MIN, INT32_MAX};
        struct ruvllm_generate_params p = sampling_params_off();

        p.repetition_penalty = 1.1f;
        for (size_t j = 0; j < sizeof(good) / sizeof(good[0]); j++) {
            memcpy((char *)&p + fields[i].offset, &good[j], sizeof(int32_t));
            assert_accepted(&p);
        }
        for (size_t j = 0; j < sizeof(bad) / sizeof(bad[0]); j++) {
            int32_t value = (int32_t)bad[j];

            if (bad[j] != value || (value >= fields[i].min && value <= fields[i].max))
                continue;
            memcpy((char *)&p + fields[i].offset, &value, sizeof(int32_t));
            assert_refused(&p, fields[i].name);
        }
    }
}

static void a_bias_outside_its_limits_is_refused(void **state)
{
    const struct ruvllm_logit_bias bad[] = {{-1, 0.0f},        {100, 0.0f}, {INT32_MIN, 0.0f},
                                            {INT32_MAX, 0.0f}, {5, NAN},    {5, INFINITY}};
    const struct ruvllm_logit_bias good[] = {{0, -INFINITY}, {99, FLT_MAX}, {98, -FLT_MAX}, {97, 0.0f}};
    struct ruvllm_logit_bias all[100];
    struct ruvllm_generate_params p = sampling_params_off();

    (void)state;
    p.n_logit_bias = 1;
    assert_refused(&p, "logit_bias"); // NULL
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        p.logit_bias = &bad[i];
        assert_refused(&p, "logit_bias");
    }
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        p.logit_bias = &good[i];
        assert_accepted(&p);
    }
    for (int32_t i = 0; i < 100; i++)
        all[i] = (struct ruvllm_logit_bias){.token = i, .bias = -INFINITY};
    p.logit_bias = all;
    p.n_logit_bias = 101;
    assert_refused(&p, "logit_bias");
    p.n_logit_bias = 100;
    assert_refused(&p, "bans every token");
    all[99] = all[0];
    assert_accepted(&p);
}

static void a_vocabulary_of_no_or_absurd_size_is_refused(void **state)
{
    struct ruvllm_generate_params p = sampling_params_off();
    struct ruvllm_error err = {0};
    struct rv_sampler *s;

    (void)state;
    assert_fails(rv_sampler_new(&s, &p, 0, &err), RUVLLM_INVALID, err, "vocabulary of 0");
    assert_fails(rv_sampler_new(&s, &p, SIZE_MAX, &err), RUVLLM_INVALID, err, "vocabulary");
}

static void bans_hold_and_huge_biases_stay_finite(void **state)
{
    const struct ruvllm_logit_bias bias[] = {{0, -INFINITY}, {1, FLT_MAX}, {1, FLT_MAX}, {2, -FLT_MAX}, {2, -FLT_MAX}};
    const float logits[] = {50.0f, FLT_MAX, -FLT_MAX, 1.0f, 2.0f};
    struct ruvllm_generate_params p = sampling_params_off();
    int drawn[5];

    (void)state;
    p.logit_bias = bias;
    p.n_logit_bias = 1;
    p.temperature = 100.0f;
    sampling_count(&p, (const float[]){9.0f, 1.0f, 1.0f, 1.0f, 1.0f}, 5, -1, drawn);
    assert_int_equal(drawn[0], 0);
    assert_true(drawn[1] && drawn[2] && drawn[3] && drawn[4]);
    p.n_logit_bias = 5;
    sampling_count(&p, logits, 5, -1, drawn);
    assert_int_equal(drawn[1], 3000);
}

static void a_row_without_a_finite_logit_is_the_backend_s_failure(void **state)
{
    struct ruvllm_generate_params p = sampling_params_off();

    (void)state;
    for (int mode = 0; mode < 3; mode++) {
        const float bad[] = {NAN, -INFINITY, INFINITY};
        struct rv_sampler *s;

        p.temperature = mode == 0 ? 0.0f : 1.0f;
        p.top_k = mode == 1 ? 5 : 0;
        s = sampling_new(&p, 50);
        for (int kind = 0; kind < 4; kind++) {
            struct ruvllm_error err = {0};
            float row[50];
            int32_t token = -7;

            for (int i = 0; i < 50; i++)
                row[i] = bad[kind < 3 ? kind : i % 3];
            assert_fails(rv_sampler_choose(s, row, &token, &err), RUVLLM_BACKEND, err, "no finite logit");
            assert_int_equal(token, -7);
        }
        rv_sampler_free(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_float_field_holds_its_limits),
        cmocka_unit_test(every_integer_field_holds_its_limits),
        cmocka_unit_test(a_bias_outside_its_limits_is_refused),
        cmocka_unit_test(a_vocabulary_of_no_or_absurd_size_is_refused),
        cmocka_unit_test(bans_hold_and_huge_biases_stay_finite),
        cmocka_unit_test(a_row_without_a_finite_logit_is_the_backend_s_failure),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
