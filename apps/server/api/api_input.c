/* Conversations and prompts. Texts stay where the JSON tree has them; only contents in several parts are copied. */
#include "server/api/api_input.h"

#include "server/api/api_trivial.h"

#include <stdio.h>
#include <string.h>

static const struct rv_api_field message_fields[] = {
    {.name = "role"},
    {.name = "content"},
    {.name = "type"}, // responses: checked to be "message"
    {.name = "id", .asks_nothing = rv_api_trivial_string, .only = "a string"},
    {.name = "status", .asks_nothing = rv_api_trivial_string, .only = "a string"},
    {.name = "annotations", .asks_nothing = rv_api_trivial_empty, .only = "an empty array"},
    {.name = "name", .fails = true},
    {.name = "refusal", .fails = true},
    {.name = "audio", .fails = true},
    {.name = "function_call", .fails = true},
    {.name = "reasoning_content", .fails = true},
    {.name = NULL},
};

static const struct rv_api_field no_tool_fields[] = {
    {.name = "tool_calls", .asks_nothing = rv_api_trivial_empty, .only = "an empty array"},
    {.name = "tool_call_id", .fails = true},
    {.name = NULL},
};

static const struct rv_api_field tool_fields[] = {{.name = "tool_calls"}, {.name = "tool_call_id"}, {.name = NULL}};

static const struct rv_api_field part_fields[] = {
    {.name = "type"},
    {.name = "text"},
    {.name = "annotations",
     .asks_nothing = rv_api_trivial_array,
     .only = "an array"}, // of an answer that is sent back; they change nothing
    {.name = "logprobs", .asks_nothing = rv_api_trivial_array, .only = "an array"},
    {.name = NULL},
};

static const char *item_path(const char *path, size_t index, char out[RV_API_PATH_SIZE])
{
    snprintf(out, RV_API_PATH_SIZE, "%s[%zu]", path, index);
    return out;
}

static bool is_text_type(yyjson_val *type, enum rv_api_dialect dialect)
{
    if (dialect != RV_API_DIALECT_RESPONSE)
        return yyjson_equals_str(type, "text");
    return yyjson_equals_str(type, "input_text") || yyjson_equals_str(type, "output_text");
}

static bool read_part(struct rv_api_reader *reader, yyjson_val *value, const char *path, enum rv_api_dialect dialect,
                      const char **text)
{
    static const struct rv_api_field *const tables[] = {part_fields};
    struct rv_api_fields part;
    char type_path[RV_API_PATH_SIZE];
    yyjson_val *type;

    if (!rv_api_fields_init(&part, reader, value, path))
        return false;
    rv_api_fields_require(&part, "type");
    type = rv_api_fields_value(&part, "type");
    snprintf(type_path, sizeof(type_path), "%s%s", part.path, "type");
    if (type && !yyjson_is_str(type))
        rv_api_fields_wrong(reader, type, type_path, "a string");
    else if (type && !is_text_type(type, dialect))
        rv_api_fields_fail(reader, type_path, "unsupported_field",
                           "'%s' is \"%.*s\", and only text is supported: send parts of type \"%s\"", type_path,
                           RV_API_MAX_NAME, yyjson_get_str(type),
                           dialect == RV_API_DIALECT_RESPONSE ? "input_text" : "text");
    rv_api_fields_only(&part, tables, 1);
    rv_api_fields_require(&part, "text");
    return rv_api_fields_string(&part, "text", 0, SIZE_MAX, text);
}

/* All parts one after the other, with nothing between them. */
static const char *join_parts(struct rv_api_reader *reader, yyjson_val *parts, const char *path,
                              enum rv_api_dialect dialect)
{
    size_t n = yyjson_arr_size(parts), len = 0, i, used = 0;
    const char **texts = rv_api_fields_alloc(reader, n, sizeof(*texts));
    char at[RV_API_PATH_SIZE], *joined;
    yyjson_arr_iter iter = yyjson_arr_iter_with(parts);

    if (!texts)
        return NULL;
    for (i = 0; i < n; i++) {
        if (!read_part(reader, yyjson_arr_iter_next(&iter), item_path(path, i, at), dialect, &texts[i]))
            return NULL;
        len += strlen(texts[i]);
    }
    if (n == 1)
        return texts[0];
    joined = rv_api_fields_alloc(reader, len + 1, 1);
    for (i = 0; joined && i < n; i++) {
        size_t piece = strlen(texts[i]);

        memcpy(joined + used, texts[i], piece);
        used += piece;
    }
    return joined;
}

