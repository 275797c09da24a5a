/*
 * Architectures outside our table run through libllama behind the same calls: what comes out is what libllama itself
 * gives, alone and in a crowd; what it keeps is freed; what it cannot do is an error that says so. Three made-up models
 * stand for the rest: two mixtures of experts, one of them under a name that is in our table, and one without keys and
 * values.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/rng.h"
#include "golden/divergence.h"
#include "golden/oracle.h"
#include "ruvllm_adapter.h"
#include "support/maker_file.h"
#include "support/test.h"

enum model { QWEN2MOE, MIXTRAL, MAMBA, N_MODELS };

/* Under a sanitizer, where a token costs twenty times as much, fewer do. */
#ifdef RUVLLM_IS_SANITIZED
enum { N_ANSWER = 24, N_ROUNDS = 4, FIRST_PRESSED = MIXTRAL };
#else
enum { N_ANSWER = 64, N_ROUNDS = 12, FIRST_PRESSED = QWEN2MOE };
#endif
enum { CONTEXT = 256, N_CROWD = 8, N_THREADS = 1 };
enum { N_BLOCKS = 8 }; // of an engine in which eight sequences do not fit: the longest takes five

static const char *const recipes[N_MODELS][10] = {
    [QWEN2MOE] = {"--arch", "qwen2moe", "--type", "f32", "--ffn", "128"},
    [MIXTRAL] = {"--arch", "llama", "--type", "f32", "--ffn", "128", "--experts", "4", "--experts-used", "2"},
    [MAMBA] = {"--arch", "mamba", "--type", "f32"},
};

static char paths[N_MODELS][256];

static int make_models(void **state)
{
    (void)state;
    for (int i = 0; i < N_MODELS; i++) {
        char text[10][32], *argv[10];
        struct maker_spec spec;
        int argc = 0;

        for (; argc < 10 && recipes[i][argc]; argc++) {
            snprintf(text[argc], sizeof(text[argc]), "%s", recipes[i][argc]);
            argv[argc] = text[argc];
        }
        snprintf(paths[i], sizeof(paths[i]), "%s", test_temp_path(".gguf"));
        assert_ok(maker_spec_parse(&spec, argc, argv, err));
        assert_ok(maker_file_write(&spec, paths[i], err));
    }
    return 0;
}

static struct ruvllm_model_params model_params(const char *backend)
{
    struct ruvllm_model_params params = ruvllm_model_params_default();

    params.max_context = CONTEXT;
    params.n_threads = N_THREADS;
    params.backend = backend;
    return params;
}

static ruvllm_model *open_model(const char *path, const char *backend)
{
    struct ruvllm_model_params params = model_params(backend);
    ruvllm_model *model;

    assert_ok(ruvllm_model_open(&model, path, &params, err));
    return model;
}

static struct ruvllm_generate_params greedy(int32_t max_tokens)
{
    struct ruvllm_generate_params params = ruvllm_generate_params_default();

    params.temperature = 0;
    params.repetition_penalty = 1;
    params.max_tokens = max_tokens;
    params.ignore_eos = true;
    params.n_logprobs = 2;
    return params;
}

/* Token n of prompt `which`; nothing the two have in common but the first. */
static void fill_prompt(int which, int32_t *tokens, size_t n)
{
    struct rv_rng rng;

    rv_rng_init(&rng, (uint64_t)which + 1);
    tokens[0] = 1; // BOS
    for (size_t i = 1; i < n; i++)
        tokens[i] = 3 + (int32_t)rv_rng_below(&rng, 500);
}

static struct ruvllm_response *answer(ruvllm_model *model, const int32_t *prompt, size_t n)
{
    struct ruvllm_generate_params params = greedy(N_ANSWER);
    struct ruvllm_input input = {.struct_size = sizeof(input), .tokens = prompt, .n_tokens = n};
    struct ruvllm_response *response;

    assert_ok(ruvllm_generate(model, &input, &params, &response, err));
    assert_int_equal(response->n_tokens, N_ANSWER);
    return response;
}

