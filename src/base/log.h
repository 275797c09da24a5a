/* The process-wide log sink, set once by the embedding program before the first model is opened. */
#ifndef RV_BASE_LOG_H
#define RV_BASE_LOG_H

#include "base/error.h"

void rv_log_set(ruvllm_log_level level, ruvllm_log_fn fn, void *user);
/* One line, no newline; cut at 512 bytes; control characters become spaces. Free when the level is off. */
void rv_log(ruvllm_log_level level, const char *format, ...) RV_PRINTF(2, 3);

#endif
