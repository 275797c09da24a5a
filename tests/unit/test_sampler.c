/*
 * The sampler as a whole: every draw against a reference that sorts in double precision and walks the same random
 * stream; the shape of many draws; reproducibility; the order of work; log-probabilities.
 */
#include "base/alloc.h"
#include "base/rng.h"
#include "support/sampling.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_N 400

static int n_allocations;

/* The linker sends the library's allocations through these (see tests/CMakeLists.txt). */
void *__real_rv_malloc(size_t bytes);
void *__real_rv_calloc(size_t n, size_t size);
void *__real_rv_realloc_array(void *array, size_t n, size_t size);
void *__wrap_rv_malloc(size_t bytes);
void *__wrap_rv_calloc(size_t n, size_t size);
void *__wrap_rv_realloc_array(void *array, size_t n, size_t size);

void *__wrap_rv_malloc(size_t bytes)
{
    n_allocations++;
    return __real_rv_malloc(bytes);
}

void *__wrap_rv_calloc(size_t n, size_t size)
{
    n_allocations++;
    return __real_rv_calloc(n, size);
}

void *__wrap_rv_realloc_array(void *array, size_t n, size_t size)
{
    n_allocations++;
    return __real_rv_realloc_array(array, n, size);
}

/* ---- the reference --------------------------------------------------------------------------- */

struct entry {
    int token;
    double score, p; // p: share of the candidates still in
    bool in;
};

static int by_score(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;

    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return x->token - y->token;
}

static int by_token(const void *a, const void *b)
{
    return ((const struct entry *)a)->token - ((const struct entry *)b)->token;
}

static void normalise(struct entry *e, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += e[i].in ? e[i].p : 0;
    for (size_t i = 0; i < n; i++)
        e[i].p = e[i].in ? e[i].p / sum : 0;
}

/* Keeps by falling score until the mass is reached; true when rounding might have ended it elsewhere. */
static bool walk(struct entry *e, size_t n, double target, bool strictly, bool count)
{
    bool ended = false, close = false;
    double mass = 0;

    qsort(e, n, sizeof(*e), by_score);
    for (size_t i = 0; i < n; i++) {
        if (!e[i].in)
            continue;
        close = close || (!count && fabs(mass - target) < 1e-5 && e[i].p > 1e-9);
        mass += count ? 1 : e[i].p;
        e[i].in = !ended;
        ended = ended || (strictly ? mass > target : mass >= target);
    }
    normalise(e, n);
    return close;
}

static bool reference_typical(struct entry *e, size_t n, double p)
{
    double entropy = 0, end = 0;
    bool close;

    for (size_t i = 0; i < n; i++)
        entropy -= e[i].in && e[i].p > 0 ? e[i].p * log(e[i].p) : 0;
    for (size_t i = 0; i < n; i++)
        e[i].score = e[i].in && e[i].p > 0 ? -fabs(-log(e[i].p) - entropy) : -1e9;
    close = walk(e, n, p, true, false);
    for (size_t i = 0; i < n; i++)
        end = e[i].in ? e[i].score : end;
    for (size_t i = 0; i < n; i++)
        close = close || (fabs(e[i].score - end) < 1e-4 && fabs(e[i].score - end) > 0);
    return close;
}

static bool reference_min_p(struct entry *e, size_t n, double p)
{
    bool close = false;
    double best = 0;

    for (size_t i = 0; i < n; i++)
        best = e[i].in && e[i].p > best ? e[i].p : best;
    for (size_t i = 0; i < n; i++) {
        close = close || (e[i].in && p > 0 && fabs(e[i].p / best - p) < 1e-5);
        e[i].in = e[i].in && e[i].p >= p * best;
    }
    normalise(e, n);
    return close;
}

/* Bias and penalties, then the softmax at this temperature. */
static void reference_row(struct entry *e, const float *logits, size_t n, const struct ruvllm_generate_params *p,
                          const int *counts)
{
    double max = -INFINITY;

    for (size_t i = 0; i < n; i++) {
        double x = (double)logits[i];

        for (size_t j = 0; j < p->n_logit_bias; j++)
            x += p->logit_bias[j].token == (int32_t)i ? (double)p->logit_bias[j].bias : 0;
        if (counts[i]) {
            x = x > 0 ? x / (double)p->repetition_penalty : x * (double)p->repetition_penalty;
            x -= counts[i] * (double)p->frequency_penalty + (double)p->presence_penalty;
        }
        e[i] = (struct entry){.token = (int)i, .score = isfinite(x) ? x : -1e300, .in = isfinite(x)};
        max = e[i].in && x > max ? x : max;
    }
    for (size_t i = 0; i < n; i++)
        e[i].p = e[i].in ? exp((e[i].score - max) / (double)p->temperature) : 0;
    normalise(e, n);
}

