/*
 * Thompson's construction, written from the end of a text to its beginning: every piece is made knowing the state that
 * follows it. Nothing here recurses, and the work is bounded by MAX_WORK, whatever counts the syntax repeats.
 */
#include "sample/automaton.h"

#include "base/alloc.h"

#include <string.h>

enum {
    MAX_STATES = 1 << 18,
    MAX_WORK = 1 << 20, // pieces written, empty ones too
    MAX_NESTING = 512,  // of nodes; front ends allow RV_SYNTAX_MAX_DEPTH levels of theirs
    SMALL_RULE = 24,    // nodes of a rule that is written out where it is called
    SMALL_COUNT = 8,    // of its repetitions
};

/* A node being written. */
struct frame {
    int32_t node;
    int32_t next;  // state after it
    int32_t entry; // of what is written so far; -1: nothing
    int32_t child; // to write next; -1: none
    int32_t n_optional, n_required;
    int32_t loop; // state that a repetition returns to; -1: none
};

struct writer {
    const struct rv_syntax *syntax;
    struct rv_automaton *out;
    int32_t cap;
    int32_t work;
    int32_t *starts;   // of rules
    uint8_t *is_small; // by rule: written out where it is called
    int32_t depth;
    struct frame frames[MAX_NESTING];
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

            if (++n_seen > SMALL_RULE || node->kind == RV_SYNTAX_CALL)
                return false;
            if (node->kind == RV_SYNTAX_REPEAT && (node->b < 0 || node->b > SMALL_COUNT))
                return false;
            if (node->last >= 0)
                open[n_open++] = node->last;
        }
    }
    return true;
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
        if (n->b < 0)
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
        if (!repeat(w, f))
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

/* ---- what can be reached from where --------------------------------------------------------------- */

/*
 * Edges turned round: who has to be asked again when a state has become true. A call hangs on both of its states.
 */
struct sources {
    int32_t *first; // by state, n + 1
    int32_t *list;
};

static int32_t n_targets(const struct rv_automaton_state *state, int32_t targets[2])
{
    int32_t n = 0;

    if (state->kind != RV_AUTOMATON_END && state->a >= 0)
        targets[n++] = state->a;
    if ((state->kind == RV_AUTOMATON_SPLIT || state->kind == RV_AUTOMATON_CALL) && state->b >= 0)
        targets[n++] = state->b;
    return n;
}

static bool sources_init(struct sources *s, const struct rv_automaton *a)
{
    int32_t targets[2];

    s->first = rv_calloc((size_t)a->n_states + 2, sizeof(*s->first));
    s->list = rv_calloc(2 * (size_t)a->n_states + 1, sizeof(*s->list));
    if (!s->first || !s->list)
        return false;
    for (int32_t i = 0; i < a->n_states; i++)
        for (int32_t k = n_targets(&a->states[i], targets); k > 0; k--)
            s->first[targets[k - 1] + 2]++;
    for (int32_t i = 0; i < a->n_states; i++)
        s->first[i + 2] += s->first[i + 1];
    for (int32_t i = 0; i < a->n_states; i++)
        for (int32_t k = n_targets(&a->states[i], targets); k > 0; k--)
            s->list[s->first[targets[k - 1] + 1]++] = i;
    return true;
}

static void sources_release(struct sources *s)
{
    rv_free(s->first);
    rv_free(s->list);
}

/* True when the rule can end from this state, as far as is known; with `reads` false only without a byte. */
static bool can_end(const struct rv_automaton_state *state, const uint8_t *known, bool reads)
{
    switch ((enum rv_automaton_kind)state->kind) {
    case RV_AUTOMATON_END:
        return true;
    case RV_AUTOMATON_BYTE:
        return reads && known[state->a];
    case RV_AUTOMATON_SPLIT:
        return (state->a >= 0 && known[state->a]) || (state->b >= 0 && known[state->b]);
    case RV_AUTOMATON_CALL:
        return known[state->a] && known[state->b];
    }
    return false;
}

static void find_ends(const struct rv_automaton *a, const struct sources *s, bool reads, uint8_t *known, int32_t *queue)
{
    int32_t n = 0;

    for (int32_t i = 0; i < a->n_states; i++)
        if (a->states[i].kind == RV_AUTOMATON_END) {
            known[i] = 1;
            queue[n++] = i;
        }
    while (n > 0) {
        int32_t state = queue[--n];

        for (int32_t k = s->first[state]; k < s->first[state + 1]; k++) {
            int32_t source = s->list[k];

            if (!known[source] && can_end(&a->states[source], known, reads)) {
                known[source] = 1;
                queue[n++] = source;
            }
        }
    }
}

/*
 * A walk over edges that take no byte (a call's return only where what it calls can be empty) that comes back to a rule
 * it is inside of would never end. Colours: 0 not seen, 1 on the way, 2 done. Loops of splits are harmless, so only
 * ways through a call count: states are coloured by rule start.
 */
struct visit {
    int32_t state;
    uint8_t edge;
};

