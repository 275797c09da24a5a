/*
 * A standing's places are grouped by where their rule returns to. A group that takes many different bytes is looked at
 * as if alone in the world, once for all answers: which tokens it takes, and at which nodes of the trie its rule may
 * have ended (`exits`), below which the rest of the token is the caller's business. Its mask is then a copy of the kept
 * one and short walks below the exits. Groups that take few bytes are walked where they stand.
 *
 * Places inside of a counted repetition are looked at without their count, which only decides how much of what is known
 * of the repetition's child holds (counted.h); what follows is walked at the child's edges.
 */
#include "sample/grammar_mask.h"

#include "base/alloc.h"

#include <string.h>

enum {
    N_INSIDES = RV_GRAMMAR_MASK_INSIDES,
    MAX_STANDINGS = 8192, // of the walk they are found with
    LEAST_STANDINGS = 1024,
    TABLE_BYTES = 4 << 20, // its table of bytes and standings is no larger
    MAX_EXITS = 1 << 19,
    ROOM = 4,        // comparisons with the whole vocabulary whose standings there is room for at least,
    ROOM_EXITS = 64, // and whose exits, where the vocabulary is small
    BROAD = 16,      // different bytes
    TAIL_BYTES = 64, // that the rest of a character may go on with
    MAX_STEPS = RV_GRAMMAR_WALK_MAX_STEPS,
};

enum answer { NO, YES, NARROW, OUT_OF_ROOM };

/* A mask being made. */
struct maker {
    struct rv_grammar_mask_known *known;
    const struct rv_automaton *automaton;
    struct rv_grammar_mask_scratch *scratch;
    struct rv_grammar_walk *walk; // the answer's
    uint64_t *bits;
};

static void forget(struct rv_grammar_mask_known *known)
{
    for (int32_t i = 0; i < N_INSIDES; i++)
        known->insides[i].standing = -1;
    known->n_exits = 0;
    known->next_inside = 0;
    rv_counted_forget(&known->counted);
}

/* A comparison meets no more standings than the trie has nodes; and the table of bytes and standings has a ceiling. */
static int32_t room_for_standings(const struct rv_automaton *automaton, const struct rv_token_trie *trie)
{
    int32_t most = TABLE_BYTES / (int32_t)sizeof(int32_t) / automaton->n_classes;

    most = most < MAX_STANDINGS ? most : MAX_STANDINGS;
    if (trie->n_nodes >= MAX_STANDINGS / ROOM)
        return most;
    if (trie->n_nodes <= LEAST_STANDINGS / ROOM)
        return LEAST_STANDINGS;
    return ROOM * trie->n_nodes < most ? ROOM * trie->n_nodes : most;
}

ruvllm_status rv_grammar_mask_known_init(struct rv_grammar_mask_known *known, const struct rv_automaton *automaton,
                                         const struct rv_token_trie *trie, struct ruvllm_error *err)
{
    struct rv_grammar_mask_known *k = known;
    ruvllm_status rc;

    *k = (struct rv_grammar_mask_known){.trie = trie, .n_words = (trie->n_tokens + 63) / 64};
    k->max_exits = trie->n_nodes < MAX_EXITS / ROOM_EXITS ? ROOM_EXITS * trie->n_nodes + 1 : MAX_EXITS;
    k->inside_bits = rv_realloc_array(NULL, N_INSIDES * k->n_words + 1, sizeof(*k->inside_bits));
    k->exits = rv_realloc_array(NULL, (size_t)k->max_exits, sizeof(*k->exits));
    if (!k->inside_bits || !k->exits)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate masks for %zu tokens", trie->n_tokens);
    for (size_t i = 0; i < N_INSIDES; i++)
        k->insides[i].bits = k->inside_bits + i * k->n_words;
    rc = rv_grammar_walk_init(&k->walk, automaton, room_for_standings(automaton, trie), err);
    if (!rc)
        rc = rv_counted_init(&k->counted, trie, &k->walk, err);
    forget(k);
    return rc;
}

void rv_grammar_mask_known_release(struct rv_grammar_mask_known *known)
{
    rv_counted_release(&known->counted);
    rv_grammar_walk_release(&known->walk);
    rv_free(known->inside_bits);
    rv_free(known->exits);
    known->inside_bits = NULL;
    known->exits = NULL;
}

/* ---- walking the vocabulary ------------------------------------------------------------------------ */

