/*
 * Line editing on libedit. Keys that send signals elsewhere are plain keys while a line is edited (the terminal's
 * ISIG is off), so Ctrl-C and Ctrl-Z are bound to functions here; libedit's own signal mode is not used, because it
 * passes every signal on to the whole process group.
 */
#include "line_editor.h"

#include "output.h"

#include "base/alloc.h"
#include "base/utf8.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include <histedit.h>

enum { HISTORY_MAX = 1000 };

struct rv_line_editor {
    EditLine *edit;
    History *history;
    const char *const *words;
    char history_path[PATH_MAX]; // "": not kept
    char prompt[64];
    char *line; // the last one handed out
    bool interrupted;
};

/* Set by the handler, read between two keys. */
static volatile sig_atomic_t window_changed;

static void note_window(int signal_number)
{
    (void)signal_number;
    window_changed = 1;
}

static struct rv_line_editor *editor_of(EditLine *edit)
{
    struct rv_line_editor *editor = NULL;

    el_get(edit, EL_CLIENTDATA, &editor);
    return editor;
}

static char *show_prompt(EditLine *edit)
{
    return editor_of(edit)->prompt;
}

/* Takes over the window's new size and draws the line again from its beginning. */
static void follow_window(EditLine *edit)
{
    window_changed = 0;
    el_resize(edit);
    fputs("\r\033[J", stdout);
    fflush(stdout);
    el_set(edit, EL_REFRESH);
}

/* One character from the terminal. libedit's own reader gives up on the second signal; this one goes on. */
static int read_key(EditLine *edit, wchar_t *out)
{
    char bytes[4];
    size_t n = 0;
    uint32_t cp;

    if (editor_of(edit)->interrupted)
        return 0;
    for (;;) {
        ssize_t got = read(STDIN_FILENO, bytes + n, 1);
        int len;

        if (got < 0 && errno == EINTR) {
            if (window_changed)
                follow_window(edit);
            continue;
        }
        if (got <= 0)
            return (int)got;
        len = rv_utf8_decode(bytes, ++n, &cp);
        if (len > 0) {
            *out = (wchar_t)cp;
            return 1;
        }
        if (len == 0)
            n = 0; // not UTF-8: drop it
    }
}

static unsigned char on_interrupt(EditLine *edit, int key)
{
    const LineInfo *info = el_line(edit);

    (void)key;
    /*
     * What comes next belongs below the line, so the cursor goes to its end first (it stops there by itself); once
     * that is drawn, read_key ends the line.
     */
    el_cursor(edit, (int)(info->lastchar - info->cursor));
    editor_of(edit)->interrupted = true;
    return CC_CURSOR;
}

static unsigned char on_suspend(EditLine *edit, int key)
{
    (void)key;
    el_set(edit, EL_PREP_TERM, 0);
    raise(SIGTSTP);
    /* Back again. */
    el_set(edit, EL_PREP_TERM, 1);
    return CC_REDISPLAY;
}

/* Completes "/he" to "/help " as far as the known words agree. */
static unsigned char on_tab(EditLine *edit, int key)
{
    const struct rv_line_editor *editor = editor_of(edit);
    const LineInfo *info = el_line(edit);
    size_t len = (size_t)(info->cursor - info->buffer), common = 0, n_matches = 0;
    const char *match = NULL;
    char rest[64];

    (void)key;
    if (len == 0 || info->buffer[0] != '/')
        return CC_REFRESH_BEEP;
    for (size_t i = 0; editor->words[i]; i++) {
        size_t same = 0;

        if (strncmp(editor->words[i], info->buffer, len) != 0)
            continue;
        while (match && match[same] && match[same] == editor->words[i][same])
            same++;
        common = n_matches == 0 ? strlen(editor->words[i]) : same < common ? same : common;
        match = editor->words[i];
        n_matches++;
    }
    if (n_matches == 0 || (n_matches > 1 && common == len))
        return CC_REFRESH_BEEP;
    snprintf(rest, sizeof(rest), "%.*s%s", (int)(common - len), match + len, n_matches == 1 ? " " : "");
    return el_insertstr(edit, rest) == 0 ? CC_REFRESH : CC_ERROR;
}

