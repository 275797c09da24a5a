/* The alarm rings for floods, soon, and not for tenants who merely become happier. */
#include "learn/flood.h"
#include "support/test.h"

#include "base/rng.h"

#include <stdio.h>

/* A tenant's running mean, as the learner keeps it. */
struct tenant {
    struct rv_flood flood;
    double mean;
    int64_t n;
};

static bool vote(struct tenant *t, double score, int64_t *since)
{
    rv_flood_add(&t->flood, score, t->mean, t->n++);
    t->mean += 0.02 * (score - t->mean);
    return rv_flood_rings(&t->flood, since);
}

static void floods_ring_within_forty_votes(void **state)
{
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        struct tenant t = {.mean = 0.5};
        struct rv_rng rng;
        int64_t since = -1;
        int n = 0;

        rv_rng_init(&rng, 1);
        for (int i = 0; i < 300; i++)
            assert_false(vote(&t, rv_rng_uniform(&rng) < 0.5, &since));
        while (n < 40 && !vote(&t, kind, &since))
            n++;
        printf("after %d votes, since %d\n", n, (int)since);
        assert_true(n >= 18 && n < 40);
        assert_true(since >= 290 && since <= 300); // where it began, give or take votes that fitted
        rv_flood_pause(&t.flood);
        for (int i = 0; i < 200; i++) // it goes on: by then it is what the tenant does
            assert_false(vote(&t, kind, &since));
        assert_int_equal(t.flood.n_paused, 0);
    }
}

static void answers_that_become_better_do_not_ring(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct tenant t = {.mean = 0.05};
        struct rv_rng rng;
        int64_t since;

        rv_rng_init(&rng, seed);
        for (int i = 0; i < 1000; i++) {
            double rate = i < 100 ? 0.03 : i < 300 ? 0.03 + (i - 100) * 0.003 : 0.63;

            assert_false(vote(&t, rv_rng_uniform(&rng) < rate, &since));
        }
    }
}

static void steady_tenants_do_not_ring(void **state)
{
    static const double rates[] = {0, 0.02, 0.3, 0.8, 0.98, 1};

    (void)state;
    for (size_t r = 0; r < sizeof(rates) / sizeof(rates[0]); r++) {
        struct tenant t = {.mean = rates[r]};
        struct rv_rng rng;
        int64_t since;

        rv_rng_init(&rng, r + 1);
        for (int i = 0; i < 5000; i++)
            assert_false(vote(&t, rv_rng_uniform(&rng) < rates[r], &since));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(floods_ring_within_forty_votes),
        cmocka_unit_test(answers_that_become_better_do_not_ring),
        cmocka_unit_test(steady_tenants_do_not_ring),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
