/* Whose turn it is. */
#include "sched/turn.h"
#include "base/rng.h"
#include "support/test.h"

enum { A, B, QUANTUM = 100, AGE_US = 1000 };

struct fixture {
    struct rv_fair_share share;
    struct rv_turn turns[4];
    struct rv_turn_list list;
};

static int setup(void **state)
{
    static struct fixture f;

    f = (struct fixture){0};
    assert_ok(rv_fair_share_init(&f.share, 4, err));
    assert_int_equal(rv_fair_share_enter(&f.share, 100), A);
    assert_int_equal(rv_fair_share_enter(&f.share, 200), B);
    f.list = (struct rv_turn_list){
        .share = &f.share, .now_us = 5000, .age_us = AGE_US, .quantum = QUANTUM, .turns = f.turns, .max = 4};
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    rv_fair_share_release(&((struct fixture *)*state)->share);
    return 0;
}

/* Adds two and returns the ticket of the one that comes first. */
static uint64_t first_of(struct fixture *f, struct rv_turn a, struct rv_turn b)
{
    a.ticket = 1;
    b.ticket = 2;
    f->list.n = 0;
    rv_turn_list_add(&f->list, &a);
    rv_turn_list_add(&f->list, &b);
    assert_int_equal(f->list.n, 2);
    return f->list.turns[0].ticket;
}

static void each_rule_counts_only_where_those_before_it_are_even(void **state)
{
    struct fixture *f = *state;
    struct rv_turn a = {.rank = 0, .tenant = A, .n_left = 50, .served_us = 5000}, b = a;

    assert_int_equal(first_of(f, a, b), 1); // who came first
    b.n_left = 49;
    assert_int_equal(first_of(f, a, b), 2); // what is left
    b.tenant = B;
    rv_fair_share_charge(&f->share, B, QUANTUM, 1);
    assert_int_equal(first_of(f, a, b), 1); // the tenant served least
    b.served_us = 5000 - AGE_US;
    assert_int_equal(first_of(f, a, b), 1); // which waiting does not turn round
    a.served_us = 5000 - AGE_US;
    b.tenant = A;
    b.served_us = 5000 - 2 * AGE_US;
    a.n_left = 1;
    assert_int_equal(first_of(f, a, b), 2); // waiting, before what is left
    a.rank = 2;
    assert_int_equal(first_of(f, a, b), 1); // priority
}

static void who_had_more_ages_slowly_but_ages(void **state)
{
    struct fixture *f = *state;
    struct rv_turn a = {.tenant = A, .n_left = 9, .served_us = 5000}, b = {.tenant = B, .n_left = 9};

    rv_fair_share_charge(&f->share, B, QUANTUM, 1);
    b.served_us = 5000 - 60 * AGE_US + 1;
    assert_int_equal(first_of(f, a, b), 1);
    b.served_us--;
    assert_int_equal(first_of(f, a, b), 2);
    f->list.least = 1; // nobody here had less
    b.served_us = 5000 - AGE_US;
    assert_int_equal(first_of(f, a, b), 2);
}

static void waiting_counts_in_whole_steps_of_age(void **state)
{
    struct fixture *f = *state;
    struct rv_turn a = {.rank = 1, .served_us = 5000, .n_left = 9},
                   b = {.served_us = 5000 - 2 * AGE_US + 1, .n_left = 9};

    assert_int_equal(first_of(f, a, b), 1);
    b.served_us--;
    assert_int_equal(first_of(f, a, b), 2);
    f->list.age_us = 0;
    assert_int_equal(first_of(f, a, b), 1);
}

static void small_differences_between_tenants_do_not_interrupt_a_prompt(void **state)
{
    struct fixture *f = *state;
    struct rv_turn begun = {.tenant = A, .n_left = 10, .served_us = 5000};
    struct rv_turn other = {.tenant = B, .n_left = 100, .served_us = 5000};

    rv_fair_share_charge(&f->share, A, QUANTUM - 1, 1);
    assert_int_equal(first_of(f, begun, other), 1);
    rv_fair_share_charge(&f->share, A, 1, 1);
    assert_int_equal(first_of(f, begun, other), 2);
}

static void the_list_keeps_the_best_in_order(void **state)
{
    struct fixture *f = *state;
    struct rv_turn all[40];
    struct rv_rng rng;

    rv_rng_init(&rng, 2);
    for (int round = 0; round < 500; round++) {
        f->list.n = 0;
        for (uint64_t i = 0; i < 40; i++) {
            all[i] = (struct rv_turn){.ticket = i,
                                      .rank = (int32_t)rv_rng_below(&rng, 3),
                                      .tenant = (int32_t)rv_rng_below(&rng, 2),
                                      .n_left = (int32_t)rv_rng_below(&rng, 5),
                                      .served_us = 5000};
            rv_turn_list_add(&f->list, &all[i]);
            all[i].urgency = all[i].rank;
        }
        assert_int_equal(f->list.n, 4);
        for (int32_t i = 0; i < 4; i++) {
            int32_t n_before = 0;

            for (int k = 0; k < 40; k++)
                n_before += rv_turn_before(&all[k], &f->list.turns[i]);
            assert_int_equal(n_before, i);
        }
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(each_rule_counts_only_where_those_before_it_are_even),
        CASE(who_had_more_ages_slowly_but_ages),
        CASE(waiting_counts_in_whole_steps_of_age),
        CASE(small_differences_between_tenants_do_not_interrupt_a_prompt),
        CASE(the_list_keeps_the_best_in_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
