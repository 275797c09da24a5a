/* The public API's door to training: arguments, defaults, the run with its checkpoint, and the file at the end. */
#include "ruvllm_train.h"

#include "engine/door.h"
#include "engine/train_samples.h"
#include "learn/trainable_file.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

enum { MAX_TOKENS = 8192, MAX_THREADS = 64 };

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
                                        .max_bytes = d.max_state_bytes};
}

/* "q,k,down" to parts; matrices that hold several are trained when one of theirs is named. */
static ruvllm_status parse_modules(const char *text, uint32_t *out, struct ruvllm_error *err)
{
    static const struct {
        const char *name;
        uint32_t parts;
    } modules[] = {
        {"q", 1u << RV_PART_Q | 1u << RV_PART_QKV},
        {"k", 1u << RV_PART_K | 1u << RV_PART_QKV},
        {"v", 1u << RV_PART_V | 1u << RV_PART_QKV},
        {"o", 1u << RV_PART_O},
        {"gate", 1u << RV_PART_GATE},
        {"up", 1u << RV_PART_UP},
        {"down", 1u << RV_PART_DOWN},
    };

    *out = text ? 0 : rv_trainable_all_parts();
    while (text && *text) {
        size_t len = strcspn(text, ","), i = 0;

        while (i < sizeof(modules) / sizeof(modules[0]) &&
               (strlen(modules[i].name) != len || memcmp(modules[i].name, text, len) != 0))
            i++;
        if (i == sizeof(modules) / sizeof(modules[0]))
            return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_CONFIG,
                                "there is no module '%.*s'; there are q, k, v, o, gate, up and down",
                                (int)(len < 32 ? len : 32), text);
        *out |= modules[i].parts;
        text += len + (text[len] == ',');
    }
    return *out ? RUVLLM_OK : rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_CONFIG, "no module is named");
}

static bool pass_progress(void *user, const struct rv_deep_progress *p)
{
    const struct ruvllm_train_params *params = user;
    struct ruvllm_train_progress told = {.struct_size = sizeof(told),
                                         .epoch = p->epoch + 1,
                                         .n_epochs = p->n_epochs,
                                         .step = p->step,
                                         .n_steps = p->n_steps,
                                         .loss = p->loss,
                                         .kl = p->kl,
                                         .step_size = p->step_size,
                                         .held_out = p->held_out,
                                         .held_out_before = p->held_out_before};

    return !params->on_progress || params->on_progress(params->user, &told);
}

static ruvllm_status configure(struct rv_deep_config *out, const struct ruvllm_model *model,
                               struct ruvllm_train_params *params, struct ruvllm_error *err)
{
    static const rv_adamw_schedule schedules[] = {[RUVLLM_TRAIN_CONSTANT] = RV_ADAMW_CONSTANT,
                                                  [RUVLLM_TRAIN_COSINE] = RV_ADAMW_COSINE,
                                                  [RUVLLM_TRAIN_ONE_CYCLE] = RV_ADAMW_ONE_CYCLE};
    const struct ruvllm_train_params *p = params;

    *out = rv_deep_config_default();
    if (p->max_tokens < 2 || p->max_tokens > MAX_TOKENS)
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_CONFIG, "max_tokens must be 2 to %d", MAX_TOKENS);
    if (p->n_threads < 0 || p->n_threads > MAX_THREADS)
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_CONFIG, "n_threads must be 0 to %d", MAX_THREADS);
    if (p->schedule < RUVLLM_TRAIN_CONSTANT || p->schedule > RUVLLM_TRAIN_ONE_CYCLE)
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_CONFIG, "there is no schedule %d", (int)p->schedule);
    out->hparams = &model->hparams;
    out->manifest = &model->manifest;
    out->rank = p->rank;
    out->alpha = p->alpha;
    out->max_tokens = p->max_tokens;
    out->batch_tokens = p->batch_tokens;
    out->n_epochs = p->n_epochs;
    out->patience = p->patience;
    out->held_out = p->held_out;
    out->kl_weight = p->kl_weight;
    out->seed = p->seed;
    out->context = p->max_tokens; // a model with two sets of rope factors is trained with those its examples need
    out->max_state_bytes = p->max_bytes;
    out->adamw.step = p->step_size;
    out->adamw.decay = p->decay;
    out->adamw.clip = p->clip;
    out->adamw.schedule = schedules[p->schedule];
    out->adamw.n_warmup = p->n_warmup;
    out->on_progress = pass_progress;
    out->user = params;
    return parse_modules(p->modules, &out->parts, err);
}

