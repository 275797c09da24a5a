/* JSON in and out of template values. What is read is a user's, whatever was there to read. */
#ifndef RV_TEXT_JINJA_JSON_H
#define RV_TEXT_JINJA_JSON_H

#include "text/jinja_value.h"

struct yyjson_val;

struct rv_jinja_json_options {
    int indent; // spaces a level; 0: one line
    bool ascii; // escape everything beyond ASCII
    bool sort_keys;
    bool keep_undefined;                              // write undefined for undefined, not null
    const struct rv_jinja_string *item_sep, *key_sep; // NULL: ", " (or "," with indent) and ": "
};

/* Emits `value` as JSON. Functions, and nesting deeper than the bound, fail. */
RV_CHECKED ruvllm_status rv_jinja_json_emit(struct rv_jinja_run *run, struct rv_jinja_value value,
                                            const struct rv_jinja_json_options *options);

/*
 * The value of `json`, whose document must outlive the run: strings point into it. `user` is a run of ones at
 * least as long as the longest string in it.
 */
RV_CHECKED ruvllm_status rv_jinja_json_import(struct rv_jinja_run *run, struct yyjson_val *json,
                                              const unsigned char *user, struct rv_jinja_value *out);
/* A mask of ones for `len` bytes. */
RV_CHECKED ruvllm_status rv_jinja_json_user_mask(struct rv_jinja_run *run, size_t len, const unsigned char **out);
/* Parses JSON text and copies the result into the run; text that is not JSON fails. */
RV_CHECKED ruvllm_status rv_jinja_json_parse(struct rv_jinja_run *run, struct rv_jinja_string text,
                                             struct rv_jinja_value *out);

#endif