/* A copy of a file with every `from` replaced by `to`, which is as long; `len` bytes of it, 0: all. */
static const char *altered(const char *path, const char *from, const char *to, size_t len)
{
    const char *copy = test_temp_path(".gguf");
    size_t n, n_from = from ? strlen(from) : 0;
    char *data = test_read_file(path, &n);

    for (size_t i = 0; from && i + n_from <= n && i < 1 << 16; i++) {
        if (memcmp(data + i, from, n_from) == 0)
            memcpy(data + i, to, n_from);
    }
    test_write_file(copy, data, len ? len : n);
    free(data);
    return copy;
}

/* ---- which backend, and refusals ------------------------------------------------------------ */

static void hybrid_takes_what_native_does_not_know(void **state)
{
    (void)state;
    for (int i = 0; i < N_MODELS; i++) {
        struct ruvllm_model_info info = {.struct_size = sizeof(info)};
        ruvllm_model *model = open_model(paths[i], i == 0 ? NULL : "hybrid");

        assert_ok(ruvllm_model_info_get(model, &info, err));
        assert_string_equal(info.backend, "llama");
        assert_false(info.can_learn);
        assert_false(info.has_tiers);
        assert_int_equal(info.n_layers, 4);
        assert_int_equal(info.n_embd, 256);
        assert_int_equal(info.n_vocab, 512);
        assert_int_equal(info.n_kv_heads, i == MAMBA ? 0 : 2);
        assert_int_equal(info.context, CONTEXT);
        assert_true(info.n_params > 1000000);
        ruvllm_model_close(model);
    }
}

static void hybrid_leaves_native_what_it_knows(void **state)
{
    struct ruvllm_model_info info = {.struct_size = sizeof(info)};
    ruvllm_model *model;

    (void)state;
    test_need_file(test_data("models/stories260K.gguf"));
    model = open_model(test_data("models/stories260K.gguf"), "hybrid");
    assert_ok(ruvllm_model_info_get(model, &info, err));
    assert_string_equal(info.backend, "native");
    assert_true(info.can_learn);
    assert_true(info.has_tiers);
    ruvllm_model_close(model);
}

static void a_caller_of_before_gets_what_it_knew(void **state)
{
    struct ruvllm_model_info info = {.struct_size = offsetof(struct ruvllm_model_info, backend), .backend = "mine"};
    struct ruvllm_model_params params = model_params("native"); // beyond what its size says, so not looked at
    ruvllm_model *model;

    (void)state;
    params.struct_size = offsetof(struct ruvllm_model_params, backend);
    assert_ok(ruvllm_model_open(&model, paths[QWEN2MOE], &params, err));
    assert_ok(ruvllm_model_info_get(model, &info, err));
    assert_string_equal(info.backend, "mine");
    ruvllm_model_close(model);
}

static void native_says_what_to_do(void **state)
{
    struct ruvllm_model_params params = model_params("native");
    struct ruvllm_error err;
    ruvllm_model *model;

    (void)state;
    assert_fails(ruvllm_model_open(&model, paths[QWEN2MOE], &params, &err), RUVLLM_UNSUPPORTED, err,
                 "backend 'hybrid' or 'llama'");
    assert_fails(ruvllm_model_open(&model, paths[MIXTRAL], &params, &err), RUVLLM_UNSUPPORTED, err, "mixes 4 experts");
    assert_non_null(strstr(err.message, "backend 'hybrid' or 'llama'"));
    params.backend = "vulkan";
    assert_fails(ruvllm_model_open(&model, paths[MIXTRAL], &params, &err), RUVLLM_INVALID, err, "no backend 'vulkan'");
}

static void the_vocabulary_alone_needs_no_backend(void **state)
{
    struct ruvllm_model_params params = model_params("native");
    struct ruvllm_model_info info = {.struct_size = sizeof(info)};
    ruvllm_model *model;

    (void)state;
    params.vocab_only = true;
    assert_ok(ruvllm_model_open(&model, paths[QWEN2MOE], &params, err));
    assert_ok(ruvllm_model_info_get(model, &info, err));
    assert_string_equal(info.backend, "");
    assert_int_equal(info.n_vocab, 512);
    ruvllm_model_close(model);
}

