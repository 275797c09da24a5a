/*
 * Closures over edges that take no byte, and two hash tables that give equal places and equal standings one number. In
 * both 0 is a free slot (place DONE and standing DEAD are never looked up): fresh memory is zero, and what a small
 * grammar never touches costs nothing.
 *
 * A call whose return would only end its own rule returns further down at once: rules that end in a call of themselves
 * (lists, words spelled letter by letter) keep their depth.
 */
#include "sample/grammar_walk.h"

#include "base/alloc.h"

#include <string.h>

enum {
    PLACES_EACH = 8,                             // places and items reserved for a standing, on average
    MIN_PLACES = 4 * RV_GRAMMAR_WALK_MAX_PLACES, // and beyond that, for few standings of many places
    MAX_PLACES = 1 << 16,                        // likewise, in an automaton of as many states
    WORK_ROOM = 8 * RV_GRAMMAR_WALK_MAX_PLACES,
};

static int32_t table_size(int32_t n)
{
    int32_t size = 64;

    while (size < 2 * n)
        size *= 2;
    return size;
}

/* With all slots free. */
static void start_empty(struct rv_grammar_walk *w)
{
    /* The two that are no states are never looked up. */
    w->places[RV_GRAMMAR_WALK_DONE] = (struct rv_grammar_walk_place){.at = {.state = -1}, .below = -1};
    w->places[RV_GRAMMAR_WALK_LEFT] = (struct rv_grammar_walk_place){.at = {.state = -1}, .below = -1};
    w->n_places = 2;
    w->standings[RV_GRAMMAR_WALK_DEAD] = (struct rv_grammar_walk_standing){0};
    for (int32_t i = 0; i < w->automaton->n_classes; i++)
        w->next[i] = RV_GRAMMAR_WALK_DEAD;
    w->n_standings = 1;
    w->n_items = 0;
    w->mark = 0;
    w->n_resets++;
    w->is_full = false;
}

ruvllm_status rv_grammar_walk_init(struct rv_grammar_walk *walk, const struct rv_automaton *automaton,
                                   int32_t max_standings, struct ruvllm_error *err)
{
    struct rv_grammar_walk *w = walk;
    int32_t more = automaton->n_states < MIN_PLACES ? MIN_PLACES : automaton->n_states;

    *w = (struct rv_grammar_walk){.automaton = automaton, .max_standings = max_standings};
    w->max_places = PLACES_EACH * max_standings + (more < MAX_PLACES ? more : MAX_PLACES);
    w->max_items = w->max_places;
    w->n_place_slots = table_size(w->max_places);
    w->n_standing_slots = table_size(max_standings);
    w->places = rv_realloc_array(NULL, (size_t)w->max_places, sizeof(*w->places));
    w->place_slots = rv_calloc((size_t)w->n_place_slots, sizeof(*w->place_slots));
    w->standings = rv_realloc_array(NULL, (size_t)max_standings, sizeof(*w->standings));
    w->standing_slots = rv_calloc((size_t)w->n_standing_slots, sizeof(*w->standing_slots));
    w->items = rv_realloc_array(NULL, (size_t)w->max_items, sizeof(*w->items));
    w->next = rv_realloc_array(NULL, (size_t)max_standings * (size_t)automaton->n_classes, sizeof(*w->next));
    w->work = rv_realloc_array(NULL, WORK_ROOM, sizeof(*w->work));
    w->found = rv_realloc_array(NULL, RV_GRAMMAR_WALK_MAX_PLACES, sizeof(*w->found));
    w->moved = rv_realloc_array(NULL, (size_t)w->max_places, sizeof(*w->moved));
    if (!w->moved || !w->places || !w->place_slots || !w->standings || !w->standing_slots || !w->items || !w->next ||
        !w->work || !w->found) {
        rv_grammar_walk_release(w);
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a walk of %d standings", (int)max_standings);
    }
    start_empty(w);
    return RUVLLM_OK;
}

void rv_grammar_walk_release(struct rv_grammar_walk *walk)
{
    rv_free(walk->places);
    rv_free(walk->place_slots);
    rv_free(walk->standings);
    rv_free(walk->standing_slots);
    rv_free(walk->items);
    rv_free(walk->next);
    rv_free(walk->work);
    rv_free(walk->found);
    rv_free(walk->moved);
    *walk = (struct rv_grammar_walk){0};
}

