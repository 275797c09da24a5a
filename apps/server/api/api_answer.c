#include "server/api/api_answer.h"

#include "server/api/api_adapter.h"
#include "server/api/api_sampling.h"
#include "server/api/api_shape.h"

void rv_api_answer_begin(struct rv_api_fields *body, const struct rv_api_field *own, const struct rv_api_field *tools,
                         struct rv_api_request *request)
{
    const struct rv_api_field *const tables[] = {own,
                                                 tools,
                                                 rv_api_sampling_fields,
                                                 rv_api_sampling_serving_fields,
                                                 rv_api_sampling_harmless_fields,
                                                 rv_api_adapter_fields,
                                                 rv_api_shape_fields};

    rv_api_fields_only(body, tables, sizeof(tables) / sizeof(tables[0]));
    rv_api_adapter_read(body, request);
}

void rv_api_answer_sampling(struct rv_api_fields *body, const char *max_tokens, struct rv_api_request *request)
{
    rv_api_sampling_read(body, request);
    rv_api_sampling_serving(body, request);
    rv_api_sampling_max_tokens(body, max_tokens, request);
    rv_api_sampling_stream(body, request);
}
