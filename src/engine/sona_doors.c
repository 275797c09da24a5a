/* The public calls of ruvllm_sona.h: arguments checked, then the part that works. */
#include "ruvllm_sona.h"

#include "engine/door.h"
#include "engine/recall.h"
#include "engine/sona.h"
#include "learn/micro_lora.h"

#include <math.h>
#include <string.h>

/* ---- a small adapter ------------------------------------------------------------------------- */

struct ruvllm_microlora_config ruvllm_microlora_config_for_hidden_dim(int32_t hidden_dim)
{
    return (struct ruvllm_microlora_config){.struct_size = sizeof(struct ruvllm_microlora_config),
                                            .in_features = hidden_dim,
                                            .out_features = hidden_dim,
                                            .rank = 2,
                                            .alpha = 2,
                                            .target_modules = 1u << RUVLLM_TARGET_HEAD,
                                            .max_pending = 1000,
                                            .seed = 1};
}

ruvllm_status ruvllm_microlora_new(ruvllm_microlora **out, const struct ruvllm_microlora_config *config,
                                   struct ruvllm_error *err)
{
    struct ruvllm_microlora_config ours = ruvllm_microlora_config_for_hidden_dim(0);
    ruvllm_status rc;

    if (!out)
        return rv_door_fail_null(err, "out");
    *out = NULL;
    if (!config)
        return rv_door_fail_null(err, "config");
    rc = rv_door_take_struct(&ours, sizeof(ours), config, "ruvllm_microlora_config", err);
    return rc ? rc : rv_micro_lora_new(out, &ours, err);
}

void ruvllm_microlora_free(ruvllm_microlora *lora)
{
    rv_micro_lora_free(lora);
}

ruvllm_status ruvllm_microlora_calibrate(ruvllm_microlora *lora, ruvllm_target_module module, const float *inputs,
                                         size_t n, struct ruvllm_error *err)
{
    if (!lora || !inputs)
        return rv_door_fail_null(err, lora ? "inputs" : "lora");
    return rv_micro_lora_calibrate(lora, module, inputs, n, err);
}

struct ruvllm_microlora_feedback ruvllm_microlora_feedback_from_quality(double quality)
{
    return (struct ruvllm_microlora_feedback){
        .struct_size = sizeof(struct ruvllm_microlora_feedback), .quality = quality, .module = RUVLLM_TARGET_HEAD};
}

ruvllm_status ruvllm_microlora_adapt(ruvllm_microlora *lora, const float *input,
                                     const struct ruvllm_microlora_feedback *feedback, struct ruvllm_error *err)
{
    struct ruvllm_microlora_feedback ours = ruvllm_microlora_feedback_from_quality(0.5);
    ruvllm_status rc;

    if (!lora || !input || !feedback)
        return rv_door_fail_null(err, !lora ? "lora" : input ? "feedback" : "input");
    rc = rv_door_take_struct(&ours, sizeof(ours), feedback, "ruvllm_microlora_feedback", err);
    return rc ? rc : rv_micro_lora_adapt(lora, input, &ours, err);
}

ruvllm_status ruvllm_microlora_apply_updates(ruvllm_microlora *lora, float learning_rate, struct ruvllm_error *err)
{
    return lora ? rv_micro_lora_apply(lora, learning_rate, err) : rv_door_fail_null(err, "lora");
}

ruvllm_status ruvllm_ewc_update(float *fisher, const float *gradient, size_t n, float decay, struct ruvllm_error *err)
{
    if (!fisher || !gradient)
        return rv_door_fail_null(err, fisher ? "gradient" : "fisher");
    if (!(decay >= 0 && decay < 1))
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_SONA, "a decay is from 0 to below 1, and is %g",
                            (double)decay);
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(gradient[i]))
            return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_SONA, "a gradient is not finite");
    }
    for (size_t i = 0; i < n; i++)
        fisher[i] = decay * fisher[i] + (1 - decay) * gradient[i] * gradient[i];
    return RUVLLM_OK;
}

ruvllm_status ruvllm_microlora_anchor(ruvllm_microlora *lora, struct ruvllm_error *err)
{
    if (!lora)
        return rv_door_fail_null(err, "lora");
    rv_micro_lora_anchor(lora);
    return RUVLLM_OK;
}

static ruvllm_status take_ewc(const ruvllm_microlora *lora, const struct ruvllm_ewc_state *theirs,
                              struct ruvllm_ewc_state *ours, struct ruvllm_error *err)
{
    ruvllm_status rc;

    *ours = (struct ruvllm_ewc_state){.struct_size = sizeof(*ours)};
    rc = rv_door_take_struct(ours, sizeof(*ours), theirs, "ruvllm_ewc_state", err);
    if (!rc)
        rc = rv_micro_lora_check_module(lora, ours->module, err);
    if (!rc && !ours->fisher)
        rc = rv_door_fail_null(err, "fisher");
    for (int32_t i = 0; i < rv_micro_lora_n_out(lora) && !rc; i++) {
        if (!(ours->fisher[i] >= 0) || !isfinite(ours->fisher[i]))
            rc = rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_SONA, "Fisher information is finite and not negative");
    }
    return rc;
}

