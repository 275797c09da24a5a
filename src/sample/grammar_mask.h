/*
 * Which tokens may come next where an answer stands. What is found out on the way about a grammar's rules is kept with
 * the grammar, for all of its answers.
 *
 * Owned by the thread that asks for masks. All memory is taken at the beginning.
 */
#ifndef RV_SAMPLE_GRAMMAR_MASK_H
#define RV_SAMPLE_GRAMMAR_MASK_H

#include "sample/counted.h"

#define RV_GRAMMAR_MASK_INSIDES 256    // groups looked at by themselves that are kept
#define RV_GRAMMAR_MASK_FOLLOWINGS 4   // places behind repetitions of which an answer keeps what follows
#define RV_GRAMMAR_MASK_FOLLOWERS 2048 // tokens of each

/* What is known of a group of places looked at by itself. */
struct rv_grammar_mask_inside {
    int32_t standing;            // in the grammar's walk; -1: free
    int32_t first_exit, n_exits; // nodes at which its rule may have ended
    uint64_t *bits;
};

struct rv_grammar_mask_known {
    const struct rv_token_trie *trie;
    size_t n_words;              // of a mask
    struct rv_grammar_walk walk; // of groups by themselves
    struct rv_counted counted;
    struct rv_grammar_mask_inside insides[RV_GRAMMAR_MASK_INSIDES];
    int32_t next_inside; // to be given up next
    uint64_t *inside_bits;
    int32_t *exits; // nodes of the trie
    int32_t n_exits, max_exits;
    int32_t path[RV_TOKEN_TRIE_MAX_LEN + 2]; // standings by depth
};

/* Places of a standing whose rules return to the same. */
struct rv_grammar_mask_group {
    int32_t below;
    int32_t n;
    struct rv_grammar_walk_start starts[RV_GRAMMAR_WALK_MAX_PLACES];
    int32_t places[RV_GRAMMAR_WALK_MAX_PLACES]; // the same ones
    /* Some of them, in the repetition that stands for all of its kind. */
    struct rv_grammar_walk_start alike[RV_GRAMMAR_WALK_MAX_PLACES];
};

/* Tokens that leave a repetition, after how many copies of its child, and go on with what follows. */
struct rv_grammar_mask_following {
    int32_t shape, shape_resets;     // standing of the child, and when that number was given
    int32_t outside, outside_resets; // standing at what follows, likewise; 0: never
    bool overlaps;                   // it may begin with a byte of the child: tokens would leave everywhere
    int32_t n;                       // -1: too many to be kept
    struct rv_counted_token tokens[RV_GRAMMAR_MASK_FOLLOWERS];
};

/* An answer's own; zero at the beginning. */
struct rv_grammar_mask_scratch {
    struct rv_grammar_mask_following followings[RV_GRAMMAR_MASK_FOLLOWINGS];
    int32_t next_following; // to be given up next
    struct rv_grammar_mask_group group;
    int32_t belows[RV_GRAMMAR_WALK_MAX_PLACES]; // what groups return to
    int32_t ends[RV_GRAMMAR_WALK_MAX_PLACES];   // of groups in `sorted`; the first begins at 0
    int32_t sorted[RV_GRAMMAR_WALK_MAX_PLACES]; // places by group
    int32_t narrow[RV_GRAMMAR_WALK_MAX_PLACES]; // places that are walked where they stand
    int32_t n_narrow;
    int32_t path[RV_TOKEN_TRIE_MAX_LEN + 2]; // standings by depth
};

/* Automaton and trie outlive it. */
RV_CHECKED ruvllm_status rv_grammar_mask_known_init(struct rv_grammar_mask_known *known,
                                                    const struct rv_automaton *automaton,
                                                    const struct rv_token_trie *trie, struct ruvllm_error *err);
void rv_grammar_mask_known_release(struct rv_grammar_mask_known *known);
/*
 * Adds the tokens that may follow a standing of the answer's walk to `bits`. False: out of room or of steps; then some
 * are missing, and the walk may be full.
 */
bool rv_grammar_mask_fill(struct rv_grammar_mask_known *known, struct rv_grammar_mask_scratch *scratch,
                          struct rv_grammar_walk *walk, int32_t standing, uint64_t *bits);

#endif
