/* Operators on values: arithmetic, comparison, membership, indexing and slicing. */
#ifndef RV_TEXT_JINJA_OPERATOR_H
#define RV_TEXT_JINJA_OPERATOR_H

#include "text/jinja_parser.h"
#include "text/jinja_value.h"

/* Every binary operator but `and` and `or`, which decide what is evaluated at all. */
RV_CHECKED ruvllm_status rv_jinja_binary(struct rv_jinja_run *run, enum rv_jinja_op op, struct rv_jinja_value a,
                                         struct rv_jinja_value b, struct rv_jinja_value *out);
/* NOT, ADD (a plus sign) and SUB (a minus sign). */
RV_CHECKED ruvllm_status rv_jinja_unary(struct rv_jinja_run *run, enum rv_jinja_op op, struct rv_jinja_value a,
                                        struct rv_jinja_value *out);
/* value[index]; what is not there is undefined. */
RV_CHECKED ruvllm_status rv_jinja_index(struct rv_jinja_run *run, struct rv_jinja_value value,
                                        struct rv_jinja_value index, struct rv_jinja_value *out);
/* value[start:stop:step] of a list or string; undefined and none stand for what was left out. */
RV_CHECKED ruvllm_status rv_jinja_slice(struct rv_jinja_run *run, struct rv_jinja_value value,
                                        const struct rv_jinja_value parts[3], struct rv_jinja_value *out);

#endif