static void a_damaged_file_never_reaches_libllama(void **state)
{
    struct ruvllm_model_params params = model_params(NULL);
    struct ruvllm_error err;
    ruvllm_model *model;
    size_t n;

    (void)state;
    free(test_read_file(paths[QWEN2MOE], &n));
    for (size_t part = 1; part < 8; part++) {
        ruvllm_status rc = ruvllm_model_open(&model, altered(paths[QWEN2MOE], NULL, NULL, n * part / 8), &params, &err);

        assert_int_equal(rc, RUVLLM_FORMAT);
        assert_null(strstr(err.message, "libllama"));
    }
    params.backend = "llama";
    assert_int_equal(ruvllm_model_open(&model, altered(paths[MIXTRAL], NULL, NULL, 4096), &params, &err),
                     RUVLLM_FORMAT);
    assert_null(strstr(err.message, "libllama"));
}

static void a_vocabulary_we_do_not_know_is_an_error(void **state)
{
    struct ruvllm_model_params params = model_params(NULL);
    struct ruvllm_error err;
    ruvllm_model *model;

    (void)state;
    /* The one place where that word stands is the kind of the tokenizer. */
    assert_fails(ruvllm_model_open(&model, altered(paths[QWEN2MOE], "llama", "rwkv5", 0), &params, &err),
                 RUVLLM_UNSUPPORTED, err, "rwkv5");
    assert_null(strstr(err.message, "libllama"));
}

static void what_nobody_knows_is_told_in_libllamas_words(void **state)
{
    struct ruvllm_model_params params = model_params(NULL);
    struct ruvllm_error err;
    ruvllm_model *model;

    (void)state;
    assert_fails(ruvllm_model_open(&model, altered(paths[QWEN2MOE], "qwen2moe", "qwen9moe", 0), &params, &err),
                 RUVLLM_UNSUPPORTED, err, "libllama cannot load the model");
    assert_non_null(strstr(err.message, "unknown model architecture"));
}

static bool stop_loading(void *user, float fraction)
{
    (void)user;
    (void)fraction;
    return false;
}

static void loading_can_be_stopped(void **state)
{
    struct ruvllm_model_params params = model_params(NULL);
    struct ruvllm_error err;
    ruvllm_model *model;

    (void)state;
    params.on_progress = stop_loading;
    assert_fails(ruvllm_model_open(&model, paths[QWEN2MOE], &params, &err), RUVLLM_CANCELLED, err, "stopped");
}

/* ---- one conversation ------------------------------------------------------------------------ */

static void answers_are_libllamas_to_the_token(void **state)
{
    struct oracle_params theirs = {.n_ctx = CONTEXT, .n_threads = N_THREADS};
    float logits[512];
    int32_t prompt[37];

    (void)state;
    for (int i = 0; i < N_MODELS; i++) {
        ruvllm_model *model = open_model(paths[i], NULL);
        struct oracle *oracle = oracle_open(paths[i], &theirs);
        struct ruvllm_response *ours;
        const float *row = logits;

        fill_prompt(i, prompt, 37);
        ours = answer(model, prompt, 37);
        oracle_forward(oracle, prompt, 37, 36, 512, logits);
        for (size_t k = 0; k < N_ANSWER; k++) {
            int32_t best = divergence_argmax(row, 512);

            assert_int_equal(ours->tokens[k], best);
            assert_true(fabs(divergence_logprob(row, 512, best) - (double)ours->logprobs[3 * k].logprob) < 1e-4);
            row = k + 1 < N_ANSWER ? oracle_decode(oracle, best) : NULL;
        }
        ruvllm_response_free(ours);
        oracle_close(oracle);
        ruvllm_model_close(model);
    }
}

