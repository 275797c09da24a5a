/*
 * Where a text stands in an automaton. A place is a state, how often the repetition around it has been read, and, below
 * it, the places to return to; a standing is the set of all places the text read so far may have led to. Both are kept
 * once each and named by numbers, and what a byte leads to is remembered, so that a standing met again costs one look
 * into a table.
 *
 * All memory is taken when the walk is made. When it is used up, `is_full` is set, standings are RV_GRAMMAR_WALK_DEAD,
 * and nothing is valid any more until rv_grammar_walk_reset.
 */
#ifndef RV_SAMPLE_GRAMMAR_WALK_H
#define RV_SAMPLE_GRAMMAR_WALK_H

#include "sample/automaton.h"

#define RV_GRAMMAR_WALK_DEAD 0              // no place is left
#define RV_GRAMMAR_WALK_MAX_PLACES 2048     // of one standing
#define RV_GRAMMAR_WALK_MAX_DEPTH 512       // rules inside each other
#define RV_GRAMMAR_WALK_MAX_STEPS (4 << 20) // places looked at for one mask
#define RV_GRAMMAR_WALK_FREE (-1)           // a count: a repetition looked at by itself, that may end after any copy

/* Places that are no states: the text is complete; a rule looked at by itself has ended. */
#define RV_GRAMMAR_WALK_DONE 0
#define RV_GRAMMAR_WALK_LEFT 1

struct rv_grammar_walk_start {
    int32_t state;
    int32_t count; // copies read of the repetition it is in; 0: in none. FREE: of any number
};

struct rv_grammar_walk_place {
    struct rv_grammar_walk_start at;
    int32_t below; // where its rule returns to: a place
    int32_t mark;  // the last closure that has seen it
    int32_t depth;
};

struct rv_grammar_walk_standing {
    int32_t first; // in items
    int32_t n;
    bool is_done; // the text may end here
    bool has_left;
};

struct rv_grammar_walk {
    const struct rv_automaton *automaton; // outlives the walk
    struct rv_grammar_walk_place *places;
    int32_t n_places, max_places;
    int32_t *place_slots;  // hash table; 0: free
    int32_t n_place_slots; // a power of two, as below
    struct rv_grammar_walk_standing *standings;
    int32_t n_standings, max_standings;
    int32_t *standing_slots;
    int32_t n_standing_slots;
    int32_t *items; // places of the standings, one set after the other
    int32_t n_items, max_items;
    int32_t *next; // n_classes for each standing; -1: not known yet
    int32_t *work; // scratch of a closure: places to look at, then places found
    int32_t *found;
    int32_t *moved; // scratch between calls, by place; in rv_grammar_walk_keep_only new numbers
    int32_t mark;
    int32_t n_resets; // numbers of standings hold until it changes
    int64_t n_steps;  // places looked at since the caller last set it to 0
    bool is_full;
};

/* Room for `max_standings` of them. */
RV_CHECKED ruvllm_status rv_grammar_walk_init(struct rv_grammar_walk *walk, const struct rv_automaton *automaton,
                                              int32_t max_standings, struct ruvllm_error *err);
void rv_grammar_walk_release(struct rv_grammar_walk *walk);
void rv_grammar_walk_reset(struct rv_grammar_walk *walk);

/* Where a text begins. */
int32_t rv_grammar_walk_begin(struct rv_grammar_walk *walk);
/*
 * The standing of starts[0..n) of one rule whose caller is not known: ending it gives LEFT. So does ending a copy of a
 * repetition that is FREE, of which what follows is not looked at.
 */
int32_t rv_grammar_walk_begin_inside(struct rv_grammar_walk *walk, const struct rv_grammar_walk_start *starts,
                                     int32_t n);
/* The standing after returning to a place. */
int32_t rv_grammar_walk_return(struct rv_grammar_walk *walk, int32_t place);
/* The standing at a state outside of repetitions whose rule returns to `below`. */
int32_t rv_grammar_walk_enter(struct rv_grammar_walk *walk, int32_t state, int32_t below);
int32_t rv_grammar_walk_step_slow(struct rv_grammar_walk *walk, int32_t standing, int32_t byte_class);

/* What a byte leads to. */
static inline int32_t rv_grammar_walk_step(struct rv_grammar_walk *walk, int32_t standing, uint8_t byte)
{
    int32_t byte_class = walk->automaton->class_of[byte];
    int32_t next = walk->next[(size_t)standing * (size_t)walk->automaton->n_classes + (size_t)byte_class];

    return next >= 0 ? next : rv_grammar_walk_step_slow(walk, standing, byte_class);
}

/* The standing of some of the places of another. They are sorted in place. */
int32_t rv_grammar_walk_pick(struct rv_grammar_walk *walk, int32_t *places, int32_t n);
/* Empties the walk but for one standing, and gives its new number. */
int32_t rv_grammar_walk_keep_only(struct rv_grammar_walk *walk, int32_t standing);

#endif
