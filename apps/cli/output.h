/*
 * What the commands write: colours where a person looks, errors that say what to do next, JSON for programs, and
 * numbers people can read. Holds no state: every question about a stream is answered by looking at the stream.
 */
#ifndef RV_CLI_OUTPUT_H
#define RV_CLI_OUTPUT_H

#include "base/error.h"

#include <stdio.h>

#include <yyjson.h>

enum rv_exit_code { RV_EXIT_OK = 0, RV_EXIT_FAILURE = 1, RV_EXIT_USAGE = 2, RV_EXIT_INTERRUPTED = 130 };

enum rv_style {
    RV_STYLE_RESET,
    RV_STYLE_BOLD,
    RV_STYLE_DIM,
    RV_STYLE_RED,
    RV_STYLE_GREEN,
    RV_STYLE_YELLOW,
    RV_STYLE_CYAN
};

bool rv_output_is_terminal(FILE *stream);
/* A terminal that takes colours, and nobody said NO_COLOR. */
bool rv_output_has_colour(FILE *stream);
/* The escape sequence of a style, or "" where the stream has no colour. */
const char *rv_output_style(FILE *stream, enum rv_style style);
/* Columns of the terminal; 80 for anything else. */
size_t rv_output_width(FILE *stream);

/*
 * Text that came from a model or a file. On a terminal, control characters other than newline and tab are shown
 * (^[) instead of sent, so that no model can drive the terminal; anywhere else the bytes go out as they are.
 */
void rv_output_text(FILE *stream, const char *text, size_t len);
/* The same, always shown, for one-line fields: newlines and tabs as \n and \t, bytes that are not UTF-8 as \xNN. */
void rv_output_field(FILE *stream, const char *text, size_t len);

/* "error: ..." on standard error, then "hint: ..." unless `hint` is NULL. */
void rv_output_error(const char *hint, const char *format, ...) RV_PRINTF(2, 3);
void rv_output_warning(const char *format, ...) RV_PRINTF(1, 2);
/*
 * Reports a failure of the library with the advice that fits its status, `hint` instead where that is not NULL;
 * returns the exit code: 130 for RUVLLM_CANCELLED, else 1.
 */
int rv_output_failure(const struct ruvllm_error *err, const char *hint);

/* "1.2 GiB". `out` has room for 24 bytes. */
const char *rv_output_bytes(uint64_t bytes, char out[24]);
/* "1,234,567". */
const char *rv_output_count(uint64_t n, char out[32]);
/* Tokens a second; 0 when no time passed. */
double rv_output_rate(int64_t n, int64_t us);

/*
 * Writes the document and a newline to standard output and frees it: indented for a terminal unless `one_line`,
 * compact otherwise. Returns the exit code.
 */
int rv_output_json(yyjson_mut_doc *doc, bool one_line);
/* A JSON string; bytes that are not UTF-8 become U+FFFD. */
yyjson_mut_val *rv_output_json_text(yyjson_mut_doc *doc, const char *text, size_t len);
/* A number rounded to `digits` decimals; null for what JSON cannot say (NaN, infinities). */
yyjson_mut_val *rv_output_json_real(yyjson_mut_doc *doc, double value, int digits);
/* Adds key: value to an object. The key is borrowed and must be a literal. */
void rv_output_json_add(yyjson_mut_doc *doc, yyjson_mut_val *object, const char *key, yyjson_mut_val *value);

#endif
