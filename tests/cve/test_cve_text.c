/*
 * The ways vocabularies and users' words have broken other engines: special ids outside the vocabulary and token
 * lengths that do not fit an int (CVE-2025-49847, CVE-2025-52566), special tokens spelled by users (CVE-2026-44222).
 */
#include "alloc_meter.h"
#include "base/alloc.h"
#include "base/rng.h"
#include "support/test.h"
#include "support/tiny_vocab.h"
#include "support/vocab_from_gguf.h"
#include "text/text_stream.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct tiny_vocab tiny;
static struct ruvllm_error failure;

static void special_ids_outside_the_vocabulary_are_refused(void **state)
{
    int32_t *const ids[] = {&tiny.spec.bos, &tiny.spec.eos, &tiny.spec.eot, &tiny.spec.eom,
                            &tiny.spec.unk, &tiny.spec.pad, &tiny.spec.sep};
    struct rv_vocab *vocab;

    (void)state;
    for (size_t family = 0; family < 2; family++) {
        for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
            const int32_t bad[] = {-2, INT_MIN, INT_MAX, 0};
            for (size_t j = 0; j < sizeof(bad) / sizeof(bad[0]); j++) {
                if (family)
                    tiny_vocab_bpe(&tiny, "gpt-2");
                else
                    tiny_vocab_spm(&tiny);
                *ids[i] = bad[j] ? bad[j] : (int32_t)tiny.spec.n_tokens; // the first that is none
                assert_fails(rv_vocab_new(&vocab, &tiny.spec, &failure), RUVLLM_FORMAT, failure, "is not one of the");
                assert_null(vocab);
            }
            *ids[i] = -1; // none
            assert_ok(rv_vocab_new(&vocab, &tiny.spec, err));
            rv_vocab_free(vocab);
        }
    }
}

/* The length alone is judged: there are no 3 GiB behind the pointer. */
static void huge_token_lengths_are_refused_unread(void **state)
{
    static const size_t lens[] = {(size_t)3 << 30, SIZE_MAX, (size_t)INT_MAX + 1, UINT32_MAX, 1 << 20, 4097};
    struct rv_vocab *vocab;

    (void)state;
    for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
        tiny_vocab_bpe(&tiny, "gpt-2");
        tiny.tokens[7].len = lens[i];
        assert_fails(rv_vocab_new(&vocab, &tiny.spec, &failure), RUVLLM_FORMAT, failure, "token 7 is ");
        tiny_vocab_spm(&tiny);
        tiny.tokens[1].len = lens[i];
        assert_fails(rv_vocab_new(&vocab, &tiny.spec, &failure), RUVLLM_FORMAT, failure, "token 1 is ");
    }
    tiny_vocab_bpe(&tiny, "gpt-2");
    tiny.merges[2].len = 2; // "he" of "he ll"
    assert_fails(rv_vocab_new(&vocab, &tiny.spec, &failure), RUVLLM_FORMAT, failure, "merge 2");
}

static void huge_counts_are_refused_unread(void **state)
{
    struct rv_vocab *vocab;

    (void)state;
    tiny_vocab_bpe(&tiny, "gpt-2");
    tiny.spec.n_tokens = (size_t)INT_MAX + 2;
    assert_fails(rv_vocab_new(&vocab, &tiny.spec, &failure), RUVLLM_FORMAT, failure, "larger than");
    tiny_vocab_bpe(&tiny, "gpt-2");
    tiny.spec.n_merges = (size_t)UINT32_MAX + 1;
    assert_fails(rv_vocab_new(&vocab, &tiny.spec, &failure), RUVLLM_FORMAT, failure, "merges, more than");
}

static void long_special_tokens_are_refused(void **state)
{
    static char text[600];
    struct rv_vocab *vocab;

    (void)state;
    memset(text, 'x', sizeof(text) - 1);
    tiny_vocab_bpe(&tiny, "gpt-2");
    tiny_vocab_add(&tiny, text, RV_TOKEN_CONTROL, 0);
    assert_fails(rv_vocab_new(&vocab, &tiny.spec, &failure), RUVLLM_FORMAT, failure, "more than 512");
}

