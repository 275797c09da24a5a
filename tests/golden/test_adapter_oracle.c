/*
 * LoRA files of ours in libllama: it must read them, and answer as we do with the same file. Adapters are random, with
 * changes large enough that the answers are others than the model's own.
 *
 * Tolerance: libllama computes A x with x rounded to 16 bits where A has 16, we with 32; both add B (A x) to sums that
 * differ in order. A forgotten matrix or scale gives 1e-2 and more. Where its two best tokens are closer than 0.02 the
 * choice may differ.
 */
#include "divergence.h"
#include "engine/model.h"
#include "kv/kv_seq.h"
#include "model/adapter_file.h"
#include "oracle.h"
#include "support/adapter_fixture.h"
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONTEXT = 128, N_PROMPT = 12, N_ANSWER = 32 };
static const double MAX_KL = 1e-4;
static const float CLOSE = 0.02f;

/* A model of ours and one sequence. */
struct bed {
    struct ruvllm_model *model;
    struct rv_adapter_file_base base;
    struct rv_block_pool *pool;
    struct rv_decoder *decoder;
    struct rv_kv_seq seq;
};

static void open_bed(struct bed *b, const char *path)
{
    struct ruvllm_model_params params = ruvllm_model_params_default();
    struct rv_tier_policy policy = rv_tier_policy_single(RV_KV_BLOCK_F16);
    struct rv_block_pool_config pool = {.budget = (size_t)256 << 20};
    struct rv_decoder_config config;

    test_need_file(path);
    *b = (struct bed){0};
    params.max_context = CONTEXT;
    params.n_threads = 1;
    assert_ok(rv_model_open(&b->model, path, &params, false, err));
    rv_adapter_file_base_init(&b->base, &b->model->hparams, &b->model->manifest);
    pool.n_layers = b->model->hparams.n_layers;
    pool.n_kv_heads = b->model->hparams.n_kv_heads;
    pool.head_dim = b->model->hparams.head_dim;
    assert_ok(rv_block_pool_new(&b->pool, &pool, err));
    config = (struct rv_decoder_config){.hparams = &b->model->hparams,
                                        .weights = &b->model->weights,
                                        .device = b->model->device,
                                        .pool = b->pool,
                                        .max_rows = CONTEXT,
                                        .max_context = CONTEXT};
    assert_ok(rv_decoder_new(&b->decoder, &config, err));
    assert_ok(rv_kv_seq_init(&b->seq, b->pool, &policy, CONTEXT, err));
}

static void close_bed(struct bed *b)
{
    rv_decoder_free(b->decoder);
    rv_kv_seq_release(&b->seq);
    rv_block_pool_free(b->pool);
    rv_model_close(b->model);
}

/* The logits of the last of some tokens that come next; valid until the next call. */
static const float *advance(struct bed *b, const struct rv_adapter_mix *mix, const int32_t *tokens, int32_t n)
{
    int32_t pos[CONTEXT], zeros[CONTEXT] = {0}, last = n - 1;
    struct rv_kv_seq *seq = &b->seq;
    struct rv_batch batch = {.n_rows = n,
                             .tokens = tokens,
                             .pos = pos,
                             .seq = zeros,
                             .seqs = &seq,
                             .adapters = mix ? zeros : NULL,
                             .mixes = &mix,
                             .n_mixes = 1,
                             .out_rows = &last,
                             .n_out = 1};
    float *logits;

    for (int32_t i = 0; i < n; i++)
        pos[i] = seq->len + i;
    assert_true(rv_kv_seq_reserve(seq, n));
    assert_ok(rv_decoder_run(b->decoder, &batch, RV_DECODER_LOGITS, &logits, err));
    rv_kv_seq_advance(seq, n);
    return logits;
}

static float margin(const float *logits, size_t n, int32_t best)
{
    float second = -1e30f;

    for (size_t i = 0; i < n; i++)
        second = (int32_t)i != best && logits[i] > second ? logits[i] : second;
    return logits[best] - second;
}

/* Both answer, ours led along libllama's tokens. With a mix, libllama has the same as a file. */
static void compare_answers(struct bed *b, struct oracle *oracle, const struct rv_adapter_mix *mix, const char *what,
                            int32_t answer[N_ANSWER])
{
    size_t n_vocab = (size_t)oracle_n_vocab(oracle);
    float *first = malloc(n_vocab * sizeof(*first));
    const float *theirs = first, *ours;
    int32_t prompt[N_PROMPT];
    double kl = 0;

    assert_non_null(first);
    for (int32_t i = 0; i < N_PROMPT; i++)
        prompt[i] = i ? 300 + 7 * i : 1;
    rv_kv_seq_clear(&b->seq);
    oracle_forward(oracle, prompt, N_PROMPT, N_PROMPT - 1, 512, first);
    ours = advance(b, mix, prompt, N_PROMPT);
    for (size_t i = 0; i < N_ANSWER; i++) {
        int32_t mine = divergence_argmax(ours, n_vocab);
        double apart = divergence_kl(theirs, ours, n_vocab, NULL);

        answer[i] = divergence_argmax(theirs, n_vocab);
        kl = apart > kl ? apart : kl;
        if (mine != answer[i] && margin(theirs, n_vocab, answer[i]) > CLOSE)
            fail_msg("%s: token %zu is %d in libllama and %d here", what, i, answer[i], mine);
        theirs = oracle_decode(oracle, answer[i]);
        ours = advance(b, mix, &answer[i], 1);
    }
    print_message("%s: largest KL %.2e over %d tokens\n", what, kl, N_ANSWER);
    assert_true(kl <= MAX_KL);
    free(first);
}

