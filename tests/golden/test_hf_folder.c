/*
 * A Hugging Face folder is the model its GGUF file is: the same tokens, logits and template, from one file or from
 * shards, in every family read from folders. Tokenizers give the published ids.
 */
#include "engine/model.h"
#include "engine/vocab_loader.h"
#include "model/hf_specials.h"
#include "support/hf_writer.h"
#include "support/maker_file.h"
#include "support/test.h"
#include "support/vocab_from_gguf.h"
#include "support/vocab_vectors.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_ANSWER = 48, N_TOKENS = 96, MAX_ARGS = 24 };

static ruvllm_model *open_model(const char *path)
{
    struct ruvllm_model_params params = ruvllm_model_params_default();
    ruvllm_model *model;

    params.max_context = 256;
    assert_ok(ruvllm_model_open(&model, path, &params, err));
    return model;
}

static struct ruvllm_response *answer(ruvllm_model *model, const char *prompt)
{
    struct ruvllm_generate_params params = ruvllm_generate_params_default();
    struct ruvllm_input input = {
        .struct_size = sizeof(input), .text = prompt, .text_len = strlen(prompt), .text_is_trusted = true};
    struct ruvllm_response *response;

    params.temperature = 0;
    params.repetition_penalty = 1;
    params.max_tokens = N_ANSWER;
    assert_ok(ruvllm_generate(model, &input, &params, &response, err));
    return response;
}

static void expect_same_answer(ruvllm_model *a, ruvllm_model *b, const char *prompt)
{
    struct ruvllm_response *first = answer(a, prompt), *second = answer(b, prompt);

    assert_true(first->n_tokens > 8);
    assert_int_equal(first->n_tokens, second->n_tokens);
    assert_memory_equal(first->tokens, second->tokens, first->n_tokens * sizeof(*first->tokens));
    assert_string_equal(first->text, second->text);
    ruvllm_response_free(first);
    ruvllm_response_free(second);
}

/* Largest difference of two models' logits over a run of tokens, in units of their spread. */
static double logits_apart(ruvllm_model *a, ruvllm_model *b)
{
    size_t n_vocab = (size_t)a->hparams.n_vocab, n = n_vocab * N_TOKENS;
    float *first = malloc(n * sizeof(*first)), *second = malloc(n * sizeof(*second));
    int32_t tokens[N_TOKENS];
    double apart = 0, square = 0;

    assert_int_equal(a->hparams.n_vocab, b->hparams.n_vocab);
    assert_true(first && second);
    for (int i = 0; i < N_TOKENS; i++)
        tokens[i] = (int32_t)((size_t)(i * 37 + 5) % n_vocab);
    assert_ok(ruvllm_forward(a, tokens, N_TOKENS, 0, first, n, err));
    assert_ok(ruvllm_forward(b, tokens, N_TOKENS, 0, second, n, err));
    for (size_t i = 0; i < n; i++) {
        apart = fmax(apart, fabs((double)first[i] - (double)second[i]));
        square += (double)first[i] * (double)first[i];
    }
    free(first);
    free(second);
    return apart / sqrt(square / (double)n);
}

static void expect_same_model(const char *gguf, const char *folder, const char *prompt, double tolerance)
{
    ruvllm_model *a = open_model(gguf), *b = open_model(folder);
    double apart;

    assert_string_equal(a->architecture, b->architecture);
    assert_int_equal(a->manifest.tied, b->manifest.tied);
    assert_int_equal(a->manifest.n_params, b->manifest.n_params);
    assert_int_equal(rv_vocab_bos(a->vocab), rv_vocab_bos(b->vocab));
    assert_int_equal(rv_vocab_eos(a->vocab), rv_vocab_eos(b->vocab));
    assert_int_equal(rv_vocab_adds_bos(a->vocab), rv_vocab_adds_bos(b->vocab));
    assert_true((a->template_source != NULL) == (b->template_source != NULL));
    if (a->template_source)
        assert_string_equal(a->template_source, b->template_source);
    apart = logits_apart(a, b);
    printf("logits are %g of their spread apart\n", apart);
    if (!(apart <= tolerance))
        fail_msg("logits of '%s' are %g apart", gguf, apart);
    if (prompt)
        expect_same_answer(a, b, prompt);
    ruvllm_model_close(a);
    ruvllm_model_close(b);
}

/* ---- real models --------------------------------------------------------------------------- */

