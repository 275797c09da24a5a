/*
 * A second device: ggml's RPC backend served on loopback. It has memory of its own and knows no custom operations,
 * which is what a GPU looks like from here. What it computes must equal what the CPU computes, within the bounds of
 * the parity tests. Runs against a ggml built for this test only; nothing that ships contains the backend.
 */
#include "support/adapter_fixture.h"
#include "support/test.h"

#include "base/rng.h"
#include "engine/model.h"

#include <ggml-backend.h>
#include <arpa/inet.h>
#include <math.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

typedef void (*start_server_fn)(const char *endpoint, const char *cache_dir, size_t n_threads, size_t n_devices,
                                ggml_backend_dev_t *devices);
typedef ggml_backend_reg_t (*add_server_fn)(const char *endpoint);

static char endpoint[32];
static char device_name[64];
static pid_t server;

static void get_function(const char *name, void *out)
{
    ggml_backend_reg_t rpc = ggml_backend_reg_by_name("RPC");
    void *address = rpc ? ggml_backend_reg_get_proc_address(rpc, name) : NULL;

    assert_non_null(address);
    memcpy(out, &address, sizeof(address));
}

static struct sockaddr_in loopback(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static uint16_t free_port(void)
{
    struct sockaddr_in address = loopback(0);
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    close(fd);
    return ntohs(address.sin_port);
}

static void serve(void)
{
    ggml_backend_dev_t cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    start_server_fn start;

    prctl(PR_SET_PDEATHSIG, SIGKILL); /* never outlives the test */
    get_function("ggml_backend_rpc_start_server", &start);
    if (!freopen("/dev/null", "w", stdout))
        _exit(1);
    start(endpoint, NULL, 2, 1, &cpu);
    _exit(1);
}

static int start_server(void **state)
{
    uint16_t port = free_port();
    struct sockaddr_in address = loopback(port);
    add_server_fn add;

    (void)state;
    snprintf(endpoint, sizeof(endpoint), "127.0.0.1:%u", port);
    server = fork();
    assert_true(server >= 0);
    if (server == 0)
        serve();
    for (int i = 0; i < 300; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        int up = connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
        close(fd);
        if (up)
            break;
        usleep(100000);
    }
    get_function("ggml_backend_rpc_add_server", &add);
    ggml_backend_register(add(endpoint));
    for (size_t i = 0; i < ruvllm_device_count(); i++) {
        struct ruvllm_device_info info = {.struct_size = sizeof(info)};
        assert_ok(ruvllm_device_at(i, &info, err));
        if (strncmp(info.name, "RPC", 3) == 0)
            snprintf(device_name, sizeof(device_name), "%s", info.name);
    }
    assert_true(device_name[0] != '\0');
    return 0;
}

static int stop_server(void **state)
{
    (void)state;
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    return 0;
}

static ruvllm_model *open_on(const char *path, const char *device)
{
    struct ruvllm_model_params params = ruvllm_model_params_default();
    ruvllm_model *model;

    params.device = device;
    params.repack = false; /* the served device keeps weights as the file has them: the same kernels on both sides */
    params.max_context = 1024;
    params.attention = "ggml"; /* the same on both sides */
    assert_ok(ruvllm_model_open(&model, path, &params, err));
    return model;
}

static double kl_of_row(const float *p, const float *q, int32_t n, bool *same_top)
{
    double max_p = -INFINITY, max_q = -INFINITY, sum_p = 0, sum_q = 0, kl = 0;
    int32_t top_p = 0, top_q = 0;

    for (int32_t i = 0; i < n; i++) {
        if ((double)p[i] > max_p) {
            max_p = (double)p[i];
            top_p = i;
        }
        if ((double)q[i] > max_q) {
            max_q = (double)q[i];
            top_q = i;
        }
    }
    for (int32_t i = 0; i < n; i++) {
        sum_p += exp((double)p[i] - max_p);
        sum_q += exp((double)q[i] - max_q);
    }
    for (int32_t i = 0; i < n; i++) {
        double log_p = (double)p[i] - max_p - log(sum_p), log_q = (double)q[i] - max_q - log(sum_q);
        kl += exp(log_p) * (log_p - log_q);
    }
    *same_top = top_p == top_q;
    return kl;
}

static void compare_devices(const char *path)
{
    enum { N = 320 };
    ruvllm_model *cpu, *rpc;
    struct ruvllm_model_info info = {.struct_size = sizeof(info)};
    struct ruvllm_memory_stats stats = {.struct_size = sizeof(stats)};
    int32_t tokens[N];
    float *a, *b;
    double kl = 0;
    int n_same = 0, n;
    struct rv_rng rng;

    test_need_file(path);
    cpu = open_on(path, "cpu");
    rpc = open_on(path, device_name);
    assert_ok(ruvllm_model_info_get(rpc, &info, err));
    assert_string_equal(info.device, device_name);
    assert_ok(ruvllm_memory_stats_get(rpc, &stats, err));
    assert_true(stats.weights_allocated > 0); /* foreign memory: nothing is mapped into it */
    n = info.context < N ? info.context : N;
    rv_rng_init(&rng, 11);
    for (int i = 0; i < n; i++)
        tokens[i] = i ? 3 + (int32_t)rv_rng_below(&rng, (uint64_t)info.n_vocab - 3) : 1;
    a = malloc((size_t)n * (size_t)info.n_vocab * sizeof(float));
    b = malloc((size_t)n * (size_t)info.n_vocab * sizeof(float));
    assert_true(a && b);
    assert_ok(ruvllm_forward(cpu, tokens, (size_t)n, 0, a, (size_t)n * (size_t)info.n_vocab, err));
    assert_ok(ruvllm_forward(rpc, tokens, (size_t)n, 0, b, (size_t)n * (size_t)info.n_vocab, err));
    for (int i = 0; i < n; i++) {
        bool same;
        kl +=
            kl_of_row(a + (size_t)i * (size_t)info.n_vocab, b + (size_t)i * (size_t)info.n_vocab, info.n_vocab, &same);
        n_same += same;
    }
    printf("rpc %s: mean KL %.3g, top-1 %.4f\n", strrchr(path, '/') + 1, kl / n, (double)n_same / n);
    assert_true(kl / n <= 1e-4);
    assert_true((double)n_same / n >= 0.998 || n - n_same <= 1);
    free(a);
    free(b);
    ruvllm_model_close(cpu);
    ruvllm_model_close(rpc);
}

static void llama_f32_agrees(void **state)
{
    (void)state;
    compare_devices(test_data("models/stories260K.gguf"));
}

static void llama_f16_agrees(void **state)
{
    (void)state;
    compare_devices(test_data("models/stories15M-f16.gguf"));
}

static void quantised_weights_agree(void **state)
{
    (void)state;
    compare_devices(test_model("minimind2-26m-q8_0.gguf"));
}

static void windows_caps_and_post_norms_agree(void **state)
{
    (void)state;
    compare_devices(test_model("synth-gemma2.gguf"));
}

static void fused_projections_and_long_rope_agree(void **state)
{
    (void)state;
    compare_devices(test_model("synth-phi3.gguf"));
}

static void an_answer_is_the_same_on_both_devices(void **state)
{
    const char *path = test_data("models/stories260K.gguf");
    struct ruvllm_generate_params params = ruvllm_generate_params_default();
    struct ruvllm_input input = {.struct_size = sizeof(input), .text = "Once upon a time", .text_len = 16};
    ruvllm_model *models[2] = {open_on(path, "cpu"), open_on(path, device_name)};
    struct ruvllm_response *responses[2];

    (void)state;
    params.temperature = 0;
    params.repetition_penalty = 1;
    params.max_tokens = 64;
    for (int i = 0; i < 2; i++)
        assert_ok(ruvllm_generate(models[i], &input, &params, &responses[i], err));
    assert_string_equal(responses[0]->text, responses[1]->text);
    for (int i = 0; i < 2; i++) {
        ruvllm_response_free(responses[i]);
        ruvllm_model_close(models[i]);
    }
}

/* An engine's sequences lie in cells there; each must answer as it does alone. */
static void an_engine_serves_many_there(void **state)
{
    enum { N = 6 };
    static const char *const prompts[N] = {"Once upon a time",  "The little dog",   "Lily and Tom went to",
                                           "In the big forest", "One day, a robot", "Mum said that"};
    const char *path = test_data("models/stories260K.gguf");
    struct ruvllm_generate_params params = ruvllm_generate_params_default();
    struct ruvllm_model_params model_params = ruvllm_model_params_default();
    struct ruvllm_engine_params engine_params = ruvllm_engine_params_default();
    struct ruvllm_model_info info = {.struct_size = sizeof(info)};
    struct ruvllm_response *served[N];
    ruvllm_engine *engine;
    ruvllm_model *alone;
    uint64_t ids[N];

    (void)state;
    params.temperature = 0;
    params.repetition_penalty = 1;
    params.max_tokens = 48;
    model_params.device = device_name;
    model_params.repack = false;
    model_params.max_context = 512;
    engine_params.model = &model_params;
    engine_params.max_sequences = 4; // so that some wait for another's cells
    assert_ok(ruvllm_engine_open(&engine, path, &engine_params, err));
    assert_ok(ruvllm_model_info_get(ruvllm_engine_model(engine), &info, err));
    assert_false(info.has_tiers);
    for (int i = 0; i < N; i++) {
        struct ruvllm_input input = {.struct_size = sizeof(input), .text = prompts[i], .text_len = strlen(prompts[i])};
        struct ruvllm_request request = {.struct_size = sizeof(request), .input = &input, .params = &params};

        assert_ok(ruvllm_engine_submit(engine, &request, &ids[i], err));
    }
    for (int i = 0; i < N; i++) {
        struct ruvllm_event event = {.struct_size = sizeof(event)};

        do
            assert_ok(ruvllm_engine_next_event(engine, ids[i], 60000, &event, err));
        while (event.type == RUVLLM_EVENT_TEXT);
        assert_int_equal(event.type, RUVLLM_EVENT_DONE);
        served[i] = event.response;
    }
    ruvllm_engine_close(engine); /* before: ggml's client of that device is not for two threads */
    alone = open_on(path, device_name);
    for (int i = 0; i < N; i++) {
        struct ruvllm_input input = {.struct_size = sizeof(input), .text = prompts[i], .text_len = strlen(prompts[i])};
        struct ruvllm_response *own;

        assert_ok(ruvllm_generate(alone, &input, &params, &own, err));
        assert_string_equal(served[i]->text, own->text);
        ruvllm_response_free(served[i]);
        ruvllm_response_free(own);
    }
    ruvllm_model_close(alone);
}

/* Logits of the last rows of three sequences of eight tokens: two adapters, none, one of them; for free(). */
enum { ADAPTED_SEQS = 3, ADAPTED_TOKENS = 8, ADAPTED_ROWS = ADAPTED_SEQS * ADAPTED_TOKENS };

static float *run_adapted(const char *path, const char *device, int32_t *n_vocab)
{
    struct ruvllm_model_params params = ruvllm_model_params_default();
    struct adapter_fixture fixture = {.seed = 5, .rank = 6, .head_rank = 2, .strength = 0.2f};
    struct rv_adapter_mix mixes[2] = {{.n_adapters = 2, .weights = {1, 0.5f}}, {.n_adapters = 1, .weights = {1}}};
    const struct rv_adapter_mix *const pointers[ADAPTED_SEQS] = {&mixes[0], NULL, &mixes[1]};
    int32_t tokens[ADAPTED_ROWS], pos[ADAPTED_ROWS], seq[ADAPTED_ROWS], out_rows[ADAPTED_SEQS];
    struct rv_decoder_config config = {.max_rows = ADAPTED_ROWS, .max_context = 64};
    struct rv_batch batch = {.n_rows = ADAPTED_ROWS,
                             .tokens = tokens,
                             .pos = pos,
                             .seq = seq,
                             .adapters = seq,
                             .mixes = pointers,
                             .n_mixes = ADAPTED_SEQS,
                             .out_rows = out_rows,
                             .n_out = ADAPTED_SEQS};
    struct rv_adapter *adapters[2];
    struct ruvllm_model *model;
    struct rv_decoder *decoder;
    struct rv_kv_cache *kv;
    float *rows, *logits;

    params.device = device;
    params.repack = false;
    params.max_context = 64;
    assert_ok(rv_model_open(&model, path, &params, false, err));
    assert_ok(rv_kv_cache_new(&kv, &model->hparams, model->device, 64, err));
    config.hparams = &model->hparams;
    config.weights = &model->weights;
    config.device = model->device;
    config.kv = kv;
    assert_ok(rv_decoder_new(&decoder, &config, err));
    fixture.hparams = &model->hparams;
    fixture.manifest = &model->manifest;
    for (int i = 0; i < 2; i++) {
        fixture.seed++;
        mixes[0].adapters[i] = mixes[1].adapters[0] = adapters[i] = adapter_fixture_new(&fixture);
    }
    for (int32_t i = 0; i < ADAPTED_ROWS; i++) {
        tokens[i] = 5 + 7 * i;
        seq[i] = i / ADAPTED_TOKENS;
        pos[i] = i % ADAPTED_TOKENS;
        out_rows[i / ADAPTED_TOKENS] = i;
    }
    assert_ok(rv_decoder_run(decoder, &batch, RV_DECODER_LOGITS, &rows, err));
    *n_vocab = model->hparams.n_vocab;
    logits = malloc(ADAPTED_SEQS * (size_t)*n_vocab * sizeof(float));
    assert_non_null(logits);
    memcpy(logits, rows, ADAPTED_SEQS * (size_t)*n_vocab * sizeof(float));
    rv_decoder_free(decoder);
    rv_kv_cache_free(kv);
    for (int i = 0; i < 2; i++)
        rv_adapter_unref(adapters[i]);
    rv_model_close(model);
    return logits;
}

static void rows_with_adapters_agree(void **state)
{
    const char *path = test_data("models/stories15M-f16.gguf");
    int32_t n_vocab;
    float *cpu = run_adapted(path, "cpu", &n_vocab), *rpc = run_adapted(path, device_name, &n_vocab);

    (void)state;
    for (int i = 0; i < ADAPTED_SEQS; i++) {
        size_t at = (size_t)i * (size_t)n_vocab;
        bool same;
        double kl = kl_of_row(cpu + at, rpc + at, n_vocab, &same);

        printf("rpc adapters, row %d: KL %.3g\n", i, kl);
        assert_true(kl <= 1e-4);
    }
    free(cpu);
    free(rpc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_f32_agrees),
        cmocka_unit_test(llama_f16_agrees),
        cmocka_unit_test(quantised_weights_agree),
        cmocka_unit_test(windows_caps_and_post_norms_agree),
        cmocka_unit_test(fused_projections_and_long_rope_agree),
        cmocka_unit_test(an_answer_is_the_same_on_both_devices),
        cmocka_unit_test(an_engine_serves_many_there),
        cmocka_unit_test(rows_with_adapters_agree),
    };

    test_need_data();
    if (!ggml_backend_reg_by_name("RPC")) {
        fprintf(stderr, "\n*** REAL-DATA TEST SKIPPED: ggml with its RPC backend is not there; run `make setup`\n\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
