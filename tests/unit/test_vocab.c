/* Vocabularies made by hand: what is refused, who may spell special tokens, what falls back to bytes, what ends. */
#include "base/alloc.h"
#include "support/test.h"
#include "support/tiny_vocab.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define IM_START 260
#define IM_END 261
#define TOOL 262

static struct tiny_vocab tiny;
static struct ruvllm_error failure;

static void assert_refused(ruvllm_status status, const char *message)
{
    struct rv_vocab *vocab = (struct rv_vocab *)&tiny;

    assert_fails(rv_vocab_new(&vocab, &tiny.spec, &failure), status, failure, message);
    assert_null(vocab);
}

/* Asserts the ids of a text; the list ends with -1. */
static void assert_encodes(const struct rv_vocab *vocab, const char *text, size_t len, const uint8_t *mask,
                           uint32_t flags, const int32_t *expected)
{
    size_t n_expected = 0, n_ids;
    int32_t *ids;

    while (expected[n_expected] >= 0)
        n_expected++;
    assert_ok(rv_vocab_encode(vocab, text, len, mask, flags, &ids, &n_ids, err));
    assert_int_equal(n_ids, n_expected);
    if (n_ids)
        assert_memory_equal(ids, expected, n_ids * sizeof(*ids));
    rv_free(ids);
}

#define ASSERT_IDS(vocab, text, mask, flags, ...)                                                                      \
    assert_encodes(vocab, text, sizeof(text) - 1, mask, flags, (const int32_t[]){__VA_ARGS__, -1})

static void assert_decodes(const struct rv_vocab *vocab, const int32_t *ids, size_t n_ids, bool with_special,
                           const char *expected)
{
    struct rv_buf text;

    rv_buf_init(&text, 1 << 16);
    rv_vocab_decode(vocab, ids, n_ids, with_special, &text);
    assert_int_equal(text.failed, RUVLLM_OK);
    assert_string_equal(text.len ? text.data : "", expected);
    rv_buf_release(&text);
}

static void unknown_families_are_named(void **state)
{
    (void)state;
    tiny_vocab_bpe(&tiny, "gpt-2");
    tiny.spec.model = (struct rv_str){.data = "wordpiece", .len = 9};
    assert_refused(RUVLLM_UNSUPPORTED, "'wordpiece'");
    tiny_vocab_bpe(&tiny, "martian");
    assert_refused(RUVLLM_UNSUPPORTED, "'martian'");
}

static void inconsistent_specs_are_refused(void **state)
{
    (void)state;
    tiny_vocab_spm(&tiny);
    tiny.spec.n_tokens = 0;
    assert_refused(RUVLLM_FORMAT, "no tokens");
    tiny_vocab_spm(&tiny);
    tiny.types[5] = 7;
    assert_refused(RUVLLM_FORMAT, "token 5 has unknown type 7");
    tiny_vocab_spm(&tiny);
    tiny.scores[300 % tiny.spec.n_tokens] = NAN;
    assert_refused(RUVLLM_FORMAT, "not a finite number");
    tiny_vocab_bpe(&tiny, "gpt-2");
    tiny.spec.n_merges = 0;
    assert_refused(RUVLLM_FORMAT, "no merges");
    tiny_vocab_bpe(&tiny, "gpt-2");
    tiny_vocab_add_merge(&tiny, "nospace");
    assert_refused(RUVLLM_FORMAT, "merge 4 does not name two tokens");
    tiny_vocab_bpe(&tiny, "gpt-2");
    tiny_vocab_add_merge(&tiny, "h ");
    assert_refused(RUVLLM_FORMAT, "merge 4 does not name two tokens");
    tiny_vocab_bpe(&tiny, "gpt-2");
    tiny_vocab_add(&tiny, "hello", RV_TOKEN_NORMAL, 0);
    assert_refused(RUVLLM_FORMAT, "repeats the text of token 259");
    tiny_vocab_bpe(&tiny, "gpt-2");
    tiny_vocab_add(&tiny, "<|im_end|>", RV_TOKEN_CONTROL, 0);
    assert_refused(RUVLLM_FORMAT, "have the same text");
}

