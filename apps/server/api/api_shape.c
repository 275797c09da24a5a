/* Schemas are handed on as text: what is in them is for the engine to judge. */
#include "server/api/api_shape.h"

#include "server/api/api_trivial.h"

enum {
    MAX_SHAPE = 64 << 10,
    MAX_NAME = 64,
    MAX_DESCRIPTION = 4096,
    MAX_FORMAT = 2 * MAX_SHAPE // a schema with its name and description
};

const struct rv_api_field rv_api_shape_fields[] = {{.name = "grammar"}, {.name = "regex"}, {.name = NULL}};

/* Takes the request's one shape. */
static bool claim(struct rv_api_reader *reader, struct rv_api_request *request, const char *path)
{
    if (request->shape_param)
        rv_api_fields_fail(reader, path, "invalid_value", "'%s' and '%s' both give the answer a shape; send one", path,
                           request->shape_param);
    if (reader->failed)
        return false;
    request->shape_param = path;
    return true;
}

/* {"name", "description", "schema", "strict"}, wherever they stand. Without "schema" any object will do. */
static void read_schema(struct rv_api_fields *fields, struct rv_api_request *request, const char *path)
{
    const char *name, *description;
    bool is_strict;
    yyjson_val *schema = rv_api_fields_value(fields, "schema");

    rv_api_fields_require(fields, "name");
    rv_api_fields_string(fields, "name", 1, MAX_NAME, &name);
    rv_api_fields_string(fields, "description", 0, MAX_DESCRIPTION, &description);
    rv_api_fields_bool(fields, "strict", &is_strict); // it is kept to in either case
    if (!claim(fields->reader, request, path))
        return;
    if (schema)
        request->params.json_schema = rv_api_fields_json(fields->reader, schema, path, MAX_SHAPE);
    else
        request->params.json_object = true;
}

static void read_format(struct rv_api_fields *format, bool is_flat, struct rv_api_request *request)
{
    static const struct rv_api_field flat[] = {{.name = "type"},   {.name = "name"},   {.name = "description"},
                                               {.name = "schema"}, {.name = "strict"}, {.name = NULL}};
    static const struct rv_api_field nested[] = {{.name = "type"}, {.name = "json_schema"}, {.name = NULL}};
    static const struct rv_api_field plain[] = {{.name = "type"}, {.name = NULL}};
    static const char *const types[] = {"text", "json_object", "json_schema"};
    const struct rv_api_field *tables[] = {plain};
    struct rv_api_fields inner;
    size_t type = 0;

    rv_api_fields_require(format, "type");
    if (!rv_api_fields_word(format, "type", types, 3, &type))
        return;
    if (type == 2)
        tables[0] = is_flat ? flat : nested;
    rv_api_fields_only(format, tables, 1);
    if (type == 1 && claim(format->reader, request, is_flat ? "text.format" : "response_format"))
        request->params.json_object = true;
    if (type == 2 && is_flat)
        read_schema(format, request, "text.format.schema");
    if (type != 2 || is_flat)
        return;
    rv_api_fields_require(format, "json_schema");
    if (rv_api_fields_object(format, "json_schema", &inner)) {
        tables[0] = flat;
        rv_api_fields_only(&inner, tables, 1);
        if (rv_api_fields_value(&inner, "type"))
            rv_api_fields_fail(inner.reader, "response_format.json_schema.type", "unknown_field",
                               "'response_format.json_schema.type' is not known; leave it out");
        read_schema(&inner, request, "response_format.json_schema.schema");
    }
}

static void read_ours(struct rv_api_fields *body, struct rv_api_request *request)
{
    const char *text;

    if (rv_api_fields_string(body, "grammar", 1, MAX_SHAPE, &text) && claim(body->reader, request, "grammar"))
        request->params.grammar = text;
    if (rv_api_fields_string(body, "regex", 1, MAX_SHAPE, &text) && claim(body->reader, request, "regex"))
        request->params.regex = text;
}

void rv_api_shape_read(struct rv_api_fields *body, struct rv_api_request *request)
{
    struct rv_api_fields format;

    if (rv_api_fields_object(body, "response_format", &format))
        read_format(&format, false, request);
    read_ours(body, request);
}

void rv_api_shape_read_text(struct rv_api_fields *body, struct rv_api_request *request)
{
    static const struct rv_api_field known[] = {
        {.name = "format"},
        {.name = "verbosity", .asks_nothing = rv_api_trivial_medium, .only = "\"medium\""},
        {.name = NULL},
    };
    static const struct rv_api_field *const tables[] = {known};
    struct rv_api_fields text, format;

    if (rv_api_fields_object(body, "text", &text)) {
        rv_api_fields_only(&text, tables, 1);
        if (rv_api_fields_object(&text, "format", &format)) {
            read_format(&format, true, request);
            request->text_format = rv_api_fields_json(body->reader, format.object, "text.format", MAX_FORMAT);
        }
    }
    read_ours(body, request);
}
