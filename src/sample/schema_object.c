/*
 * An object is a chain: for each property a rule of what the members may be from it on, and one of what may follow once
 * something stands before it. Which comes next may be any up to the first that is required.
 */
#include "sample/schema_object.h"

#include "base/utf8.h"
#include "sample/schema_string.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_PARTS = 64,       // schemas joined by "allOf"
    MAX_PROPERTIES = 2000 // of an object: they are compared with each other
};

struct property {
    const char *name;
    size_t len;
    yyjson_val *schema; // NULL: anything
    const char *path;
    bool is_required;
    int32_t pair; // rule
};

struct object {
    struct rv_schema_reader *r;
    const char *path;
    struct property *properties;
    size_t n, cap;
    yyjson_val *others; // schema of further ones; NULL: not said
    yyjson_val *names;  // schema of their names; NULL: any
    bool is_closed;
    int32_t other; // rule of a further pair; -1: there are none
};

/* ---- gathering ------------------------------------------------------------------------------------------ */

static struct property *find_property(struct object *o, const char *name, size_t len)
{
    for (size_t i = 0; i < o->n; i++)
        if (o->properties[i].len == len && memcmp(o->properties[i].name, name, len) == 0)
            return &o->properties[i];
    return NULL;
}

static void add_property(struct object *o, const char *name, size_t len, yyjson_val *schema, const char *path)
{
    if (o->r->failed)
        return;
    RV_ASSERT(o->n < o->cap);
    o->properties[o->n++] = (struct property){.name = name, .len = len, .schema = schema, .path = path};
}

static void gather_properties(struct object *o, yyjson_val *list, const char *path)
{
    yyjson_obj_iter iter = yyjson_obj_iter_with(list);
    yyjson_val *key;

    if (list && !yyjson_is_obj(list))
        rv_schema_reader_fail(o->r, path, "'properties' must be an object");
    while (!o->r->failed && (key = yyjson_obj_iter_next(&iter))) {
        const char *name = yyjson_get_str(key);
        size_t len = yyjson_get_len(key);

        if (find_property(o, name, len))
            rv_schema_reader_fail(o->r, path, "the property \"%.40s\" is described twice, which is not supported",
                                  name);
        add_property(o, name, len, yyjson_obj_iter_get_val(key),
                     rv_schema_reader_path(o->r, rv_schema_reader_path(o->r, path, "properties", 10), name, len));
    }
}

static void gather_required(struct object *o, yyjson_val *list, const char *path)
{
    yyjson_arr_iter iter = yyjson_arr_iter_with(list);
    yyjson_val *name;

    if (list && !yyjson_is_arr(list))
        rv_schema_reader_fail(o->r, path, "'required' must be an array");
    while (!o->r->failed && (name = yyjson_arr_iter_next(&iter))) {
        struct property *property;

        if (!yyjson_is_str(name)) {
            rv_schema_reader_fail(o->r, path, "'required' must hold strings");
            return;
        }
        property = find_property(o, yyjson_get_str(name), yyjson_get_len(name));
        if (!property) {
            add_property(o, yyjson_get_str(name), yyjson_get_len(name), NULL, path);
            property = &o->properties[o->n - 1];
        }
        property->is_required = true;
    }
}

/* One of the schemas that together describe the object. */
static void gather_limits(struct object *o, yyjson_val *part, const char *path, size_t n_parts)
{
    yyjson_val *others = yyjson_obj_get(part, "additionalProperties"), *names = yyjson_obj_get(part, "propertyNames");
    yyjson_val *type = yyjson_obj_get(part, "type"), *rest = yyjson_obj_get(part, "unevaluatedProperties");

    if (type && !yyjson_equals_str(type, "object") && n_parts > 1)
        rv_schema_reader_fail(o->r, path, "'allOf' is supported for objects only");
    if (rest && !yyjson_is_false(rest))
        rv_schema_reader_fail(o->r, path, "'unevaluatedProperties' is supported only as false");
    if (others && n_parts > 1 && (!yyjson_is_false(others) || yyjson_obj_get(part, "properties")))
        rv_schema_reader_fail(o->r, path, "'additionalProperties' inside 'allOf' is not supported");
    o->is_closed |= yyjson_is_false(others) || rest;
    if (others && !yyjson_is_false(others))
        o->others = others;
    if (names && o->names)
        rv_schema_reader_fail(o->r, path, "'propertyNames' twice inside 'allOf' is not supported");
    if (names)
        o->names = names;
}