struct tour {
    const struct rv_token_trie *trie;
    struct rv_grammar_walk *walk;
    int32_t *path; // standings by depth
    uint64_t *bits;
    int32_t *exits; // NULL: nobody asks for them
    int32_t n_exits, max_exits;
    struct rv_grammar_mask_following *following; // NULL: nobody asks; tokens are noted, with `n_copies`
    int32_t n_copies;
};

static void note(struct tour *t, int32_t token)
{
    struct rv_grammar_mask_following *f = t->following;

    for (; token >= 0 && f->n >= 0; token = t->trie->same[token]) {
        if (f->n == RV_GRAMMAR_MASK_FOLLOWERS)
            f->n = -1;
        else
            f->tokens[f->n++] = (struct rv_counted_token){token, t->n_copies};
    }
}

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
        if (t->following)
            note(t, node->token);
        else if (node->has_same)
            allow(t->trie, t->bits, node->token);
        else if (node->token >= 0)
            t->bits[node->token / 64] |= (uint64_t)1 << (node->token % 64);
        if (t->exits && t->walk->standings[to].has_left && node->skip > i + 1) {
            if (t->n_exits == t->max_exits)
                return false;
            t->exits[t->n_exits++] = i;
        }
        i++;
    }
    return true;
}

static struct tour tour_of(const struct maker *m)
{
    return (struct tour){.trie = m->known->trie, .walk = m->walk, .path = m->scratch->path, .bits = m->bits};
}

/* ---- groups by themselves ---------------------------------------------------------------------------- */

static struct rv_grammar_mask_inside *find_inside(struct rv_grammar_mask_known *k, int32_t standing)
{
    for (int32_t i = 0; i < N_INSIDES; i++)
        if (k->insides[i].standing == standing)
            return &k->insides[i];
    return NULL;
}

/* Compares a standing of the grammar's walk with the whole vocabulary. */
static struct rv_grammar_mask_inside *look_inside(struct rv_grammar_mask_known *k, int32_t standing)
{
    struct rv_grammar_mask_inside *inside = &k->insides[k->next_inside];
    struct tour t = {.trie = k->trie,
                     .walk = &k->walk,
                     .path = k->path,
                     .bits = inside->bits,
                     .exits = k->exits + k->n_exits,
                     .max_exits = k->max_exits - k->n_exits};

    inside->standing = -1;
    memset(inside->bits, 0, k->n_words * sizeof(*inside->bits));
    k->path[0] = standing;
    if (!tour(&t, 0, k->trie->n_nodes))
        return NULL;
    inside->standing = standing;
    inside->first_exit = k->n_exits;
    inside->n_exits = t.n_exits;
    k->n_exits += t.n_exits;
    k->next_inside = (k->next_inside + 1) % N_INSIDES;
    return inside;
}

/* Room for exits and standings is used up: once more with all of it. */
static void start_over(struct rv_grammar_mask_known *k)
{
    forget(k);
    rv_grammar_walk_reset(&k->walk);
}

/* What is known of starts in one rule. NULL when it cannot be found out within the bounds. */
static struct rv_grammar_mask_inside *know_inside(struct rv_grammar_mask_known *k,
                                                  const struct rv_grammar_walk_start *starts, int32_t n)
{
    for (int attempt = 0; attempt < 2; attempt++) {
        int32_t standing = rv_grammar_walk_begin_inside(&k->walk, starts, n);
        struct rv_grammar_mask_inside *inside = k->walk.is_full ? NULL : find_inside(k, standing);

        if (!inside && !k->walk.is_full)
            inside = look_inside(k, standing);
        if (inside)
            return inside;
        if (k->walk.n_steps > MAX_STEPS)
            return NULL;
        start_over(k);
    }
    return NULL;
}

/*
 * What is known of the child of repetition `which` from some of its states on. NARROW for those inside of it, unless
 * they are wide: the rest of a character takes few tokens, and there are many such rests.
 */