/* The token for a uniform number u; true when another one would also be right within rounding. */
static bool reference_choose(struct entry *e, size_t n, const struct ruvllm_generate_params *p, double u, int *token)
{
    double mass = 0;
    bool close = false;

    if (p->top_k > 0)
        close |= walk(e, n, p->top_k, false, true);
    if (p->typical_p < 1.0f)
        close |= reference_typical(e, n, (double)p->typical_p);
    for (size_t i = 0; i < n; i++)
        e[i].score = e[i].p;
    if (p->top_p < 1.0f)
        close |= walk(e, n, (double)p->top_p, false, false);
    if (p->min_p > 0.0f)
        close |= reference_min_p(e, n, (double)p->min_p);
    qsort(e, n, sizeof(*e), by_token);
    *token = -1;
    for (size_t i = 0; i < n; i++) {
        mass += e[i].in ? e[i].p : 0;
        close = close || (e[i].in && fabs(mass - u) < 1e-5);
        if (*token < 0 && e[i].in && mass > u)
            *token = e[i].token;
    }
    return close;
}

/* ---- draws ----------------------------------------------------------------------------------- */

static void random_params(struct rv_rng *rng, struct ruvllm_generate_params *p)
{
    *p = sampling_params_off();
    p->seed = rv_rng_next(rng);
    p->temperature = (float)(0.2 + 2 * rv_rng_uniform(rng));
    p->top_k = rv_rng_below(rng, 2) ? (int32_t)rv_rng_below(rng, MAX_N) : 0;
    p->top_p = rv_rng_below(rng, 2) ? (float)rv_rng_uniform(rng) : 1.0f;
    p->min_p = rv_rng_below(rng, 3) == 0 ? (float)(0.3 * rv_rng_uniform(rng)) : 0.0f;
    p->typical_p = rv_rng_below(rng, 3) == 0 ? (float)rv_rng_uniform(rng) : 1.0f;
    p->repetition_penalty = (float)(0.8 + rv_rng_uniform(rng));
    p->frequency_penalty = (float)(2 * rv_rng_uniform(rng) - 1);
    p->presence_penalty = (float)(2 * rv_rng_uniform(rng) - 1);
    p->penalty_window = -1;
}

static void random_row(struct rv_rng *rng, float *logits, size_t n, int kind)
{
    for (size_t i = 0; i < n; i++) {
        logits[i] = (float)((kind == 0 ? 0.01 : kind == 1 ? 8.0 : kind == 5 ? 1.0 : 2.5) * rv_rng_normal(rng));
        if (kind == 3 && i > 0 && rv_rng_below(rng, 4) == 0)
            logits[i] = rv_rng_below(rng, 2) ? -INFINITY : NAN;
        if (kind == 4)
            logits[i] = (float)rv_rng_below(rng, 6);
    }
}

static void every_draw_is_the_reference_s(void **state)
{
    int n_close = 0, n_rounds = 8000;
    static struct entry entries[MAX_N];
    struct rv_rng rng;

    (void)state;
    rv_rng_init(&rng, 7);
    for (int round = 0; round < n_rounds; round++) {
        size_t n = 1 + (size_t)rv_rng_below(&rng, MAX_N);
        struct ruvllm_logit_bias bias[3];
        struct ruvllm_generate_params p;
        int counts[MAX_N] = {0};
        float logits[MAX_N];
        struct rv_sampler *s;
        struct rv_rng twin;
        int expected;
        int32_t token;
        bool close;

        random_params(&rng, &p);
        random_row(&rng, logits, n, round % 5);
        for (int i = 0; i < 3; i++)
            bias[i] = (struct ruvllm_logit_bias){.token = (int32_t)rv_rng_below(&rng, n),
                                                 .bias = i == 0 && n > 3 ? -INFINITY : (float)rv_rng_normal(&rng)};
        p.logit_bias = bias;
        p.n_logit_bias = n >= 3 ? 3 : 0;
        if (n >= 3)
            logits[(bias[0].token + 1) % (int32_t)n] = 1.0f; // one finite logit is never banned
        s = sampling_new(&p, n);
        for (int i = 0; i < 30; i++) {
            int32_t seen = (int32_t)rv_rng_below(&rng, n);

            counts[seen]++;
            rv_sampler_accept(s, seen);
        }
        rv_rng_init(&twin, p.seed);
        reference_row(entries, logits, n, &p, counts);
        close = reference_choose(entries, n, &p, rv_rng_uniform(&twin), &expected);
        token = sampling_choose(s, logits, n);
        if (close)
            n_close++;
        else if (token != expected)
            fail_msg("round %d: token %d, the reference says %d", round, (int)token, expected);
        rv_sampler_free(s);
    }
    assert_true(n_close < n_rounds / 20); // the comparison must not be hollow
}

