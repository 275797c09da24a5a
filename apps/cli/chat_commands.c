/* The table of slash commands. */
#include "chat_commands.h"

#include "suggest.h"

#include <string.h>

struct slash_command {
    const char *name;
    const char *argument;
    const char *help;
    bool (*run)(struct rv_chat_session *chat, const char *argument);
};

static bool on_help(struct rv_chat_session *chat, const char *argument);

static bool on_system(struct rv_chat_session *chat, const char *argument)
{
    const char *now = rv_conversation_system(&chat->conversation);
    struct ruvllm_error err = {0};

    if (!*argument) {
        if (now) {
            rv_output_text(stdout, now, strlen(now));
            putchar('\n');
        } else {
            puts("no system message");
        }
        return true;
    }
    if (rv_conversation_set_system(&chat->conversation, strcmp(argument, "-") == 0 ? "" : argument, &err))
        rv_output_failure(&err, NULL);
    else
        puts(strcmp(argument, "-") == 0 ? "system message removed" : "system message set");
    return true;
}

static bool on_clear(struct rv_chat_session *chat, const char *argument)
{
    (void)argument;
    rv_conversation_clear(&chat->conversation);
    chat->context_used = 0;
    if (chat->learn)
        rv_chat_learn_clear(chat->learn);
    puts(rv_conversation_system(&chat->conversation) ? "conversation cleared, system message kept"
                                                     : "conversation cleared");
    return true;
}

static bool on_save(struct rv_chat_session *chat, const char *argument)
{
    struct ruvllm_error err = {0};

    if (!*argument)
        rv_output_error("/save talk.json", "/save needs a file name");
    else if (rv_conversation_save(&chat->conversation, argument, &err))
        rv_output_failure(&err, NULL);
    else
        printf("saved %zu messages\n", chat->conversation.n);
    return true;
}

static bool on_load(struct rv_chat_session *chat, const char *argument)
{
    struct ruvllm_error err = {0};

    if (!*argument)
        rv_output_error("/load talk.json", "/load needs a file name");
    else if (rv_conversation_load(&chat->conversation, argument, &err))
        rv_output_failure(&err, "a file written by /save, or a JSON list of {\"role\", \"content\"}");
    else
        printf("loaded %zu messages\n", chat->conversation.n);
    if (chat->learn)
        rv_chat_learn_clear(chat->learn);
    return true;
}

static bool on_stats(struct rv_chat_session *chat, const char *argument)
{
    struct ruvllm_memory_stats memory = {.struct_size = sizeof(memory)};
    struct ruvllm_error err = {0};
    char count[32], a[24], b[24], c[24];

    (void)argument;
    printf("  turns     %zu\n", chat->n_turns);
    printf("  tokens    %s generated, %.1f tok/s on average\n", rv_output_count(chat->n_tokens, count),
           rv_output_rate((int64_t)chat->n_tokens, chat->decode_us));
    printf("  context   %d of %d tokens\n", chat->context_used, chat->info.context);
    if (ruvllm_memory_stats_get(rv_chat_session_model(chat), &memory, &err))
        rv_output_failure(&err, NULL);
    else
        printf("  memory    weights %s, KV %s, %s resident\n",
               rv_output_bytes(memory.weights_mapped + memory.weights_allocated, a),
               rv_output_bytes(memory.kv_bytes, b), rv_output_bytes(memory.process_rss, c));
    return true;
}

static bool on_regen(struct rv_chat_session *chat, const char *argument)
{
    struct ruvllm_error err = {0};

    (void)argument;
    if (rv_chat_session_regenerate(chat, &err))
        rv_output_failure(&err, rv_chat_session_advice(err.status));
    return true;
}

/* ---- learning ------------------------------------------------------------------------------ */

/* False: it was said that this chat does not learn. */
static bool check_learns(const struct rv_chat_session *chat)
{
    if (!chat->learn)
        rv_output_error("'ruvllm chat MODEL --learn' does", "this chat does not learn");
    return chat->learn != NULL;
}

static void print_learned(const struct ruvllm_feedback_result *result)
{
    printf("learned: generation %lld, the answer moved by %.3g nats a token\n", (long long)result->generation,
           result->kl);
}

static void vote(struct rv_chat_session *chat, double score)
{
    struct ruvllm_feedback_result result = {.struct_size = sizeof(result)};
    struct ruvllm_error err = {0};

    if (!check_learns(chat))
        return;
    if (rv_chat_learn_vote(chat->learn, score, &result, &err))
        rv_output_failure(&err, NULL);
    else
        print_learned(&result);
}

