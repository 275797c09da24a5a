/*
 * Thompson's construction, written from the end of a text to its beginning: every piece is made knowing the state that
 * follows it. Nothing here recurses, and the work is bounded by MAX_WORK, whatever counts the syntax repeats.
 *
 * Repetitions are written out copy by copy, but for those of simple children (one character of a class), which are
 * written once and counted while they are walked: a string of up to 5,000 characters is as small as one of any length.
 */
#include "sample/automaton.h"

#include "base/alloc.h"
#include "sample/automaton_check.h"

#include <string.h>

enum {
    MAX_STATES = 1 << 18,
    MAX_WORK = 1 << 20, // pieces written, empty ones too
    MAX_NESTING = 512,  // of nodes; front ends allow RV_SYNTAX_MAX_DEPTH levels of theirs
    SMALL_RULE = 24,    // nodes of a rule that is written out where it is called
    SMALL_COUNT = 8,    // of its repetitions
    MIN_COUNTED = 8,    // copies from which on a repetition is counted
    MIN_WIDTH = 16,     // characters its child can read, all in all
    MAX_CHILD = 128,    // nodes of it
};

/* A node being written. */
struct frame {
    int32_t node;
    int32_t next;  // state after it
    int32_t entry; // of what is written so far; -1: nothing
    int32_t child; // to write next; -1: none
    int32_t n_optional, n_required;
    int32_t loop; // state that a repetition returns to; -1: none
    bool is_counted;
};

struct writer {
    const struct rv_syntax *syntax;
    struct rv_automaton *out;
    int32_t cap, counts_cap;
    int32_t work;
    bool is_counting;  // inside a counted repetition, where others are written out
    int32_t *starts;   // of rules
    uint8_t *is_small; // by rule: written out where it is called
    int32_t depth;
    struct frame *frames; // MAX_NESTING of them
    ruvllm_status failed;
};

static int32_t add_state(struct writer *w, enum rv_automaton_kind kind, int32_t a, int32_t b)
{
    struct rv_automaton *out = w->out;

    if (w->failed)
        return 0;
    if (out->n_states == w->cap) {
        int32_t cap = w->cap ? 2 * w->cap : 256;
        struct rv_automaton_state *grown = NULL;

        if (cap > MAX_STATES)
            w->failed = RUVLLM_TOO_LARGE;
        else if (!(grown = rv_realloc_array(out->states, (size_t)cap, sizeof(*grown))))
            w->failed = RUVLLM_NO_MEMORY;
        if (w->failed)
            return 0;
        out->states = grown;
        w->cap = cap;
    }
    out->states[out->n_states] = (struct rv_automaton_state){.kind = (uint8_t)kind, .a = a, .b = b};
    return out->n_states++;
}

static int32_t add_byte(struct writer *w, uint8_t lo, uint8_t hi, int32_t next)
{
    int32_t state = add_state(w, RV_AUTOMATON_BYTE, next, -1);

    if (!w->failed) {
        w->out->states[state].lo = lo;
        w->out->states[state].hi = hi;
    }
    return state;
}

/* Either of two; -1 is neither. */
static int32_t add_choice(struct writer *w, int32_t a, int32_t b)
{
    if (a < 0 || b < 0)
        return a < 0 ? b : a;
    return add_state(w, RV_AUTOMATON_SPLIT, a, b);
}

/* ---- characters as bytes ------------------------------------------------------------------------ */

static size_t encode(uint32_t cp, uint8_t out[4])
{
    if (cp < 0x80) {
        out[0] = (uint8_t)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (uint8_t)(0xC0 | cp >> 6);
        out[1] = (uint8_t)(0x80 | (cp & 0x3F));
        return 2;
    }
    if (cp < 0x10000) {
        out[0] = (uint8_t)(0xE0 | cp >> 12);
        out[1] = (uint8_t)(0x80 | (cp >> 6 & 0x3F));
        out[2] = (uint8_t)(0x80 | (cp & 0x3F));
        return 3;
    }
    out[0] = (uint8_t)(0xF0 | cp >> 18);
    out[1] = (uint8_t)(0x80 | (cp >> 12 & 0x3F));
    out[2] = (uint8_t)(0x80 | (cp >> 6 & 0x3F));
    out[3] = (uint8_t)(0x80 | (cp & 0x3F));
    return 4;
}