static void bind_keys(EditLine *edit)
{
    el_set(edit, EL_EDITOR, "emacs");
    el_set(edit, EL_SETTY, "-d", "-isig", NULL);
    el_set(edit, EL_ADDFN, "rv-interrupt", "Forget the line", on_interrupt);
    el_set(edit, EL_ADDFN, "rv-suspend", "Stop the program", on_suspend);
    el_set(edit, EL_ADDFN, "rv-complete", "Complete a command", on_tab);
    el_set(edit, EL_BIND, "^C", "rv-interrupt", NULL);
    el_set(edit, EL_BIND, "^Z", "rv-suspend", NULL);
    el_set(edit, EL_BIND, "^I", "rv-complete", NULL);
    el_set(edit, EL_BIND, "^R", "em-inc-search-prev", NULL);
    el_set(edit, EL_BIND, "^[[1;5D", "ed-prev-word", NULL);
    el_set(edit, EL_BIND, "^[[1;5C", "em-next-word", NULL);
    el_set(edit, EL_BIND, "^[[3~", "ed-delete-next-char", NULL);
}

ruvllm_status rv_line_editor_open(struct rv_line_editor **out, const char *history_path, const char *const *words,
                                  struct ruvllm_error *err)
{
    struct rv_line_editor *editor = rv_calloc(1, sizeof(*editor));
    struct sigaction action = {.sa_handler = note_window};
    HistEvent event;

    *out = NULL;
    if (!editor)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the line editor");
    editor->words = words;
    editor->edit = el_init("ruvllm", stdin, stdout, stderr);
    editor->history = history_init();
    if (!editor->edit || !editor->history) {
        rv_line_editor_close(editor);
        return rv_fail(err, RUVLLM_IO, "cannot use this terminal for editing lines");
    }
    el_set(editor->edit, EL_CLIENTDATA, editor);
    el_set(editor->edit, EL_GETCFN, read_key);
    el_set(editor->edit, EL_PROMPT_ESC, show_prompt, '\1');
    bind_keys(editor->edit);
    history(editor->history, &event, H_SETSIZE, HISTORY_MAX);
    history(editor->history, &event, H_SETUNIQUE, 1);
    el_set(editor->edit, EL_HIST, history, editor->history);
    if (history_path) {
        snprintf(editor->history_path, sizeof(editor->history_path), "%s", history_path);
        history(editor->history, &event, H_LOAD, editor->history_path);
    }
    sigemptyset(&action.sa_mask);
    sigaction(SIGWINCH, &action, NULL);
    *out = editor;
    return RUVLLM_OK;
}

void rv_line_editor_close(struct rv_line_editor *editor)
{
    if (!editor)
        return;
    if (editor->history)
        history_end(editor->history);
    if (editor->edit)
        el_end(editor->edit);
    rv_free(editor->line);
    rv_free(editor);
}

enum rv_line_result rv_line_editor_read(struct rv_line_editor *editor, const char *prompt, const char **line)
{
    const char *typed;
    int n = 0;

    /* libedit ties an escape sequence to the character behind it, so one must follow the last. */
    snprintf(editor->prompt, sizeof(editor->prompt),
             rv_output_has_colour(stdout) ? "\1\033[1;32m\1%s\1\033[0m\1 " : "%s ", prompt);
    rv_free(editor->line);
    editor->line = NULL;
    editor->interrupted = false;
    if (window_changed) {
        window_changed = 0;
        el_resize(editor->edit);
    }
    typed = el_gets(editor->edit, &n);
    if (editor->interrupted) {
        puts("^C");
        return RV_LINE_INTERRUPTED;
    }
    if (!typed || n <= 0) {
        putchar('\n');
        return RV_LINE_END;
    }
    editor->line = rv_strndup(typed, strcspn(typed, "\n"));
    if (!editor->line)
        return RV_LINE_END;
    *line = editor->line;
    return RV_LINE_READ;
}

void rv_line_editor_remember(struct rv_line_editor *editor, const char *line)
{
    HistEvent event;

    if (!*line)
        return;
    history(editor->history, &event, H_ENTER, line);
    if (editor->history_path[0])
        history(editor->history, &event, H_SAVE, editor->history_path);
}
