/*
 * Templates want arguments as objects where clients send them as text; apart from that the conversation is handed on as
 * it came. Schemas of parameters are for the engine to judge.
 */
#include "server/api/api_tools.h"

#include "server/api/api_shape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TOOLS = 128, MAX_CALLS = 128, MAX_ID = 128, MAX_TOOL_NAME = 64, MAX_TEXT = 64 << 10 };

const struct rv_api_field rv_api_tools_fields[] = {
    {.name = "tools"}, {.name = "tool_choice"}, {.name = "parallel_tool_calls"}, {.name = NULL}};

/* ---- tools ---------------------------------------------------------------------------------------- */

static void check_tool(struct rv_api_reader *reader, yyjson_val *value, const char *path)
{
    static const struct rv_api_field outer[] = {{.name = "type"}, {.name = "function"}, {.name = NULL}};
    static const struct rv_api_field inner[] = {
        {.name = "name"}, {.name = "description"}, {.name = "parameters"}, {.name = "strict"}, {.name = NULL}};
    static const struct rv_api_field *const outer_table[] = {outer}, *const inner_table[] = {inner};
    static const char *const types[] = {"function"};
    struct rv_api_fields tool, function, parameters;
    const char *text;
    bool is_strict;
    size_t i;

    if (!rv_api_fields_init(&tool, reader, value, path))
        return;
    rv_api_fields_only(&tool, outer_table, 1);
    rv_api_fields_require(&tool, "type");
    rv_api_fields_word(&tool, "type", types, 1, &i);
    rv_api_fields_require(&tool, "function");
    if (!rv_api_fields_object(&tool, "function", &function))
        return;
    rv_api_fields_only(&function, inner_table, 1);
    rv_api_fields_require(&function, "name");
    rv_api_fields_string(&function, "name", 1, MAX_TOOL_NAME, &text);
    rv_api_fields_string(&function, "description", 0, MAX_TEXT, &text);
    rv_api_fields_bool(&function, "strict", &is_strict); // the schema is kept to in either case
    rv_api_fields_object(&function, "parameters", &parameters);
}

static char *write_text(struct rv_api_reader *reader, yyjson_val *value, const char *path)
{
    size_t len = 0;
    char *text = yyjson_val_write(value, YYJSON_WRITE_NOFLAG, &len), *kept = NULL;

    if (!text || len > MAX_TEXT)
        rv_api_fields_fail(reader, path, "invalid_value", "'%s' is more than %d bytes", path, MAX_TEXT);
    else
        kept = rv_api_fields_alloc(reader, len + 1, 1);
    if (kept)
        memcpy(kept, text, len);
    free(text); // its own allocator is libc's
    return kept;
}

/* The one tool that a choice names. */
static void read_named(struct rv_api_fields *body, struct rv_api_request *request)
{
    static const struct rv_api_field outer[] = {{.name = "type"}, {.name = "function"}, {.name = NULL}};
    static const struct rv_api_field inner[] = {{.name = "name"}, {.name = NULL}};
    static const struct rv_api_field *const outer_table[] = {outer}, *const inner_table[] = {inner};
    static const char *const types[] = {"function"};
    struct rv_api_fields choice, function;
    size_t i;

    if (!rv_api_fields_object(body, "tool_choice", &choice))
        return;
    rv_api_fields_only(&choice, outer_table, 1);
    rv_api_fields_require(&choice, "type");
    rv_api_fields_word(&choice, "type", types, 1, &i);
    rv_api_fields_require(&choice, "function");
    if (!rv_api_fields_object(&choice, "function", &function))
        return;
    rv_api_fields_only(&function, inner_table, 1);
    rv_api_fields_require(&function, "name");
    rv_api_fields_string(&function, "name", 1, MAX_TOOL_NAME, &request->params.tool_name);
}

/* Reads everything about the choice; false when no tool is to be called. */
static bool read_choice(struct rv_api_fields *body, bool has_tools, struct rv_api_request *request)
{
    static const char *const words[] = {"auto", "none", "required"};
    yyjson_val *choice = rv_api_fields_value(body, "tool_choice");
    bool is_parallel = true;
    size_t word = 0;

    if (yyjson_is_obj(choice))
        read_named(body, request);
    else
        rv_api_fields_word(body, "tool_choice", words, 3, &word);
    rv_api_fields_bool(body, "parallel_tool_calls", &is_parallel);
    if (!has_tools && (word == 2 || request->params.tool_name))
        rv_api_fields_fail(body->reader, "tool_choice", "invalid_value",
                           "'tool_choice' asks for a call, and there are no 'tools'");
    request->params.must_call_tool = word == 2;
    request->params.one_tool_call = !is_parallel;
    return has_tools && word != 1;
}

