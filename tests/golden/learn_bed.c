#include "golden/learn_bed.h"

#include <string.h>

enum { CONTEXT = 256, N_ANSWER = 24, N_LOGPROBS = 5 };

const char *const learn_bed_model = "models/stories260K.gguf";
const char *const learn_bed_text =
    "Once upon a time there was a little girl who lived in a small house near the forest "
    "with her mother and her old dog. One day she went out to play and saw a";

ruvllm_engine *learn_bed_open(const struct learn_bed_wishes *wishes)
{
    struct ruvllm_engine_params params = ruvllm_engine_params_default();
    struct ruvllm_model_params model = ruvllm_model_params_default();
    struct ruvllm_learn_params learn = ruvllm_learn_params_default();
    ruvllm_engine *engine;

    test_need_file(test_data(learn_bed_model));
    model.max_context = CONTEXT;
    model.n_threads = 1;
    params.model = &model;
    if (wishes->prefill_tokens)
        params.prefill_tokens = wishes->prefill_tokens;
    learn.store = wishes->store;
    learn.consolidation = wishes->consolidation;
    learn.no_background = wishes->no_background;
    assert_ok(ruvllm_engine_open(&engine, test_data(learn_bed_model), &params, err));
    if (!wishes->no_learning)
        assert_ok(ruvllm_engine_learn(engine, &learn, err));
    return engine;
}

ruvllm_engine *learn_bed_open_with(ruvllm_store *store)
{
    return learn_bed_open(&(struct learn_bed_wishes){.store = store});
}

ruvllm_store *learn_bed_open_store(const char *path)
{
    ruvllm_store *store;

    assert_ok(ruvllm_store_open(&store, path, NULL, err));
    return store;
}

struct ruvllm_response *learn_bed_ask(ruvllm_engine *engine, const struct learn_bed_question *q, uint64_t *id)
{
    struct ruvllm_generate_params params = ruvllm_generate_params_default();
    const char *text = q->text ? q->text : learn_bed_text;
    struct ruvllm_input input = {.struct_size = sizeof(input), .text = text, .text_len = strlen(text)};
    struct ruvllm_request request = {
        .struct_size = sizeof(request), .input = &input, .params = &params, .tenant = q->tenant, .adapter = q->adapter};
    struct ruvllm_event event = {.struct_size = sizeof(event)};
    uint64_t mine;

    params.temperature = q->temperature;
    params.max_tokens = q->n_tokens ? q->n_tokens : N_ANSWER;
    params.repetition_penalty = 1;
    params.top_p = q->top_p > 0 ? q->top_p : 1;
    params.n_logprobs = N_LOGPROBS;
    params.ignore_eos = !q->may_end;
    params.has_seed = true;
    params.seed = q->seed;
    id = id ? id : &mine;
    assert_ok(ruvllm_engine_submit(engine, &request, id, err));
    do {
        assert_ok(ruvllm_engine_next_event(engine, *id, -1, &event, err));
    } while (event.type != RUVLLM_EVENT_DONE);
    return event.response;
}

bool learn_bed_same(const struct ruvllm_response *a, const struct ruvllm_response *b)
{
    return a->n_tokens == b->n_tokens && memcmp(a->tokens, b->tokens, a->n_tokens * sizeof(*a->tokens)) == 0 &&
           memcmp(a->logprobs, b->logprobs, a->n_tokens * a->logprobs_per_token * sizeof(*a->logprobs)) == 0;
}