/* The largest hi for which lo..hi is a product of byte ranges: same length, and whole blocks below the first
 * difference. */
static uint32_t product_end(uint32_t lo, uint32_t hi)
{
    static const uint32_t last[] = {0x7F, 0x7FF, 0xFFFF, RV_SYNTAX_MAX_CP};

    for (size_t i = 0; i < 4; i++)
        if (lo <= last[i] && hi > last[i])
            hi = last[i];
    if (hi < 0x80)
        return hi;
    for (uint32_t block = 0x3F; block < 0x1FFFFF; block = block << 6 | 0x3F) {
        if ((lo & ~block) == (hi & ~block))
            break;      // all digits above are equal
        if (lo & block) // begins inside a block: to that block's end
            return lo | block;
        if ((hi & block) != block) // ends inside one: to the end of the block before
            hi = (hi & ~block) - 1;
    }
    return hi;
}

static int32_t add_range(struct writer *w, uint32_t lo, uint32_t hi, int32_t next)
{
    int32_t entry = -1;

    while (lo <= hi && !w->failed) {
        uint32_t end = product_end(lo, hi);
        uint8_t first[4], last[4];
        size_t len = encode(lo, first);
        int32_t state = next;

        (void)encode(end, last);
        while (len > 0) {
            len--;
            state = add_byte(w, first[len], last[len], state);
        }
        entry = add_choice(w, state, entry);
        w->work++;
        lo = end + 1;
    }
    return entry;
}

static int32_t add_class(struct writer *w, const struct rv_syntax_node *node, int32_t next)
{
    int32_t entry = -1;

    for (int32_t i = 0; i < node->b; i++) {
        const struct rv_syntax_range *range = &w->syntax->ranges[node->a + i];

        entry = add_choice(w, add_range(w, range->lo, range->hi, next), entry);
    }
    return entry;
}

static int32_t add_literal(struct writer *w, const struct rv_syntax_node *node, int32_t next)
{
    for (int32_t i = node->b - 1; i >= 0; i--) {
        uint8_t byte = (uint8_t)w->syntax->bytes.data[node->a + i];

        next = add_byte(w, byte, byte, next);
    }
    return next;
}

/* One more way on from a split. */
static void attach(struct writer *w, int32_t split, int32_t to)
{
    struct rv_automaton_state *s = &w->out->states[split];

    if (w->failed)
        return;
    if (s->a < 0) {
        s->a = to;
    } else if (s->b < 0) {
        s->b = to;
    } else {
        int32_t both = add_state(w, RV_AUTOMATON_SPLIT, s->b, to);

        w->out->states[split].b = both;
    }
}

/* A split for each of the machine's states, one after the other, then its edges. */
static int32_t add_machine(struct writer *w, const struct rv_syntax_node *node, int32_t next)
{
    const struct rv_syntax_edge *edges = w->syntax->edges + node->a;
    int32_t first = w->out->n_states, last = 0;

    for (int32_t i = 0; i < node->b; i++) {
        last = edges[i].from > last ? edges[i].from : last;
        last = edges[i].to > last ? edges[i].to : last;
    }
    for (int32_t i = 0; i <= last && !w->failed; i++)
        (void)add_state(w, RV_AUTOMATON_SPLIT, -1, -1);
    for (int32_t i = 0; i < node->b && !w->failed; i++) {
        int32_t to = edges[i].to < 0 ? next : add_byte(w, edges[i].lo, edges[i].hi, first + edges[i].to);

        attach(w, first + edges[i].from, to);
        w->work++;
    }
    return first;
}

