/*
 * Examples to train on, from a file with one JSON object a line:
 *
 *     {"prompt": "...", "response": "...", "score": 0.9}
 *     {"messages": [{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}]}
 *     {"text": "..."}
 *
 * "score" (0 to 1) may be left out. Other fields are passed over.
 */
#ifndef RV_CLI_JSONL_SAMPLES_H
#define RV_CLI_JSONL_SAMPLES_H

#include "base/error.h"
#include "ruvllm_train.h"

struct rv_jsonl_samples {
    struct ruvllm_train_sample *items;
    size_t n_items, cap;
    struct rv_jsonl_documents *documents; // what the items point into
};

enum rv_jsonl_prompts {
    RV_JSONL_PROMPTS_TEXT, // a response follows its prompt as text does
    RV_JSONL_PROMPTS_CHAT  // prompts are a user's messages, responses the assistant's
};

/* Adds the examples of `text`; a line that is none is INVALID (or FORMAT), by number. */
RV_CHECKED ruvllm_status rv_jsonl_samples_add(struct rv_jsonl_samples *samples, const char *text, size_t len,
                                              enum rv_jsonl_prompts prompts, bool are_anchors,
                                              struct ruvllm_error *err);
/* Accepts what was never added to, zeroed. */
void rv_jsonl_samples_release(struct rv_jsonl_samples *samples);

#endif
