/* The tests behind `is`. */
#include "text/jinja_builtin.h"

#include "text/jinja_string.h"

#include <string.h>

/* Defines a test that only looks at the type and value of `self`. */
#define SIMPLE_TEST(name, condition)                                                                                   \
    static ruvllm_status name(struct rv_jinja_run *run, struct rv_jinja_value self, const struct rv_jinja_args *args,  \
                              struct rv_jinja_value *out)                                                              \
    {                                                                                                                  \
        (void)run;                                                                                                     \
        (void)args;                                                                                                    \
        *out = rv_jinja_boolean(condition);                                                                            \
        return RUVLLM_OK;                                                                                              \
    }

SIMPLE_TEST(is_boolean, self.type == RV_JINJA_T_BOOLEAN)
SIMPLE_TEST(is_callable, self.type == RV_JINJA_T_FUNCTION)
SIMPLE_TEST(is_defined, self.type != RV_JINJA_T_UNDEFINED)
SIMPLE_TEST(is_false, self.type == RV_JINJA_T_BOOLEAN && !self.as.boolean)
SIMPLE_TEST(is_float, self.type == RV_JINJA_T_FLOAT)
SIMPLE_TEST(is_integer, self.type == RV_JINJA_T_INTEGER)
SIMPLE_TEST(is_iterable, self.type == RV_JINJA_T_LIST || self.type == RV_JINJA_T_STRING || self.type == RV_JINJA_T_DICT)
SIMPLE_TEST(is_mapping, self.type == RV_JINJA_T_DICT)
SIMPLE_TEST(is_none, self.type == RV_JINJA_T_NONE)
SIMPLE_TEST(is_number, self.type == RV_JINJA_T_INTEGER || self.type == RV_JINJA_T_FLOAT)
SIMPLE_TEST(is_string, self.type == RV_JINJA_T_STRING)
SIMPLE_TEST(is_true, self.type == RV_JINJA_T_BOOLEAN && self.as.boolean)
SIMPLE_TEST(is_undefined, self.type == RV_JINJA_T_UNDEFINED)

static ruvllm_status divisible(struct rv_jinja_run *run, struct rv_jinja_value self, int64_t by, bool *out)
{
    ruvllm_status rc = rv_jinja_want(run, self, RV_JINJA_T_INTEGER);

    if (rc)
        return rc;
    if (by == 0)
        return rv_jinja_fail(run, "cannot divide by zero");
    *out = by == -1 || self.as.integer % by == 0;
    return RUVLLM_OK;
}

static ruvllm_status is_divisibleby(struct rv_jinja_run *run, struct rv_jinja_value self,
                                    const struct rv_jinja_args *args, struct rv_jinja_value *out)
{
    bool yes = false;
    int64_t by = 0;
    ruvllm_status rc = rv_jinja_arg_integer(run, args, 0, NULL, &by);

    if (rc == RUVLLM_OK)
        rc = divisible(run, self, by, &yes);
    *out = rv_jinja_boolean(yes);
    return rc;
}

static ruvllm_status is_even(struct rv_jinja_run *run, struct rv_jinja_value self, const struct rv_jinja_args *args,
                             struct rv_jinja_value *out)
{
    bool yes = false;
    ruvllm_status rc = divisible(run, self, 2, &yes);

    (void)args;
    *out = rv_jinja_boolean(yes);
    return rc;
}

static ruvllm_status is_odd(struct rv_jinja_run *run, struct rv_jinja_value self, const struct rv_jinja_args *args,
                            struct rv_jinja_value *out)
{
    bool yes = false;
    ruvllm_status rc = divisible(run, self, 2, &yes);

    (void)args;
    *out = rv_jinja_boolean(!yes);
    return rc;
}

static ruvllm_status is_equalto(struct rv_jinja_run *run, struct rv_jinja_value self, const struct rv_jinja_args *args,
                                struct rv_jinja_value *out)
{
    const struct rv_jinja_value *other = rv_jinja_arg(args, 0, NULL);
    bool yes = false;
    ruvllm_status rc;

    if (!other)
        return rv_jinja_fail(run, "this test needs something to compare with");
    rc = rv_jinja_equal(run, self, *other, &yes);
    *out = rv_jinja_boolean(yes);
    return rc;
}

static ruvllm_status is_ne(struct rv_jinja_run *run, struct rv_jinja_value self, const struct rv_jinja_args *args,
                           struct rv_jinja_value *out)
{
    ruvllm_status rc = is_equalto(run, self, args, out);

    out->as.boolean = !out->as.boolean;
    return rc;
}

static ruvllm_status is_in(struct rv_jinja_run *run, struct rv_jinja_value self, const struct rv_jinja_args *args,
                           struct rv_jinja_value *out)
{
    const struct rv_jinja_value *list = rv_jinja_arg(args, 0, NULL);
    bool yes = false;
    ruvllm_status rc = RUVLLM_OK;

    if (!list || list->type != RV_JINJA_T_LIST)
        return rv_jinja_fail(run, "this test needs a list");
    for (size_t i = 0; rc == RUVLLM_OK && !yes && i < list->as.list->len; i++)
        rc = rv_jinja_equal(run, self, list->as.list->items[i], &yes);
    *out = rv_jinja_boolean(yes);
    return rc;
}

/* Strings, lists and dicts: what has a length and can be indexed. */
static ruvllm_status is_sequence(struct rv_jinja_run *run, struct rv_jinja_value self, const struct rv_jinja_args *args,
                                 struct rv_jinja_value *out)
{
    return is_iterable(run, self, args, out);
}

static ruvllm_status has_case(struct rv_jinja_run *run, struct rv_jinja_value self, rv_jinja_fn convert,
                              struct rv_jinja_value *out)
{
    static const struct rv_jinja_args none;
    struct rv_jinja_value converted;
    bool same = false;
    ruvllm_status rc = RUVLLM_OK;

    if (self.type == RV_JINJA_T_STRING) {
        rc = convert(run, self, &none, &converted);
        if (rc == RUVLLM_OK)
            rc = rv_jinja_equal(run, self, converted, &same);
    }
    *out = rv_jinja_boolean(same);
    return rc;
}

static ruvllm_status is_lower(struct rv_jinja_run *run, struct rv_jinja_value self, const struct rv_jinja_args *args,
                              struct rv_jinja_value *out)
{
    (void)args;
    return has_case(run, self, rv_jinja_string_lower, out);
}

static ruvllm_status is_upper(struct rv_jinja_run *run, struct rv_jinja_value self, const struct rv_jinja_args *args,
                              struct rv_jinja_value *out)
{
    (void)args;
    return has_case(run, self, rv_jinja_string_upper, out);
}

const struct rv_jinja_builtin rv_jinja_tests[] = {
    {"boolean", is_boolean},
    {"callable", is_callable},
    {"defined", is_defined},
    {"divisibleby", is_divisibleby},
    {"eq", is_equalto},
    {"equalto", is_equalto},
    {"even", is_even},
    {"false", is_false},
    {"float", is_float},
    {"in", is_in},
    {"integer", is_integer},
    {"iterable", is_iterable},
    {"lower", is_lower},
    {"mapping", is_mapping},
    {"ne", is_ne},
    {"none", is_none},
    {"number", is_number},
    {"odd", is_odd},
    {"sequence", is_sequence},
    {"string", is_string},
    {"true", is_true},
    {"undefined", is_undefined},
    {"upper", is_upper},
    {NULL, NULL},
};
