/*
 * No text takes long: a megabyte of one character, and of the runs that patterns with backtracking dislike, in every
 * vocabulary and every pre-tokenizer. What is quadratic anywhere takes minutes here.
 */
#include "base/alloc.h"
#include "support/test.h"
#include "support/tiny_vocab.h"
#include "support/vocab_from_gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_LEN ((size_t)1 << 20)
#define LIMIT_S 2.0 // of processor time: the machine may be busy

static const char *const units[] = {
    "a",        "A",      " ",
    "\n",       "\t",     "0",
    ".",        "'",      "<",
    "\xC3\xA9", "一",     "\u3000",
    "\xCC\x81", "🦙",   "\xFF",
    "\xE2",     "aA",     "Aa",
    " a",       "a ",     " \n",
    "'s",       "\u2581", "\xF0\x9F\xA6",
    "1a",       "<|",     "\xE2\x96\x81\xE2\x96\x81",
    "ab\u0301", "नम",     "ÀÉ",
};

/* The unit over and over, then an end, so that patterns for trailing blanks look at all of them in vain. */
static size_t fill(char *text, size_t max, const char *unit, const char *end)
{
    size_t unit_len = strlen(unit), len = 0;

    while (len + unit_len <= max) {
        memcpy(text + len, unit, unit_len);
        len += unit_len;
    }
    memcpy(text + len, end, strlen(end));
    return len + strlen(end);
}

static void check_vocab(const struct rv_vocab *vocab, const char *name, size_t max)
{
    char *text = malloc(max + 8);

    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        size_t len = fill(text, max, units[i], strpbrk(units[i], " \n\t") ? "x" : ""), n_ids;
        clock_t start = clock();
        double took;
        int32_t *ids;

        assert_ok(rv_vocab_encode(vocab, text, len, NULL, RV_ENCODE_PARSE_SPECIAL, &ids, &n_ids, err));
        took = (double)(clock() - start) / CLOCKS_PER_SEC;
        rv_free(ids);
        if (took > LIMIT_S)
            fail_msg("%s: %zu bytes of '%s' took %.2f s", name, len, units[i], took);
    }
    free(text);
}

static void every_vocabulary_is_fast_on_any_text(void **state)
{
    static const char *const names[] = {
        "vocab/ggml/ggml-vocab-qwen2.gguf",          "vocab/ggml/ggml-vocab-llama-bpe.gguf",
        "vocab/ggml/ggml-vocab-llama-spm.gguf",      "vocab/ggml/ggml-vocab-phi-3.gguf",
        "vocab/ggml/ggml-vocab-gpt-2.gguf",          "vocab/ggml/ggml-vocab-gemma-4.gguf",
        "vocab/ggml/ggml-vocab-deepseek-coder.gguf", "models/minimind2-26m-f16.gguf",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct test_vocab vocab;
        test_vocab_open(&vocab, test_data(names[i]));
        check_vocab(vocab.vocab, names[i], MAX_LEN);
        test_vocab_close(&vocab);
    }
}

static void every_pretokenizer_is_fast_on_any_text(void **state)
{
    static const char *const names[] = {"default", "smollm", "falcon",       "qwen35",
                                        "tekken",  "gpt-4o", "deepseek-llm", "deepseek-v3"};
    static struct tiny_vocab tiny;

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct rv_vocab *vocab;
        tiny_vocab_bpe(&tiny, names[i]);
        assert_ok(rv_vocab_new(&vocab, &tiny.spec, err));
        check_vocab(vocab, names[i], MAX_LEN / 4);
        rv_vocab_free(vocab);
    }
}

/* Special tokens that nest in each other, as Gemma's runs of newlines do. */
static void nested_special_tokens_are_fast(void **state)
{
    static struct tiny_vocab tiny;
    static char runs[128][129];
    struct rv_vocab *vocab;

    (void)state;
    tiny_vocab_bpe(&tiny, "gpt-2");
    for (size_t i = 0; i < 128; i++) {
        memset(runs[i], 'a', i + 1);
        if (i > 0)
            tiny_vocab_add(&tiny, runs[i], i % 2 ? RV_TOKEN_USER_DEFINED : RV_TOKEN_CONTROL, 0);
    }
    assert_ok(rv_vocab_new(&vocab, &tiny.spec, err));
    check_vocab(vocab, "nested special tokens", MAX_LEN);
    rv_vocab_free(vocab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_vocabulary_is_fast_on_any_text),
        cmocka_unit_test(every_pretokenizer_is_fast_on_any_text),
        cmocka_unit_test(nested_special_tokens_are_fast),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