static bool on_good(struct rv_chat_session *chat, const char *argument)
{
    (void)argument;
    vote(chat, 1);
    return true;
}

static bool on_bad(struct rv_chat_session *chat, const char *argument)
{
    (void)argument;
    vote(chat, 0);
    return true;
}

/* The conversation goes on from the better words. */
static bool on_fix(struct rv_chat_session *chat, const char *argument)
{
    struct ruvllm_feedback_result result = {.struct_size = sizeof(result)};
    struct ruvllm_error err = {0};

    if (!check_learns(chat))
        return true;
    if (!*argument) {
        rv_output_error("/fix It is blue.", "/fix needs what the answer should have been");
        return true;
    }
    if (rv_chat_learn_correct(chat->learn, argument, &result, &err)) {
        rv_output_failure(&err, NULL);
        return true;
    }
    print_learned(&result);
    rv_conversation_pop(&chat->conversation);
    if (rv_conversation_push(&chat->conversation, "assistant", argument, &err))
        rv_output_failure(&err, NULL);
    return true;
}

static bool on_undo(struct rv_chat_session *chat, const char *argument)
{
    struct ruvllm_error err = {0};

    (void)argument;
    if (!check_learns(chat))
        return true;
    if (rv_chat_learn_undo(chat->learn, &err))
        rv_output_failure(&err, NULL);
    else
        puts("taken back: answers are as if it had not been said");
    return true;
}

static bool on_learned(struct rv_chat_session *chat, const char *argument)
{
    struct ruvllm_error err = {0};

    (void)argument;
    if (check_learns(chat) && rv_chat_learn_print(chat->learn, &err))
        rv_output_failure(&err, NULL);
    return true;
}

static bool on_quit(struct rv_chat_session *chat, const char *argument)
{
    (void)chat;
    (void)argument;
    return false;
}

static const struct slash_command commands[] = {
    {"/help", "", "this list", on_help},
    {"/system", "TEXT", "set the system message; alone it is shown, '-' removes it", on_system},
    {"/clear", "", "forget the conversation, keep the system message", on_clear},
    {"/regen", "", "another answer to the last message", on_regen},
    {"/save", "FILE", "write the conversation as JSON", on_save},
    {"/load", "FILE", "go on with a saved conversation", on_load},
    {"/stats", "", "tokens, speed, context and memory", on_stats},
    {"/good", "", "the last answer was good: more like it (with --learn)", on_good},
    {"/bad", "", "the last answer was bad: less like it", on_bad},
    {"/fix", "TEXT", "what the last answer should have been", on_fix},
    {"/learned", "", "what was learned", on_learned},
    {"/undo", "", "take back what was said last", on_undo},
    {"/quit", "", "end the chat (also Ctrl-D)", on_quit},
};

enum { N_COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static bool on_help(struct rv_chat_session *chat, const char *argument)
{
    (void)chat;
    (void)argument;
    for (size_t i = 0; i < N_COMMANDS; i++)
        printf("  %s%s%s %-*s %s\n", rv_output_style(stdout, RV_STYLE_CYAN), commands[i].name,
               rv_output_style(stdout, RV_STYLE_RESET), (int)(13 - strlen(commands[i].name)), commands[i].argument,
               commands[i].help);
    puts("\n  Ctrl-C stops an answer, or forgets the line being typed. A backslash at the end of a\n"
         "  line continues the message on the next. Up and down walk through the history.");
    return true;
}

const char *const *rv_chat_commands_words(void)
{
    static const char *const words[] = {"/help", "/system", "/clear", "/regen",   "/save", "/load", "/stats",
                                        "/good", "/bad",    "/fix",   "/learned", "/undo", "/quit", NULL};

    return words;
}

bool rv_chat_commands_run(struct rv_chat_session *chat, const char *line)
{
    size_t len = strcspn(line, " \t");
    const char *argument = line + len + strspn(line + len, " \t");
    struct rv_suggestion nearest;

    rv_suggestion_init(&nearest, line, len);
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (strlen(commands[i].name) == len && memcmp(commands[i].name, line, len) == 0)
            return commands[i].run(chat, argument);
        rv_suggestion_offer(&nearest, commands[i].name);
    }
    if (nearest.best[0])
        rv_output_error("/help lists the commands; a space in front sends the line as a message",
                        "unknown command '%.*s'; did you mean '%s'?", (int)(len > 32 ? 32 : len), line, nearest.best);
    else
        rv_output_error("/help lists the commands; a space in front sends the line as a message",
                        "unknown command '%.*s'", (int)(len > 32 ? 32 : len), line);
    return true;
}
