/* Arrays that grow to a ceiling, and classes of characters in a normal form: sorted, apart, without surrogates. */
#include "sample/syntax.h"

#include "base/alloc.h"

#include <string.h>

enum {
    MAX_NODES = 1 << 18,
    MAX_RANGES = 1 << 17,
    MAX_RULES = 1 << 15,
    MAX_EDGES = 1 << 18,
    MAX_LITERALS = 1 << 20,
    MAX_CLASS = 4096, // ranges of one class
    FEW_RANGES = 16,  // that need no memory to be sorted in
    MAX_NEEDLE = 64,  // bytes
    FIRST_SURROGATE = 0xD800,
    LAST_SURROGATE = 0xDFFF,
};

void rv_syntax_init(struct rv_syntax *syntax)
{
    *syntax = (struct rv_syntax){0};
    rv_buf_init(&syntax->bytes, MAX_LITERALS);
    /* Node 0 is there from the start, so that a failure has something to give. */
    syntax->nodes = rv_calloc(64, sizeof(*syntax->nodes));
    if (!syntax->nodes) {
        syntax->failed = RUVLLM_NO_MEMORY;
        return;
    }
    syntax->nodes_cap = 64;
    syntax->nodes[0] = (struct rv_syntax_node){.kind = RV_SYNTAX_EMPTY, .last = -1, .prev = -1};
    syntax->n_nodes = 1;
}

void rv_syntax_release(struct rv_syntax *syntax)
{
    rv_free(syntax->nodes);
    rv_free(syntax->ranges);
    rv_free(syntax->edges);
    rv_free(syntax->rules);
    rv_buf_release(&syntax->bytes);
    *syntax = (struct rv_syntax){.failed = RUVLLM_NO_MEMORY};
}

ruvllm_status rv_syntax_status(const struct rv_syntax *syntax, struct ruvllm_error *err)
{
    if (syntax->failed == RUVLLM_TOO_LARGE)
        return rv_fail(err, RUVLLM_INVALID, "it is too large once its parts are written out");
    if (syntax->failed)
        return rv_fail(err, syntax->failed, "cannot allocate its parts");
    return rv_buf_status(&syntax->bytes, "its literals", err);
}

/* Room for `extra` more of an array of n; false sticks. */
static bool make_room(struct rv_syntax *s, void **array, int32_t *cap, int32_t n, int32_t extra, int32_t max,
                      size_t size)
{
    int32_t wanted = *cap;
    void *grown;

    if (s->failed)
        return false;
    if (n + extra <= *cap)
        return true;
    if (n + extra > max) {
        s->failed = RUVLLM_TOO_LARGE;
        return false;
    }
    while (wanted < n + extra)
        wanted = wanted ? 2 * wanted : 64;
    wanted = wanted < max ? wanted : max;
    grown = rv_realloc_array(*array, (size_t)wanted, size);
    if (!grown) {
        s->failed = RUVLLM_NO_MEMORY;
        return false;
    }
    *array = grown;
    *cap = wanted;
    return true;
}

static int32_t add_node(struct rv_syntax *s, enum rv_syntax_kind kind, int32_t a, int32_t b)
{
    void *nodes = s->nodes;

    if (!make_room(s, &nodes, &s->nodes_cap, s->n_nodes, 1, MAX_NODES, sizeof(*s->nodes)))
        return 0;
    s->nodes = nodes;
    s->nodes[s->n_nodes] = (struct rv_syntax_node){.kind = kind, .last = -1, .prev = -1, .a = a, .b = b};
    return s->n_nodes++;
}

int32_t rv_syntax_rule(struct rv_syntax *syntax)
{
    void *rules = syntax->rules;

    if (!make_room(syntax, &rules, &syntax->rules_cap, syntax->n_rules, 1, MAX_RULES, sizeof(*syntax->rules)))
        return 0;
    syntax->rules = rules;
    syntax->rules[syntax->n_rules] = -1;
    return syntax->n_rules++;
}

void rv_syntax_define(struct rv_syntax *syntax, int32_t rule, int32_t node)
{
    if (!syntax->failed)
        syntax->rules[rule] = node;
}

