/*
 * Line editing on libedit. Keys that send signals elsewhere are plain keys while a line is edited (the terminal's
 * ISIG is off), so Ctrl-C and Ctrl-Z are handled here; libedit's own signal mode is not used, because it
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

enum { KEY_INTERRUPT = 0x03, KEY_END_OF_LINE = 0x05, KEY_TAB = 0x09, KEY_SUSPEND = 0x1A };

struct rv_line_editor {
    EditLine *edit;
    History *history;
    const char *const *words;
    char history_path[PATH_MAX]; // "": not kept
    char prompt[64];
    char *line; // the last one handed out
    bool is_interrupted;
    char pending[32]; // keys typed for the user, ASCII
    size_t n_taken;   // of those
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

/* Draws the line again from its beginning, after something else may have been written. */
static void redraw(EditLine *edit)
{
    fputs("\r\033[J", stdout);
    fflush(stdout);
    el_set(edit, EL_REFRESH);
}

/* Ctrl-Z: the terminal as the shell wants it, and back when the program goes on. */
static void suspend(EditLine *edit)
{
    el_set(edit, EL_PREP_TERM, 0);
    raise(SIGTSTP);
    el_set(edit, EL_PREP_TERM, 1);
    redraw(edit);
}

/* Puts into `pending` what "/he" lacks to become "/help ", as far as the known words agree; beeps if nothing. */
static void complete(struct rv_line_editor *editor)
{
    const LineInfo *info = el_line(editor->edit);
    size_t len = (size_t)(info->cursor - info->buffer), common = 0, n_matches = 0;
    const char *match = NULL;

    for (size_t i = 0; len > 0 && editor->words[i]; i++) {
        size_t same = 0;

        if (strncmp(editor->words[i], info->buffer, len) != 0)
            continue;
        while (match && match[same] && match[same] == editor->words[i][same])
            same++;
        common = n_matches == 0 ? strlen(editor->words[i]) : same < common ? same : common;
        match = editor->words[i];
        n_matches++;
    }
    editor->n_taken = 0;
    if (n_matches == 1 || common > len)
        snprintf(editor->pending, sizeof(editor->pending), "%.*s%s", (int)(common - len), match + len,
                 n_matches == 1 ? " " : "");
    else
        el_beep(editor->edit);
}

/* One byte from the terminal: 1, or 0 and -1 as read(2). Signals only make it look at the window's size. */
static int read_byte(EditLine *edit, char *out)
{
    for (;;) {
        ssize_t n = read(STDIN_FILENO, out, 1);

        if (n >= 0 || errno != EINTR)
            return (int)n;
        if (window_changed) {
            window_changed = 0;
            el_resize(edit);
            redraw(edit);
        }
    }
}

/*
 * The next key for libedit. The keys that are ours never reach it: functions can be bound in libedit too, but it
 * never frees their names.
 */
static int read_key(EditLine *edit, wchar_t *out)
{
    struct rv_line_editor *editor = editor_of(edit);
    char bytes[4];
    size_t n = 0;
    uint32_t cp = 0;

    if (editor->is_interrupted)
        return 0;
    while (!editor->pending[editor->n_taken]) {
        int got = read_byte(edit, bytes + n);

        if (got <= 0)
            return got;
        if (rv_utf8_decode(bytes, ++n, &cp) == 0)
            n = 0; // not UTF-8: drop it
        if (n == 0 || rv_utf8_decode(bytes, n, &cp) < 0)
            continue;
        n = 0;
        if (cp == KEY_SUSPEND) {
            suspend(edit);
        } else if (cp == KEY_TAB) {
            complete(editor);
        } else {
            /* After Ctrl-C the cursor goes to the end, since what follows belongs below the line; then it is over. */
            editor->is_interrupted = cp == KEY_INTERRUPT;
            *out = (wchar_t)(cp == KEY_INTERRUPT ? KEY_END_OF_LINE : cp);
            return 1;
        }
    }
    *out = (wchar_t)editor->pending[editor->n_taken++];
    return 1;
}

static void bind_keys(EditLine *edit)
{
    el_set(edit, EL_EDITOR, "emacs");
    el_set(edit, EL_SETTY, "-d", "-isig", NULL);
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
    editor->is_interrupted = false;
    editor->pending[0] = '\0';
    editor->n_taken = 0;
    if (window_changed) {
        window_changed = 0;
        el_resize(editor->edit);
    }
    /* libedit would show the prompt first and leave a moment in which Ctrl-C is still a signal. */
    el_set(editor->edit, EL_PREP_TERM, 1);
    typed = el_gets(editor->edit, &n);
    if (editor->is_interrupted) {
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
