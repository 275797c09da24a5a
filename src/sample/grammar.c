/*
 * Masks. A standing's places are grouped by where their rule returns to. A group that takes many different bytes is
 * looked at as if alone in the world, once for all answers: which tokens it takes, and at which nodes of the trie its
 * rule may have ended (`exits`), below which the rest of the token is the caller's business. Its mask is then a copy of
 * the kept one and short walks below the exits. Groups that take few bytes are walked where they stand.
 */
#include "sample/grammar.h"

#include "base/alloc.h"
#include "sample/gbnf.h"
#include "sample/grammar_walk.h"
#include "sample/json_schema.h"
#include "sample/regex.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum {
    N_INSIDE = 256,           // masks of groups kept for a grammar
    N_KEPT = 4,               // masks of standings kept for a matcher
    INSIDE_STANDINGS = 8192,  // of the walk they are found with
    MATCHER_STANDINGS = 1024, // of a matcher's own
    TABLE_BYTES = 4 << 20,    // a walk's table of bytes and standings is no larger
    MAX_EXITS = 1 << 19,
    BROAD = 32,          // different bytes
    MAX_STEPS = 4 << 20, // places looked at for one mask
    MAX_GROUP = RV_GRAMMAR_WALK_MAX_PLACES,
};

/* What is known of a group looked at by itself. */
struct inside {
    int32_t standing; // in the grammar's walk; -1: free
    int32_t first_exit, n_exits;
    uint64_t *bits;
};

struct rv_grammar {
    atomic_int n_refs;
    const struct rv_token_trie *trie;
    struct rv_automaton automaton;
    size_t n_words;

    /* Below: owned by the thread that asks for masks. */
    struct rv_grammar_walk walk;
    struct inside insides[N_INSIDE];
    int32_t next_inside; // to be given up next
    uint64_t *inside_bits;
    int32_t *exits; // nodes of the trie
    int32_t n_exits;
    int32_t *path; // standings by depth
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
    int32_t *path;
    int32_t *group; // scratch: states, then places
    int32_t *narrow;
    int32_t *belows;
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

static int32_t fit_standings(const struct rv_automaton *automaton, int32_t wanted)
{
    int32_t most = TABLE_BYTES / (int32_t)sizeof(int32_t) / automaton->n_classes;

    return wanted < most ? wanted : most;
}

static void forget_insides(struct rv_grammar *g)
{
    for (int32_t i = 0; i < N_INSIDE; i++)
        g->insides[i].standing = -1;
    g->n_exits = 0;
    g->next_inside = 0;
}

static ruvllm_status allocate(struct rv_grammar *g, struct ruvllm_error *err)
{
    g->n_words = (g->trie->n_tokens + 63) / 64;
    g->inside_bits = rv_realloc_array(NULL, N_INSIDE * g->n_words + 1, sizeof(*g->inside_bits));
    g->exits = rv_realloc_array(NULL, MAX_EXITS, sizeof(*g->exits));
    g->path = rv_calloc((size_t)g->trie->max_depth + 2, sizeof(*g->path));
    if (!g->inside_bits || !g->exits || !g->path)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate masks for %zu tokens", g->trie->n_tokens);
    for (size_t i = 0; i < N_INSIDE; i++)
        g->insides[i].bits = g->inside_bits + i * g->n_words;
    forget_insides(g);
    return rv_grammar_walk_init(&g->walk, &g->automaton, fit_standings(&g->automaton, INSIDE_STANDINGS), err);
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
    rc = rv_automaton_init(&g->automaton, syntax, err);
    if (!rc)
        rc = allocate(g, err);
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
    rv_grammar_walk_release(&grammar->walk);
    rv_automaton_release(&grammar->automaton);
    rv_free(grammar->inside_bits);
    rv_free(grammar->exits);
    rv_free(grammar->path);
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
    m->path = rv_calloc((size_t)grammar->trie->max_depth + 2, sizeof(*m->path));
    m->group = rv_calloc(MAX_GROUP, sizeof(*m->group));
    m->narrow = rv_calloc(MAX_GROUP, sizeof(*m->narrow));
    m->belows = rv_calloc(MAX_GROUP, sizeof(*m->belows));
    if (!m->kept_bits || !m->path || !m->group || !m->narrow || !m->belows)
        rc = rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a matcher");
    if (!rc)
        rc = rv_grammar_walk_init(&m->walk, &grammar->automaton, fit_standings(&grammar->automaton, MATCHER_STANDINGS),
                                  err);
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
    rv_free(matcher->path);
    rv_free(matcher->group);
    rv_free(matcher->narrow);
    rv_free(matcher->belows);
    rv_free(matcher);
}

/* ---- walking the vocabulary ------------------------------------------------------------------------ */

struct tour {
    const struct rv_token_trie *trie;
    struct rv_grammar_walk *walk;
    int32_t *path; // standings by depth
    uint64_t *bits;
    int32_t *exits; // NULL: nobody asks for them
    int32_t n_exits, max_exits;
};

static void allow(const struct rv_token_trie *trie, uint64_t *bits, int32_t token)
{
    for (; token >= 0; token = trie->same[token])
        bits[token / 64] |= (uint64_t)1 << (token % 64);
}

/* Goes through nodes first..end, with the standing above them in path[depth of first - 1]. False: out of room. */
static bool tour(struct tour *t, int32_t first, int32_t end)
{
    const struct rv_token_trie_node *nodes = t->trie->nodes;

    for (int32_t i = first; i < end;) {
        const struct rv_token_trie_node *node = &nodes[i];
        int32_t to = rv_grammar_walk_step(t->walk, t->path[node->depth - 1], node->byte);

        if (to == RV_GRAMMAR_WALK_DEAD) {
            if (t->walk->is_full || t->walk->n_steps > MAX_STEPS)
                return false;
            i = node->skip;
            continue;
        }
        t->path[node->depth] = to;
        if (node->token >= 0)
            allow(t->trie, t->bits, node->token);
        if (t->exits && t->walk->standings[to].has_left && node->skip > i + 1) {
            if (t->n_exits == t->max_exits)
                return false;
            t->exits[t->n_exits++] = i;
        }
        i++;
    }
    return true;
}

/* ---- groups by themselves ---------------------------------------------------------------------------- */

static struct inside *find_inside(struct rv_grammar *g, int32_t standing)
{
    for (int32_t i = 0; i < N_INSIDE; i++)
        if (g->insides[i].standing == standing)
            return &g->insides[i];
    return NULL;
}

/* Compares a standing of the grammar's walk with the whole vocabulary. */
static struct inside *look_inside(struct rv_grammar *g, int32_t standing)
{
    struct inside *inside = &g->insides[g->next_inside];
    struct tour t = {.trie = g->trie,
                     .walk = &g->walk,
                     .path = g->path,
                     .bits = inside->bits,
                     .exits = g->exits + g->n_exits,
                     .max_exits = MAX_EXITS - g->n_exits};

