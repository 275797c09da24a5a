/*
 * A state is where all the parts' walks stand at once, and how many characters have been read; states are found breadth
 * first, within a budget. The walks make each part deterministic on the way (grammar_walk.h). States from which the
 * conditions can no longer be kept are left to the automaton's check.
 */
#include "sample/text_machine.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "sample/regex.h"

#include <string.h>

enum {
    MAX_PARTS = RV_TEXT_MACHINE_MAX_PARTS,
    MAX_STATES = 1 << 13,
    N_SLOTS = 1 << 14,
    MAX_EDGES = 1 << 17,
    MAX_STANDINGS = 1 << 10, // of a part's walk
    MAX_TEXT = 1 << 17,
};

struct state {
    int32_t at[MAX_PARTS]; // standings
    int32_t n_chars;
};

struct builder {
    struct rv_text_machine *machine;
    struct state *states;
    int32_t n_states, max_states;
    int32_t *slots; // hash table; -1: free
    struct rv_syntax_edge *edges;
    int32_t n_edges;
    uint8_t lows[257]; // ranges of bytes that lead to the same, whatever the state
    int32_t n_lows;
    bool is_full;
};

void rv_text_machine_init(struct rv_text_machine *machine, int32_t min, int32_t max)
{
    *machine = (struct rv_text_machine){.min = min, .max = max};
}

void rv_text_machine_release(struct rv_text_machine *machine)
{
    for (int32_t i = 0; i < machine->n_parts; i++) {
        rv_grammar_walk_release(&machine->parts[i]->walk);
        rv_automaton_release(&machine->parts[i]->automaton);
        rv_free(machine->parts[i]);
    }
    machine->n_parts = 0;
}

/* ---- parts ---------------------------------------------------------------------------------------------- */

static ruvllm_status open_part(struct rv_text_machine_part *part, const char *text, size_t len,
                               struct ruvllm_error *err)
{
    struct rv_syntax syntax;
    int32_t rule = 0;
    ruvllm_status rc;

    rv_syntax_init(&syntax);
    rc = rv_regex_read_in_value(&syntax, text, len, &rule, err); // its only rule: 0
    if (!rc)
        rc = rv_automaton_init(&part->automaton, &syntax, err);
    if (!rc)
        rc = rv_grammar_walk_init(&part->walk, &part->automaton, MAX_STANDINGS, err);
    rv_syntax_release(&syntax);
    return rc;
}

static ruvllm_status add_part(struct rv_text_machine *m, const char *text, size_t len, bool is_forbidden,
                              struct ruvllm_error *err)
{
    struct rv_text_machine_part *part;

    if (m->n_parts == MAX_PARTS)
        return rv_fail(err, RUVLLM_INVALID, "there are more than %d conditions", MAX_PARTS);
    part = rv_calloc(1, sizeof(*part));
    if (!part)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a condition");
    part->is_forbidden = is_forbidden;
    m->parts[m->n_parts++] = part;
    return open_part(part, text, len, err);
}

ruvllm_status rv_text_machine_match(struct rv_text_machine *machine, const char *text, size_t len,
                                    struct ruvllm_error *err)
{
    return add_part(machine, text, len, false, err);
}

ruvllm_status rv_text_machine_look(struct rv_text_machine *machine, const char *text, size_t len, bool is_forbidden,
                                   struct ruvllm_error *err)
{
    struct rv_buf buf;
    ruvllm_status rc;

    rv_buf_init(&buf, MAX_TEXT);
    rv_buf_add_str(&buf, "^(?:");
    rv_buf_add(&buf, text, len);
    rv_buf_add_str(&buf, ")");
    rc = rv_buf_status(&buf, "a look-ahead", err);
    if (!rc)
        rc = add_part(machine, buf.data, buf.len, is_forbidden, err);
    rv_buf_release(&buf);
    return rc;
}

/* ---- states --------------------------------------------------------------------------------------------- */

static uint32_t mix(uint32_t hash, uint32_t value)
{
    hash = (hash ^ value) * 0x9E3779B1u;
    return hash ^ hash >> 15;
}

/* The number of a state, which is put at the end of the list when it is new. -1: there is no room. */
static int32_t find_state(struct builder *b, const struct state *state)
{
    uint32_t hash = mix(3, (uint32_t)state->n_chars), slot;

    for (int32_t i = 0; i < MAX_PARTS; i++)
        hash = mix(hash, (uint32_t)state->at[i]);
    for (slot = hash % N_SLOTS; b->slots[slot] >= 0; slot = (slot + 1) % N_SLOTS)
        if (memcmp(&b->states[b->slots[slot]], state, sizeof(*state)) == 0)
            return b->slots[slot];
    if (b->n_states == b->max_states) {
        b->is_full = true;
        return -1;
    }
    b->states[b->n_states] = *state;
    b->slots[slot] = b->n_states;
    return b->n_states++;
}

/* Where a byte leads from state i; -1: nowhere. */
static int32_t follow(struct builder *b, int32_t i, uint8_t byte)
{
    struct rv_text_machine *m = b->machine;
    struct state to = b->states[i];

    for (int32_t k = 0; k < m->n_parts; k++) {
        struct rv_grammar_walk *w = &m->parts[k]->walk;

        to.at[k] = rv_grammar_walk_step(w, to.at[k], byte);
        b->is_full |= w->is_full || w->n_steps > RV_GRAMMAR_WALK_MAX_STEPS;
        if (b->is_full)
            return -1;
        /* A look-ahead that has matched stays matched. */
        if (m->parts[k]->is_forbidden ? w->standings[to.at[k]].is_done : to.at[k] == RV_GRAMMAR_WALK_DEAD)
            return -1;
    }
    if ((byte & 0xC0) != 0x80) { // the first byte of a character
        to.n_chars++;
        if (m->max >= 0 && to.n_chars > m->max)
            return -1;
        if (m->max < 0 && to.n_chars > m->min) // enough is enough
            to.n_chars = m->min;
    }
    return find_state(b, &to);
}