/* ---- small rules -------------------------------------------------------------------------------- */

/*
 * A rule that calls no other and cannot be long ("a character of a string") is written out where it is called:
 * otherwise every token would leave it after a byte or two, and nothing could be kept about its inside.
 */
static bool is_small(const struct rv_syntax *s, int32_t rule)
{
    int32_t open[SMALL_RULE + 1], n_open = 1, n_seen = 0;

    open[0] = s->rules[rule];
    while (n_open > 0) {
        int32_t at = open[--n_open];

        for (; at >= 0; at = s->nodes[at].prev) {
            const struct rv_syntax_node *node = &s->nodes[at];

            if (++n_seen > SMALL_RULE || node->kind == RV_SYNTAX_CALL || node->kind == RV_SYNTAX_MACHINE)
                return false;
            if (node->kind == RV_SYNTAX_REPEAT && (node->b < 0 || node->b > SMALL_COUNT))
                return false;
            if (node->last >= 0)
                open[n_open++] = node->last;
        }
    }
    return true;
}

/* ---- repetitions that are counted ------------------------------------------------------------------ */

/* Characters a class has, or more than are asked for. */
static int64_t width(const struct rv_syntax *s, const struct rv_syntax_node *node)
{
    int64_t sum = 0;

    for (int32_t i = 0; i < node->b && sum < MIN_WIDTH; i++)
        sum += (int64_t)s->ranges[node->a + i].hi - s->ranges[node->a + i].lo + 1;
    return sum;
}

/*
 * Whether every part of a child reads something and none is optional. Then a text that stands at the end of a copy
 * stands nowhere inside of one, unless it can be read in two ways, which shows when it is walked (counted.h).
 */
static bool is_countable(struct writer *w, const struct rv_syntax_node *repeat)
{
    const struct rv_syntax *s = w->syntax;
    int32_t open[MAX_CHILD + 1], n_open = 1, n_seen = 0;
    int64_t sum = 0;

    if (w->is_counting || (repeat->a < MIN_COUNTED && repeat->b < MIN_COUNTED))
        return false;
    open[0] = repeat->last;
    while (n_open > 0) {
        for (int32_t at = open[--n_open]; at >= 0; at = s->nodes[at].prev) {
            const struct rv_syntax_node *node = &s->nodes[at];
            int32_t inside = node->last;

            w->work++;
            if (++n_seen > MAX_CHILD || node->kind == RV_SYNTAX_EMPTY || node->kind == RV_SYNTAX_MACHINE)
                return false;
            if (node->kind == RV_SYNTAX_REPEAT && (node->a != node->b || node->a == 0))
                return false;
            if (node->kind == RV_SYNTAX_CALL && !w->is_small[node->a])
                return false;
            if (node->kind == RV_SYNTAX_CLASS)
                sum += width(s, node);
            if (node->kind == RV_SYNTAX_CALL)
                inside = s->rules[node->a];
            if (inside >= 0)
                open[n_open++] = inside;
            else if (node->kind == RV_SYNTAX_SEQ || node->kind == RV_SYNTAX_ALT)
                return false;
        }
    }
    return sum >= MIN_WIDTH;
}

static void push(struct writer *w, int32_t node, int32_t next);