static bool is_open_edge(const struct rv_automaton_state *s, uint8_t edge, const uint8_t *empty, int32_t *to)
{
    bool is_call = s->kind == RV_AUTOMATON_CALL;

    *to = edge == 0 ? s->a : s->b;
    if (s->kind != RV_AUTOMATON_SPLIT && !is_call)
        return false;
    if (*to < 0)
        return false;
    return !is_call || edge == 0 || empty[s->a];
}

/* Strongly connected parts (Tarjan 1972) of the open edges; a call inside one is a rule that begins with itself. */
struct components {
    int32_t *index, *low, *stack;
    uint8_t *is_on_stack;
    int32_t *part; // of each state; -1: not settled
    struct visit *path;
    int32_t n_index, n_stack, n_path, n_parts;
};

static void enter(struct components *c, int32_t state)
{
    c->index[state] = c->low[state] = ++c->n_index;
    c->stack[c->n_stack++] = state;
    c->is_on_stack[state] = 1;
    c->path[c->n_path++] = (struct visit){.state = state};
}

static void leave(struct components *c, int32_t state)
{
    c->n_path--;
    if (c->n_path > 0) {
        int32_t outer = c->path[c->n_path - 1].state;

        c->low[outer] = c->low[state] < c->low[outer] ? c->low[state] : c->low[outer];
    }
    if (c->low[state] != c->index[state])
        return;
    for (int32_t member = -1; member != state;) {
        member = c->stack[--c->n_stack];
        c->is_on_stack[member] = 0;
        c->part[member] = c->n_parts;
    }
    c->n_parts++;
}

static void find_components(const struct rv_automaton *a, const uint8_t *empty, struct components *c)
{
    for (int32_t i = 0; i < a->n_states; i++) {
        if (!c->index[i])
            enter(c, i);
        while (c->n_path > 0) {
            struct visit *v = &c->path[c->n_path - 1];
            int32_t to;

            if (v->edge == 2) {
                leave(c, v->state);
            } else if (!is_open_edge(&a->states[v->state], v->edge++, empty, &to)) {
                continue;
            } else if (!c->index[to]) {
                enter(c, to);
            } else if (c->is_on_stack[to] && c->index[to] < c->low[v->state]) {
                c->low[v->state] = c->index[to];
            }
        }
    }
}

static ruvllm_status check_left_recursion(const struct rv_automaton *a, const uint8_t *empty, struct ruvllm_error *err)
{
    size_t n = (size_t)a->n_states;
    struct components c = {.index = rv_calloc(n, sizeof(int32_t)),
                           .low = rv_calloc(n, sizeof(int32_t)),
                           .stack = rv_calloc(n, sizeof(int32_t)),
                           .is_on_stack = rv_calloc(n, 1),
                           .part = rv_calloc(n, sizeof(int32_t)),
                           .path = rv_calloc(n, sizeof(struct visit))};
    ruvllm_status rc = RUVLLM_OK;

    if (!c.index || !c.low || !c.stack || !c.is_on_stack || !c.part || !c.path)
        rc = rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a walk over %zu states", n);
    else
        find_components(a, empty, &c);
    for (size_t i = 0; i < n && !rc; i++) {
        const struct rv_automaton_state *s = &a->states[i];

        if (s->kind == RV_AUTOMATON_CALL && c.part[i] == c.part[s->a])
            rc = rv_fail(err, RUVLLM_INVALID, "a rule begins with itself, so that it would never read anything");
    }
    rv_free(c.index);
    rv_free(c.low);
    rv_free(c.stack);
    rv_free(c.is_on_stack);
    rv_free(c.part);
    rv_free(c.path);
    return rc;
}

static ruvllm_status judge(struct rv_automaton *a, struct ruvllm_error *err)
{
    size_t n = (size_t)a->n_states;
    uint8_t *useful = rv_calloc(n, 1), *empty = rv_calloc(n, 1);
    int32_t *queue = rv_calloc(n, sizeof(*queue));
    struct sources sources = {0};
    ruvllm_status rc = RUVLLM_OK;

    if (!useful || !empty || !queue || !sources_init(&sources, a))
        rc = rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a walk over %zu states", n);
    if (!rc) {
        find_ends(a, &sources, true, useful, queue);
        find_ends(a, &sources, false, empty, queue);
        for (size_t i = 0; i < n; i++)
            a->states[i].is_useful = useful[i];
        if (!useful[a->start])
            rc = rv_fail(err, RUVLLM_INVALID, "no text can ever match it");
    }
    if (!rc)
        rc = check_left_recursion(a, empty, err);
    sources_release(&sources);
    rv_free(useful);
    rv_free(empty);
    rv_free(queue);
    return rc;
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
        if (!w->starts || !w->is_small)
            rc = rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate its rules");
    }
    if (!rc)
        rc = write_rules(w, err);
    if (!rc)
        rc = judge(automaton, err);
    if (!rc)
        find_classes(automaton);
    else
        rv_automaton_release(automaton);
    if (w) {
        rv_free(w->starts);
        rv_free(w->is_small);
    }
    rv_free(w);
    return rc;
}

void rv_automaton_release(struct rv_automaton *automaton)
{
    rv_free(automaton->states);
    *automaton = (struct rv_automaton){0};
}