    inside->standing = -1;
    memset(inside->bits, 0, g->n_words * sizeof(*inside->bits));
    g->path[0] = standing;
    if (!tour(&t, 0, g->trie->n_nodes))
        return NULL;
    *inside =
        (struct inside){.standing = standing, .first_exit = g->n_exits, .n_exits = t.n_exits, .bits = inside->bits};
    g->n_exits += t.n_exits;
    g->next_inside = (g->next_inside + 1) % N_INSIDE;
    return inside;
}

/* What is known of states of one rule. NULL when it cannot be found out within the bounds. */
static struct inside *know_inside(struct rv_grammar *g, const int32_t *states, int32_t n)
{
    for (int attempt = 0; attempt < 2; attempt++) {
        int32_t standing = rv_grammar_walk_begin_inside(&g->walk, states, n);
        struct inside *inside = g->walk.is_full ? NULL : find_inside(g, standing);

        if (!inside && !g->walk.is_full)
            inside = look_inside(g, standing);
        if (inside)
            return inside;
        if (g->walk.n_steps > MAX_STEPS)
            return NULL;
        forget_insides(g); // room for exits and standings is used up: once more with all of it
        rv_grammar_walk_reset(&g->walk);
    }
    return NULL;
}

/* ---- masks ------------------------------------------------------------------------------------------ */

/* Different bytes a group takes, or more: ranges that overlap count twice. */
static int32_t breadth(const struct rv_automaton *a, const int32_t *states, int32_t n)
{
    int32_t sum = 0;

    for (int32_t i = 0; i < n && sum < BROAD; i++)
        sum += a->states[states[i]].hi - a->states[states[i]].lo + 1;
    return sum;
}

static bool add_broad(struct rv_grammar_matcher *m, const int32_t *states, int32_t n, int32_t below, uint64_t *bits)
{
    struct rv_grammar *g = m->grammar;
    struct inside *inside = know_inside(g, states, n);
    struct tour t = {.trie = g->trie, .walk = &m->walk, .path = m->path, .bits = bits};
    int32_t outside;

    if (!inside)
        return false;
    for (size_t i = 0; i < g->n_words; i++)
        bits[i] |= inside->bits[i];
    if (inside->n_exits == 0)
        return true;
    outside = rv_grammar_walk_return(&m->walk, below);
    if (m->walk.is_full)
        return false;
    for (int32_t i = 0; i < inside->n_exits; i++) {
        int32_t node = g->exits[inside->first_exit + i];

        m->path[g->trie->nodes[node].depth] = outside;
        if (!tour(&t, node + 1, g->trie->nodes[node].skip))
            return false;
    }
    return true;
}

/* The different places that the standing's rules return to. */
static int32_t list_belows(struct rv_grammar_matcher *m, const struct rv_grammar_walk_standing *s)
{
    struct rv_grammar_walk *w = &m->walk;
    int32_t n = 0;

    w->mark++;
    for (int32_t i = 0; i < s->n; i++) {
        int32_t below = w->places[w->items[s->first + i]].below;

        if (below < 0 || w->places[below].mark == w->mark) // DONE has nothing below it
            continue;
        w->places[below].mark = w->mark;
        m->belows[n++] = below;
    }
    return n;
}

/* False: out of room or of steps. */
static bool fill(struct rv_grammar_matcher *m, uint64_t *bits)
{
    struct rv_grammar_walk *w = &m->walk;
    struct rv_grammar_walk_standing s = w->standings[m->standing];
    const struct rv_token_trie *trie = m->grammar->trie;
    int32_t n_belows = list_belows(m, &s), n_narrow = 0;
    struct tour t = {.trie = trie, .walk = w, .path = m->path, .bits = bits};

    for (int32_t k = 0; k < n_belows; k++) {
        int32_t n = 0, first_narrow = n_narrow;

        w->n_steps += s.n;
        for (int32_t i = 0; i < s.n; i++) {
            int32_t place = w->items[s.first + i];

            if (w->places[place].below == m->belows[k]) {
                m->group[n++] = w->places[place].state;
                m->narrow[n_narrow++] = place;
            }
        }
        if (breadth(w->automaton, m->group, n) < BROAD)
            continue;
        n_narrow = first_narrow;
        if (w->n_steps > MAX_STEPS || !add_broad(m, m->group, n, m->belows[k], bits))
            return false;
    }
    if (n_narrow > 0) {
        m->path[0] = rv_grammar_walk_pick(w, m->narrow, n_narrow);
        if (w->is_full || !tour(&t, 0, trie->n_nodes))
            return false;
    }
    for (size_t i = 0; s.is_done && i < trie->n_ends; i++)
        allow(trie, bits, trie->ends[i]);
    return true;
}

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
    m->grammar->walk.n_steps = 0;
    for (int attempt = 0; attempt < 2 && !done; attempt++) {
        if (attempt > 0)
            make_room(m);
        memset(kept->bits, 0, n_words * sizeof(*kept->bits));
        done = fill(m, kept->bits);
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

/* Up to 64 logits: those without a bit go. The work is that of the fewer, bits or gaps. */
static void forbid(float *logits, size_t n, uint64_t allowed)
{
    uint64_t all = n < 64 ? ((uint64_t)1 << n) - 1 : UINT64_MAX, gaps = all & ~allowed;
    float kept[64];

    if (__builtin_popcountll(gaps) <= 32) {
        for (; gaps; gaps &= gaps - 1)
            logits[__builtin_ctzll(gaps)] = -INFINITY;
        return;
    }
    allowed &= all;
    for (uint64_t left = allowed; left; left &= left - 1)
        kept[__builtin_ctzll(left)] = logits[__builtin_ctzll(left)];
    for (size_t i = 0; i < n; i++)
        logits[i] = -INFINITY;
    for (uint64_t left = allowed; left; left &= left - 1)
        logits[__builtin_ctzll(left)] = kept[__builtin_ctzll(left)];
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
