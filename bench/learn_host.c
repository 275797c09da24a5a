#include "learn_host.h"

#include "engine/engine_learn.h"
#include "learn_lab.h"
#include "temp_path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_PROMPT = 256 };

static void open_store(struct host *host, const char *path)
{
    struct ruvllm_error err;

    if (!path) {
        int fd;

        temp_path_of(host->temporary, sizeof(host->temporary), "bench_learn_XXXXXX");
        fd = mkstemp(host->temporary);
        if (fd < 0)
            lab_die("there is no room for a temporary file", NULL);
        close(fd);
        path = host->temporary;
    }
    if (ruvllm_store_open(&host->store, path, NULL, &err))
        lab_die(path, &err);
}

void host_open(struct host *host, const struct host_config *config)
{
    struct ruvllm_model_params model = ruvllm_model_params_default();
    struct ruvllm_engine_params params = ruvllm_engine_params_default();
    struct ruvllm_learn_params learn = ruvllm_learn_params_default();
    struct ruvllm_error err;

    *host = (struct host){0};
    model.n_threads = config->n_threads > 0 ? config->n_threads : 1;
    model.max_context = config->context;
    params.model = &model;
    params.kv_bytes = (uint64_t)2 << 30;
    params.max_sequences = config->n_streams > 0 ? config->n_streams : 16;
    if (ruvllm_engine_open(&host->engine, config->path, &params, &err))
        lab_die(config->path, &err);
    if (!config->learns)
        return;
    open_store(host, config->store);
    learn.store = host->store;
    learn.rank = config->rank > 0 ? config->rank : learn.rank;
    if (ruvllm_engine_learn(host->engine, &learn, &err))
        lab_die("learning", &err);
}

void host_close(struct host *host)
{
    static const char *const endings[] = {"", "-wal", "-shm"};
    char path[sizeof(host->temporary) + 8];

    ruvllm_engine_close(host->engine);
    ruvllm_store_close(host->store);
    for (size_t i = 0; host->temporary[0] && i < sizeof(endings) / sizeof(endings[0]); i++) {
        (void)snprintf(path, sizeof(path), "%s%s", host->temporary, endings[i]);
        (void)unlink(path);
    }
}

struct ruvllm_model_info host_info(const struct host *host)
{
    struct ruvllm_model_info info = {.struct_size = sizeof(info)};
    struct ruvllm_error err;

    if (ruvllm_model_info_get(ruvllm_engine_model(host->engine), &info, &err))
        lab_die("info", &err);
    return info;
}

uint64_t host_submit(struct host *host, const struct host_ask *ask)
{
    struct ruvllm_generate_params params = ruvllm_generate_params_default();
    int32_t tokens[MAX_PROMPT], n_vocab = host_info(host).n_vocab;
    struct ruvllm_input input = {.struct_size = sizeof(input), .tokens = tokens, .n_tokens = (size_t)ask->n_prompt};
    struct ruvllm_request request = {.struct_size = sizeof(request),
                                     .input = &input,
                                     .params = &params,
                                     .tenant = ask->tenant,
                                     .on_event = ask->on_event,
                                     .user = ask->user};
    struct ruvllm_error err;
    struct rv_rng rng;
    uint64_t id;

    if (ask->n_prompt > MAX_PROMPT)
        lab_die("a prompt is too long", NULL);
    rv_rng_init(&rng, ask->seed);
    for (int32_t i = 0; i < ask->n_prompt; i++)
        tokens[i] = (int32_t)rv_rng_below(&rng, (uint64_t)n_vocab);
    params.max_tokens = ask->n_answer;
    params.temperature = ask->temperature;
    params.top_p = 1;
    params.repetition_penalty = 1;
    params.ignore_eos = true;
    params.has_seed = true;
    params.seed = ask->seed;
    params.n_logprobs = ask->n_logprobs;
    if (ruvllm_engine_submit(host->engine, &request, &id, &err))
        lab_die("submit", &err);
    return id;
}

struct ruvllm_response *host_wait(struct host *host, uint64_t id)
{
    struct ruvllm_event event = {.struct_size = sizeof(event)};
    struct ruvllm_error err;

    do {
        if (ruvllm_engine_next_event(host->engine, id, -1, &event, &err))
            lab_die("event", &err);
    } while (event.type != RUVLLM_EVENT_DONE);
    return event.response;
}

struct ruvllm_response *host_ask(struct host *host, const struct host_ask *ask, uint64_t *id)
{
    uint64_t own = host_submit(host, ask);

    if (id)
        *id = own;
    return host_wait(host, own);
}

bool host_same_answer(const struct ruvllm_response *a, const struct ruvllm_response *b)
{
    return a->n_tokens == b->n_tokens && a->logprobs_per_token == b->logprobs_per_token &&
           memcmp(a->tokens, b->tokens, a->n_tokens * sizeof(*a->tokens)) == 0 &&
           memcmp(a->logprobs, b->logprobs, a->n_tokens * a->logprobs_per_token * sizeof(*a->logprobs)) == 0;
}

struct ruvllm_feedback_result host_vote(struct host *host, const char *tenant, uint64_t id, double score)
{
    struct ruvllm_feedback_result result = {.struct_size = sizeof(result)};
    struct ruvllm_error err;

    if (ruvllm_engine_feedback(host->engine, tenant, id, score, &result, &err))
        lab_die("feedback", &err);
    return result;
}

uint64_t host_hash(struct host *host, const char *tenant, int64_t *generation)
{
    struct rv_adapter *adapter;
    struct rv_memory *memory;
    struct rv_learner *learner;
    struct ruvllm_error err;
    uint64_t hash;

    if (rv_engine_learn_get(host->engine, &learner, &err) ||
        rv_learner_current(learner, tenant, &adapter, &memory, generation, &err))
        lab_die("what was learned", &err);
    hash = lab_hash_adapter(adapter);
    rv_adapter_unref(adapter);
    rv_memory_unref(memory);
    return hash;
}
