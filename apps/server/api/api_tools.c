/*
 * Templates want arguments as objects where clients send them as text; apart from that the conversation is handed on as
 * it came. Schemas of parameters are for the engine to judge.
 */
#include "server/api/api_tools.h"

#include "server/api/api_shape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_TOOLS = 128,
    MAX_CALLS = 128,
    MAX_ID = 128,
    MAX_TOOL_NAME = 64,
    MAX_TEXT = 64 << 10,
    MAX_CONVERSATION = 64 << 20
};

const struct rv_api_field rv_api_tools_fields[] = {
    {.name = "tools"}, {.name = "tool_choice"}, {.name = "parallel_tool_calls"}, {.name = NULL}};

/* ---- tools ---------------------------------------------------------------------------------------- */

/*
 * What is said of a function: chat completions have it one level down, {"type", "function": {...}}, responses beside
 * the type. Checks the outer one; false when there is nothing to go on with.
 */
static bool open_function(struct rv_api_fields *outer, bool is_flat, const struct rv_api_field *known,
                          struct rv_api_fields *function)
{
    static const struct rv_api_field wrapper[] = {{.name = "type"}, {.name = "function"}, {.name = NULL}};
    static const struct rv_api_field type_only[] = {{.name = "type"}, {.name = NULL}};
    static const struct rv_api_field *const wrapper_table[] = {wrapper};
    static const char *const types[] = {"function"};
    const struct rv_api_field *const tables[] = {known, type_only};
    size_t i;

    rv_api_fields_require(outer, "type");
    rv_api_fields_word(outer, "type", types, 1, &i);
    if (is_flat) {
        rv_api_fields_only(outer, tables, 2);
        *function = *outer;
        return !outer->reader->failed;
    }
    rv_api_fields_only(outer, wrapper_table, 1);
    rv_api_fields_require(outer, "function");
    if (!rv_api_fields_object(outer, "function", function))
        return false;
    rv_api_fields_only(function, tables, 1);
    return true;
}

static void check_tool(struct rv_api_reader *reader, yyjson_val *value, const char *path, bool is_flat)
{
    static const struct rv_api_field known[] = {
        {.name = "name"}, {.name = "description"}, {.name = "parameters"}, {.name = "strict"}, {.name = NULL}};
    struct rv_api_fields tool, function, parameters;
    const char *text;
    bool is_strict;

    if (!rv_api_fields_init(&tool, reader, value, path) || !open_function(&tool, is_flat, known, &function))
        return;
    rv_api_fields_require(&function, "name");
    rv_api_fields_string(&function, "name", 1, MAX_TOOL_NAME, &text);
    rv_api_fields_string(&function, "description", 0, MAX_TEXT, &text);
    rv_api_fields_bool(&function, "strict", &is_strict); // the schema is kept to in either case
    rv_api_fields_object(&function, "parameters", &parameters);
}

/* The one tool that a choice names. */
static void read_named(struct rv_api_fields *body, bool is_flat, struct rv_api_request *request)
{
    static const struct rv_api_field known[] = {{.name = "name"}, {.name = NULL}};
    struct rv_api_fields choice, function;

    if (!rv_api_fields_object(body, "tool_choice", &choice) || !open_function(&choice, is_flat, known, &function))
        return;
    rv_api_fields_require(&function, "name");
    rv_api_fields_string(&function, "name", 1, MAX_TOOL_NAME, &request->params.tool_name);
}

