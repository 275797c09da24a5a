/*
 * Published test vectors: each text of an .inp file gives exactly the ids of its line in the .out file, and the ids
 * give the text back.
 */
#include "base/alloc.h"
#include "support/test.h"
#include "support/vocab_from_gguf.h"
#include "support/vocab_vectors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yyjson.h>

#define JOINED_MAX ((size_t)16 << 20)

static void check_file(const char *name, bool round_trip)
{
    struct test_vocab vocab;
    char gguf[256], inp[256], out[256];

    snprintf(gguf, sizeof(gguf), "vocab/ggml/ggml-vocab-%s.gguf", name);
    snprintf(inp, sizeof(inp), "%s.inp", gguf);
    snprintf(out, sizeof(out), "%s.out", gguf);
    test_vocab_open(&vocab, test_data(gguf));
    assert_true(vocab_vectors_check(vocab.vocab, test_data(inp), test_data(out), round_trip) >= 40);
    test_vocab_close(&vocab);
}

static void qwen2_vectors_are_exact(void **state)
{
    (void)state;
    check_file("qwen2", true);
}

static void llama_bpe_vectors_are_exact(void **state)
{
    (void)state;
    check_file("llama-bpe", true);
}

static void llama_spm_vectors_are_exact(void **state)
{
    (void)state;
    check_file("llama-spm", true);
}

static void phi_3_vectors_are_exact(void **state)
{
    (void)state;
    check_file("phi-3", true);
}

static void gpt_2_vectors_are_exact(void **state)
{
    (void)state;
    check_file("gpt-2", true);
}

static void gemma_4_vectors_are_exact(void **state)
{
    (void)state;
    check_file("gemma-4", true);
}

/* Its last byte tokens are user-defined and show as the characters they are spelled with: no way back. */
static void deepseek_coder_vectors_are_exact(void **state)
{
    (void)state;
    check_file("deepseek-coder", false);
}

static void minimind2_vectors_are_exact(void **state)
{
    struct test_vocab vocab;

    (void)state;
    test_vocab_open(&vocab, test_data("models/minimind2-26m-f16.gguf"));
    vocab_vectors_check(vocab.vocab, test_data("vocab/derived/minimind2.inp"), test_data("vocab/derived/minimind2.out"),
                        true);
    test_vocab_close(&vocab);
}

/* A tokenizer.json as Hugging Face writes it, made into a spec; strings stay in the document. */
struct json_vocab {
    yyjson_doc *doc;
    struct rv_str *tokens;
    struct rv_str *merges;
    int32_t *types;
    char *joined; // merges written as pairs
    size_t n_tokens;
    size_t n_merges;
};

static void json_vocab_tokens(struct json_vocab *json, yyjson_val *root)
{
    yyjson_val *vocab = yyjson_obj_get(yyjson_obj_get(root, "model"), "vocab"), *added, *key, *value;
    size_t i, max;

    json->n_tokens = yyjson_obj_size(vocab);
    json->tokens = calloc(json->n_tokens, sizeof(*json->tokens));
    json->types = calloc(json->n_tokens, sizeof(*json->types));
    yyjson_obj_foreach(vocab, i, max, key, value)
    {
        size_t id = (size_t)yyjson_get_uint(value);
        assert_true(id < json->n_tokens);
        json->tokens[id] = (struct rv_str){.data = yyjson_get_str(key), .len = yyjson_get_len(key)};
        json->types[id] = RV_TOKEN_NORMAL;
    }
    added = yyjson_obj_get(root, "added_tokens");
    yyjson_arr_foreach(added, i, max, value)
    {
        size_t id = (size_t)yyjson_get_uint(yyjson_obj_get(value, "id"));
        assert_true(id < json->n_tokens);
        json->types[id] = RV_TOKEN_CONTROL;
    }
}

static void json_vocab_merges(struct json_vocab *json, yyjson_val *root)
{
    yyjson_val *merges = yyjson_obj_get(yyjson_obj_get(root, "model"), "merges"), *value;
    size_t i, max, at = 0;

    json->n_merges = yyjson_arr_size(merges);
    json->merges = calloc(json->n_merges, sizeof(*json->merges));
    json->joined = malloc(JOINED_MAX);
    yyjson_arr_foreach(merges, i, max, value)
    {
        char *start = json->joined + at;
        if (yyjson_is_str(value)) {
            json->merges[i] = (struct rv_str){.data = yyjson_get_str(value), .len = yyjson_get_len(value)};
            continue;
        }
        at += (size_t)snprintf(start, JOINED_MAX - at, "%s %s", yyjson_get_str(yyjson_arr_get(value, 0)),
                               yyjson_get_str(yyjson_arr_get(value, 1)));
        assert_true(at < JOINED_MAX);
        json->merges[i] = (struct rv_str){.data = start, .len = (size_t)(json->joined + at - start)};
    }
}

static void tekken_vectors_are_exact(void **state)
{
    const char *path = test_data("vocab/hf/mistral-nemo/tokenizer.json");
    struct json_vocab json = {0};
    struct rv_vocab_spec spec = {.bos = 1,
                                 .eos = 2,
                                 .eot = -1,
                                 .eom = -1,
                                 .unk = 0,
                                 .pad = -1,
                                 .sep = -1,
                                 .add_bos = RV_UNSET,
                                 .add_eos = RV_UNSET,
                                 .add_space_prefix = RV_UNSET};
    struct rv_vocab *vocab;

    (void)state;
    test_need_file(path);
    json.doc = yyjson_read_file(path, 0, NULL, NULL);
    assert_non_null(json.doc);
    json_vocab_tokens(&json, yyjson_doc_get_root(json.doc));
    json_vocab_merges(&json, yyjson_doc_get_root(json.doc));
    spec.model = (struct rv_str){.data = "gpt2", .len = 4};
    spec.pre = (struct rv_str){.data = "tekken", .len = 6};
    spec.tokens = json.tokens;
    spec.types = json.types;
    spec.merges = json.merges;
    spec.n_tokens = json.n_tokens;
    spec.n_merges = json.n_merges;
    assert_ok(rv_vocab_new(&vocab, &spec, err));
    free(json.tokens); // only the texts have to stay
    free(json.types);
    free(json.merges);
    free(json.joined);
    assert_true(vocab_vectors_check(vocab, test_data("vocab/derived/mistral-nemo-tekken.inp"),
                                    test_data("vocab/derived/mistral-nemo-tekken.out"), true) >= 40);
    rv_vocab_free(vocab);
    yyjson_doc_free(json.doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(qwen2_vectors_are_exact),          cmocka_unit_test(llama_bpe_vectors_are_exact),
        cmocka_unit_test(llama_spm_vectors_are_exact),      cmocka_unit_test(phi_3_vectors_are_exact),
        cmocka_unit_test(gpt_2_vectors_are_exact),          cmocka_unit_test(gemma_4_vectors_are_exact),
        cmocka_unit_test(deepseek_coder_vectors_are_exact), cmocka_unit_test(minimind2_vectors_are_exact),
        cmocka_unit_test(tekken_vectors_are_exact),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
