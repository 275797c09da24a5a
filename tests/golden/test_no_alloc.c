/*
 * The decode loop allocates nothing after warm-up: malloc is counted for the whole process, ggml included, from
 * the tenth token of an answer to its last, across a change of attention length.
 */
#include "alloc_meter.h"
#include "engine/model.h"
#include "kv/kv_seq.h"
#include "support/adapter_fixture.h"
#include "support/test.h"

#include <stdio.h>
#include <string.h>

enum { FIRST = 10, LAST = 200 };

struct counts {
    int n_chunks;
    size_t bytes;
};

static bool on_chunk(void *user, const struct ruvllm_chunk *chunk)
{
    struct counts *c = user;

    (void)chunk;
    c->n_chunks++;
    if (c->n_chunks == FIRST)
        alloc_meter_start();
    if (c->n_chunks == LAST)
        c->bytes = alloc_meter_stop();
    return true;
}

static void generate(const char *path, float temperature, const char *grammar)
{
    struct ruvllm_generate_params params = ruvllm_generate_params_default();
    struct ruvllm_input input = {.struct_size = sizeof(input), .text = "Once upon a time", .text_len = 16};
    static const char *const stops[] = {"a string that never comes", "nor this"};
    struct counts counts = {0};
    ruvllm_model *model;

    if (!alloc_meter_works()) {
        fprintf(stderr, "the sanitizer's malloc cannot be counted: nothing to see in this build\n");
        return;
    }
    assert_ok(ruvllm_model_open(&model, path, NULL, err));
    params.max_tokens = LAST + 5;
    params.temperature = temperature;
    params.ignore_eos = true;
    params.n_logprobs = 5;
    params.top_k = 40;
    params.min_p = 0.01f;
    params.frequency_penalty = 0.1f;
    params.grammar = grammar;
    params.stop = stops;
    params.n_stop = 2;
    assert_ok(ruvllm_generate_stream(model, &input, &params, on_chunk, &counts, NULL, err));
    assert_true(counts.n_chunks >= LAST);
    assert_int_equal(counts.bytes, 0);
    ruvllm_model_close(model);
}

static void decoding_f16_allocates_nothing(void **state)
{
    (void)state;
    test_need_file(test_data("models/stories15M-f16.gguf"));
    generate(test_data("models/stories15M-f16.gguf"), 0.8f, NULL);
}

static void decoding_quantised_weights_allocates_nothing(void **state)
{
    (void)state;
    test_need_file(test_model("minimind2-26m-q4_k_m.gguf"));
    generate(test_model("minimind2-26m-q4_k_m.gguf"), 0.0f, NULL);
}

/* Every position is another standing of the grammar's, so its tables fill up and start over too. */
static void decoding_under_a_grammar_allocates_nothing(void **state)
{
    (void)state;
    test_need_file(test_data("models/stories15M-f16.gguf"));
    generate(test_data("models/stories15M-f16.gguf"), 0.8f,
             "root ::= [^\\x00-\\x1f]{5000} | s\ns ::= \"(\" s \")\" | \"x\"");
}

/* Sixteen sequences in one batch; the counting starts and ends on the engine's own thread, between steps. */
struct crowd {
    int n_events;
    size_t bytes;
};

static void on_event(void *user, uint64_t id)
{
    struct crowd *c = user;

    (void)id;
    c->n_events++;
    if (c->n_events == FIRST)
        alloc_meter_start();
    if (c->n_events == LAST)
        c->bytes = alloc_meter_stop();
}

static void run_sixteen(const char *schema)
{
    struct ruvllm_engine_params engine_params = ruvllm_engine_params_default();
    struct ruvllm_model_params model = ruvllm_model_params_default();
    struct ruvllm_generate_params params = ruvllm_generate_params_default();
    struct ruvllm_input input = {.struct_size = sizeof(input), .text = "Once upon a time", .text_len = 16};
    struct ruvllm_request request = {.struct_size = sizeof(request), .input = &input, .params = &params};
    struct ruvllm_event event = {.struct_size = sizeof(event)};
    struct crowd crowd = {0};
    ruvllm_engine *engine;
    uint64_t ids[16];

    if (!alloc_meter_works())
        return;
    if (schema)
        model.n_threads = 1; // masks are the work of the engine's own thread
    engine_params.model = &model;
    assert_ok(ruvllm_engine_open(&engine, test_data("models/minimind2-26m-f16.gguf"), &engine_params, err));
    params.max_tokens = LAST + 60;
    params.json_schema = schema;
    params.ignore_eos = true;
    for (int i = 0; i < 16; i++) {
        /* The first one listens: it has been running longest, and the others have joined by its tenth token. */
        request.on_event = i == 0 ? on_event : NULL;
        request.user = &crowd;
        assert_ok(ruvllm_engine_submit(engine, &request, &ids[i], err));
    }
    for (int i = 0; i < 16; i++) {
        do
            assert_ok(ruvllm_engine_next_event(engine, ids[i], -1, &event, err));
        while (event.type != RUVLLM_EVENT_DONE);
        ruvllm_response_free(event.response);
    }
    assert_true(crowd.n_events > LAST);
    assert_int_equal(crowd.bytes, 0);
    ruvllm_engine_close(engine);
}

static void sixteen_sequences_allocate_nothing(void **state)
{
    (void)state;
    run_sixteen(NULL);
}

