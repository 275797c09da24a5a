/*
 * Training runs on what a tenant said, asked for over the wire: one at a time in the server, while nothing else
 * computes. A run that ended is remembered until its tenant asks for another one, or many others did.
 *
 * Threads: any may call; one lock, never held while a run works. A run has a thread of its own and a lease of its
 * model.
 */
#ifndef RV_SERVER_DEEP_RUNNER_H
#define RV_SERVER_DEEP_RUNNER_H

#include "ruvllm_train.h"
#include "server/access_log.h"
#include "server/model_set.h"

struct rv_deep_runner;

enum rv_deep_runner_status {
    RV_DEEP_RUNNER_RUNNING,
    RV_DEEP_RUNNER_DONE,      // what was learned answers
    RV_DEEP_RUNNER_UNCHANGED, // nothing was gained within what may be forgotten
    RV_DEEP_RUNNER_STOPPED,
    RV_DEEP_RUNNER_FAILED
};

/* What is known of a run. */
struct rv_deep_runner_state {
    size_t i_model;
    enum rv_deep_runner_status status;
    int64_t started_us; // Unix
    int64_t ended_us;   // likewise; 0 while it runs
    struct ruvllm_train_progress progress;
    struct ruvllm_deep_report report; // of a run that ended and did not fail
    struct ruvllm_error failure;      // of one that did
};

/* Both are borrowed and outlive it. */
RV_CHECKED ruvllm_status rv_deep_runner_open(struct rv_deep_runner **out, struct rv_model_set *models,
                                             struct rv_access_log *log, struct ruvllm_error *err);
/* Stops a run that is under way, which takes as long as a step does, and waits for it. Accepts NULL. */
void rv_deep_runner_close(struct rv_deep_runner *runner);

/* Begins a run of a loaded model. BUSY while another one is under way, whoever's it is. */
RV_CHECKED ruvllm_status rv_deep_runner_begin(struct rv_deep_runner *runner, const char *tenant, size_t i_model,
                                              const struct ruvllm_deep_params *params, struct ruvllm_error *err);
/* The tenant's last run. NOT_FOUND: there is none. */
RV_CHECKED ruvllm_status rv_deep_runner_look(struct rv_deep_runner *runner, const char *tenant,
                                             struct rv_deep_runner_state *out, struct ruvllm_error *err);
/* Has the tenant's run stop soon; one that has ended stays as it is. NOT_FOUND: there is none. */
RV_CHECKED ruvllm_status rv_deep_runner_cancel(struct rv_deep_runner *runner, const char *tenant,
                                               struct ruvllm_error *err);

#endif
