/* A model's whitening in the store: it comes back to the bit, and numbers that are none do not come back at all. */
#include "learn/whitening_store.h"
#include "store/store_generations.h"
#include "support/learn_fixture.h"
#include "support/store_fixture.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DIMS = 16 };

static void it_comes_back_to_the_bit(void **state)
{
    ruvllm_store *store = store_open(store_memory_path());
    struct rv_whitening made, read;

    (void)state;
    assert_ok(learn_fixture_whitening(DIMS, &made, err));
    made.radius = 0.5f;
    assert_ok(rv_whitening_store_load(store, "m", DIMS, &read, err));
    assert_null(read.directions); // not there yet
    assert_ok(rv_whitening_store_save(store, "m", &made, err));
    assert_ok(rv_whitening_store_load(store, "m", DIMS, &read, err));
    assert_true(read.n_directions == made.n_directions && read.rest == made.rest && read.ridge == made.ridge &&
                read.radius == made.radius);
    assert_memory_equal(read.directions, made.directions, (size_t)made.n_directions * DIMS * sizeof(float));
    assert_memory_equal(read.variances, made.variances, (size_t)made.n_directions * sizeof(float));
    rv_whitening_release(&read);
    rv_whitening_release(&made);
    ruvllm_store_close(store);
}

static void keep(ruvllm_store *store, const struct rv_whitening *made, float radius)
{
    struct rv_whitening whitening = *made;

    whitening.radius = radius;
    assert_ok(rv_whitening_store_save(store, "m", &whitening, err));
}

static float kept_radius(ruvllm_store *store)
{
    struct rv_whitening read;
    float radius;

    assert_ok(rv_whitening_store_load(store, "m", DIMS, &read, err));
    radius = read.directions ? read.radius : -1.0f;
    rv_whitening_release(&read);
    return radius;
}

/* Replicas that begin together may each have seen none; version 1 had no radius and is passed over. */
static void the_first_that_was_kept_counts(void **state)
{
    ruvllm_store *store = store_open(store_memory_path());
    struct rv_store_generation old = {
        .tenant = ".states", .model = "m.states", .kind = RV_STORE_GENERATION_IMPORT, .is_active = true};
    int32_t header[6] = {1, DIMS};
    struct rv_whitening made;

    (void)state;
    assert_ok(learn_fixture_whitening(DIMS, &made, err));
    assert_ok(rv_store_generations_add(store, &old, header, sizeof(header), err));
    assert_true(kept_radius(store) < 0);
    keep(store, &made, 0.5f);
    assert_float_equal(kept_radius(store), 0.5, 0);
    keep(store, &made, 0.25f);
    assert_float_equal(kept_radius(store), 0.5, 0);
    rv_whitening_release(&made);
    ruvllm_store_close(store);
}

static void numbers_that_are_none_are_refused(void **state)
{
    ruvllm_store *store = store_open(store_memory_path());
    struct ruvllm_error failure;
    struct rv_whitening made, read;

    (void)state;
    assert_ok(learn_fixture_whitening(DIMS, &made, err));
    for (int i = 0; i < 5; i++) {
        struct rv_whitening wrong = made;
        float first_direction = made.directions[0], first_variance = made.variances[0];
        char model[8];

        (void)snprintf(model, sizeof(model), "m%d", i); // the first of a model is the one that counts
        if (i == 0)
            wrong.ridge = 0;
        else if (i == 1)
            wrong.rest = NAN;
        else if (i == 2)
            wrong.radius = INFINITY;
        else if (i == 3)
            wrong.directions[0] = NAN;
        else
            wrong.variances[0] = -2 * made.ridge;
        assert_ok(rv_whitening_store_save(store, model, &wrong, err));
        assert_fails(rv_whitening_store_load(store, model, DIMS, &read, &failure), RUVLLM_FORMAT, failure, "none");
        assert_null(read.directions);
        made.directions[0] = first_direction;
        made.variances[0] = first_variance;
    }
    rv_whitening_release(&made);
    ruvllm_store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_comes_back_to_the_bit),
        cmocka_unit_test(the_first_that_was_kept_counts),
        cmocka_unit_test(numbers_that_are_none_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
