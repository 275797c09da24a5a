/*
 * Token for token against libllama: random texts give the ids llama_tokenize gives, ids give its pieces back, and
 * the same tokens end an answer.
 *
 * Left out: BPE on code points above U+10FFFF, where libllama throws (test_vocab.c says what ours does).
 */
#include "base/alloc.h"
#include "support/random_text.h"
#include "support/test.h"
#include "support/vocab_from_gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <llama.h>

#define N_TEXTS 10000
#define MAX_IDS 16384

struct oracle {
    struct test_vocab ours;
    struct llama_model *model;
    const struct llama_vocab *theirs;
    struct rv_str *snippets;
    size_t n_snippets;
    int32_t ids[MAX_IDS];
};

static void silent(enum ggml_log_level level, const char *text, void *user)
{
    (void)level;
    (void)text;
    (void)user;
}

static void oracle_open(struct oracle *oracle, const char *path)
{
    struct llama_model_params params = llama_model_default_params();
    size_t n_tokens;

    test_vocab_open(&oracle->ours, path);
    params.vocab_only = true;
    llama_log_set(silent, NULL);
    oracle->model = llama_model_load_from_file(path, params);
    assert_non_null(oracle->model);
    oracle->theirs = llama_model_get_vocab(oracle->model);
    n_tokens = rv_vocab_n_tokens(oracle->ours.vocab);
    oracle->snippets = calloc(n_tokens, sizeof(*oracle->snippets));
    oracle->n_snippets = 0;
    for (int32_t id = 0; id < (int32_t)n_tokens; id++) {
        enum rv_token_type type = rv_vocab_type(oracle->ours.vocab, id);
        if (type == RV_TOKEN_CONTROL || type == RV_TOKEN_UNKNOWN || type == RV_TOKEN_USER_DEFINED)
            oracle->snippets[oracle->n_snippets++] = rv_vocab_piece(oracle->ours.vocab, id, true);
    }
}

static void oracle_close(struct oracle *oracle)
{
    free(oracle->snippets);
    llama_model_free(oracle->model);
    test_vocab_close(&oracle->ours);
}

/* Four bytes of UTF-8's form that stand for more than U+10FFFF. */
static bool is_beyond_unicode(const struct rv_buf *text)
{
    const unsigned char *s = (const unsigned char *)text->data;

    for (size_t i = 0; i + 3 < text->len; i++) {
        if ((s[i] > 0xF4 || (s[i] == 0xF4 && s[i + 1] >= 0x90)) && s[i] < 0xF8 && (s[i + 1] & 0xC0) == 0x80 &&
            (s[i + 2] & 0xC0) == 0x80 && (s[i + 3] & 0xC0) == 0x80)
            return true;
    }
    return false;
}

static void print_difference(const struct oracle *oracle, const struct rv_buf *text, const int32_t *ids, size_t n_ids,
                             size_t n_theirs)
{
    fprintf(stderr, "text:");
    for (size_t i = 0; i < text->len; i++)
        fprintf(stderr, " %02x", (unsigned char)text->data[i]);
    fprintf(stderr, "\n'%.*s'\n", (int)text->len, text->data);
    for (size_t i = 0; i < n_ids || i < n_theirs; i++) {
        int32_t a = i < n_ids ? ids[i] : -1, b = i < n_theirs ? oracle->ids[i] : -1;
        fprintf(stderr, "%3zu: ours %6d '%s', theirs %6d '%s'%s\n", i, a,
                a < 0 ? "" : llama_vocab_get_text(oracle->theirs, a), b,
                b < 0 ? "" : llama_vocab_get_text(oracle->theirs, b), a == b ? "" : "   <--");
    }
}

static void check_detokenize(const struct oracle *oracle, const int32_t *ids, size_t n_ids)
{
    static char text[1 << 16];
    struct rv_buf ours;
    int32_t n = llama_detokenize(oracle->theirs, ids, (int32_t)n_ids, text, sizeof(text), false, false);

    rv_buf_init(&ours, 1 << 20);
    rv_vocab_decode(oracle->ours.vocab, ids, n_ids, false, &ours);
    assert_int_equal(n, ours.len);
    if (n > 0)
        assert_memory_equal(text, ours.data, (size_t)n);
    rv_buf_release(&ours);
}

