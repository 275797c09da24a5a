/* POST /v1/embeddings. */
#include "server/api/api_input.h"
#include "server/api/api_kinds.h"
#include "server/api/api_sampling.h"

enum { MAX_DIMENSIONS = 1 << 20 };

void rv_api_embedding_read(struct rv_api_fields *body, struct rv_api_request *request)
{
    static const struct rv_api_field known[] = {
        {.name = "input"}, {.name = "encoding_format"}, {.name = "dimensions"}, {.name = NULL}};
    static const struct rv_api_field *const tables[] = {
        known, rv_api_sampling_serving_fields, rv_api_sampling_harmless_fields, rv_api_sampling_no_tools_fields};
    static const char *const words[] = {"float", "base64"};
    size_t encoding = RV_API_FLOAT;

    rv_api_fields_only(body, tables, 4);
    rv_api_input_prompts(body, "input", 1, request);
    rv_api_sampling_serving(body, request);
    rv_api_fields_word(body, "encoding_format", words, 2, &encoding);
    request->encoding = encoding == RV_API_FLOAT ? RV_API_FLOAT : RV_API_BASE64;
    rv_api_fields_int32(body, "dimensions", 1, MAX_DIMENSIONS, &request->dimensions);
}
