/* Each tool's parameters are a schema of their own (json_schema.h); here is what stands around them. */
#include "sample/tool_grammar.h"

#include "sample/json_schema.h"
#include "sample/token_trie.h"

#include <stdlib.h>
#include <string.h>

#include <yyjson.h>

enum { MAX_TOOLS = 128, MAX_NAME = 64, MAX_CALLS = 16 }; // calls of one answer

struct writer {
    struct rv_syntax *syntax;
    const struct rv_tool_grammar_wish *wish;
    const struct rv_vocab *vocab;
    struct ruvllm_error *err;
};

static int32_t text(struct writer *w, const char *bytes)
{
    return rv_syntax_literal(w->syntax, bytes, strlen(bytes));
}

static bool is_control(const struct writer *w, const char *mark)
{
    size_t len = strlen(mark), n = w->vocab ? rv_vocab_n_tokens(w->vocab) : 0;

    for (size_t i = 0; i < n; i++) {
        struct rv_str piece = rv_vocab_piece(w->vocab, (int32_t)i, true);

        if (piece.len == len && rv_vocab_type(w->vocab, (int32_t)i) == RV_TOKEN_CONTROL &&
            memcmp(piece.data, mark, len) == 0)
            return true;
    }
    return false;
}

/* A mark of the style: its letters, or the control token of that name. */
static int32_t mark(struct writer *w, const char *name)
{
    static const char control[] = {(char)RV_TOKEN_TRIE_CONTROL, '\0'};
    int32_t seq = rv_syntax_seq(w->syntax);
    bool is_token = name[0] && is_control(w, name);

    if (is_token)
        rv_syntax_add(w->syntax, seq, text(w, control));
    rv_syntax_add(w->syntax, seq, text(w, name));
    if (is_token)
        rv_syntax_add(w->syntax, seq, text(w, control));
    return seq;
}

static bool is_name(const char *name)
{
    size_t len = strlen(name);

    return len >= 1 && len <= MAX_NAME &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") == len;
}

/* The rule of the arguments. */
static ruvllm_status write_arguments(struct writer *w, yyjson_val *function, size_t index, int32_t *rule)
{
    yyjson_val *schema = yyjson_obj_get(function, "parameters");
    size_t len = 0;
    char *written;
    ruvllm_status rc;

    if (!schema || yyjson_is_null(schema) || yyjson_obj_size(schema) == 0) { // it takes none
        *rule = rv_syntax_rule(w->syntax);
        rv_syntax_define(w->syntax, *rule, text(w, "{}"));
        return RUVLLM_OK;
    }
    written = yyjson_val_write(schema, YYJSON_WRITE_NOFLAG, &len);
    if (!written)
        return rv_fail(w->err, RUVLLM_NO_MEMORY, "cannot allocate the schema of a tool");
    rc = rv_json_schema_read(w->syntax, written, len, rule, w->err);
    free(written); // its own allocator is libc's
    return rc ? rv_fail_in(w->err, rc, "tools[%zu].function.parameters", index) : RUVLLM_OK;
}

/* {"name": "...", "arguments": {...}} */
static ruvllm_status write_call(struct writer *w, yyjson_val *tool, size_t index, int32_t ways)
{
    yyjson_val *function = yyjson_obj_get(tool, "function");
    const char *name = yyjson_get_str(yyjson_obj_get(function, "name"));
    struct rv_syntax *s = w->syntax;
    int32_t rule = 0, seq;
    ruvllm_status rc;

    if (!name || !is_name(name) || strlen(name) != yyjson_get_len(yyjson_obj_get(function, "name")))
        return rv_fail(w->err, RUVLLM_INVALID,
                       "tools[%zu].function.name must be 1 to %d letters, digits, '_', '-' and '.'", index, MAX_NAME);
    if (w->wish->only && strcmp(w->wish->only, name) != 0)
        return RUVLLM_OK;
    rc = write_arguments(w, function, index, &rule);
    if (rc)
        return rc;
    seq = rv_syntax_seq(s);
    rv_syntax_add(s, seq, text(w, "{\"name\": \""));
    rv_syntax_add(s, seq, text(w, name));
    rv_syntax_add(s, seq, text(w, "\", \""));
    rv_syntax_add(s, seq, text(w, w->wish->style->arguments));
    rv_syntax_add(s, seq, text(w, "\": "));
    rv_syntax_add(s, seq, rv_syntax_call(s, rule));
    rv_syntax_add(s, seq, text(w, "}"));
    rv_syntax_add(s, ways, seq);
    return RUVLLM_OK;
}

/* The rule of one call of any tool. */
static ruvllm_status write_any_call(struct writer *w, yyjson_val *tools, int32_t *rule)
{
    yyjson_arr_iter iter = yyjson_arr_iter_with(tools);
    int32_t ways = rv_syntax_alt(w->syntax);
    ruvllm_status rc = RUVLLM_OK;
    yyjson_val *tool;
    size_t i = 0;

    *rule = rv_syntax_rule(w->syntax);
    if (!yyjson_is_arr(tools) || yyjson_arr_size(tools) == 0 || yyjson_arr_size(tools) > MAX_TOOLS)
        return rv_fail(w->err, RUVLLM_INVALID, "'tools' must be an array of 1 to %d tools", MAX_TOOLS);
    while (!rc && (tool = yyjson_arr_iter_next(&iter)))
        rc = write_call(w, tool, i++, ways);
    if (!rc && !w->syntax->failed && w->syntax->nodes[ways].last < 0)
        rc = rv_fail(w->err, RUVLLM_INVALID, "there is no tool '%.64s'", w->wish->only ? w->wish->only : "");
    rv_syntax_define(w->syntax, *rule, ways);
    return rc;
}