/* The run; a checkpoint that is there is gone on from, and a stopped run leaves one. */
static ruvllm_status run(struct rv_deep *deep, const struct ruvllm_train_params *p, struct rv_deep_result *result,
                         bool *was_resumed, struct ruvllm_error *err)
{
    ruvllm_status rc = RUVLLM_OK;

    *was_resumed = p->checkpoint && access(p->checkpoint, F_OK) == 0;
    if (*was_resumed)
        rc = rv_deep_load(deep, p->checkpoint, err);
    if (!rc)
        rc = rv_deep_run(deep, result, err);
    if (!rc && result->was_stopped && p->checkpoint)
        rc = rv_deep_save(deep, p->checkpoint, err);
    return rc;
}

static ruvllm_status train(const struct ruvllm_model *model, const struct rv_deep_config *config,
                           const struct ruvllm_train_params *p, const struct rv_train_samples *samples,
                           const char *out_path, struct ruvllm_train_report *report, struct ruvllm_error *err)
{
    struct rv_deep_result result = {0};
    struct rv_deep *deep = NULL;
    ruvllm_status rc = rv_deep_open(&deep, config, samples->items, samples->n_items, err);

    if (!rc)
        rc = run(deep, p, &result, &report->was_resumed, err);
    if (!rc) {
        report->n_steps = result.n_steps;
        report->n_epochs = result.n_epochs;
        report->held_out_before = result.held_out_before;
        report->held_out_after = result.held_out_after;
        report->anchor_kl = result.anchor_kl;
        report->was_stopped = result.was_stopped;
        report->was_written = !result.was_stopped && (result.best_epoch >= 0 || p->keep_if_worse);
    }
    if (!rc && report->was_written)
        rc = rv_trainable_file_write(rv_deep_trainable(deep), &model->hparams, &model->manifest, out_path,
                                     RUVLLM_ADAPTER_GGUF, err);
    if (!rc && !result.was_stopped && p->checkpoint)
        (void)unlink(p->checkpoint); // the run is over; that there was none is as good
    rv_deep_close(deep);
    return rc;
}

static int32_t pick_threads(int32_t wanted)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);

    return wanted > 0 ? wanted : n < 1 ? 1 : n > MAX_THREADS ? MAX_THREADS : (int32_t)n;
}

ruvllm_status ruvllm_train(const ruvllm_model *model, const struct ruvllm_train_sample *samples, size_t n_samples,
                           const struct ruvllm_train_params *params, const char *out_path,
                           struct ruvllm_train_report *report, struct ruvllm_error *err)
{
    struct ruvllm_train_params ours = ruvllm_train_params_default();
    struct ruvllm_train_report told = {.struct_size = sizeof(told)};
    struct rv_train_samples prepared;
    struct rv_deep_config config;
    ruvllm_status rc;

    if (!model || !samples || !out_path)
        return rv_door_fail_null(err, !model ? "model" : !samples ? "samples" : "out_path");
    rc = rv_door_take_struct(&ours, sizeof(ours), params, "ruvllm_train_params", err);
    if (rc)
        return rc;
    if (!model->manifest.layers)
        return rv_fail(err, RUVLLM_UNSUPPORTED, "only models that the native backend runs can be trained");
    rc = configure(&config, model, &ours, err);
    if (!rc)
        rc = rv_train_samples_init(&prepared, model, samples, n_samples, ours.max_tokens, err);
    if (rc)
        return rc;
    told.n_samples = (int64_t)prepared.n_items;
    told.n_cut = prepared.n_cut;
    told.n_tokens = prepared.n_tokens;
    rc = rv_team_open(&config.team, pick_threads(ours.n_threads), false, err);
    if (!rc) {
        rc = train(model, &config, &ours, &prepared, out_path, &told, err);
        rv_team_close(config.team);
    }
    rv_train_samples_release(&prepared);
    if (!rc && report)
        rc = rv_door_give_struct(report, &told, sizeof(told), "ruvllm_train_report", err);
    return rc;
}
