/*
 * Values of the template language. They are small structs passed by value; what they point to lives in the
 * run's arena, or in the caller's data for as long as the run. There is nothing behind a value but what is
 * declared here: an attribute is a member of a dict or one of the methods listed in jinja_method.c.
 */
#ifndef RV_TEXT_JINJA_VALUE_H
#define RV_TEXT_JINJA_VALUE_H

#include "text/jinja_run.h"

enum rv_jinja_type {
    RV_JINJA_T_UNDEFINED,
    RV_JINJA_T_NONE,
    RV_JINJA_T_BOOLEAN,
    RV_JINJA_T_INTEGER,
    RV_JINJA_T_FLOAT,
    RV_JINJA_T_STRING,
    RV_JINJA_T_LIST, // tuples too
    RV_JINJA_T_DICT,
    RV_JINJA_T_NAMESPACE, // a dict whose members can be set
    RV_JINJA_T_FUNCTION,
    RV_JINJA_T_LOOP
};

struct rv_jinja_callable; // jinja_eval.h
struct rv_jinja_loop;

struct rv_jinja_value {
    enum rv_jinja_type type;
    union {
        bool boolean;
        int64_t integer;
        double real;
        struct rv_jinja_string string;
        struct rv_jinja_list *list;
        struct rv_jinja_dict *dict; // NAMESPACE too
        const struct rv_jinja_callable *function;
        const struct rv_jinja_loop *loop;
    } as;
};

struct rv_jinja_list {
    struct rv_jinja_value *items;
    size_t len;
    size_t cap;
};

struct rv_jinja_pair {
    struct rv_jinja_string key;
    struct rv_jinja_value value;
};

/* Keeps the order of insertion. */
struct rv_jinja_dict {
    struct rv_jinja_pair *pairs;
    size_t len;
    size_t cap;
    uint32_t *slots; // hash table of index + 1 into pairs; NULL while the dict is small
    size_t n_slots;
};

struct rv_jinja_value rv_jinja_undefined(void);
struct rv_jinja_value rv_jinja_none(void);
struct rv_jinja_value rv_jinja_boolean(bool boolean);
struct rv_jinja_value rv_jinja_integer(int64_t integer);
struct rv_jinja_value rv_jinja_float(double real);
struct rv_jinja_value rv_jinja_text(struct rv_jinja_string string);
/* The template's own text. */
struct rv_jinja_string rv_jinja_literal(const char *data, size_t len);

/* "string", "list", ... */
const char *rv_jinja_type_name(struct rv_jinja_value value);
bool rv_jinja_truth(struct rv_jinja_value value);
/* Integers, floats and booleans as a double; false for anything else. */
bool rv_jinja_number(struct rv_jinja_value value, double *out);
RV_CHECKED ruvllm_status rv_jinja_equal(struct rv_jinja_run *run, struct rv_jinja_value a, struct rv_jinja_value b,
                                        bool *out);
/* *out < 0, 0 or > 0. Numbers with numbers, strings with strings (by code point); else it fails. */
RV_CHECKED ruvllm_status rv_jinja_compare(struct rv_jinja_run *run, struct rv_jinja_value a, struct rv_jinja_value b,
                                          int *out);
/* Emits what {{ value }} writes: nothing for none and undefined, JSON for lists and dicts. */
RV_CHECKED ruvllm_status rv_jinja_emit_value(struct rv_jinja_run *run, struct rv_jinja_value value);

RV_CHECKED ruvllm_status rv_jinja_list_new(struct rv_jinja_run *run, size_t cap, struct rv_jinja_value *out);
RV_CHECKED ruvllm_status rv_jinja_list_push(struct rv_jinja_run *run, struct rv_jinja_list *list,
                                            struct rv_jinja_value item);
RV_CHECKED ruvllm_status rv_jinja_dict_new(struct rv_jinja_run *run, struct rv_jinja_value *out);
/* Adds or replaces. */
RV_CHECKED ruvllm_status rv_jinja_dict_set(struct rv_jinja_run *run, struct rv_jinja_dict *dict,
                                           struct rv_jinja_string key, struct rv_jinja_value value);
/* NULL when there is no such key. */
const struct rv_jinja_value *rv_jinja_dict_find(const struct rv_jinja_run *run, const struct rv_jinja_dict *dict,
                                                const char *key, size_t len);

bool rv_jinja_string_is(struct rv_jinja_string string, const char *text);
struct rv_jinja_string rv_jinja_substring(struct rv_jinja_string string, size_t start, size_t len);
/* Bytes of the character at `pos`; a byte that is not UTF-8 is a character of its own. */
size_t rv_jinja_char_len(struct rv_jinja_string string, size_t pos, uint32_t *cp);
size_t rv_jinja_char_count(struct rv_jinja_string string);
/* Where `needle` begins in haystack[from..), or SIZE_MAX. Charges for the worst case of a plain search. */
RV_CHECKED ruvllm_status rv_jinja_find(struct rv_jinja_run *run, struct rv_jinja_string haystack,
                                       struct rv_jinja_string needle, size_t from, size_t *out);

#endif