static void stories_are_the_same_from_a_folder(void **state)
{
    const char *gguf = test_data("models/stories15M-f16.gguf"), *folder = hf_writer_folder();

    (void)state;
    test_need_file(gguf);
    hf_writer_model(gguf, folder, NULL);
    expect_same_model(gguf, folder, "Once upon a time, there was a little", 0);
}

static void a_chat_model_is_the_same_from_shards(void **state)
{
    const char *gguf = test_data("models/minimind2-26m-f16.gguf"), *folder = hf_writer_folder();
    const struct hf_writer_options options = {.n_shards = 3, .merges_as_pairs = true};

    (void)state;
    test_need_file(gguf);
    hf_writer_model(gguf, folder, &options);
    expect_same_model(gguf, folder,
                      "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n", 0);
}

static void a_repeated_head_is_left_out_where_it_is_tied(void **state)
{
    const char *gguf = test_data("models/stories15M-f16.gguf"), *folder = hf_writer_folder();
    const struct hf_writer_options options = {.repeats_head = true, .metaspace = true};

    (void)state;
    test_need_file(gguf);
    hf_writer_model(gguf, folder, &options);
    expect_same_model(gguf, folder, "Once upon a time", 0);
}

/* Norms in 16 bits become the floats they stand for. */
static void norms_of_16_bits_are_widened(void **state)
{
    const char *gguf = test_data("models/stories260K.gguf"), *folder = hf_writer_folder();
    const struct hf_writer_options options = {.norms_as_bf16 = true};
    struct rv_gguf_file *a, *b;
    const struct rv_gguf_tensor *from, *to;

    (void)state;
    test_need_file(gguf);
    hf_writer_model(gguf, folder, &options);
    assert_ok(rv_gguf_file_open(&a, gguf, err));
    assert_ok(rv_gguf_file_open(&b, folder, err));
    from = rv_gguf_file_tensor_find(a, "blk.1.ffn_norm.weight");
    to = rv_gguf_file_tensor_find(b, "blk.1.ffn_norm.weight");
    assert_true(from && to && to->type == GGML_TYPE_F32 && to->ne[0] == from->ne[0]);
    for (int64_t i = 0; i < from->ne[0]; i++) {
        uint32_t bits, widened;

        memcpy(&bits, (const float *)from->data + i, sizeof(bits));
        memcpy(&widened, (const float *)to->data + i, sizeof(widened));
        assert_int_equal(widened, bits & 0xFFFF0000u);
    }
    rv_gguf_file_close(a);
    rv_gguf_file_close(b);
}

/* A folder is described and converted like a file. */
static void a_folder_is_inspected_like_a_file(void **state)
{
    const char *gguf = test_data("models/stories260K.gguf"), *folder = hf_writer_folder();
    char *json;

    (void)state;
    test_need_file(gguf);
    hf_writer_model(gguf, folder, NULL);
    assert_ok(ruvllm_inspect(folder, &json, err));
    assert_non_null(strstr(json, "blk.0.attn_q.weight"));
    assert_null(strstr(json, "\"error\""));
    ruvllm_free(json);
}

/* ---- families ------------------------------------------------------------------------------ */

/* Norms of a file, replaced by what is left of them when 1 is taken away and added again: then the way back is exact.
 */
static void round_norms(const char *path)
{
    struct rv_gguf_file *file;
    int fd = open(path, O_WRONLY);

    assert_true(fd >= 0);
    assert_ok(rv_gguf_file_open(&file, path, err));
    for (size_t i = 0; i < rv_gguf_file_n_tensors(file); i++) {
        const struct rv_gguf_tensor *t = rv_gguf_file_tensor(file, i);
        const float *values = t->data;

        for (int64_t j = 0; t->n_dims == 1 && t->type == GGML_TYPE_F32 && j < t->ne[0]; j++) {
            volatile float less = values[j] - 1.0f; // a register may hold more
            float back = less + 1.0f;

            assert_int_equal(pwrite(fd, &back, sizeof(back), (off_t)(t->offset + (uint64_t)j * sizeof(back))),
                             sizeof(back));
        }
    }
    rv_gguf_file_close(file);
    close(fd);
}