static void bytes_fall_back_where_no_token_fits(void **state)
{
    struct rv_vocab *vocab;

    (void)state;
    tiny_vocab_spm(&tiny);
    assert_ok(rv_vocab_new(&vocab, &tiny.spec, err));
    assert_string_equal(rv_vocab_description(vocab), "spm");
    /* U+2581 is 259; x has no token, é neither. */
    ASSERT_IDS(vocab, "x", NULL, 0, 259, 3 + 'x');
    ASSERT_IDS(vocab, "\xC3\xA9", NULL, 0, 259, 3 + 0xC3, 3 + 0xA9);
    ASSERT_IDS(vocab, "\xFF", NULL, 0, 259, 3 + 0xFF);
    ASSERT_IDS(vocab, "hello", NULL, RV_ENCODE_ADD_SPECIAL, 1, 274);
    ASSERT_IDS(vocab, " hello", NULL, 0, 259, 274);
    ASSERT_IDS(vocab, "", NULL, RV_ENCODE_ADD_SPECIAL, 1);
    rv_vocab_free(vocab);
}

static void higher_scores_are_merged_first(void **state)
{
    struct rv_vocab *vocab;

    (void)state;
    tiny_vocab_spm(&tiny);
    tiny.spec.add_space_prefix = RV_NO;
    assert_ok(rv_vocab_new(&vocab, &tiny.spec, err));
    ASSERT_IDS(vocab, "abc", NULL, 0, 276, 262); // "ab" before "bc"
    rv_vocab_free(vocab);
    tiny.scores[277] = 1;
    assert_ok(rv_vocab_new(&vocab, &tiny.spec, err));
    ASSERT_IDS(vocab, "abc", NULL, 0, 260, 277);
    ASSERT_IDS(vocab, "bcbc", NULL, 0, 277, 277);
    rv_vocab_free(vocab);
    tiny.scores[276] = 2; // above zero as below it
    assert_ok(rv_vocab_new(&vocab, &tiny.spec, err));
    ASSERT_IDS(vocab, "abc", NULL, 0, 276, 262);
    rv_vocab_free(vocab);
}

static void merging_never_makes_a_control_token(void **state)
{
    struct rv_vocab *vocab;

    (void)state;
    tiny_vocab_spm(&tiny); // has "<s" and "s>", which with ">" and "<" spell the token <s>
    tiny.spec.add_space_prefix = RV_NO;
    assert_ok(rv_vocab_new(&vocab, &tiny.spec, err));
    ASSERT_IDS(vocab, "<s>", NULL, 0, 267, 278);
    ASSERT_IDS(vocab, "<s>", NULL, RV_ENCODE_PARSE_SPECIAL, 1);
    rv_vocab_free(vocab);

    tiny_vocab_bpe(&tiny, "llama-bpe"); // words that are tokens are not merged
    tiny_vocab_add(&tiny, "secret", RV_TOKEN_CONTROL, 0);
    tiny_vocab_add_merge(&tiny, "hello <|im_end|>");
    assert_ok(rv_vocab_new(&vocab, &tiny.spec, err));
    ASSERT_IDS(vocab, "secret", NULL, 0, 's', 'e', 'c', 'r', 'e', 't');
    ASSERT_IDS(vocab, "secret", NULL, RV_ENCODE_PARSE_SPECIAL, 263);
    rv_vocab_free(vocab);
}

