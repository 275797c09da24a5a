/*
 * The background loop: ticks of at most 100 ms for tenants that were voted on, computed when the machine has nothing
 * else to do. Two threads: one computes, at idle priority, and holds no lock ever, because whoever waited for it could
 * wait for long; the other, at normal priority, hands results to their tenants.
 *
 * Every call may be made from any thread.
 */
#ifndef RV_LEARN_BACKGROUND_H
#define RV_LEARN_BACKGROUND_H

#include "learn/tick.h"

enum {
    RV_BACKGROUND_EVERY = 8,   // votes of a tenant from tick to tick, or lessons
    RV_BACKGROUND_TICK_MS = 60 // of fitting; with what comes before and after a tick stays below 100
};

/* One tick's work: everything it needs, as copies and references of its own. */
struct rv_background_job {
    struct rv_background_job *next;
    char *tenant;
    int64_t generation; // that it begins with
    int64_t n_undone;   // the study's, when it was asked for
    double mean;
    struct rv_study *study;
    struct rv_head_adapter now;  // to begin with
    struct rv_head_adapter made; // what came of it
    struct rv_rehearsal_answer *answers[2 * RV_REHEARSAL_MAX];
    size_t n_answers;
    ruvllm_status rc;
    struct ruvllm_error err;
    struct rv_tick_result result;
    int64_t took_us;
};

/*
 * A copy of a tenant's state, under its lock; some microseconds. Without answers to go over again, a tick only sees to
 * it that the adapter is within its budget.
 */
RV_CHECKED ruvllm_status rv_background_job_new(struct rv_background_job **out, const char *tenant,
                                               struct rv_study *study, bool with_answers,
                                               const struct rv_head_adapter *now, struct ruvllm_error *err);
void rv_background_job_free(struct rv_background_job *job);

/* Runs on the thread of normal priority; the job is the callee's. */
typedef void (*rv_background_fn)(void *user, struct rv_background_job *job);

struct rv_background;

/* What the configuration points to outlives it. */
RV_CHECKED ruvllm_status rv_background_open(struct rv_background **out, const struct rv_tick_config *config,
                                            rv_background_fn on_made, void *user, struct ruvllm_error *err);
/* Waits for the tick under way; those that have not begun are given to nobody. */
void rv_background_close(struct rv_background *background);
/* Takes over the job. */
void rv_background_ask(struct rv_background *background, struct rv_background_job *job);

#endif
