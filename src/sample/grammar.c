/*
 * Making grammars and following answers. Which tokens may come next is found in grammar_mask.c; the masks of the last
 * few standings are kept, since answers often stay where they are (inside of a string).
 */
#include "sample/grammar.h"

#include "base/alloc.h"
#include "sample/gbnf.h"
#include "sample/grammar_mask.h"
#include "sample/json_schema.h"
#include "sample/regex.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum {
    N_KEPT = 4,               // masks of standings kept for a matcher
    MATCHER_STANDINGS = 1024, // of a matcher's own walk
    FEW = 10,                 // logits that are set one by one
};

struct rv_grammar {
    atomic_int n_refs;
    const struct rv_token_trie *trie;
    struct rv_automaton automaton;
    struct rv_grammar_mask_known known; // owned by the thread that asks for masks
    size_t n_words;
};

struct kept {
    int32_t standing; // -1: free
    uint64_t *bits;
};

struct rv_grammar_matcher {
    struct rv_grammar *grammar;
    struct rv_grammar_walk walk;
    int32_t standing;
    struct kept kept[N_KEPT];
    int32_t next_kept;
    uint64_t *kept_bits;
    struct rv_grammar_mask_scratch *scratch;
};

/* ---- making ------------------------------------------------------------------------------------- */

/* Something to think first, then the rest: rule 0 around the rule of the text itself. */
static void write_start(struct rv_syntax *s, enum rv_grammar_thought thought, int32_t body)
{
    int32_t start = rv_syntax_seq(s);

    if (thought != RV_GRAMMAR_NO_THOUGHT) {
        int32_t before = rv_syntax_seq(s);
        struct rv_syntax_range space[] = {{' ', ' '}, {'\n', '\n'}, {'\t', '\t'}, {'\r', '\r'}};

        if (thought == RV_GRAMMAR_MAY_THINK)
            rv_syntax_add(s, before, rv_syntax_literal(s, "<think>", 7));
        rv_syntax_add(s, before, rv_syntax_call(s, rv_syntax_until(s, "</think>")));
        rv_syntax_add(s, before, rv_syntax_repeat(s, rv_syntax_class(s, space, 4), 0, 4));
        if (thought == RV_GRAMMAR_MAY_THINK)
            before = rv_syntax_repeat(s, before, 0, 1);
        rv_syntax_add(s, start, before);
    }
    rv_syntax_add(s, start, rv_syntax_call(s, body));
    rv_syntax_define(s, 0, start);
}

ruvllm_status rv_grammar_write(struct rv_syntax *syntax, const struct rv_grammar_source *source,
                               const struct rv_vocab *vocab, struct ruvllm_error *err)
{
    ruvllm_status rc = RUVLLM_OK;
    int32_t body = 0;

    if (source->len > RV_SYNTAX_MAX_BYTES)
        return rv_fail(err, RUVLLM_INVALID, "it has %zu bytes, more than %zu", source->len, RV_SYNTAX_MAX_BYTES);
    (void)rv_syntax_rule(syntax); // 0
    switch (source->kind) {
    case RV_GRAMMAR_GBNF:
        rc = rv_gbnf_read(syntax, source->text, source->len, &body, err);
        break;
    case RV_GRAMMAR_REGEX:
        rc = rv_regex_read(syntax, source->text, source->len, &body, err);
        break;
    case RV_GRAMMAR_JSON_SCHEMA:
        rc = rv_json_schema_read(syntax, source->text, source->len, &body, err);
        break;
    case RV_GRAMMAR_JSON_OBJECT:
        rc = rv_json_schema_any_object(syntax, &body, err);
        break;
    case RV_GRAMMAR_TOOLS:
        rc = rv_tool_grammar_write(syntax, source->text, source->len, &source->tools, vocab, &body, err);
        break;
    }
    if (!rc)
        write_start(syntax, source->thought, body);
    return rc ? rc : rv_syntax_status(syntax, err);
}

