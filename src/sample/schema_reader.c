/* Schemas are told apart by where they lie in the tree: one that is referred to twice has one rule. */
#include "sample/schema_reader.h"

#include "base/alloc.h"
#include "sample/schema_number.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PATH = 120, MAX_FOLLOWED = 32, ARENA_BYTES = 8 << 20, MAX_SCHEMAS = 1 << 14 };

/* Depth of brackets outside of strings. The reader of JSON does not recurse, but what comes after is bounded by it. */
static bool is_too_deep(const char *text, size_t len)
{
    bool in_string = false;
    int depth = 0;

    for (size_t i = 0; i < len; i++) {
        char c = text[i];

        if (in_string) {
            i += c == '\\';
            in_string = c != '"';
        } else if (c == '"') {
            in_string = true;
        } else if (c == '[' || c == '{') {
            if (++depth > RV_SYNTAX_MAX_DEPTH)
                return true;
        } else if (c == ']' || c == '}') {
            depth--;
        }
    }
    return false;
}

static ruvllm_status parse(struct rv_schema_reader *r, const char *text, size_t len)
{
    yyjson_read_err reason;

    if (len > RV_SYNTAX_MAX_BYTES)
        return rv_fail(r->err, RUVLLM_INVALID, "it has %zu bytes, more than %zu", len, RV_SYNTAX_MAX_BYTES);
    if (is_too_deep(text, len))
        return rv_fail(r->err, RUVLLM_INVALID, "it is nested deeper than %d", RV_SYNTAX_MAX_DEPTH);
    /* The reader only writes to its input when told to read in place. */
    r->doc = yyjson_read_opts((char *)(uintptr_t)text, len, YYJSON_READ_NOFLAG, NULL, &reason);
    if (!r->doc && reason.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION)
        return rv_fail(r->err, RUVLLM_NO_MEMORY, "cannot allocate the schema");
    if (!r->doc)
        return rv_fail(r->err, RUVLLM_INVALID, "it is not JSON: %s at byte %zu", reason.msg, reason.pos);
    r->root = yyjson_doc_get_root(r->doc);
    return RUVLLM_OK;
}

/* Every schema is a value of the text, so that a short one needs little. */
static ruvllm_status make_room(struct rv_schema_reader *r)
{
    size_t n_values = yyjson_doc_get_val_count(r->doc);

    r->max_list = n_values < MAX_SCHEMAS ? n_values : MAX_SCHEMAS;
    r->table_size = 16;
    while (r->table_size < 2 * r->max_list)
        r->table_size *= 2;
    r->table = rv_calloc(r->table_size, sizeof(*r->table));
    r->list = rv_realloc_array(NULL, r->max_list, sizeof(*r->list));
    if (!r->table || !r->list)
        return rv_fail(r->err, RUVLLM_NO_MEMORY, "cannot allocate the schema");
    return RUVLLM_OK;
}

ruvllm_status rv_schema_reader_init(struct rv_schema_reader *reader, struct rv_syntax *syntax, const char *text,
                                    size_t len, struct ruvllm_error *err)
{
    struct rv_schema_reader *r = reader;

    *r = (struct rv_schema_reader){.syntax = syntax, .err = err, .state_budget = RV_SCHEMA_READER_STATES};
    memset(r->rules, 0xFF, sizeof(r->rules));
    rv_arena_init(&r->arena, ARENA_BYTES);
    if (text)
        r->failed = parse(r, text, len);
    if (!r->failed && text)
        r->failed = make_room(r);
    return r->failed;
}

void rv_schema_reader_release(struct rv_schema_reader *reader)
{
    yyjson_doc_free(reader->doc);
    rv_arena_release(&reader->arena);
    rv_free(reader->table);
    rv_free(reader->list);
}

void rv_schema_reader_fail(struct rv_schema_reader *reader, const char *path, const char *format, ...)
{
    char what[200];
    va_list args;

    if (reader->failed)
        return;
    va_start(args, format);
    vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    reader->failed = rv_fail(reader->err, RUVLLM_INVALID, "%s: %s", path, what);
}

/* ---- schemas ------------------------------------------------------------------------------------------ */

