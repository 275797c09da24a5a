/* The optimiser against its formulas on small cases, and the schedules at their ends. */
#include "learn/adamw.h"
#include "support/test.h"

#include <math.h>
#include <string.h>

static void the_first_step_has_the_length_of_the_step_size(void **state)
{
    struct rv_adamw_config config = rv_adamw_config_default();
    float values[2] = {1.0f, -2.0f}, grads[2] = {0.3f, -0.001f};
    struct rv_adamw a;
    double length;

    (void)state;
    config.schedule = RV_ADAMW_CONSTANT;
    config.n_warmup = 0;
    config.step = 0.01f;
    assert_ok(rv_adamw_init(&a, &config, 2, err));
    assert_true(rv_adamw_step(&a, values, grads, &length));
    assert_true(fabs(length - sqrt(0.3 * 0.3 + 1e-6)) < 1e-7);
    assert_true(fabs((double)values[0] - 0.99) < 1e-6);
    assert_true(fabs((double)values[1] + 1.99) < 1e-5); // the size of the gradient does not count
    rv_adamw_release(&a);
}

/* Two steps by hand: beta1 0.5, beta2 0.75, no clipping, decay 0.1. */
static void two_steps_are_those_of_the_paper(void **state)
{
    struct rv_adamw_config config = rv_adamw_config_default();
    float value = 2.0f, grads[2] = {4.0f, -1.0f};
    double m = 0, v = 0, x = 2, length;
    struct rv_adamw a;

    (void)state;
    config = (struct rv_adamw_config){
        .step = 0.1f, .beta1 = 0.5f, .beta2 = 0.75f, .eps = 1e-8f, .decay = 0.1f, .n_steps = 2};
    assert_ok(rv_adamw_init(&a, &config, 1, err));
    for (int i = 0; i < 2; i++) {
        double g = (double)grads[i];

        m = 0.5 * m + 0.5 * g;
        v = 0.75 * v + 0.25 * g * g;
        x -= 0.1 * (m / (1 - pow(0.5, i + 1)) / (sqrt(v / (1 - pow(0.75, i + 1))) + 1e-8) + 0.1 * x);
        assert_true(rv_adamw_step(&a, &value, &grads[i], &length));
        assert_true(fabs((double)value - x) < 1e-6);
    }
    rv_adamw_release(&a);
}

static void a_long_gradient_is_cut_and_one_that_is_no_number_changes_nothing(void **state)
{
    struct rv_adamw_config config = rv_adamw_config_default();
    float values[2] = {0, 0}, grads[2] = {300.0f, 400.0f}, wrong[2] = {1.0f, NAN};
    struct rv_adamw a;
    double length;

    (void)state;
    assert_ok(rv_adamw_init(&a, &config, 2, err));
    assert_true(rv_adamw_step(&a, values, grads, &length));
    assert_true(length == 500.0);
    assert_true(fabs((double)a.mean[0] - 0.1 * 0.6) < 1e-6 && fabs((double)a.mean[1] - 0.1 * 0.8) < 1e-6);
    grads[0] = values[0];
    assert_false(rv_adamw_step(&a, values, wrong, &length));
    assert_true(values[0] == grads[0] && a.step == 1);
    rv_adamw_release(&a);
}

static void schedules_rise_and_fall_where_they_say(void **state)
{
    struct rv_adamw_config c = {.step = 1.0f, .n_steps = 100, .n_warmup = 10, .schedule = RV_ADAMW_COSINE};

    (void)state;
    assert_true(rv_adamw_step_size(&c, 0) < 0.1f && rv_adamw_step_size(&c, 10) == 1.0f);
    assert_true(fabs((double)rv_adamw_step_size(&c, 55) - 0.5) < 1e-6 && rv_adamw_step_size(&c, 100) < 1e-6f);
    for (int32_t i = 11; i < 100; i++)
        assert_true(rv_adamw_step_size(&c, i) < rv_adamw_step_size(&c, i - 1));
    c.schedule = RV_ADAMW_CONSTANT;
    assert_true(rv_adamw_step_size(&c, 99) == 1.0f);
    c.schedule = RV_ADAMW_ONE_CYCLE;
    assert_true(rv_adamw_step_size(&c, 0) < 0.05f && rv_adamw_step_size(&c, 29) == 1.0f);
    assert_true(rv_adamw_step_size(&c, 99) < 0.01f);
}

static void numbers_out_of_range_are_named(void **state)
{
    struct rv_adamw_config config = rv_adamw_config_default();
    struct ruvllm_error error;
    struct rv_adamw a;

    (void)state;
    config.beta2 = 1.0f;
    assert_fails(rv_adamw_init(&a, &config, 2, &error), RUVLLM_INVALID, error, "'beta2'");
    config = rv_adamw_config_default();
    config.step = NAN;
    assert_fails(rv_adamw_init(&a, &config, 2, &error), RUVLLM_INVALID, error, "'step'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_step_has_the_length_of_the_step_size),
        cmocka_unit_test(two_steps_are_those_of_the_paper),
        cmocka_unit_test(a_long_gradient_is_cut_and_one_that_is_no_number_changes_nothing),
        cmocka_unit_test(schedules_rise_and_fall_where_they_say),
        cmocka_unit_test(numbers_out_of_range_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
