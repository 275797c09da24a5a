/* Text a command works on: from an argument, a file or standard input. */
#ifndef RV_CLI_TEXT_INPUT_H
#define RV_CLI_TEXT_INPUT_H

#include "base/error.h"

/*
 * Reads all of `path` ("-" is standard input), at most 1 GiB. *text is NUL-terminated and the caller's, freed
 * with rv_free().
 */
RV_CHECKED ruvllm_status rv_text_input_file(const char *path, char **text, size_t *len, struct ruvllm_error *err);

/*
 * The text of a command: `argument` if given, else the file, else standard input unless that is a terminal.
 * Both at once, or nothing at all, is INVALID. One newline at the end of a file or of standard input is dropped,
 * as it ends the line rather than belongs to the text.
 */
RV_CHECKED ruvllm_status rv_text_input_get(const char *argument, const char *path, char **text, size_t *len,
                                           struct ruvllm_error *err);

#endif