static void check_text(struct oracle *oracle, const struct rv_buf *text, bool add_special, bool parse_special,
                       bool detokenizes)
{
    uint32_t flags = (add_special ? RV_ENCODE_ADD_SPECIAL : 0u) | (parse_special ? RV_ENCODE_PARSE_SPECIAL : 0u);
    const char *bytes = text->len ? text->data : "";
    int32_t *ids;
    size_t n_ids, n_theirs;
    int32_t n =
        llama_tokenize(oracle->theirs, bytes, (int32_t)text->len, oracle->ids, MAX_IDS, add_special, parse_special);

    assert_true(n >= 0);
    n_theirs = (size_t)n;
    assert_ok(rv_vocab_encode(oracle->ours.vocab, bytes, text->len, NULL, flags, &ids, &n_ids, err));
    if (n_ids != n_theirs || (n_ids && memcmp(ids, oracle->ids, n_ids * sizeof(*ids)) != 0)) {
        print_difference(oracle, text, ids, n_ids, n_theirs);
        fail_msg("ids differ from libllama's (add_special %d, parse_special %d)", add_special, parse_special);
    }
    if (detokenizes && n_ids > 0 && !add_special && !parse_special)
        check_detokenize(oracle, ids, n_ids);
    rv_free(ids);
}

static void check_texts(struct oracle *oracle, size_t n_texts, bool ascii, bool detokenizes)
{
    bool is_bpe = llama_vocab_type(oracle->theirs) == LLAMA_VOCAB_TYPE_BPE;
    struct random_text random = {.snippets = oracle->snippets, .n_snippets = oracle->n_snippets};
    struct rv_buf text;

    rv_buf_init(&text, 1 << 20);
    rv_rng_init(&random.rng, 20250601);
    for (size_t i = 0; i < n_texts; i++) {
        do
            random_text_make(&random, &text);
        while (is_bpe && is_beyond_unicode(&text));
        for (size_t j = 0; ascii && j < text.len; j++)
            text.data[j] &= 0x7F;
        check_text(oracle, &text, false, false, detokenizes);
        check_text(oracle, &text, i % 2 == 0, true, detokenizes);
    }
    rv_buf_release(&text);
}

static void check_tokens(const struct oracle *oracle)
{
    const struct rv_vocab *ours = oracle->ours.vocab;

    assert_int_equal(rv_vocab_n_tokens(ours), llama_vocab_n_tokens(oracle->theirs));
    assert_int_equal(rv_vocab_bos(ours), llama_vocab_bos(oracle->theirs));
    assert_int_equal(rv_vocab_eos(ours), llama_vocab_eos(oracle->theirs));
    assert_int_equal(rv_vocab_adds_bos(ours), llama_vocab_get_add_bos(oracle->theirs));
    for (int32_t id = 0; id < (int32_t)rv_vocab_n_tokens(ours); id++) {
        for (int special = 0; special < 2; special++) {
            char text[4096];
            int32_t len = llama_token_to_piece(oracle->theirs, id, text, sizeof(text), 0, special);
            struct rv_str piece = rv_vocab_piece(ours, id, special);

            assert_true(len >= 0);
            if ((size_t)len != piece.len || memcmp(text, piece.data, piece.len) != 0)
                fail_msg("token %d: '%.*s', libllama '%.*s'", id, (int)piece.len, piece.data, (int)len, text);
        }
        if (rv_vocab_is_eog(ours, id) != llama_vocab_is_eog(oracle->theirs, id))
            fail_msg("token %d '%s' ends an answer: %d", id, llama_vocab_get_text(oracle->theirs, id),
                     rv_vocab_is_eog(ours, id));
    }
}

/* libllama tidies up spaces when detokenising some vocabularies, which loses text; there only pieces are compared. */
static void check_vocab(const char *name, bool detokenizes)
{
    static struct oracle oracle;

    oracle_open(&oracle, test_data(name));
    check_tokens(&oracle);
    check_texts(&oracle, N_TEXTS, false, detokenizes);
    oracle_close(&oracle);
}

/*
 * GPT-2's vocabulary with another pre-tokenizer written into it, or with none (name NULL): what is cut where does not
 * depend on the tokens, so this covers the families of which no vocabulary is at hand.
 */
