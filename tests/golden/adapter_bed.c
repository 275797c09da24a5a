#include "golden/adapter_bed.h"

#include "engine/engine.h"
#include "support/adapter_fixture.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Under a sanitizer, where a token costs twenty times as much and memory is what is looked at, a smaller model does. */
#ifdef RUVLLM_IS_SANITIZED
const char *const adapter_bed_model = "models/stories260K.gguf";
static const float STRENGTH = 0.5f;
#else
const char *const adapter_bed_model = "models/stories15M-f16.gguf";
static const float STRENGTH = 0.1f; // what is far from sense is also far from exact
#endif
const char *const adapter_bed_text =
    "Once upon a time there was a little girl who lived in a small house near the forest "
    "with her mother and her old dog. One day she went out to play and saw a";

ruvllm_engine *adapter_bed_open(const struct ruvllm_engine_params *wishes)
{
    struct ruvllm_engine_params params = wishes ? *wishes : ruvllm_engine_params_default();
    struct ruvllm_model_params model = ruvllm_model_params_default();
    ruvllm_engine *engine;

    test_need_file(test_data(adapter_bed_model));
    model.max_context = ADAPTER_BED_CONTEXT;
    model.n_threads = 1;
    params.model = &model;
    assert_ok(ruvllm_engine_open(&engine, test_data(adapter_bed_model), &params, err));
    return engine;
}

const char *adapter_bed_folder(void)
{
    const char *path = test_temp_path(".adapters");

    (void)unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    return path;
}

/* Folders of a depot, empty by now. */
void adapter_bed_remove_folder(const char *path)
{
    char sub[512];

    for (int i = 0; i < 256; i++) {
        snprintf(sub, sizeof(sub), "%s/%02x", path, i);
        (void)rmdir(sub);
    }
    snprintf(sub, sizeof(sub), "%s/lock", path);
    (void)unlink(sub);
    assert_int_equal(rmdir(path), 0); // no file is left
}

struct rv_adapter *adapter_bed_make(const struct ruvllm_model *model, uint64_t layers_seed, uint64_t head_seed)
{
    const struct adapter_fixture f = {
        .hparams = &model->hparams, .manifest = &model->manifest, .rank = 2, .head_rank = 2, .strength = STRENGTH};

    return adapter_fixture_new_of(&f, layers_seed, head_seed);
}

int64_t adapter_bed_publish(ruvllm_engine *engine, const char *id, uint64_t layers_seed, uint64_t head_seed)
{
    struct rv_adapter *adapter = adapter_bed_make(engine->model, layers_seed, head_seed);
    int64_t generation;

    assert_ok(rv_engine_adapters_publish(&engine->adapters, id, -1, adapter, &generation, err));
    rv_adapter_unref(adapter);
    return generation;
}

/* A file of ours with such an adapter. */
const char *adapter_bed_write(const ruvllm_engine *engine, uint64_t layers_seed, uint64_t head_seed)
{
    const char *path = test_temp_path(".gguf");
    struct rv_adapter *adapter = adapter_bed_make(engine->model, layers_seed, head_seed);
    struct rv_adapter_file *file;

    assert_ok(rv_adapter_file_from(&file, adapter, &engine->adapters.base, err));
    assert_ok(rv_adapter_file_write(file, &engine->adapters.base, path, RUVLLM_ADAPTER_OWN, err));
    rv_adapter_file_close(file);
    rv_adapter_unref(adapter);
    return path;
}

struct ruvllm_generate_params adapter_bed_greedy(int32_t max_tokens)
{
    struct ruvllm_generate_params params = ruvllm_generate_params_default();

    params.temperature = 0;
    params.repetition_penalty = 1;
    params.max_tokens = max_tokens;
    params.n_logprobs = 2;
    params.ignore_eos = true;
    return params;
}

struct ruvllm_response *adapter_bed_drain(ruvllm_engine *engine, uint64_t id)
{
    struct ruvllm_event event = {.struct_size = sizeof(event)};

    do {
        assert_ok(ruvllm_engine_next_event(engine, id, 120000, &event, err));
        assert_int_not_equal(event.type, RUVLLM_EVENT_NONE);
    } while (event.type != RUVLLM_EVENT_DONE);
    return event.response;
}

ruvllm_status adapter_bed_submit(ruvllm_engine *engine, const char *adapter, int64_t generation, int32_t max_tokens,
                                 uint64_t *id, struct ruvllm_error *err)
{
    struct ruvllm_generate_params params = adapter_bed_greedy(max_tokens);
    struct ruvllm_input input = {
        .struct_size = sizeof(input), .text = adapter_bed_text, .text_len = strlen(adapter_bed_text)};
    struct ruvllm_request request = {.struct_size = sizeof(request),
                                     .input = &input,
                                     .params = &params,
                                     .adapter = adapter,
                                     .adapter_generation = generation};

    return ruvllm_engine_submit(engine, &request, id, err);
}

struct ruvllm_response *adapter_bed_answer(ruvllm_engine *engine, const char *adapter, int64_t generation)
{
    uint64_t id;

    assert_ok(adapter_bed_submit(engine, adapter, generation, ADAPTER_BED_ANSWER, &id, err));
    return adapter_bed_drain(engine, id);
}

/* How far the second best is behind in token i. */
static double gap(const struct ruvllm_response *r, size_t i)
{
    const struct ruvllm_token_logprob *row = r->logprobs + i * r->logprobs_per_token;

    return (double)(row[1].logprob - row[2].logprob);
}

/*
 * The same answer up to what batches of another shape do to the last bits: a first difference where the best two are a
 * hundredth apart at most. Another adapter moves log-probabilities by a tenth and more.
 */
bool adapter_bed_is_same(const struct ruvllm_response *a, const struct ruvllm_response *b)
{
    for (size_t i = 0; i < a->n_tokens && i < b->n_tokens; i++) {
        const struct ruvllm_token_logprob *x = a->logprobs + i * a->logprobs_per_token;
        const struct ruvllm_token_logprob *y = b->logprobs + i * b->logprobs_per_token;

        if (a->tokens[i] != b->tokens[i])
            return gap(a, i) < 0.01;
        if (fabs((double)(x->logprob - y->logprob)) > 0.01) {
            print_message("token %zu: log-probability %.4f, not %.4f\n", i, (double)x->logprob, (double)y->logprob);
            return false;
        }
    }
    return a->n_tokens == b->n_tokens;
}

/* What a fresh engine, which has cached nothing, answers. */
struct ruvllm_response *adapter_bed_fresh_answer(uint64_t layers_seed, uint64_t head_seed)
{
    ruvllm_engine *engine = adapter_bed_open(NULL);
    struct ruvllm_response *response;

    if (layers_seed || head_seed)
        adapter_bed_publish(engine, "only", layers_seed, head_seed);
    response = adapter_bed_answer(engine, layers_seed || head_seed ? "only" : NULL, 0);
    assert_int_equal(response->cached_tokens, 0);
    ruvllm_engine_close(engine);
    return response;
}

void adapter_bed_check(ruvllm_engine *engine, const char *adapter, int64_t generation,
                       const struct ruvllm_response *expected, bool is_cached)
{
    struct ruvllm_response *r = adapter_bed_answer(engine, adapter, generation);

    assert_int_equal(r->cached_tokens, is_cached ? (r->prompt_tokens - 1) / 32 * 32 : 0);
    assert_true(adapter_bed_is_same(r, expected));
    ruvllm_response_free(r);
}
