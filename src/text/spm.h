/*
 * SentencePiece-style tokenising: spaces become U+2581, and of all neighbouring pieces whose joined text is a token
 * the one with the highest score is joined first. What is no token in the end falls back to its bytes.
 */
#ifndef RV_TEXT_SPM_H
#define RV_TEXT_SPM_H

#include "text/token_table.h"

struct rv_spm {
    const struct rv_token_table *table;
    uint32_t *priorities; // by id, smaller for higher scores
    int32_t byte_tokens[256];
    int32_t unknown; // for bytes without a token of their own; -1: they are left out
};

/*
 * `unknown` is -1 or a token; one that the file calls a control token too is not used, or users could spell it.
 * scores may be NULL (all equal); one that is no finite number is a FORMAT error. The table is borrowed.
 */
RV_CHECKED ruvllm_status rv_spm_init(struct rv_spm *spm, const struct rv_token_table *table, const float *scores,
                                     int32_t unknown, struct ruvllm_error *err);
void rv_spm_release(struct rv_spm *spm);
/* Appends the ids of text[0..len), after a space if asked for, to `ids`, as int32_t. */
RV_CHECKED ruvllm_status rv_spm_encode(const struct rv_spm *spm, const char *text, size_t len, bool space_before,
                                       struct rv_buf *ids, struct ruvllm_error *err);

#endif