static const char *vocab_with_pre(const char *name)
{
    static const char key[] = "tokenizer.ggml.pre";
    const char *path = test_temp_path(".gguf");
    size_t len, name_len = name ? strlen(name) : 0, old_len, at;
    char *file, *found, *changed;
    uint64_t value;

    test_need_file(test_data("vocab/ggml/ggml-vocab-gpt-2.gguf"));
    file = test_read_file(test_data("vocab/ggml/ggml-vocab-gpt-2.gguf"), &len);
    for (found = file; memcmp(found, key, sizeof(key) - 1) != 0; found++)
        assert_true(found + sizeof(key) < file + len);
    if (!name)
        found[sizeof(key) - 2] = 'x';                                 // a key nobody asks for
    at = (size_t)(found - file) + sizeof(key) - 1 + sizeof(uint32_t); // where the string's length stands
    memcpy(&value, file + at, sizeof(value));
    old_len = name ? (size_t)value : name_len;
    changed = malloc(len + name_len);
    memcpy(changed, file, at);
    value = name ? name_len : value;
    memcpy(changed + at, &value, sizeof(value));
    at += sizeof(value);
    memcpy(changed + at, name ? name : "", name_len);
    memcpy(changed + at + name_len, file + at + old_len, len - at - old_len);
    test_write_file(path, changed, len + name_len - old_len);
    free(changed);
    free(file);
    return path;
}

static void check_pre(const char *name, bool ascii)
{
    static struct oracle oracle;

    oracle_open(&oracle, vocab_with_pre(name));
    check_texts(&oracle, 2000, ascii, false);
    oracle_close(&oracle);
}

static void other_pretokenizers_equal_libllama(void **state)
{
    static const char *const names[] = {NULL,     "default",      "smollm",      "falcon", "stablelm2",
                                        "qwen35", "deepseek-llm", "deepseek-v3", "llama3", "chatglm-bpe"};

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        check_pre(names[i], false);
}

/* libllama knows upper and lower case of ASCII only here; ours are the published patterns. */
static void pretokenizers_that_cut_at_capitals_equal_libllama_on_ascii(void **state)
{
    (void)state;
    check_pre("tekken", true);
    check_pre("gpt-4o", true);
}

static void qwen2_equals_libllama(void **state)
{
    (void)state;
    check_vocab("vocab/ggml/ggml-vocab-qwen2.gguf", true);
}

static void llama_bpe_equals_libllama(void **state)
{
    (void)state;
    check_vocab("vocab/ggml/ggml-vocab-llama-bpe.gguf", false);
}

static void llama_spm_equals_libllama(void **state)
{
    (void)state;
    check_vocab("vocab/ggml/ggml-vocab-llama-spm.gguf", true);
}

static void phi_3_equals_libllama(void **state)
{
    (void)state;
    check_vocab("vocab/ggml/ggml-vocab-phi-3.gguf", true);
}

static void gpt_2_equals_libllama(void **state)
{
    (void)state;
    check_vocab("vocab/ggml/ggml-vocab-gpt-2.gguf", false);
}

static void gemma_4_equals_libllama(void **state)
{
    (void)state;
    check_vocab("vocab/ggml/ggml-vocab-gemma-4.gguf", false);
}

static void deepseek_coder_equals_libllama(void **state)
{
    (void)state;
    check_vocab("vocab/ggml/ggml-vocab-deepseek-coder.gguf", true);
}

static void minimind2_equals_libllama(void **state)
{
    (void)state;
    check_vocab("models/minimind2-26m-f16.gguf", false);
}

static void stories15m_equals_libllama(void **state)
{
    (void)state;
    check_vocab("models/stories15M-f16.gguf", true);
}

static void stories260k_equals_libllama(void **state)
{
    (void)state;
    check_vocab("models/stories260K.gguf", true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(qwen2_equals_libllama),
        cmocka_unit_test(llama_bpe_equals_libllama),
        cmocka_unit_test(llama_spm_equals_libllama),
        cmocka_unit_test(phi_3_equals_libllama),
        cmocka_unit_test(gpt_2_equals_libllama),
        cmocka_unit_test(gemma_4_equals_libllama),
        cmocka_unit_test(deepseek_coder_equals_libllama),
        cmocka_unit_test(minimind2_equals_libllama),
        cmocka_unit_test(stories15m_equals_libllama),
        cmocka_unit_test(stories260k_equals_libllama),
        cmocka_unit_test(other_pretokenizers_equal_libllama),
        cmocka_unit_test(pretokenizers_that_cut_at_capitals_equal_libllama_on_ascii),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
