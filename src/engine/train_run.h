/*
 * A training run as callers ask for it: their parameters to a run's config, and the run itself, gone on with from its
 * checkpoint when there is one, kept there now and then, and when it is stopped.
 */
#ifndef RV_ENGINE_TRAIN_RUN_H
#define RV_ENGINE_TRAIN_RUN_H

#include "engine/model.h"
#include "learn/deep.h"
#include "ruvllm_train.h"

struct rv_train_run {
    const struct ruvllm_train_params *params;
    struct rv_deep_config config;
    struct rv_deep *deep; // NULL before it is gone; the caller's to close
    int64_t saved_us;     // when it was kept last
    bool may_begin_anew;  // a checkpoint of another run is no failure: its samples may have become more
    bool was_resumed;
};

/* Fills in the config but its team. `params` must outlive the run, which must stay where it is. */
RV_CHECKED ruvllm_status rv_train_run_init(struct rv_train_run *run, const struct ruvllm_model *model,
                                           const struct ruvllm_train_params *params, struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_train_run_go(struct rv_train_run *run, const struct rv_deep_sample *samples,
                                         size_t n_samples, struct rv_deep_result *result, struct ruvllm_error *err);
/* The run is over: its checkpoint goes. */
void rv_train_run_finish(const struct rv_train_run *run);

/* How many threads `n_threads` of the parameters means. */
int32_t rv_train_run_n_threads(int32_t wanted);

#endif
