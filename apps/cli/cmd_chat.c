/*
 * ruvllm chat: a conversation. On a terminal it edits lines and keeps a history; from a pipe each line is a turn,
 * so that a chat can be scripted. Ctrl-C stops the answer, never the program.
 */
#include "chat_session.h"
#include "chat_commands.h"
#include "commands.h"
#include "interrupt.h"
#include "line_editor.h"
#include "model_options.h"
#include "output.h"
#include "sampling_options.h"

#include "base/buf.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TURN_MAX = 16 << 20 };

struct chat_options {
    struct rv_model_options model;
    struct rv_sampling_options sampling;
    struct rv_store_options store;
    const char *system;
    const char *load;
    bool json;
    bool learns;
};

static const struct rv_option own_options[] = {
    {.name = "system",
     .value = "TEXT",
     .type = RV_OPTION_STRING,
     .offset = offsetof(struct chat_options, system),
     .help = "The system message"},
    {.name = "load",
     .value = "FILE",
     .type = RV_OPTION_STRING,
     .offset = offsetof(struct chat_options, load),
     .help = "Go on with a conversation written by /save"},
    {.name = "json",
     .type = RV_OPTION_FLAG,
     .offset = offsetof(struct chat_options, json),
     .help = "One JSON object a turn, on one line each; for use in pipes"},
    {.name = "learn",
     .type = RV_OPTION_FLAG,
     .offset = offsetof(struct chat_options, learns),
     .help =
         "Learn from /good, /bad and /fix, at once; kept in the store, where a server with --learn and without keys "
         "has it too"},
    {.name = "store",
     .value = "PATH",
     .type = RV_OPTION_STRING,
     .offset = offsetof(struct chat_options, store) + offsetof(struct rv_store_options, path),
     .help = "With --learn: where that is kept (default as 'ruvllm serve'), or none: in memory only"},
};

static const struct rv_option_group groups[] = {
    {"Conversation", own_options, RV_OPTION_COUNT(own_options), 0},
    RV_SAMPLING_GROUP(offsetof(struct chat_options, sampling)),
    RV_MODEL_GROUP_FILE(offsetof(struct chat_options, model)),
    RV_MODEL_GROUP_ADAPTER(offsetof(struct chat_options, model)),
    RV_MODEL_GROUP_COMPUTE(offsetof(struct chat_options, model)),
    RV_MODEL_GROUP_THREADS(offsetof(struct chat_options, model)),
    RV_MODEL_GROUP_ROPE(offsetof(struct chat_options, model)),
};

/* Where turns come from: the line editor, or a stream when `editor` is NULL. */
struct source {
    struct rv_line_editor *editor;
    char *line; // getline's buffer
    size_t line_cap;
};

static enum rv_line_result read_line(struct source *source, const char *prompt, const char **line)
{
    ssize_t len;

    if (source->editor)
        return rv_line_editor_read(source->editor, prompt, line);
    errno = 0;
    len = getline(&source->line, &source->line_cap, stdin);
    if (len < 0) {
        bool was_signal = errno == EINTR;

        clearerr(stdin);
        return was_signal ? RV_LINE_INTERRUPTED : RV_LINE_END;
    }
    if (len > 0 && source->line[len - 1] == '\n')
        source->line[--len] = '\0';
    if (len > 0 && source->line[len - 1] == '\r')
        source->line[--len] = '\0';
    *line = source->line;
    return RV_LINE_READ;
}

/* A turn: one line, or several joined where each but the last ends in a backslash. */
static enum rv_line_result read_turn(struct source *source, struct rv_buf *turn)
{
    const char *prompt = ">", *line;

