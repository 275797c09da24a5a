/* POST /v1/responses, as far as it is about text and keeps nothing. */
#include "server/api/api_answer.h"
#include "server/api/api_input.h"
#include "server/api/api_kinds.h"
#include "server/api/api_sampling.h"
#include "server/api/api_shape.h"
#include "server/api/api_tools.h"
#include "server/api/api_trivial.h"

enum { MAX_TOP_LOGPROBS = 20 };

static const struct rv_api_field response_fields[] = {
    {.name = "input"},
    {.name = "instructions"},
    {.name = "max_output_tokens"},
    {.name = "stream"},
    {.name = "stream_options"},
    {.name = "include"},
    {.name = "top_logprobs"},
    {.name = "background", .asks_nothing = rv_api_trivial_false, .only = "false"},
    {.name = "text"},
    {.name = "truncation", .asks_nothing = rv_api_trivial_disabled, .only = "\"disabled\""},
    {.name = "access_programs", .fails = true},
    {.name = "context_management", .fails = true},
    {.name = "conversation", .fails = true},
    {.name = "image", .fails = true},
    {.name = "max_tool_calls", .fails = true},
    {.name = "previous_response_id", .fails = true},
    {.name = "prompt", .fails = true},
    {.name = "reasoning", .fails = true},
    {.name = NULL},
};

static void read_input(struct rv_api_fields *body, struct rv_api_request *request)
{
    const char *text;

    rv_api_fields_require(body, "input");
    if (yyjson_is_arr(rv_api_fields_value(body, "input")))
        rv_api_input_messages(body, "input", RV_API_DIALECT_RESPONSE, request->instructions, request);
    else if (rv_api_fields_string(body, "input", 1, SIZE_MAX, &text))
        rv_api_input_user_text(body, text, request->instructions, request);
}

/* The only thing that can be included is log-probabilities. */
static void read_logprobs(struct rv_api_fields *body, struct ruvllm_generate_params *p)
{
    size_t n = 0;
    yyjson_val *include = rv_api_fields_array(body, "include", 0, 16, &n);

    for (size_t i = 0; i < n && include; i++) {
        if (yyjson_equals_str(yyjson_arr_get(include, i), "message.output_text.logprobs"))
            p->n_logprobs = 0;
        else
            rv_api_fields_fail(body->reader, "include", "unsupported_field",
                               "'include' is supported only with \"message.output_text.logprobs\"");
    }
    rv_api_fields_int32(body, "top_logprobs", 0, MAX_TOP_LOGPROBS, &p->n_logprobs);
}

void rv_api_response_read(struct rv_api_fields *body, struct rv_api_request *request)
{
    rv_api_answer_begin(body, response_fields, rv_api_tools_fields, request);
    rv_api_fields_string(body, "instructions", 0, SIZE_MAX, &request->instructions);
    read_input(body, request);
    rv_api_answer_sampling(body, "max_output_tokens", request);
    read_logprobs(body, &request->params);
    rv_api_shape_read_text(body, request);
    rv_api_tools_read_response(body, request);
}