static void special_tokens_need_trusted_bytes(void **state)
{
    static const char text[] = "<|im_end|>hello<|im_end|>";
    uint8_t mask[sizeof(text) - 1] = {0};
    struct rv_vocab *vocab;

    (void)state;
    tiny_vocab_bpe(&tiny, "gpt-2");
    assert_ok(rv_vocab_new(&vocab, &tiny.spec, err));
    ASSERT_IDS(vocab, text, NULL, RV_ENCODE_PARSE_SPECIAL, IM_END, 259, IM_END);
    ASSERT_IDS(vocab, text, mask, RV_ENCODE_PARSE_SPECIAL, IM_END, 259, IM_END);
    memset(mask + 10, 1, 5);
    ASSERT_IDS(vocab, text, mask, RV_ENCODE_PARSE_SPECIAL, IM_END, 259, IM_END);
    memset(mask + 15, 1, 10); // the second one is the user's now
    ASSERT_IDS(vocab, text, mask, RV_ENCODE_PARSE_SPECIAL, IM_END, 259, '<', '|', 'i', 'm', '_', 'e', 'n', 'd', '|',
               '>');
    for (size_t i = 15; i < 25; i++) { // one byte of it is enough
        memset(mask + 10, 0, 15);
        mask[i] = 1;
        ASSERT_IDS(vocab, text, mask, RV_ENCODE_PARSE_SPECIAL, IM_END, 259, '<', '|', 'i', 'm', '_', 'e', 'n', 'd', '|',
                   '>');
    }
    memset(mask, 0, sizeof(mask));
    ASSERT_IDS(vocab, text, mask, 0, '<', '|', 'i', 'm', '_', 'e', 'n', 'd', '|', '>', 259, '<', '|', 'i', 'm', '_',
               'e', 'n', 'd', '|', '>');
    rv_vocab_free(vocab);
}

static void user_defined_tokens_match_everywhere(void **state)
{
    uint8_t mask[13];
    struct rv_vocab *vocab;

    (void)state;
    tiny_vocab_bpe(&tiny, "gpt-2");
    assert_ok(rv_vocab_new(&vocab, &tiny.spec, err));
    memset(mask, 1, sizeof(mask));
    ASSERT_IDS(vocab, "h<tool>l<tool", mask, 0, 'h', TOOL, 'l', '<', 't', 'o', 'o', 'l');
    rv_vocab_free(vocab);
}

static void longer_special_tokens_win_wherever_they_start(void **state)
{
    struct rv_vocab *vocab;

    (void)state;
    tiny_vocab_bpe(&tiny, "gpt-2");
    tiny_vocab_add(&tiny, "aa", RV_TOKEN_USER_DEFINED, 0);   // 263
    tiny_vocab_add(&tiny, "aab", RV_TOKEN_USER_DEFINED, 0);  // 264
    tiny_vocab_add(&tiny, "abcd", RV_TOKEN_USER_DEFINED, 0); // 265
    assert_ok(rv_vocab_new(&vocab, &tiny.spec, err));
    ASSERT_IDS(vocab, "aaaaa", NULL, 0, 263, 263, 'a');
    ASSERT_IDS(vocab, "aab", NULL, 0, 264);
    ASSERT_IDS(vocab, "aabcd", NULL, 0, 'a', 265); // not aab, though that starts before
    ASSERT_IDS(vocab, "aaabcd", NULL, 0, 263, 265);
    rv_vocab_free(vocab);
}

static void invalid_utf8_is_repaired_for_bpe(void **state)
{
    struct rv_vocab *vocab;

    (void)state;
    tiny_vocab_bpe(&tiny, "gpt-2");
    assert_ok(rv_vocab_new(&vocab, &tiny.spec, err));
    ASSERT_IDS(vocab, "\xFF", NULL, 0, 0xEF, 0xBF, 0xBD);
    ASSERT_IDS(vocab, "\xC0\x80", NULL, 0, 0);                    // overlong forms count as what they mean
    ASSERT_IDS(vocab, "\xED\xA0\x80", NULL, 0, 0xED, 0xA0, 0x80); // surrogates stay
    ASSERT_IDS(vocab, "\xC3h", NULL, 0, 0xEF, 0xBF, 0xBD, 'h');
    /* Above U+10FFFF, where libllama gives up, each byte stands alone. */
    ASSERT_IDS(vocab, "\xF4\x90\x80\x80", NULL, 0, 0xEF, 0xBF, 0xBD, 0xEF, 0xBF, 0xBD, 0xEF, 0xBF, 0xBD, 0xEF, 0xBF,
               0xBD);
    rv_vocab_free(vocab);
}

