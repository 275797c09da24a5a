/*
 * Masks against the obvious: a token is allowed exactly when a fresh matcher can read its bytes after the text so far.
 * Random texts are generated under each grammar; every one ends complete.
 */
#include "base/alloc.h"
#include "support/grammar_suite.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct {
    enum rv_grammar_kind kind;
    const char *text;
} grammars[] = {
    {RV_GRAMMAR_JSON_OBJECT, ""},
    {RV_GRAMMAR_JSON_SCHEMA,
     "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\"},\"b\":{\"type\":\"integer\"},"
     "\"abc\":{\"type\":\"array\",\"items\":{\"type\":\"string\",\"maxLength\":80}}},"
     "\"additionalProperties\":{\"enum\":[\"a\",\"ab\",\"abc\",null]}}"},
    {RV_GRAMMAR_JSON_SCHEMA, "{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"string\",\"pattern\":\"a.*b\"},"
                             "{\"type\":\"array\",\"items\":{\"$ref\":\"#\"}}]}"},
    {RV_GRAMMAR_GBNF,
     "root ::= \"{\" s (\",\" s)* \"}\"\ns ::= \"\\\"\" c* \"\\\"\"\nc ::= [^\"\\\\] | \"\\\\\" [\"\\\\]"},
    {RV_GRAMMAR_GBNF, "root ::= s s\ns ::= .{0,3} x?\nx ::= \"(\" s \")\" | [0-9]"},
    {RV_GRAMMAR_REGEX, "(ab|abc)*(abc|c)?[^x]{0,3}"},
    {RV_GRAMMAR_REGEX, "[\\w\\s]+\",?"},
    /* Repetitions that are counted: plain, of children of several characters, without an end, followed by what their
     * child reads too, one inside of the other's copies, several at once, and of children that can be cut in two ways.
     */
    {RV_GRAMMAR_JSON_SCHEMA,
     "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"minLength\":9,\"maxLength\":40},\"minItems\":3}"},
    {RV_GRAMMAR_JSON_SCHEMA, "{\"type\":\"string\",\"minLength\":300,\"maxLength\":100000}"},
    {RV_GRAMMAR_REGEX, "([^\"]{0,30}\",)*"},
    {RV_GRAMMAR_REGEX, "(-[a-z]|[A-Z\u00e9][^.]|[0-9a-z]){8,30}\\."},
    {RV_GRAMMAR_REGEX, "[^\"]{20,}\"[^x]{12}"},
    {RV_GRAMMAR_REGEX, "[a-z\"]{8,20}[a-z0-9\"]+"},
    {RV_GRAMMAR_REGEX, "([a-z]{8,12}[.\",]){2,10}"},
    {RV_GRAMMAR_REGEX, "(x|ab|[a-z]{8,30}|[a-z\"]{9,11})*"},
    {RV_GRAMMAR_REGEX, "([a-z]|[a-z][a-z]|[a-z]{3}){8,20}\""},
    {RV_GRAMMAR_GBNF, "root ::= s{3,9}\ns ::= c{8,25} t\nc ::= [^\"]\nt ::= \"\\\"\" s? \",\"?"},
};

/* Whether a matcher that has read `text` from the beginning takes the token. */
static bool takes(struct rv_grammar *g, const struct rv_buf *text, int32_t token)
{
    struct rv_grammar_matcher *m;
    uint8_t bytes[RV_TOKEN_TRIE_MAX_LEN];
    size_t len = rv_token_trie_bytes(grammar_suite.trie, token, bytes);
    bool taken;

    assert_ok(rv_grammar_matcher_new(&m, g, err));
    assert_true(rv_grammar_matcher_read(m, text->len ? text->data : "", text->len));
    if (rv_vocab_is_eog(grammar_suite.vocab, token))
        taken = rv_grammar_matcher_may_end(m);
    else
        taken = len > 0 && rv_grammar_matcher_read(m, (const char *)bytes, len);
    rv_grammar_matcher_free(m);
    return taken;
}