/* Strings of any length, strings whose characters are counted, a machine, and brackets to return to. */
static void sixteen_sequences_with_a_schema_allocate_nothing(void **state)
{
    (void)state;
    run_sixteen("{\"type\":\"array\",\"minItems\":90,\"items\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":"
                "\"string\"},\"b\":{\"type\":\"string\",\"minLength\":3,\"maxLength\":300},\"c\":{\"type\":\"string\","
                "\"pattern\":\"^(?!a)[a-z]+(-[a-z]+)?$\",\"maxLength\":20},\"d\":{\"type\":\"integer\"}},\"required\":["
                "\"b\",\"c\"]}}");
}

/* Sixteen rows with adapters that change hands in every step; only how many rows there are stays the same. */
enum { N_ROWS = 16, N_ADAPTERS = 4, CONTEXT = 128, ADAPTED_STEPS = 40 };

struct adapted {
    struct ruvllm_model *model;
    struct rv_block_pool *pool;
    struct rv_decoder *decoder;
    struct rv_kv_seq seqs[N_ROWS];
    struct rv_adapter *adapters[N_ADAPTERS];
    struct rv_adapter_mix mixes[N_ROWS];
};

static void open_adapted(struct adapted *a, const char *path)
{
    struct ruvllm_model_params params = ruvllm_model_params_default();
    struct rv_tier_policy policy = rv_tier_policy_single(RV_KV_BLOCK_F16);
    struct rv_block_pool_config pool = {.budget = (size_t)64 << 20};
    struct adapter_fixture fixture = {.head_rank = 2, .strength = 0.1f};
    struct rv_decoder_config config;

    params.max_context = CONTEXT;
    assert_ok(rv_model_open(&a->model, path, &params, false, err));
    pool.n_layers = a->model->hparams.n_layers;
    pool.n_kv_heads = a->model->hparams.n_kv_heads;
    pool.head_dim = a->model->hparams.head_dim;
    assert_ok(rv_block_pool_new(&a->pool, &pool, err));
    config = (struct rv_decoder_config){.hparams = &a->model->hparams,
                                        .weights = &a->model->weights,
                                        .device = a->model->device,
                                        .pool = a->pool,
                                        .max_rows = N_ROWS,
                                        .max_context = CONTEXT};
    assert_ok(rv_decoder_new(&a->decoder, &config, err));
    for (int i = 0; i < N_ROWS; i++)
        assert_ok(rv_kv_seq_init(&a->seqs[i], a->pool, &policy, CONTEXT, err));
    fixture.hparams = &a->model->hparams;
    fixture.manifest = &a->model->manifest;
    for (int i = 0; i < N_ADAPTERS; i++) {
        fixture.seed = (uint64_t)i;
        fixture.rank = 4 * i; // the first has the head's input only
        a->adapters[i] = adapter_fixture_new(&fixture);
    }
}

static void close_adapted(struct adapted *a)
{
    for (int i = 0; i < N_ADAPTERS; i++)
        rv_adapter_unref(a->adapters[i]);
    for (int i = 0; i < N_ROWS; i++)
        rv_kv_seq_release(&a->seqs[i]);
    rv_decoder_free(a->decoder);
    rv_block_pool_free(a->pool);
    rv_model_close(a->model);
}

static void run_adapted(struct adapted *a, int i_step)
{
    int32_t tokens[N_ROWS], pos[N_ROWS], seq[N_ROWS];
    const struct rv_adapter_mix *mixes[N_ROWS];
    struct rv_kv_seq *seqs[N_ROWS];
    struct rv_batch batch = {.n_rows = N_ROWS,
                             .tokens = tokens,
                             .pos = pos,
                             .seq = seq,
                             .seqs = seqs,
                             .adapters = seq,
                             .mixes = mixes,
                             .n_mixes = N_ROWS,
                             .out_rows = seq,
                             .n_out = N_ROWS};
    float *rows;

    for (int32_t i = 0; i < N_ROWS; i++) {
        a->mixes[i] = (struct rv_adapter_mix){.n_adapters = i % 3,
                                              .adapters = {a->adapters[(i + i_step) % N_ADAPTERS], a->adapters[1]},
                                              .weights = {1, 0.5f}};
        mixes[i] = &a->mixes[i];
        seqs[i] = &a->seqs[i];
        tokens[i] = 5 + i;
        pos[i] = seqs[i]->len;
        seq[i] = i;
        assert_true(rv_kv_seq_reserve(seqs[i], 1));
    }
    assert_ok(rv_decoder_run(a->decoder, &batch, RV_DECODER_LOGITS, &rows, err));
    for (int32_t i = 0; i < N_ROWS; i++)
        rv_kv_seq_advance(seqs[i], 1);
}

static void steps_with_adapters_allocate_nothing(void **state)
{
    static struct adapted a;

    (void)state;
    test_need_file(test_data("models/stories15M-f16.gguf"));
    if (!alloc_meter_works())
        return;
    open_adapted(&a, test_data("models/stories15M-f16.gguf"));
    for (int i = 0; i < ADAPTED_STEPS; i++) {
        if (i == FIRST)
            alloc_meter_start();
        run_adapted(&a, i);
    }
    assert_int_equal(alloc_meter_stop(), 0);
    close_adapted(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sixteen_sequences_with_a_schema_allocate_nothing),
        cmocka_unit_test(steps_with_adapters_allocate_nothing),
        cmocka_unit_test(sixteen_sequences_allocate_nothing),
        cmocka_unit_test(decoding_f16_allocates_nothing),
        cmocka_unit_test(decoding_quantised_weights_allocates_nothing),
        cmocka_unit_test(decoding_under_a_grammar_allocates_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