/* Random numbers, written as a LoRA file, read by both. */
static void check_model(const char *path, int32_t rank, int32_t head_rank)
{
    struct oracle_params params = {.n_ctx = CONTEXT, .n_threads = 1};
    int32_t with[N_ANSWER], without[N_ANSWER];
    const char *lora = test_temp_path(".gguf");
    struct rv_adapter_file *file;
    struct rv_adapter *adapter;
    struct rv_adapter_mix mix;
    struct oracle *oracle;
    struct bed b;

    open_bed(&b, path);
    adapter = adapter_fixture_new(&(struct adapter_fixture){.hparams = &b.model->hparams,
                                                            .manifest = &b.model->manifest,
                                                            .seed = 5,
                                                            .rank = rank,
                                                            .head_rank = head_rank,
                                                            .strength = 0.2f});
    assert_ok(rv_adapter_file_from(&file, adapter, &b.base, err));
    assert_ok(rv_adapter_file_write(file, &b.base, lora, RUVLLM_ADAPTER_GGUF, err));
    rv_adapter_file_close(file);
    if (rank && !head_rank) { // a change of the head's own matrix is not read back
        rv_adapter_unref(adapter);
        assert_ok(rv_adapter_file_open(&file, lora, &b.base, err));
        assert_ok(rv_adapter_file_adapter(file, &b.base, &adapter, err));
        rv_adapter_file_close(file);
    }
    mix = (struct rv_adapter_mix){.n_adapters = 1, .adapters = {adapter}, .weights = {1.0f}};
    oracle = oracle_open(path, &params);
    compare_answers(&b, oracle, NULL, strrchr(path, '/') + 1, without);
    assert_true(oracle_use_lora(oracle, lora));
    compare_answers(&b, oracle, &mix, rank ? head_rank ? "  with layers and head" : "  with layers" : "  with the head",
                    with);
    assert_memory_not_equal(with, without, sizeof(with));
    oracle_close(oracle);
    rv_adapter_unref(adapter);
    close_bed(&b);
}

static void real_models_answer_as_in_libllama(void **state)
{
    (void)state;
    check_model(test_data("models/stories15M-f16.gguf"), 8, 0);
    check_model(test_data("models/minimind2-26m-f16.gguf"), 4, 0);
}

static void families_answer_as_in_libllama(void **state)
{
    (void)state;
    check_model(test_model("synth-qwen2.gguf"), 4, 0);
    check_model(test_model("synth-phi3.gguf"), 4, 0);
    check_model(test_model("synth-gemma2.gguf"), 4, 0);
}

static void heads_inputs_work_in_libllama(void **state)
{
    (void)state;
    check_model(test_model("synth-llama3.gguf"), 0, 2);
    check_model(test_model("synth-qwen2.gguf"), 4, 2);
}

/* What libllama would misread, it must refuse: each pair of ours has its own scale. */
static void own_files_are_refused_by_libllama(void **state)
{
    const char *path = test_data("models/stories15M-f16.gguf"), *own = test_temp_path(".gguf");
    struct oracle_params params = {.n_ctx = CONTEXT, .n_threads = 1};
    struct rv_adapter_file *file;
    struct rv_adapter *adapter;
    struct oracle *oracle;
    struct bed b;

    (void)state;
    open_bed(&b, path);
    adapter = adapter_fixture_new(&(struct adapter_fixture){
        .hparams = &b.model->hparams, .manifest = &b.model->manifest, .seed = 5, .rank = 2, .strength = 0.2f});
    assert_ok(rv_adapter_file_from(&file, adapter, &b.base, err));
    assert_ok(rv_adapter_file_write(file, &b.base, own, RUVLLM_ADAPTER_OWN, err));
    rv_adapter_file_close(file);
    rv_adapter_unref(adapter);
    oracle = oracle_open(path, &params);
    assert_false(oracle_use_lora(oracle, own));
    oracle_close(oracle);
    close_bed(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(real_models_answer_as_in_libllama),
        cmocka_unit_test(families_answer_as_in_libllama),
        cmocka_unit_test(heads_inputs_work_in_libllama),
        cmocka_unit_test(own_files_are_refused_by_libllama),
    };

    test_need_data();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
