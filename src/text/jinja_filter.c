/* The filters behind `|`. One that does not fit its operand's type fails; nothing is guessed. */
#include "text/jinja_builtin.h"

#include "text/jinja_container.h"
#include "text/jinja_json.h"
#include "text/jinja_string.h"

#include <math.h>
#include <string.h>

static const struct rv_jinja_args no_args;

/* ---- any value ------------------------------------------------------------------------------ */

static ruvllm_status filter_safe(struct rv_jinja_run *run, struct rv_jinja_value self, const struct rv_jinja_args *args,
                                 struct rv_jinja_value *out)
{
    (void)run;
    (void)args;
    *out = self;
    return RUVLLM_OK;
}

static ruvllm_status filter_default(struct rv_jinja_run *run, struct rv_jinja_value self,
                                    const struct rv_jinja_args *args, struct rv_jinja_value *out)
{
    const struct rv_jinja_value *fallback = rv_jinja_arg(args, 0, "default_value");
    bool any_false = false;
    ruvllm_status rc = rv_jinja_arg_boolean(run, args, 1, "boolean", &any_false);

    *out = self;
    if (self.type == RV_JINJA_T_UNDEFINED || (any_false && !rv_jinja_truth(self)))
        *out = fallback ? *fallback : rv_jinja_text(rv_jinja_literal("", 0));
    return rc;
}

static ruvllm_status filter_string(struct rv_jinja_run *run, struct rv_jinja_value self,
                                   const struct rv_jinja_args *args, struct rv_jinja_value *out)
{
    size_t mark = rv_jinja_mark(run);
    struct rv_jinja_string string;
    ruvllm_status rc;

    (void)args;
    *out = self;
    if (self.type == RV_JINJA_T_STRING)
        return RUVLLM_OK;
    if (self.type == RV_JINJA_T_UNDEFINED || self.type == RV_JINJA_T_NONE)
        return rv_jinja_fail(run, "cannot make a string of %s", rv_jinja_type_name(self));
    rc = rv_jinja_emit_value(run, self);
    if (rc == RUVLLM_OK)
        rc = rv_jinja_cut(run, mark, &string);
    if (rc == RUVLLM_OK)
        *out = rv_jinja_text(string);
    return rc;
}

/* Two strings in a list, as json.dumps takes them. */
static ruvllm_status read_separators(struct rv_jinja_run *run, const struct rv_jinja_args *args,
                                     struct rv_jinja_json_options *options)
{
    const struct rv_jinja_value *arg = rv_jinja_arg(args, 2, "separators");

    if (!arg || arg->type == RV_JINJA_T_NONE)
        return RUVLLM_OK;
    if (arg->type != RV_JINJA_T_LIST || arg->as.list->len != 2 || arg->as.list->items[0].type != RV_JINJA_T_STRING ||
        arg->as.list->items[1].type != RV_JINJA_T_STRING)
        return rv_jinja_fail(run, "separators must be two strings");
    options->item_sep = &arg->as.list->items[0].as.string;
    options->key_sep = &arg->as.list->items[1].as.string;
    return RUVLLM_OK;
}

static ruvllm_status filter_tojson(struct rv_jinja_run *run, struct rv_jinja_value self,
                                   const struct rv_jinja_args *args, struct rv_jinja_value *out)
{
    struct rv_jinja_json_options options = {0};
    struct rv_jinja_string string;
    size_t mark = rv_jinja_mark(run);
    int64_t indent = 0;
    ruvllm_status rc = rv_jinja_arg_boolean(run, args, 0, "ensure_ascii", &options.ascii);

    if (rc == RUVLLM_OK)
        rc = rv_jinja_arg_integer(run, args, 1, "indent", &indent);
    if (rc == RUVLLM_OK)
        rc = read_separators(run, args, &options);
    if (rc == RUVLLM_OK)
        rc = rv_jinja_arg_boolean(run, args, 3, "sort_keys", &options.sort_keys);
    if (rc)
        return rc;
    options.indent = indent < 0 ? 0 : indent > 1000 ? 1000 : (int)indent;
    rc = rv_jinja_json_emit(run, self, &options);
    if (rc == RUVLLM_OK)
        rc = rv_jinja_cut(run, mark, &string);
    if (rc == RUVLLM_OK)
        *out = rv_jinja_text(string);
    return rc;
}

