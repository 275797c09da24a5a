/*
 * Regular expressions, as ECMAScript writes them, for what is regular: literals, classes, `.`, groups (capturing or
 * not), `|`, `*`, `+`, `?`, `{m,n}` (lazy ones too: they match the same texts), `^` and `$` at the ends, and the
 * escapes \d \w \s \D \W \S \t \n \r \f \v \0 \xHH \uHHHH \u{...} and those of punctuation. Look-around, back
 * references, \b and \p are errors that name them.
 */
#ifndef RV_SAMPLE_REGEX_H
#define RV_SAMPLE_REGEX_H

#include "sample/syntax.h"

/* The whole text matches; anchors at its ends change nothing. *rule is the number of the rule written. */
RV_CHECKED ruvllm_status rv_regex_read(struct rv_syntax *syntax, const char *text, size_t len, int32_t *rule,
                                       struct ruvllm_error *err);
/*
 * The inside of a JSON string whose value has a match somewhere, or where the anchors say; what must be escaped there
 * is.
 */
RV_CHECKED ruvllm_status rv_regex_read_in_string(struct rv_syntax *syntax, const char *text, size_t len, int32_t *rule,
                                                 struct ruvllm_error *err);
/* The value itself, likewise: nothing is escaped. */
RV_CHECKED ruvllm_status rv_regex_read_in_value(struct rv_syntax *syntax, const char *text, size_t len, int32_t *rule,
                                                struct ruvllm_error *err);
/* One character of a JSON string, out of the ranges or (except) none of them, escaped where it must be. */
int32_t rv_regex_string_class(struct rv_syntax *syntax, const struct rv_syntax_range *ranges, size_t n, bool except);

#endif
