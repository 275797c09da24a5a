/*
 * Answers that have parts (thoughts, calls of tools), streamed and whole: answer_parts.h takes the text apart, here the
 * parts become the API's words, those of chat completions or of responses. One for each choice.
 */
#ifndef RV_SERVER_CHAT_PARTS_H
#define RV_SERVER_CHAT_PARTS_H

#include "server/answer_parts.h"
#include "server/call.h"

struct rv_chat_parts;

/* NULL without memory. `thought` is how the answer may begin. */
struct rv_chat_parts *rv_chat_parts_new(const struct ruvllm_tool_style *style, ruvllm_thought thought,
                                        const char *answer_id, int32_t index);
void rv_chat_parts_free(struct rv_chat_parts *parts);
/* Adds the chunks that a piece of text makes; a last piece ends with the reason. */
void rv_chat_parts_piece(struct rv_chat_parts *parts, const struct rv_api_head *head, const struct rv_api_choice *piece,
                         struct rv_buf *out);
/* The same of a response, whose text and calls are kept up to date. False: no memory. */
bool rv_chat_parts_response(struct rv_chat_parts *parts, struct rv_api_response *response,
                            const struct rv_api_choice *piece, struct rv_buf *out);
/* Takes a whole text apart; what `choice` is filled with belongs to the parts. False: no memory. */
bool rv_chat_parts_whole(struct rv_chat_parts *parts, const char *text, size_t len, struct rv_api_choice *choice);

#endif