static ruvllm_status filter_from_json(struct rv_jinja_run *run, struct rv_jinja_value self,
                                      const struct rv_jinja_args *args, struct rv_jinja_value *out)
{
    ruvllm_status rc = rv_jinja_want(run, self, RV_JINJA_T_STRING);

    (void)args;
    return rc ? rc : rv_jinja_json_parse(run, self.as.string, out);
}

static ruvllm_status filter_length(struct rv_jinja_run *run, struct rv_jinja_value self,
                                   const struct rv_jinja_args *args, struct rv_jinja_value *out)
{
    (void)args;
    if (self.type == RV_JINJA_T_LIST)
        *out = rv_jinja_integer((int64_t)self.as.list->len);
    else if (self.type == RV_JINJA_T_DICT)
        *out = rv_jinja_integer((int64_t)self.as.dict->len);
    else if (self.type == RV_JINJA_T_STRING)
        *out = rv_jinja_integer((int64_t)rv_jinja_char_count(self.as.string));
    else
        return rv_jinja_fail(run, "%s has no length", rv_jinja_type_name(self));
    return rv_jinja_charge_bytes(run, self.type == RV_JINJA_T_STRING ? self.as.string.len : 0);
}

/* ---- numbers -------------------------------------------------------------------------------- */

/* Digits with a sign at the start of a text, as int('12 apples') of JavaScript reads them. */
static bool leading_integer(struct rv_jinja_string text, int64_t *out)
{
    size_t i = 0;
    bool negative = false, any = false;

    *out = 0;
    while (i < text.len && (text.data[i] == ' ' || (text.data[i] >= '\t' && text.data[i] <= '\r')))
        i++;
    if (i < text.len && (text.data[i] == '-' || text.data[i] == '+'))
        negative = text.data[i++] == '-';
    for (; i < text.len && text.data[i] >= '0' && text.data[i] <= '9'; i++) {
        if (__builtin_mul_overflow(*out, 10, out) || __builtin_add_overflow(*out, text.data[i] - '0', out))
            return false;
        any = true;
    }
    if (negative)
        *out = -*out;
    return any;
}

static ruvllm_status filter_int(struct rv_jinja_run *run, struct rv_jinja_value self, const struct rv_jinja_args *args,
                                struct rv_jinja_value *out)
{
    const struct rv_jinja_value *fallback = rv_jinja_arg(args, 0, "default");
    int64_t integer;
    double real;

    if (self.type == RV_JINJA_T_INTEGER) {
        *out = self;
    } else if (self.type == RV_JINJA_T_STRING) {
        *out = leading_integer(self.as.string, &integer) ? rv_jinja_integer(integer)
               : fallback                                ? *fallback
                                                         : rv_jinja_integer(0);
    } else if (rv_jinja_number(self, &real)) {
        if (!(fabs(real) < 9e18))
            return rv_jinja_fail(run, "a number is too large for an integer");
        *out = rv_jinja_integer((int64_t)real);
    } else {
        return rv_jinja_fail(run, "cannot make an integer of %s", rv_jinja_type_name(self));
    }
    return RUVLLM_OK;
}

static ruvllm_status filter_float(struct rv_jinja_run *run, struct rv_jinja_value self,
                                  const struct rv_jinja_args *args, struct rv_jinja_value *out)
{
    const struct rv_jinja_value *fallback = rv_jinja_arg(args, 0, "default");
    struct rv_jinja_value parsed;
    double real;

    if (rv_jinja_number(self, &real)) {
        *out = rv_jinja_float(real);
        return RUVLLM_OK;
    }
    if (self.type != RV_JINJA_T_STRING)
        return rv_jinja_fail(run, "cannot make a float of %s", rv_jinja_type_name(self));
    *out = fallback ? *fallback : rv_jinja_float(0);
    /* JSON's numbers are what a float is written like; other texts get the default. */
    if (self.as.string.len && self.as.string.len < 64 && strchr("-0123456789", self.as.string.data[0])) {
        ruvllm_status rc = rv_jinja_json_parse(run, self.as.string, &parsed);

        if (rc == RUVLLM_OK && rv_jinja_number(parsed, &real))
            *out = rv_jinja_float(real);
        return rc;
    }
    return RUVLLM_OK;
}