/* A state that cannot be cut is computed anew; one that only grows is kept. */
static void going_back_changes_no_answer(void **state)
{
    int32_t first[40], other[40], longer[40 + N_ANSWER + 3];

    (void)state;
    fill_prompt(1, first, 40);
    fill_prompt(2, other, 40);
    memcpy(other, first, 10 * sizeof(*other));
    for (int i = 0; i < N_MODELS; i++) {
        ruvllm_model *model = open_model(paths[i], NULL);
        struct ruvllm_response *a = answer(model, first, 40), *b = answer(model, other, 40), *c;

        assert_int_equal(a->cached_tokens, 0);
        assert_int_equal(b->cached_tokens, i == MAMBA ? 0 : 10);
        c = answer(model, first, 40);
        assert_memory_equal(a->tokens, c->tokens, N_ANSWER * sizeof(*a->tokens));
        memcpy(longer, first, sizeof(first));
        memcpy(longer + 40, c->tokens, N_ANSWER * sizeof(*longer));
        fill_prompt(3, longer + 40 + N_ANSWER, 3);
        ruvllm_response_free(b);
        b = answer(model, longer, 40 + N_ANSWER + 3);
        assert_int_equal(b->cached_tokens, 40 + N_ANSWER - 1); // the last one was chosen, not computed
        ruvllm_response_free(a);
        ruvllm_response_free(b);
        ruvllm_response_free(c);
        ruvllm_model_close(model);
    }
}

/* The same file through both; bounds as in test_parity.c. */
static void both_backends_agree(void **state)
{
    enum { N_VOCAB = 32000, N_TOKENS = 256, N_TEXTS = 2 };
    const char *path = test_data("models/stories15M-f16.gguf");
    float *ours = calloc((size_t)N_VOCAB * N_TOKENS, sizeof(*ours));
    float *theirs = calloc((size_t)N_VOCAB * N_TOKENS, sizeof(*theirs));
    float embedding[2][288];
    struct divergence sum = {0};
    ruvllm_model *native, *llama;
    double dot = 0;

    (void)state;
    test_need_file(path);
    assert_non_null(ours);
    assert_non_null(theirs);
    native = open_model(path, "native");
    llama = open_model(path, "llama");
    for (int i = 0; i < N_TEXTS; i++) {
        size_t len, n;
        char *text = test_read_file(test_data("text/tinystories_val_100k.txt"), &len);
        struct ruvllm_input input = {
            .struct_size = sizeof(input), .text = text + (size_t)i * 4000, .text_len = 2000, .no_bos = false};
        int32_t *tokens;

        assert_ok(ruvllm_tokenize(llama, &input, &tokens, &n, err));
        assert_true(n >= N_TOKENS);
        assert_ok(ruvllm_forward(native, tokens, N_TOKENS, 0, ours, (size_t)N_VOCAB * N_TOKENS, err));
        assert_ok(ruvllm_forward(llama, tokens, N_TOKENS, 0, theirs, (size_t)N_VOCAB * N_TOKENS, err));
        divergence_add(&sum, theirs, ours, N_VOCAB, N_TOKENS);
        input = (struct ruvllm_input){.struct_size = sizeof(input), .tokens = tokens, .n_tokens = N_TOKENS};
        assert_ok(ruvllm_embed(native, &input, embedding[0], 288, err));
        assert_ok(ruvllm_embed(llama, &input, embedding[1], 288, err));
        ruvllm_free(tokens);
        free(text);
    }
    for (int i = 0; i < 288; i++)
        dot += (double)embedding[0][i] * (double)embedding[1][i];
    print_message("KL %.2e, same best token %.4f, cosine of embeddings 1 - %.1e\n", divergence_mean_kl(&sum),
                  divergence_top1(&sum), 1 - dot);
    assert_true(divergence_mean_kl(&sum) <= 1e-4);
    assert_true(divergence_top1(&sum) >= 0.998);
    assert_true(dot > 1 - 1e-5);
    ruvllm_model_close(native);
    ruvllm_model_close(llama);
    free(ours);
    free(theirs);
}

/* ---- engines --------------------------------------------------------------------------------- */