static yyjson_val *read_tools(struct rv_api_fields *body, struct rv_api_request *request)
{
    char path[RV_API_PATH_SIZE];
    size_t n = 0;
    yyjson_val *tools = rv_api_fields_array(body, "tools", 0, MAX_TOOLS, &n);

    for (size_t i = 0; i < n && tools; i++) {
        snprintf(path, sizeof(path), "tools[%zu]", i);
        check_tool(body->reader, yyjson_arr_get(tools, i), path);
    }
    if (!read_choice(body, n > 0, request) || body->reader->failed)
        return NULL;
    if (request->shape_param)
        rv_api_fields_fail(body->reader, "tools", "unsupported_field", "'tools' beside '%s' is not supported",
                           request->shape_param);
    else if (request->params.n_logprobs >= 0)
        rv_api_fields_fail(body->reader, "logprobs", "unsupported_field", "'logprobs' beside 'tools' is not supported");
    else if (request->session)
        rv_api_fields_fail(body->reader, "session", "unsupported_field", "'session' beside 'tools' is not supported");
    request->shape_param = "tools";
    request->params.tools = write_text(body->reader, tools, "tools");
    return tools;
}

/* ---- messages --------------------------------------------------------------------------------------- */

struct builder {
    struct rv_api_reader *reader;
    yyjson_mut_doc *doc;
};

/* A call that was made: its arguments, which came as text, become an object. */
static yyjson_mut_val *copy_call(struct builder *b, yyjson_val *value, const char *path)
{
    static const struct rv_api_field outer[] = {
        {.name = "id"}, {.name = "type"}, {.name = "function"}, {.name = "index"}, {.name = NULL}};
    static const struct rv_api_field inner[] = {{.name = "name"}, {.name = "arguments"}, {.name = NULL}};
    static const struct rv_api_field *const outer_table[] = {outer}, *const inner_table[] = {inner};
    yyjson_mut_val *copy = yyjson_mut_obj(b->doc), *made = yyjson_mut_obj(b->doc);
    const char *id = NULL, *name = NULL, *arguments = NULL;
    struct rv_api_fields call, function;
    char at[RV_API_PATH_SIZE];
    yyjson_doc *parsed;

    if (!rv_api_fields_init(&call, b->reader, value, path))
        return copy;
    rv_api_fields_only(&call, outer_table, 1);
    rv_api_fields_require(&call, "id");
    rv_api_fields_string(&call, "id", 1, MAX_ID, &id);
    rv_api_fields_require(&call, "function");
    if (!rv_api_fields_object(&call, "function", &function))
        return copy;
    rv_api_fields_only(&function, inner_table, 1);
    rv_api_fields_require(&function, "name");
    rv_api_fields_string(&function, "name", 1, MAX_TOOL_NAME, &name);
    rv_api_fields_require(&function, "arguments");
    if (!rv_api_fields_string(&function, "arguments", 0, MAX_TEXT, &arguments))
        return copy;
    parsed = yyjson_read(arguments, strlen(arguments), 0);
    snprintf(at, sizeof(at), "%.60s.function.arguments", path);
    if (!yyjson_is_obj(yyjson_doc_get_root(parsed)))
        rv_api_fields_fail(b->reader, at, "invalid_value", "'%s' is not the text of a JSON object", at);
    else
        yyjson_mut_obj_add_val(b->doc, made, "arguments", yyjson_val_mut_copy(b->doc, yyjson_doc_get_root(parsed)));
    yyjson_doc_free(parsed);
    yyjson_mut_obj_add_strcpy(b->doc, made, "name", name ? name : "");
    yyjson_mut_obj_add_strcpy(b->doc, copy, "id", id ? id : "");
    yyjson_mut_obj_add_str(b->doc, copy, "type", "function");
    yyjson_mut_obj_add_val(b->doc, copy, "function", made);
    return copy;
}

