/* A template tells by its source what it looks at. Marks of calls are the template's own text, all else a user's. */
#include "text/tool_history.h"

#include "base/sha256.h"
#include "text/jinja_json.h"
#include "text/tool_style.h"

#include <string.h>

enum { SHORT_ID = 9 };

static const struct rv_jinja_value *find(const struct rv_jinja_run *run, const struct rv_jinja_dict *dict,
                                         const char *key, enum rv_jinja_type type)
{
    const struct rv_jinja_value *value = rv_jinja_dict_find(run, dict, key, strlen(key));

    return value && value->type == type ? value : NULL;
}

static ruvllm_status set(struct rv_jinja_run *run, struct rv_jinja_dict *dict, const char *key,
                         struct rv_jinja_value value)
{
    return rv_jinja_dict_set(run, dict, rv_jinja_literal(key, strlen(key)), value);
}

static ruvllm_status emit(struct rv_jinja_run *run, const char *text)
{
    return rv_jinja_emit_bytes(run, text, strlen(text));
}

/* ---- ids ------------------------------------------------------------------------------------------------ */

static bool is_short(struct rv_jinja_string id)
{
    for (size_t i = 0; i < id.len; i++) {
        char c = id.data[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')))
            return false;
    }
    return id.len == SHORT_ID;
}

/* Equal ids stay equal: a result finds its call. */
static ruvllm_status shorten(struct rv_jinja_run *run, struct rv_jinja_dict *dict, const char *key,
                             const unsigned char *user)
{
    const struct rv_jinja_value *id = find(run, dict, key, RV_JINJA_T_STRING);
    char hex[RV_SHA256_HEX_LEN + 1], *text;
    ruvllm_status rc;

    if (!id || is_short(id->as.string))
        return RUVLLM_OK;
    rc = rv_jinja_charge_bytes(run, id->as.string.len);
    if (rc)
        return rc;
    text = rv_jinja_alloc(run, SHORT_ID, 1);
    if (!text)
        return rv_jinja_no_memory(run);
    rv_sha256_hex(id->as.string.data, id->as.string.len, hex);
    memcpy(text, hex, SHORT_ID);
    return set(run, dict, key, rv_jinja_text((struct rv_jinja_string){text, user, SHORT_ID}));
}

static ruvllm_status shorten_all(struct rv_jinja_run *run, struct rv_jinja_dict *message, const unsigned char *user)
{
    const struct rv_jinja_value *calls = find(run, message, "tool_calls", RV_JINJA_T_LIST);
    ruvllm_status rc = shorten(run, message, "tool_call_id", user);

    for (size_t i = 0; !rc && calls && i < calls->as.list->len; i++)
        if (calls->as.list->items[i].type == RV_JINJA_T_DICT)
            rc = shorten(run, calls->as.list->items[i].as.dict, "id", user);
    return rc;
}

/* ---- calls as text -------------------------------------------------------------------------------------- */

static ruvllm_status emit_member(struct rv_jinja_run *run, const struct rv_jinja_dict *dict, const char *key)
{
    static const struct rv_jinja_json_options options = {0};
    const struct rv_jinja_value *value = rv_jinja_dict_find(run, dict, key, strlen(key));

    return rv_jinja_json_emit(run, value ? *value : rv_jinja_none(), &options);
}

static ruvllm_status emit_call(struct rv_jinja_run *run, const struct rv_tool_style *style,
                               const struct rv_jinja_dict *function)
{
    ruvllm_status rc = emit(run, "{\"name\": ");

    if (!rc)
        rc = emit_member(run, function, "name");
    if (!rc)
        rc = emit(run, ", \"");
    if (!rc)
        rc = emit(run, style->arguments);
    if (!rc)
        rc = emit(run, "\": ");
    if (!rc)
        rc = emit_member(run, function, "arguments");
    return rc ? rc : emit(run, "}");
}

/* What stands before a call and behind it, `i` of `n`. */
static ruvllm_status emit_around(struct rv_jinja_run *run, const struct rv_tool_style *style, size_t i, size_t n,
                                 bool is_before)
{
    bool is_outside = !style->is_list || (is_before ? i == 0 : i + 1 == n);
    ruvllm_status rc = RUVLLM_OK;

    if (is_before && i > 0)
        rc = emit(run, style->separator);
    if (!rc && is_before && is_outside)
        rc = emit(run, style->open);
    if (!rc && is_outside && style->is_list)
        rc = emit(run, is_before ? "[" : "]");
    if (!rc && is_outside && !style->is_list)
        rc = emit(run, style->gap);
    if (!rc && !is_before && is_outside)
        rc = emit(run, style->close);
    return rc;
}

static ruvllm_status spell_calls(struct rv_jinja_run *run, const struct rv_tool_style *style,
                                 struct rv_jinja_dict *message)
{
    const struct rv_jinja_value *calls = find(run, message, "tool_calls", RV_JINJA_T_LIST);
    const struct rv_jinja_value *content = find(run, message, "content", RV_JINJA_T_STRING);
    size_t mark = rv_jinja_mark(run), n = calls ? calls->as.list->len : 0;
    struct rv_jinja_string text;
    ruvllm_status rc;

    if (n == 0)
        return RUVLLM_OK;
    rc = content ? rv_jinja_emit(run, content->as.string) : RUVLLM_OK;
    if (!rc && content && content->as.string.len > 0 && !style->open[0])
        rc = emit(run, style->separator);
    for (size_t i = 0; !rc && i < n; i++) {
        struct rv_jinja_value call = calls->as.list->items[i];
        const struct rv_jinja_value *function =
            call.type == RV_JINJA_T_DICT ? find(run, call.as.dict, "function", RV_JINJA_T_DICT) : NULL;

        if (!function)
            return rv_jinja_fail(run, "a call in the conversation has no function");
        rc = emit_around(run, style, i, n, true);
        if (!rc)
            rc = emit_call(run, style, function->as.dict);
        if (!rc)
            rc = emit_around(run, style, i, n, false);
    }
    if (!rc)
        rc = rv_jinja_cut(run, mark, &text);
    return rc ? rc : set(run, message, "content", rv_jinja_text(text));
}

/* ---- tools in the system message ------------------------------------------------------------------------- */

/* The tools' functions as JSON. */
static ruvllm_status spell_tools(struct rv_jinja_run *run, const struct rv_jinja_list *tools,
                                 struct rv_jinja_value *out)
{
    static const struct rv_jinja_json_options options = {0};
    size_t mark = rv_jinja_mark(run);
    struct rv_jinja_value list;
    struct rv_jinja_string text;
    ruvllm_status rc = rv_jinja_list_new(run, tools->len, &list);

    for (size_t i = 0; !rc && i < tools->len; i++) {
        struct rv_jinja_value tool = tools->items[i];
        const struct rv_jinja_value *function =
            tool.type == RV_JINJA_T_DICT ? find(run, tool.as.dict, "function", RV_JINJA_T_DICT) : NULL;

        rc = rv_jinja_list_push(run, list.as.list, function ? *function : tool);
    }
    if (!rc)
        rc = rv_jinja_json_emit(run, list, &options);
    if (!rc)
        rc = rv_jinja_cut(run, mark, &text);
    if (!rc)
        *out = rv_jinja_text(text);
    return rc;
}

/* The system message, which is put first when there is none. */
static ruvllm_status find_system(struct rv_jinja_run *run, struct rv_jinja_list *messages, struct rv_jinja_dict **out)
{
    const struct rv_jinja_value *role =
        messages->len > 0 ? find(run, messages->items[0].as.dict, "role", RV_JINJA_T_STRING) : NULL;
    struct rv_jinja_value made;
    ruvllm_status rc;

    if (role && rv_jinja_string_is(role->as.string, "system")) {
        *out = messages->items[0].as.dict;
        return RUVLLM_OK;
    }
    rc = rv_jinja_dict_new(run, &made);
    if (!rc)
        rc = set(run, made.as.dict, "role", rv_jinja_text(rv_jinja_literal("system", 6)));
    if (!rc)
        rc = set(run, made.as.dict, "content", rv_jinja_text(rv_jinja_literal("", 0)));
    if (!rc)
        rc = rv_jinja_list_push(run, messages, made);
    if (rc)
        return rc;
    memmove(messages->items + 1, messages->items, (messages->len - 1) * sizeof(*messages->items));
    messages->items[0] = made;
    *out = made.as.dict;
    return RUVLLM_OK;
}

/* ---- tools and results in turns of the user ----------------------------------------------------------------- */

static bool is_of(const struct rv_jinja_run *run, const struct rv_jinja_list *messages, size_t i, const char *role)
{
    const struct rv_jinja_value *found = find(run, messages->items[i].as.dict, "role", RV_JINJA_T_STRING);

    return found && rv_jinja_string_is(found->as.string, role);
}

static ruvllm_status emit_content(struct rv_jinja_run *run, const struct rv_jinja_list *messages, size_t i)
{
    const struct rv_jinja_value *content = find(run, messages->items[i].as.dict, "content", RV_JINJA_T_STRING);

    return content ? rv_jinja_emit(run, content->as.string)
                   : rv_jinja_fail(run, "the content of message %zu is not a text", i);
}

/* The name of the call of that id, or NULL. */
static const struct rv_jinja_value *find_name(const struct rv_jinja_run *run, const struct rv_jinja_value *calls,
                                              const struct rv_jinja_value *id)
{
    for (size_t i = 0; calls && id && i < calls->as.list->len; i++) {
        struct rv_jinja_value call = calls->as.list->items[i];
        const struct rv_jinja_value *own, *function;

        if (call.type != RV_JINJA_T_DICT)
            continue;
        own = find(run, call.as.dict, "id", RV_JINJA_T_STRING);
        function = find(run, call.as.dict, "function", RV_JINJA_T_DICT);
        if (own && function && own->as.string.len == id->as.string.len &&
            memcmp(own->as.string.data, id->as.string.data, id->as.string.len) == 0)
            return find(run, function->as.dict, "name", RV_JINJA_T_STRING);
    }
    return NULL;
}

/* `calls` are those before it. */
static ruvllm_status emit_result(struct rv_jinja_run *run, const struct rv_jinja_list *messages, size_t i,
                                 const struct rv_jinja_value *calls)
{
    const struct rv_jinja_value *id = find(run, messages->items[i].as.dict, "tool_call_id", RV_JINJA_T_STRING);
    const struct rv_jinja_value *name = NULL;
    ruvllm_status rc = rv_jinja_charge(run, calls ? calls->as.list->len : 0); // a conversation may have many of either

    if (!rc)
        name = find_name(run, calls, id);
    if (!rc)
        rc = emit(run, name ? "Result of " : "Result");
    if (!rc && name)
        rc = rv_jinja_emit(run, name->as.string);
    if (!rc)
        rc = emit(run, ": ");
    return rc ? rc : emit_content(run, messages, i);
}

/* The results from `from` on, and what the user says behind them, as one turn of the user; `*end` is behind it. */
static ruvllm_status join_results(struct rv_jinja_run *run, const struct rv_jinja_list *messages, size_t from,
                                  const struct rv_jinja_value *calls, size_t *end)
{
    struct rv_jinja_dict *turn = messages->items[from].as.dict;
    size_t mark = rv_jinja_mark(run), i;
    struct rv_jinja_string text;
    ruvllm_status rc = RUVLLM_OK;

    for (i = from; !rc && i < messages->len; i++) {
        bool is_result = is_of(run, messages, i, "tool");

        if (!is_result && !is_of(run, messages, i, "user"))
            break;
        rc = emit(run, i > from ? "\n" : "");
        if (!rc)
            rc = is_result ? emit_result(run, messages, i, calls) : emit_content(run, messages, i);
    }
    *end = i;
    if (!rc)
        rc = rv_jinja_cut(run, mark, &text);
    if (!rc)
        rc = set(run, turn, "content", rv_jinja_text(text));
    return rc ? rc : set(run, turn, "role", rv_jinja_text(rv_jinja_literal("user", 4)));
}

static ruvllm_status tell_results(struct rv_jinja_run *run, struct rv_jinja_list *messages)
{
    const struct rv_jinja_value *calls = NULL;
    ruvllm_status rc = RUVLLM_OK;
    size_t n = 0, next;

    for (size_t i = 0; !rc && i < messages->len; i = next) {
        const struct rv_jinja_value *own = find(run, messages->items[i].as.dict, "tool_calls", RV_JINJA_T_LIST);

        calls = own ? own : calls;
        next = i + 1;
        if (is_of(run, messages, i, "tool"))
            rc = join_results(run, messages, i, calls, &next);
        messages->items[n++] = messages->items[i];
    }
    messages->len = rc ? messages->len : n;
    return rc;
}

/* Puts the tools before the first words of the user, and how to call them. */
static ruvllm_status tell_tools(struct rv_jinja_run *run, const struct rv_tool_style *style,
                                const struct rv_jinja_list *messages, const struct rv_jinja_list *tools)
{
    struct rv_jinja_string text;
    struct rv_jinja_value list;
    size_t i = 0, mark;
    ruvllm_status rc = spell_tools(run, tools, &list);

    while (!rc && i < messages->len && !is_of(run, messages, i, "user"))
        i++;
    if (!rc && i == messages->len)
        return rv_jinja_fail(run, "no message is of a user, and the tools would stand in the first");
    mark = rv_jinja_mark(run);
    if (!rc)
        rc = emit(run, "You can call these functions: ");
    if (!rc)
        rc = rv_jinja_emit(run, list.as.string);
    if (!rc)
        rc = emit(run, "\nTo call one, answer with nothing but {\"name\": its name, \"");
    if (!rc)
        rc = emit(run, style->arguments);
    if (!rc)
        rc = emit(run, "\": an object of its arguments}.\n\n");
    if (!rc)
        rc = emit_content(run, messages, i);
    if (!rc)
        rc = rv_jinja_cut(run, mark, &text);
    return rc ? rc : set(run, messages->items[i].as.dict, "content", rv_jinja_text(text));
}

/* ---- the whole ------------------------------------------------------------------------------------------------ */

static ruvllm_status rename_result(struct rv_jinja_run *run, const struct rv_jinja_list *messages, size_t i,
                                   const char *role)
{
    return is_of(run, messages, i, "tool")
               ? set(run, messages->items[i].as.dict, "role", rv_jinja_text(rv_jinja_literal(role, strlen(role))))
               : RUVLLM_OK;
}

static bool looks_for_tools_in_messages(const char *source)
{
    return strstr(source, "message['tools']") || strstr(source, "message[\"tools\"]") ||
           strstr(source, "message.tools");
}

ruvllm_status rv_tool_history_fit(struct rv_jinja_run *run, const char *source, struct rv_jinja_dict *vars,
                                  const unsigned char *user)
{
    const struct rv_tool_style *style = rv_tool_style_of(source);
    const struct rv_jinja_value *found = find(run, vars, "messages", RV_JINJA_T_LIST), *tools;
    bool has_short_ids = strstr(source, "length != 9") != NULL, has_calls = strstr(source, "tool_calls") != NULL;
    bool has_responses = strstr(source, "== 'tool_response'") != NULL;
    struct rv_jinja_list *messages = found ? found->as.list : NULL;
    ruvllm_status rc = RUVLLM_OK;

    if (!style || !messages)
        return RUVLLM_OK;
    for (size_t i = 0; !rc && i < messages->len; i++) {
        if (messages->items[i].type != RV_JINJA_T_DICT)
            return rv_jinja_fail(run, "message %zu is not an object", i);
        if (has_short_ids)
            rc = shorten_all(run, messages->items[i].as.dict, user);
        if (!rc && !has_calls)
            rc = spell_calls(run, style, messages->items[i].as.dict);
        if (!rc && has_responses)
            rc = rename_result(run, messages, i, "tool_response");
    }
    if (!rc && style->is_told)
        rc = tell_results(run, messages);
    tools = find(run, vars, "tools", RV_JINJA_T_LIST);
    if (!rc && tools && tools->as.list->len > 0 && style->is_told)
        rc = tell_tools(run, style, messages, tools->as.list);
    if (!rc && tools && looks_for_tools_in_messages(source)) {
        struct rv_jinja_dict *system = NULL;
        struct rv_jinja_value text;

        rc = spell_tools(run, tools->as.list, &text);
        if (!rc)
            rc = find_system(run, messages, &system);
        if (!rc)
            rc = set(run, system, "tools", text);
    }
    return rc;
}
