/* POST /v1/chat/completions and /v1/chat/template. */
#include "server/api/api_answer.h"
#include "server/api/api_input.h"
#include "server/api/api_kinds.h"
#include "server/api/api_sampling.h"
#include "server/api/api_shape.h"
#include "server/api/api_tools.h"
#include "server/api/api_trivial.h"

enum { MAX_TOP_LOGPROBS = 20 };

static const struct rv_api_field chat_fields[] = {
    {.name = "messages"},
    {.name = "max_tokens"},
    {.name = "max_completion_tokens"},
    {.name = "n"},
    {.name = "stream"},
    {.name = "stream_options"},
    {.name = "logprobs"},
    {.name = "top_logprobs"},
    {.name = "functions", .asks_nothing = rv_api_trivial_empty, .only = "an empty array"},
    {.name = "function_call", .asks_nothing = rv_api_trivial_tool_choice, .only = "\"none\" or \"auto\""},
    {.name = "response_format"},
    {.name = "modalities", .asks_nothing = rv_api_trivial_only_text, .only = "[\"text\"]"},
    {.name = "verbosity", .asks_nothing = rv_api_trivial_medium, .only = "\"medium\""},
    {.name = "audio", .fails = true},
    {.name = "prediction", .fails = true},
    {.name = "reasoning_effort", .fails = true},
    {.name = "web_search_options", .fails = true},
    {.name = NULL},
};

/* How many alternatives: only together with "logprobs": true. */
static void read_logprobs(struct rv_api_fields *body, struct ruvllm_generate_params *p)
{
    bool wanted = false, counted;
    int32_t n = 0;

    rv_api_fields_bool(body, "logprobs", &wanted);
    counted = rv_api_fields_int32(body, "top_logprobs", 0, MAX_TOP_LOGPROBS, &n);
    if (counted && !wanted)
        rv_api_fields_fail(body->reader, "top_logprobs", "invalid_value",
                           "'top_logprobs' is given without 'logprobs': true; send both or none");
    if (wanted)
        p->n_logprobs = n;
}

void rv_api_chat_read(struct rv_api_fields *body, struct rv_api_request *request)
{
    rv_api_answer_begin(body, chat_fields, rv_api_tools_fields, request);
    rv_api_input_messages(body, "messages", RV_API_DIALECT_TOOLS, NULL, request);
    rv_api_answer_sampling(body, "max_tokens", request);
    rv_api_sampling_max_tokens(body, "max_completion_tokens", request);
    rv_api_sampling_n(body, request);
    read_logprobs(body, &request->params);
    rv_api_shape_read(body, request);
    rv_api_tools_read(body, request);
}

void rv_api_template_read(struct rv_api_fields *body, struct rv_api_request *request)
{
    static const struct rv_api_field known[] = {{.name = "model"}, {.name = "messages"}, {.name = NULL}};
    static const struct rv_api_field *const tables[] = {known};

    rv_api_fields_only(body, tables, 1);
    rv_api_input_messages(body, "messages", RV_API_DIALECT_CHAT, NULL, request);
}