static void add_calls(struct builder *b, yyjson_mut_val *message, yyjson_val *calls, size_t index)
{
    yyjson_mut_val *list = yyjson_mut_arr(b->doc);
    char path[RV_API_PATH_SIZE];

    snprintf(path, sizeof(path), "messages[%zu].tool_calls", index);
    if (yyjson_arr_size(calls) > MAX_CALLS)
        rv_api_fields_fail(b->reader, path, "invalid_value", "'%s' has more than %d calls", path, MAX_CALLS);
    for (size_t i = 0; i < yyjson_arr_size(calls) && !b->reader->failed; i++) {
        snprintf(path, sizeof(path), "messages[%zu].tool_calls[%zu]", index, i);
        yyjson_mut_arr_append(list, copy_call(b, yyjson_arr_get(calls, i), path));
    }
    if (yyjson_arr_size(calls) > 0)
        yyjson_mut_obj_add_val(b->doc, message, "tool_calls", list);
}

static void add_message(struct builder *b, yyjson_mut_val *list, const struct ruvllm_message *message, yyjson_val *raw,
                        size_t index)
{
    yyjson_mut_val *copy = yyjson_mut_obj(b->doc);
    const char *id = yyjson_get_str(yyjson_obj_get(raw, "tool_call_id"));

    yyjson_mut_obj_add_str(b->doc, copy, "role", message->role);
    yyjson_mut_obj_add_str(b->doc, copy, "content", message->content);
    if (id)
        yyjson_mut_obj_add_str(b->doc, copy, "tool_call_id", id);
    add_calls(b, copy, yyjson_obj_get(raw, "tool_calls"), index);
    yyjson_mut_arr_append(list, copy);
}

static bool speaks_of_tools(yyjson_val *messages)
{
    yyjson_arr_iter iter = yyjson_arr_iter_with(messages);
    yyjson_val *message;

    while ((message = yyjson_arr_iter_next(&iter)))
        if (yyjson_equals_str(yyjson_obj_get(message, "role"), "tool") ||
            yyjson_arr_size(yyjson_obj_get(message, "tool_calls")) > 0)
            return true;
    return false;
}

/* The whole as one JSON text of the request's own. */
static void write_conversation(struct builder *b, yyjson_val *messages, yyjson_val *tools,
                               struct rv_api_request *request)
{
    const struct ruvllm_input *input = &request->inputs[0];
    yyjson_mut_val *root = yyjson_mut_obj(b->doc), *list = yyjson_mut_arr(b->doc);
    char *text, *kept;
    size_t len = 0;

    for (size_t i = 0; i < input->n_messages && !b->reader->failed; i++)
        add_message(b, list, &input->messages[i], yyjson_arr_get(messages, i), i);
    yyjson_mut_obj_add_val(b->doc, root, "messages", list);
    if (tools)
        yyjson_mut_obj_add_val(b->doc, root, "tools", yyjson_val_mut_copy(b->doc, tools));
    yyjson_mut_doc_set_root(b->doc, root);
    if (b->reader->failed)
        return;
    text = yyjson_mut_write(b->doc, YYJSON_WRITE_NOFLAG, &len);
    kept = text ? rv_api_fields_alloc(b->reader, len + 1, 1) : NULL;
    if (kept) {
        memcpy(kept, text, len);
        request->conversation = kept;
        request->conversation_len = len;
    } else {
        rv_api_fields_fail(b->reader, "messages", "invalid_value", "the conversation is too large");
    }
    free(text); // its own allocator is libc's
}

void rv_api_tools_read(struct rv_api_fields *body, struct rv_api_request *request)
{
    yyjson_val *tools = read_tools(body, request), *messages = rv_api_fields_value(body, "messages");
    struct builder b = {.reader = body->reader};

    if (body->reader->failed || (!tools && !speaks_of_tools(messages)))
        return;
    if (request->session) {
        rv_api_fields_fail(body->reader, "session", "unsupported_field",
                           "'session' is not supported where messages speak of tools");
        return;
    }
    b.doc = yyjson_mut_doc_new(NULL);
    if (b.doc)
        write_conversation(&b, messages, tools, request);
    else
        rv_api_fields_fail(body->reader, "messages", "invalid_value", "the conversation is too large");
    yyjson_mut_doc_free(b.doc);
}
