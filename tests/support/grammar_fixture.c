/* See grammar_fixture.h. */
#include "support/grammar_fixture.h"

#include "support/test.h"

#include <string.h>
#include <time.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SLOW 10
#endif
#endif
#ifndef SLOW
#define SLOW 1
#endif

/* The thread's own time: what others do on the machine is not the grammar's fault. */
static int64_t cpu_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

void grammar_fixture_init(struct grammar_fixture *fixture)
{
    /* The last ones: long, with the bytes C3 and A9 of one character together and apart, and twice the same. */
    static const char *const words[] = {"\",",
                                        "\"}",
                                        "\":",
                                        "{\"",
                                        "true",
                                        "false",
                                        "null",
                                        "abc",
                                        "ab",
                                        "\"a",
                                        "a\"",
                                        "a\",\"b",
                                        "12",
                                        "3.5",
                                        "}}",
                                        "[]",
                                        "\":\"",
                                        "</th",
                                        "ink>",
                                        "<tool",
                                        "e\"}",
                                        "123456789",
                                        "abcdefghijk",
                                        "aaaaaaaaaaaaaaaaaaaaaaaa",
                                        "bbbbbbbbbbbbbbbbbb\",\"c",
                                        "\u00c3\u00a9",
                                        "ab\u00c3",
                                        "\u00a9b\",",
                                        "\u00c3\u00a9\u00c3\u00a9ab",
                                        "abc."};

    tiny_vocab_bpe(&fixture->tiny, "gpt-2");
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        (void)tiny_vocab_add(&fixture->tiny, words[i], RV_TOKEN_NORMAL, 0);
    assert_ok(rv_vocab_new(&fixture->vocab, &fixture->tiny.spec, err));
    assert_ok(rv_token_trie_new(&fixture->trie, fixture->vocab, err));
}

void grammar_fixture_release(struct grammar_fixture *fixture)
{
    rv_token_trie_free(fixture->trie);
    rv_vocab_free(fixture->vocab);
}

static struct rv_grammar_source source_of(enum rv_grammar_kind kind, const char *text)
{
    return (struct rv_grammar_source){.kind = kind, .text = text, .len = strlen(text)};
}

struct rv_grammar *grammar_fixture_new(const struct grammar_fixture *fixture, enum rv_grammar_kind kind,
                                       const char *text)
{
    struct rv_grammar_source source = source_of(kind, text);
    struct rv_grammar *grammar;
    struct ruvllm_error err;

    if (rv_grammar_new(&grammar, &source, fixture->trie, &err))
        fail_msg("%s: %s", text, err.message);
    return grammar;
}

bool grammar_fixture_takes(struct rv_grammar *grammar, const char *text)
{
    struct rv_grammar_matcher *matcher;
    bool taken;

    assert_ok(rv_grammar_matcher_new(&matcher, grammar, err));
    taken = rv_grammar_matcher_read(matcher, text, strlen(text)) && rv_grammar_matcher_may_end(matcher);
    rv_grammar_matcher_free(matcher);
    return taken;
}

bool grammar_fixture_matches(const struct grammar_fixture *fixture, enum rv_grammar_kind kind, const char *grammar,
                             const char *text)
{
    struct rv_grammar *made = grammar_fixture_new(fixture, kind, grammar);
    bool taken = grammar_fixture_takes(made, text);

    rv_grammar_unref(made);
    return taken;
}

void grammar_fixture_refuses(const struct grammar_fixture *fixture, enum rv_grammar_kind kind, const char *text,
                             const char *message)
{
    struct rv_grammar_source source = source_of(kind, text);
    int64_t start = cpu_us();
    struct rv_grammar *grammar;
    struct ruvllm_error err = {0};
    ruvllm_status rc = rv_grammar_new(&grammar, &source, fixture->trie, &err);

    if (rc != RUVLLM_INVALID || !strstr(err.message, message))
        fail_msg("%.60s gave %s, '%s', not '%s'", text, ruvllm_status_name(rc), err.message, message);
    assert_null(grammar);
    assert_in_range(cpu_us() - start, 0, 100000 * SLOW);
}