void rv_grammar_walk_reset(struct rv_grammar_walk *walk)
{
    memset(walk->place_slots, 0, (size_t)walk->n_place_slots * sizeof(*walk->place_slots));
    memset(walk->standing_slots, 0, (size_t)walk->n_standing_slots * sizeof(*walk->standing_slots));
    start_empty(walk);
}

/* ---- numbers for places and standings ------------------------------------------------------------ */

static uint32_t mix(uint32_t hash, uint32_t value)
{
    hash = (hash ^ value) * 0x9E3779B1u;
    return hash ^ hash >> 15;
}

/* -1 when there is no room. */
static int32_t find_place(struct rv_grammar_walk *w, struct rv_grammar_walk_start at, int32_t below)
{
    uint32_t mask = (uint32_t)w->n_place_slots - 1;
    uint32_t slot = mix(mix(mix(17, (uint32_t)at.state), (uint32_t)at.count), (uint32_t)below) & mask;

    for (; w->place_slots[slot] > 0; slot = (slot + 1) & mask) {
        const struct rv_grammar_walk_place *place = &w->places[w->place_slots[slot]];

        if (place->at.state == at.state && place->at.count == at.count && place->below == below)
            return w->place_slots[slot];
    }
    if (w->n_places == w->max_places) {
        w->is_full = true;
        return -1;
    }
    w->places[w->n_places] =
        (struct rv_grammar_walk_place){.at = at, .below = below, .depth = w->places[below].depth + 1};
    w->place_slots[slot] = w->n_places;
    return w->n_places++;
}

static bool is_same(const struct rv_grammar_walk *w, const struct rv_grammar_walk_standing *s, const int32_t *places,
                    int32_t n)
{
    return s->n == n && memcmp(w->items + s->first, places, (size_t)n * sizeof(*places)) == 0;
}

/* The standing of n sorted places. */
static int32_t find_standing(struct rv_grammar_walk *w, const int32_t *places, int32_t n)
{
    uint32_t mask = (uint32_t)w->n_standing_slots - 1, hash = 5, slot;
    struct rv_grammar_walk_standing *s;

    if (n == 0)
        return RV_GRAMMAR_WALK_DEAD;
    for (int32_t i = 0; i < n; i++)
        hash = mix(hash, (uint32_t)places[i]);
    for (slot = hash & mask; w->standing_slots[slot] > 0; slot = (slot + 1) & mask)
        if (is_same(w, &w->standings[w->standing_slots[slot]], places, n))
            return w->standing_slots[slot];
    if (w->n_standings == w->max_standings || w->max_items - w->n_items < n) {
        w->is_full = true;
        return RV_GRAMMAR_WALK_DEAD;
    }
    s = &w->standings[w->n_standings];
    *s = (struct rv_grammar_walk_standing){.first = w->n_items, .n = n};
    memcpy(w->items + w->n_items, places, (size_t)n * sizeof(*places));
    w->n_items += n;
    /* Sorted: the two that are no states come first. */
    s->is_done = places[0] == RV_GRAMMAR_WALK_DONE;
    s->has_left = places[0] == RV_GRAMMAR_WALK_LEFT || (n > 1 && places[1] == RV_GRAMMAR_WALK_LEFT);
    memset(w->next + (size_t)w->n_standings * (size_t)w->automaton->n_classes, 0xFF,
           (size_t)w->automaton->n_classes * sizeof(*w->next));
    w->standing_slots[slot] = w->n_standings;
    return w->n_standings++;
}

/* ---- closures --------------------------------------------------------------------------------------- */

struct closure {
    int32_t n_work, n_found;
};

static void begin_closure(struct rv_grammar_walk *w, struct closure *c)
{
    w->mark++;
    *c = (struct closure){0};
}

/* Takes a place to be looked at, unless this closure has had it. */
static void offer(struct rv_grammar_walk *w, struct closure *c, int32_t place)
{
    if (place < 0 || w->places[place].mark == w->mark)
        return;
    if (c->n_work == WORK_ROOM) {
        w->is_full = true;
        return;
    }
    w->places[place].mark = w->mark;
    w->work[c->n_work++] = place;
}