static enum answer know_child(struct rv_grammar_mask_known *k, int32_t which, const struct rv_grammar_walk_start *alike,
                              int32_t n, bool is_wide, const struct rv_counted_shape **shape)
{
    const struct rv_automaton *a = k->walk.automaton;
    struct rv_grammar_walk_start head = {a->counts[which].head, RV_GRAMMAR_WALK_FREE};
    struct rv_grammar_walk_start first = {a->states[head.state].a, RV_GRAMMAR_WALK_FREE};

    for (int attempt = 0; attempt < 2; attempt++) {
        int32_t standing = rv_grammar_walk_begin_inside(&k->walk, alike, n);

        *shape = k->walk.is_full ? NULL : rv_counted_find(&k->counted, standing);
        if (!*shape && !k->walk.is_full) {
            int32_t whole = rv_grammar_walk_begin_inside(&k->walk, &head, 1);
            int32_t begin = rv_grammar_walk_begin_inside(&k->walk, &first, 1);

            if (!k->walk.is_full && standing != begin && !is_wide)
                return NARROW;
            *shape = k->walk.is_full ? NULL : rv_counted_look(&k->counted, standing, whole);
        }
        if (*shape)
            return (*shape)->is_usable ? YES : NO;
        if (k->walk.n_steps > MAX_STEPS)
            return OUT_OF_ROOM;
        start_over(k);
    }
    return OUT_OF_ROOM;
}

/* Different bytes that starts take, or more: ranges that overlap count twice. Counts to `enough`. */
static int32_t breadth(const struct rv_automaton *a, const struct rv_grammar_walk_start *starts, int32_t n,
                       int32_t enough)
{
    int32_t sum = 0;

    for (int32_t i = 0; i < n && sum < enough; i++)
        sum += a->states[starts[i].state].hi - a->states[starts[i].state].lo + 1;
    return sum;
}

static bool add_broad(struct maker *m)
{
    const struct rv_grammar_mask_group *group = &m->scratch->group;
    struct rv_grammar_mask_known *k = m->known;
    struct rv_grammar_mask_inside *inside = know_inside(k, group->starts, group->n);
    struct tour t = tour_of(m);
    int32_t outside;

    if (!inside)
        return false;
    for (size_t i = 0; i < k->n_words; i++)
        m->bits[i] |= inside->bits[i];
    if (inside->n_exits == 0)
        return true;
    outside = rv_grammar_walk_return(m->walk, group->below);
    if (m->walk->is_full)
        return false;
    for (int32_t i = 0; i < inside->n_exits; i++) {
        int32_t node = k->exits[inside->first_exit + i];

        t.path[k->trie->nodes[node].depth] = outside;
        if (!tour(&t, node + 1, k->trie->nodes[node].skip))
            return false;
    }
    return true;
}

/* ---- repetitions --------------------------------------------------------------------------------------- */

/* Which bytes lead on from a standing; true when one of them is among `others`. */
static bool list_bytes(const struct rv_grammar_walk *w, int32_t standing, const bool others[256], bool bytes[256])
{
    const struct rv_grammar_walk_standing *s = &w->standings[standing];
    bool overlaps = false;

    memset(bytes, 0, 256 * sizeof(*bytes));
    for (int32_t i = 0; i < s->n; i++) {
        int32_t state = w->places[w->items[s->first + i]].at.state;

        if (state < 0)
            continue;
        for (int32_t byte = w->automaton->states[state].lo; byte <= w->automaton->states[state].hi; byte++) {
            bytes[byte] = true;
            overlaps |= others[byte];
        }
    }
    return overlaps;
}

/* Walks what follows at the child's edges after least..most copies; tokens go to the mask, or to `following`. */
static bool tour_edges(struct maker *m, const struct rv_counted_shape *shape, int32_t outside, const bool bytes[256],
                       int32_t least, int32_t most, struct rv_grammar_mask_following *following)
{
    struct tour t = tour_of(m);

    t.following = following;
    for (int32_t byte = 0; byte < 256; byte++) {
        if (!bytes[byte])
            continue;
        for (int32_t i = shape->first_edge[byte]; i < shape->first_edge[byte + 1]; i++) {
            struct rv_counted_edge edge = m->known->counted.edges[i];
            const struct rv_token_trie_node *node = &t.trie->nodes[edge.node];

            if (edge.n < least || edge.n > most)
                continue;
            t.path[node->depth - 1] = outside;
            t.n_copies = edge.n;
            if (!tour(&t, edge.node, node->skip))
                return false;
        }
    }
    return true;
}

/* What follows the repetition at a standing of the answer's; NULL: out of room. Kept until one of the walks starts
 * over. */
