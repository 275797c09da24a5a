/*
 * ggml logs by default to standard error, a line per tensor while repacking. Its informative lines are details to our
 * users, so they rank one level lower here.
 */
#include "model/ggml_log.h"

#include "base/log.h"

#include <pthread.h>
#include <string.h>

void rv_ggml_log_write(enum ggml_log_level level, const char *text, void *user)
{
    ruvllm_log_level ours = level == GGML_LOG_LEVEL_ERROR  ? RUVLLM_LOG_ERROR
                            : level == GGML_LOG_LEVEL_WARN ? RUVLLM_LOG_WARN
                                                           : RUVLLM_LOG_DEBUG;
    size_t len = strlen(text);

    (void)user;
    while (len > 0 && text[len - 1] == '\n')
        len--;
    if (len > 0)
        rv_log(ours, "ggml: %.*s", (int)(len < 480 ? len : 480), text);
}

static void install(void)
{
    ggml_log_set(rv_ggml_log_write, NULL);
}

void rv_ggml_log_install(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, install);
}