/* Upper bound of chi-square at one in a million, by Wilson and Hilferty's cube. */
static double chi_square_bound(int freedom)
{
    double a = 2.0 / (9.0 * freedom);

    return freedom * pow(1 - a + 4.753 * sqrt(a), 3);
}

static void draws_follow_the_truncated_distribution(void **state)
{
    enum { N = 60, DRAWS = 60000 };
    static struct entry entries[N];
    float logits[N];
    struct rv_rng rng;

    (void)state;
    rv_rng_init(&rng, 8);
    for (int setting = 0; setting < 6; setting++) {
        struct ruvllm_generate_params p = sampling_params_off();
        int counts[N] = {0}, drawn[N] = {0}, freedom = -1, token;
        struct rv_sampler *s;
        double chi = 0;

        p.temperature = setting == 0 ? 1.0f : 0.8f;
        p.top_k = setting == 1 || setting == 5 ? 20 : 0;
        p.top_p = setting == 2 || setting == 5 ? 0.9f : 1.0f;
        p.min_p = setting == 3 ? 0.05f : 0.0f;
        p.typical_p = setting == 4 ? 0.8f : 1.0f;
        random_row(&rng, logits, N, 5);
        reference_row(entries, logits, N, &p, counts);
        reference_choose(entries, N, &p, 0.5, &token);
        s = sampling_new(&p, N);
        for (int i = 0; i < DRAWS; i++)
            drawn[sampling_choose(s, logits, N)]++;
        for (int i = 0; i < N; i++) {
            double expected = entries[i].in ? entries[i].p * DRAWS : 0;

            if (!entries[i].in)
                assert_int_equal(drawn[i], 0);
            if (expected < 5) // the statistic wants a few in each cell
                continue;
            chi += (drawn[i] - expected) * (drawn[i] - expected) / expected;
            freedom++;
        }
        assert_true(freedom > 3);
        assert_true(chi < chi_square_bound(freedom));
        rv_sampler_free(s);
    }
}

static void a_seed_repeats_the_tokens_and_another_does_not(void **state)
{
    static const int32_t known[] = {19, 76, 136, 187, 199, 155, 144, 169};
    int32_t first[200], n_equal = 0;
    struct ruvllm_generate_params p = sampling_params_off();
    float logits[200];

    (void)state;
    /* No libm in the making: the known tokens must hold on every machine. */
    for (int i = 0; i < 200; i++)
        logits[i] = (float)((i * 37) % 101) * 0.03125f;
    for (int run = 0; run < 3; run++) {
        struct rv_sampler *s;

        p.seed = run == 2 ? 43 : 42;
        p.top_p = 0.9f;
        s = sampling_new(&p, 200);
        assert_int_equal(rv_sampler_seed(s), p.seed);
        for (int i = 0; i < 200; i++) {
            int32_t token = sampling_choose(s, logits, 200);

            if (run == 0)
                first[i] = token;
            else if (run == 1)
                assert_int_equal(token, first[i]);
            else
                n_equal += token == first[i];
        }
        rv_sampler_free(s);
    }
    assert_true(n_equal < 40);
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        assert_int_equal(first[i], known[i]);
}

