/* POST /v1/tokenize and /v1/detokenize. */
#include "server/api/api_input.h"
#include "server/api/api_kinds.h"

/* How text becomes tokens; nothing to say about a conversation, whose template decides, or about ids. */
static void read_text_options(struct rv_api_fields *body, struct rv_api_request *request)
{
    struct ruvllm_input *input;
    bool add_bos = true, is_trusted = false, is_given;

    is_given = rv_api_fields_bool(body, "add_bos", &add_bos);
    is_given |= rv_api_fields_bool(body, "parse_special", &is_trusted);
    if (body->reader->failed || !is_given)
        return;
    if (!request->inputs[0].text) {
        rv_api_fields_fail(body->reader, "prompt", "invalid_value",
                           "'add_bos' and 'parse_special' go with a text as 'prompt' only; leave them out");
        return;
    }
    input = rv_api_fields_alloc(body->reader, 1, sizeof(*input));
    if (!input)
        return;
    *input = request->inputs[0];
    input->no_bos = !add_bos;
    input->text_is_trusted = is_trusted;
    request->inputs = input;
}

void rv_api_tokenize_read(struct rv_api_fields *body, struct rv_api_request *request)
{
    static const struct rv_api_field known[] = {{.name = "model"},   {.name = "prompt"},        {.name = "messages"},
                                                {.name = "add_bos"}, {.name = "parse_special"}, {.name = "with_pieces"},
                                                {.name = NULL}};
    static const struct rv_api_field *const tables[] = {known};

    rv_api_fields_only(body, tables, 1);
    rv_api_input_either(body, request);
    read_text_options(body, request);
    rv_api_fields_bool(body, "with_pieces", &request->with_pieces);
}

void rv_api_detokenize_read(struct rv_api_fields *body, struct rv_api_request *request)
{
    static const struct rv_api_field known[] = {
        {.name = "model"}, {.name = "tokens"}, {.name = "with_special"}, {.name = NULL}};
    static const struct rv_api_field *const tables[] = {known};

    rv_api_fields_only(body, tables, 1);
    rv_api_input_tokens(body, "tokens", request);
    rv_api_fields_bool(body, "with_special", &request->with_special);
}
