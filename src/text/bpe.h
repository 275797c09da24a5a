/*
 * Byte-pair encoding: text is cut into words (pretokenize.h), each word into symbols, and neighbouring symbols are
 * merged by the rank of their pair. Symbols are bytes in GPT-2's alphabet, or whole characters with U+2581 for
 * spaces where the pre-tokenizer says raw_utf8.
 */
#ifndef RV_TEXT_BPE_H
#define RV_TEXT_BPE_H

#include "text/pretokenize.h"
#include "text/token_table.h"

struct rv_bpe_pair;

struct rv_bpe {
    const struct rv_token_table *table;
    const struct rv_pretokenizer *pre;
    struct rv_bpe_pair *pairs; // open addressing, keyed by both ids
    size_t n_slots;            // a power of two
    uint64_t seed;
    int32_t byte_tokens[256]; // what a byte becomes on its own; -1: nothing
};

/*
 * merges[i] is "left right" and has rank i; a merge without its separator is a FORMAT error. Merges between texts that
 * are not ordinary tokens, or that make none, can never yield an id and are left out. Table and pre-tokenizer are
 * borrowed.
 */
RV_CHECKED ruvllm_status rv_bpe_init(struct rv_bpe *bpe, const struct rv_token_table *table,
                                     const struct rv_pretokenizer *pre, const struct rv_str *merges, size_t n_merges,
                                     struct ruvllm_error *err);
void rv_bpe_release(struct rv_bpe *bpe);
/* Appends the ids of text[0..len) to `ids`, as int32_t. Bytes the vocabulary has no token for are left out. */
RV_CHECKED ruvllm_status rv_bpe_encode(const struct rv_bpe *bpe, const char *text, size_t len, struct rv_buf *ids,
                                       struct ruvllm_error *err);

#endif