/* A string, or a list of parts. */
static const char *read_text_field(struct rv_api_fields *message, const char *name, enum rv_api_dialect dialect)
{
    yyjson_val *content = rv_api_fields_value(message, name);
    char path[RV_API_PATH_SIZE];
    const char *text = NULL;
    size_t n;

    if (!yyjson_is_arr(content)) {
        rv_api_fields_require(message, name);
        rv_api_fields_string(message, name, 0, SIZE_MAX, &text);
        return text;
    }
    if (!rv_api_fields_array(message, name, 1, RV_API_MAX_PARTS, &n))
        return NULL;
    snprintf(path, sizeof(path), "%s%s", message->path, name);
    return join_parts(message->reader, content, path, dialect);
}

static const char *read_role(struct rv_api_fields *message, enum rv_api_dialect dialect)
{
    static const char *const words[] = {"system", "developer", "user", "assistant", "tool"};
    static const char *const roles[] = {"system", "system", "user", "assistant", "tool"};
    bool has_tools = dialect == RV_API_DIALECT_TOOLS;
    yyjson_val *role = rv_api_fields_value(message, "role");
    char path[RV_API_PATH_SIZE];
    size_t i = 0;

    rv_api_fields_require(message, "role");
    if ((!has_tools && yyjson_equals_str(role, "tool")) || yyjson_equals_str(role, "function")) {
        snprintf(path, sizeof(path), "%s%s", message->path, "role");
        rv_api_fields_fail(message->reader, path, "unsupported_field",
                           "'%s' is \"%s\", which is not supported here; send system, user and assistant", path,
                           yyjson_get_str(role));
    }
    return rv_api_fields_word(message, "role", words, has_tools ? 5 : 4, &i) ? roles[i] : NULL;
}

static void check_item_type(struct rv_api_fields *message, enum rv_api_dialect dialect)
{
    yyjson_val *type = rv_api_fields_value(message, "type");
    char path[RV_API_PATH_SIZE];

    if (!type || (dialect == RV_API_DIALECT_RESPONSE && yyjson_equals_str(type, "message")))
        return;
    snprintf(path, sizeof(path), "%s%s", message->path, "type");
    rv_api_fields_fail(message->reader, path, "unsupported_field",
                       "'%s' is not supported; in responses it may be \"message\", \"function_call\" or "
                       "\"function_call_output\", elsewhere leave it out",
                       path);
}

/* Calls are an assistant's, and results answer one. */
static void check_tool_words(struct rv_api_fields *message, const char *role, size_t *n_calls)
{
    yyjson_val *calls = rv_api_fields_array(message, "tool_calls", 0, RV_API_MAX_PARTS, n_calls);
    const char *id;
    char path[RV_API_PATH_SIZE];

    if (!calls)
        *n_calls = 0;
    snprintf(path, sizeof(path), "%s%s", message->path, *n_calls > 0 ? "tool_calls" : "tool_call_id");
    if (role && *n_calls > 0 && strcmp(role, "assistant") != 0)
        rv_api_fields_fail(message->reader, path, "invalid_value", "'%s' belongs to an assistant's message", path);
    if (role && strcmp(role, "tool") == 0) {
        rv_api_fields_require(message, "tool_call_id");
        rv_api_fields_string(message, "tool_call_id", 1, 128, &id);
    } else if (rv_api_fields_value(message, "tool_call_id")) {
        rv_api_fields_fail(message->reader, path, "invalid_value", "'%s' belongs to a tool's message", path);
    }
}