/* Reads everything about the choice; false when no tool is to be called. */
static bool read_choice(struct rv_api_fields *body, bool has_tools, bool is_flat, struct rv_api_request *request)
{
    static const char *const words[] = {"auto", "none", "required"};
    yyjson_val *choice = rv_api_fields_value(body, "tool_choice");
    bool is_parallel = true;
    size_t word = 0;

    if (yyjson_is_obj(choice))
        read_named(body, is_flat, request);
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

static void fail_beside(struct rv_api_fields *body, const char *name)
{
    rv_api_fields_fail(body->reader, name, "unsupported_field", "'%s' beside 'tools' is not supported", name);
}

static yyjson_val *read_tools(struct rv_api_fields *body, bool is_flat, struct rv_api_request *request)
{
    char path[RV_API_PATH_SIZE];
    size_t n = 0;
    yyjson_val *tools = rv_api_fields_array(body, "tools", 0, MAX_TOOLS, &n);

    for (size_t i = 0; i < n && tools; i++) {
        snprintf(path, sizeof(path), "tools[%zu]", i);
        check_tool(body->reader, yyjson_arr_get(tools, i), path, is_flat);
    }
    if (!read_choice(body, n > 0, is_flat, request) || body->reader->failed)
        return NULL;
    if (request->shape_param)
        rv_api_fields_fail(body->reader, "tools", "unsupported_field", "'tools' beside '%s' is not supported",
                           request->shape_param);
    else if (request->params.n_logprobs >= 0)
        fail_beside(body, is_flat ? rv_api_fields_value(body, "include") ? "include" : "top_logprobs" : "logprobs");
    else if (request->session)
        fail_beside(body, "session");
    request->shape_param = "tools";
    return tools;
}

/* ---- messages --------------------------------------------------------------------------------------- */

struct builder {
    struct rv_api_reader *reader;
    yyjson_mut_doc *doc;
};

/* As chat completions have them, which is what templates and the engine know. */
static yyjson_mut_val *copy_tools(struct builder *b, yyjson_val *tools, bool is_flat)
{
    yyjson_mut_val *list = yyjson_mut_arr(b->doc);
    yyjson_arr_iter iter = yyjson_arr_iter_with(tools);
    yyjson_val *tool;

    if (!is_flat)
        return yyjson_val_mut_copy(b->doc, tools);
    while ((tool = yyjson_arr_iter_next(&iter))) {
        yyjson_mut_val *outer = yyjson_mut_obj(b->doc), *function = yyjson_val_mut_copy(b->doc, tool);

        yyjson_mut_obj_remove_key(function, "type");
        if (yyjson_mut_is_null(yyjson_mut_obj_get(function, "parameters")))
            yyjson_mut_obj_remove_key(function, "parameters");
        yyjson_mut_obj_add_str(b->doc, outer, "type", "function");
        yyjson_mut_obj_add_val(b->doc, outer, "function", function);
        yyjson_mut_arr_append(list, outer);
    }
    return list;
}

/* A text of yyjson's, which is freed, in the request's own memory. */
static const char *keep_text(struct builder *b, char *text, size_t len, size_t max, const char *path)
{
    char *kept = text && len <= max ? rv_api_fields_alloc(b->reader, len + 1, 1) : NULL;

    if (kept)
        memcpy(kept, text, len);
    else
        rv_api_fields_fail(b->reader, path, "invalid_value", "'%s' is more than %zu bytes", path, max);
    free(text); // its own allocator is libc's
    return kept;
}

/* A call's arguments, which come as text, become an object. */
static void add_arguments(struct builder *b, yyjson_mut_val *made, const char *arguments, const char *path)
{
    yyjson_doc *parsed = yyjson_read(arguments, strlen(arguments), 0);

    if (!yyjson_is_obj(yyjson_doc_get_root(parsed)))
        rv_api_fields_fail(b->reader, path, "invalid_value", "'%s' is not the text of a JSON object", path);
    else
        yyjson_mut_obj_add_val(b->doc, made, "arguments", yyjson_val_mut_copy(b->doc, yyjson_doc_get_root(parsed)));
    yyjson_doc_free(parsed);
}

static yyjson_mut_val *make_call(struct builder *b, yyjson_mut_val *made, const char *id, const char *name)
{
    yyjson_mut_val *copy = yyjson_mut_obj(b->doc);

    yyjson_mut_obj_add_strcpy(b->doc, made, "name", name ? name : "");
    yyjson_mut_obj_add_strcpy(b->doc, copy, "id", id ? id : "");
    yyjson_mut_obj_add_str(b->doc, copy, "type", "function");
    yyjson_mut_obj_add_val(b->doc, copy, "function", made);
    return copy;
}

/* A call that was made. */
static yyjson_mut_val *copy_call(struct builder *b, yyjson_val *value, const char *path)
{
    static const struct rv_api_field outer[] = {
        {.name = "id"}, {.name = "type"}, {.name = "function"}, {.name = "index"}, {.name = NULL}};
    static const struct rv_api_field inner[] = {{.name = "name"}, {.name = "arguments"}, {.name = NULL}};
    static const struct rv_api_field *const outer_table[] = {outer}, *const inner_table[] = {inner};
    yyjson_mut_val *made = yyjson_mut_obj(b->doc);
    const char *id = NULL, *name = NULL, *arguments = NULL;
    struct rv_api_fields call, function;
    char at[RV_API_PATH_SIZE];

    if (!rv_api_fields_init(&call, b->reader, value, path))
        return made;
    rv_api_fields_only(&call, outer_table, 1);
    rv_api_fields_require(&call, "id");
    rv_api_fields_string(&call, "id", 1, MAX_ID, &id);
    rv_api_fields_require(&call, "function");
    if (!rv_api_fields_object(&call, "function", &function))
        return made;
    rv_api_fields_only(&function, inner_table, 1);
    rv_api_fields_require(&function, "name");
    rv_api_fields_string(&function, "name", 1, MAX_TOOL_NAME, &name);
    rv_api_fields_require(&function, "arguments");
    if (!rv_api_fields_string(&function, "arguments", 0, MAX_TEXT, &arguments))
        return made;
    snprintf(at, sizeof(at), "%.60s.function.arguments", path);
    add_arguments(b, made, arguments, at);
    return make_call(b, made, id, name);
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

/* ---- items of responses ------------------------------------------------------------------------------ */

/* Adds to a list of messages what an item says: a call joins the assistant's words before it. */
static void add_item(struct builder *b, yyjson_mut_val *list, const struct ruvllm_message *message, yyjson_val *raw,
                     size_t index)
{
    const char *id = yyjson_get_str(yyjson_obj_get(raw, "call_id"));
    yyjson_mut_val *last = yyjson_mut_arr_get_last(list), *made, *calls;
    char path[RV_API_PATH_SIZE];

    if (!yyjson_equals_str(yyjson_obj_get(raw, "type"), "function_call")) {
        yyjson_mut_val *copy = yyjson_mut_obj(b->doc);

        yyjson_mut_obj_add_str(b->doc, copy, "role", message->role);
        yyjson_mut_obj_add_str(b->doc, copy, "content", message->content);
        if (id)
            yyjson_mut_obj_add_str(b->doc, copy, "tool_call_id", id);
        yyjson_mut_arr_append(list, copy);
        return;
    }
    if (!yyjson_mut_equals_str(yyjson_mut_obj_get(last, "role"), "assistant")) {
        last = yyjson_mut_obj(b->doc);
        yyjson_mut_obj_add_str(b->doc, last, "role", "assistant");
        yyjson_mut_obj_add_str(b->doc, last, "content", "");
        yyjson_mut_arr_append(list, last);
    }
    calls = yyjson_mut_obj_get(last, "tool_calls");
    if (!calls) {
        calls = yyjson_mut_arr(b->doc);
        yyjson_mut_obj_add_val(b->doc, last, "tool_calls", calls);
    }
    made = yyjson_mut_obj(b->doc);
    snprintf(path, sizeof(path), "input[%zu].arguments", index);
    add_arguments(b, made, yyjson_get_str(yyjson_obj_get(raw, "arguments")), path);
    yyjson_mut_arr_append(calls, make_call(b, made, id, yyjson_get_str(yyjson_obj_get(raw, "name"))));
}

static bool has_tool_items(yyjson_val *input)
{
    yyjson_arr_iter iter = yyjson_arr_iter_with(input);
    yyjson_val *item;

    while ((item = yyjson_arr_iter_next(&iter)))
        if (yyjson_obj_get(item, "call_id"))
            return true;
    return false;
}

/* ---- both ------------------------------------------------------------------------------------------------ */

/* What a request calls its parts. */
struct dialect {
    const char *input; // the field of the messages
    bool is_flat;      // functions and choices are not wrapped
    bool (*speaks_of_tools)(yyjson_val *input);
    void (*add)(struct builder *b, yyjson_mut_val *list, const struct ruvllm_message *message, yyjson_val *raw,
                size_t index);
};

static const struct dialect chat = {.input = "messages", .speaks_of_tools = speaks_of_tools, .add = add_message};
static const struct dialect response = {
    .input = "input", .is_flat = true, .speaks_of_tools = has_tool_items, .add = add_item};

/* The whole as one JSON text of the request's own. Instructions stand before what the client has listed. */
static void write_conversation(struct builder *b, const struct dialect *dialect, yyjson_val *given, yyjson_val *tools,
                               struct rv_api_request *request)
{
    const struct ruvllm_input *input = &request->inputs[0];
    yyjson_mut_val *root = yyjson_mut_obj(b->doc), *list = yyjson_mut_arr(b->doc);
    size_t len = 0, n_before = request->instructions != NULL;
    char *text;

    for (size_t i = 0; i < input->n_messages && !b->reader->failed; i++) {
        size_t index = i < n_before ? 0 : i - n_before;

        dialect->add(b, list, &input->messages[i], i < n_before ? NULL : yyjson_arr_get(given, index), index);
    }
    yyjson_mut_obj_add_val(b->doc, root, "messages", list);
    if (tools)
        yyjson_mut_obj_add_val(b->doc, root, "tools", copy_tools(b, tools, dialect->is_flat));
    yyjson_mut_doc_set_root(b->doc, root);
    if (b->reader->failed)
        return;
    text = yyjson_mut_write(b->doc, YYJSON_WRITE_NOFLAG, &len);
    request->conversation = keep_text(b, text, len, MAX_CONVERSATION, dialect->input);
    request->conversation_len = len;
}

static void read_all(struct rv_api_fields *body, const struct dialect *dialect, struct rv_api_request *request)
{
    yyjson_val *tools = read_tools(body, dialect->is_flat, request);
    yyjson_val *given = rv_api_fields_value(body, dialect->input);
    struct builder b = {.reader = body->reader};

    if (body->reader->failed || (!tools && !dialect->speaks_of_tools(given)))
        return;
    if (request->session) {
        rv_api_fields_fail(body->reader, "session", "unsupported_field",
                           "'session' is not supported where messages speak of tools");
        return;
    }
    b.doc = yyjson_mut_doc_new(NULL);
    if (!b.doc) {
        rv_api_fields_fail(body->reader, dialect->input, "invalid_value", "the conversation is too large");
        return;
    }
    if (tools) {
        size_t len = 0;
        char *text = yyjson_mut_val_write(copy_tools(&b, tools, dialect->is_flat), YYJSON_WRITE_NOFLAG, &len);

        request->params.tools = keep_text(&b, text, len, MAX_TEXT, "tools");
    }
    write_conversation(&b, dialect, given, tools, request);
    yyjson_mut_doc_free(b.doc);
}

void rv_api_tools_read(struct rv_api_fields *body, struct rv_api_request *request)
{
    read_all(body, &chat, request);
}

void rv_api_tools_read_response(struct rv_api_fields *body, struct rv_api_request *request)
{
    yyjson_val *tools = rv_api_fields_value(body, "tools"), *choice = rv_api_fields_value(body, "tool_choice");

    read_all(body, &response, request);
    if (yyjson_arr_size(tools) > 0)
        request->given_tools = rv_api_fields_json(body->reader, tools, "tools", MAX_TEXT);
    if (choice)
        request->given_tool_choice = rv_api_fields_json(body->reader, choice, "tool_choice", MAX_TEXT);
}
