/* Hand-made vocabularies of a few hundred tokens, for tests to bend before they are used. */
#ifndef RV_TESTS_SUPPORT_TINY_VOCAB_H
#define RV_TESTS_SUPPORT_TINY_VOCAB_H

#include "text/vocab.h"

#define TINY_VOCAB_MAX 512

struct tiny_vocab {
    struct rv_vocab_spec spec; // points into the arrays below
    struct rv_str tokens[TINY_VOCAB_MAX];
    float scores[TINY_VOCAB_MAX];
    int32_t types[TINY_VOCAB_MAX];
    struct rv_str merges[TINY_VOCAB_MAX];
    char bytes[256][8]; // spellings of single bytes
};

/* <unk> <s> </s>, <0x00> to <0xFF> (ids 3 to 258), U+2581 and a few words by score. */
void tiny_vocab_spm(struct tiny_vocab *tiny);
/* The 256 bytes in GPT-2's alphabet (ids 0 to 255), a few merges, and control tokens. */
void tiny_vocab_bpe(struct tiny_vocab *tiny, const char *pre);
/* Adds a token and returns its id; `text` must outlive the vocabulary. */
int32_t tiny_vocab_add(struct tiny_vocab *tiny, const char *text, enum rv_token_type type, float score);
void tiny_vocab_add_merge(struct tiny_vocab *tiny, const char *merge);

#endif