int32_t rv_schema_reader_rule(struct rv_schema_reader *reader, yyjson_val *schema, const char *path)
{
    struct rv_schema_reader *r = reader;
    size_t slot = ((uintptr_t)schema >> 4) * 0x9E3779B1u % r->table_size;

    if (r->failed || r->syntax->failed)
        return 0;
    for (; r->table[slot].schema; slot = (slot + 1) % r->table_size)
        if (r->table[slot].schema == schema)
            return r->table[slot].rule;
    if (r->n_list == r->max_list) {
        rv_schema_reader_fail(r, path, "there are more than %d schemas in it", MAX_SCHEMAS);
        return 0;
    }
    r->table[slot] = (struct rv_schema_reader_entry){.schema = schema, .path = path, .rule = rv_syntax_rule(r->syntax)};
    r->list[r->n_list++] = r->table[slot];
    return r->table[slot].rule;
}

int32_t rv_schema_reader_call(struct rv_schema_reader *reader, yyjson_val *schema, const char *path)
{
    return rv_syntax_call(reader->syntax, rv_schema_reader_rule(reader, schema, path));
}

const struct rv_schema_reader_entry *rv_schema_reader_next(struct rv_schema_reader *reader)
{
    return reader->n_written < reader->n_list ? &reader->list[reader->n_written++] : NULL;
}

static const char *join(struct rv_schema_reader *r, const char *path, const char *text, size_t len)
{
    size_t used = strlen(path);
    char *joined;

    if (used + 1 + len > MAX_PATH) // the beginning tells where to look
        return path;
    joined = rv_arena_alloc(&r->arena, used + len + 2);
    if (!joined)
        return path;
    memcpy(joined, path, used);
    joined[used] = '/';
    memcpy(joined + used + 1, text, len);
    joined[used + 1 + len] = '\0';
    return joined;
}

const char *rv_schema_reader_path(struct rv_schema_reader *reader, const char *path, const char *key, size_t len)
{
    return join(reader, path, key, len);
}

const char *rv_schema_reader_item_path(struct rv_schema_reader *reader, const char *path, const char *key, size_t index)
{
    char text[64];
    int len = snprintf(text, sizeof(text), "%s/%zu", key, index);

    return join(reader, path, text, (size_t)len);
}

static yyjson_val *find_target(const struct rv_schema_reader *r, const char *ref, size_t len)
{
    if (len == 0 || ref[0] != '#')
        return NULL;
    if (len == 1)
        return r->root;
    return ref[1] == '/' ? yyjson_ptr_getn(r->root, ref + 1, len - 1) : NULL;
}

/* What stands beside a reference would hold too; following it would drop that. */
static void check_beside_ref(struct rv_schema_reader *r, yyjson_val *schema, const char *path)
{
    yyjson_obj_iter iter = yyjson_obj_iter_with(schema);
    yyjson_val *key;

    while ((key = yyjson_obj_iter_next(&iter))) {
        const char *name = yyjson_get_str(key);

        if (strcmp(name, "$ref") != 0 && !rv_schema_reader_is_note(name))
            rv_schema_reader_fail(r, path, "'%.40s' beside '$ref' is not supported", name);
    }
}

yyjson_val *rv_schema_reader_follow(struct rv_schema_reader *reader, yyjson_val *schema, const char *path)
{
    for (int i = 0; i < MAX_FOLLOWED && !reader->failed; i++) {
        yyjson_val *ref = yyjson_obj_get(schema, "$ref");

        if (!ref)
            return schema;
        check_beside_ref(reader, schema, path);
        schema = yyjson_is_str(ref) ? find_target(reader, yyjson_get_str(ref), yyjson_get_len(ref)) : NULL;
        if (!schema) {
            rv_schema_reader_fail(reader, path,
                                  "'$ref' names nothing in this schema; only '#' and '#/...' are followed");
            return NULL;
        }
    }
    rv_schema_reader_fail(reader, path, "'$ref' leads through more than %d others", MAX_FOLLOWED);
    return NULL;
}

bool rv_schema_reader_is_note(const char *keyword)
{
    static const char *const notes[] = {"title",    "description", "default",   "examples", "example",
                                        "$schema",  "$id",         "$comment",  "$defs",    "definitions",
                                        "readOnly", "writeOnly",   "deprecated"};

    for (size_t i = 0; i < sizeof(notes) / sizeof(notes[0]); i++)
        if (strcmp(keyword, notes[i]) == 0)
            return true;
    return false;
}

/* ---- JSON itself ---------------------------------------------------------------------------------------- */

int32_t rv_schema_reader_text(struct rv_schema_reader *reader, const char *text)
{
    return rv_syntax_literal(reader->syntax, text, strlen(text));
}

