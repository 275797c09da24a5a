/*
 * The program's door: settles what holds for the whole process (signals, language of the terminal, log) and hands
 * over to a command. Exit codes: 0 done, 1 failed, 2 used wrongly, 130 interrupted.
 */
#include "commands.h"
#include "output.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* Characters as the terminal has them; numbers stay as in C, so that 0.5 means the same everywhere. */
static void set_locale(void)
{
    if (!setlocale(LC_CTYPE, "") || strcmp(nl_langinfo(CODESET), "UTF-8") != 0) {
        if (!setlocale(LC_CTYPE, "C.UTF-8"))
            setlocale(LC_CTYPE, "C");
    }
}

static void log_line(void *user, ruvllm_log_level level, const char *line)
{
    static const char *const names[] = {"debug", "info", "warning", "error"};

    (void)user;
    fprintf(stderr, "%s%s:%s ", rv_output_style(stderr, level >= RUVLLM_LOG_WARN ? RV_STYLE_YELLOW : RV_STYLE_DIM),
            names[level], rv_output_style(stderr, RV_STYLE_RESET));
    rv_output_field(stderr, line, strlen(line));
    putc('\n', stderr);
}

static void set_log(void)
{
    static const char *const names[] = {"debug", "info", "warn", "error", "off"};
    const char *wanted = getenv("RUVLLM_LOG_LEVEL");
    ruvllm_log_level level = RUVLLM_LOG_INFO;

    if (wanted && *wanted) {
        size_t i = 0;

        while (i < RV_OPTION_COUNT(names) && strcmp(wanted, names[i]) != 0)
            i++;
        if (i == RV_OPTION_COUNT(names))
            rv_output_warning("RUVLLM_LOG_LEVEL is '%.32s': use debug, info, warn, error or off", wanted);
        else
            level = (ruvllm_log_level)i;
    }
    ruvllm_log_set(level, log_line, NULL);
}

static int dispatch(int argc, char **argv)
{
    const struct rv_command *command;

    if (argc < 2) {
        rv_commands_overview();
        return RV_EXIT_OK;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        command = &rv_cmd_help;
    else if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)
        command = &rv_cmd_version;
    else
        command = rv_commands_find(argv[1]);
    return command ? command->run(argc - 2, argv + 2) : rv_commands_unknown(argv[1]);
}

int main(int argc, char **argv)
{
    struct ruvllm_error err = {0};
    int code;

    /* `ruvllm ... | head` ends quietly, also where the parent had the signal ignored. */
    signal(SIGPIPE, SIG_DFL);
    set_locale();
    set_log();
    code = dispatch(argc, argv);
    errno = 0;
    if (fflush(stdout) != 0 || ferror(stdout)) {
        rv_fail_errno(&err, errno ? errno : EIO, "cannot write the output");
        rv_output_error("is the disk full?", "%s", err.message);
        if (code == RV_EXIT_OK)
            code = RV_EXIT_FAILURE;
    }
    return code;
}
