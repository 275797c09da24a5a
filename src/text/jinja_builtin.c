/* Finding builtins and reading their arguments. */
#include "text/jinja_builtin.h"

#include <string.h>

const struct rv_jinja_builtin *rv_jinja_builtin_table(enum rv_jinja_table table)
{
    static const struct rv_jinja_builtin *const tables[RV_JINJA_N_TABLES] = {
        [RV_JINJA_FILTERS] = rv_jinja_filters,           [RV_JINJA_TESTS] = rv_jinja_tests,
        [RV_JINJA_GLOBALS] = rv_jinja_globals,           [RV_JINJA_STRING_METHODS] = rv_jinja_string_methods,
        [RV_JINJA_LIST_METHODS] = rv_jinja_list_methods, [RV_JINJA_DICT_METHODS] = rv_jinja_dict_methods,
    };

    return tables[table];
}

const struct rv_jinja_builtin *rv_jinja_builtin_find(enum rv_jinja_table table, const char *name, size_t len)
{
    for (const struct rv_jinja_builtin *entry = rv_jinja_builtin_table(table); entry->name; entry++)
        if (strlen(entry->name) == len && memcmp(entry->name, name, len) == 0)
            return entry;
    return NULL;
}

const struct rv_jinja_builtin *rv_jinja_method_find(enum rv_jinja_type type, const char *name, size_t len)
{
    switch (type) {
    case RV_JINJA_T_STRING:
        return rv_jinja_builtin_find(RV_JINJA_STRING_METHODS, name, len);
    case RV_JINJA_T_LIST:
        return rv_jinja_builtin_find(RV_JINJA_LIST_METHODS, name, len);
    case RV_JINJA_T_DICT:
        return rv_jinja_builtin_find(RV_JINJA_DICT_METHODS, name, len);
    default:
        return NULL;
    }
}

const struct rv_jinja_value *rv_jinja_arg(const struct rv_jinja_args *args, size_t index, const char *name)
{
    if (index < args->n_positional)
        return &args->values[index];
    for (size_t i = args->n_positional; name && i < args->n; i++)
        if (rv_jinja_string_is(args->names[i - args->n_positional], name))
            return &args->values[i];
    return NULL;
}

static ruvllm_status wrong_type(struct rv_jinja_run *run, size_t index, const char *name, const char *wanted,
                                struct rv_jinja_value got)
{
    if (name)
        return rv_jinja_fail(run, "argument '%s' must be %s, not %s", name, wanted, rv_jinja_type_name(got));
    return rv_jinja_fail(run, "argument %zu must be %s, not %s", index + 1, wanted, rv_jinja_type_name(got));
}

ruvllm_status rv_jinja_arg_string(struct rv_jinja_run *run, const struct rv_jinja_args *args, size_t index,
                                  const char *name, struct rv_jinja_string *out)
{
    const struct rv_jinja_value *arg = rv_jinja_arg(args, index, name);

    if (!arg)
        return RUVLLM_OK;
    if (arg->type != RV_JINJA_T_STRING)
        return wrong_type(run, index, name, "a string", *arg);
    *out = arg->as.string;
    return RUVLLM_OK;
}

ruvllm_status rv_jinja_arg_integer(struct rv_jinja_run *run, const struct rv_jinja_args *args, size_t index,
                                   const char *name, int64_t *out)
{
    const struct rv_jinja_value *arg = rv_jinja_arg(args, index, name);

    if (!arg || arg->type == RV_JINJA_T_NONE)
        return RUVLLM_OK;
    if (arg->type != RV_JINJA_T_INTEGER)
        return wrong_type(run, index, name, "an integer", *arg);
    *out = arg->as.integer;
    return RUVLLM_OK;
}

ruvllm_status rv_jinja_arg_boolean(struct rv_jinja_run *run, const struct rv_jinja_args *args, size_t index,
                                   const char *name, bool *out)
{
    const struct rv_jinja_value *arg = rv_jinja_arg(args, index, name);

    if (!arg)
        return RUVLLM_OK;
    if (arg->type != RV_JINJA_T_BOOLEAN)
        return wrong_type(run, index, name, "a boolean", *arg);
    *out = arg->as.boolean;
    return RUVLLM_OK;
}

ruvllm_status rv_jinja_want(struct rv_jinja_run *run, struct rv_jinja_value self, enum rv_jinja_type type)
{
    if (self.type == type)
        return RUVLLM_OK;
    return rv_jinja_fail(run, "expected a %s, got %s", rv_jinja_type_name((struct rv_jinja_value){.type = type}),
                         rv_jinja_type_name(self));
}
