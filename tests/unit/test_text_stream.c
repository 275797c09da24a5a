/* The streaming detokenizer: whole characters, stop strings across tokens, and no allocation while pushing. */
#include "base/rng.h"
#include "base/utf8.h"
#include "support/test.h"
#include "support/tiny_vocab.h"
#include "text/text_stream.h"

#include <malloc.h>
#include <stdio.h>
#include <string.h>

static struct tiny_vocab tiny;
static struct rv_vocab *vocab; // ids 0 to 255 are the bytes
static struct ruvllm_error failure;

static int make_vocab(void **state)
{
    (void)state;
    tiny_vocab_bpe(&tiny, "gpt-2");
    return rv_vocab_new(&vocab, &tiny.spec, &failure);
}

static int free_vocab(void **state)
{
    (void)state;
    rv_vocab_free(vocab);
    return 0;
}

static struct rv_text_stream *stream_with(const char *const *stops, size_t n_stops)
{
    struct rv_text_stream *stream;

    assert_ok(rv_text_stream_new(&stream, vocab, stops, n_stops, err));
    return stream;
}

/* Pushes one token and asserts what comes out. */
static void expect(struct rv_text_stream *stream, int32_t token, const char *text, bool stops)
{
    struct rv_str piece;
    bool stopped;

    assert_ok(rv_text_stream_push(stream, token, &piece, &stopped, err));
    assert_string_equal(piece.data, text);
    assert_int_equal(piece.len, strlen(text));
    assert_int_equal(stopped, stops);
}

static void expect_end(struct rv_text_stream *stream, const char *rest, const char *all)
{
    struct rv_str piece;

    assert_ok(rv_text_stream_finish(stream, &piece, err));
    assert_string_equal(piece.data, rest);
    assert_int_equal(rv_text_stream_text(stream).len, strlen(all));
    assert_string_equal(rv_text_stream_text(stream).data, all);
    rv_text_stream_free(stream);
}

static void characters_are_never_split(void **state)
{
    struct rv_text_stream *stream = stream_with(NULL, 0);

    (void)state;
    expect(stream, 'a', "a", false);
    expect(stream, 0xF0, "", false);
    expect(stream, 0x9F, "", false);
    expect(stream, 0xA6, "", false);
    expect(stream, 0x99, "🦙", false);
    expect(stream, 259, "hello", false);
    expect(stream, 0xC3, "", false);
    expect_end(stream, "\xEF\xBF\xBD", "a🦙hello\xEF\xBF\xBD");
}

static void bytes_that_are_no_text_become_replacements(void **state)
{
    struct rv_text_stream *stream = stream_with(NULL, 0);

    (void)state;
    expect(stream, 0xFF, "\xEF\xBF\xBD", false);
    expect(stream, 0xC3, "", false);
    expect(stream, 'b',
           "\xEF\xBF\xBD"
           "b",
           false);
    expect(stream, 0xE2, "", false);
    expect(stream, 0x82, "", false);
    expect(stream, 0xC3, "\xEF\xBF\xBD\xEF\xBF\xBD", false);
    expect(stream, 0xA9, "é", false);
    expect_end(stream, "",
               "\xEF\xBF\xBD\xEF\xBF\xBD"
               "b\xEF\xBF\xBD\xEF\xBF\xBD"
               "é");
}

static void control_tokens_show_nothing(void **state)
{
    struct rv_text_stream *stream = stream_with(NULL, 0);

    (void)state;
    expect(stream, 260, "", false);
    expect(stream, 262, "<tool>", false);
    expect_end(stream, "", "<tool>");
}

static void a_possible_stop_string_is_held_back(void **state)
{
    static const char *const stops[] = {"END", "\nUser:"};
    struct rv_text_stream *stream = stream_with(stops, 2);

    (void)state;
    expect(stream, 'x', "x", false);
    expect(stream, 'E', "", false);
    expect(stream, 'N', "", false);
    expect(stream, 'E', "EN", false);
    expect(stream, '!', "E!", false);
    expect(stream, '\n', "", false);
    expect(stream, 'U', "", false);
    expect(stream, '\n', "\nU", false);
    expect_end(stream, "\n", "xENE!\nU\n");
}

static void text_is_cut_exactly_before_a_stop_string(void **state)
{
    static const char *const stops[] = {"lohe"};
    struct rv_text_stream *stream = stream_with(stops, 1);

    (void)state;
    expect(stream, 259, "hel", false); // "lo" waits
    expect(stream, 259, "", true);
    expect(stream, 'x', "", true);
    expect_end(stream, "", "hel");
}

static void of_two_stop_strings_the_first_complete_one_counts(void **state)
{
    static const char *const stops[] = {"abcde", "bcd", "xbcd"};
    struct rv_text_stream *stream = stream_with(stops, 3);

    (void)state;
    expect(stream, 'a', "", false);
    expect(stream, 'b', "", false);
    expect(stream, 'c', "", false);
    expect(stream, 'd', "a", true);
    expect_end(stream, "", "a");
}

static void a_stop_string_of_many_bytes_may_be_one_character(void **state)
{
    static const char *const stops[] = {"é", "🦙"};
    struct rv_text_stream *stream = stream_with(stops, 2);

    (void)state;
    expect(stream, 0xC3, "", false);
    expect(stream, 0xA8, "è", false);
    expect(stream, 0xC3, "", false);
    expect(stream, 0xA9, "", true);
    expect_end(stream, "", "è");
}