ruvllm_status rv_grammar_new_from(struct rv_grammar **out, const struct rv_syntax *syntax,
                                  const struct rv_token_trie *trie, struct ruvllm_error *err)
{
    struct rv_grammar *g = rv_calloc(1, sizeof(*g));
    ruvllm_status rc;

    *out = NULL;
    if (!g)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a grammar");
    atomic_init(&g->n_refs, 1);
    g->trie = trie;
    g->n_words = (trie->n_tokens + 63) / 64;
    rc = rv_automaton_init(&g->automaton, syntax, err);
    if (!rc)
        rc = rv_grammar_mask_known_init(&g->known, &g->automaton, trie, err);
    if (rc) {
        rv_grammar_unref(g);
        return rc;
    }
    *out = g;
    return RUVLLM_OK;
}

ruvllm_status rv_grammar_new(struct rv_grammar **out, const struct rv_grammar_source *source,
                             const struct rv_token_trie *trie, struct ruvllm_error *err)
{
    struct rv_syntax syntax;
    ruvllm_status rc;

    *out = NULL;
    rv_syntax_init(&syntax);
    rc = rv_grammar_write(&syntax, source, trie->vocab, err);
    if (!rc)
        rc = rv_grammar_new_from(out, &syntax, trie, err);
    rv_syntax_release(&syntax);
    return rc;
}

struct rv_grammar *rv_grammar_ref(struct rv_grammar *grammar)
{
    if (grammar)
        atomic_fetch_add_explicit(&grammar->n_refs, 1, memory_order_relaxed);
    return grammar;
}

void rv_grammar_unref(struct rv_grammar *grammar)
{
    /* Release what this thread did to it, acquire what others did, before it is freed. */
    if (!grammar || atomic_fetch_sub_explicit(&grammar->n_refs, 1, memory_order_acq_rel) > 1)
        return;
    rv_grammar_mask_known_release(&grammar->known);
    rv_automaton_release(&grammar->automaton);
    rv_free(grammar);
}

static void forget_kept(struct rv_grammar_matcher *m)
{
    for (int32_t i = 0; i < N_KEPT; i++)
        m->kept[i].standing = -1;
}

ruvllm_status rv_grammar_matcher_new(struct rv_grammar_matcher **out, struct rv_grammar *grammar,
                                     struct ruvllm_error *err)
{
    struct rv_grammar_matcher *m = rv_calloc(1, sizeof(*m));
    ruvllm_status rc = RUVLLM_OK;

    *out = NULL;
    if (!m)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a matcher");
    m->grammar = rv_grammar_ref(grammar);
    m->kept_bits = rv_realloc_array(NULL, N_KEPT * grammar->n_words + 1, sizeof(*m->kept_bits));
    m->scratch = rv_calloc(1, sizeof(*m->scratch));
    if (!m->kept_bits || !m->scratch)
        rc = rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a matcher");
    if (!rc)
        rc = rv_grammar_walk_init(&m->walk, &grammar->automaton, MATCHER_STANDINGS, err);
    if (!rc) {
        for (size_t i = 0; i < N_KEPT; i++)
            m->kept[i].bits = m->kept_bits + i * grammar->n_words;
        forget_kept(m);
        m->standing = rv_grammar_walk_begin(&m->walk);
        if (m->walk.is_full)
            rc = rv_fail(err, RUVLLM_INVALID, "too many of its rules could begin the text");
    }
    if (rc) {
        rv_grammar_matcher_free(m);
        return rc;
    }
    *out = m;
    return RUVLLM_OK;
}

void rv_grammar_matcher_free(struct rv_grammar_matcher *matcher)
{
    if (!matcher)
        return;
    rv_grammar_walk_release(&matcher->walk);
    rv_grammar_unref(matcher->grammar);
    rv_free(matcher->kept_bits);
    rv_free(matcher->scratch);
    rv_free(matcher);
}

/* ---- masks ------------------------------------------------------------------------------------------ */

