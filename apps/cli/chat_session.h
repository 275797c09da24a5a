/* A running chat: the conversation, the model, and answering. Typed commands are in chat_commands.h. */
#ifndef RV_CLI_CHAT_SESSION_H
#define RV_CLI_CHAT_SESSION_H

#include "chat_learn.h"
#include "conversation.h"
#include "output.h"

struct rv_chat_session {
    ruvllm_model *model;         // borrowed; NULL where `learn` is not
    struct rv_chat_learn *learn; // likewise: answers come from there
    struct ruvllm_model_info info;
    struct ruvllm_generate_params params;
    struct rv_conversation conversation;
    bool json;        // one object a turn instead of text
    bool show_status; // a dim line after each answer
    uint64_t n_regenerated;
    /* What /stats tells. */
    size_t n_turns;
    uint64_t n_tokens;
    int64_t decode_us;
    int32_t context_used;
};

void rv_chat_session_init(struct rv_chat_session *chat, ruvllm_model *model, const struct ruvllm_model_info *info,
                          const struct ruvllm_generate_params *params);
/* For everything that does not compute. */
const ruvllm_model *rv_chat_session_model(const struct rv_chat_session *chat);
void rv_chat_session_release(struct rv_chat_session *chat);

/* Adds the user's message and answers it. On failure the message is taken back. */
RV_CHECKED ruvllm_status rv_chat_session_say(struct rv_chat_session *chat, const char *text, struct ruvllm_error *err);
/* Throws the last answer away and makes another. INVALID when there is none; the old answer stays on failure. */
RV_CHECKED ruvllm_status rv_chat_session_regenerate(struct rv_chat_session *chat, struct ruvllm_error *err);
/* What to do about a failed answer, or NULL. */
const char *rv_chat_session_advice(ruvllm_status status);

#endif
