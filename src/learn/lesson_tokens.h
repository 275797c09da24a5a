/*
 * The tokens of a lesson as bytes of its event: what was asked, what should have been answered, what should not. So
 * that whoever learns it again, and deeper, reads the tokens that were computed and not what a text happens to become.
 */
#ifndef RV_LEARN_LESSON_TOKENS_H
#define RV_LEARN_LESSON_TOKENS_H

#include "base/error.h"
#include "base/str.h"

/* A part may have no tokens. */
struct rv_lesson_tokens {
    int32_t *memory; // where they lie when they were read: the caller's (rv_free)
    const int32_t *prompt;
    int32_t n_prompt;
    const int32_t *good;
    int32_t n_good;
    const int32_t *bad;
    int32_t n_bad;
};

/* out->data is the caller's (rv_free). INVALID for what could not be read again: too many, or beyond the vocabulary. */
RV_CHECKED ruvllm_status rv_lesson_tokens_write(const struct rv_lesson_tokens *tokens, int32_t n_vocab,
                                                struct rv_str *out, struct ruvllm_error *err);
/* FORMAT for bytes that are none, or tokens outside the vocabulary; then there is nothing to free. */
RV_CHECKED ruvllm_status rv_lesson_tokens_read(struct rv_lesson_tokens *out, struct rv_str bytes, int32_t n_vocab,
                                               struct ruvllm_error *err);

#endif
