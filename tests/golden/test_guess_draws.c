/*
 * Guessing ahead changes no distribution: 10,000 answers drawn at temperature 1 with guesses from the text, 10,000 with
 * those of a draft model and 10,000 without any, with dice of their own each; the tokens that came last are compared by
 * chi-square. Every guess that is found is computed (guess_all.c).
 */
#include "support/serving_bed.h"

#include <math.h>

enum { N_DRAWS = TEST_SANITIZED(200, 10000) };

/* Tokens of the model, and of an answer; how many are drawn at once. */
enum { N_BINS = 512, N_ANSWER = 5, CROWD = 50 };
enum kind { WITHOUT, FROM_TEXT, DRAFTED, N_KINDS };

static const char model[] = "models/stories260K.gguf";

/* How often each token comes last. */
static void draw(enum kind kind, double *counts)
{
    struct ruvllm_engine_params wishes = ruvllm_engine_params_default();
    struct ruvllm_generate_params params = bed_greedy(N_ANSWER);
    const char *text = "Lily went to the park. Lily went to the";
    ruvllm_engine *engine;
    struct ruvllm_engine_stats stats;
    uint64_t ids[CROWD];

    wishes.speculate = kind == FROM_TEXT;
    wishes.draft_model = kind == DRAFTED ? test_data(model) : NULL;
    engine = bed_open(model, &wishes);
    params.temperature = 1;
    params.n_logprobs = -1;
    params.ignore_eos = true;
    params.has_seed = true;
    for (uint64_t i = 0; i < N_DRAWS; i += CROWD) {
        for (uint64_t k = 0; k < CROWD; k++) {
            params.seed = N_KINDS * (i + k) + kind;
            ids[k] = bed_submit(engine, text, NULL, &params);
        }
        for (int k = 0; k < CROWD; k++) {
            struct ruvllm_response *answer = bed_drain(engine, ids[k]);

            assert_int_equal(answer->n_tokens, N_ANSWER);
            counts[answer->tokens[N_ANSWER - 1]]++;
            ruvllm_response_free(answer);
        }
    }
    bed_wait_until_idle(engine);
    stats = bed_stats(engine);
    print_message("%d guesses, %d right\n", (int)stats.drafted_tokens, (int)stats.accepted_tokens);
    if (kind != WITHOUT) {
        assert_true(stats.drafted_tokens > N_DRAWS / 2);
        assert_true(stats.accepted_tokens > N_DRAWS / 50);
        assert_true(stats.drafted_tokens - stats.accepted_tokens > N_DRAWS / 50);
    } else {
        assert_int_equal(stats.drafted_tokens, 0);
    }
    ruvllm_engine_close(engine);
}

/* By how many deviations chi-square is above what two samples of one distribution have in the mean. */
static double excess(const double *one, const double *other)
{
    double chi = 0, rare[2] = {0};
    int n = 0;

    for (int i = 0; i < N_BINS; i++) {
        if (one[i] + other[i] < 20) {
            rare[0] += one[i];
            rare[1] += other[i];
            continue;
        }
        chi += (one[i] - other[i]) * (one[i] - other[i]) / (one[i] + other[i]);
        n++;
    }
    if (rare[0] + rare[1] > 0) {
        chi += (rare[0] - rare[1]) * (rare[0] - rare[1]) / (rare[0] + rare[1]);
        n++;
    }
    assert_true(n > (N_DRAWS < 10000 ? 1 : 5)); // few draws have few kinds that are not rare
    print_message("chi-square %.1f over %d kinds of tokens, %d draws each\n", chi, n, N_DRAWS);
    return (chi - (n - 1)) / sqrt(2.0 * (n - 1)); // mean n - 1, variance 2 (n - 1)
}

/* As if one wrong guess in so many were kept: they all become the token that comes most often. */
static void keep_wrong_ones(double *counts, double each)
{
    int most = 0;

    for (int i = 0; i < N_BINS; i++)
        most = counts[i] > counts[most] ? i : most;
    for (int i = 0; i < N_BINS; i++) {
        double n = i == most ? 0 : floor(counts[i] / each);

        counts[i] -= n;
        counts[most] += n;
    }
}

static void drawn_tokens_are_distributed_alike(void **state)
{
    static double counts[N_KINDS][N_BINS];

    (void)state;
    for (enum kind kind = WITHOUT; kind < N_KINDS; kind++)
        draw(kind, counts[kind]);
    /* Four deviations above are one in thirty thousand. */
    assert_true(excess(counts[FROM_TEXT], counts[WITHOUT]) < 4);
    assert_true(excess(counts[DRAFTED], counts[WITHOUT]) < 4);
    /* A few that are not as drawn would be seen. */
    keep_wrong_ones(counts[DRAFTED], 10);
    assert_true(N_DRAWS < 10000 || excess(counts[DRAFTED], counts[WITHOUT]) > 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(drawn_tokens_are_distributed_alike)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