int32_t rv_syntax_literal(struct rv_syntax *syntax, const char *bytes, size_t len)
{
    size_t start = syntax->bytes.len;

    if (len == 0)
        return add_node(syntax, RV_SYNTAX_EMPTY, 0, 0);
    rv_buf_add(&syntax->bytes, bytes, len);
    if (syntax->bytes.failed && !syntax->failed)
        syntax->failed = syntax->bytes.failed;
    return add_node(syntax, RV_SYNTAX_LITERAL, (int32_t)start, (int32_t)len);
}

/* ---- classes ---------------------------------------------------------------------------------- */

/* By first character; classes are short, and what a hostile one costs is bounded by MAX_CLASS. */
static void sort_ranges(struct rv_syntax_range *ranges, size_t n)
{
    for (size_t gap = n / 2; gap > 0; gap /= 2)
        for (size_t i = gap; i < n; i++) {
            struct rv_syntax_range range = ranges[i];
            size_t at = i;

            for (; at >= gap && ranges[at - gap].lo > range.lo; at -= gap)
                ranges[at] = ranges[at - gap];
            ranges[at] = range;
        }
}

static size_t merge_ranges(struct rv_syntax_range *ranges, size_t n)
{
    size_t n_out = 0;

    for (size_t i = 0; i < n; i++) {
        if (ranges[i].lo > ranges[i].hi)
            continue;
        if (n_out > 0 && ranges[i].lo <= ranges[n_out - 1].hi + 1) {
            if (ranges[i].hi > ranges[n_out - 1].hi)
                ranges[n_out - 1].hi = ranges[i].hi;
        } else {
            ranges[n_out++] = ranges[i];
        }
    }
    return n_out;
}

static void push_range(struct rv_syntax *s, uint32_t lo, uint32_t hi)
{
    void *ranges = s->ranges;

    if (lo > hi || !make_room(s, &ranges, &s->ranges_cap, s->n_ranges, 1, MAX_RANGES, sizeof(*s->ranges)))
        return;
    s->ranges = ranges;
    s->ranges[s->n_ranges++] = (struct rv_syntax_range){lo, hi};
}

/* Without what no text can hold. */
static void add_range(struct rv_syntax *s, uint32_t lo, uint32_t hi)
{
    hi = hi < RV_SYNTAX_MAX_CP ? hi : RV_SYNTAX_MAX_CP;
    if (lo > hi)
        return;
    if (hi < FIRST_SURROGATE || lo > LAST_SURROGATE) {
        push_range(s, lo, hi);
        return;
    }
    if (lo < FIRST_SURROGATE)
        push_range(s, lo, FIRST_SURROGATE - 1);
    if (hi > LAST_SURROGATE)
        push_range(s, LAST_SURROGATE + 1, hi);
}

static int32_t add_class(struct rv_syntax *s, const struct rv_syntax_range *ranges, size_t n, bool except)
{
    struct rv_syntax_range few[FEW_RANGES], *many = NULL, *sorted = few;
    int32_t first = s->n_ranges;
    uint32_t next = 0;

    if (n > MAX_CLASS && !s->failed)
        s->failed = RUVLLM_TOO_LARGE;
    if (n > FEW_RANGES && !s->failed) {
        sorted = many = rv_realloc_array(NULL, n, sizeof(*many));
        s->failed = many ? RUVLLM_OK : RUVLLM_NO_MEMORY;
    }
    if (s->failed)
        return 0;
    if (n)
        memcpy(sorted, ranges, n * sizeof(*sorted));
    sort_ranges(sorted, n);
    n = merge_ranges(sorted, n);
    for (size_t i = 0; i < n; i++) {
        if (!except)
            add_range(s, sorted[i].lo, sorted[i].hi);
        else if (sorted[i].lo > next)
            add_range(s, next, sorted[i].lo - 1);
        next = sorted[i].hi + 1;
    }
    if (except && next <= RV_SYNTAX_MAX_CP)
        add_range(s, next, RV_SYNTAX_MAX_CP);
    rv_free(many);
    if (s->n_ranges == first)
        return add_node(s, RV_SYNTAX_ALT, 0, 0);
    return add_node(s, RV_SYNTAX_CLASS, first, s->n_ranges - first);
}

int32_t rv_syntax_class(struct rv_syntax *syntax, const struct rv_syntax_range *ranges, size_t n)
{
    return add_class(syntax, ranges, n, false);
}

int32_t rv_syntax_class_except(struct rv_syntax *syntax, const struct rv_syntax_range *ranges, size_t n)
{
    return add_class(syntax, ranges, n, true);
}

/* ---- trees ------------------------------------------------------------------------------------ */

