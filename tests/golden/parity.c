/*
 * Measuring. Both engines compute whole sequences in batches of 512 and answers token by token, with the same number
 * of threads: ggml's kernels depend on both, and it is the engines that are compared here, not the kernels.
 */
#include "golden/parity.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARITY_BATCH = 512 };

/* RUVLLM_TEST_THREADS, for machines that are busy with other things; 2 without it. */
static int32_t n_threads(void)
{
    const char *text = getenv("RUVLLM_TEST_THREADS");
    long n = text ? strtol(text, NULL, 10) : 2;

    return n >= 1 && n <= 64 ? (int32_t)n : 2;
}

/*
 * We leave a file wholly mapped when a new layout would take only a small part of it; libllama lays out anew what it
 * can. Other layouts are other kernels, so it is told to do as we do.
 */
static bool keeps_layout(const ruvllm_model *model)
{
    struct ruvllm_memory_stats stats = {.struct_size = sizeof(stats)};

    assert_ok(ruvllm_memory_stats_get(model, &stats, err));
    return stats.weights_allocated == 0;
}

static void open_both(struct parity *parity, const char *oracle_path, const char *our_path, int32_t n_ctx,
                      const struct oracle_rope *rope, struct ruvllm_model_params params, const char *attention)
{
    struct ruvllm_model_info info = {.struct_size = sizeof(info)};
    struct oracle_params theirs = {.n_ctx = n_ctx, .n_threads = n_threads(), .rope = rope};
    size_t n_floats;

    *parity = (struct parity){.n_ctx = n_ctx};
    params.max_context = n_ctx;
    params.attention = attention;
    params.max_batch = PARITY_BATCH;
    params.n_threads = n_threads();
    assert_ok(ruvllm_model_open(&parity->model, our_path, &params, err));
    assert_ok(ruvllm_model_info_get(parity->model, &info, err));
    theirs.no_repack = keeps_layout(parity->model);
    parity->oracle = oracle_open(oracle_path, &theirs);
    parity->n_vocab = (size_t)oracle_n_vocab(parity->oracle);
    assert_int_equal(info.n_vocab, parity->n_vocab);
    n_floats = (size_t)n_ctx * parity->n_vocab;
    parity->theirs = malloc(n_floats * sizeof(float));
    parity->ours = malloc(n_floats * sizeof(float));
    assert_non_null(parity->theirs);
    assert_non_null(parity->ours);
}

void parity_open(struct parity *parity, const char *oracle_path, const char *our_path, int32_t n_ctx)
{
    open_both(parity, oracle_path, our_path, n_ctx, NULL, ruvllm_model_params_default(), "ggml");
}

void parity_open_own(struct parity *parity, const char *path, int32_t n_ctx)
{
    open_both(parity, path, path, n_ctx, NULL, ruvllm_model_params_default(), "own");
}

void parity_open_rope(struct parity *parity, const char *path, int32_t n_ctx, const struct oracle_rope *theirs,
                      const struct ruvllm_model_params *ours)
{
    open_both(parity, path, path, n_ctx, theirs, *ours, "ggml");
}

void parity_close(struct parity *parity)
{
    free(parity->theirs);
    free(parity->ours);
    oracle_close(parity->oracle);
    ruvllm_model_close(parity->model);
    *parity = (struct parity){0};
}

void parity_forward(struct parity *parity, const int32_t *tokens, size_t n, struct divergence *sum)
{
    assert_true(n <= (size_t)parity->n_ctx);
    oracle_forward(parity->oracle, tokens, n, 0, PARITY_BATCH, parity->theirs);
    assert_ok(ruvllm_forward(parity->model, tokens, n, 0, parity->ours, n * parity->n_vocab, err));
    divergence_add(sum, parity->theirs, parity->ours, parity->n_vocab, n);
}

static int32_t second_best(const float *logits, size_t n_vocab, int32_t best)
{
    size_t second = best == 0 ? 1 : 0;

    for (size_t i = 0; i < n_vocab; i++)
        if ((int32_t)i != best && logits[i] > logits[second])
            second = i;
    return (int32_t)second;
}

struct parity_noise parity_measure_noise(struct parity *parity, const int32_t *tokens, size_t n)
{
    struct parity_noise noise = {0};

    oracle_forward(parity->oracle, tokens, n, 0, PARITY_BATCH, parity->theirs);
    oracle_forward(parity->oracle, tokens, n, 0, 1, parity->ours); // borrowed for a moment
    divergence_add(&noise.self, parity->theirs, parity->ours, parity->n_vocab, n);
    for (size_t row = 0; row < n; row++) {
        const float *a = parity->theirs + row * parity->n_vocab, *b = parity->ours + row * parity->n_vocab;
        int32_t best = divergence_argmax(a, parity->n_vocab), second = second_best(a, parity->n_vocab, best);
        double change = fabs((double)(a[best] - a[second]) - (double)(b[best] - b[second]));

        if (change > noise.gap)
            noise.gap = change;
    }
    return noise;
}