static bool may_end(const struct builder *b, int32_t i)
{
    const struct rv_text_machine *m = b->machine;

    for (int32_t k = 0; k < m->n_parts; k++)
        if (!m->parts[k]->is_forbidden && !m->parts[k]->walk.standings[b->states[i].at[k]].is_done)
            return false;
    return b->states[i].n_chars >= m->min;
}

/* ---- edges ---------------------------------------------------------------------------------------------- */

static void add_edge(struct builder *b, int32_t from, int32_t to, uint8_t lo, uint8_t hi)
{
    struct rv_syntax_edge *last = b->n_edges > 0 ? &b->edges[b->n_edges - 1] : NULL;

    if (last && to >= 0 && last->from == from && last->to == to && last->hi + 1 == lo) {
        last->hi = hi;
        return;
    }
    if (b->n_edges == MAX_EDGES) {
        b->is_full = true;
        return;
    }
    b->edges[b->n_edges++] = (struct rv_syntax_edge){from, to, lo, hi};
}

/* Where ranges begin: the parts' classes of bytes, what JSON escapes, and first bytes of characters. */
static void list_ranges(struct builder *b)
{
    static const uint8_t own[] = {0, 8, 9, 10, 11, 12, 13, 14, 0x20, '"', '"' + 1, '\\', '\\' + 1, 0x80, 0xC0};
    bool begins[256] = {false};

    for (size_t i = 0; i < sizeof(own); i++)
        begins[own[i]] = true;
    for (int32_t k = 0; k < b->machine->n_parts; k++)
        for (int32_t i = 0; i < b->machine->parts[k]->automaton.n_classes; i++)
            begins[b->machine->parts[k]->automaton.byte_of[i]] = true;
    for (int32_t byte = 0; byte < 256; byte++)
        if (begins[byte])
            b->lows[b->n_lows++] = (uint8_t)byte;
}

/* The letter of a byte's short escape; 0: there is none. */
static char escape_of(uint8_t byte)
{
    static const char bytes[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    const char *found = byte ? strchr(bytes, byte) : NULL;

    return found ? letters[found - bytes] : '\0';
}

/* State i of ours is 2 i of the machine's; 2 i + 1 is the one after a backslash. */
static void write_state(struct builder *b, int32_t i)
{
    bool has_escape = false;

    for (int32_t k = 0; k < b->n_lows && !b->is_full; k++) {
        uint8_t lo = b->lows[k], hi = (uint8_t)(k + 1 < b->n_lows ? b->lows[k + 1] - 1 : 255);
        char escape = escape_of(lo);
        int32_t to;

        if (lo < 0x20 && !escape)
            continue;
        to = follow(b, i, lo);
        if (to < 0)
            continue;
        if (escape)
            add_edge(b, 2 * i + 1, 2 * to, (uint8_t)escape, (uint8_t)escape);
        else
            add_edge(b, 2 * i, 2 * to, lo, hi);
        has_escape |= escape != '\0';
    }
    if (has_escape)
        add_edge(b, 2 * i, 2 * i + 1, '\\', '\\');
    if (may_end(b, i))
        add_edge(b, 2 * i, -1, 1, 0);
}

static ruvllm_status build(struct builder *b, struct ruvllm_error *err)
{
    struct rv_text_machine *m = b->machine;
    struct state start = {.n_chars = 0};

    memset(b->slots, 0xFF, N_SLOTS * sizeof(*b->slots));
    list_ranges(b);
    for (int32_t k = 0; k < m->n_parts; k++) {
        start.at[k] = rv_grammar_walk_begin(&m->parts[k]->walk);
        b->is_full |= m->parts[k]->walk.is_full;
    }
    /* What is forbidden at the beginning and empty leaves nothing. */
    for (int32_t k = 0; k < m->n_parts; k++)
        if (m->parts[k]->is_forbidden && m->parts[k]->walk.standings[start.at[k]].is_done)
            return RUVLLM_OK;
    (void)find_state(b, &start);
    for (int32_t i = 0; i < b->n_states && !b->is_full; i++)
        write_state(b, i);
    if (b->is_full)
        return rv_fail(err, RUVLLM_INVALID, "together they need too many states");
    return RUVLLM_OK;
}

ruvllm_status rv_text_machine_write(struct rv_text_machine *machine, struct rv_syntax *syntax, int32_t *budget,
                                    int32_t *node, struct ruvllm_error *err)
{
    struct builder b = {.machine = machine,
                        .max_states = *budget < MAX_STATES ? *budget : MAX_STATES,
                        .states = rv_calloc(MAX_STATES, sizeof(*b.states)),
                        .slots = rv_calloc(N_SLOTS, sizeof(*b.slots)),
                        .edges = rv_realloc_array(NULL, MAX_EDGES, sizeof(*b.edges))};
    ruvllm_status rc = RUVLLM_OK;

    if (!b.states || !b.slots || !b.edges)
        rc = rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a machine");
    if (!rc)
        rc = build(&b, err);
    if (!rc)
        *node = rv_syntax_machine(syntax, b.edges, (size_t)b.n_edges);
    *budget -= b.n_states;
    rv_free(b.states);
    rv_free(b.slots);
    rv_free(b.edges);
    return rc;
}