static void ends_are_known_by_id_and_by_spelling(void **state)
{
    struct rv_vocab *vocab;
    int32_t eot, end, call;

    (void)state;
    tiny_vocab_bpe(&tiny, "gpt-2");
    tiny.spec.eos = 0;
    tiny.spec.eom = 1;
    eot = tiny_vocab_add(&tiny, "<|eot_id|>", RV_TOKEN_NORMAL, 0); // called ordinary by the file
    end = tiny_vocab_add(&tiny, "<|end|>", RV_TOKEN_CONTROL, 0);
    assert_ok(rv_vocab_new(&vocab, &tiny.spec, err));
    assert_true(rv_vocab_is_eog(vocab, 0));
    assert_true(rv_vocab_is_eog(vocab, 1));
    assert_true(rv_vocab_is_eog(vocab, IM_END));
    assert_true(rv_vocab_is_eog(vocab, eot));
    assert_true(rv_vocab_is_eog(vocab, end));
    assert_int_equal(rv_vocab_type(vocab, eot), RV_TOKEN_CONTROL);
    assert_false(rv_vocab_is_eog(vocab, IM_START));
    assert_false(rv_vocab_is_eog(vocab, -1));
    assert_false(rv_vocab_is_eog(vocab, INT_MAX));
    rv_vocab_free(vocab);

    tiny_vocab_add(&tiny, "<|return|>", RV_TOKEN_CONTROL, 0);
    call = tiny_vocab_add(&tiny, "<|call|>", RV_TOKEN_CONTROL, 0);
    assert_ok(rv_vocab_new(&vocab, &tiny.spec, err));
    assert_true(rv_vocab_is_eog(vocab, call));
    assert_false(rv_vocab_is_eog(vocab, end)); // closes a part of the answer in this company
    assert_int_equal(rv_vocab_type(vocab, end), RV_TOKEN_CONTROL);
    rv_vocab_free(vocab);
}

static void bos_and_eos_are_added_as_the_file_says(void **state)
{
    struct rv_vocab *vocab;

    (void)state;
    tiny_vocab_bpe(&tiny, "llama-bpe"); // adds BOS unless told otherwise
    assert_ok(rv_vocab_new(&vocab, &tiny.spec, err));
    assert_int_equal(rv_vocab_bos(vocab), -1);
    assert_false(rv_vocab_adds_bos(vocab)); // but there is none
    rv_vocab_free(vocab);
    tiny.spec.bos = IM_START;
    tiny.spec.add_eos = RV_YES;
    assert_ok(rv_vocab_new(&vocab, &tiny.spec, err));
    ASSERT_IDS(vocab, "h", NULL, RV_ENCODE_ADD_SPECIAL, IM_START, 'h', IM_END);
    ASSERT_IDS(vocab, "h", NULL, 0, 'h');
    rv_vocab_free(vocab);
    tiny.spec.add_bos = RV_NO;
    assert_ok(rv_vocab_new(&vocab, &tiny.spec, err));
    ASSERT_IDS(vocab, "h", NULL, RV_ENCODE_ADD_SPECIAL, 'h', IM_END);
    rv_vocab_free(vocab);
}

static void decoding_undoes_the_space_in_front(void **state)
{
    static const int32_t ids[] = {1, 274, 274};
    struct rv_vocab *vocab;

    (void)state;
    tiny_vocab_spm(&tiny);
    assert_ok(rv_vocab_new(&vocab, &tiny.spec, err));
    assert_decodes(vocab, ids, 3, false, "hello hello");
    assert_decodes(vocab, ids + 1, 2, false, "hello hello");
    assert_decodes(vocab, ids, 3, true, "<s>hello hello");
    assert_decodes(vocab, (const int32_t[]){-5, INT_MAX, 3 + 'x'}, 3, false, "x");
    assert_int_equal(rv_vocab_piece(vocab, 1, false).len, 0);
    assert_int_equal(rv_vocab_piece(vocab, -1, true).len, 0);
    rv_vocab_free(vocab);
}