static void masks_are_what_reading_says(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(grammars) / sizeof(grammars[0]); i++) {
        struct rv_grammar *g = grammar_fixture_new(&grammar_suite, grammars[i].kind, grammars[i].text);
        struct rv_grammar_matcher *m;
        struct rv_buf text;
        struct rv_rng rng;

        rv_rng_init(&rng, i);
        rv_buf_init(&text, 1 << 16);
        assert_ok(rv_grammar_matcher_new(&m, g, err));
        for (int step = 0; step < 24 && !rv_grammar_matcher_is_complete(m); step++) {
            const uint64_t *bits;
            uint8_t bytes[RV_TOKEN_TRIE_MAX_LEN];
            int32_t token;

            assert_ok(rv_grammar_matcher_mask(m, &bits, err));
            for (int32_t t = 0; t < (int32_t)rv_vocab_n_tokens(grammar_suite.vocab); t++)
                if (grammar_suite_allows(bits, t) != takes(g, &text, t))
                    fail_msg("grammar %zu after '%.*s': token %d", i, (int)text.len, text.len ? text.data : "", (int)t);
            token = grammar_suite_pick(bits, true, &rng);
            if (token < 0)
                break;
            assert_ok(rv_grammar_matcher_accept(m, token, err));
            rv_buf_add(&text, bytes, rv_token_trie_bytes(grammar_suite.trie, token, bytes));
        }
        rv_grammar_matcher_free(m);
        rv_buf_release(&text);
        rv_grammar_unref(g);
    }
}

/* head{least,most}tail as `head` so many times and then groups inside of each other, which are not counted. */
static char *write_out(const char *child, int least, int most, const char *tail)
{
    struct rv_buf buf;

    rv_buf_init(&buf, 1 << 16);
    for (int i = 0; i < least; i++)
        rv_buf_add_str(&buf, child);
    for (int i = least; i < most; i++)
        rv_buf_addf(&buf, "(?:%s", child);
    for (int i = least; i < most; i++)
        rv_buf_add_str(&buf, ")?");
    rv_buf_add_str(&buf, tail);
    return rv_buf_take(&buf, NULL);
}

/* What is counted allows the same tokens as what is written out, step by step. */
static void counting_is_the_same_as_writing_out(void **state)
{
    static const struct {
        const char *child;
        int least, most;
        const char *tail;
    } cases[] = {{"[^\"]", 0, 60, "\"(,\"[^\"]*\")?"}, {"[^\"]", 12, 12, "\""},
                 {"[a-z\\u00e9]", 30, 50, "(\\.|\")"}, {"(?:[^\"a]|a[^\"])", 3, 40, "\"|b\""},
                 {"[a-z\"]", 2, 40, "[a-z]\""},        {"(?:[a-c]|[a-z][a-z])", 4, 30, "\""}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char counted[128], *written = write_out(cases[i].child, cases[i].least, cases[i].most, cases[i].tail);
        struct rv_grammar *g[2];
        struct rv_rng rng;

        snprintf(counted, sizeof(counted), "%s{%d,%d}%s", cases[i].child, cases[i].least, cases[i].most, cases[i].tail);
        g[0] = grammar_fixture_new(&grammar_suite, RV_GRAMMAR_REGEX, counted);
        g[1] = grammar_fixture_new(&grammar_suite, RV_GRAMMAR_REGEX, written);
        rv_rng_init(&rng, i);
        for (int answer = 0; answer < 25; answer++) {
            struct rv_grammar_matcher *m[2];

            for (int k = 0; k < 2; k++)
                assert_ok(rv_grammar_matcher_new(&m[k], g[k], err));
            for (int step = 0; step < 60 && !rv_grammar_matcher_is_complete(m[1]); step++) {
                const uint64_t *bits[2];
                int32_t token;

                for (int k = 0; k < 2; k++)
                    assert_ok(rv_grammar_matcher_mask(m[k], &bits[k], err));
                for (int32_t t = 0; t < (int32_t)rv_vocab_n_tokens(grammar_suite.vocab); t++)
                    if (grammar_suite_allows(bits[0], t) != grammar_suite_allows(bits[1], t))
                        fail_msg("'%s', answer %d, step %d: token %d", counted, answer, step, (int)t);
                token = grammar_suite_pick(bits[0], true, &rng);
                if (token < 0)
                    break;
                for (int k = 0; k < 2; k++)
                    assert_ok(rv_grammar_matcher_accept(m[k], token, err));
            }
            for (int k = 0; k < 2; k++)
                rv_grammar_matcher_free(m[k]);
        }
        for (int k = 0; k < 2; k++)
            rv_grammar_unref(g[k]);
        rv_free(written);
    }
}