static const struct rv_grammar_mask_following *know_following(struct maker *m, const struct rv_counted_shape *shape,
                                                              int32_t outside)
{
    struct rv_grammar_mask_scratch *s = m->scratch;
    struct rv_grammar_mask_following *f;
    bool bytes[256];

    for (int32_t i = 0; i < RV_GRAMMAR_MASK_FOLLOWINGS; i++) {
        f = &s->followings[i];
        if (f->outside == outside && f->outside_resets == m->walk->n_resets && f->shape == shape->standing &&
            f->shape_resets == m->known->walk.n_resets)
            return f;
    }
    f = &s->followings[s->next_following];
    f->outside_resets = 0; // until it is whole
    f->n = 0;
    f->overlaps = list_bytes(m->walk, outside, shape->takes, bytes);
    if (!f->overlaps && !tour_edges(m, shape, outside, bytes, 0, INT32_MAX, f))
        return NULL;
    f->outside = outside;
    f->outside_resets = m->walk->n_resets;
    f->shape = shape->standing;
    f->shape_resets = m->known->walk.n_resets;
    s->next_following = (s->next_following + 1) % RV_GRAMMAR_MASK_FOLLOWINGS;
    return f;
}

/*
 * Tokens that leave the repetition after least..most copies. NO where what follows could go on with a byte of the child
 * too: tokens would leave it everywhere.
 */
static enum answer add_followers(struct maker *m, const struct rv_automaton_count *count,
                                 const struct rv_counted_shape *shape, int32_t least, int32_t most)
{
    int32_t outside = rv_grammar_walk_enter(m->walk, count->next, m->scratch->group.below);
    const struct rv_grammar_mask_following *f;
    bool bytes[256];

    if (m->walk->is_full)
        return OUT_OF_ROOM;
    f = know_following(m, shape, outside);
    if (!f)
        return OUT_OF_ROOM;
    if (f->overlaps)
        return NO;
    if (f->n < 0) {
        (void)list_bytes(m->walk, outside, shape->takes, bytes);
        return tour_edges(m, shape, outside, bytes, least, most, NULL) ? YES : OUT_OF_ROOM;
    }
    for (int32_t i = 0; i < f->n; i++)
        if (f->tokens[i].n >= least && f->tokens[i].n <= most)
            m->bits[f->tokens[i].token / 64] |= (uint64_t)1 << (f->tokens[i].token % 64);
    return YES;
}

/* The n places of the group from `first` on, all of repetition `which` and with one count. */
static enum answer add_repetition(struct maker *m, int32_t first, int32_t n, int32_t which)
{
    const struct rv_automaton_count *count = &m->automaton->counts[which];
    const struct rv_grammar_walk_start *starts = m->scratch->group.starts + first;
    struct rv_grammar_walk_start *alike = m->scratch->group.alike;
    int32_t shift = m->automaton->counts[count->like].first - count->first;
    int32_t most = count->most < 0 ? INT32_MAX : count->most - starts[0].count;
    bool is_wide = breadth(m->automaton, starts, n, TAIL_BYTES + 1) > TAIL_BYTES;
    const struct rv_counted_shape *shape;
    enum answer answer;

    for (int32_t i = 0; i < n; i++)
        alike[i] = (struct rv_grammar_walk_start){starts[i].state + shift, RV_GRAMMAR_WALK_FREE};
    answer = know_child(m->known, count->like, alike, n, is_wide, &shape);
    if (answer == YES)
        answer = add_followers(m, count, shape, count->least - starts[0].count, most);
    if (answer == YES)
        rv_counted_add(&m->known->counted, shape, most, m->bits);
    return answer;
}

static void swap(struct rv_grammar_mask_group *group, int32_t i, int32_t k)
{
    struct rv_grammar_walk_start start = group->starts[i];
    int32_t place = group->places[i];

    group->starts[i] = group->starts[k];
    group->places[i] = group->places[k];
    group->starts[k] = start;
    group->places[k] = place;
}

/* Brings those of the same repetition and count as the one at `first` behind it; how many they are, with it. */
static int32_t gather(struct maker *m, int32_t first, int32_t which)
{
    const struct rv_automaton_count *count = &m->automaton->counts[which];
    struct rv_grammar_mask_group *group = &m->scratch->group;
    int32_t n = 1;

    for (int32_t i = first + 1; i < group->n; i++)
        if (group->starts[i].count == group->starts[first].count && group->starts[i].state >= count->first &&
            group->starts[i].state < count->end)
            swap(group, first + n++, i);
    m->walk->n_steps += group->n;
    return n;
}

