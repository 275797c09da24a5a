/*
 * An object is a chain: for each property a rule of what the members may be from it on, and one of what may follow once
 * something stands before it. Which comes next may be any up to the first that is required. Where members are counted
 * there is such a chain for each count.
 *
 * JSON lets a name stand twice, and then it is one property. Named properties come once; of further ones, however many
 * are written, only one counts towards the least there must be.
 */
#include "sample/schema_object.h"

#include "base/utf8.h"
#include "sample/schema_string.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_PARTS = 64,        // schemas joined by "allOf"
    MAX_PROPERTIES = 2000, // of an object: they are compared with each other
    MAX_COUNTED = 4096     // properties times counts: each is a rule or two
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
    int32_t other;    // rule of a further pair; -1: there are none
    int32_t min, max; // members; max is -1: any number
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
    int32_t count;

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
    if (rv_schema_string_count(o->r, part, path, "minProperties", &count) && count > o->min)
        o->min = count;
    if (rv_schema_string_count(o->r, part, path, "maxProperties", &count) && (o->max < 0 || count < o->max))
        o->max = count;
}

static bool is_object_keyword(const char *keyword)
{
    static const char *const known[] = {"type",          "properties",    "required", "additionalProperties",
                                        "allOf",         "propertyNames", "$ref",     "unevaluatedProperties",
                                        "minProperties", "maxProperties"};

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

/* What counting keeps apart: where the next property is and how many members stand before it. */
struct chain {
    struct object *o;
    size_t n_counts;         // 0 and up; where nothing is counted beyond the last, it means that many or more
    int32_t *members, *tail; // rules of the row of properties that was written last, by count; -1: impossible
};

static bool is_full(const struct object *o, size_t count)
{
    return o->max >= 0 && count >= (size_t)o->max;
}

/* Further pairs, one at least. */
static int32_t write_others(struct object *o, size_t count)
{
    struct rv_syntax *s = o->r->syntax;
    int32_t rule, seq;

    if (o->other < 0 || is_full(o, count) || count + 1 < (size_t)o->min)
        return -1;
    rule = rv_syntax_rule(s);
    seq = rv_syntax_seq(s);
    rv_syntax_add(s, seq, rv_syntax_call(s, o->other));
    rv_syntax_add(s, seq, rv_syntax_repeat(s, next_of(o, o->other), 0, o->max < 0 ? -1 : o->max - (int32_t)count - 1));
    rv_syntax_define(s, rule, seq);
    return rule;
}

/* The members from a property on, one at least; the chain is at the next one. */
static int32_t write_from(struct chain *c, const struct property *p, size_t count)
{
    struct rv_syntax *s = c->o->r->syntax;
    size_t more = count + 1 < c->n_counts ? count + 1 : count;
    bool may_be_there = !is_full(c->o, count) && c->tail[more] >= 0;
    bool may_be_missing = !p->is_required && c->members[count] >= 0;
    int32_t rule, ways;

    if (!may_be_there && !may_be_missing)
        return -1;
    rule = rv_syntax_rule(s);
    ways = rv_syntax_alt(s);
    if (may_be_there) {
        int32_t way = rv_syntax_seq(s);

        rv_syntax_add(s, way, rv_syntax_call(s, p->pair));
        rv_syntax_add(s, way, rv_syntax_call(s, c->tail[more]));
        rv_syntax_add(s, ways, way);
    }
    if (may_be_missing)
        rv_syntax_add(s, ways, rv_syntax_call(s, c->members[count]));
    rv_syntax_define(s, rule, ways);
    return rule;
}

/*
 * What follows once something is there. The comma and the space behind it are written once for all that may come next:
 * there may be a thousand.
 */
static int32_t write_tail(struct chain *c, size_t count, bool may_end)
{
    struct rv_syntax *s = c->o->r->syntax;
    int32_t members = c->members[count], rule, next;

    if (members < 0 && !may_end)
        return -1;
    rule = rv_syntax_rule(s);
    next = members < 0 ? rv_syntax_seq(s) : next_of(c->o, members);
    rv_syntax_define(s, rule, members >= 0 && may_end ? rv_syntax_repeat(s, next, 0, 1) : next);
    return rule;
}

/* Takes away bounds that say nothing, and refuses those that cannot be kept. */
static void check_counts(struct object *o)
{
    size_t n_required = 0;

    for (size_t i = 0; i < o->n; i++)
        n_required += o->properties[i].is_required;
    if (o->max >= 0 && (size_t)o->max < n_required)
        rv_schema_reader_fail(o->r, o->path, "'maxProperties' is less than are required");
    else if (o->max >= 0 && o->min > o->max)
        rv_schema_reader_fail(o->r, o->path, "'minProperties' is more than 'maxProperties'");
    else if ((size_t)o->min > o->n && o->other < 0)
        rv_schema_reader_fail(o->r, o->path, "'minProperties' is more than there may be");
    else if ((size_t)o->min > o->n + 1)
        rv_schema_reader_fail(o->r, o->path, "'minProperties' is supported up to one more than are named");
    if ((size_t)o->min <= n_required)
        o->min = 0;
    if (o->max >= 0 && o->other < 0 && (size_t)o->max >= o->n)
        o->max = -1;
}

static bool init_chain(struct chain *c, struct object *o)
{
    size_t most = (size_t)(o->max >= 0 ? o->max : o->min);

    c->o = o;
    c->n_counts = (most < o->n ? most : o->n) + 1;
    if (c->n_counts > 1 && c->n_counts * (o->n + 1) > MAX_COUNTED) {
        rv_schema_reader_fail(o->r, o->path, "'%s' of so many properties is not supported",
                              o->max >= 0 ? "maxProperties" : "minProperties");
        return false;
    }
    c->members = rv_arena_calloc(&o->r->arena, 2 * c->n_counts, sizeof(*c->members));
    if (!c->members) {
        o->r->failed = rv_fail(o->r->err, RUVLLM_NO_MEMORY, "cannot allocate the schema's properties");
        return false;
    }
    c->tail = c->members + c->n_counts;
    return true;
}

/* The rule of the members, when there are any, from the last property on; -1: there can be none. */
static int32_t write_members(struct object *o, bool *may_be_empty)
{
    struct chain c;
    bool are_free = true; // nothing that comes is required

    check_counts(o);
    if (o->r->failed || !init_chain(&c, o))
        return -1;
    for (size_t i = o->n + 1; i > 0 && !o->r->syntax->failed; i--) {
        const struct property *p = i > o->n ? NULL : &o->properties[i - 1];
        size_t end = i < c.n_counts ? i : c.n_counts; // there are no more before it

        /* The row of the next one is written over: the members look at their own place and at the tails. */
        for (size_t count = 0; count < end; count++)
            c.members[count] = p ? write_from(&c, p, count) : write_others(o, count);
        are_free = are_free && !(p && p->is_required);
        for (size_t count = c.n_counts > 1; count < end; count++)
            c.tail[count] = write_tail(&c, count, are_free && count >= (size_t)o->min);
    }
    *may_be_empty = are_free && o->min == 0;
    return c.members[0];
}

int32_t rv_schema_object_write(struct rv_schema_reader *reader, yyjson_val *schema, const char *path)
{
    struct rv_syntax *s = reader->syntax;
    struct object o = {.r = reader, .path = path, .max = -1};
    int32_t whole = rv_syntax_seq(s), members = rv_syntax_seq(s), rule;
    bool may_be_empty = true;

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
    rule = write_members(&o, &may_be_empty);
    if (reader->failed || s->failed)
        return 0;
    rv_syntax_add(s, whole, rv_schema_reader_text(reader, "{"));
    rv_syntax_add(s, whole, rv_schema_reader_call_json(reader, RV_SCHEMA_JSON_SPACE));
    if (rule >= 0) {
        rv_syntax_add(s, members, rv_syntax_call(s, rule));
        rv_syntax_add(s, members, rv_schema_reader_call_json(reader, RV_SCHEMA_JSON_SPACE));
        rv_syntax_add(s, whole, may_be_empty ? rv_syntax_repeat(s, members, 0, 1) : members);
    }
    rv_syntax_add(s, whole, rv_schema_reader_text(reader, "}"));
    return whole;
}
