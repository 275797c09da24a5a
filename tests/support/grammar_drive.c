/* See grammar_drive.h. The vocabulary is made with the first text. */
#include "support/grammar_drive.h"

#include "base/rng.h"
#include "base/str_map.h"
#include "sample/automaton.h"
#include "support/tiny_vocab.h"

#include <string.h>

enum { MAX_STEPS = 40 };

/* Made once and then only read. */
static const struct rv_token_trie *the_trie(void)
{
    static struct tiny_vocab tiny;
    static struct rv_token_trie *trie;
    static const char *const words[] = {"\",", "\"}", "\":", "{\"", "true", "null",
                                        "ab",  "abc", "\"a", "12",  "}}",   "[]"};
    struct rv_vocab *vocab;

    if (trie)
        return trie;
    tiny_vocab_bpe(&tiny, "gpt-2");
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        (void)tiny_vocab_add(&tiny, words[i], RV_TOKEN_NORMAL, 0);
    RV_ASSERT(rv_vocab_new(&vocab, &tiny.spec, NULL) == RUVLLM_OK);
    RV_ASSERT(rv_token_trie_new(&trie, vocab, NULL) == RUVLLM_OK);
    return trie;
}

/* A token of the mask, from a random place on. */
static int32_t pick(const uint64_t *bits, size_t n, struct rv_rng *rng)
{
    size_t first = rv_rng_below(rng, (uint32_t)n);

    for (size_t i = 0; i < n; i++) {
        size_t token = (first + i) % n;

        if (bits[token / 64] >> (token % 64) & 1)
            return (int32_t)token;
    }
    return -1;
}

static bool follow(struct rv_grammar_matcher *m, struct rv_rng *rng, struct rv_buf *out)
{
    const struct rv_token_trie *trie = the_trie();

    for (int i = 0; i < MAX_STEPS && !rv_grammar_matcher_is_complete(m); i++) {
        uint8_t bytes[RV_TOKEN_TRIE_MAX_LEN];
        const uint64_t *bits;
        struct ruvllm_error err = {0};
        ruvllm_status rc = rv_grammar_matcher_mask(m, &bits, &err);
        int32_t token;

        if (rc) {
            RV_ASSERT(rc == RUVLLM_INVALID && strlen(err.message) > 0);
            return false;
        }
        token = pick(bits, trie->n_tokens, rng);
        RV_ASSERT(token >= 0);
        if (rv_vocab_is_eog(trie->vocab, token)) {
            RV_ASSERT(rv_grammar_matcher_may_end(m));
            return true;
        }
        rc = rv_grammar_matcher_accept(m, token, &err);
        if (rc) {
            RV_ASSERT(rc == RUVLLM_INVALID && strlen(err.message) > 0);
            return false;
        }
        rv_buf_add(out, bytes, rv_token_trie_bytes(trie, token, bytes));
    }
    return rv_grammar_matcher_is_complete(m);
}

static void check_status(ruvllm_status rc, const struct ruvllm_error *err)
{
    RV_ASSERT(rc == RUVLLM_OK || rc == RUVLLM_INVALID || rc == RUVLLM_NO_MEMORY);
    RV_ASSERT(rc == RUVLLM_OK || strlen(err->message) > 0);
}

static void compile_only(const struct rv_grammar_source *source)
{
    struct rv_automaton automaton = {0};
    struct ruvllm_error err = {0};
    struct rv_syntax syntax;
    ruvllm_status rc;

    rv_syntax_init(&syntax);
    rc = rv_grammar_write(&syntax, source, the_trie()->vocab, &err);
    if (!rc)
        rc = rv_automaton_init(&automaton, &syntax, &err);
    check_status(rc, &err);
    rv_automaton_release(&automaton);
    rv_syntax_release(&syntax);
}

void grammar_drive(enum rv_grammar_kind kind, const char *text, size_t len, uint32_t share, struct rv_buf *out,
                   bool *is_whole)
{
    struct rv_grammar_source source = {.kind = kind, .text = text, .len = len};
    struct rv_grammar_matcher *m = NULL;
    struct ruvllm_error err = {0};
    struct rv_grammar *g;
    struct rv_rng rng;
    ruvllm_status rc;

    *is_whole = false;
    rv_rng_init(&rng, rv_str_map_hash(1, text, len));
    if (rv_rng_below(&rng, share) > 0) {
        compile_only(&source);
        return;
    }
    rc = rv_grammar_new(&g, &source, the_trie(), &err);
    if (!rc)
        rc = rv_grammar_matcher_new(&m, g, &err);
    check_status(rc, &err);
    if (!rc)
        *is_whole = follow(m, &rng, out);
    rv_grammar_matcher_free(m);
    rv_grammar_unref(g);
}