static void without_a_seed_one_is_drawn_and_told(void **state)
{
    struct ruvllm_generate_params p = sampling_params_off();
    struct rv_sampler *a, *b;

    (void)state;
    p.has_seed = false;
    a = sampling_new(&p, 10);
    b = sampling_new(&p, 10);
    assert_true(rv_sampler_seed(a) != rv_sampler_seed(b));
    rv_sampler_free(a);
    rv_sampler_free(b);
}

static void greedy_takes_the_best_and_the_lower_of_equals(void **state)
{
    const float logits[] = {NAN, 1.0f, INFINITY, 3.0f, -INFINITY, 3.0f, 2.0f};
    const float zeros[] = {-1.0f, -0.0f, 0.0f};
    struct ruvllm_generate_params p = sampling_params_off();
    struct rv_sampler *s;

    (void)state;
    p.temperature = 0.0f;
    s = sampling_new(&p, 7);
    assert_int_equal(sampling_choose(s, logits, 7), 3);
    rv_sampler_free(s);
    s = sampling_new(&p, 3);
    assert_int_equal(sampling_choose(s, zeros, 3), 1);
    rv_sampler_free(s);
    p.temperature = 1e-45f; // the smallest one there is: greedy in all but name
    s = sampling_new(&p, 7);
    assert_int_equal(sampling_choose(s, logits, 7) == 3 || sampling_choose(s, logits, 7) == 5, 1);
    rv_sampler_free(s);
}

/* ---- the order of work ----------------------------------------------------------------------- */

static void bias_comes_before_penalties(void **state)
{
    /* Biased to +4 first, the repetition penalty halves it: 2 loses to 3. Penalised first (-1 to -2), +5 would win. */
    const struct ruvllm_logit_bias bias = {.token = 0, .bias = 5.0f};
    const float logits[] = {-1.0f, 2.5f};
    struct ruvllm_generate_params p = sampling_params_off();
    struct rv_sampler *s;

    (void)state;
    p.temperature = 0.0f;
    p.repetition_penalty = 2.0f;
    p.logit_bias = &bias;
    p.n_logit_bias = 1;
    s = sampling_new(&p, 2);
    rv_sampler_accept(s, 0);
    assert_int_equal(sampling_choose(s, logits, 2), 1);
    rv_sampler_free(s);
}

static void temperature_comes_before_top_p(void **state)
{
    const float logits[] = {4.0f, 2.0f, 0.0f}; // at 1: 0.87, 0.12; at 4: 0.51, 0.31, 0.19
    struct ruvllm_generate_params p = sampling_params_off();
    int drawn[3];

    (void)state;
    p.top_p = 0.85f;
    sampling_count(&p, logits, 3, -1, drawn);
    assert_int_equal(drawn[1] + drawn[2], 0);
    p.temperature = 4.0f;
    sampling_count(&p, logits, 3, -1, drawn);
    assert_true(drawn[1] > 0 && drawn[2] > 0);
}

static void top_k_comes_before_top_p(void **state)
{
    /* Shares 0.4, 0.3, 0.3. After top-k 2 they are 0.57 and 0.43, so 0.55 is reached by the first alone. */
    const float logits[] = {0.28768207f, 0.0f, 0.0f};
    struct ruvllm_generate_params p = sampling_params_off();
    int drawn[3];

    (void)state;
    p.top_p = 0.55f;
    sampling_count(&p, logits, 3, -1, drawn);
    assert_true(drawn[1] > 0);
    p.top_k = 2;
    sampling_count(&p, logits, 3, -1, drawn);
    assert_int_equal(drawn[0], 3000);
}

static void typical_comes_before_top_p_and_min_p_judges_what_is_left(void **state)
{
    /* One likely token among many alike: typical drops it, and min-p then measures against the others. */
    struct ruvllm_generate_params p = sampling_params_off();
    float logits[101];
    int drawn[101], n_distinct = 0;

    (void)state;
    for (int i = 0; i < 101; i++)
        logits[i] = i == 0 ? 3.0f : 0.001f * (float)i;
    p.typical_p = 0.5f;
    p.min_p = 0.9f;
    sampling_count(&p, logits, 101, -1, drawn);
    for (int i = 1; i < 101; i++)
        n_distinct += drawn[i] > 0;
    assert_int_equal(drawn[0], 0);
    assert_true(n_distinct > 30);
}

