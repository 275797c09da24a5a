/* What was learned for a tenant, in a store: train on it, look at it, go back, take it along. */
#ifndef RV_CLI_LEARN_STORE_H
#define RV_CLI_LEARN_STORE_H

#include "model_options.h"
#include "store_options.h"

#include "ruvllm_train.h"

struct rv_learn_store {
    const struct rv_model_options *model;
    const struct rv_store_options *store;
    const char *tenant;
    bool json;
};

/* What a run is to do besides its parameters. */
struct rv_learn_store_run {
    const struct ruvllm_train_params *train;
    float max_forgetting;
    int32_t n_variants;
    bool is_fresh;
};

/* Each returns the exit code, after saying what came of it or what is wrong. */
RV_CHECKED int rv_learn_store_run(const struct rv_learn_store *what, const struct rv_learn_store_run *run);
RV_CHECKED int rv_learn_store_status(const struct rv_learn_store *what);
RV_CHECKED int rv_learn_store_rollback(const struct rv_learn_store *what, int64_t generation);
/* The last `limit` events, newest first. */
RV_CHECKED int rv_learn_store_history(const struct rv_learn_store *what, int32_t limit);
/* As a file that an engine loads; `format` is a ruvllm_adapter_format. */
RV_CHECKED int rv_learn_store_export(const struct rv_learn_store *what, const char *path, int32_t format);

#endif
