/*
 * A vocabulary's tokens by their bytes, as a tree written down in depth-first order: the tokens a grammar allows are
 * found in one pass that leaves out what lies below a forbidden byte. Made once for a vocabulary, then only read.
 *
 * Ordinary, user-defined and byte tokens stand under the bytes they show. Control tokens, which show none, stand
 * between two bytes FF: no text has that byte, so only a grammar that names such a token can reach it. Tokens that end
 * an answer are in no tree; they are listed apart.
 */
#ifndef RV_SAMPLE_TOKEN_TRIE_H
#define RV_SAMPLE_TOKEN_TRIE_H

#include "text/vocab.h"

#define RV_TOKEN_TRIE_CONTROL 0xFF // before and after the name of a control token
#define RV_TOKEN_TRIE_MAX_LEN 512  // bytes; longer tokens are never allowed

struct rv_token_trie_node {
    int32_t token;  // that ends here; -1: none
    int32_t skip;   // the node after all below this one
    uint16_t depth; // bytes down to here, from 1 on
    uint8_t byte;
    bool has_same; // other tokens end here too
};

struct rv_token_trie {
    const struct rv_vocab *vocab; // outlives the trie
    struct rv_token_trie_node *nodes;
    int32_t n_nodes;
    int32_t *same; // by token: another with the same bytes; -1: none
    size_t n_tokens;
    int32_t *ends; // tokens that end an answer
    size_t n_ends;
    int32_t max_depth;
};

RV_CHECKED ruvllm_status rv_token_trie_new(struct rv_token_trie **out, const struct rv_vocab *vocab,
                                           struct ruvllm_error *err);
void rv_token_trie_free(struct rv_token_trie *trie);
/*
 * The bytes a token stands under, into `out`; 0 for a token that is in no tree.
 */
size_t rv_token_trie_bytes(const struct rv_token_trie *trie, int32_t token, uint8_t out[RV_TOKEN_TRIE_MAX_LEN]);

#endif
