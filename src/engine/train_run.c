/* Text and numbers to a config, and a run with its checkpoint. */
#include "engine/train_run.h"

#include "base/clock.h"
#include "base/log.h"

#include <string.h>
#include <unistd.h>

enum { MAX_TOKENS = 8192, MAX_THREADS = 64 };

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

/* Keeps the run where it is, if it is time to; one that cannot be kept goes on. */
static void keep(struct rv_train_run *run)
{
    const struct ruvllm_train_params *p = run->params;
    int64_t now = rv_clock_us();
    struct ruvllm_error err;

    if (!p->checkpoint || p->checkpoint_seconds <= 0 || now - run->saved_us < (int64_t)p->checkpoint_seconds * 1000000)
        return;
    run->saved_us = now;
    if (rv_deep_save(run->deep, p->checkpoint, &err))
        rv_log(RUVLLM_LOG_WARN, "the run goes on without a checkpoint: %s", err.message);
}

static bool pass_progress(void *user, const struct rv_deep_progress *p)
{
    struct rv_train_run *run = user;
    const struct ruvllm_train_params *params = run->params;
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

    keep(run);
    return !params->on_progress || params->on_progress(params->user, &told);
}

ruvllm_status rv_train_run_init(struct rv_train_run *run, const struct ruvllm_model *model,
                                const struct ruvllm_train_params *params, struct ruvllm_error *err)
{
    static const rv_adamw_schedule schedules[] = {[RUVLLM_TRAIN_CONSTANT] = RV_ADAMW_CONSTANT,
                                                  [RUVLLM_TRAIN_COSINE] = RV_ADAMW_COSINE,
                                                  [RUVLLM_TRAIN_ONE_CYCLE] = RV_ADAMW_ONE_CYCLE};
    const struct ruvllm_train_params *p = params;
    struct rv_deep_config *out = &run->config;

    *run = (struct rv_train_run){.params = params, .config = rv_deep_config_default()};
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
    out->has_kto = p->has_kto;
    out->beta = p->beta;
    out->user = run;
    return parse_modules(p->modules, &out->parts, err);
}

ruvllm_status rv_train_run_go(struct rv_train_run *run, const struct rv_deep_sample *samples, size_t n_samples,
                              struct rv_deep_result *result, struct ruvllm_error *err)
{
    const char *checkpoint = run->params->checkpoint;
    ruvllm_status rc = rv_deep_open(&run->deep, &run->config, samples, n_samples, err);

    if (rc)
        return rc;
    run->saved_us = rv_clock_us();
    run->was_resumed = checkpoint && access(checkpoint, F_OK) == 0;
    if (run->was_resumed)
        rc = rv_deep_load(run->deep, checkpoint, err);
    if (rc == RUVLLM_INVALID && run->may_begin_anew) {
        rv_log(RUVLLM_LOG_INFO, "the run begins anew: '%s' is of another one", checkpoint);
        run->was_resumed = false;
        rc = RUVLLM_OK;
    }
    if (!rc)
        rc = rv_deep_run(run->deep, result, err);
    if (!rc && result->was_stopped && checkpoint)
        rc = rv_deep_save(run->deep, checkpoint, err);
    return rc;
}

void rv_train_run_finish(const struct rv_train_run *run)
{
    if (run->params->checkpoint)
        (void)unlink(run->params->checkpoint); // that there was none is as good
}

int32_t rv_train_run_n_threads(int32_t wanted)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);

    return wanted > 0 ? wanted : n < 1 ? 1 : n > MAX_THREADS ? MAX_THREADS : (int32_t)n;
}
