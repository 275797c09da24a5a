/* What ggml has to say goes through our log instead of straight to standard error. */
#ifndef RV_MODEL_GGML_LOG_H
#define RV_MODEL_GGML_LOG_H

#include <ggml.h>

/* Any thread, any number of times; it takes effect once, for the whole process. */
void rv_ggml_log_install(void);
/* A line of theirs into our log; as ggml wants a log function, `user` unused. */
void rv_ggml_log_write(enum ggml_log_level level, const char *text, void *user);

#endif
