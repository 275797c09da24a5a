/* See grammar_drive.h. The vocabulary is made with the first text. */
#include "support/grammar_drive.h"

#include "base/rng.h"
#include "base/str_map.h"
#include "sample/automaton.h"
#include "support/tiny_vocab.h"

#include <string.h>

enum {
    MAX_STEPS = 40,
    LARGE_SHARE = 256, // where a share is followed: of how many texts one is written with all the copies it asks for
    MANY_COPIES = 10,  // of the others, at one repetition in four: enough of them to be counted
    FEW_COPIES = 4,    // at the rest; JSON's escapes have as many
};

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

static bool follow(struct rv_grammar_matcher *m, int n_steps, struct rv_rng *rng, struct rv_buf *out)
{
    const struct rv_token_trie *trie = the_trie();

    for (int i = 0; i < n_steps && !rv_grammar_matcher_is_complete(m); i++) {
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

/* Repetitions of many copies take a thousand times as long as those of some, and are written by the same code. */
static void shorten(struct rv_syntax *syntax, struct rv_rng *rng)
{
    for (int32_t i = 0; i < syntax->n_nodes; i++) {
        struct rv_syntax_node *node = &syntax->nodes[i];
        int32_t most;

        if (node->kind != RV_SYNTAX_REPEAT)
            continue;
        most = rv_rng_below(rng, 4) == 0 ? MANY_COPIES : FEW_COPIES;
        node->a = node->a < most ? node->a : most;
        node->b = node->b < most ? node->b : most;
    }
}

static void compile(const struct rv_syntax *syntax)
{
    struct rv_automaton automaton;
    struct ruvllm_error err = {0};

    check_status(rv_automaton_init(&automaton, syntax, &err), &err);
    rv_automaton_release(&automaton);
}

static bool compile_and_follow(const struct rv_syntax *syntax, int n_steps, struct rv_rng *rng, struct rv_buf *out)
{
    struct rv_grammar_matcher *m = NULL;
    struct ruvllm_error err = {0};
    struct rv_grammar *g;
    ruvllm_status rc = rv_grammar_new_from(&g, syntax, the_trie(), &err);
    bool is_whole;

    if (!rc)
        rc = rv_grammar_matcher_new(&m, g, &err);
    check_status(rc, &err);
    is_whole = !rc && follow(m, n_steps, rng, out);
    rv_grammar_matcher_free(m);
    rv_grammar_unref(g);
    return is_whole;
}

void grammar_drive(enum rv_grammar_kind kind, const char *text, size_t len, uint32_t share, struct rv_buf *out,
                   bool *is_whole)
{
    struct rv_grammar_source source = {.kind = kind, .text = text, .len = len};
    struct ruvllm_error err = {0};
    struct rv_syntax syntax;
    struct rv_rng rng;
    ruvllm_status rc;

    *is_whole = false;
    rv_rng_init(&rng, rv_str_map_hash(1, text, len));
    rv_syntax_init(&syntax);
    rc = rv_grammar_write(&syntax, &source, the_trie()->vocab, &err);
    check_status(rc, &err);
    if (!rc && share > 1 && rv_rng_below(&rng, LARGE_SHARE) > 0)
        shorten(&syntax, &rng);
    if (!rc && rv_rng_below(&rng, share) > 0)
        compile(&syntax);
    else if (!rc)
        *is_whole =
            compile_and_follow(&syntax, share > 1 ? 1 + (int)rv_rng_below(&rng, MAX_STEPS) : MAX_STEPS, &rng, out);
    rv_syntax_release(&syntax);
}
