/*
 * Row 12: the feedback call on a served answer: microseconds of computing, by length of the answer, and how long the
 * whole call takes with the event on the disk. EXTRA is the file of a store that stays, so that a large model need not
 * write its first texts again.
 */
#include "learn_common.h"
#include "learn_host.h"

#include "base/clock.h"

#include <stdio.h>

enum { PROMPT = 8, MAX_VOTES = 400, CONTEXT = 288 };

static void time_votes(struct learn_args *args, struct host *host, int32_t length, int n_votes)
{
    struct host_ask ask = {
        .seed = args->seed, .n_prompt = PROMPT, .n_answer = length, .temperature = 1, .n_logprobs = -1};
    double compute[MAX_VOTES], ack[MAX_VOTES];
    char tenant[48], name[32];
    int n_moved = 0;
    uint64_t id;

    (void)snprintf(tenant, sizeof(tenant), "row12-%lld", (long long)rv_clock_us()); // nobody's log before
    ask.tenant = tenant;
    ruvllm_response_free(host_ask(host, &ask, &id));
    for (int i = 0; i < n_votes; i++) {
        int64_t start = rv_clock_us();
        struct ruvllm_feedback_result result = host_vote(host, tenant, id, i % 2);

        ack[i] = (double)(rv_clock_us() - start) / 1e3;
        compute[i] = (double)result.compute_us / 1e3;
        n_moved += result.kl > 0;
    }
    (void)snprintf(name, sizeof(name), "t%d.ms_p50", (int)length);
    learn_figure_print(args, &(struct learn_figure){.what = name,
                                                    .value = learn_sample_quantile(compute, (size_t)n_votes, 0.5),
                                                    .bound = LEARN_AT_MOST,
                                                    .must = 0.3,
                                                    .short_must = 50});
    (void)snprintf(name, sizeof(name), "t%d.ms_p99", (int)length);
    learn_figure_print(args, &(struct learn_figure){.what = name,
                                                    .value = learn_sample_quantile(compute, (size_t)n_votes, 0.99),
                                                    .bound = LEARN_AT_MOST,
                                                    .must = 1,
                                                    .short_must = 500});
    (void)snprintf(name, sizeof(name), "t%d.ack_ms_p99", (int)length);
    learn_figure_print(args, &(struct learn_figure){.what = name,
                                                    .value = learn_sample_quantile(ack, (size_t)n_votes, 0.99),
                                                    .bound = LEARN_AT_MOST,
                                                    .must = 5,
                                                    .short_must = 60000});
    (void)snprintf(name, sizeof(name), "t%d.moved", (int)length);
    learn_figure_print(
        args,
        &(struct learn_figure){
            .what = name, .value = (double)n_moved / n_votes, .bound = LEARN_AT_LEAST, .must = 0.9, .short_must = 0.9});
}

void learn_row12(struct learn_args *args)
{
    struct host_config config = {.path = args->path,
                                 .store = args->extra,
                                 .learns = true,
                                 .context = CONTEXT,
                                 .n_threads = args->is_short ? 1 : 2};
    int n_votes = args->is_short ? 101 : MAX_VOTES;
    struct host host;
    int32_t context;

    host_open(&host, &config);
    context = host_info(&host).context;
    time_votes(args, &host, 64, n_votes);
    time_votes(args, &host, context >= PROMPT + 256 ? 256 : context - PROMPT, n_votes);
    host_close(&host);
}