static bool is_object_keyword(const char *keyword)
{
    static const char *const known[] = {"type",  "properties",    "required", "additionalProperties",
                                        "allOf", "propertyNames", "$ref",     "unevaluatedProperties"};

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(keyword, known[i]) == 0)
            return true;
    return rv_schema_reader_is_note(keyword);
}

/* The schema and, through "allOf" and "$ref", all that are to hold with it. */
static size_t list_parts(struct object *o, yyjson_val *schema, yyjson_val *parts[MAX_PARTS])
{
    size_t n = 1;

    parts[0] = schema;
    for (size_t i = 0; i < n && !o->r->failed; i++) {
        yyjson_val *all = yyjson_obj_get(parts[i], "allOf"), *part, *key;
        yyjson_obj_iter keys = yyjson_obj_iter_with(parts[i]);
        yyjson_arr_iter iter = yyjson_arr_iter_with(all);

        while (i > 0 && (key = yyjson_obj_iter_next(&keys)))
            if (!is_object_keyword(yyjson_get_str(key)))
                rv_schema_reader_fail(o->r, o->path, "'%.40s' inside 'allOf' is not supported", yyjson_get_str(key));
        if (i > 0 && !yyjson_is_obj(parts[i]))
            rv_schema_reader_fail(o->r, o->path, "'allOf' is supported for objects only");
        while (!o->r->failed && (part = yyjson_arr_iter_next(&iter))) {
            part = rv_schema_reader_follow(o->r, part, o->path);
            if (part && n == MAX_PARTS)
                rv_schema_reader_fail(o->r, o->path, "'allOf' joins more than %d schemas", MAX_PARTS);
            else if (part)
                parts[n++] = part;
        }
    }
    return n;
}

static bool gather(struct object *o, yyjson_val *schema)
{
    yyjson_val *parts[MAX_PARTS];
    size_t n = list_parts(o, schema, parts);

    for (size_t i = 0; i < n && !o->r->failed; i++)
        o->cap += yyjson_obj_size(yyjson_obj_get(parts[i], "properties")) +
                  yyjson_arr_size(yyjson_obj_get(parts[i], "required"));
    if (o->cap > MAX_PROPERTIES)
        rv_schema_reader_fail(o->r, o->path, "it has more than %d properties", MAX_PROPERTIES);
    if (o->r->failed)
        return false;
    o->properties = rv_arena_calloc(&o->r->arena, o->cap + 1, sizeof(*o->properties));
    if (!o->properties) {
        o->r->failed = rv_fail(o->r->err, RUVLLM_NO_MEMORY, "cannot allocate the schema's properties");
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        gather_properties(o, yyjson_obj_get(parts[i], "properties"), o->path);
        gather_limits(o, parts[i], o->path, n);
    }
    for (size_t i = 0; i < n; i++) // once every property is known
        gather_required(o, yyjson_obj_get(parts[i], "required"), o->path);
    return !o->r->failed;
}

/* ---- names of further properties ------------------------------------------------------------------------- */

static bool are_strings(yyjson_val *names)
{
    yyjson_val *type = yyjson_obj_get(names, "type"), *constant = yyjson_obj_get(names, "const"), *one;
    yyjson_arr_iter iter = yyjson_arr_iter_with(yyjson_obj_get(names, "enum"));

    if (!yyjson_is_obj(names) || (type && !yyjson_equals_str(type, "string")) || (constant && !yyjson_is_str(constant)))
        return false;
    while ((one = yyjson_arr_iter_next(&iter)))
        if (!yyjson_is_str(one))
            return false;
    return true;
}

/*
 * What names are said to be is written for those of further properties, where there are no others; every name is a
 * string, so that much may be said of the others too.
 */
