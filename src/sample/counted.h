/*
 * Masks inside of repetitions that are counted, such as a string of up to 200 characters. Every count allows other
 * tokens, but all of them follow from one comparison of the child with the vocabulary: how many copies each token
 * takes, and where tokens go on with a byte that is not the child's. Of the child only; what follows the repetition is
 * the caller's business.
 *
 * Owned by the thread that asks for masks. All memory is taken when it is made, and used only where it is needed.
 */
#ifndef RV_SAMPLE_COUNTED_H
#define RV_SAMPLE_COUNTED_H

#include "sample/grammar_walk.h"
#include "sample/token_trie.h"

#define RV_COUNTED_LEVELS 16 // counts up to which there is a mask; tokens that take more copies are listed

/* A node of the trie whose byte is not the child's, after `n` whole copies, n > 0. */
struct rv_counted_edge {
    int32_t node;
    int32_t n;
};

/* A token that takes `n` copies. */
struct rv_counted_token {
    int32_t token;
    int32_t n;
};

/* What is known of a child from one standing of it on. */
struct rv_counted_shape {
    int32_t standing;        // in the grammar's walk; -1: free
    bool is_usable;          // false: a text can be cut into copies in two ways, or there are too many edges
    bool takes[256];         // bytes a copy may begin with
    int32_t first_edge[257]; // by byte
    int32_t n_long;          // tokens that take more than RV_COUNTED_LEVELS
    uint64_t *bits;          // of tokens that take up to 1, 2, ... RV_COUNTED_LEVELS copies, a begun one being one
    struct rv_counted_token *long_ones;
};

struct rv_counted {
    const struct rv_token_trie *trie;
    struct rv_grammar_walk *walk; // the grammar's
    size_t n_words;               // of a mask
    struct rv_counted_shape *shapes;
    int32_t next_shape; // to be given up next
    uint64_t *bits;
    struct rv_counted_token *long_ones;
    struct rv_counted_edge *edges;
    struct rv_counted_edge *scratch;
    int32_t n_edges, max_edges;
    int32_t max_long;                          // of a shape
    int32_t path[RV_TOKEN_TRIE_MAX_LEN + 2];   // standings by depth
    int32_t copies[RV_TOKEN_TRIE_MAX_LEN + 2]; // whole ones, by depth
};

/* The walk and the trie outlive it. Without repetitions in the automaton nothing is allocated. */
RV_CHECKED ruvllm_status rv_counted_init(struct rv_counted *counted, const struct rv_token_trie *trie,
                                         struct rv_grammar_walk *walk, struct ruvllm_error *err);
void rv_counted_release(struct rv_counted *counted);
/* The walk starts over. */
void rv_counted_forget(struct rv_counted *counted);
/* What is known from a FREE standing of the walk on; NULL: nothing. */
const struct rv_counted_shape *rv_counted_find(const struct rv_counted *counted, int32_t standing);
/* Finds it out; `whole` is the standing after a whole copy. NULL when the walk is out of room or of steps. */
const struct rv_counted_shape *rv_counted_look(struct rv_counted *counted, int32_t standing, int32_t whole);
/* Allows, in `bits`, the tokens that take up to `most` copies. */
void rv_counted_add(const struct rv_counted *counted, const struct rv_counted_shape *shape, int32_t most,
                    uint64_t *bits);

#endif