int32_t rv_syntax_seq(struct rv_syntax *syntax)
{
    return add_node(syntax, RV_SYNTAX_SEQ, 0, 0);
}

int32_t rv_syntax_alt(struct rv_syntax *syntax)
{
    return add_node(syntax, RV_SYNTAX_ALT, 0, 0);
}

void rv_syntax_add(struct rv_syntax *syntax, int32_t parent, int32_t child)
{
    if (syntax->failed)
        return;
    syntax->nodes[child].prev = syntax->nodes[parent].last;
    syntax->nodes[parent].last = child;
}

int32_t rv_syntax_repeat(struct rv_syntax *syntax, int32_t child, int32_t min, int32_t max)
{
    int32_t node = add_node(syntax, RV_SYNTAX_REPEAT, min, max);

    rv_syntax_add(syntax, node, child);
    return node;
}

int32_t rv_syntax_call(struct rv_syntax *syntax, int32_t rule)
{
    return add_node(syntax, RV_SYNTAX_CALL, rule, 0);
}

int32_t rv_syntax_machine(struct rv_syntax *syntax, const struct rv_syntax_edge *edges, size_t n)
{
    int32_t first = syntax->n_edges;
    void *list = syntax->edges;

    if (n > MAX_EDGES && !syntax->failed)
        syntax->failed = RUVLLM_TOO_LARGE;
    if (!make_room(syntax, &list, &syntax->edges_cap, syntax->n_edges, (int32_t)n, MAX_EDGES, sizeof(*edges)))
        return 0;
    syntax->edges = list;
    if (n)
        memcpy(syntax->edges + first, edges, n * sizeof(*edges));
    syntax->n_edges += (int32_t)n;
    return add_node(syntax, RV_SYNTAX_MACHINE, first, (int32_t)n);
}

/* ---- up to a word ------------------------------------------------------------------------------ */

/* How much of `end` the text ends with, once c follows where it ended with `matched` of it (Knuth, Morris, Pratt). */
static size_t follow(const char *end, size_t matched, char c)
{
    char tail[MAX_NEEDLE + 1];

    memcpy(tail, end, matched);
    tail[matched] = c;
    for (size_t len = matched + 1; len > 0; len--)
        if (memcmp(tail + matched + 1 - len, end, len) == 0)
            return len;
    return 0;
}

/*
 * One rule for each beginning of `end`: what the next character leads to. The end is ASCII, so characters can be told
 * by their first byte; those that do not occur in it lead back to the first rule.
 */
static int32_t spell_until(struct rv_syntax *s, const char *end, bool must_end)
{
    size_t len = strlen(end), n_own = 0;
    struct rv_syntax_range own[MAX_NEEDLE];
    int32_t first = s->n_rules;

    RV_ASSERT(len > 0 && len <= MAX_NEEDLE);
    for (size_t i = 0; i < len; i++) {
        (void)rv_syntax_rule(s); // one after the other: first + i
        if (!memchr(end, end[i], i))
            own[n_own++] = (struct rv_syntax_range){(uint8_t)end[i], (uint8_t)end[i]};
    }
    for (size_t i = 0; i < len && !s->failed; i++) {
        int32_t ways = rv_syntax_alt(s), way = rv_syntax_seq(s);

        rv_syntax_add(s, way, rv_syntax_class_except(s, own, n_own));
        rv_syntax_add(s, way, rv_syntax_call(s, first));
        rv_syntax_add(s, ways, way);
        for (size_t k = 0; k < n_own; k++) {
            size_t matched = follow(end, i, (char)own[k].lo);

            if (matched == len && !must_end)
                continue;
            way = rv_syntax_seq(s);
            rv_syntax_add(s, way, rv_syntax_class(s, &own[k], 1));
            if (matched < len)
                rv_syntax_add(s, way, rv_syntax_call(s, first + (int32_t)matched));
            rv_syntax_add(s, ways, way);
        }
        if (!must_end)
            rv_syntax_add(s, ways, rv_syntax_literal(s, "", 0));
        rv_syntax_define(s, first + (int32_t)i, ways);
    }
    return first;
}

int32_t rv_syntax_until(struct rv_syntax *syntax, const char *end)
{
    return spell_until(syntax, end, true);
}

int32_t rv_syntax_without(struct rv_syntax *syntax, const char *end)
{
    return spell_until(syntax, end, false);
}