static void check_names(struct object *o)
{
    static const char *const counted[] = {"type", "minLength", "maxLength", "pattern", "format"};
    static const char *const listed[] = {"type", "enum", "const"};
    yyjson_obj_iter iter = yyjson_obj_iter_with(o->names);
    yyjson_val *key;
    bool is_list = yyjson_obj_get(o->names, "enum") || yyjson_obj_get(o->names, "const");

    if (!o->names)
        return;
    if (!are_strings(o->names))
        rv_schema_reader_fail(o->r, o->path, "'propertyNames' must describe strings");
    while ((key = yyjson_obj_iter_next(&iter)) && !o->r->failed) {
        const char *name = yyjson_get_str(key);
        bool is_known = rv_schema_reader_is_note(name);

        for (size_t i = 0; i < (is_list ? 3 : 5); i++)
            is_known |= strcmp(name, is_list ? listed[i] : counted[i]) == 0;
        if (!is_known)
            rv_schema_reader_fail(o->r, o->path, "'%.40s' inside 'propertyNames' is not supported", name);
        else if (o->n > 0 && strcmp(name, "type") != 0 && !rv_schema_reader_is_note(name))
            rv_schema_reader_fail(o->r, o->path, "'propertyNames' beside 'properties' is not supported");
    }
}

/* Names that begin with the same `depth` bytes, sorted: what a name must not become. */
struct fork {
    size_t first, end, depth;
    int32_t rule;
};

static int compare_names(const void *a, const void *b)
{
    const struct property *x = *(const struct property *const *)a, *y = *(const struct property *const *)b;
    size_t len = x->len < y->len ? x->len : y->len;
    int order = len ? memcmp(x->name, y->name, len) : 0;

    return order ? order : x->len < y->len ? -1 : x->len > y->len;
}

/* A character of a name, by itself: no escapes, so that a name has one spelling. */
static int32_t plain_char(struct rv_syntax *s, const struct rv_syntax_range *taken, size_t n)
{
    struct rv_syntax_range except[64 + 3] = {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};

    if (n > 64) {
        s->failed = s->failed ? s->failed : RUVLLM_TOO_LARGE;
        return 0;
    }
    if (n)
        memcpy(except + 3, taken, n * sizeof(*taken));
    return rv_syntax_class_except(s, except, n + 3);
}

static int32_t close_name(struct object *o)
{
    return rv_schema_reader_text(o->r, "\"");
}

/* From here on anything may come. */
static int32_t free_name(struct object *o)
{
    struct rv_syntax *s = o->r->syntax;
    int32_t rule = rv_syntax_rule(s), seq = rv_syntax_seq(s);

    rv_syntax_add(s, seq, rv_syntax_repeat(s, plain_char(s, NULL, 0), 0, -1));
    rv_syntax_add(s, seq, close_name(o));
    rv_syntax_define(s, rule, seq);
    return rule;
}

/* Writes the rule of a fork; forks that follow from it are added to the list. */
static void write_fork(struct object *o, const struct property *const *names, struct fork fork, struct fork *forks,
                       size_t *n_forks, int32_t free_rule)
{
    struct rv_syntax *s = o->r->syntax;
    int32_t ways = rv_syntax_alt(s), other = rv_syntax_seq(s);
    struct rv_syntax_range taken[64];
    bool is_name = names[fork.first]->len == fork.depth; // sorted: the shortest is first
    size_t n_taken = 0, i = fork.first + is_name;

    while (i < fork.end && !s->failed) {
        uint32_t cp = 0;
        int len = rv_utf8_decode(names[i]->name + fork.depth, names[i]->len - fork.depth, &cp);
        struct fork next = {.first = i, .depth = fork.depth + (size_t)(len > 0 ? len : 1), .rule = rv_syntax_rule(s)};
        int32_t way = rv_syntax_seq(s);

        while (i < fork.end && names[i]->len >= next.depth &&
               memcmp(names[i]->name + fork.depth, names[next.first]->name + fork.depth, next.depth - fork.depth) == 0)
            i++;
        next.end = i;
        if (n_taken == 64) {
            s->failed = RUVLLM_TOO_LARGE;
            return;
        }
        taken[n_taken] = (struct rv_syntax_range){cp, cp};
        rv_syntax_add(s, way, rv_syntax_class(s, &taken[n_taken++], 1));
        rv_syntax_add(s, way, rv_syntax_call(s, next.rule));
        rv_syntax_add(s, ways, way);
        forks[(*n_forks)++] = next;
    }
    rv_syntax_add(s, other, plain_char(s, taken, n_taken));
    rv_syntax_add(s, other, rv_syntax_call(s, free_rule));
    rv_syntax_add(s, ways, other);
    if (!is_name)
        rv_syntax_add(s, ways, close_name(o));
    rv_syntax_define(s, fork.rule, ways);
}