/* Starts over with nothing but where the answer stands. */
static void make_room(struct rv_grammar_matcher *m)
{
    m->standing = rv_grammar_walk_keep_only(&m->walk, m->standing);
    forget_kept(m);
}

static ruvllm_status fail_open_ways(struct ruvllm_error *err)
{
    return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_GENERATION,
                        "the grammar leaves too many ways open at once to be followed");
}

static ruvllm_status find_mask(struct rv_grammar_matcher *m, struct kept *kept, struct ruvllm_error *err)
{
    size_t n_words = m->grammar->n_words;
    uint64_t any = 0;
    bool done = false;

    m->walk.n_steps = 0;
    m->grammar->known.walk.n_steps = 0;
    for (int attempt = 0; attempt < 2 && !done; attempt++) {
        if (attempt > 0)
            make_room(m);
        memset(kept->bits, 0, n_words * sizeof(*kept->bits));
        done = rv_grammar_mask_fill(&m->grammar->known, m->scratch, &m->walk, m->standing, kept->bits);
    }
    if (!done) {
        make_room(m); // so that the matcher stays whole
        return fail_open_ways(err);
    }
    for (size_t i = 0; i < n_words; i++)
        any |= kept->bits[i];
    if (!any)
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_GENERATION,
                            "no token of the model's vocabulary fits what the grammar asks for next");
    kept->standing = m->standing;
    return RUVLLM_OK;
}

ruvllm_status rv_grammar_matcher_mask(struct rv_grammar_matcher *matcher, const uint64_t **bits,
                                      struct ruvllm_error *err)
{
    struct rv_grammar_matcher *m = matcher;
    struct kept *kept;
    ruvllm_status rc;

    for (int32_t i = 0; i < N_KEPT; i++)
        if (m->kept[i].standing == m->standing) {
            *bits = m->kept[i].bits;
            return RUVLLM_OK;
        }
    kept = &m->kept[m->next_kept];
    kept->standing = -1;
    rc = find_mask(m, kept, err);
    if (!rc) {
        m->next_kept = (m->next_kept + 1) % N_KEPT;
        *bits = kept->bits;
    }
    return rc;
}

/* Up to 64 logits: those without a bit go. */
static void forbid(float *logits, size_t n, uint64_t allowed)
{
    static const uint32_t minus_infinity = 0xFF800000u;
    static const uint32_t keeps[16][4] = {
        {0, 0, 0, 0},     {~0u, 0, 0, 0},     {0, ~0u, 0, 0},     {~0u, ~0u, 0, 0},
        {0, 0, ~0u, 0},   {~0u, 0, ~0u, 0},   {0, ~0u, ~0u, 0},   {~0u, ~0u, ~0u, 0},
        {0, 0, 0, ~0u},   {~0u, 0, 0, ~0u},   {0, ~0u, 0, ~0u},   {~0u, ~0u, 0, ~0u},
        {0, 0, ~0u, ~0u}, {~0u, 0, ~0u, ~0u}, {0, ~0u, ~0u, ~0u}, {~0u, ~0u, ~0u, ~0u},
    };

    if (n == 64 && __builtin_popcountll(allowed) >= 64 - FEW) {
        for (uint64_t gaps = ~allowed; gaps; gaps &= gaps - 1)
            logits[__builtin_ctzll(gaps)] = -INFINITY;
        return;
    }
    if (allowed == 0) {
        for (size_t i = 0; i < n; i++)
            logits[i] = -INFINITY;
        return;
    }
    for (size_t i = 0; n < 64 && i < n; i++)
        logits[i] = allowed >> i & 1 ? logits[i] : -INFINITY;
    if (n < 64)
        return;
    /* Four at a time, without branches. */
    for (size_t i = 0; i < 64; i += 4) {
        const uint32_t *keep = keeps[allowed >> i & 15];
        uint32_t four[4];

        memcpy(four, logits + i, sizeof(four));
        for (size_t k = 0; k < 4; k++)
            four[k] = (four[k] & keep[k]) | (minus_infinity & ~keep[k]);
        memcpy(logits + i, four, sizeof(four));
    }
}

