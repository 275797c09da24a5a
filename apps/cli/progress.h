/*
 * A progress line on standard error: drawn only on a terminal, only once the work has taken long enough to be
 * noticed, and wiped when it ends.
 */
#ifndef RV_CLI_PROGRESS_H
#define RV_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct rv_progress {
    const char *label; // borrowed
    int64_t start_us;
    int64_t drawn_us;
    bool is_terminal;
    bool is_drawn;
};

void rv_progress_init(struct rv_progress *p, const char *label);
/* Shows `fraction` of 1, with `note` behind it unless NULL. Cheap to call often. */
void rv_progress_show(struct rv_progress *p, double fraction, const char *note);
/* Wipes the line. */
void rv_progress_clear(struct rv_progress *p);
/* For ruvllm_model_params: `user` is the progress. False, which stops the load, after Ctrl-C. */
bool rv_progress_on_load(void *user, float fraction);

#endif