static ruvllm_engine *open_engine(const char *path, uint64_t kv_bytes)
{
    struct ruvllm_model_params model = model_params(NULL);
    struct ruvllm_engine_params params = ruvllm_engine_params_default();
    ruvllm_engine *engine;

    params.model = &model;
    params.max_sequences = N_CROWD;
    params.kv_bytes = kv_bytes;
    params.prefill_tokens = 24; // prompts are cut, in a crowd at other places than alone
    assert_ok(ruvllm_engine_open(&engine, path, &params, err));
    return engine;
}

static struct ruvllm_engine_stats stats_of(ruvllm_engine *engine)
{
    struct ruvllm_engine_stats stats = {.struct_size = sizeof(stats)};

    assert_ok(ruvllm_engine_stats_get(engine, &stats, err));
    return stats;
}

/* Statistics are copied after each step, so they may lag behind the last event by a moment. */
static void wait_until_empty(ruvllm_engine *engine)
{
    const struct timespec moment = {.tv_nsec = 1000000};
    struct ruvllm_engine_stats stats = stats_of(engine);

    for (int i = 0; i < 20000 && (stats.running + stats.waiting > 0 || stats.kv_used > 0); i++) {
        nanosleep(&moment, NULL);
        stats = stats_of(engine);
    }
    assert_int_equal(stats.running + stats.waiting, 0);
    assert_int_equal(stats.kv_used, 0);
}

static uint64_t submit(ruvllm_engine *engine, int which, int32_t max_tokens)
{
    size_t n = 20 + 9 * (size_t)which;
    int32_t prompt[20 + 9 * N_CROWD];
    struct ruvllm_generate_params params = greedy(max_tokens);
    struct ruvllm_input input = {.struct_size = sizeof(input), .tokens = prompt, .n_tokens = n};
    struct ruvllm_request request = {.struct_size = sizeof(request), .input = &input, .params = &params};
    uint64_t id;

    fill_prompt(which, prompt, n);
    assert_ok(ruvllm_engine_submit(engine, &request, &id, err));
    return id;
}

static struct ruvllm_response *drain(ruvllm_engine *engine, uint64_t id)
{
    struct ruvllm_event event = {.struct_size = sizeof(event)};

    do
        assert_ok(ruvllm_engine_next_event(engine, id, 120000, &event, err));
    while (event.type != RUVLLM_EVENT_DONE);
    return event.response;
}

struct likeness {
    double noise; // largest distance of a chosen token's log-probability
    size_t n_tokens;
    size_t n_far; // of them, how many are further apart than FAR
};

#define FAR 0.02

/*
 * Compares b with a up to a first difference, which only a near tie excuses: ggml multiplies one row and many with
 * different kernels, and what that does to a log-probability is measured on the tokens before.
 */
static void compare(const struct ruvllm_response *a, const struct ruvllm_response *b, struct likeness *l)
{
    assert_int_equal(a->n_tokens, b->n_tokens);
    for (size_t i = 0; i < a->n_tokens; i++) {
        const struct ruvllm_token_logprob *x = a->logprobs + 3 * i, *y = b->logprobs + 3 * i;
        double distance = fabs((double)(x[0].logprob - y[0].logprob)), gap = (double)(x[1].logprob - x[2].logprob);

        if (a->tokens[i] != b->tokens[i]) {
            print_message("differs at token %zu: gap %.2e, noise %.2e\n", i, gap, l->noise);
            assert_true(gap <= 2 * l->noise);
            return;
        }
        l->n_tokens++;
        l->n_far += distance > FAR;
        l->noise = fmax(l->noise, distance);
    }
}

/*
 * Where two experts are wanted nearly alike, the noise of a kernel decides which one a token gets, and that token is
 * then far off; few may be. Without experts none is.
 */
static void judge(const struct likeness *l, enum model which)
{
    print_message("noise of a log-probability %.2e; %zu of %zu tokens are far off\n", l->noise, l->n_far, l->n_tokens);
    assert_true(l->n_tokens > N_ANSWER / 2);
    assert_true(which == MAMBA ? l->n_far == 0 : l->n_far <= 1 + l->n_tokens / 50);
}

