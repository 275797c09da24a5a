/*
 * The cuts against a plain reference that sorts everything in double precision. A token may differ from the
 * reference only where the walk crosses the target within 1e-5 of the total: float weights carry 2^-22 each.
 */
#include "base/rng.h"
#include "sample/truncate.h"
#include "sample/weight.h"
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_N 1200
#define TOLERANCE 1e-5

static float logits[MAX_N], weights[MAX_N];
static struct rv_candidate items[MAX_N];
static struct rv_candidates set = {.items = items, .cap = MAX_N};

/* The reference's view of a row: finite tokens with exact probabilities, ordered by the cut's own score. */
struct entry {
    int token;
    double score, p;
};
static struct entry entries[MAX_N];
static size_t n_entries;
static bool expected[MAX_N], borderline[MAX_N];

static int by_score(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;

    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return x->token - y->token;
}

enum shape { FLAT, PEAKED, NORMAL, TIES, HOLES, WIDE, ONE, N_SHAPES };

/* Rows of every kind a model, or a broken one, can give. Returns the row's length. */
static size_t make_row(struct rv_rng *rng, enum shape shape)
{
    size_t n = shape == ONE ? 1 : 1 + (size_t)rv_rng_below(rng, MAX_N);

    for (size_t i = 0; i < n; i++) {
        double x = rv_rng_normal(rng);

        switch (shape) {
        case FLAT:
            x *= 1e-4;
            break;
        case PEAKED:
            x += rv_rng_below(rng, 100) == 0 ? 20 : 0;
            break;
        case TIES:
            x = (double)rv_rng_below(rng, 5);
            break;
        case WIDE:
            x *= 300;
            break;
        default:
            x *= 3;
        }
        logits[i] = (float)x;
        if (shape == HOLES && i > 0) {
            static const float holes[] = {NAN, -INFINITY, INFINITY, -NAN};

            if (rv_rng_below(rng, 3) == 0)
                logits[i] = holes[rv_rng_below(rng, 4)];
        }
    }
    return n;
}

static void read_row(size_t n, double temperature)
{
    double max = -INFINITY, sum = 0;

    n_entries = 0;
    for (size_t i = 0; i < n; i++) {
        if (isfinite(logits[i]) && (double)logits[i] > max)
            max = (double)logits[i];
    }
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(logits[i]))
            continue;
        entries[n_entries++] = (struct entry){
            .token = (int)i, .score = (double)logits[i], .p = exp(((double)logits[i] - max) / temperature)};
        sum += entries[n_entries - 1].p;
    }
    for (size_t i = 0; i < n_entries; i++)
        entries[i].p /= sum;
}

/* Sorts by score, walks until the mass reaches the target and marks what a rounding may decide. */
static void reference_walk(double target, bool strictly)
{
    double mass = 0;
    bool ended = false;

    qsort(entries, n_entries, sizeof(entries[0]), by_score);
    memset(expected, 0, sizeof(expected));
    memset(borderline, 0, sizeof(borderline));
    for (size_t i = 0; i < n_entries; i++) {
        double before = mass;

        expected[entries[i].token] = !ended;
        mass += entries[i].p;
        borderline[entries[i].token] = fabs(before - target) < TOLERANCE;
        ended = ended || (strictly ? mass > target : mass >= target);
    }
}

static size_t assert_set_is_expected(size_t n)
{
    bool kept[MAX_N] = {false};
    size_t n_borderline = 0;

    for (size_t i = 0; i < set.n; i++) {
        if (i > 0)
            assert_true(items[i].token > items[i - 1].token);
        assert_in_range(items[i].token, 0, n - 1);
        kept[items[i].token] = true;
    }
    for (size_t i = 0; i < n; i++) {
        if (kept[i] == expected[i])
            continue;
        if (!borderline[i] && weights[i] > 0.0f)
            fail_msg("token %zu of %zu: %s by us, not by the reference (logit %g)", i, n, kept[i] ? "kept" : "dropped",
                     (double)logits[i]);
        n_borderline++;
    }
    return n_borderline;
}