static ruvllm_status filter_abs(struct rv_jinja_run *run, struct rv_jinja_value self, const struct rv_jinja_args *args,
                                struct rv_jinja_value *out)
{
    (void)args;
    if (self.type == RV_JINJA_T_FLOAT)
        *out = rv_jinja_float(fabs(self.as.real));
    else if (self.type == RV_JINJA_T_INTEGER && self.as.integer != INT64_MIN)
        *out = rv_jinja_integer(self.as.integer < 0 ? -self.as.integer : self.as.integer);
    else
        return rv_jinja_fail(run, "cannot take the absolute value of %s", rv_jinja_type_name(self));
    return RUVLLM_OK;
}

static ruvllm_status filter_round(struct rv_jinja_run *run, struct rv_jinja_value self,
                                  const struct rv_jinja_args *args, struct rv_jinja_value *out)
{
    int64_t digits = 0;
    double real, scale;
    ruvllm_status rc = rv_jinja_arg_integer(run, args, 0, "precision", &digits);

    if (rc)
        return rc;
    if (!rv_jinja_number(self, &real) || digits < 0 || digits > 15)
        return rv_jinja_fail(run, "cannot round %s to %lld digits", rv_jinja_type_name(self), (long long)digits);
    scale = pow(10, (double)digits);
    *out = rv_jinja_float(nearbyint(real * scale) / scale);
    return RUVLLM_OK;
}

/* ---- lists ---------------------------------------------------------------------------------- */

static ruvllm_status filter_list(struct rv_jinja_run *run, struct rv_jinja_value self, const struct rv_jinja_args *args,
                                 struct rv_jinja_value *out)
{
    struct rv_jinja_value items;
    ruvllm_status rc = rv_jinja_iterate(run, self, &items);

    (void)args;
    if (rc == RUVLLM_OK)
        rc = rv_jinja_charge(run, items.as.list->len / 8);
    if (rc == RUVLLM_OK)
        rc = rv_jinja_list_new(run, items.as.list->len, out);
    if (rc == RUVLLM_OK && items.as.list->len) {
        memcpy(out->as.list->items, items.as.list->items, items.as.list->len * sizeof(items));
        out->as.list->len = items.as.list->len;
    }
    return rc;
}

static ruvllm_status pick_end(struct rv_jinja_run *run, struct rv_jinja_value self, bool first,
                              struct rv_jinja_value *out)
{
    struct rv_jinja_value items;
    ruvllm_status rc = rv_jinja_iterate(run, self, &items);

    if (rc)
        return rc;
    *out = rv_jinja_undefined();
    if (items.as.list->len)
        *out = items.as.list->items[first ? 0 : items.as.list->len - 1];
    return RUVLLM_OK;
}

static ruvllm_status filter_first(struct rv_jinja_run *run, struct rv_jinja_value self,
                                  const struct rv_jinja_args *args, struct rv_jinja_value *out)
{
    (void)args;
    return pick_end(run, self, true, out);
}

static ruvllm_status filter_last(struct rv_jinja_run *run, struct rv_jinja_value self, const struct rv_jinja_args *args,
                                 struct rv_jinja_value *out)
{
    (void)args;
    return pick_end(run, self, false, out);
}

static ruvllm_status pick_extreme(struct rv_jinja_run *run, struct rv_jinja_value self, int sign,
                                  struct rv_jinja_value *out)
{
    struct rv_jinja_value items;
    ruvllm_status rc = rv_jinja_iterate(run, self, &items);