static int32_t space(struct rv_schema_reader *r)
{
    static const struct rv_syntax_range blanks[] = {{' ', ' '}, {'\t', '\t'}};
    struct rv_syntax *s = r->syntax;
    int32_t ways = rv_syntax_alt(s), line = rv_syntax_seq(s);

    rv_syntax_add(s, line, rv_schema_reader_text(r, "\n"));
    rv_syntax_add(s, line, rv_syntax_repeat(s, rv_syntax_class(s, blanks, 2), 0, 16));
    rv_syntax_add(s, ways, rv_schema_reader_text(r, ""));
    rv_syntax_add(s, ways, rv_schema_reader_text(r, " "));
    rv_syntax_add(s, ways, line);
    return ways;
}

static int32_t hex(struct rv_schema_reader *r, int32_t n)
{
    static const struct rv_syntax_range digits[] = {{'0', '9'}, {'a', 'f'}, {'A', 'F'}};

    return rv_syntax_repeat(r->syntax, rv_syntax_class(r->syntax, digits, 3), n, n);
}

/* \u and four digits: a character by itself, or two halves that are one. */
static void add_unicode(struct rv_schema_reader *r, int32_t ways)
{
    static const struct rv_syntax_range d[] = {{'d', 'd'}, {'D', 'D'}};
    static const struct rv_syntax_range low[] = {{'0', '7'}}, high[] = {{'8', '9'}, {'a', 'b'}, {'A', 'B'}};
    static const struct rv_syntax_range others[] = {{'0', '9'}, {'a', 'c'}, {'e', 'f'}, {'A', 'C'}, {'E', 'F'}};
    static const struct rv_syntax_range second[] = {{'c', 'f'}, {'C', 'F'}};
    struct rv_syntax *s = r->syntax;
    int32_t plain = rv_syntax_seq(s), before = rv_syntax_seq(s), pair = rv_syntax_seq(s);

    rv_syntax_add(s, plain, rv_schema_reader_text(r, "u"));
    rv_syntax_add(s, plain, rv_syntax_class(s, others, 5));
    rv_syntax_add(s, plain, hex(r, 3));
    rv_syntax_add(s, before, rv_schema_reader_text(r, "u"));
    rv_syntax_add(s, before, rv_syntax_class(s, d, 2));
    rv_syntax_add(s, before, rv_syntax_class(s, low, 1));
    rv_syntax_add(s, before, hex(r, 2));
    rv_syntax_add(s, pair, rv_schema_reader_text(r, "u"));
    rv_syntax_add(s, pair, rv_syntax_class(s, d, 2));
    rv_syntax_add(s, pair, rv_syntax_class(s, high, 3));
    rv_syntax_add(s, pair, hex(r, 2));
    rv_syntax_add(s, pair, rv_schema_reader_text(r, "\\u"));
    rv_syntax_add(s, pair, rv_syntax_class(s, d, 2));
    rv_syntax_add(s, pair, rv_syntax_class(s, second, 2));
    rv_syntax_add(s, pair, hex(r, 2));
    rv_syntax_add(s, ways, plain);
    rv_syntax_add(s, ways, before);
    rv_syntax_add(s, ways, pair);
}