/* The inside of a name that is none of the properties', and its closing quote. */
static int32_t other_name(struct object *o)
{
    const struct property **names = rv_arena_calloc(&o->r->arena, o->n + 1, sizeof(*names));
    struct fork *forks;
    size_t n_forks = 1, room = 2;
    int32_t free_rule = free_name(o);

    for (size_t i = 0; i < o->n && names; i++) {
        names[i] = &o->properties[i];
        room += o->properties[i].len;
    }
    forks = rv_arena_calloc(&o->r->arena, room, sizeof(*forks));
    if (!names || !forks) {
        o->r->syntax->failed = RUVLLM_TOO_LARGE;
        return 0;
    }
    if (o->n == 0)
        return free_rule;
    qsort(names, o->n, sizeof(*names), compare_names);
    forks[0] = (struct fork){.first = 0, .end = o->n, .depth = 0, .rule = rv_syntax_rule(o->r->syntax)};
    for (size_t i = 0; i < n_forks && !o->r->syntax->failed; i++)
        write_fork(o, names, forks[i], forks, &n_forks, free_rule);
    return forks[0].rule;
}

/* ---- writing ---------------------------------------------------------------------------------------------- */

static void add_value(struct object *o, int32_t seq, yyjson_val *schema, const char *path)
{
    struct rv_syntax *s = o->r->syntax;

    rv_syntax_add(s, seq, rv_schema_reader_text(o->r, ":"));
    rv_syntax_add(s, seq, rv_schema_reader_call_json(o->r, RV_SCHEMA_JSON_SPACE));
    rv_syntax_add(s, seq,
                  schema ? rv_schema_reader_call(o->r, schema, path)
                         : rv_schema_reader_call_json(o->r, RV_SCHEMA_JSON_VALUE));
}

static void write_pairs(struct object *o)
{
    struct rv_syntax *s = o->r->syntax;

    for (size_t i = 0; i < o->n && !o->r->failed; i++) {
        struct property *p = &o->properties[i];
        yyjson_val name = {0};
        int32_t seq = rv_syntax_seq(s);

        (void)yyjson_set_strn(&name, p->name, p->len);
        rv_syntax_add(s, seq, rv_schema_reader_constant(o->r, &name));
        add_value(o, seq, p->schema ? p->schema : o->others, p->path);
        p->pair = rv_syntax_rule(s);
        rv_syntax_define(s, p->pair, seq);
    }
}

static void write_other(struct object *o)
{
    struct rv_syntax *s = o->r->syntax;
    bool is_any = !o->is_closed && !o->others && o->n == 0;
    yyjson_val *names = o->names;
    int32_t seq;

    o->other = -1;
    if (o->is_closed || (!o->others && !is_any))
        return;
    seq = rv_syntax_seq(s);
    if (names && o->n == 0) {
        rv_syntax_add(s, seq,
                      yyjson_obj_get(names, "enum") || yyjson_obj_get(names, "const")
                          ? rv_schema_reader_call(o->r, names, o->path)
                          : rv_schema_string_write(o->r, names, o->path));
    } else {
        rv_syntax_add(s, seq, rv_schema_reader_text(o->r, "\""));
        rv_syntax_add(s, seq, rv_syntax_call(s, other_name(o)));
    }
    add_value(o, seq, o->others, rv_schema_reader_path(o->r, o->path, "additionalProperties", 20));
    o->other = rv_syntax_rule(s);
    rv_syntax_define(s, o->other, seq);
}