    *out = rv_jinja_undefined();
    for (size_t i = 0; rc == RUVLLM_OK && i < items.as.list->len; i++) {
        int order = sign;

        rc = rv_jinja_charge(run, 1);
        if (rc == RUVLLM_OK && i)
            rc = rv_jinja_compare(run, items.as.list->items[i], *out, &order);
        if (rc == RUVLLM_OK && (sign > 0 ? order > 0 : order < 0))
            *out = items.as.list->items[i];
    }
    return rc;
}

static ruvllm_status filter_min(struct rv_jinja_run *run, struct rv_jinja_value self, const struct rv_jinja_args *args,
                                struct rv_jinja_value *out)
{
    (void)args;
    return pick_extreme(run, self, -1, out);
}

static ruvllm_status filter_max(struct rv_jinja_run *run, struct rv_jinja_value self, const struct rv_jinja_args *args,
                                struct rv_jinja_value *out)
{
    (void)args;
    return pick_extreme(run, self, 1, out);
}

static ruvllm_status filter_reverse(struct rv_jinja_run *run, struct rv_jinja_value self,
                                    const struct rv_jinja_args *args, struct rv_jinja_value *out)
{
    ruvllm_status rc = filter_list(run, self, args, out);

    for (size_t i = 0; rc == RUVLLM_OK && i < out->as.list->len / 2; i++) {
        struct rv_jinja_value *a = &out->as.list->items[i], *b = &out->as.list->items[out->as.list->len - 1 - i];
        struct rv_jinja_value swap = *a;

        *a = *b;
        *b = swap;
    }
    return rc;
}

static ruvllm_status filter_join(struct rv_jinja_run *run, struct rv_jinja_value self, const struct rv_jinja_args *args,
                                 struct rv_jinja_value *out)
{
    struct rv_jinja_string sep = {.data = ""}, string;
    struct rv_jinja_value items;
    size_t mark;
    ruvllm_status rc = rv_jinja_arg_string(run, args, 0, "d", &sep);

    if (rc == RUVLLM_OK)
        rc = rv_jinja_iterate(run, self, &items);
    mark = rv_jinja_mark(run);
    for (size_t i = 0; rc == RUVLLM_OK && i < items.as.list->len; i++) {
        rc = rv_jinja_charge(run, 1);
        if (rc == RUVLLM_OK && i)
            rc = rv_jinja_emit(run, sep);
        if (rc == RUVLLM_OK)
            rc = rv_jinja_emit_value(run, items.as.list->items[i]);
    }
    if (rc == RUVLLM_OK)
        rc = rv_jinja_cut(run, mark, &string);
    if (rc == RUVLLM_OK)
        *out = rv_jinja_text(string);
    return rc;
}

static ruvllm_status filter_sort(struct rv_jinja_run *run, struct rv_jinja_value self, const struct rv_jinja_args *args,
                                 struct rv_jinja_value *out)
{
    struct rv_jinja_order order = {.attribute = {.data = ""}};
    ruvllm_status rc = rv_jinja_arg_boolean(run, args, 0, "reverse", &order.reverse);

    if (rc == RUVLLM_OK)
        rc = rv_jinja_arg_boolean(run, args, 1, "case_sensitive", &order.case_sensitive);
    if (rc == RUVLLM_OK)
        rc = rv_jinja_arg_string(run, args, 2, "attribute", &order.attribute);
    if (rc == RUVLLM_OK)
        rc = filter_list(run, self, &no_args, out);
    return rc ? rc : rv_jinja_list_sort(run, out->as.list, &order);
}

static ruvllm_status filter_dictsort(struct rv_jinja_run *run, struct rv_jinja_value self,
                                     const struct rv_jinja_args *args, struct rv_jinja_value *out)
{
    struct rv_jinja_order order = {.attribute = rv_jinja_literal("0", 1)};
    struct rv_jinja_string by = rv_jinja_literal("key", 3);
    ruvllm_status rc = rv_jinja_arg_boolean(run, args, 0, "case_sensitive", &order.case_sensitive);

    if (rc == RUVLLM_OK)
        rc = rv_jinja_arg_string(run, args, 1, "by", &by);
    if (rc == RUVLLM_OK)
        rc = rv_jinja_arg_boolean(run, args, 2, "reverse", &order.reverse);
    if (rc == RUVLLM_OK)
        rc = rv_jinja_dict_items(run, self, &no_args, out);
    if (rc)
        return rc;
    if (rv_jinja_string_is(by, "value"))
        order.attribute = rv_jinja_literal("1", 1);
    return rv_jinja_list_sort(run, out->as.list, &order);
}

