/*
 * Lines typed by a person: editing with arrow keys, history kept in a file, completion of the words that begin
 * with a slash. The only file that includes libedit.
 */
#ifndef RV_CLI_LINE_EDITOR_H
#define RV_CLI_LINE_EDITOR_H

#include "base/error.h"

struct rv_line_editor;

enum rv_line_result {
    RV_LINE_READ,
    RV_LINE_INTERRUPTED, // Ctrl-C: what was typed is thrown away
    RV_LINE_END          // Ctrl-D on an empty line, or the terminal went away
};

/*
 * `history_path` may be NULL (nothing is kept); a history that cannot be read or written is no failure.
 * `words` is a NULL-terminated list of what Tab completes; borrowed.
 */
RV_CHECKED ruvllm_status rv_line_editor_open(struct rv_line_editor **out, const char *history_path,
                                             const char *const *words, struct ruvllm_error *err);
void rv_line_editor_close(struct rv_line_editor *editor);
/* Reads one line, without its newline; *line is borrowed until the next call. `prompt` is shown in colour if possible.
 */
enum rv_line_result rv_line_editor_read(struct rv_line_editor *editor, const char *prompt, const char **line);
/* Puts a line into the history and its file. */
void rv_line_editor_remember(struct rv_line_editor *editor, const char *line);

#endif
