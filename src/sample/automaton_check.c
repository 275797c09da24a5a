/* Two fixed points and the strongly connected parts of edges; all linear in the states, none recursive. */
#include "sample/automaton_check.h"

#include "base/alloc.h"

/*
 * Edges turned round: who has to be asked again when a state has become true. A call hangs on both of its states, a
 * repetition on its child and on what follows.
 */
struct sources {
    int32_t *first; // by state, n + 1
    int32_t *list;
};

static int32_t n_targets(const struct rv_automaton *a, const struct rv_automaton_state *state, int32_t targets[2])
{
    int32_t n = 0;

    if (state->kind != RV_AUTOMATON_END && state->a >= 0)
        targets[n++] = state->a;
    if (state->kind == RV_AUTOMATON_COUNT || state->kind == RV_AUTOMATON_AGAIN)
        targets[n++] = a->counts[state->b].next;
    else if ((state->kind == RV_AUTOMATON_SPLIT || state->kind == RV_AUTOMATON_CALL) && state->b >= 0)
        targets[n++] = state->b;
    return n;
}

static bool sources_init(struct sources *s, const struct rv_automaton *a)
{
    int32_t targets[2];

    s->first = rv_calloc((size_t)a->n_states + 2, sizeof(*s->first));
    s->list = rv_realloc_array(NULL, 2 * (size_t)a->n_states + 1, sizeof(*s->list));
    if (!s->first || !s->list)
        return false;
    for (int32_t i = 0; i < a->n_states; i++)
        for (int32_t k = n_targets(a, &a->states[i], targets); k > 0; k--)
            s->first[targets[k - 1] + 2]++;
    for (int32_t i = 0; i < a->n_states; i++)
        s->first[i + 2] += s->first[i + 1];
    for (int32_t i = 0; i < a->n_states; i++)
        for (int32_t k = n_targets(a, &a->states[i], targets); k > 0; k--)
            s->list[s->first[targets[k - 1] + 1]++] = i;
    return true;
}

static void sources_release(struct sources *s)
{
    rv_free(s->first);
    rv_free(s->list);
}

/*
 * True when the rule can end from this state, as far as is known; with `reads` false only without a byte. A
 * repetition's child can come to its end wherever what follows can: copies that are still missing are read as this one
 * was.
 */
static bool can_end(const struct rv_automaton *a, const struct rv_automaton_state *state, const uint8_t *known,
                    bool reads)
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
    case RV_AUTOMATON_COUNT:
        return known[a->counts[state->b].next] && (a->counts[state->b].least == 0 || known[state->a]);
    case RV_AUTOMATON_AGAIN:
        return known[a->counts[state->b].next];
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

            if (!known[source] && can_end(a, &a->states[source], known, reads)) {
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

static bool is_open_edge(const struct rv_automaton *a, const struct rv_automaton_state *s, uint8_t edge,
                         const uint8_t *empty, int32_t *to)
{
    bool is_call = s->kind == RV_AUTOMATON_CALL;

    *to = edge == 0 ? s->a : s->b;
    if (s->kind == RV_AUTOMATON_COUNT) {
        *to = edge == 0 ? s->a : a->counts[s->b].next;
        return edge == 0 || a->counts[s->b].least == 0;
    }
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
    int32_t *part; // of each state that was walked to
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

/* Only what calls lead to is asked for, so that walks begin at calls. */
static void find_components(const struct rv_automaton *a, const uint8_t *empty, struct components *c)
{
    for (int32_t i = 0; i < a->n_states; i++) {
        if (!c->index[i] && a->states[i].kind == RV_AUTOMATON_CALL)
            enter(c, i);
        while (c->n_path > 0) {
            struct visit *v = &c->path[c->n_path - 1];
            int32_t to;

            if (v->edge == 2) {
                leave(c, v->state);
            } else if (!is_open_edge(a, &a->states[v->state], v->edge++, empty, &to)) {
                continue;
            } else if (!c->index[to]) {
                enter(c, to);
            } else if (c->is_on_stack[to] && c->index[to] < c->low[v->state]) {
                c->low[v->state] = c->index[to];
            }
        }
    }
}

static bool has_calls(const struct rv_automaton *a)
{
    for (int32_t i = 0; i < a->n_states; i++)
        if (a->states[i].kind == RV_AUTOMATON_CALL)
            return true;
    return false;
}

static ruvllm_status check_left_recursion(const struct rv_automaton *a, const uint8_t *empty, struct ruvllm_error *err)
{
    size_t n = (size_t)a->n_states;
    struct components c = {.index = rv_calloc(n, sizeof(int32_t)),
                           .low = rv_realloc_array(NULL, n, sizeof(int32_t)),
                           .stack = rv_realloc_array(NULL, n, sizeof(int32_t)),
                           .is_on_stack = rv_calloc(n, 1),
                           .part = rv_realloc_array(NULL, n, sizeof(int32_t)),
                           .path = rv_realloc_array(NULL, n, sizeof(struct visit))};
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

ruvllm_status rv_automaton_check(struct rv_automaton *automaton, struct ruvllm_error *err)
{
    struct rv_automaton *a = automaton;
    size_t n = (size_t)a->n_states;
    uint8_t *useful = rv_calloc(n, 1), *empty = rv_calloc(n, 1);
    int32_t *queue = rv_realloc_array(NULL, n, sizeof(*queue));
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
    if (!rc && has_calls(a))
        rc = check_left_recursion(a, empty, err);
    sources_release(&sources);
    rv_free(useful);
    rv_free(empty);
    rv_free(queue);
    return rc;
}