static void compare_crowd(ruvllm_engine *solo, ruvllm_engine *crowded, enum model which, int32_t n_answer)
{
    struct ruvllm_response *alone[N_CROWD], *mixed;
    struct likeness likeness = {.noise = 1e-3};
    uint64_t ids[N_CROWD];

    for (int i = 0; i < N_CROWD; i++)
        alone[i] = drain(solo, submit(solo, i, n_answer));
    for (int i = 0; i < N_CROWD; i++)
        ids[i] = submit(crowded, i, n_answer);
    for (int i = 0; i < N_CROWD; i++) {
        mixed = drain(crowded, ids[i]);
        compare(alone[i], mixed, &likeness);
        ruvllm_response_free(alone[i]);
        ruvllm_response_free(mixed);
    }
    judge(&likeness, which);
    wait_until_empty(crowded);
}

static void a_mixed_crowd_answers_as_each_alone(void **state)
{
    (void)state;
    for (int i = 0; i < N_MODELS; i++) {
        ruvllm_engine *engine = open_engine(paths[i], 0);

        compare_crowd(engine, engine, (enum model)i, N_ANSWER);
        assert_int_equal(stats_of(engine).preempted, 0);
        ruvllm_engine_close(engine);
    }
}

/* Room for a few: whoever loses its place is computed again, and libllama never lacks a cell the scheduler counted. */
static void pressure_changes_no_answer(void **state)
{
    (void)state;
    for (int i = FIRST_PRESSED; i < N_MODELS; i++) {
        uint64_t token = i == MAMBA ? 1 : 2048; // as the engine counts
        ruvllm_engine *roomy = open_engine(paths[i], 0), *tight = open_engine(paths[i], N_BLOCKS * 32 * token);

        compare_crowd(roomy, tight, (enum model)i, 64);
        assert_true(stats_of(tight).preempted > 0);
        assert_int_equal(stats_of(tight).kv_budget, N_BLOCKS * 32 * token);
        ruvllm_engine_close(roomy);
        ruvllm_engine_close(tight);
    }
}

/* If a cancelled one left anything in libllama's cache, it would soon be full: it has cells for few blocks. */
static void cancelling_leaves_nothing_behind(void **state)
{
    struct rv_rng rng;

    (void)state;
    rv_rng_init(&rng, 7);
    for (int i = 0; i < N_MODELS; i++) {
        ruvllm_engine *engine = open_engine(paths[i], N_BLOCKS * 32 * (i == MAMBA ? 1 : 2048));
        struct ruvllm_response *before = drain(engine, submit(engine, 5, N_ANSWER)), *after;
        struct likeness likeness = {.noise = 1e-3};

        for (int round = 0; round < N_ROUNDS; round++) {
            const struct timespec pause = {.tv_nsec = (long)rv_rng_below(&rng, 20000000)};
            uint64_t ids[N_CROWD];

            for (int k = 0; k < N_CROWD; k++)
                ids[k] = submit(engine, k, 150);
            nanosleep(&pause, NULL);
            for (int k = 0; k < N_CROWD; k++)
                assert_ok(ruvllm_engine_cancel(engine, ids[k], err));
        }
        wait_until_empty(engine);
        after = drain(engine, submit(engine, 5, N_ANSWER));
        compare(before, after, &likeness);
        judge(&likeness, (enum model)i);
        ruvllm_response_free(before);
        ruvllm_response_free(after);
        ruvllm_engine_close(engine);
    }
}

