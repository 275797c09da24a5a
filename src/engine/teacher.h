/*
 * Texts that the model did not write, read as answers: what it would have to say is fed to it token by token, and
 * leaves the same trace that an answer of its own leaves. It runs beside the requests, a piece at a time (aside.h).
 */
#ifndef RV_ENGINE_TEACHER_H
#define RV_ENGINE_TEACHER_H

#include "engine/engine.h"
#include "learn/learner.h"

/* A question and what is to be answered. */
struct rv_teacher_text {
    const char *tenant;
    const int32_t *prompt; // at least one token
    int32_t n_prompt;
    const int32_t *target; // likewise
    int32_t n_target;
    const struct rv_learner_voice *voice; // what the tenant is answered with
};

/*
 * The text as tokens of an answer to what `trace` was asked, with the token that ends an answer: the one that ended
 * this one, or else the model's own. *tokens is the caller's (rv_free). Nothing but ordinary text is read from it.
 */
RV_CHECKED ruvllm_status rv_teacher_tokens(const struct ruvllm_model *model, const struct rv_trace *trace,
                                           const char *text, size_t len, int32_t **tokens, int32_t *n_tokens,
                                           struct ruvllm_error *err);
/*
 * Rows of the target's first RV_TRACE_MAX_ROWS tokens, as at temperature 1, with the states that an answer of the
 * voice's generation would have; *out is the caller's. The engine learns.
 * TOO_LARGE when question and answer do not fit the context, BUSY when there is no room beside what runs.
 */
RV_CHECKED ruvllm_status rv_teacher_trace(struct ruvllm_engine *engine, const struct rv_teacher_text *text,
                                          struct rv_trace **out, struct ruvllm_error *err);

#endif