    rv_buf_clear(turn);
    for (;;) {
        enum rv_line_result result = read_line(source, prompt, &line);
        size_t len;

        if (result == RV_LINE_END && turn->len)
            return RV_LINE_READ; // the last line asked for more, and no more came
        if (result != RV_LINE_READ)
            return result;
        if (source->editor)
            rv_line_editor_remember(source->editor, line);
        len = strlen(line);
        if (len == 0 || line[len - 1] != '\\') {
            rv_buf_add(turn, line, len);
            return RV_LINE_READ;
        }
        rv_buf_add(turn, line, len - 1);
        rv_buf_add_char(turn, '\n');
        prompt = "…";
    }
}

static bool is_blank(const char *text)
{
    return text[strspn(text, " \t\n")] == '\0';
}

/* Turn after turn until the end; returns the exit code. */
static int converse(struct rv_chat_session *chat, struct source *source)
{
    struct ruvllm_error err = {0};
    struct rv_buf turn;
    int code = RV_EXIT_OK;

    rv_buf_init(&turn, TURN_MAX);
    for (;;) {
        enum rv_line_result result = read_turn(source, &turn);

        if (result == RV_LINE_END)
            break;
        if (result == RV_LINE_INTERRUPTED && !source->editor) {
            code = RV_EXIT_INTERRUPTED;
            break;
        }
        if (result == RV_LINE_INTERRUPTED || !turn.data || is_blank(turn.data))
            continue;
        if (turn.failed) {
            rv_output_error(NULL, "the message is longer than %d MiB", TURN_MAX >> 20);
            continue;
        }
        if (turn.data[0] == '/') {
            if (!rv_chat_commands_run(chat, turn.data))
                break;
        } else if (rv_chat_session_say(chat, turn.data, &err)) {
            code = rv_output_failure(&err, rv_chat_session_advice(err.status));
            /* A person reads the message and goes on; a script must not. */
            if (!source->editor)
                break;
            code = RV_EXIT_OK;
        }
    }
    rv_buf_release(&turn);
    return code;
}

/* $XDG_STATE_HOME/ruvllm/history or ~/.local/state/ruvllm/history, its folders made; false when there is no home. */
static bool history_path(char out[PATH_MAX])
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    int len;

    if (state && state[0] == '/')
        len = snprintf(out, PATH_MAX, "%s/ruvllm/history", state);
    else if (home && *home)
        len = snprintf(out, PATH_MAX, "%s/.local/state/ruvllm/history", home);
    else
        return false;
    if (len < 0 || len >= PATH_MAX)
        return false;
    for (char *slash = strchr(out + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(out, 0700); // one that exists already is fine; any other failure shows when the file is written
        *slash = '/';
    }
    return true;
}

static void greet(const struct rv_chat_session *chat, const char *path)
{
    const char *name = *chat->info.name ? chat->info.name : rv_model_options_base_name(path);

    fputs(rv_output_style(stdout, RV_STYLE_BOLD), stdout);
    rv_output_field(stdout, name, strlen(name));
    printf("%s %s· %s %s · context %d · /help lists commands, Ctrl-D ends%s\n\n",
           rv_output_style(stdout, RV_STYLE_RESET), rv_output_style(stdout, RV_STYLE_DIM), chat->info.architecture,
           chat->info.quantization, chat->info.context, rv_output_style(stdout, RV_STYLE_RESET));
}

/* Whether the model can chat at all: its template has to render a plain message. */
static ruvllm_status check_template(const ruvllm_model *model, struct ruvllm_error *err)
{
    struct ruvllm_message probe = {"user", "Hello"};
    char *text;
    size_t len;
    ruvllm_status rc = ruvllm_apply_template(model, &probe, 1, &text, &len, err);

    if (rc == RUVLLM_OK)
        ruvllm_free(text);
    return rc;
}