static void phi_3_swallows_space_after_special_tokens(void **state)
{
    struct rv_vocab *vocab;

    (void)state;
    tiny_vocab_spm(&tiny);
    tiny.spec.name = (struct rv_str){.data = "My Phi-3 mini", .len = 13};
    tiny_vocab_add(&tiny, "<|user|>", RV_TOKEN_CONTROL, 0); // 280
    assert_ok(rv_vocab_new(&vocab, &tiny.spec, err));
    ASSERT_IDS(vocab, "<|user|>\n  hello", NULL, RV_ENCODE_PARSE_SPECIAL, 280, 274);
    ASSERT_IDS(vocab, "<s>\nhello", NULL, RV_ENCODE_PARSE_SPECIAL, 1, 259, 3 + '\n', 273);
    rv_vocab_free(vocab);
}

static void the_arrays_may_go_once_it_is_made(void **state)
{
    struct tiny_vocab *copy = malloc(sizeof(*copy));
    struct rv_vocab *vocab;

    (void)state;
    tiny_vocab_bpe(&tiny, "qwen2");
    memcpy(copy, &tiny, sizeof(tiny));
    copy->spec.tokens = copy->tokens;
    copy->spec.merges = copy->merges;
    copy->spec.types = copy->types;
    copy->spec.scores = copy->scores;
    assert_ok(rv_vocab_new(&vocab, &copy->spec, err));
    free(copy);
    ASSERT_IDS(vocab, "hello", NULL, 0, 259);
    assert_string_equal(rv_vocab_description(vocab), "bpe/qwen2");
    rv_vocab_free(vocab);
}

static void text_over_the_limit_is_refused_unread(void **state)
{
    struct rv_vocab *vocab;
    int32_t *ids;
    size_t n_ids;

    (void)state;
    tiny_vocab_bpe(&tiny, "gpt-2");
    assert_ok(rv_vocab_new(&vocab, &tiny.spec, err));
    assert_fails(rv_vocab_encode(vocab, "x", ((size_t)64 << 20) + 1, NULL, 0, &ids, &n_ids, &failure), RUVLLM_TOO_LARGE,
                 failure, "larger than");
    assert_null(ids);
    rv_vocab_free(vocab);
}

/* The merges of a word that is long enough for the heap give what the linear search gives on short ones. */
static void long_words_merge_like_short_ones(void **state)
{
    static char text[5 * 1000];
    struct rv_vocab *vocab;
    int32_t *ids;
    size_t n_ids;

    (void)state;
    tiny_vocab_bpe(&tiny, "gpt-2");
    assert_ok(rv_vocab_new(&vocab, &tiny.spec, err));
    for (size_t i = 0; i < sizeof(text); i += 5)
        memcpy(text + i, "hello", 5);
    assert_ok(rv_vocab_encode(vocab, text, sizeof(text), NULL, 0, &ids, &n_ids, err));
    assert_int_equal(n_ids, 1000);
    for (size_t i = 0; i < n_ids; i++)
        assert_int_equal(ids[i], 259);
    rv_free(ids);
    rv_vocab_free(vocab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_families_are_named),
        cmocka_unit_test(inconsistent_specs_are_refused),
        cmocka_unit_test(bytes_fall_back_where_no_token_fits),
        cmocka_unit_test(higher_scores_are_merged_first),
        cmocka_unit_test(merging_never_makes_a_control_token),
        cmocka_unit_test(special_tokens_need_trusted_bytes),
        cmocka_unit_test(user_defined_tokens_match_everywhere),
        cmocka_unit_test(longer_special_tokens_win_wherever_they_start),
        cmocka_unit_test(invalid_utf8_is_repaired_for_bpe),
        cmocka_unit_test(ends_are_known_by_id_and_by_spelling),
        cmocka_unit_test(bos_and_eos_are_added_as_the_file_says),
        cmocka_unit_test(decoding_undoes_the_space_in_front),
        cmocka_unit_test(phi_3_swallows_space_after_special_tokens),
        cmocka_unit_test(the_arrays_may_go_once_it_is_made),
        cmocka_unit_test(text_over_the_limit_is_refused_unread),
        cmocka_unit_test(long_words_merge_like_short_ones),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