int32_t rv_schema_reader_char(struct rv_schema_reader *reader)
{
    static const struct rv_syntax_range escaped[] = {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
    static const struct rv_syntax_range names[] = {{'"', '"'}, {'\\', '\\'}, {'/', '/'}, {'b', 'b'},
                                                   {'f', 'f'}, {'n', 'n'},   {'r', 'r'}, {'t', 't'}};
    struct rv_syntax *s = reader->syntax;
    int32_t ways = rv_syntax_alt(s), escape = rv_syntax_seq(s), kinds = rv_syntax_alt(s);

    rv_syntax_add(s, kinds, rv_syntax_class(s, names, 8));
    add_unicode(reader, kinds);
    rv_syntax_add(s, escape, rv_schema_reader_text(reader, "\\"));
    rv_syntax_add(s, escape, kinds);
    rv_syntax_add(s, ways, rv_syntax_class_except(s, escaped, 3));
    rv_syntax_add(s, ways, escape);
    return ways;
}

static int32_t string(struct rv_schema_reader *r)
{
    struct rv_syntax *s = r->syntax;
    int32_t seq = rv_syntax_seq(s);

    rv_syntax_add(s, seq, rv_schema_reader_text(r, "\""));
    rv_syntax_add(s, seq, rv_syntax_repeat(s, rv_schema_reader_char(r), 0, -1));
    rv_syntax_add(s, seq, rv_schema_reader_text(r, "\""));
    return seq;
}

/* What stands between brackets: nothing, or members with commas between them. */
static int32_t listed(struct rv_schema_reader *r, const char *open, const char *close, bool has_keys)
{
    struct rv_syntax *s = r->syntax;
    int32_t member = rv_syntax_rule(s), one = rv_syntax_seq(s), more = rv_syntax_seq(s), all = rv_syntax_seq(s);
    int32_t whole = rv_syntax_seq(s);

    if (has_keys) {
        rv_syntax_add(s, one, rv_schema_reader_call_json(r, RV_SCHEMA_JSON_STRING));
        rv_syntax_add(s, one, rv_schema_reader_text(r, ":"));
        rv_syntax_add(s, one, rv_schema_reader_call_json(r, RV_SCHEMA_JSON_SPACE));
    }
    rv_syntax_add(s, one, rv_schema_reader_call_json(r, RV_SCHEMA_JSON_VALUE));
    rv_syntax_define(s, member, one);
    rv_syntax_add(s, more, rv_schema_reader_text(r, ","));
    rv_syntax_add(s, more, rv_schema_reader_call_json(r, RV_SCHEMA_JSON_SPACE));
    rv_syntax_add(s, more, rv_syntax_call(s, member));
    rv_syntax_add(s, all, rv_syntax_call(s, member));
    rv_syntax_add(s, all, rv_syntax_repeat(s, more, 0, -1));
    rv_syntax_add(s, all, rv_schema_reader_call_json(r, RV_SCHEMA_JSON_SPACE));
    rv_syntax_add(s, whole, rv_schema_reader_text(r, open));
    rv_syntax_add(s, whole, rv_schema_reader_call_json(r, RV_SCHEMA_JSON_SPACE));
    rv_syntax_add(s, whole, rv_syntax_repeat(s, all, 0, 1));
    rv_syntax_add(s, whole, rv_schema_reader_text(r, close));
    return whole;
}

static int32_t value(struct rv_schema_reader *r)
{
    static const enum rv_schema_reader_json kinds[] = {RV_SCHEMA_JSON_OBJECT, RV_SCHEMA_JSON_ARRAY,
                                                       RV_SCHEMA_JSON_STRING, RV_SCHEMA_JSON_NUMBER};
    int32_t ways = rv_syntax_alt(r->syntax);

    for (size_t i = 0; i < 4; i++)
        rv_syntax_add(r->syntax, ways, rv_schema_reader_call_json(r, kinds[i]));
    rv_syntax_add(r->syntax, ways, rv_schema_reader_text(r, "true"));
    rv_syntax_add(r->syntax, ways, rv_schema_reader_text(r, "false"));
    rv_syntax_add(r->syntax, ways, rv_schema_reader_text(r, "null"));
    return ways;
}

/* Rules of JSON call each other: each is entered before it is written, so this goes no deeper than their number. */
int32_t rv_schema_reader_json(struct rv_schema_reader *reader, enum rv_schema_reader_json what)
{
    struct rv_schema_reader *r = reader;
    int32_t node = 0;

    if (r->rules[what] >= 0)
        return r->rules[what];
    r->rules[what] = rv_syntax_rule(r->syntax);
    switch (what) {
    case RV_SCHEMA_JSON_SPACE:
        node = space(r);
        break;
    case RV_SCHEMA_JSON_STRING:
        node = string(r);
        break;
    case RV_SCHEMA_JSON_NUMBER:
        node = rv_schema_number_any(r->syntax);
        break;
    case RV_SCHEMA_JSON_INTEGER:
        node = rv_schema_number_any_int(r->syntax);
        break;
    case RV_SCHEMA_JSON_VALUE:
        node = value(r);
        break;
    case RV_SCHEMA_JSON_OBJECT:
        node = listed(r, "{", "}", true);
        break;
    case RV_SCHEMA_JSON_ARRAY:
        node = listed(r, "[", "]", false);
        break;
    }
    rv_syntax_define(r->syntax, r->rules[what], node);
    return r->rules[what];
}

int32_t rv_schema_reader_call_json(struct rv_schema_reader *reader, enum rv_schema_reader_json what)
{
    return rv_syntax_call(reader->syntax, rv_schema_reader_json(reader, what));
}

int32_t rv_schema_reader_constant(struct rv_schema_reader *reader, yyjson_val *value)
{
    size_t len = 0;
    char *text = yyjson_val_write(value, YYJSON_WRITE_NOFLAG, &len);
    int32_t node;

    if (!text) {
        if (!reader->syntax->failed)
            reader->syntax->failed = RUVLLM_NO_MEMORY;
        return 0;
    }
    node = rv_syntax_literal(reader->syntax, text, len);
    free(text); // its own allocator is libc's
    return node;
}
