/*
 * Has the model write texts by itself, at temperature 1, beside whatever else the engine does: behind every request,
 * which may take its place at any time, and waiting where there is no place at all.
 */
#ifndef RV_ENGINE_SCRIBE_H
#define RV_ENGINE_SCRIBE_H

#include "engine/engine.h"

struct rv_scribe_task {
    const char *tenant; // as whose they are written; NULL: nobody's
    int32_t n_texts;
    int32_t n_tokens; // of each, behind the token that begins a text
    uint64_t seed;    // of the first; of the next it is one more
    bool has_logprobs;
    /* Asked now and then with what is done; false: CANCELLED. May be NULL. */
    bool (*goes_on)(void *user, float fraction);
    /* A text is whole, in the order of seeds; the response is borrowed. */
    void (*on_text)(void *user, uint64_t id, const struct ruvllm_response *response);
    void *user;
};

/* The token that begins a text. */
int32_t rv_scribe_first_token(const struct ruvllm_engine *engine);
/* On any thread but the engine's. Seconds to minutes. */
RV_CHECKED ruvllm_status rv_scribe_write(struct ruvllm_engine *engine, const struct rv_scribe_task *task,
                                         struct ruvllm_error *err);

#endif
