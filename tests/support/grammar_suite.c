#include "support/grammar_suite.h"

#include "base/alloc.h"

struct grammar_fixture grammar_suite;

int grammar_suite_set_up(void **state)
{
    (void)state;
    grammar_fixture_init(&grammar_suite);
    return 0;
}

int grammar_suite_tear_down(void **state)
{
    (void)state;
    grammar_fixture_release(&grammar_suite);
    return 0;
}

bool grammar_suite_allows(const uint64_t *bits, int32_t token)
{
    return bits[token / 64] >> (token % 64) & 1;
}

int32_t grammar_suite_pick(const uint64_t *bits, bool is_allowed, struct rv_rng *rng)
{
    int32_t n = (int32_t)rv_vocab_n_tokens(grammar_suite.vocab), first = (int32_t)rv_rng_below(rng, (uint32_t)n);

    for (int32_t i = 0; i < n; i++) {
        int32_t token = (first + i) % n;

        if (grammar_suite_allows(bits, token) == is_allowed && !rv_vocab_is_eog(grammar_suite.vocab, token))
            return token;
    }
    return -1;
}

void grammar_suite_check(enum rv_grammar_kind kind, const char *grammar, const char *const *good,
                         const char *const *bad)
{
    struct rv_grammar *g = grammar_fixture_new(&grammar_suite, kind, grammar);

    for (; *good; good++)
        if (!grammar_fixture_takes(g, *good))
            fail_msg("%s does not take '%s'", grammar, *good);
    for (; *bad; bad++)
        if (grammar_fixture_takes(g, *bad))
            fail_msg("%s takes '%s'", grammar, *bad);
    rv_grammar_unref(g);
}

char *grammar_suite_repeat(const char *before, const char *unit, size_t n, const char *after)
{
    struct rv_buf buf;

    rv_buf_init(&buf, 1 << 20);
    rv_buf_add_str(&buf, before);
    for (size_t i = 0; i < n; i++)
        rv_buf_add_str(&buf, unit);
    rv_buf_add_str(&buf, after);
    return rv_buf_take(&buf, NULL);
}

void grammar_suite_refuse(enum rv_grammar_kind kind, const struct grammar_suite_refusal *refusals, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        grammar_fixture_refuses(&grammar_suite, kind, refusals[i].text, refusals[i].message);
        rv_free(refusals[i].text);
    }
}
