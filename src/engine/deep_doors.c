/* The public calls for training on what a tenant said: arguments checked, then the part that works. */
#include "engine/door.h"
#include "engine/engine_deep.h"

struct ruvllm_train_params ruvllm_deep_train_params_default(void)
{
    struct ruvllm_train_params p = ruvllm_train_params_default();

    p.n_epochs = 12;
    p.patience = 0;  // anchors are weighed anew after each epoch
    p.step_size = 0; // as suits the model
    p.held_out = 0.2f;
    p.kl_weight = 2;
    p.has_kto = true;
    return p;
}

struct ruvllm_deep_params ruvllm_deep_params_default(void)
{
    return (struct ruvllm_deep_params){
        .struct_size = sizeof(struct ruvllm_deep_params), .max_forgetting = 0.03f, .ewc = 30, .n_variants = 2};
}

ruvllm_status ruvllm_engine_learn_deep(ruvllm_engine *engine, const char *tenant,
                                       const struct ruvllm_deep_params *params, struct ruvllm_deep_report *report,
                                       struct ruvllm_error *err)
{
    struct ruvllm_deep_params ours = ruvllm_deep_params_default();
    struct ruvllm_train_params train = ruvllm_deep_train_params_default();
    struct ruvllm_deep_report told = {.struct_size = sizeof(told), .train = {.struct_size = sizeof(told.train)}};
    ruvllm_status rc;

    if (!engine)
        return rv_door_fail_null(err, "engine");
    rc = rv_door_take_struct(&ours, sizeof(ours), params, "ruvllm_deep_params", err);
    if (!rc)
        rc = rv_door_take_struct(&train, sizeof(train), ours.train, "ruvllm_train_params", err);
    ours.train = &train;
    if (!rc)
        rc = rv_engine_deep_run(engine, tenant, &ours, &told, err);
    if (!rc && report)
        rc = rv_door_give_struct(report, &told, sizeof(told), "ruvllm_deep_report", err);
    return rc;
}