/* Takes those in repetitions out of the group, as far as what is known of their children helps. */
static bool add_repetitions(struct maker *m)
{
    struct rv_grammar_mask_group *group = &m->scratch->group;
    int32_t n_staying = 0; // at the front

    while (n_staying < group->n) {
        int32_t which = rv_automaton_count_of(m->automaton, group->starts[n_staying].state);
        int32_t n = which < 0 ? 1 : gather(m, n_staying, which);
        enum answer answer = which < 0 ? NO : add_repetition(m, n_staying, n, which);

        if (answer == OUT_OF_ROOM || m->walk->n_steps > MAX_STEPS)
            return false;
        if (answer == NO) {
            n_staying += n;
            continue;
        }
        for (int32_t i = n_staying; answer == NARROW && i < n_staying + n; i++)
            m->scratch->narrow[m->scratch->n_narrow++] = group->places[i];
        group->n -= n;
        for (int32_t i = n_staying; i < group->n; i++) // the order of the others does not matter
            swap(group, i, i + n);
    }
    return true;
}

/* ---- masks ------------------------------------------------------------------------------------------ */

/* Sorts a standing's places by what their rules return to; how many groups there are. */
static int32_t sort_groups(struct maker *m, const struct rv_grammar_walk_standing *s)
{
    struct rv_grammar_mask_scratch *scratch = m->scratch;
    struct rv_grammar_walk *w = m->walk;
    int32_t *group_of = w->moved; // by place returned to
    int32_t n = 0, sum = 0;

    w->mark++;
    w->n_steps += s->n;
    for (int32_t i = 0; i < s->n; i++) {
        int32_t below = w->places[w->items[s->first + i]].below;

        if (below < 0) // DONE has nothing below it
            continue;
        if (w->places[below].mark != w->mark) {
            w->places[below].mark = w->mark;
            group_of[below] = n;
            scratch->belows[n] = below;
            scratch->ends[n++] = 0;
        }
        scratch->ends[group_of[below]]++;
    }
    for (int32_t i = 0; i < n; i++) { // ends become beginnings, which move to ends again
        int32_t count = scratch->ends[i];

        scratch->ends[i] = sum;
        sum += count;
    }
    for (int32_t i = 0; i < s->n; i++) {
        int32_t place = w->items[s->first + i];

        if (w->places[place].below >= 0)
            scratch->sorted[scratch->ends[group_of[w->places[place].below]]++] = place;
    }
    return n;
}

static void take_group(struct maker *m, int32_t i)
{
    struct rv_grammar_mask_scratch *scratch = m->scratch;
    struct rv_grammar_mask_group *group = &scratch->group;

    group->below = scratch->belows[i];
    group->n = 0;
    for (int32_t k = i > 0 ? scratch->ends[i - 1] : 0; k < scratch->ends[i]; k++) {
        group->starts[group->n] = m->walk->places[scratch->sorted[k]].at;
        group->places[group->n++] = scratch->sorted[k];
    }
}

/* Adds a group's tokens, or puts its places with those that are walked where they stand. */
static bool add_group(struct maker *m)
{
    struct rv_grammar_mask_scratch *s = m->scratch;

    if (m->automaton->n_counts > 0 && !add_repetitions(m))
        return false;
    if (breadth(m->automaton, s->group.starts, s->group.n, BROAD) >= BROAD)
        return m->walk->n_steps <= MAX_STEPS && add_broad(m);
    for (int32_t i = 0; i < s->group.n; i++)
        s->narrow[s->n_narrow++] = s->group.places[i];
    return true;
}

bool rv_grammar_mask_fill(struct rv_grammar_mask_known *known, struct rv_grammar_mask_scratch *scratch,
                          struct rv_grammar_walk *walk, int32_t standing, uint64_t *bits)
{
    struct maker m = {.known = known, .automaton = walk->automaton, .scratch = scratch, .walk = walk, .bits = bits};
    struct rv_grammar_walk_standing s = walk->standings[standing];
    int32_t n_groups = sort_groups(&m, &s);
    struct tour t = tour_of(&m);

    scratch->n_narrow = 0;
    for (int32_t i = 0; i < n_groups; i++) {
        take_group(&m, i);
        if (!add_group(&m))
            return false;
    }
    if (scratch->n_narrow > 0) {
        scratch->path[0] = rv_grammar_walk_pick(walk, scratch->narrow, scratch->n_narrow);
        if (walk->is_full || !tour(&t, 0, known->trie->n_nodes))
            return false;
    }
    for (size_t i = 0; s.is_done && i < known->trie->n_ends; i++)
        allow(known->trie, bits, known->trie->ends[i]);
    return true;
}
