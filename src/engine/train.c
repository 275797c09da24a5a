/* The public API's door to training: arguments, defaults, and the file at the end. */
#include "ruvllm_train.h"

#include "engine/door.h"
#include "engine/train_run.h"
#include "engine/train_samples.h"
#include "learn/trainable_file.h"

struct ruvllm_train_params ruvllm_train_params_default(void)
{
    struct rv_deep_config d = rv_deep_config_default();

    return (struct ruvllm_train_params){.struct_size = sizeof(struct ruvllm_train_params),
                                        .rank = d.rank,
                                        .alpha = d.alpha,
                                        .max_tokens = d.max_tokens,
                                        .batch_tokens = d.batch_tokens,
                                        .n_epochs = d.n_epochs,
                                        .patience = d.patience,
                                        .step_size = d.adamw.step,
                                        .decay = d.adamw.decay,
                                        .clip = d.adamw.clip,
                                        .schedule = RUVLLM_TRAIN_COSINE,
                                        .n_warmup = d.adamw.n_warmup,
                                        .held_out = d.held_out,
                                        .kl_weight = d.kl_weight,
                                        .seed = d.seed,
                                        .max_bytes = d.max_state_bytes,
                                        .checkpoint_seconds = 60,
                                        .beta = d.beta};
}

static ruvllm_status train(struct rv_train_run *run, const struct ruvllm_model *model,
                           const struct rv_train_samples *samples, const char *out_path,
                           struct ruvllm_train_report *report, struct ruvllm_error *err)
{
    struct rv_deep_result result = {0};
    ruvllm_status rc = rv_train_run_go(run, samples->items, samples->n_items, &result, err);

    if (!rc) {
        report->was_resumed = run->was_resumed;
        report->n_steps = result.n_steps;
        report->n_epochs = result.n_epochs;
        report->held_out_before = result.held_out_before;
        report->held_out_after = result.held_out_after;
        report->anchor_kl = result.anchor_kl;
        report->was_stopped = result.was_stopped;
        report->was_written = !result.was_stopped && (result.best_epoch >= 0 || run->params->keep_if_worse);
    }
    if (!rc && report->was_written)
        rc = rv_trainable_file_write(rv_deep_trainable(run->deep), &model->hparams, &model->manifest, out_path,
                                     RUVLLM_ADAPTER_GGUF, err);
    if (!rc && !result.was_stopped)
        rv_train_run_finish(run);
    rv_deep_close(run->deep);
    return rc;
}

ruvllm_status ruvllm_train(const ruvllm_model *model, const struct ruvllm_train_sample *samples, size_t n_samples,
                           const struct ruvllm_train_params *params, const char *out_path,
                           struct ruvllm_train_report *report, struct ruvllm_error *err)
{
    struct ruvllm_train_params ours = ruvllm_train_params_default();
    struct ruvllm_train_report told = {.struct_size = sizeof(told)};
    struct rv_train_samples prepared;
    struct rv_train_run run;
    ruvllm_status rc;

    if (!model || !samples || !out_path)
        return rv_door_fail_null(err, !model ? "model" : !samples ? "samples" : "out_path");
    rc = rv_door_take_struct(&ours, sizeof(ours), params, "ruvllm_train_params", err);
    if (rc)
        return rc;
    if (!model->manifest.layers)
        return rv_fail(err, RUVLLM_UNSUPPORTED, "only models that the native backend runs can be trained");
    rc = rv_train_run_init(&run, model, &ours, err);
    if (!rc)
        rc = rv_train_samples_init(&prepared, model, samples, n_samples, ours.max_tokens, err);
    if (rc)
        return rc;
    told.n_samples = (int64_t)prepared.n_items;
    told.n_cut = prepared.n_cut;
    told.n_tokens = prepared.n_tokens;
    rc = rv_team_open(&run.config.team, rv_train_run_n_threads(ours.n_threads), false, err);
    if (!rc) {
        rc = train(&run, model, &prepared, out_path, &told, err);
        rv_team_close(run.config.team);
    }
    rv_train_samples_release(&prepared);
    if (!rc && report)
        rc = rv_door_give_struct(report, &told, sizeof(told), "ruvllm_train_report", err);
    return rc;
}