/* A call of a response before, or its result; false: it is neither. What is in a call is for api_tools.c. */
static bool read_tool_item(struct rv_api_fields *item, struct ruvllm_message *out)
{
    static const struct rv_api_field call[] = {{.name = "name"}, {.name = "arguments"}, {.name = NULL}};
    static const struct rv_api_field result[] = {{.name = "output"}, {.name = NULL}};
    static const struct rv_api_field common[] = {
        {.name = "type"},
        {.name = "call_id"},
        {.name = "id", .asks_nothing = rv_api_trivial_string, .only = "a string"},
        {.name = "status", .asks_nothing = rv_api_trivial_string, .only = "a string"},
        {.name = NULL},
    };
    bool is_call = yyjson_equals_str(rv_api_fields_value(item, "type"), "function_call");
    const struct rv_api_field *const tables[] = {common, is_call ? call : result};
    const char *text;

    if (!is_call && !yyjson_equals_str(rv_api_fields_value(item, "type"), "function_call_output"))
        return false;
    rv_api_fields_only(item, tables, 2);
    rv_api_fields_require(item, "call_id");
    rv_api_fields_string(item, "call_id", 1, 128, &text);
    if (is_call) {
        rv_api_fields_require(item, "name");
        rv_api_fields_string(item, "name", 1, 64, &text);
        rv_api_fields_require(item, "arguments");
        rv_api_fields_string(item, "arguments", 0, 64 << 10, &text);
    }
    out->role = is_call ? "assistant" : "tool";
    out->content = is_call ? "" : read_text_field(item, "output", RV_API_DIALECT_RESPONSE);
    return true;
}

static void read_message(struct rv_api_reader *reader, yyjson_val *value, const char *path, enum rv_api_dialect dialect,
                         struct ruvllm_message *out)
{
    const struct rv_api_field *tables[] = {message_fields,
                                           dialect == RV_API_DIALECT_TOOLS ? tool_fields : no_tool_fields};
    struct rv_api_fields message;
    size_t n_calls = 0;

    if (!rv_api_fields_init(&message, reader, value, path))
        return;
    if (dialect == RV_API_DIALECT_RESPONSE && read_tool_item(&message, out))
        return;
    check_item_type(&message, dialect);
    out->role = read_role(&message, dialect);
    rv_api_fields_only(&message, tables, 2);
    check_tool_words(&message, out->role, &n_calls);
    if (n_calls > 0 && !rv_api_fields_value(&message, "content")) // calls say enough
        out->content = "";
    else
        out->content = read_text_field(&message, "content", dialect);
}

static void set_input(struct rv_api_reader *reader, struct rv_api_request *request, struct ruvllm_input input)
{
    struct ruvllm_input *one = rv_api_fields_alloc(reader, 1, sizeof(*one));

    if (!one)
        return;
    *one = input;
    one->struct_size = sizeof(*one);
    request->inputs = one;
    request->n_inputs = 1;
}

/* Room for n messages after the system's words, if there are such; *n_messages counts them all. */
static struct ruvllm_message *new_messages(struct rv_api_reader *reader, const char *first, size_t n,
                                           size_t *n_messages)
{
    struct ruvllm_message *messages = rv_api_fields_alloc(reader, n + 1, sizeof(*messages));

    *n_messages = n + (first != NULL);
    if (messages && first)
        messages[0] = (struct ruvllm_message){.role = "system", .content = first};
    return messages;
}

void rv_api_input_messages(struct rv_api_fields *body, const char *name, enum rv_api_dialect dialect, const char *first,
                           struct rv_api_request *request)
{
    struct ruvllm_message *messages;
    char path[RV_API_PATH_SIZE];
    yyjson_arr_iter iter;
    yyjson_val *list;
    size_t n = 0, n_messages = 0;

    rv_api_fields_require(body, name);
    list = rv_api_fields_array(body, name, 1, RV_API_MAX_MESSAGES, &n);
    messages = list ? new_messages(body->reader, first, n, &n_messages) : NULL;
    if (!messages)
        return;
    iter = yyjson_arr_iter_with(list);
    for (size_t i = 0; i < n && !body->reader->failed; i++)
        read_message(body->reader, yyjson_arr_iter_next(&iter), item_path(name, i, path), dialect,
                     &messages[n_messages - n + i]);
    set_input(body->reader, request, (struct ruvllm_input){.messages = messages, .n_messages = n_messages});
}

void rv_api_input_user_text(struct rv_api_fields *body, const char *text, const char *first,
                            struct rv_api_request *request)
{
    size_t n_messages;
    struct ruvllm_message *messages = new_messages(body->reader, first, 1, &n_messages);

    if (!messages)
        return;
    messages[n_messages - 1] = (struct ruvllm_message){.role = "user", .content = text};
    set_input(body->reader, request, (struct ruvllm_input){.messages = messages, .n_messages = n_messages});
}