static void offer_state(struct rv_grammar_walk *w, struct closure *c, int32_t state, int32_t count, int32_t below)
{
    if (state >= 0 && w->automaton->states[state].is_useful)
        offer(w, c, find_place(w, (struct rv_grammar_walk_start){state, count}, below));
}

static void find(struct rv_grammar_walk *w, struct closure *c, int32_t place)
{
    if (c->n_found == RV_GRAMMAR_WALK_MAX_PLACES) {
        w->is_full = true;
        return;
    }
    w->found[c->n_found++] = place;
}

/* Repetitions that are counted call nothing, so there is no count to be kept. */
static void call(struct rv_grammar_walk *w, struct closure *c, const struct rv_automaton_state *s, int32_t below)
{
    int32_t back = below;

    if (!w->automaton->states[s->b].is_useful)
        return;
    if (w->automaton->states[s->b].kind != RV_AUTOMATON_END)
        back = find_place(w, (struct rv_grammar_walk_start){.state = s->b}, below);
    if (back >= 0 && w->places[back].depth < RV_GRAMMAR_WALK_MAX_DEPTH)
        offer_state(w, c, s->a, 0, back);
}

/* At a repetition of which p.at.count copies are read. */
static void repeat(struct rv_grammar_walk *w, struct closure *c, const struct rv_automaton_state *s,
                   struct rv_grammar_walk_place p)
{
    const struct rv_automaton_count *bounds = &w->automaton->counts[s->b];

    if (p.at.count == RV_GRAMMAR_WALK_FREE) {
        offer_state(w, c, s->a, RV_GRAMMAR_WALK_FREE, p.below);
        offer(w, c, RV_GRAMMAR_WALK_LEFT);
        return;
    }
    if (bounds->most < 0 || p.at.count < bounds->most)
        offer_state(w, c, s->a, p.at.count, p.below);
    if (p.at.count >= bounds->least)
        offer_state(w, c, bounds->next, 0, p.below);
}

/* After one more copy. Without a most, copies beyond the least are all alike. */
static int32_t count_one_more(const struct rv_automaton_count *bounds, int32_t count)
{
    if (count == RV_GRAMMAR_WALK_FREE || (bounds->most < 0 && count == bounds->least))
        return count;
    return count + 1;
}

static void expand(struct rv_grammar_walk *w, struct closure *c, int32_t place)
{
    struct rv_grammar_walk_place p = w->places[place];
    const struct rv_automaton_state *s;

    if (place <= RV_GRAMMAR_WALK_LEFT) {
        find(w, c, place);
        return;
    }
    s = &w->automaton->states[p.at.state];
    switch ((enum rv_automaton_kind)s->kind) {
    case RV_AUTOMATON_BYTE:
        find(w, c, place);
        break;
    case RV_AUTOMATON_SPLIT:
        offer_state(w, c, s->a, p.at.count, p.below);
        offer_state(w, c, s->b, p.at.count, p.below);
        break;
    case RV_AUTOMATON_CALL:
        call(w, c, s, p.below);
        break;
    case RV_AUTOMATON_END:
        offer(w, c, p.below);
        break;
    case RV_AUTOMATON_COUNT:
        repeat(w, c, s, p);
        break;
    case RV_AUTOMATON_AGAIN:
        offer_state(w, c, s->a, count_one_more(&w->automaton->counts[s->b], p.at.count), p.below);
        break;
    }
}

/* What a closure finds is often in order already, backwards. */
static void sort_places(int32_t *places, int32_t n)
{
    bool is_backwards = n > 1 && places[0] > places[n - 1];

    for (int32_t i = 0; is_backwards && i < n / 2; i++) {
        int32_t place = places[i];

        places[i] = places[n - 1 - i];
        places[n - 1 - i] = place;
    }
    for (int32_t gap = n / 2; gap > 0; gap /= 2)
        for (int32_t i = gap; i < n; i++) {
            int32_t place = places[i], at = i;

            for (; at >= gap && places[at - gap] > place; at -= gap)
                places[at] = places[at - gap];
            places[at] = place;
        }
}

static int32_t end_closure(struct rv_grammar_walk *w, struct closure *c)
{
    while (c->n_work > 0 && !w->is_full) {
        w->n_steps++;
        expand(w, c, w->work[--c->n_work]);
    }
    if (w->is_full)
        return RV_GRAMMAR_WALK_DEAD;
    sort_places(w->found, c->n_found);
    return find_standing(w, w->found, c->n_found);
}