static ruvllm_status filter_unique(struct rv_jinja_run *run, struct rv_jinja_value self,
                                   const struct rv_jinja_args *args, struct rv_jinja_value *out)
{
    struct rv_jinja_value items;
    ruvllm_status rc = rv_jinja_iterate(run, self, &items);

    (void)args;
    if (rc == RUVLLM_OK)
        rc = rv_jinja_list_new(run, 0, out);
    for (size_t i = 0; rc == RUVLLM_OK && i < items.as.list->len; i++) {
        bool seen = false;

        for (size_t k = 0; rc == RUVLLM_OK && !seen && k < out->as.list->len; k++)
            rc = rv_jinja_equal(run, items.as.list->items[i], out->as.list->items[k], &seen);
        if (rc == RUVLLM_OK && !seen)
            rc = rv_jinja_list_push(run, out->as.list, items.as.list->items[i]);
    }
    return rc;
}

/* ---- filters that apply others -------------------------------------------------------------- */

static struct rv_jinja_args args_after(const struct rv_jinja_args *args, size_t n)
{
    struct rv_jinja_args rest = *args;

    if (n > args->n_positional)
        n = args->n_positional;
    if (n == 0)
        return rest;
    rest.values += n;
    rest.n_positional -= n;
    rest.n -= n;
    return rest;
}

static ruvllm_status filter_map(struct rv_jinja_run *run, struct rv_jinja_value self, const struct rv_jinja_args *args,
                                struct rv_jinja_value *out)
{
    const struct rv_jinja_value *fallback = rv_jinja_arg(args, SIZE_MAX, "default");
    const struct rv_jinja_builtin *filter = NULL;
    struct rv_jinja_args rest = args_after(args, 1);
    struct rv_jinja_string name = {.data = NULL}, attribute = {.data = NULL};
    struct rv_jinja_value items, item;
    ruvllm_status rc = rv_jinja_arg_string(run, args, SIZE_MAX, "attribute", &attribute);

    if (rc == RUVLLM_OK && !attribute.data) {
        rc = rv_jinja_arg_string(run, args, 0, NULL, &name);
        filter = name.data ? rv_jinja_builtin_find(RV_JINJA_FILTERS, name.data, name.len) : NULL;
        if (rc == RUVLLM_OK && (!filter || filter->fn == filter_map))
            return rv_jinja_fail(run, "map needs an attribute or the name of a filter");
    }
    if (rc == RUVLLM_OK)
        rc = rv_jinja_iterate(run, self, &items);
    if (rc == RUVLLM_OK)
        rc = rv_jinja_list_new(run, items.as.list->len, out);
    for (size_t i = 0; rc == RUVLLM_OK && i < items.as.list->len; i++) {
        rc = rv_jinja_charge(run, 1);
        item = items.as.list->items[i];
        if (rc == RUVLLM_OK && filter)
            rc = filter->fn(run, item, &rest, &item);
        else
            item = rv_jinja_attribute(run, item, attribute);
        if (item.type == RV_JINJA_T_UNDEFINED && fallback)
            item = *fallback;
        if (rc == RUVLLM_OK)
            rc = rv_jinja_list_push(run, out->as.list, item);
    }
    return rc;
}

