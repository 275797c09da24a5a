/* Tokens that stand for the rest of a vocabulary: sums come out right on average, with less chance in them than
 * uniform. */
#include "learn/tail_draw.h"
#include "support/test.h"

#include <math.h>

enum { N_VOCAB = 4000, N_LIKELY = 200, N_DRAWS = 400 };

/* Some tokens weigh as much as all the others together. */
static double weight_of(size_t token)
{
    return token % (N_VOCAB / N_LIKELY) == 0 ? 19.0 : 1.0;
}

static double whole_sum(void)
{
    double sum = 0;

    for (size_t i = 0; i < N_VOCAB; i++)
        sum += weight_of(i);
    return sum;
}

/* The mean over draws of what a draw says of the sum, and its standard deviation, both against the sum. */
static void draw_sums(struct rv_tail_draw *draw, double *mean, double *deviation)
{
    double sum = 0, squares = 0;
    struct rv_rng rng;

    rv_rng_init(&rng, 3);
    for (int i = 0; i < N_DRAWS; i++) {
        double one = 0;

        rv_tail_draw(draw, &rng);
        for (size_t k = 0; k < draw->n; k++) {
            assert_in_range(draw->tokens[k], 0, N_VOCAB - 1);
            for (size_t j = 0; j < k; j++)
                assert_int_not_equal(draw->tokens[j], draw->tokens[k]);
            one += weight_of((size_t)draw->tokens[k]) * exp((double)draw->many[k]);
        }
        one /= whole_sum();
        sum += one;
        squares += one * one;
    }
    *mean = sum / N_DRAWS;
    *deviation = sqrt(squares / N_DRAWS - *mean * *mean);
}

static void test_sums(void **state)
{
    double mean, plain, noted;
    struct rv_tail_draw draw;
    int32_t likely[N_LIKELY];

    (void)state;
    assert_ok(rv_tail_draw_init(&draw, N_VOCAB, err));
    draw_sums(&draw, &mean, &plain);
    assert_true(fabs(mean - 1) < 4 * plain / sqrt(N_DRAWS));
    for (int32_t i = 0; i < N_LIKELY; i++)
        likely[i] = i * (N_VOCAB / N_LIKELY);
    assert_ok(rv_tail_draw_note(&draw, likely, N_LIKELY, err));
    draw_sums(&draw, &mean, &noted);
    assert_true(fabs(mean - 1) < 4 * noted / sqrt(N_DRAWS));
    assert_true(noted < 0.3 * plain);
    rv_tail_draw_clear(&draw);
    draw_sums(&draw, &mean, &noted);
    assert_true(noted == plain);
    rv_tail_draw_release(&draw);
}

static void test_whole_vocabulary(void **state)
{
    struct rv_tail_draw draw;
    struct rv_rng rng;

    (void)state;
    rv_rng_init(&rng, 1);
    assert_ok(rv_tail_draw_init(&draw, 100, err));
    assert_ok(rv_tail_draw_note(&draw, (const int32_t[]){-1, 5, 100, 5}, 4, err));
    assert_int_equal(draw.n_noted, 2);
    rv_tail_draw(&draw, &rng);
    assert_int_equal(draw.n, 100);
    for (int32_t i = 0; i < 100; i++) {
        assert_int_equal(draw.tokens[i], i);
        assert_true(draw.many[i] == 0);
    }
    rv_tail_draw_release(&draw);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_whole_vocabulary),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