/* A thousand steps through tables that hold a thousand standings: what was dropped is found again. */
static void a_long_answer_starts_its_tables_over(void **state)
{
    struct rv_grammar *g = grammar_fixture_new(&grammar_suite, RV_GRAMMAR_GBNF,
                                               "root ::= a{0,6000} \"!\"\na ::= [a-z] | \"(\" [0-9] \")\"");
    struct rv_grammar_matcher *m;

    (void)state;
    assert_ok(rv_grammar_matcher_new(&m, g, err));
    for (int i = 0; i < 6000; i++) {
        const uint64_t *bits;

        assert_false(rv_grammar_matcher_is_complete(m));
        if (i % 397 == 0) {
            assert_ok(rv_grammar_matcher_mask(m, &bits, err));
            assert_true(grammar_suite_allows(bits, 'a'));
        }
        assert_true(i % 3 ? rv_grammar_matcher_read(m, "q", 1) : rv_grammar_matcher_read(m, "(7)", 3));
    }
    assert_false(rv_grammar_matcher_read(m, "q", 1));
    assert_true(rv_grammar_matcher_read(m, "!", 1));
    assert_true(rv_grammar_matcher_is_complete(m));
    rv_grammar_matcher_free(m);
    rv_grammar_unref(g);
}

/* A hundred brackets, and back. */
static void depth_is_kept(void **state)
{
    struct rv_grammar *g = grammar_fixture_new(&grammar_suite, RV_GRAMMAR_JSON_SCHEMA, "{\"type\":\"array\"}");
    struct rv_grammar_matcher *m;
    const uint64_t *bits;

    (void)state;
    assert_ok(rv_grammar_matcher_new(&m, g, err));
    for (int i = 0; i < 100; i++)
        assert_true(rv_grammar_matcher_read(m, "[", 1));
    assert_ok(rv_grammar_matcher_mask(m, &bits, err));
    for (int i = 0; i < 100; i++) {
        assert_false(rv_grammar_matcher_may_end(m));
        assert_true(rv_grammar_matcher_read(m, "]", 1));
    }
    assert_true(rv_grammar_matcher_is_complete(m));
    rv_grammar_matcher_free(m);
    rv_grammar_unref(g);
}

/* One that would keep thousands of ways open is given up with a sentence, within bounds. */
static void too_many_ways_are_an_error(void **state)
{
    struct rv_grammar *g = grammar_fixture_new(&grammar_suite, RV_GRAMMAR_REGEX, "(.|..|...)*a.{3000}");
    struct rv_grammar_matcher *m;
    struct ruvllm_error why = {0};
    ruvllm_status rc = RUVLLM_OK;

    (void)state;
    assert_ok(rv_grammar_matcher_new(&m, g, err));
    for (int i = 0; i < 4000 && !rc; i++) {
        const uint64_t *bits;

        rc = rv_grammar_matcher_mask(m, &bits, &why);
        if (!rc && !rv_grammar_matcher_read(m, "a", 1))
            rc = rv_fail(&why, RUVLLM_INVALID, "cannot be followed");
    }
    assert_int_equal(rc, RUVLLM_INVALID);
    assert_non_null(strstr(why.message, "followed"));
    rv_grammar_matcher_free(m);
    rv_grammar_unref(g);
}