ruvllm_status ruvllm_microlora_apply_updates_with_ewc(ruvllm_microlora *lora, float learning_rate,
                                                      const struct ruvllm_ewc_state *states, size_t n_states,
                                                      float lambda, struct ruvllm_error *err)
{
    struct ruvllm_ewc_state ours[RUVLLM_N_TARGETS];
    ruvllm_status rc = RUVLLM_OK;

    if (!lora || (!states && n_states))
        return rv_door_fail_null(err, lora ? "states" : "lora");
    if (n_states > RUVLLM_N_TARGETS || !(lambda >= 0) || !isfinite(lambda))
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_SONA,
                            "EWC takes a state a module and a lambda that is not negative");
    for (size_t i = 0; i < n_states && !rc; i++)
        rc = take_ewc(lora, &states[i], &ours[i], err);
    if (!rc)
        rc = rv_micro_lora_apply(lora, learning_rate, err);
    for (size_t i = 0; i < n_states && !rc; i++)
        rc = rv_micro_lora_pull(lora, ours[i].module, ours[i].fisher, lambda, err);
    return rc;
}

ruvllm_status ruvllm_microlora_forward_add(const ruvllm_microlora *lora, ruvllm_target_module module,
                                           const float *input, float *out, struct ruvllm_error *err)
{
    if (!lora || !input || !out)
        return rv_door_fail_null(err, !lora ? "lora" : input ? "out" : "input");
    return rv_micro_lora_forward(lora, module, input, out, err);
}

ruvllm_status ruvllm_microlora_forward(const ruvllm_microlora *lora, ruvllm_target_module module, const float *input,
                                       float *out, struct ruvllm_error *err)
{
    if (lora && out)
        memset(out, 0, (size_t)rv_micro_lora_n_out(lora) * sizeof(*out));
    return ruvllm_microlora_forward_add(lora, module, input, out, err);
}

void ruvllm_microlora_reset(ruvllm_microlora *lora)
{
    if (lora)
        rv_micro_lora_reset(lora);
}

ruvllm_status ruvllm_microlora_stats_get(const ruvllm_microlora *lora, struct ruvllm_microlora_stats *out,
                                         struct ruvllm_error *err)
{
    struct ruvllm_microlora_stats ours = {.struct_size = sizeof(ours)};

    if (!lora || !out)
        return rv_door_fail_null(err, lora ? "out" : "lora");
    rv_micro_lora_stats(lora, &ours);
    return rv_door_give_struct(out, &ours, sizeof(ours), "ruvllm_microlora_stats", err);
}

/* ---- the loops of an engine ------------------------------------------------------------------- */

struct ruvllm_sona_config ruvllm_sona_config_default(void)
{
    return (struct ruvllm_sona_config){.struct_size = sizeof(struct ruvllm_sona_config),
                                       .instant_lr = 0.01f,
                                       .background_interval_ms = 100,
                                       .background_min_samples = 10,
                                       .deep_trigger_threshold = 100,
                                       .max_pending_samples = 1000};
}

ruvllm_status ruvllm_sona_new(ruvllm_sona **out, ruvllm_engine *engine, const char *tenant,
                              const struct ruvllm_sona_config *config, struct ruvllm_error *err)
{
    struct ruvllm_sona_config ours = ruvllm_sona_config_default();
    ruvllm_status rc;

    if (!out)
        return rv_door_fail_null(err, "out");
    *out = NULL;
    if (!engine)
        return rv_door_fail_null(err, "engine");
    rc = rv_door_take_struct(&ours, sizeof(ours), config, "ruvllm_sona_config", err);
    return rc ? rc : rv_sona_new(out, engine, tenant, &ours, err);
}

void ruvllm_sona_free(ruvllm_sona *sona)
{
    rv_sona_free(sona);
}

ruvllm_status ruvllm_sona_instant_adapt(ruvllm_sona *sona, const char *request, const char *response, double quality,
                                        struct ruvllm_sona_result *result, struct ruvllm_error *err)
{
    struct ruvllm_sona_result ours = {.struct_size = sizeof(ours)};
    ruvllm_status rc;

    if (!sona || !request || !response)
        return rv_door_fail_null(err, !sona ? "sona" : request ? "response" : "request");
    rc = rv_sona_instant_adapt(sona, request, response, quality, &ours, err);
    if (rc || !result)
        return rc;
    return rv_door_give_struct(result, &ours, sizeof(ours), "ruvllm_sona_result", err);
}

ruvllm_status ruvllm_sona_background_consolidate(ruvllm_sona *sona, struct ruvllm_sona_result *result,
                                                 struct ruvllm_error *err)
{
    struct ruvllm_sona_result ours = {.struct_size = sizeof(ours)};
    ruvllm_status rc;