static double weigh(size_t n, float temperature, float *max, float *scale)
{
    *max = rv_weight_max(logits, n);
    *scale = rv_weight_scale(temperature);
    return rv_weight_fill(weights, logits, n, *max, *scale);
}

static void top_k_keeps_exactly_the_best_by_logit_then_id(void **state)
{
    struct rv_rng rng;

    (void)state;
    rv_rng_init(&rng, 1);
    for (int round = 0; round < 3000; round++) {
        size_t n = make_row(&rng, (enum shape)(round % N_SHAPES));
        size_t k = 1 + (size_t)rv_rng_below(&rng, n);

        for (size_t i = 0; i < n; i++)
            weights[i] = 1.0f;
        read_row(n, 1.0);
        for (size_t i = 0; i < n_entries; i++)
            entries[i].p = 1;
        reference_walk((double)k, false);
        memset(borderline, 0, sizeof(borderline));
        set.cap = k + 1 + (size_t)rv_rng_below(&rng, MAX_N - k); // from many refills to none
        set.cap = set.cap > MAX_N ? MAX_N : set.cap;
        rv_truncate_top_k(&set, logits, n, k);
        set.cap = MAX_N;
        assert_int_equal(assert_set_is_expected(n), 0);
        assert_int_equal(set.n, k < n_entries ? k : n_entries);
    }
}

static void top_k_stays_right_when_every_logit_beats_the_last(void **state)
{
    (void)state;
    for (size_t i = 0; i < MAX_N; i++)
        logits[i] = (float)i;
    set.cap = 80;
    rv_truncate_top_k(&set, logits, MAX_N, 40);
    set.cap = MAX_N;
    assert_int_equal(set.n, 40);
    for (size_t i = 0; i < 40; i++)
        assert_int_equal(items[i].token, MAX_N - 40 + i);
}

static void top_p_keeps_what_the_sorting_reference_keeps(void **state)
{
    size_t n_borderline = 0, n_tokens = 0;
    struct rv_rng rng;

    (void)state;
    rv_rng_init(&rng, 2);
    for (int round = 0; round < 3000; round++) {
        size_t n = make_row(&rng, (enum shape)(round % N_SHAPES));
        float p = round % 10 == 0 ? 0.0f : (float)rv_rng_uniform(&rng);
        float temperature = (float)(0.1 + 2 * rv_rng_uniform(&rng));
        float max, scale;
        double total = weigh(n, temperature, &max, &scale);
        float floor = round % 2 ? rv_truncate_top_p_floor(p, total, n) : 0.0f;

        read_row(n, (double)temperature);
        reference_walk((double)p, false);
        rv_truncate_gather(&set, logits, weights, n, floor);
        rv_truncate_top_p(&set, p, total);
        assert_true(set.n >= 1);
        n_borderline += assert_set_is_expected(n);
        n_tokens += n;
    }
    assert_true(n_borderline * 1000 < n_tokens); // flat rows have steps near the tolerance; still rare
}

/* Scores mirror at the entropy, so unequal tokens can score alike to the last bits: rounding may decide between them.
 */
static void mark_scores_near_the_end(void)
{
    double end = 0;

    for (size_t i = 0; i < n_entries; i++)
        end = expected[entries[i].token] ? entries[i].score : end; // in falling order: the last kept one's
    for (size_t i = 0; i < n_entries; i++)
        borderline[entries[i].token] |= fabs(entries[i].score - end) < 1e-4;
}

static void typical_keeps_what_the_sorting_reference_keeps(void **state)
{
    size_t n_borderline = 0, n_tokens = 0;
    struct rv_rng rng;

    (void)state;
    rv_rng_init(&rng, 3);
    for (int round = 0; round < 3000; round++) {
        size_t n = make_row(&rng, (enum shape)(round % N_SHAPES));
        float p = (float)rv_rng_uniform(&rng);
        double entropy = 0;
        float max, scale;

        weigh(n, 0.7f, &max, &scale);
        read_row(n, (double)0.7f);
        for (size_t i = 0; i < n_entries; i++)
            entropy -= entries[i].p > 0 ? entries[i].p * log(entries[i].p) : 0;
        for (size_t i = 0; i < n_entries; i++)
            entries[i].score = entries[i].p > 0 ? -fabs(-log(entries[i].p) - entropy) : -1e9;
        reference_walk((double)p, true);
        mark_scores_near_the_end();
        rv_truncate_gather(&set, logits, weights, n, 0.0f);
        rv_truncate_typical(&set, p, max, scale);
        assert_true(set.n >= 1);
        n_borderline += assert_set_is_expected(n);
        n_tokens += n;
    }
    assert_true(n_borderline * 1000 < n_tokens);
}