static bool read_text(struct rv_api_reader *reader, yyjson_val *value, const char *path, size_t min_len,
                      struct ruvllm_input *out)
{
    if (!rv_api_fields_is_string(reader, value, path, min_len, SIZE_MAX, &out->text))
        return false;
    out->text_len = yyjson_get_len(value);
    return true;
}

static bool read_tokens(struct rv_api_reader *reader, yyjson_val *list, const char *path, struct ruvllm_input *out)
{
    size_t n = yyjson_arr_size(list);
    yyjson_arr_iter iter = yyjson_arr_iter_with(list);
    char at[RV_API_PATH_SIZE];
    int32_t *tokens;
    int64_t token;

    if (n == 0) {
        rv_api_fields_fail(reader, path, "invalid_value", "'%s' must hold at least one token id", path);
        return false;
    }
    tokens = rv_api_fields_alloc(reader, n, sizeof(*tokens));
    for (size_t i = 0; i < n && tokens; i++) {
        yyjson_val *value = yyjson_arr_iter_next(&iter);

        /* Ids come by the hundred thousand: their paths are written only for those that are wrong. */
        if (yyjson_is_uint(value) && yyjson_get_uint(value) <= INT32_MAX)
            token = yyjson_get_sint(value);
        else if (!rv_api_fields_is_int(reader, value, item_path(path, i, at), 0, INT32_MAX, &token))
            return false;
        tokens[i] = (int32_t)token;
    }
    out->tokens = tokens;
    out->n_tokens = n;
    return tokens != NULL;
}

static void read_prompt(struct rv_api_reader *reader, yyjson_val *value, const char *path, size_t min_len,
                        struct ruvllm_input *out)
{
    out->struct_size = sizeof(*out);
    if (yyjson_is_str(value))
        (void)read_text(reader, value, path, min_len, out); // a failure sticks to the reader
    else if (yyjson_is_arr(value))
        (void)read_tokens(reader, value, path, out);
    else
        rv_api_fields_wrong(reader, value, path, "a string or an array of token ids");
}

void rv_api_input_prompts(struct rv_api_fields *body, const char *name, size_t min_len, struct rv_api_request *request)
{
    yyjson_val *value, *first;
    struct ruvllm_input *inputs;
    char path[RV_API_PATH_SIZE];
    bool is_list;
    size_t n = 1;

    rv_api_fields_require(body, name);
    value = rv_api_fields_value(body, name);
    first = yyjson_arr_get_first(value);
    is_list = yyjson_is_arr(value) && !yyjson_is_num(first);
    if (is_list)
        value = rv_api_fields_array(body, name, 1, RV_API_MAX_PROMPTS, &n);
    inputs = value ? rv_api_fields_alloc(body->reader, n, sizeof(*inputs)) : NULL;
    if (!inputs)
        return;
    if (is_list) {
        yyjson_arr_iter iter = yyjson_arr_iter_with(value);

        for (size_t i = 0; i < n && !body->reader->failed; i++)
            read_prompt(body->reader, yyjson_arr_iter_next(&iter), item_path(name, i, path), min_len, &inputs[i]);
    } else {
        read_prompt(body->reader, value, name, min_len, &inputs[0]);
    }
    request->inputs = inputs;
    request->n_inputs = n;
}

void rv_api_input_tokens(struct rv_api_fields *body, const char *name, struct rv_api_request *request)
{
    struct ruvllm_input input = {0};
    yyjson_val *list;
    size_t n;

    rv_api_fields_require(body, name);
    list = rv_api_fields_array(body, name, 1, RV_API_MAX_VALUES, &n);
    if (list && read_tokens(body->reader, list, name, &input))
        set_input(body->reader, request, input);
}

void rv_api_input_either(struct rv_api_fields *body, struct rv_api_request *request)
{
    struct ruvllm_input input = {0};
    yyjson_val *prompt = rv_api_fields_value(body, "prompt");

    if (prompt && rv_api_fields_value(body, "messages"))
        rv_api_fields_fail(body->reader, "messages", "invalid_value",
                           "'messages' and 'prompt' are both given; send one");
    if (!prompt) {
        rv_api_input_messages(body, "messages", RV_API_DIALECT_CHAT, NULL, request);
        return;
    }
    if (!body->reader->failed)
        read_prompt(body->reader, prompt, "prompt", 0, &input);
    set_input(body->reader, request, input);
}
