/* "tools", "tool_choice" and "parallel_tool_calls", and calls and results among messages and items. */
#ifndef RV_API_API_TOOLS_H
#define RV_API_API_TOOLS_H

#include "server/api/api_fields.h"

extern const struct rv_api_field rv_api_tools_fields[];

/*
 * To be called once the messages are read. Where there are tools, or messages speak of calls, the request's
 * `conversation` is written for the model's template.
 */
void rv_api_tools_read(struct rv_api_fields *body, struct rv_api_request *request);
/* The same of a response's input, in its words; what it was given is kept to be told back. */
void rv_api_tools_read_response(struct rv_api_fields *body, struct rv_api_request *request);

#endif