static bool is_guarded(const struct rv_vocab *vocab, int32_t id)
{
    enum rv_token_type type = rv_vocab_type(vocab, id);

    return type == RV_TOKEN_CONTROL || type == RV_TOKEN_UNKNOWN;
}

/* Text of random words and special tokens; each guarded token stands in it at least once over all prompts. */
static void add_prompt(const struct rv_vocab *vocab, const int32_t *guarded, size_t n_guarded, size_t round,
                       struct rv_rng *rng, struct rv_buf *text)
{
    static const char *const glue[] = {"", " ", "\n", "hello", "<", ">", "|", "\xE2\x96\x81", "\xC3", "'s 12"};
    size_t per_prompt = n_guarded / 1000 + 4;

    for (size_t i = 0; i < per_prompt; i++) {
        size_t which = (round * per_prompt + i) % n_guarded;
        struct rv_str piece = rv_vocab_piece(vocab, guarded[which], true);
        size_t from = rv_rng_below(rng, 8) ? 0 : (size_t)rv_rng_below(rng, piece.len + 1);

        rv_buf_add_str(text, glue[rv_rng_below(rng, sizeof(glue) / sizeof(glue[0]))]);
        rv_buf_add(text, piece.data + from, piece.len - from);
        if (from) // halves meet, as in <|im_<|im_end|>end|>
            rv_buf_add(text, piece.data, from);
    }
}

/*
 * A prompt as a chat template makes it: trusted special tokens around a user's words. Only the trusted ones may become
 * special ids, and those must.
 */
static void check_prompt(const struct rv_vocab *vocab, int32_t trusted_id, const struct rv_buf *words)
{
    struct rv_str trusted = rv_vocab_piece(vocab, trusted_id, true);
    struct rv_buf text, mask;
    int32_t *ids;
    size_t n_ids, n_found = 0;

    rv_buf_init(&text, 1 << 20);
    rv_buf_init(&mask, 1 << 20);
    rv_buf_add(&text, trusted.data, trusted.len);
    rv_buf_add(&text, words->data, words->len);
    rv_buf_add(&text, trusted.data, trusted.len);
    for (size_t i = 0; i < text.len; i++)
        rv_buf_add_char(&mask, i >= trusted.len && i < trusted.len + words->len);
    assert_ok(rv_vocab_encode(vocab, text.data, text.len, (const uint8_t *)mask.data, RV_ENCODE_PARSE_SPECIAL, &ids,
                              &n_ids, err));
    for (size_t i = 0; i < n_ids; i++)
        n_found += is_guarded(vocab, ids[i]);
    assert_int_equal(n_found, 2);
    assert_int_equal(ids[0], trusted_id);
    assert_int_equal(ids[n_ids - 1], trusted_id);
    rv_free(ids);

    assert_ok(rv_vocab_encode(vocab, words->data, words->len, NULL, 0, &ids, &n_ids, err));
    for (size_t i = 0; i < n_ids; i++)
        assert_false(is_guarded(vocab, ids[i]));
    rv_free(ids);
    rv_buf_release(&text);
    rv_buf_release(&mask);
}

static void check_injection(const char *name)
{
    struct test_vocab opened;
    struct rv_rng rng;
    struct rv_buf words;
    int32_t *guarded;
    size_t n_guarded = 0;

    test_vocab_open(&opened, test_data(name));
    guarded = calloc(rv_vocab_n_tokens(opened.vocab), sizeof(*guarded));
    for (size_t i = 0; i < rv_vocab_n_tokens(opened.vocab); i++) {
        if (is_guarded(opened.vocab, (int32_t)i))
            guarded[n_guarded++] = (int32_t)i;
    }
    assert_true(n_guarded > 0);
    rv_rng_init(&rng, 8);
    rv_buf_init(&words, 1 << 20);
    for (size_t round = 0; round < 1000; round++) {
        rv_buf_clear(&words);
        add_prompt(opened.vocab, guarded, n_guarded, round, &rng, &words);
        check_prompt(opened.vocab, guarded[round % n_guarded], &words);
    }
    rv_buf_release(&words);
    free(guarded);
    test_vocab_close(&opened);
}

