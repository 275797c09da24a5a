/* POST /v1/completions. */
#include "server/api/api_answer.h"
#include "server/api/api_input.h"
#include "server/api/api_kinds.h"
#include "server/api/api_sampling.h"
#include "server/api/api_shape.h"
#include "server/api/api_trivial.h"

enum { MAX_LOGPROBS = 5 };

static const struct rv_api_field completion_fields[] = {
    {.name = "prompt"},
    {.name = "max_tokens"},
    {.name = "n"},
    {.name = "best_of"},
    {.name = "stream"},
    {.name = "stream_options"},
    {.name = "logprobs"},
    {.name = "echo", .asks_nothing = rv_api_trivial_false, .only = "false"},
    {.name = "suffix", .asks_nothing = rv_api_trivial_no_text, .only = "an empty string"},
    {.name = "response_format"},
    {.name = NULL},
};

/* The best n of n are those n; anything more would be generated and thrown away. */
static void read_best_of(struct rv_api_fields *body, const struct rv_api_request *request)
{
    int32_t best_of;

    if (rv_api_fields_int32(body, "best_of", 1, RV_API_MAX_N, &best_of) && best_of != request->n)
        rv_api_fields_fail(body->reader, "best_of", "unsupported_field",
                           "'best_of' is %d, and is supported only when it equals 'n', which is %d; leave it out",
                           (int)best_of, (int)request->n);
}

void rv_api_completion_read(struct rv_api_fields *body, struct rv_api_request *request)
{
    rv_api_answer_begin(body, completion_fields, rv_api_sampling_no_tools_fields, request);
    rv_api_input_prompts(body, "prompt", 0, request);
    rv_api_answer_sampling(body, "max_tokens", request);
    rv_api_sampling_n(body, request);
    read_best_of(body, request);
    rv_api_fields_int32(body, "logprobs", 0, MAX_LOGPROBS, &request->params.n_logprobs);
    rv_api_shape_read(body, request);
}
