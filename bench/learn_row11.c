/*
 * Row 11: back to each of the last 32 generations that votes made and that are kept, through the engine and its store:
 * how long the call takes with its commit, and that the answer, with what it is drawn from, has its bits again.
 */
#include "learn_common.h"
#include "learn_host.h"

#include "base/clock.h"

enum { N_VOTES = 40, N_KEPT = RV_TENANT_LEARNER_SNAPSHOTS, SPARE = 3, ANSWER = 16 };

static const struct host_ask greedy = {
    .tenant = "anna", .seed = 5, .n_prompt = 8, .n_answer = ANSWER, .n_logprobs = 20};

/* A generation by its adapter and by the answer it gives. */
struct generation {
    int64_t number;
    uint64_t hash;
    struct ruvllm_response *answer;
};

/* Both of one generation: a tick of the background loop may come between. */
static struct generation look(struct host *host)
{
    struct generation g;

    for (;;) {
        g.answer = host_ask(host, &greedy, NULL);
        g.hash = host_hash(host, greedy.tenant, &g.number);
        if (g.number == g.answer->learned_generation)
            return g;
        ruvllm_response_free(g.answer);
    }
}

void learn_row11(struct learn_args *args)
{
    struct host_config config = {.path = args->path, .learns = true, .context = 128};
    struct ruvllm_feedback_result result = {.struct_size = sizeof(result)};
    double ms[N_KEPT], compute_ms[N_KEPT];
    struct generation kept[N_VOTES + 1];
    struct ruvllm_error err;
    struct host host;
    int n_same = 0, n_distinct = 0, n = 0;

    host_open(&host, &config);
    for (int i = 1; i <= N_VOTES; i++) {
        struct host_ask ask = greedy;
        uint64_t id;

        ask.temperature = 1;
        ask.seed = args->seed * 1000 + (uint64_t)i;
        ruvllm_response_free(host_ask(&host, &ask, &id));
        (void)host_vote(&host, greedy.tenant, id, i % 2);
        kept[i] = look(&host);
    }
    /* The oldest first: each makes a generation itself, and the oldest goes. A tick or two may come before them. */
    for (int i = 2; i <= N_VOTES; i++) {
        const struct generation *wanted = &kept[i];
        struct generation now;
        int64_t start;

        if (wanted->number < kept[N_VOTES].number - N_KEPT + SPARE)
            continue;
        n_distinct += wanted->hash != kept[i - 1].hash;

        start = rv_clock_us();
        if (ruvllm_engine_learn_rollback(host.engine, greedy.tenant, wanted->number, &result, &err))
            lab_die("rollback", &err);
        ms[n] = (double)(rv_clock_us() - start) / 1e3;
        compute_ms[n++] = (double)result.compute_us / 1e3;
        now = look(&host);
        n_same += now.hash == wanted->hash && host_same_answer(now.answer, wanted->answer);
        ruvllm_response_free(now.answer);
    }
    learn_figure_print(
        args,
        &(struct learn_figure){
            .what = "restored", .value = (double)n_same / n, .bound = LEARN_AT_LEAST, .must = 1, .short_must = 1});
    learn_figure_print(args, &(struct learn_figure){.what = "distinct", // else coming back would be no feat
                                                    .value = (double)n_distinct / n,
                                                    .bound = LEARN_AT_LEAST,
                                                    .must = 0.9,
                                                    .short_must = 0.9});
    learn_figure_print(args, &(struct learn_figure){.what = "ms_max",
                                                    .value = learn_sample_quantile(ms, (size_t)n, 1),
                                                    .bound = LEARN_AT_MOST,
                                                    .must = 10,
                                                    .short_must = 60000}); // disks of others may be slow
    learn_figure_print(args,
                       &(struct learn_figure){.what = "ms_p50", .value = learn_sample_quantile(ms, (size_t)n, 0.5)});
    learn_figure_print(args, &(struct learn_figure){.what = "compute_ms_max",
                                                    .value = learn_sample_quantile(compute_ms, (size_t)n, 1)});
    learn_figure_print(
        args, &(struct learn_figure){.what = "n", .value = n, .bound = LEARN_AT_LEAST, .must = 20, .short_must = 20});
    for (int i = 1; i <= N_VOTES; i++)
        ruvllm_response_free(kept[i].answer);
    host_close(&host);
}
