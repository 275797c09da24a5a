/* Looking ahead: how many tokens would fit, told without going there. */
#include "support/grammar_suite.h"

#include <string.h>

enum { AHEAD = 6 };

/* Up to AHEAD tokens that fit behind `text`, and for each one that would not; returns how many. */
static int32_t make_way(struct rv_grammar *g, const struct rv_buf *text, struct rv_rng *rng, int32_t *right,
                        int32_t *wrong)
{
    struct rv_grammar_matcher *m;
    int32_t n = 0;

    assert_ok(rv_grammar_matcher_new(&m, g, err));
    assert_true(rv_grammar_matcher_read(m, text->len ? text->data : "", text->len));
    for (; n < AHEAD && !rv_grammar_matcher_is_complete(m); n++) {
        const uint64_t *bits;

        assert_ok(rv_grammar_matcher_mask(m, &bits, err));
        right[n] = grammar_suite_pick(bits, true, rng);
        wrong[n] = grammar_suite_pick(bits, false, rng);
        if (right[n] < 0)
            break; // the text can only end
        assert_ok(rv_grammar_matcher_accept(m, right[n], err));
    }
    rv_grammar_matcher_free(m);
    return n;
}

static void check_ahead(struct rv_grammar_matcher *m, struct rv_grammar *g, const struct rv_buf *text,
                        struct rv_rng *rng)
{
    int32_t right[AHEAD], wrong[AHEAD], n = make_way(g, text, rng, right, wrong);

    assert_int_equal(rv_grammar_matcher_foresee(m, right, n), n);
    assert_int_equal(rv_grammar_matcher_foresee(m, right, 0), 0);
    for (int32_t i = 0; i < n; i++) {
        int32_t kept = right[i];

        if (wrong[i] < 0)
            continue;
        right[i] = wrong[i];
        assert_int_equal(rv_grammar_matcher_foresee(m, right, n), i);
        right[i] = kept;
    }
}

static void what_fits_is_counted_and_nothing_moves(void **state)
{
    static const char *const grammars[] = {
        "root ::= \"{\" s (\",\" s)* \"}\"\ns ::= \"\\\"\" c* \"\\\"\"\nc ::= [^\"\\\\] | \"\\\\\" [\"\\\\]",
        "root ::= s s\ns ::= .{0,3} x?\nx ::= \"(\" s \")\" | [0-9]",
        "root ::= (\"ab\" | \"abc\")* (\"abc\" | \"c\")? [^x]{0,3}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(grammars) / sizeof(grammars[0]); i++) {
        struct rv_grammar *g = grammar_fixture_new(&grammar_suite, RV_GRAMMAR_GBNF, grammars[i]);
        struct rv_grammar_matcher *m;
        struct rv_buf text;
        struct rv_rng rng;

        rv_rng_init(&rng, i);
        rv_buf_init(&text, 1 << 16);
        assert_ok(rv_grammar_matcher_new(&m, g, err));
        for (int step = 0; step < 60 && !rv_grammar_matcher_is_complete(m); step++) {
            uint8_t bytes[RV_TOKEN_TRIE_MAX_LEN];
            const uint64_t *bits;
            int32_t token;

            check_ahead(m, g, &text, &rng);
            assert_ok(rv_grammar_matcher_mask(m, &bits, err));
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

/* Guesses that use the tables up cost guesses; the answer goes on from where it was. */
static void tables_that_run_over_leave_the_answer_where_it_was(void **state)
{
    struct rv_grammar *g = grammar_fixture_new(&grammar_suite, RV_GRAMMAR_GBNF,
                                               "root ::= a{0,6000} \"!\"\na ::= [a-z] | \"(\" [0-9] \")\"");
    struct rv_grammar_matcher *m;
    int32_t ahead[2000];
    int n_short = 0;

    (void)state;
    for (int i = 0; i < 2000; i++)
        ahead[i] = 'q'; // the fixture's bytes are its first tokens
    assert_ok(rv_grammar_matcher_new(&m, g, err));
    for (int i = 0; i < 40; i++) {
        n_short += rv_grammar_matcher_foresee(m, ahead, 2000) < 2000;
        assert_true(rv_grammar_matcher_read(m, "(7)", 3));
    }
    assert_true(n_short > 0);
    assert_true(rv_grammar_matcher_read(m, "!", 1));
    assert_true(rv_grammar_matcher_is_complete(m));
    assert_int_equal(rv_grammar_matcher_foresee(m, ahead, 1), 0);
    rv_grammar_matcher_free(m);
    rv_grammar_unref(g);
}

static void what_ends_an_answer_is_not_foreseen(void **state)
{
    struct rv_grammar *g = grammar_fixture_new(&grammar_suite, RV_GRAMMAR_GBNF, "root ::= .*");
    struct rv_grammar_matcher *m;

    (void)state;
    assert_ok(rv_grammar_matcher_new(&m, g, err));
    assert_true(grammar_suite.trie->n_ends > 0);
    for (size_t i = 0; i < grammar_suite.trie->n_ends; i++) {
        int32_t tokens[] = {'a', grammar_suite.trie->ends[i], 'a'};

        assert_int_equal(rv_grammar_matcher_foresee(m, tokens, 3), 1);
    }
    rv_grammar_matcher_free(m);
    rv_grammar_unref(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_fits_is_counted_and_nothing_moves),
        cmocka_unit_test(tables_that_run_over_leave_the_answer_where_it_was),
        cmocka_unit_test(what_ends_an_answer_is_not_foreseen),
    };

    return cmocka_run_group_tests(tests, grammar_suite_set_up, grammar_suite_tear_down);
}