static void an_engine_embeds_beside_what_runs(void **state)
{
    int32_t tokens[100], n_tokens;
    struct ruvllm_input input = {.struct_size = sizeof(input), .tokens = tokens, .n_tokens = 100};
    struct ruvllm_request request = {.struct_size = sizeof(request), .input = &input};
    float alone[256], beside[256];

    (void)state;
    fill_prompt(9, tokens, 100);
    for (int i = 0; i < N_MODELS; i++) {
        ruvllm_model *model = open_model(paths[i], NULL);
        ruvllm_engine *engine = open_engine(paths[i], 0);
        uint64_t id = submit(engine, 1, N_ANSWER);
        double dot = 0;

        assert_ok(ruvllm_embed(model, &input, alone, 256, err));
        for (int round = 0; round < 6; round++) // more rounds than there are slots beside
            assert_ok(ruvllm_engine_embed(engine, &request, beside, 256, &n_tokens, err));
        assert_int_equal(n_tokens, 100);
        for (int k = 0; k < 256; k++)
            dot += (double)alone[k] * (double)beside[k];
        assert_true(dot > 1 - 1e-4);
        ruvllm_response_free(drain(engine, id));
        wait_until_empty(engine);
        ruvllm_engine_close(engine);
        ruvllm_model_close(model);
    }
}

static void what_it_lacks_is_said(void **state)
{
    ruvllm_engine *engine = open_engine(paths[QWEN2MOE], 0);
    int32_t tokens[1] = {1}, n_tokens;
    struct ruvllm_input input = {.struct_size = sizeof(input), .tokens = tokens, .n_tokens = 1};
    struct ruvllm_request request = {.struct_size = sizeof(request), .input = &input};
    struct ruvllm_engine_params params = ruvllm_engine_params_default();
    struct ruvllm_model_params model = model_params(NULL);
    struct ruvllm_error err;
    ruvllm_engine *other;
    int64_t generation;
    uint64_t id;

    (void)state;
    assert_fails(ruvllm_engine_save_session(engine, &request, test_temp_path(".kv"), &n_tokens, &err),
                 RUVLLM_UNSUPPORTED, err, "keeps no sessions");
    assert_fails(ruvllm_engine_load_session(engine, &request, test_temp_path(".kv"), &n_tokens, &err),
                 RUVLLM_UNSUPPORTED, err, "keeps no sessions");
    request.adapter = "any";
    assert_fails(ruvllm_engine_submit(engine, &request, &id, &err), RUVLLM_UNSUPPORTED, err, "backend 'llama'");
    assert_fails(ruvllm_engine_adapter_load(engine, "any", paths[QWEN2MOE], -1, &generation, &err), RUVLLM_UNSUPPORTED,
                 err, "backend 'llama'");
    ruvllm_engine_close(engine);
    model.max_batch = 512;
    model.max_context = 512;
    params.model = &model;
    params.max_sequences = 300;
    assert_fails(ruvllm_engine_open(&other, paths[QWEN2MOE], &params, &err), RUVLLM_INVALID, err,
                 "'max_sequences' can be at most");
    model.rope_scaling = RUVLLM_ROPE_NTK;
    params.max_sequences = 2;
    assert_fails(ruvllm_engine_open(&other, paths[QWEN2MOE], &params, &err), RUVLLM_UNSUPPORTED, err, "ntk");
}

int main(void)
{
    /* The oracle takes libllama's log to itself, so what is told in libllama's words comes before it. */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hybrid_takes_what_native_does_not_know),
        cmocka_unit_test(hybrid_leaves_native_what_it_knows),
        cmocka_unit_test(a_caller_of_before_gets_what_it_knew),
        cmocka_unit_test(native_says_what_to_do),
        cmocka_unit_test(the_vocabulary_alone_needs_no_backend),
        cmocka_unit_test(a_damaged_file_never_reaches_libllama),
        cmocka_unit_test(a_vocabulary_we_do_not_know_is_an_error),
        cmocka_unit_test(what_nobody_knows_is_told_in_libllamas_words),
        cmocka_unit_test(loading_can_be_stopped),
        cmocka_unit_test(answers_are_libllamas_to_the_token),
        cmocka_unit_test(going_back_changes_no_answer),
        cmocka_unit_test(both_backends_agree),
        cmocka_unit_test(a_mixed_crowd_answers_as_each_alone),
        cmocka_unit_test(pressure_changes_no_answer),
        cmocka_unit_test(cancelling_leaves_nothing_behind),
        cmocka_unit_test(an_engine_embeds_beside_what_runs),
        cmocka_unit_test(what_it_lacks_is_said),
    };

    return cmocka_run_group_tests(tests, make_models, NULL);
}