    if (!sona)
        return rv_door_fail_null(err, "sona");
    rc = rv_sona_background(sona, &ours, err);
    if (rc || !result)
        return rc;
    return rv_door_give_struct(result, &ours, sizeof(ours), "ruvllm_sona_result", err);
}

ruvllm_status ruvllm_sona_maybe_background(ruvllm_sona *sona, bool *was_due, struct ruvllm_sona_result *result,
                                           struct ruvllm_error *err)
{
    if (!sona || !was_due)
        return rv_door_fail_null(err, sona ? "was_due" : "sona");
    *was_due = rv_sona_is_background_due(sona);
    return *was_due ? ruvllm_sona_background_consolidate(sona, result, err) : RUVLLM_OK;
}

ruvllm_status ruvllm_sona_deep_optimize(ruvllm_sona *sona, const struct ruvllm_train_sample *samples, size_t n_samples,
                                        const struct ruvllm_deep_params *params, struct ruvllm_sona_result *result,
                                        struct ruvllm_error *err)
{
    struct ruvllm_train_params train = ruvllm_deep_train_params_default();
    struct ruvllm_deep_params deep = ruvllm_deep_params_default();
    struct ruvllm_sona_result ours = {.struct_size = sizeof(ours)};
    ruvllm_status rc;

    if (!sona || (!samples && n_samples))
        return rv_door_fail_null(err, sona ? "samples" : "sona");
    for (size_t i = 0; i < n_samples; i++) {
        if (samples[i].struct_size != sizeof(*samples)) // they lie one behind the other
            return rv_fail(err, RUVLLM_INVALID, "'struct_size' of sample %zu is not that of this library's", i);
    }
    rc = rv_door_take_struct(&deep, sizeof(deep), params, "ruvllm_deep_params", err);
    if (!rc)
        rc = rv_door_take_struct(&train, sizeof(train), deep.train, "ruvllm_train_params", err);
    deep.train = &train;
    if (!rc)
        rc = rv_sona_deep_optimize(sona, samples, n_samples, &deep, &ours, err);
    if (rc || !result)
        return rc;
    return rv_door_give_struct(result, &ours, sizeof(ours), "ruvllm_sona_result", err);
}

bool ruvllm_sona_should_trigger_deep(const ruvllm_sona *sona)
{
    return sona && rv_sona_should_trigger_deep(sona);
}

ruvllm_status ruvllm_sona_forward(ruvllm_sona *sona, const float *state, float *out, struct ruvllm_error *err)
{
    if (!sona || !state || !out)
        return rv_door_fail_null(err, !sona ? "sona" : state ? "out" : "state");
    return rv_sona_forward(sona, state, out, err);
}

ruvllm_status ruvllm_sona_reset(ruvllm_sona *sona, struct ruvllm_error *err)
{
    return sona ? rv_sona_reset(sona, err) : rv_door_fail_null(err, "sona");
}

ruvllm_status ruvllm_sona_stats_get(ruvllm_sona *sona, struct ruvllm_sona_stats *out, struct ruvllm_error *err)
{
    struct ruvllm_sona_stats ours = {.struct_size = sizeof(ours)};
    ruvllm_status rc;

    if (!sona || !out)
        return rv_door_fail_null(err, sona ? "out" : "sona");
    rc = rv_sona_stats(sona, &ours, err);
    return rc ? rc : rv_door_give_struct(out, &ours, sizeof(ours), "ruvllm_sona_stats", err);
}

/* ---- what was asked and how it went ----------------------------------------------------------- */

ruvllm_status ruvllm_patterns_recall(ruvllm_engine *engine, const char *tenant, const struct ruvllm_input *input,
                                     size_t max, ruvllm_pattern_fn fn, void *user, struct ruvllm_error *err)
{
    struct ruvllm_input ours = {.struct_size = sizeof(ours)};
    ruvllm_status rc;

    if (!engine || !input || !fn)
        return rv_door_fail_null(err, !engine ? "engine" : input ? "fn" : "input");
    rc = rv_door_take_struct(&ours, sizeof(ours), input, "ruvllm_input", err);
    return rc ? rc : rv_recall_patterns(engine, tenant, &ours, max, fn, user, err);
}

ruvllm_status ruvllm_patterns_list(ruvllm_engine *engine, const char *tenant, size_t max, ruvllm_pattern_fn fn,
                                   void *user, struct ruvllm_error *err)
{
    if (!engine || !fn)
        return rv_door_fail_null(err, engine ? "fn" : "engine");
    return rv_recall_list(engine, tenant, max, fn, user, err);
}

ruvllm_status ruvllm_patterns_forget(ruvllm_engine *engine, const char *tenant, struct ruvllm_error *err)
{
    return engine ? rv_recall_forget(engine, tenant, err) : rv_door_fail_null(err, "engine");
}
