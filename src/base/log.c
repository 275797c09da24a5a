/* The only mutable global of the library: written before any other thread exists, then only read. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

static void to_stderr(void *user, ruvllm_log_level level, const char *line)
{
    static const char *const names[] = {"debug", "info", "warning", "error"};

    (void)user;
    fprintf(stderr, "ruvllm: %s: %s\n", names[level], line);
}

static struct {
    ruvllm_log_level level;
    ruvllm_log_fn fn;
    void *user;
} sink = {.level = RUVLLM_LOG_OFF};

void rv_log_set(ruvllm_log_level level, ruvllm_log_fn fn, void *user)
{
    sink.level = level;
    sink.fn = fn ? fn : to_stderr;
    sink.user = user;
}

void rv_log(ruvllm_log_level level, const char *format, ...)
{
    char line[512];
    va_list args;

    if (level < sink.level || level >= RUVLLM_LOG_OFF || !sink.fn)
        return;
    va_start(args, format);
    if (vsnprintf(line, sizeof(line), format, args) < 0)
        line[0] = '\0';
    va_end(args);
    /* A file name or a model's metadata must not be able to forge lines or drive a terminal. */
    for (char *c = line; *c; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7F)
            *c = ' ';
    }
    sink.fn(sink.user, level, line);
}
