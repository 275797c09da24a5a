/*
 * Everything a template can call by name: filters, tests, methods and global functions, each a constant table.
 * There is no other way to reach code: names are looked up here or are undefined.
 */
#ifndef RV_TEXT_JINJA_BUILTIN_H
#define RV_TEXT_JINJA_BUILTIN_H

#include "text/jinja_value.h"

struct rv_jinja_args {
    const struct rv_jinja_value *values; // positional ones first
    size_t n_positional;
    size_t n;
    const struct rv_jinja_string *names;    // of values[n_positional..n)
    const struct rv_jinja_callable *caller; // the body of a call block, or NULL
};

/* `self` is what stands before the bar, the `is` or the dot; undefined for a global function. */
typedef ruvllm_status (*rv_jinja_fn)(struct rv_jinja_run *run, struct rv_jinja_value self,
                                     const struct rv_jinja_args *args, struct rv_jinja_value *out);

struct rv_jinja_builtin {
    const char *name;
    rv_jinja_fn fn;
};

enum rv_jinja_table {
    RV_JINJA_FILTERS,
    RV_JINJA_TESTS,
    RV_JINJA_GLOBALS,
    RV_JINJA_STRING_METHODS,
    RV_JINJA_LIST_METHODS,
    RV_JINJA_DICT_METHODS,
    RV_JINJA_N_TABLES
};

/* The tables end with a NULL name and are sorted. */
extern const struct rv_jinja_builtin rv_jinja_filters[];
extern const struct rv_jinja_builtin rv_jinja_tests[];
extern const struct rv_jinja_builtin rv_jinja_globals[];
extern const struct rv_jinja_builtin rv_jinja_string_methods[];
extern const struct rv_jinja_builtin rv_jinja_list_methods[];
extern const struct rv_jinja_builtin rv_jinja_dict_methods[];

const struct rv_jinja_builtin *rv_jinja_builtin_table(enum rv_jinja_table table);
/* NULL when there is none of that name. */
const struct rv_jinja_builtin *rv_jinja_builtin_find(enum rv_jinja_table table, const char *name, size_t len);
const struct rv_jinja_builtin *rv_jinja_method_find(enum rv_jinja_type type, const char *name, size_t len);

/* Argument `index`, or the one called `name`, or NULL. */
const struct rv_jinja_value *rv_jinja_arg(const struct rv_jinja_args *args, size_t index, const char *name);
/* The same, failing when it is not of the type; *out keeps its value when the argument is missing. */
RV_CHECKED ruvllm_status rv_jinja_arg_string(struct rv_jinja_run *run, const struct rv_jinja_args *args, size_t index,
                                             const char *name, struct rv_jinja_string *out);
RV_CHECKED ruvllm_status rv_jinja_arg_integer(struct rv_jinja_run *run, const struct rv_jinja_args *args, size_t index,
                                              const char *name, int64_t *out);
RV_CHECKED ruvllm_status rv_jinja_arg_boolean(struct rv_jinja_run *run, const struct rv_jinja_args *args, size_t index,
                                              const char *name, bool *out);

/* Fails with "'self' has no filter 'name'" and the like unless `self` has the type. */
RV_CHECKED ruvllm_status rv_jinja_want(struct rv_jinja_run *run, struct rv_jinja_value self, enum rv_jinja_type type);

#endif