int32_t rv_grammar_walk_begin(struct rv_grammar_walk *walk)
{
    struct closure c;

    begin_closure(walk, &c);
    offer_state(walk, &c, walk->automaton->start, 0, RV_GRAMMAR_WALK_DONE);
    return end_closure(walk, &c);
}

int32_t rv_grammar_walk_begin_inside(struct rv_grammar_walk *walk, const struct rv_grammar_walk_start *starts,
                                     int32_t n)
{
    struct closure c;

    begin_closure(walk, &c);
    for (int32_t i = 0; i < n; i++)
        offer_state(walk, &c, starts[i].state, starts[i].count, RV_GRAMMAR_WALK_LEFT);
    return end_closure(walk, &c);
}

int32_t rv_grammar_walk_return(struct rv_grammar_walk *walk, int32_t place)
{
    struct closure c;

    begin_closure(walk, &c);
    offer(walk, &c, place);
    return end_closure(walk, &c);
}

int32_t rv_grammar_walk_enter(struct rv_grammar_walk *walk, int32_t state, int32_t below)
{
    struct closure c;

    begin_closure(walk, &c);
    offer_state(walk, &c, state, 0, below);
    return end_closure(walk, &c);
}

int32_t rv_grammar_walk_step_slow(struct rv_grammar_walk *walk, int32_t standing, int32_t byte_class)
{
    struct rv_grammar_walk *w = walk;
    struct rv_grammar_walk_standing from = w->standings[standing];
    uint8_t byte = w->automaton->byte_of[byte_class];
    struct closure c;
    int32_t to;

    if (w->is_full)
        return RV_GRAMMAR_WALK_DEAD;
    begin_closure(w, &c);
    for (int32_t i = 0; i < from.n && !w->is_full; i++) {
        struct rv_grammar_walk_place place = w->places[w->items[from.first + i]];
        const struct rv_automaton_state *s;

        w->n_steps++;
        if (place.at.state < 0)
            continue;
        s = &w->automaton->states[place.at.state];
        if (byte >= s->lo && byte <= s->hi)
            offer_state(w, &c, s->a, place.at.count, place.below);
    }
    to = end_closure(w, &c);
    if (!w->is_full)
        w->next[(size_t)standing * (size_t)w->automaton->n_classes + (size_t)byte_class] = to;
    return to;
}

int32_t rv_grammar_walk_pick(struct rv_grammar_walk *walk, int32_t *places, int32_t n)
{
    sort_places(places, n);
    return find_standing(walk, places, n);
}

/* ---- starting over --------------------------------------------------------------------------------- */

/*
 * The places of the standing, and all below them, move to the front of the table. A place stands behind the one below
 * it, so going upwards finds every `below` renumbered, and writes only where was read before.
 */
int32_t rv_grammar_walk_keep_only(struct rv_grammar_walk *walk, int32_t standing)
{
    struct rv_grammar_walk *w = walk;
    struct rv_grammar_walk_standing s = w->standings[standing];
    int32_t n_old = w->n_places;

    memset(w->moved, 0, (size_t)n_old * sizeof(*w->moved));
    memcpy(w->found, w->items + s.first, (size_t)s.n * sizeof(*w->found));
    for (int32_t i = 0; i < s.n; i++)
        for (int32_t p = w->found[i]; p > RV_GRAMMAR_WALK_LEFT && !w->moved[p]; p = w->places[p].below)
            w->moved[p] = 1;
    w->moved[RV_GRAMMAR_WALK_DONE] = RV_GRAMMAR_WALK_DONE;
    w->moved[RV_GRAMMAR_WALK_LEFT] = RV_GRAMMAR_WALK_LEFT;
    rv_grammar_walk_reset(w);
    for (int32_t i = 2; i < n_old; i++)
        if (w->moved[i])
            w->moved[i] = find_place(w, w->places[i].at, w->moved[w->places[i].below]);
    for (int32_t i = 0; i < s.n; i++)
        w->found[i] = w->moved[w->found[i]];
    sort_places(w->found, s.n);
    return find_standing(w, w->found, s.n);
}