static void forbidden_logits_become_infinite(void **state)
{
    struct rv_grammar *g = grammar_fixture_new(&grammar_suite, RV_GRAMMAR_REGEX, "a|b");
    size_t n = rv_vocab_n_tokens(grammar_suite.vocab) + 5; // rows may be longer than the vocabulary
    struct rv_grammar_matcher *m;
    float logits[TINY_VOCAB_MAX + 5];
    size_t n_left = 0;

    (void)state;
    for (size_t i = 0; i < n; i++)
        logits[i] = (float)i;
    assert_ok(rv_grammar_matcher_new(&m, g, err));
    assert_ok(rv_grammar_matcher_apply(m, logits, n, err));
    for (size_t i = 0; i < n; i++)
        if (logits[i] != -INFINITY) {
            assert_true(logits[i] == (float)i);
            n_left++;
        }
    assert_int_equal(n_left, 2);
    rv_grammar_matcher_free(m);
    rv_grammar_unref(g);
}

static void a_thought_may_come_first(void **state)
{
    struct rv_grammar_source source = {.kind = RV_GRAMMAR_REGEX, .text = "yes|no", .len = 6};
    struct rv_grammar *g;

    (void)state;
    source.thought = RV_GRAMMAR_MAY_THINK;
    assert_ok(rv_grammar_new(&g, &source, grammar_suite.trie, err));
    assert_true(grammar_fixture_takes(g, "yes"));
    assert_true(grammar_fixture_takes(g, "<think>well </thin </</think>\n\nno"));
    assert_false(grammar_fixture_takes(g, "<think>well"));
    assert_false(grammar_fixture_takes(g, "<think>well</think>"));
    assert_false(grammar_fixture_takes(g, "<think>well</think>maybe"));
    rv_grammar_unref(g);
    source.thought = RV_GRAMMAR_THINKS;
    assert_ok(rv_grammar_new(&g, &source, grammar_suite.trie, err));
    assert_true(grammar_fixture_takes(g, "well</think>no"));
    assert_false(grammar_fixture_takes(g, "no"));
    rv_grammar_unref(g);
}

/* Control tokens stand behind FF, which no text has. */
static void special_tokens_are_never_allowed_by_text(void **state)
{
    struct rv_grammar *g = grammar_fixture_new(&grammar_suite, RV_GRAMMAR_GBNF, "root ::= .*");
    struct rv_grammar_matcher *m;
    const uint64_t *bits;

    (void)state;
    assert_ok(rv_grammar_matcher_new(&m, g, err));
    assert_ok(rv_grammar_matcher_mask(m, &bits, err));
    for (int32_t t = 0; t < (int32_t)rv_vocab_n_tokens(grammar_suite.vocab); t++)
        if (rv_vocab_type(grammar_suite.vocab, t) == RV_TOKEN_CONTROL)
            assert_int_equal(grammar_suite_allows(bits, t), rv_vocab_is_eog(grammar_suite.vocab, t));
    rv_grammar_matcher_free(m);
    rv_grammar_unref(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_are_what_reading_says),
        cmocka_unit_test(counting_is_the_same_as_writing_out),
        cmocka_unit_test(a_long_answer_starts_its_tables_over),
        cmocka_unit_test(depth_is_kept),
        cmocka_unit_test(too_many_ways_are_an_error),
        cmocka_unit_test(forbidden_logits_become_infinite),
        cmocka_unit_test(a_thought_may_come_first),
        cmocka_unit_test(special_tokens_are_never_allowed_by_text),
    };

    return cmocka_run_group_tests(tests, grammar_suite_set_up, grammar_suite_tear_down);
}