/* All calls, with what stands around them. */
static int32_t write_calls(struct writer *w, int32_t call)
{
    const struct rv_tool_style *style = w->wish->style;
    struct rv_syntax *s = w->syntax;
    bool is_single = w->wish->is_single || style->is_single;
    int32_t one = rv_syntax_rule(s), seq = rv_syntax_seq(s), all = rv_syntax_seq(s), more = rv_syntax_seq(s);

    /* Around each call, or (a list) around all of them. */
    if (!style->is_list) {
        rv_syntax_add(s, seq, mark(w, style->open));
        rv_syntax_add(s, seq, text(w, style->gap));
    }
    rv_syntax_add(s, seq, rv_syntax_call(s, call));
    if (!style->is_list) {
        rv_syntax_add(s, seq, text(w, style->gap));
        rv_syntax_add(s, seq, mark(w, style->close));
    }
    rv_syntax_define(s, one, seq);
    if (style->is_list) {
        rv_syntax_add(s, all, mark(w, style->open));
        rv_syntax_add(s, all, text(w, "["));
    }
    rv_syntax_add(s, all, rv_syntax_call(s, one));
    if (!is_single) {
        rv_syntax_add(s, more, text(w, style->separator));
        rv_syntax_add(s, more, rv_syntax_call(s, one));
        rv_syntax_add(s, all, rv_syntax_repeat(s, more, 0, MAX_CALLS - 1));
    }
    if (style->is_list) {
        rv_syntax_add(s, all, text(w, "]"));
        rv_syntax_add(s, all, mark(w, style->close));
    }
    return all;
}

/* Where no mark stands before calls, a call is what begins with a brace, behind white space or not; else it is text. */
static int32_t write_unmarked(struct writer *w, int32_t calls)
{
    static const struct rv_syntax_range gap[] = {{' ', ' '}, {'\t', '\t'}, {'\n', '\n'}, {'\r', '\r'}, {'{', '{'}};
    struct rv_syntax *s = w->syntax;
    int32_t answer = rv_syntax_seq(s), said = rv_syntax_seq(s), either = rv_syntax_alt(s);

    rv_syntax_add(s, said, rv_syntax_class_except(s, gap, 5));
    rv_syntax_add(s, said, rv_syntax_repeat(s, rv_syntax_class_except(s, NULL, 0), 0, -1));
    rv_syntax_add(s, either, said);
    rv_syntax_add(s, either, calls);
    rv_syntax_add(s, answer, rv_syntax_repeat(s, rv_syntax_class(s, gap, 4), 0, -1));
    rv_syntax_add(s, answer, rv_syntax_repeat(s, either, 0, 1));
    return answer;
}

/*
 * The letters of the mark are no text, also where the mark is a control token: who reads the answer cannot tell them
 * apart, and would find a call that no schema was asked about.
 */
static void write_answer(struct writer *w, int32_t call, int32_t rule)
{
    const char *open = w->wish->style->open;
    struct rv_syntax *s = w->syntax;
    int32_t calls = write_calls(w, call), answer = calls;

    if (!w->wish->must_call && open[0]) { // a text, and perhaps calls
        answer = rv_syntax_seq(s);
        rv_syntax_add(s, answer, rv_syntax_call(s, rv_syntax_without(s, open)));
        rv_syntax_add(s, answer, rv_syntax_repeat(s, calls, 0, 1));
    } else if (!w->wish->must_call) {
        answer = write_unmarked(w, calls);
    }
    rv_syntax_define(s, rule, answer);
}

ruvllm_status rv_tool_grammar_write(struct rv_syntax *syntax, const char *tools, size_t len,
                                    const struct rv_tool_grammar_wish *wish, const struct rv_vocab *vocab,
                                    int32_t *rule, struct ruvllm_error *err)
{
    struct writer w = {.syntax = syntax, .wish = wish, .vocab = vocab, .err = err};
    yyjson_read_err reason;
    yyjson_doc *doc;
    int32_t call = 0;
    ruvllm_status rc;

    if (len > RV_SYNTAX_MAX_BYTES)
        return rv_fail(err, RUVLLM_INVALID, "it has %zu bytes, more than %zu", len, RV_SYNTAX_MAX_BYTES);
    /* The reader only writes to its input when told to read in place. */
    doc = yyjson_read_opts((char *)(uintptr_t)tools, len, YYJSON_READ_NOFLAG, NULL, &reason);
    if (!doc && reason.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the tools");
    if (!doc)
        return rv_fail(err, RUVLLM_INVALID, "it is not JSON: %s at byte %zu", reason.msg, reason.pos);
    *rule = rv_syntax_rule(syntax);
    rc = write_any_call(&w, yyjson_doc_get_root(doc), &call);
    if (!rc)
        write_answer(&w, call, *rule);
    yyjson_doc_free(doc);
    return rc ? rc : rv_syntax_status(syntax, err);
}
