/* The turns of a chat, and their file form: {"messages": [{"role": "user", "content": "..."}, ...]}. */
#ifndef RV_CLI_CONVERSATION_H
#define RV_CLI_CONVERSATION_H

#include "base/error.h"

struct rv_conversation {
    struct ruvllm_message *messages; // strings owned; a system message, if any, is the first
    size_t n;
    size_t cap;
};

void rv_conversation_init(struct rv_conversation *c);
void rv_conversation_release(struct rv_conversation *c);

RV_CHECKED ruvllm_status rv_conversation_push(struct rv_conversation *c, const char *role, const char *content,
                                              struct ruvllm_error *err);
/* Drops the last message; nothing when there is none. */
void rv_conversation_pop(struct rv_conversation *c);
/* The role of the last message, or "". */
const char *rv_conversation_last_role(const struct rv_conversation *c);
/* Sets or replaces the system message; "" removes it. The conversation is unchanged on failure. */
RV_CHECKED ruvllm_status rv_conversation_set_system(struct rv_conversation *c, const char *content,
                                                    struct ruvllm_error *err);
/* The system message, or NULL. */
const char *rv_conversation_system(const struct rv_conversation *c);
/* Forgets all but the system message. */
void rv_conversation_clear(struct rv_conversation *c);

/* "~/" at the beginning of a path is the home folder. Saving replaces a file only once all of it is written. */
RV_CHECKED ruvllm_status rv_conversation_save(const struct rv_conversation *c, const char *path,
                                              struct ruvllm_error *err);
/* Replaces the conversation by a saved one; also takes a bare array of messages. Unchanged on failure. */
RV_CHECKED ruvllm_status rv_conversation_load(struct rv_conversation *c, const char *path, struct ruvllm_error *err);

#endif
