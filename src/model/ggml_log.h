/* What ggml has to say goes through our log instead of straight to standard error. */
#ifndef RV_MODEL_GGML_LOG_H
#define RV_MODEL_GGML_LOG_H

/* Any thread, any number of times; it takes effect once, for the whole process. */
void rv_ggml_log_install(void);

#endif