/*
 * The engine keeps the beginning two prompts share. Computing a part of a prompt is another batch shape than the
 * whole, and so other kernels: a sequence that shares nothing makes it begin anew, as libllama does here.
 */
static void forget(struct parity *parity, int32_t first_token)
{
    int32_t other = first_token == 0 ? 1 : 0;

    assert_ok(ruvllm_forward(parity->model, &other, 1, 0, parity->ours, parity->n_vocab, err));
}

void parity_answer(struct parity *parity, const int32_t *prompt, size_t n_prompt, size_t n_max, bool is_fresh,
                   struct parity_answer *answer)
{
    struct ruvllm_generate_params params = ruvllm_generate_params_default();
    struct ruvllm_input input = {.struct_size = sizeof(input), .tokens = prompt, .n_tokens = n_prompt};
    struct ruvllm_response *response = NULL;

    if (is_fresh)
        forget(parity, prompt[0]);
    params.max_tokens = (int32_t)n_max;
    params.temperature = 0;
    params.repetition_penalty = 1;
    params.n_logprobs = 0;
    assert_ok(ruvllm_generate(parity->model, &input, &params, &response, err));
    answer->n = response->n_tokens;
    assert_true(answer->n <= n_max && n_max <= PARITY_ANSWER_MAX);
    for (size_t i = 0; i < answer->n; i++) {
        answer->tokens[i] = response->tokens[i];
        answer->logprobs[i] = response->logprobs[i].logprob;
    }
    answer->ended = response->stop_reason == RUVLLM_STOP_EOS;
    if (!answer->ended && answer->n < n_max)
        fail_msg("the answer stopped after %zu of %zu tokens: %s", answer->n, n_max,
                 ruvllm_stop_reason_name(response->stop_reason));
    ruvllm_response_free(response);
}

/* By how much `chosen` lost in these logits; -1 stands for the end of text, whichever token spells it. */
static double lead_over(const struct parity *parity, const float *logits, int32_t best, int32_t chosen)
{
    double lead = INFINITY;

    if (chosen >= 0)
        return (double)logits[best] - (double)logits[chosen];
    for (size_t i = 0; i < parity->n_vocab; i++)
        if (oracle_is_end(parity->oracle, (int32_t)i) && (double)logits[best] - (double)logits[i] < lead)
            lead = (double)logits[best] - (double)logits[i];
    return lead;
}

static void judge_step(const struct parity *parity, const float *logits, size_t step, int32_t theirs, int32_t ours,
                       double noise, struct parity_greedy *sum)
{
    double lead = lead_over(parity, logits, theirs < 0 ? divergence_argmax(logits, parity->n_vocab) : theirs, ours);
    bool is_noise = lead <= noise;

    sum->n_different += is_noise;
    sum->n_wrong += !is_noise;
    if (lead > sum->worst_gap)
        sum->worst_gap = lead;
    printf("    step %zu: libllama %d, we %d; its lead of %.5f is %s the kernel noise of %.5f\n", step, theirs, ours,
           lead, is_noise ? "within" : "BEYOND", noise);
}

static void note_logprob(const struct parity *parity, const float *logits, int32_t token, float logprob,
                         struct parity_greedy *sum)
{
    double distance = fabs(divergence_logprob(logits, parity->n_vocab, token) - (double)logprob);

    if (!(distance <= sum->worst_logprob))
        sum->worst_logprob = distance;
}

void parity_compare_greedy(struct parity *parity, const int32_t *prompt, size_t n_prompt, size_t n_max, double noise,
                           struct parity_greedy *sum)
{
    int32_t *sequence = calloc(n_prompt + n_max, sizeof(*sequence));
    struct parity_answer ours;
    const float *logits = parity->theirs;
    size_t base = 0; // step at which `ours` begins

    assert_non_null(sequence);
    memcpy(sequence, prompt, n_prompt * sizeof(*prompt));
    parity_answer(parity, prompt, n_prompt, n_max, true, &ours);
    oracle_forward(parity->oracle, prompt, n_prompt, n_prompt - 1, PARITY_BATCH, parity->theirs);
    for (size_t i = 0; i < n_max; i++) {
        int32_t best = divergence_argmax(logits, parity->n_vocab);
        int32_t theirs = oracle_is_end(parity->oracle, best) ? -1 : best;
        int32_t chosen = i - base < ours.n ? ours.tokens[i - base] : -1;

        sum->n_tokens++;
        if (chosen >= 0)
            note_logprob(parity, logits, chosen, ours.logprobs[i - base], sum);
        if (chosen != theirs)
            judge_step(parity, logits, i, theirs, chosen, noise, sum);
        if (theirs < 0)
            break;
        sequence[n_prompt + i] = theirs;
        if (chosen != theirs && i + 1 < n_max) {
            base = i + 1;
            parity_answer(parity, sequence, n_prompt + base, n_max - base, false, &ours);
        }
        if (i + 1 < n_max)
            logits = oracle_decode(parity->oracle, theirs);
    }
    free(sequence);
}