static void min_p_keeps_what_is_likely_enough_beside_the_best(void **state)
{
    struct rv_rng rng;

    (void)state;
    rv_rng_init(&rng, 4);
    for (int round = 0; round < 3000; round++) {
        size_t n = make_row(&rng, (enum shape)(round % N_SHAPES));
        float p = round % 10 == 0 ? 1.0f : (float)rv_rng_uniform(&rng);
        float max, scale;
        double best = 0;

        weigh(n, 0.8f, &max, &scale);
        read_row(n, (double)0.8f);
        for (size_t i = 0; i < n_entries; i++)
            best = entries[i].p > best ? entries[i].p : best;
        memset(expected, 0, sizeof(expected));
        memset(borderline, 0, sizeof(borderline));
        for (size_t i = 0; i < n_entries; i++) {
            double ratio = entries[i].p / best;

            expected[entries[i].token] = ratio >= (double)p;
            borderline[entries[i].token] = fabs(ratio - (double)p) < TOLERANCE;
        }
        rv_truncate_gather(&set, logits, weights, n, 0.0f);
        rv_truncate_min_p(&set, p);
        assert_true(set.n >= 1);
        assert_set_is_expected(n);
    }
}

static void equal_logits_are_kept_by_lower_id(void **state)
{
    float max, scale;
    double total;

    (void)state;
    for (size_t i = 0; i < 100; i++)
        logits[i] = i % 2 ? 0.0f : -0.0f; // equal, whatever the sign of zero
    total = weigh(100, 1.0f, &max, &scale);
    rv_truncate_gather(&set, logits, weights, 100, 0.0f);
    rv_truncate_top_p(&set, 0.25f, total);
    assert_int_equal(set.n, 25);
    assert_int_equal(items[24].token, 24);
    rv_truncate_top_k(&set, logits, 100, 7);
    assert_int_equal(set.n, 7);
    assert_int_equal(items[6].token, 6);
}

static void the_ends_of_each_range_keep_one_or_all(void **state)
{
    float max, scale;
    double total;

    (void)state;
    for (size_t i = 0; i < 50; i++)
        logits[i] = (float)i * 0.1f;
    total = weigh(50, 1.0f, &max, &scale);
    rv_truncate_gather(&set, logits, weights, 50, 0.0f);
    rv_truncate_top_p(&set, 1.0f, total * 1.0000001); // a total rounding may never reach
    assert_int_equal(set.n, 50);
    rv_truncate_top_p(&set, 0.0f, total);
    assert_int_equal(set.n, 1);
    assert_int_equal(items[0].token, 49);
    rv_truncate_gather(&set, logits, weights, 50, 0.0f);
    rv_truncate_typical(&set, 0.0f, max, scale);
    assert_int_equal(set.n, 1);
    rv_truncate_gather(&set, logits, weights, 50, 0.0f);
    rv_truncate_min_p(&set, 1.0f);
    assert_int_equal(set.n, 1);
    assert_int_equal(items[0].token, 49);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(top_k_keeps_exactly_the_best_by_logit_then_id),
        cmocka_unit_test(top_k_stays_right_when_every_logit_beats_the_last),
        cmocka_unit_test(top_p_keeps_what_the_sorting_reference_keeps),
        cmocka_unit_test(typical_keeps_what_the_sorting_reference_keeps),
        cmocka_unit_test(min_p_keeps_what_is_likely_enough_beside_the_best),
        cmocka_unit_test(equal_logits_are_kept_by_lower_id),
        cmocka_unit_test(the_ends_of_each_range_keep_one_or_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