static void expect_family(const char *recipe, double tolerance, const struct hf_writer_options *options)
{
    const char *gguf = test_temp_path(".gguf"), *folder = hf_writer_folder();
    char text[512], *argv[MAX_ARGS];
    struct maker_spec spec;
    int argc = 0;

    snprintf(text, sizeof(text), "%s", recipe);
    for (char *save, *word = strtok_r(text, " ", &save); word && argc < MAX_ARGS; word = strtok_r(NULL, " ", &save))
        argv[argc++] = word;
    assert_ok(maker_spec_parse(&spec, argc, argv, err));
    assert_ok(maker_file_write(&spec, gguf, err));
    if (maker_spec_is_gemma(&spec))
        round_norms(gguf);
    hf_writer_model(gguf, folder, options);
    expect_same_model(gguf, folder, NULL, tolerance);
}

/* Factors are computed in other precision here and there, and layers make rounding grow (0.00006 measured). */
static const double CLOSE = 1e-2;

static void llama_with_scaled_rope_is_the_same(void **state)
{
    (void)state;
    expect_family(
        "--arch llama --type f16 --rope-scaling llama3 --rope-factor 8 --rope-original 128 --rope-base 500000", CLOSE,
        NULL);
    expect_family("--arch llama --type bf16 --rope-scaling linear --rope-factor 4 --rope-original 128", 0, NULL);
    expect_family("--arch llama --type f32 --tied --heads 6 --embd 192 --head-dim 32 --kv-heads 2", 0, NULL);
}

static void qwen_is_the_same(void **state)
{
    (void)state;
    expect_family("--arch qwen2 --type f16 --rope-base 1000000", 0, NULL);
    expect_family("--arch qwen2 --type f32 --tied --rope-scaling yarn --rope-factor 4 --rope-original 128", 0, NULL);
    expect_family("--arch qwen3 --type f16 --rope-base 1000000", 0, NULL);
}

/* 0.1 ln 4 + 1 is what is computed anyway. */
static void a_stated_yarn_magnitude_is_not_applied_twice(void **state)
{
    const struct hf_writer_options options = {.yarn_attention = 1.138629436};

    (void)state;
    expect_family("--arch qwen2 --type f32 --tied --rope-scaling yarn --rope-factor 4 --rope-original 128", CLOSE,
                  &options);
}

static void phi_is_the_same(void **state)
{
    (void)state;
    expect_family("--arch phi3 --type f16 --kv-heads 4 --rope-scaling longrope --rope-factor 2 --rope-original 256 "
                  "--ctx 512",
                  CLOSE, NULL);
    expect_family("--arch phi3 --type f32 --tied --rot 48 --rope-scaling longrope --rope-factor 2 --rope-original 256 "
                  "--ctx 512",
                  CLOSE, NULL);
}

static void gemma_is_the_same(void **state)
{
    (void)state;
    expect_family("--arch gemma2 --type f16 --layers 6 --window 64 --attn-softcap 4 --attn-gain 4 --final-softcap 20 "
                  "--logit-gain 8",
                  0, NULL);
    expect_family("--arch gemma3 --type f32 --layers 7 --kv-heads 1 --window 64 --rope-base 1000000 "
                  "--rope-base-local 10000 --rope-scaling linear --rope-factor 8",
                  0, NULL);
}

/* ---- tokenizers ---------------------------------------------------------------------------- */

struct folder_vocab {
    struct rv_gguf_map map;
    struct rv_gguf_file *file;
    struct rv_vocab *vocab;
};

/* The vocabulary of a folder that has nothing else. */
static void folder_vocab_open(struct folder_vocab *v, const char *path, const char *name)
{
    const struct rv_hf_config config = {.arch = "llama", .bos = -1};
    struct rv_hf_tokenizer tokenizer;
    struct rv_gguf_image image;
    int folder = open(path, O_RDONLY | O_DIRECTORY);

    assert_true(folder >= 0);
    rv_gguf_image_init(&image);
    assert_ok(rv_hf_tokenizer_read(&tokenizer, folder, 1 << 20, &image, err));
    assert_ok(rv_hf_specials_read(&tokenizer, &config, folder, &image, err));
    rv_gguf_image_str(&image, "general.name", (struct rv_str){name, strlen(name)});
    assert_ok(rv_gguf_image_map(&image, NULL, 0, &v->map, err));
    assert_ok(rv_gguf_file_open_memory(&v->file, v->map.data, v->map.len, err));
    assert_ok(rv_vocab_loader_open(v->file, &v->vocab, err));
    rv_hf_tokenizer_release(&tokenizer);
    rv_gguf_image_release(&image);
    close(folder);
}