static void begin_count(struct writer *w, struct frame *f)
{
    const struct rv_syntax_node *node = &w->syntax->nodes[f->node];
    struct rv_automaton *out = w->out;
    int32_t which = out->n_counts, again;

    if (!w->failed && out->n_counts == w->counts_cap) {
        int32_t cap = w->counts_cap ? 2 * w->counts_cap : 16;
        struct rv_automaton_count *grown = rv_realloc_array(out->counts, (size_t)cap, sizeof(*grown));

        if (!grown) {
            w->failed = RUVLLM_NO_MEMORY;
            return;
        }
        out->counts = grown;
        w->counts_cap = cap;
    }
    f->loop = add_state(w, RV_AUTOMATON_COUNT, -1, which);
    again = add_state(w, RV_AUTOMATON_AGAIN, f->loop, which);
    if (w->failed)
        return;
    out->counts[out->n_counts++] = (struct rv_automaton_count){.least = node->a,
                                                               .most = node->b,
                                                               .head = f->loop,
                                                               .next = f->next,
                                                               .first = out->n_states,
                                                               .end = -1,
                                                               .like = which};
    w->is_counting = true;
    push(w, node->last, again);
}

/* True when the repetition is written. */
static bool count(struct writer *w, struct frame *f)
{
    struct rv_automaton *out = w->out;

    if (f->loop < 0) {
        begin_count(w, f);
        return false;
    }
    out->states[f->loop].a = f->entry;
    out->counts[out->n_counts - 1].end = out->n_states;
    f->entry = f->loop;
    w->is_counting = false;
    return true;
}

static uint32_t mix(uint32_t hash, uint32_t value)
{
    hash = (hash ^ value) * 0x9E3779B1u;
    return hash ^ hash >> 15;
}

/* State i of a child, with targets counted from its first. */
static struct rv_automaton_state relative(const struct rv_automaton *a, const struct rv_automaton_count *c, int32_t i)
{
    struct rv_automaton_state state = a->states[c->first + i];

    /* The repetition itself stands right before its child; what is none is further away. */
    state.a = state.a < 0 ? INT32_MIN : state.a - c->first;
    state.b = state.b < 0 ? INT32_MIN : state.b - c->first;
    return state;
}

static bool is_same_child(const struct rv_automaton *a, const struct rv_automaton_count *x,
                          const struct rv_automaton_count *y)
{
    if (x->end - x->first != y->end - y->first || a->states[x->head].a - x->first != a->states[y->head].a - y->first)
        return false;
    for (int32_t i = 0; i < x->end - x->first; i++) {
        struct rv_automaton_state p = relative(a, x, i), q = relative(a, y, i);

        if (p.kind != q.kind || p.lo != q.lo || p.hi != q.hi || p.a != q.a || p.b != q.b)
            return false;
    }
    return true;
}

/* Finds repetitions of the same child, so that they share what is found out about it. */
static ruvllm_status find_likes(struct rv_automaton *a, struct ruvllm_error *err)
{
    size_t size = 64;
    int32_t *slots;

    while (size < 2 * (size_t)a->n_counts)
        size *= 2;
    slots = a->n_counts > 0 ? rv_realloc_array(NULL, size, sizeof(*slots)) : NULL;
    if (!slots)
        return a->n_counts == 0 ? RUVLLM_OK : rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate its repetitions");
    memset(slots, 0xFF, size * sizeof(*slots));
    for (int32_t i = 0; i < a->n_counts; i++) {
        struct rv_automaton_count *c = &a->counts[i];
        uint32_t hash = 7;
        size_t slot;

        for (int32_t k = 0; k < c->end - c->first; k++) {
            struct rv_automaton_state state = relative(a, c, k);

            hash = mix(hash, (uint32_t)(state.kind | state.lo << 8 | state.hi << 16));
            hash = mix(mix(hash, (uint32_t)state.a), (uint32_t)state.b);
        }
        for (slot = hash & (size - 1); slots[slot] >= 0; slot = (slot + 1) & (size - 1))
            if (is_same_child(a, &a->counts[slots[slot]], c))
                break;
        if (slots[slot] < 0)
            slots[slot] = i;
        c->like = slots[slot];
    }
    rv_free(slots);
    return RUVLLM_OK;
}

