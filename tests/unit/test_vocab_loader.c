/* From tokenizer keys to a vocabulary: what may be absent, and what is refused by the name of its key. */
#include "engine/vocab_loader.h"
#include "support/gguf_writer.h"
#include "support/test.h"
#include "text/vocab.h"

#include <stdlib.h>
#include <string.h>

static const char *const tokens[] = {"<unk>", "<s>", "</s>", "\xE2\x96\x81", "a"};
static const int32_t types[] = {2, 3, 3, 1, 1};
static const float scores[] = {0, 0, 0, -1, -2};
static struct ruvllm_error failure;

/* Keys a SentencePiece vocabulary needs; n_types of the types are written. */
static void write_keys(struct gguf_writer *w, size_t n_types)
{
    gguf_writer_init(w);
    gguf_writer_str(w, "tokenizer.ggml.model", "llama");
    gguf_writer_array_str(w, "tokenizer.ggml.tokens", tokens, 5);
    gguf_writer_array(w, "tokenizer.ggml.token_type", RV_GGUF_I32, types, n_types);
}

static ruvllm_status load(struct gguf_writer *w, struct rv_vocab **vocab, struct rv_gguf_file **file, char **bytes)
{
    size_t len;

    *bytes = gguf_writer_finish(w, &len);
    assert_ok(rv_gguf_file_open_memory(file, *bytes, len, err));
    return rv_vocab_loader_open(*file, vocab, &failure);
}

static void assert_refused(struct gguf_writer *w, ruvllm_status status, const char *message)
{
    struct rv_gguf_file *file;
    struct rv_vocab *vocab;
    char *bytes;

    assert_fails(load(w, &vocab, &file, &bytes), status, failure, message);
    assert_null(vocab);
    rv_gguf_file_close(file);
    free(bytes);
}

static void optional_keys_may_be_absent(void **state)
{
    struct gguf_writer w;
    struct rv_gguf_file *file;
    struct rv_vocab *vocab;
    char *bytes;

    (void)state;
    write_keys(&w, 5);
    assert_int_equal(load(&w, &vocab, &file, &bytes), RUVLLM_OK);
    assert_int_equal(rv_vocab_n_tokens(vocab), 5);
    assert_int_equal(rv_vocab_bos(vocab), 1);
    assert_int_equal(rv_vocab_eos(vocab), 2);
    assert_true(rv_vocab_adds_bos(vocab));
    assert_true(rv_vocab_adds_space(vocab));
    rv_vocab_free(vocab);
    rv_gguf_file_close(file);
    free(bytes);
}

static void keys_that_are_there_count(void **state)
{
    struct gguf_writer w;
    struct rv_gguf_file *file;
    struct rv_vocab *vocab;
    char *bytes;

    (void)state;
    write_keys(&w, 5);
    gguf_writer_array(&w, "tokenizer.ggml.scores", RV_GGUF_F32, scores, 5);
    gguf_writer_u32(&w, "tokenizer.ggml.bos_token_id", 2);
    gguf_writer_u32(&w, "tokenizer.ggml.eos_token_id", 4);
    gguf_writer_u32(&w, "tokenizer.ggml.padding_token_id", UINT32_MAX); // how some converters write "none"
    gguf_writer_bool(&w, "tokenizer.ggml.add_bos_token", 0);
    gguf_writer_bool(&w, "tokenizer.ggml.add_space_prefix", 0);
    assert_int_equal(load(&w, &vocab, &file, &bytes), RUVLLM_OK);
    assert_int_equal(rv_vocab_bos(vocab), 2);
    assert_true(rv_vocab_is_eog(vocab, 4));
    assert_false(rv_vocab_adds_bos(vocab));
    assert_false(rv_vocab_adds_space(vocab));
    rv_vocab_free(vocab);
    rv_gguf_file_close(file);
    free(bytes);
}

static void missing_keys_are_named(void **state)
{
    struct gguf_writer w;

    (void)state;
    gguf_writer_init(&w);
    gguf_writer_array_str(&w, "tokenizer.ggml.tokens", tokens, 5);
    assert_refused(&w, RUVLLM_NOT_FOUND, "tokenizer.ggml.model");
    gguf_writer_init(&w);
    gguf_writer_str(&w, "tokenizer.ggml.model", "llama");
    assert_refused(&w, RUVLLM_NOT_FOUND, "tokenizer.ggml.tokens");
}

static void keys_of_the_wrong_type_are_named(void **state)
{
    struct gguf_writer w;

    (void)state;
    write_keys(&w, 5);
    gguf_writer_str(&w, "tokenizer.ggml.bos_token_id", "one");
    assert_refused(&w, RUVLLM_FORMAT, "tokenizer.ggml.bos_token_id");
    write_keys(&w, 5);
    gguf_writer_str(&w, "tokenizer.ggml.add_bos_token", "yes");
    assert_refused(&w, RUVLLM_FORMAT, "tokenizer.ggml.add_bos_token");
    write_keys(&w, 5);
    gguf_writer_u32(&w, "tokenizer.ggml.scores", 1);
    assert_refused(&w, RUVLLM_FORMAT, "tokenizer.ggml.scores");
    write_keys(&w, 5);
    gguf_writer_array(&w, "tokenizer.ggml.merges", RV_GGUF_I32, types, 5);
    assert_refused(&w, RUVLLM_FORMAT, "tokenizer.ggml.merges");
    write_keys(&w, 5);
    gguf_writer_u32(&w, "tokenizer.ggml.pre", 1);
    assert_refused(&w, RUVLLM_FORMAT, "tokenizer.ggml.pre");
}

static void arrays_must_cover_the_tokens(void **state)
{
    struct gguf_writer w;

    (void)state;
    write_keys(&w, 4);
    assert_refused(&w, RUVLLM_FORMAT, "'tokenizer.ggml.token_type' has 4 values for 5 tokens");
    write_keys(&w, 5);
    gguf_writer_array(&w, "tokenizer.ggml.scores", RV_GGUF_F32, scores, 1);
    assert_refused(&w, RUVLLM_FORMAT, "'tokenizer.ggml.scores' has 1 values for 5 tokens");
}

static void ids_outside_the_vocabulary_are_refused(void **state)
{
    static const uint32_t bad[] = {5, INT32_MAX, (uint32_t)INT32_MAX + 1, UINT32_MAX - 1};
    struct gguf_writer w;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        write_keys(&w, 5);
        gguf_writer_u32(&w, "tokenizer.ggml.eos_token_id", bad[i]);
        assert_refused(&w, RUVLLM_FORMAT, "token");
    }
    write_keys(&w, 5);
    gguf_writer_i32(&w, "tokenizer.ggml.eos_token_id", -1);
    assert_refused(&w, RUVLLM_FORMAT, "tokenizer.ggml.eos_token_id");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(optional_keys_may_be_absent),  cmocka_unit_test(keys_that_are_there_count),
        cmocka_unit_test(missing_keys_are_named),       cmocka_unit_test(keys_of_the_wrong_type_are_named),
        cmocka_unit_test(arrays_must_cover_the_tokens), cmocka_unit_test(ids_outside_the_vocabulary_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