ruvllm_status rv_grammar_matcher_apply(struct rv_grammar_matcher *matcher, float *logits, size_t n_vocab,
                                       struct ruvllm_error *err)
{
    size_t n = matcher->grammar->trie->n_tokens < n_vocab ? matcher->grammar->trie->n_tokens : n_vocab;
    const uint64_t *bits;
    ruvllm_status rc = rv_grammar_matcher_mask(matcher, &bits, err);

    if (rc)
        return rc;
    for (size_t first = 0; first < n; first += 64)
        forbid(logits + first, first + 64 < n ? 64 : n - first, bits[first / 64]);
    for (size_t i = n; i < n_vocab; i++)
        logits[i] = -INFINITY;
    return RUVLLM_OK;
}

/* ---- following ---------------------------------------------------------------------------------------- */

/* *was_full: it could not be followed for want of room. */
static bool follow(struct rv_grammar_matcher *m, const char *bytes, size_t len, bool *was_full)
{
    m->walk.n_steps = 0; // what finding the mask took is another's budget
    for (int attempt = 0; attempt < 2; attempt++) {
        int32_t standing = m->standing;

        for (size_t i = 0; i < len && standing != RV_GRAMMAR_WALK_DEAD; i++)
            standing = rv_grammar_walk_step(&m->walk, standing, (uint8_t)bytes[i]);
        if (!m->walk.is_full && standing != RV_GRAMMAR_WALK_DEAD) {
            m->standing = standing;
            return true;
        }
        *was_full = m->walk.is_full;
        if (!*was_full)
            return false;
        make_room(m);
    }
    return false;
}

bool rv_grammar_matcher_read(struct rv_grammar_matcher *matcher, const char *bytes, size_t len)
{
    bool was_full;

    return follow(matcher, bytes, len, &was_full);
}

ruvllm_status rv_grammar_matcher_accept(struct rv_grammar_matcher *matcher, int32_t token, struct ruvllm_error *err)
{
    uint8_t bytes[RV_TOKEN_TRIE_MAX_LEN];
    size_t len = rv_token_trie_bytes(matcher->grammar->trie, token, bytes);

    bool was_full = false;

    if (len > 0 && follow(matcher, (const char *)bytes, len, &was_full))
        return RUVLLM_OK;
    if (was_full)
        return fail_open_ways(err);
    return rv_fail(err, RUVLLM_INTERNAL, "token %d does not fit the grammar", (int)token);
}

int32_t rv_grammar_matcher_foresee(struct rv_grammar_matcher *matcher, const int32_t *tokens, int32_t n)
{
    struct rv_grammar_matcher *m = matcher;
    int32_t standing = m->standing, n_fit = 0;

    for (; n_fit < n; n_fit++) {
        uint8_t bytes[RV_TOKEN_TRIE_MAX_LEN];
        size_t len = rv_token_trie_bytes(m->grammar->trie, tokens[n_fit], bytes);

        for (size_t i = 0; i < len && standing != RV_GRAMMAR_WALK_DEAD; i++)
            standing = rv_grammar_walk_step(&m->walk, standing, bytes[i]);
        if (len == 0 || standing == RV_GRAMMAR_WALK_DEAD)
            break;
    }
    if (m->walk.is_full)
        make_room(m); // the answer's own standing stays
    return n_fit;
}

bool rv_grammar_matcher_may_end(const struct rv_grammar_matcher *matcher)
{
    return matcher->walk.standings[matcher->standing].is_done;
}

bool rv_grammar_matcher_is_complete(const struct rv_grammar_matcher *matcher)
{
    const struct rv_grammar_walk_standing *s = &matcher->walk.standings[matcher->standing];

    return s->is_done && s->n == 1;
}