static void folder_vocab_close(struct folder_vocab *v)
{
    rv_vocab_free(v->vocab);
    rv_gguf_file_close(v->file);
    rv_gguf_map_close(&v->map);
}

static void expect_vectors(const char *gguf, const char *vectors, const struct hf_writer_options *options,
                           const char *description)
{
    const char *folder = hf_writer_folder();
    struct folder_vocab v;
    struct test_vocab original;
    char inp[256], out[256];

    test_need_file(test_data(gguf));
    assert_ok(rv_gguf_file_open(&original.file, test_data(gguf), err));
    hf_writer_tokenizer(original.file, folder, options);
    rv_gguf_file_close(original.file);
    folder_vocab_open(&v, folder, "Phi-3");
    assert_string_equal(rv_vocab_description(v.vocab), description);
    snprintf(inp, sizeof(inp), "%s.inp", vectors);
    snprintf(out, sizeof(out), "%s.out", vectors);
    assert_true(vocab_vectors_check(v.vocab, test_data(inp), test_data(out), true) >= 40);
    folder_vocab_close(&v);
}

static void a_published_tokenizer_gives_the_published_ids(void **state)
{
    struct folder_vocab v;

    (void)state;
    test_need_file(test_data("vocab/hf/mistral-nemo/tokenizer.json"));
    folder_vocab_open(&v, test_data("vocab/hf/mistral-nemo"), "nemo");
    assert_string_equal(rv_vocab_description(v.vocab), "bpe/tekken");
    assert_true(rv_vocab_adds_bos(v.vocab));
    assert_int_equal(rv_vocab_bos(v.vocab), 1);
    assert_true(vocab_vectors_check(v.vocab, test_data("vocab/derived/mistral-nemo-tekken.inp"),
                                    test_data("vocab/derived/mistral-nemo-tekken.out"), true) >= 40);
    folder_vocab_close(&v);
}

static void byte_level_vocabularies_give_the_published_ids(void **state)
{
    const struct hf_writer_options pairs = {.merges_as_pairs = true};

    (void)state;
    expect_vectors("models/minimind2-26m-f16.gguf", "vocab/derived/minimind2", NULL, "bpe/gpt-2");
    expect_vectors("vocab/ggml/ggml-vocab-gpt-2.gguf", "vocab/ggml/ggml-vocab-gpt-2.gguf", &pairs, "bpe/gpt-2");
    expect_vectors("vocab/ggml/ggml-vocab-llama-bpe.gguf", "vocab/ggml/ggml-vocab-llama-bpe.gguf", NULL,
                   "bpe/llama-bpe");
    expect_vectors("vocab/ggml/ggml-vocab-qwen2.gguf", "vocab/ggml/ggml-vocab-qwen2.gguf", &pairs, "bpe/qwen2");
}

static void piece_vocabularies_give_the_published_ids(void **state)
{
    const struct hf_writer_options newer = {.merges_as_pairs = true, .metaspace = true};

    (void)state;
    expect_vectors("vocab/ggml/ggml-vocab-llama-spm.gguf", "vocab/ggml/ggml-vocab-llama-spm.gguf", NULL, "spm");
    expect_vectors("vocab/ggml/ggml-vocab-phi-3.gguf", "vocab/ggml/ggml-vocab-phi-3.gguf", &newer, "spm");
    expect_vectors("vocab/ggml/ggml-vocab-gemma-4.gguf", "vocab/ggml/ggml-vocab-gemma-4.gguf", NULL, "spm");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stories_are_the_same_from_a_folder),
        cmocka_unit_test(a_chat_model_is_the_same_from_shards),
        cmocka_unit_test(a_repeated_head_is_left_out_where_it_is_tied),
        cmocka_unit_test(norms_of_16_bits_are_widened),
        cmocka_unit_test(a_folder_is_inspected_like_a_file),
        cmocka_unit_test(llama_with_scaled_rope_is_the_same),
        cmocka_unit_test(qwen_is_the_same),
        cmocka_unit_test(a_stated_yarn_magnitude_is_not_applied_twice),
        cmocka_unit_test(phi_is_the_same),
        cmocka_unit_test(gemma_is_the_same),
        cmocka_unit_test(a_published_tokenizer_gives_the_published_ids),
        cmocka_unit_test(byte_level_vocabularies_give_the_published_ids),
        cmocka_unit_test(piece_vocabularies_give_the_published_ids),
    };

    test_need_data();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