int32_t rv_automaton_count_of(const struct rv_automaton *automaton, int32_t state)
{
    int32_t lo = 0, hi = automaton->n_counts;

    while (lo < hi) { // the first whose states end behind it
        int32_t middle = lo + (hi - lo) / 2;

        if (automaton->counts[middle].end <= state)
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo < automaton->n_counts && automaton->counts[lo].first <= state ? lo : -1;
}

/* ---- trees, without recursion -------------------------------------------------------------------- */

static void push(struct writer *w, int32_t node, int32_t next)
{
    const struct rv_syntax_node *n = &w->syntax->nodes[node];
    struct frame *f;

    if (w->depth == MAX_NESTING || ++w->work > MAX_WORK)
        w->failed = w->failed ? w->failed : RUVLLM_TOO_LARGE;
    if (w->failed)
        return;
    f = &w->frames[w->depth++];
    *f = (struct frame){.node = node, .next = next, .entry = -1, .child = n->last, .loop = -1};
    if (n->kind == RV_SYNTAX_SEQ || n->kind == RV_SYNTAX_REPEAT)
        f->entry = next;
    if (n->kind == RV_SYNTAX_REPEAT) {
        f->n_required = n->a;
        f->n_optional = n->b < 0 ? 0 : n->b - n->a;
        f->is_counted = is_countable(w, n);
        if (n->b < 0 && !f->is_counted)
            f->loop = add_state(w, RV_AUTOMATON_SPLIT, -1, next);
    }
}

/* A repetition's next copy of its child; true when there is none left. */
static bool repeat(struct writer *w, struct frame *f)
{
    int32_t child = w->syntax->nodes[f->node].last;

    if (f->child == -2) { // a copy came back, and `entry` leads into it
        if (f->loop >= 0) {
            w->out->states[f->loop].a = f->entry;
            f->entry = f->loop;
            f->loop = -1;
        } else if (f->n_optional > 0) {
            f->entry = add_choice(w, f->entry, f->next);
            f->n_optional--;
        } else {
            f->n_required--;
        }
    }
    f->child = -2;
    if (f->loop >= 0) {
        push(w, child, f->loop);
        return false;
    }
    if (f->n_optional == 0 && f->n_required <= 0)
        return true;
    push(w, child, f->entry);
    return false;
}

/* Goes on with the innermost node; true when it is written, and *entry leads into it. */
static bool advance(struct writer *w, struct frame *f, int32_t *entry)
{
    const struct rv_syntax_node *node = &w->syntax->nodes[f->node];
    int32_t child = f->child;

    switch (node->kind) {
    case RV_SYNTAX_EMPTY:
        f->entry = f->next;
        break;
    case RV_SYNTAX_LITERAL:
        f->entry = add_literal(w, node, f->next);
        break;
    case RV_SYNTAX_CLASS:
        f->entry = add_class(w, node, f->next);
        break;
    case RV_SYNTAX_MACHINE:
        f->entry = add_machine(w, node, f->next);
        break;
    case RV_SYNTAX_CALL:
        if (f->entry < 0 && w->is_small[node->a]) {
            push(w, w->syntax->rules[node->a], f->next);
            return false;
        }
        if (f->entry < 0)
            f->entry = add_state(w, RV_AUTOMATON_CALL, node->a, f->next); // its start is put in once all are known
        break;
    case RV_SYNTAX_SEQ:
    case RV_SYNTAX_ALT:
        if (child >= 0) {
            f->child = w->syntax->nodes[child].prev;
            push(w, child, node->kind == RV_SYNTAX_SEQ ? f->entry : f->next);
            return false;
        }
        break;
    case RV_SYNTAX_REPEAT:
        if (f->is_counted ? !count(w, f) : !repeat(w, f))
            return false;
        break;
    }
    *entry = f->entry;
    return true;
}

/* Gives a child's entry to the node around it. */
static void deliver(struct writer *w, int32_t entry)
{
    struct frame *f = &w->frames[w->depth - 1];

    if (w->syntax->nodes[f->node].kind == RV_SYNTAX_ALT)
        f->entry = add_choice(w, entry, f->entry);
    else
        f->entry = entry;
}

static int32_t write_rule(struct writer *w, int32_t node)
{
    int32_t end = add_state(w, RV_AUTOMATON_END, -1, -1), entry = -1;

    push(w, node, end);
    while (w->depth > 0 && !w->failed) {
        if (!advance(w, &w->frames[w->depth - 1], &entry))
            continue;
        if (entry < 0) // never matches: a split that leads nowhere
            entry = add_state(w, RV_AUTOMATON_SPLIT, -1, -1);
        w->depth--;
        if (w->depth > 0)
            deliver(w, entry);
    }
    return entry;
}

static ruvllm_status write_rules(struct writer *w, struct ruvllm_error *err)
{
    const struct rv_syntax *s = w->syntax;

    for (int32_t i = 0; i < s->n_rules; i++) {
        RV_ASSERT(s->rules[i] >= 0);
        w->is_small[i] = is_small(s, i);
    }
    for (int32_t i = 0; i < s->n_rules && !w->failed; i++) {
        w->starts[i] = write_rule(w, s->rules[i]);
    }
    if (w->failed == RUVLLM_TOO_LARGE)
        return rv_fail(err, RUVLLM_INVALID, "it is too large: written out it has more than %d states", MAX_STATES);
    if (w->failed)
        return rv_fail(err, w->failed, "cannot allocate its states");
    for (int32_t i = 0; i < w->out->n_states; i++)
        if (w->out->states[i].kind == RV_AUTOMATON_CALL)
            w->out->states[i].a = w->starts[w->out->states[i].a];
    w->out->start = w->starts[0];
    return RUVLLM_OK;
}

/* ---- classes of bytes ------------------------------------------------------------------------------ */

static void find_classes(struct rv_automaton *a)
{
    bool begins[257] = {[0] = true};

    for (int32_t i = 0; i < a->n_states; i++)
        if (a->states[i].kind == RV_AUTOMATON_BYTE) {
            begins[a->states[i].lo] = true;
            begins[a->states[i].hi + 1] = true;
        }
    a->n_classes = 0;
    for (int byte = 0; byte < 256; byte++) {
        if (begins[byte])
            a->byte_of[a->n_classes++] = (uint8_t)byte;
        a->class_of[byte] = (uint8_t)(a->n_classes - 1);
    }
}

ruvllm_status rv_automaton_init(struct rv_automaton *automaton, const struct rv_syntax *syntax,
                                struct ruvllm_error *err)
{
    struct writer *w = rv_calloc(1, sizeof(*w));
    ruvllm_status rc = rv_syntax_status(syntax, err);

    *automaton = (struct rv_automaton){0};
    if (!rc && !w)
        rc = rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate its states");
    if (!rc) {
        w->syntax = syntax;
        w->out = automaton;
        w->starts = rv_calloc((size_t)syntax->n_rules + 1, sizeof(*w->starts));
        w->is_small = rv_calloc((size_t)syntax->n_rules + 1, 1);
        w->frames = rv_realloc_array(NULL, MAX_NESTING, sizeof(*w->frames));
        if (!w->starts || !w->is_small || !w->frames)
            rc = rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate its rules");
    }
    if (!rc)
        rc = write_rules(w, err);
    if (!rc)
        rc = find_likes(automaton, err);
    if (!rc)
        rc = rv_automaton_check(automaton, err);
    if (!rc)
        find_classes(automaton);
    else
        rv_automaton_release(automaton);
    if (w) {
        rv_free(w->starts);
        rv_free(w->is_small);
        rv_free(w->frames);
    }
    rv_free(w);
    return rc;
}

void rv_automaton_release(struct rv_automaton *automaton)
{
    rv_free(automaton->states);
    rv_free(automaton->counts);
    *automaton = (struct rv_automaton){0};
}