/* A comma, and what a rule says. */
static int32_t next_of(struct object *o, int32_t rule)
{
    struct rv_syntax *s = o->r->syntax;
    int32_t seq = rv_syntax_seq(s);

    rv_syntax_add(s, seq, rv_schema_reader_text(o->r, ","));
    rv_syntax_add(s, seq, rv_schema_reader_call_json(o->r, RV_SCHEMA_JSON_SPACE));
    rv_syntax_add(s, seq, rv_syntax_call(s, rule));
    return seq;
}

/* Further pairs, once all properties are behind: some, or (may_be_none) any number after a comma. */
static int32_t write_others(struct object *o, bool may_be_none)
{
    struct rv_syntax *s = o->r->syntax;
    int32_t rule = rv_syntax_rule(s), seq = rv_syntax_seq(s);

    if (o->other < 0) {
        rv_syntax_define(s, rule, may_be_none ? seq : rv_syntax_alt(s));
        return rule;
    }
    if (!may_be_none)
        rv_syntax_add(s, seq, rv_syntax_call(s, o->other));
    rv_syntax_add(s, seq, rv_syntax_repeat(s, next_of(o, o->other), 0, -1));
    rv_syntax_define(s, rule, seq);
    return rule;
}

/*
 * The members, when there are any. For each property, from the last on, two rules: what the members are when none of
 * those before it is there, and what follows one of those before it. The comma and the space behind it are written once
 * for all that may come next: there may be a thousand.
 */
static int32_t write_members(struct object *o, bool *may_be_empty)
{
    struct rv_syntax *s = o->r->syntax;
    int32_t members = write_others(o, false), tail = write_others(o, true);

    *may_be_empty = true;
    for (size_t i = o->n; i > 0 && !s->failed; i--) {
        int32_t rule = rv_syntax_rule(s), ways = rv_syntax_alt(s), way = rv_syntax_seq(s), next;

        rv_syntax_add(s, way, rv_syntax_call(s, o->properties[i - 1].pair));
        rv_syntax_add(s, way, rv_syntax_call(s, tail));
        rv_syntax_add(s, ways, way);
        if (!o->properties[i - 1].is_required)
            rv_syntax_add(s, ways, rv_syntax_call(s, members));
        rv_syntax_define(s, rule, ways);
        members = rule;
        *may_be_empty = *may_be_empty && !o->properties[i - 1].is_required;
        next = next_of(o, members);
        tail = rv_syntax_rule(s);
        rv_syntax_define(s, tail, *may_be_empty ? rv_syntax_repeat(s, next, 0, 1) : next);
    }
    return rv_syntax_call(s, members);
}

int32_t rv_schema_object_write(struct rv_schema_reader *reader, yyjson_val *schema, const char *path)
{
    struct rv_syntax *s = reader->syntax;
    struct object o = {.r = reader, .path = path};
    int32_t whole = rv_syntax_seq(s), members = rv_syntax_seq(s);
    bool may_be_empty;

    if (!gather(&o, schema))
        return 0;
    for (size_t i = 0; i < o.n; i++)
        if (!o.properties[i].schema && o.is_closed)
            rv_schema_reader_fail(reader, path, "\"%.40s\" is required, but no such property may be there",
                                  o.properties[i].name);
    check_names(&o);
    write_pairs(&o);
    write_other(&o);
    if (reader->failed || s->failed)
        return 0;
    rv_syntax_add(s, members, write_members(&o, &may_be_empty));
    rv_syntax_add(s, members, rv_schema_reader_call_json(reader, RV_SCHEMA_JSON_SPACE));
    rv_syntax_add(s, whole, rv_schema_reader_text(reader, "{"));
    rv_syntax_add(s, whole, rv_schema_reader_call_json(reader, RV_SCHEMA_JSON_SPACE));
    rv_syntax_add(s, whole, may_be_empty ? rv_syntax_repeat(s, members, 0, 1) : members);
    rv_syntax_add(s, whole, rv_schema_reader_text(reader, "}"));
    return whole;
}
