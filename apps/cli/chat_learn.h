/*
 * A chat that learns: the model runs in an engine, answers can be judged, and what came of that is kept in a store. The
 * commands that do it are in chat_commands.c.
 */
#ifndef RV_CLI_CHAT_LEARN_H
#define RV_CLI_CHAT_LEARN_H

#include "model_options.h"
#include "output.h"
#include "store_options.h"

#include "base/buf.h"

#include "ruvllm_learn_log.h"

struct rv_chat_learn;

/*
 * Opens store, engine and learning, with progress on standard error. `store` of "none": nothing is kept. Returns 0, or
 * the exit code after saying what is wrong; *out is NULL then.
 */
RV_CHECKED int rv_chat_learn_open(struct rv_chat_learn **out, const struct rv_model_options *model,
                                  const struct rv_store_options *store, struct ruvllm_model_info *info);
/* Accepts NULL. */
void rv_chat_learn_close(struct rv_chat_learn *learn);
/* For everything that does not compute. */
const ruvllm_model *rv_chat_learn_model(const struct rv_chat_learn *learn);

/* An answer: whole, or what had come when Ctrl-C stopped it, which cannot be learned from. */
struct rv_chat_reply {
    struct ruvllm_response *whole;  // NULL: it was stopped
    struct ruvllm_response stopped; // its text and tokens are in the next two
    struct rv_buf text;
    struct rv_buf tokens;
};

/* As rv_answer_stream. Released by the caller, also after a failure. */
RV_CHECKED ruvllm_status rv_chat_learn_answer(struct rv_chat_learn *learn, const struct ruvllm_input *input,
                                              const struct ruvllm_generate_params *params, bool show,
                                              struct rv_chat_reply *out, struct ruvllm_error *err);
const struct ruvllm_response *rv_chat_learn_response(const struct rv_chat_reply *reply);
void rv_chat_learn_release(struct rv_chat_reply *reply);

/* The last answer is no longer the one that is judged: the conversation is another. */
void rv_chat_learn_clear(struct rv_chat_learn *learn);

/* INVALID when there is no answer to judge. */
RV_CHECKED ruvllm_status rv_chat_learn_vote(struct rv_chat_learn *learn, double score,
                                            struct ruvllm_feedback_result *result, struct ruvllm_error *err);
/* Teaches what the last answer should have been; likewise. */
RV_CHECKED ruvllm_status rv_chat_learn_correct(struct rv_chat_learn *learn, const char *text,
                                               struct ruvllm_feedback_result *result, struct ruvllm_error *err);
/* Takes back the newest thing that was said in this chat, then the one before it, ... INVALID when there is none. */
RV_CHECKED ruvllm_status rv_chat_learn_undo(struct rv_chat_learn *learn, struct ruvllm_error *err);
/* Prints where learning stands, and the last few events of the log. */
RV_CHECKED ruvllm_status rv_chat_learn_print(struct rv_chat_learn *learn, struct ruvllm_error *err);

#endif
