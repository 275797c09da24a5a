/* What a model is given: conversations and prompts out of a body. */
#ifndef RV_API_API_INPUT_H
#define RV_API_API_INPUT_H

#include "server/api/api_fields.h"

/* Which words a list of messages uses: those of chat completions, or those of responses. */
enum rv_api_dialect {
    RV_API_DIALECT_CHAT,
    RV_API_DIALECT_TOOLS, // of chat completions, with calls of tools and their results
    RV_API_DIALECT_RESPONSE
};

/*
 * Reads the field as a list of messages and makes it the request's one input. `first` comes before them as the system's
 * words; NULL: nothing does.
 */
void rv_api_input_messages(struct rv_api_fields *body, const char *name, enum rv_api_dialect dialect, const char *first,
                           struct rv_api_request *request);
/* A conversation of one user's message. */
void rv_api_input_user_text(struct rv_api_fields *body, const char *text, const char *first,
                            struct rv_api_request *request);
/*
 * Reads the field as a string, a list of strings, a list of token ids or a list of such lists: at most
 * RV_API_MAX_PROMPTS, none of the lists empty, and no text of less than min_len bytes.
 */
void rv_api_input_prompts(struct rv_api_fields *body, const char *name, size_t min_len, struct rv_api_request *request);
/* Reads the field as one list of token ids. */
void rv_api_input_tokens(struct rv_api_fields *body, const char *name, struct rv_api_request *request);
/* Reads "messages" or "prompt" (one), exactly one of which must be there. */
void rv_api_input_either(struct rv_api_fields *body, struct rv_api_request *request);

#endif
