/*
 * Text that a model writes before it learns anything: where its states usually are, and how near two of them may be
 * without meaning the same.
 */
#ifndef RV_LEARN_FIRST_TEXT_H
#define RV_LEARN_FIRST_TEXT_H

#include "learn/trace.h"
#include "learn/whitening.h"

struct rv_first_text {
    int32_t n_dims;
    int32_t n_texts;
    size_t n, cap; // rows
    float *states;
    int32_t *texts;    // of each row: which it is of; -1: too near to its beginning, which all texts share
    int32_t *contexts; // of each, as in memory_page.h
    int32_t *tokens;
    float *logprobs;
};

RV_CHECKED ruvllm_status rv_first_text_init(struct rv_first_text *out, size_t max_rows, int32_t n_dims,
                                            struct ruvllm_error *err);
void rv_first_text_release(struct rv_first_text *text);
/* One text more, as far as there is room. */
void rv_first_text_add(struct rv_first_text *text, const struct rv_trace *trace);
/* The whitening of its states, with the radius of memories. */
RV_CHECKED ruvllm_status rv_first_text_measure(const struct rv_first_text *text, struct rv_whitening *out,
                                               struct ruvllm_error *err);

#endif
