/* Builtins on strings, shared by filters and methods. All keep each byte's origin. */
#ifndef RV_TEXT_JINJA_STRING_H
#define RV_TEXT_JINJA_STRING_H

#include "text/jinja_builtin.h"

ruvllm_status rv_jinja_string_upper(struct rv_jinja_run *run, struct rv_jinja_value self,
                                    const struct rv_jinja_args *args, struct rv_jinja_value *out);
ruvllm_status rv_jinja_string_lower(struct rv_jinja_run *run, struct rv_jinja_value self,
                                    const struct rv_jinja_args *args, struct rv_jinja_value *out);
ruvllm_status rv_jinja_string_title(struct rv_jinja_run *run, struct rv_jinja_value self,
                                    const struct rv_jinja_args *args, struct rv_jinja_value *out);
ruvllm_status rv_jinja_string_capitalize(struct rv_jinja_run *run, struct rv_jinja_value self,
                                         const struct rv_jinja_args *args, struct rv_jinja_value *out);
/* Whitespace, or the characters of the argument, off both ends. */
ruvllm_status rv_jinja_string_strip(struct rv_jinja_run *run, struct rv_jinja_value self,
                                    const struct rv_jinja_args *args, struct rv_jinja_value *out);
ruvllm_status rv_jinja_string_replace(struct rv_jinja_run *run, struct rv_jinja_value self,
                                      const struct rv_jinja_args *args, struct rv_jinja_value *out);
ruvllm_status rv_jinja_string_indent(struct rv_jinja_run *run, struct rv_jinja_value self,
                                     const struct rv_jinja_args *args, struct rv_jinja_value *out);

/* The whole string in one case, as sorting and comparing without case need it. */
RV_CHECKED ruvllm_status rv_jinja_string_fold(struct rv_jinja_run *run, struct rv_jinja_string text,
                                              struct rv_jinja_string *out);
/* The characters as a list of strings. */
RV_CHECKED ruvllm_status rv_jinja_string_chars(struct rv_jinja_run *run, struct rv_jinja_string text,
                                               struct rv_jinja_value *out);

#endif