static void bad_stop_strings_are_refused(void **state)
{
    static char huge[2000];
    const char *empty = "", *broken = "\xC3", *many[65], *long_one = huge;
    struct rv_text_stream *stream;

    (void)state;
    memset(huge, 'x', sizeof(huge) - 1);
    for (size_t i = 0; i < 65; i++)
        many[i] = "x";
    assert_fails(rv_text_stream_new(&stream, vocab, &empty, 1, &failure), RUVLLM_INVALID, failure, "empty");
    assert_null(stream);
    assert_fails(rv_text_stream_new(&stream, vocab, &broken, 1, &failure), RUVLLM_INVALID, failure, "UTF-8");
    assert_fails(rv_text_stream_new(&stream, vocab, &long_one, 1, &failure), RUVLLM_TOO_LARGE, failure, "1024");
    assert_fails(rv_text_stream_new(&stream, vocab, many, 65, &failure), RUVLLM_TOO_LARGE, failure, "64");
}

static void unknown_ids_are_refused_and_harm_nothing(void **state)
{
    struct rv_text_stream *stream = stream_with(NULL, 0);
    struct rv_str piece;
    bool stopped;

    (void)state;
    expect(stream, 'a', "a", false);
    assert_fails(rv_text_stream_push(stream, -1, &piece, &stopped, &failure), RUVLLM_INVALID, failure, "token -1");
    assert_fails(rv_text_stream_push(stream, 100000, &piece, &stopped, &failure), RUVLLM_INVALID, failure,
                 "token 100000");
    expect(stream, 'b', "b", false);
    expect_end(stream, "", "ab");
}

static void the_first_space_goes_only_at_the_start_of_a_text(void **state)
{
    static struct tiny_vocab spm;
    struct rv_vocab *words;
    struct rv_text_stream *stream;

    (void)state;
    tiny_vocab_spm(&spm);
    assert_ok(rv_vocab_new(&words, &spm.spec, err));
    assert_ok(rv_text_stream_new(&stream, words, NULL, 0, err));
    expect(stream, 274, " hello", false);
    expect_end(stream, "", " hello");
    assert_ok(rv_text_stream_new(&stream, words, NULL, 0, err));
    rv_text_stream_begin_text(stream);
    expect(stream, 1, "", false);
    expect(stream, 274, "hello", false);
    expect(stream, 274, " hello", false);
    expect_end(stream, "", "hello hello");
    rv_vocab_free(words);
}

/* However the text is cut into tokens, all that comes out is one UTF-8 text without a stop string in it. */
static void pieces_add_up_whatever_the_tokens(void **state)
{
    static const char *const stops[] = {"aab", "hellohe", "\xC3\xA9\xC3\xA9"};
    static const char alphabet[] = "aabhe \xC3\xA9\xF0\x9F\xA6\x99\xFF";
    struct rv_rng rng;

    (void)state;
    rv_rng_init(&rng, 7);
    for (int round = 0; round < 2000; round++) {
        struct rv_text_stream *stream = stream_with(stops, 3);
        char all[4096];
        size_t len = 0;
        bool stopped = false;
        struct rv_str piece;

        for (int i = 0; i < 60 && !stopped; i++) {
            int32_t token = rv_rng_below(&rng, 4) ? (unsigned char)alphabet[rv_rng_below(&rng, sizeof(alphabet) - 1)]
                                                  : 256 + (int32_t)rv_rng_below(&rng, 4);
            assert_ok(rv_text_stream_push(stream, token, &piece, &stopped, err));
            assert_true(rv_utf8_valid(piece.data, piece.len));
            memcpy(all + len, piece.data, piece.len);
            len += piece.len;
        }
        assert_ok(rv_text_stream_finish(stream, &piece, err));
        memcpy(all + len, piece.data, piece.len);
        len += piece.len;
        all[len] = '\0';
        assert_int_equal(len, rv_text_stream_text(stream).len);
        assert_memory_equal(all, rv_text_stream_text(stream).data, len);
        for (size_t i = 0; i < 3; i++)
            assert_null(strstr(all, stops[i]));
        rv_text_stream_free(stream);
    }
}

static void pushing_after_reserve_moves_no_memory(void **state)
{
    static const char *const stops[] = {"never"};
    struct rv_text_stream *stream = stream_with(stops, 1);
    const char *before;

    (void)state;
    assert_ok(rv_text_stream_reserve(stream, 10000, err));
    before = rv_text_stream_text(stream).data;
    for (int i = 0; i < 10000; i++) {
        struct rv_str piece;
        bool stopped;
        struct mallinfo2 then = mallinfo2(), now;

        assert_ok(rv_text_stream_push(stream, i % 263, &piece, &stopped, err));
        now = mallinfo2();
        assert_int_equal(now.uordblks, then.uordblks);
    }
    assert_ptr_equal(rv_text_stream_text(stream).data, before);
    rv_text_stream_free(stream);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(characters_are_never_split),
        cmocka_unit_test(bytes_that_are_no_text_become_replacements),
        cmocka_unit_test(control_tokens_show_nothing),
        cmocka_unit_test(a_possible_stop_string_is_held_back),
        cmocka_unit_test(text_is_cut_exactly_before_a_stop_string),
        cmocka_unit_test(of_two_stop_strings_the_first_complete_one_counts),
        cmocka_unit_test(a_stop_string_of_many_bytes_may_be_one_character),
        cmocka_unit_test(bad_stop_strings_are_refused),
        cmocka_unit_test(unknown_ids_are_refused_and_harm_nothing),
        cmocka_unit_test(the_first_space_goes_only_at_the_start_of_a_text),
        cmocka_unit_test(pieces_add_up_whatever_the_tokens),
        cmocka_unit_test(pushing_after_reserve_moves_no_memory),
    };

    return cmocka_run_group_tests(tests, make_vocab, free_vocab);
}