/* select, reject, selectattr, rejectattr: keep the items (by an attribute) for which a test holds, or not. */
static ruvllm_status select_items(struct rv_jinja_run *run, struct rv_jinja_value self,
                                  const struct rv_jinja_args *args, bool by_attribute, bool keep,
                                  struct rv_jinja_value *out)
{
    const struct rv_jinja_builtin *test = NULL;
    struct rv_jinja_string attribute = {.data = NULL}, name = {.data = NULL};
    struct rv_jinja_args rest = args_after(args, by_attribute ? 2 : 1);
    struct rv_jinja_value items;
    ruvllm_status rc = rv_jinja_arg_string(run, args, by_attribute ? 1 : 0, NULL, &name);

    if (rc == RUVLLM_OK && by_attribute)
        rc = rv_jinja_arg_string(run, args, 0, NULL, &attribute);
    if (rc == RUVLLM_OK && by_attribute && !attribute.data)
        return rv_jinja_fail(run, "selectattr and rejectattr need an attribute");
    if (rc == RUVLLM_OK && name.data) {
        test = rv_jinja_builtin_find(RV_JINJA_TESTS, name.data, name.len);
        if (!test)
            return rv_jinja_fail(run, "there is no test '%.*s'", (int)(name.len < 40 ? name.len : 40), name.data);
    }
    if (rc == RUVLLM_OK)
        rc = rv_jinja_iterate(run, self, &items);
    if (rc == RUVLLM_OK)
        rc = rv_jinja_list_new(run, 0, out);
    for (size_t i = 0; rc == RUVLLM_OK && i < items.as.list->len; i++) {
        struct rv_jinja_value subject = items.as.list->items[i];

        rc = rv_jinja_charge(run, 1);
        if (by_attribute)
            subject = rv_jinja_attribute(run, subject, attribute);
        if (rc == RUVLLM_OK && test)
            rc = test->fn(run, subject, &rest, &subject);
        if (rc == RUVLLM_OK && rv_jinja_truth(subject) == keep)
            rc = rv_jinja_list_push(run, out->as.list, items.as.list->items[i]);
    }
    return rc;
}

static ruvllm_status filter_select(struct rv_jinja_run *run, struct rv_jinja_value self,
                                   const struct rv_jinja_args *args, struct rv_jinja_value *out)
{
    return select_items(run, self, args, false, true, out);
}

static ruvllm_status filter_reject(struct rv_jinja_run *run, struct rv_jinja_value self,
                                   const struct rv_jinja_args *args, struct rv_jinja_value *out)
{
    return select_items(run, self, args, false, false, out);
}

static ruvllm_status filter_selectattr(struct rv_jinja_run *run, struct rv_jinja_value self,
                                       const struct rv_jinja_args *args, struct rv_jinja_value *out)
{
    return select_items(run, self, args, true, true, out);
}

static ruvllm_status filter_rejectattr(struct rv_jinja_run *run, struct rv_jinja_value self,
                                       const struct rv_jinja_args *args, struct rv_jinja_value *out)
{
    return select_items(run, self, args, true, false, out);
}

const struct rv_jinja_builtin rv_jinja_filters[] = {
    {"abs", filter_abs},
    {"capitalize", rv_jinja_string_capitalize},
    {"count", filter_length},
    {"default", filter_default},
    {"dictsort", filter_dictsort},
    {"first", filter_first},
    {"float", filter_float},
    {"from_json", filter_from_json},
    {"indent", rv_jinja_string_indent},
    {"int", filter_int},
    {"items", rv_jinja_dict_items},
    {"join", filter_join},
    {"last", filter_last},
    {"length", filter_length},
    {"list", filter_list},
    {"lower", rv_jinja_string_lower},
    {"map", filter_map},
    {"max", filter_max},
    {"min", filter_min},
    {"reject", filter_reject},
    {"rejectattr", filter_rejectattr},
    {"replace", rv_jinja_string_replace},
    {"reverse", filter_reverse},
    {"round", filter_round},
    {"safe", filter_safe},
    {"select", filter_select},
    {"selectattr", filter_selectattr},
    {"sort", filter_sort},
    {"string", filter_string},
    {"title", rv_jinja_string_title},
    {"tojson", filter_tojson},
    {"trim", rv_jinja_string_strip},
    {"unique", filter_unique},
    {"upper", rv_jinja_string_upper},
    {NULL, NULL},
};