static void users_cannot_spell_special_tokens(void **state)
{
    static const char *const names[] = {
        "vocab/ggml/ggml-vocab-qwen2.gguf",          "vocab/ggml/ggml-vocab-llama-bpe.gguf",
        "vocab/ggml/ggml-vocab-llama-spm.gguf",      "vocab/ggml/ggml-vocab-phi-3.gguf",
        "vocab/ggml/ggml-vocab-gpt-2.gguf",          "vocab/ggml/ggml-vocab-gemma-4.gguf",
        "vocab/ggml/ggml-vocab-deepseek-coder.gguf", "models/minimind2-26m-f16.gguf",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        check_injection(names[i]);
}

/* Makes the tiny vocabulary, tokenises and streams; the status of the first call that failed. */
static ruvllm_status use_vocab(const char *text, struct ruvllm_error *err)
{
    static const char *const stops[] = {"never", "ever"};
    struct rv_vocab *vocab = NULL;
    struct rv_text_stream *stream = NULL;
    struct rv_str piece;
    int32_t *ids = NULL;
    size_t n_ids = 0;
    bool stopped;
    ruvllm_status rc = rv_vocab_new(&vocab, &tiny.spec, err);

    if (!rc)
        rc = rv_vocab_encode(vocab, text, strlen(text), NULL, RV_ENCODE_PARSE_SPECIAL, &ids, &n_ids, err);
    if (!rc)
        rc = rv_text_stream_new(&stream, vocab, stops, 2, err);
    if (!rc)
        rc = rv_text_stream_reserve(stream, n_ids, err);
    for (size_t i = 0; !rc && i < n_ids; i++)
        rc = rv_text_stream_push(stream, ids[i], &piece, &stopped, err);
    if (!rc)
        rc = rv_text_stream_finish(stream, &piece, err);
    rv_text_stream_free(stream);
    rv_free(ids);
    rv_vocab_free(vocab);
    return rc;
}

/* The first call fails, then the second, and so on until all succeed. PCRE2 does without its compiled code. */
static void missing_memory_is_said_whichever_call_it_hits(void **state)
{
    static const char text[] = "hello<|im_end|> <tool> a word much longer than what is merged without a heap: "
                               "hellohellohellohellohellohellohellohellohellohellohellohellohellohello \xFF";
    static const char *const pres[] = {NULL, "gpt-2", "llama-bpe", "deepseek-coder"};

    (void)state;
    if (!alloc_meter_works())
        return; /* a sanitizer's malloc cannot be counted: the plain builds run this */
    for (size_t i = 0; i < sizeof(pres) / sizeof(pres[0]); i++) {
        size_t n_refused = 0;
        if (pres[i])
            tiny_vocab_bpe(&tiny, pres[i]);
        else
            tiny_vocab_spm(&tiny);
        for (size_t nth = 1;; nth++) {
            struct ruvllm_error err = {0};
            ruvllm_status rc;

            alloc_meter_fail_at(nth);
            rc = use_vocab(text, &err);
            if (!alloc_meter_failed())
                break;
            if (rc && (rc != RUVLLM_NO_MEMORY || !strstr(err.message, "cannot")))
                fail_msg("call %zu: %s '%s'", nth, ruvllm_status_name(rc), err.message);
            n_refused += rc != RUVLLM_OK;
        }
        assert_true(n_refused >= 15);
        assert_ok(use_vocab(text, err));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(special_ids_outside_the_vocabulary_are_refused),
        cmocka_unit_test(huge_token_lengths_are_refused_unread),
        cmocka_unit_test(huge_counts_are_refused_unread),
        cmocka_unit_test(long_special_tokens_are_refused),
        cmocka_unit_test(users_cannot_spell_special_tokens),
        cmocka_unit_test(missing_memory_is_said_whichever_call_it_hits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