static void penalties_reach_the_draw(void **state)
{
    const float logits[] = {2.0f, 2.0f};
    struct ruvllm_generate_params p = sampling_params_off();
    int drawn[2];

    (void)state;
    p.presence_penalty = 2.0f;
    p.frequency_penalty = 2.0f;
    sampling_count(&p, logits, 2, 0, drawn);
    assert_in_range(drawn[0], 10, 110); // 1.8 % of 3000 is 54
    p.penalty_window = 0;
    sampling_count(&p, logits, 2, 0, drawn);
    assert_in_range(drawn[0], 1300, 1700);
}

static void choosing_allocates_nothing(void **state)
{
    static float logits[151936];
    struct rv_rng rng;

    (void)state;
    rv_rng_init(&rng, 10);
    for (size_t i = 0; i < 151936; i++)
        logits[i] = (float)(2.5 * rv_rng_normal(&rng));
    for (int setting = 0; setting < 4; setting++) {
        struct ruvllm_generate_params p = sampling_params_off();
        struct rv_sampler *s;

        p.temperature = setting == 0 ? 0.0f : 0.7f;
        p.top_k = setting == 1 ? 40 : 0;
        p.top_p = 0.9f;
        p.typical_p = setting == 2 ? 0.9f : 1.0f;
        p.repetition_penalty = 1.1f;
        p.penalty_window = setting == 3 ? -1 : 64;
        s = sampling_new(&p, 151936);
        n_allocations = 0;
        for (int i = 0; i < 20; i++)
            rv_sampler_accept(s, sampling_choose(s, logits, 151936));
        assert_int_equal(n_allocations, 0);
        rv_sampler_free(s);
    }
    free(rv_malloc(1));
    assert_int_equal(n_allocations, 1); // the counter does count
}

/* ---- log-probabilities ----------------------------------------------------------------------- */

static void top_logprobs_equal_the_sorting_reference(void **state)
{
    static struct entry entries[MAX_N];
    struct rv_rng rng;

    (void)state;
    rv_rng_init(&rng, 11);
    for (int round = 0; round < 3000; round++) {
        size_t n = 1 + (size_t)rv_rng_below(&rng, MAX_N), n_top = (size_t)rv_rng_below(&rng, 21), n_finite = 0;
        struct ruvllm_token_logprob top[21];
        float logits[MAX_N];
        double max = -INFINITY, sum = 0, lse;

        random_row(&rng, logits, n, round % 5);
        for (size_t i = 0; i < n; i++) {
            if (!isfinite(logits[i]))
                continue;
            entries[n_finite++] = (struct entry){.token = (int)i, .score = (double)logits[i]};
            max = (double)logits[i] > max ? (double)logits[i] : max;
        }
        for (size_t i = 0; i < n_finite; i++)
            sum += exp(entries[i].score - max);
        qsort(entries, n_finite, sizeof(entries[0]), by_score);
        top[n_top] = (struct ruvllm_token_logprob){.token = -77};
        rv_sampler_top_logprobs(logits, n, n_top, top, round % 2 ? &lse : NULL);
        assert_int_equal(top[n_top].token, -77);
        for (size_t i = 0; i < n_top; i++) {
            assert_int_equal(top[i].token, i < n_finite ? entries[i].token : -1);
            if (i < n_finite)
                assert_true(fabs((double)top[i].logprob - (entries[i].score - max - log(sum))) < 1e-5);
            else
                assert_true(top[i].logprob == -INFINITY);
        }
        if (round % 2)
            assert_true(fabs(lse - max - log(sum)) < 1e-6);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_draw_is_the_reference_s),
        cmocka_unit_test(draws_follow_the_truncated_distribution),
        cmocka_unit_test(a_seed_repeats_the_tokens_and_another_does_not),
        cmocka_unit_test(without_a_seed_one_is_drawn_and_told),
        cmocka_unit_test(greedy_takes_the_best_and_the_lower_of_equals),
        cmocka_unit_test(bias_comes_before_penalties),
        cmocka_unit_test(temperature_comes_before_top_p),
        cmocka_unit_test(top_k_comes_before_top_p),
        cmocka_unit_test(typical_comes_before_top_p_and_min_p_judges_what_is_left),
        cmocka_unit_test(penalties_reach_the_draw),
        cmocka_unit_test(choosing_allocates_nothing),
        cmocka_unit_test(top_logprobs_equal_the_sorting_reference),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
