/*
 * Row 13: one stream decodes, by an engine that captures what learning needs and by one that does not, in turn. The
 * figure is the median over rounds of how much longer an answer takes. EXTRA as in row 12.
 */
#include "learn_common.h"
#include "learn_host.h"

enum { PROMPT = 8, MAX_ROUNDS = 11 };

static const char TENANT[] = "row13";

/* *id is of the answer. */
static double decode_us(struct host *host, uint64_t seed, int32_t n, uint64_t *id)
{
    struct host_ask ask = {
        .tenant = TENANT, .seed = seed, .n_prompt = PROMPT, .n_answer = n, .temperature = 1, .n_logprobs = -1};
    struct ruvllm_response *r = host_ask(host, &ask, id);
    double us = (double)r->decode_us;

    ruvllm_response_free(r);
    return us;
}

void learn_row13(struct learn_args *args)
{
    struct host_config config = {
        .path = args->path, .store = args->extra, .context = 256, .n_threads = args->is_short ? 1 : 2};
    int n_rounds = args->is_short ? 9 : MAX_ROUNDS;
    double slower[MAX_ROUNDS], off[MAX_ROUNDS], best[2] = {1e30, 1e30};
    const int32_t n = 64;
    struct host hosts[2];
    uint64_t ids[2];
    bool is_large;

    host_open(&hosts[0], &config);
    config.learns = true;
    host_open(&hosts[1], &config);
    for (int i = -1; i < n_rounds; i++) { // the first one warms up; who goes first changes
        double us[2];

        for (int turn = 0; turn < 2; turn++) {
            int side = (i + 1 + turn) % 2;

            us[side] = decode_us(&hosts[side], args->seed * 100 + (uint64_t)(i + 1), n, &ids[side]);
            best[side] = us[side] < best[side] ? us[side] : best[side];
        }
        if (i >= 0) {
            slower[i] = us[1] / us[0] - 1;
            off[i] = us[0] / (n - 1);
        }
    }
    /* The table names TinyLlama and the 0.5B shape; who computes a token in microseconds pays a larger share. */
    is_large = host_info(&hosts[0]).n_params > 100000000;
    learn_figure_print(args, &(struct learn_figure){.value = learn_sample_quantile(slower, (size_t)n_rounds, 0.5),
                                                    .bound = is_large ? LEARN_AT_MOST : LEARN_FREE,
                                                    .must = 0.01});
    /* Where others compute too, the best of each side says most. */
    learn_figure_print(args, &(struct learn_figure){.what = "best",
                                                    .value = best[1] / best[0] - 1,
                                                    .bound = args->is_short ? LEARN_AT_MOST : LEARN_FREE,
                                                    .short_must = 2});
    learn_figure_print(args, &(struct learn_figure){.what = "captured", // else nothing was paid for
                                                    .value = host_vote(&hosts[1], TENANT, ids[1], 1).kl > 0,
                                                    .bound = LEARN_AT_LEAST,
                                                    .must = 1,
                                                    .short_must = 1});
    for (int i = 0; i < 2; i++)
        learn_figure_print(
            args, &(struct learn_figure){.what = i == 0 ? "p25" : "p75",
                                         .value = learn_sample_quantile(slower, (size_t)n_rounds, 0.25 + 0.5 * i)});
    learn_figure_print(
        args, &(struct learn_figure){.what = "token_us", .value = learn_sample_quantile(off, (size_t)n_rounds, 0.5)});
    host_close(&hosts[0]);
    host_close(&hosts[1]);
}
