/*
 * Greedy pair merging, the heart of both BPE and SentencePiece: of all neighbouring pairs that have a rule, the one
 * with the smallest priority is joined first, the leftmost of equals before the others, until no pair has a rule.
 *
 * Short runs are searched linearly; longer ones go through a heap, so n symbols take O(n log n) whatever they are.
 * The workspace belongs to one call of the tokenizer and is reused from word to word.
 */
#ifndef RV_TEXT_MERGE_H
#define RV_TEXT_MERGE_H

#include "base/error.h"

struct rv_merge_symbol {
    uint32_t start; // byte offset into the text being tokenised
    uint32_t len;
    int32_t id; // token, or -1 while it is none
};

struct rv_merge_rule {
    uint32_t priority; // smaller first
    int32_t id;        // token that the pair becomes
};

/* True, with *rule set, when the two neighbours may be joined. */
typedef bool (*rv_merge_find_fn)(const void *context, const struct rv_merge_symbol *left,
                                 const struct rv_merge_symbol *right, struct rv_merge_rule *rule);

struct rv_merge_link;
struct rv_merge_entry;

struct rv_merge {
    struct rv_merge_symbol *symbols;
    size_t n_symbols;
    size_t symbols_cap;
    struct rv_merge_link *links;
    size_t links_cap;
    struct rv_merge_entry *heap;
    size_t heap_len;
    size_t heap_cap;
    rv_merge_find_fn find;
    const void *context;
};

void rv_merge_init(struct rv_merge *merge, rv_merge_find_fn find, const void *context);
void rv_merge_release(struct rv_merge *merge);
/* Forgets the symbols, keeps the memory. */
void rv_merge_clear(struct rv_merge *merge);
RV_CHECKED ruvllm_status rv_merge_push(struct rv_merge *merge, uint32_t start, uint32_t len, int32_t id,
                                       struct ruvllm_error *err);
/* Merges what was pushed; symbols[0..n_symbols) is then the result, in order. */
RV_CHECKED ruvllm_status rv_merge_run(struct rv_merge *merge, struct ruvllm_error *err);

#endif