static int chat_with(const struct chat_options *options, ruvllm_model *model, struct rv_chat_learn *learn,
                     const struct ruvllm_model_info *info)
{
    struct ruvllm_generate_params params = rv_sampling_options_params(&options->sampling);
    struct ruvllm_error err = {0};
    struct source source = {0};
    struct rv_chat_session chat;
    char path[PATH_MAX];
    int code;

    if (params.max_tokens < 0)
        params.max_tokens = info->context;
    rv_chat_session_init(&chat, model, info, &params);
    chat.json = options->json;
    chat.learn = learn;
    if (check_template(rv_chat_session_model(&chat), &err)) {
        code = rv_output_failure(&err, "'ruvllm run' continues text with any model");
        goto out;
    }
    code = rv_sampling_options_check(&options->sampling, rv_chat_session_model(&chat));
    if (code)
        goto out;
    if ((options->load && rv_conversation_load(&chat.conversation, options->load, &err)) ||
        (options->system && rv_conversation_set_system(&chat.conversation, options->system, &err))) {
        code = rv_output_failure(&err, NULL);
        goto out;
    }
    if (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)) {
        if (rv_line_editor_open(&source.editor, history_path(path) ? path : NULL, rv_chat_commands_words(), &err)) {
            code = rv_output_failure(&err, "pipe lines into 'ruvllm chat' instead");
            goto out;
        }
        chat.show_status = true;
        greet(&chat, options->model.path);
    }
    code = converse(&chat, &source);
out:
    rv_line_editor_close(source.editor);
    free(source.line);
    rv_chat_session_release(&chat);
    return code;
}

static int check_learning(const struct chat_options *options)
{
    if (options->store.path && !options->learns) {
        rv_output_error("add --learn", "--store has a meaning only with --learn");
        return RV_EXIT_USAGE;
    }
    if (options->learns && options->model.adapter) {
        rv_output_error("leave one of them out", "--learn and --adapter do not go together");
        return RV_EXIT_USAGE;
    }
    return RV_EXIT_OK;
}

static int run(int argc, char **argv)
{
    struct chat_options options = {0};
    struct ruvllm_model_info info;
    struct rv_chat_learn *learn = NULL;
    struct rv_arguments args;
    ruvllm_model *model = NULL;
    int code;

    rv_model_options_init(&options.model);
    rv_sampling_options_init(&options.sampling);
    options.sampling.params.max_tokens = -1;
    if (!rv_options_parse(&rv_cmd_chat, &options, argc, argv, &args, &code))
        return code;
    code = rv_model_options_settle(&options.model, &rv_cmd_chat, &args);
    if (code == RV_EXIT_OK)
        code = rv_options_finish(&rv_cmd_chat, &args);
    if (code == RV_EXIT_OK)
        code = check_learning(&options);
    if (code == RV_EXIT_OK)
        code = rv_sampling_options_settle(&options.sampling);
    if (code)
        return code;
    rv_interrupt_catch(RV_INTERRUPT_ALWAYS);
    code = options.learns ? rv_chat_learn_open(&learn, &options.model, &options.store, &info)
                          : rv_model_options_open(&options.model, &model, &info);
    if (code == RV_EXIT_OK) {
        code = chat_with(&options, model, learn, &info);
        rv_chat_learn_close(learn);
        ruvllm_model_close(model);
    }
    rv_sampling_options_release(&options.sampling);
    return code;
}

const struct rv_command rv_cmd_chat = {
    .name = "chat",
    .arguments = "MODEL",
    .summary = "talk with a model",
    .about = "Holds a conversation through the model's own chat template. On a terminal lines can be edited and are "
             "remembered; /help lists the commands; Ctrl-C stops an answer, Ctrl-D ends the chat. When standard input "
             "is not a terminal, each line is a message.",
    .examples = "ruvllm chat model.gguf\n"
                "ruvllm chat model.gguf --system \"Answer in one sentence.\" --temp 0.3\n"
                "ruvllm chat model.gguf --ctx 16384\n"
                "    remember more of a long conversation\n"
                "ruvllm chat model.gguf --learn\n"
                "    /good, /bad and /fix change the next answers\n"
                "printf 'Hello\\nAnd goodbye\\n' | ruvllm chat model.gguf --json\n"
                "    two turns from a script\n",
    .groups = groups,
    .n_groups = RV_OPTION_COUNT(groups),
    .run = run,
};
