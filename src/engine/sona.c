#include "engine/sona.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/str_map.h"
#include "base/utf8.h"
#include "engine/engine_deep.h"
#include "engine/engine_learn.h"
#include "engine/input.h"
#include "engine/teacher.h"

#include <math.h>
#include <string.h>

enum { MAX_TEXT = 256 * 1024 };

static const int64_t MAX_WAIT_US = 60000000;
static const double USUAL_RATE = 0.01; // of which a vote's reach is the measure

struct ruvllm_sona {
    struct ruvllm_engine *engine;
    struct rv_learner *learner;
    char *tenant; // NULL: nobody's in particular
    struct ruvllm_sona_config config;
    int64_t n_instant;
    int64_t n_since_deep;
    int64_t n_deep;
    int64_t n_since_background;
    int64_t n_background;
    int64_t background_us; // when the last one ended
    double surprise;       // since then: sum of how far judgements were off what was usual
    double total_us;       // of learning
};

ruvllm_status rv_sona_new(struct ruvllm_sona **out, struct ruvllm_engine *engine, const char *tenant,
                          const struct ruvllm_sona_config *config, struct ruvllm_error *err)
{
    struct rv_learner *learner;
    struct ruvllm_sona *s;
    ruvllm_status rc = rv_engine_learn_get(engine, &learner, err);

    *out = NULL;
    if (rc)
        return rc;
    if (!(config->instant_lr > 0 && config->instant_lr <= 1) || !(config->deep_trigger_threshold > 0) ||
        config->max_pending_samples < 1 || config->background_interval_ms < 0 || config->background_min_samples < 1)
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_SONA,
                            "'instant_lr' lies between 0 and 1; thresholds and counts are above 0");
    s = rv_calloc(1, sizeof(*s));
    if (!s)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate what learning needs");
    s->engine = engine;
    s->learner = learner;
    s->config = *config;
    s->tenant = tenant ? rv_strdup(tenant) : NULL;
    if (tenant && !s->tenant) {
        rv_sona_free(s);
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate what learning needs");
    }
    *out = s;
    return RUVLLM_OK;
}

void rv_sona_free(struct ruvllm_sona *sona)
{
    if (!sona)
        return;
    rv_free(sona->tenant);
    rv_free(sona);
}

/* ---- texts ---------------------------------------------------------------------------------- */

/* A request and its response as tokens. */
struct text {
    int32_t *prompt, *target;
    size_t n_prompt;
    int32_t n_target;
};

static void release_text(struct text *t)
{
    rv_free(t->prompt);
    rv_free(t->target);
}

static ruvllm_status check_text(const char *text, const char *what, struct ruvllm_error *err)
{
    size_t len = strnlen(text, MAX_TEXT + 1);

    if (len > MAX_TEXT)
        return rv_fail_kind(err, RUVLLM_TOO_LARGE, RUVLLM_ERROR_SONA, "the %s is longer than %d bytes", what, MAX_TEXT);
    return rv_utf8_valid(text, len) && len > 0
               ? RUVLLM_OK
               : rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_SONA, "the %s is empty, or not UTF-8", what);
}

static ruvllm_status read_text(const struct ruvllm_model *model, const char *request, const char *response,
                               struct text *out, struct ruvllm_error *err)
{
    const struct ruvllm_message message = {.role = "user", .content = request};
    struct ruvllm_input input = {.struct_size = sizeof(input)};
    const struct rv_trace nobody = {.asked_last = -1}; // no answer was given whose end to take
    ruvllm_status rc = check_text(request, "request", err);

    *out = (struct text){0};
    if (!rc)
        rc = check_text(response, "response", err);
    if (rc)
        return rc;
    if (model->chat_template) {
        input.messages = &message;
        input.n_messages = 1;
    } else {
        input.text = request;
        input.text_len = strlen(request);
    }
    rc = rv_input_tokens(model, &input, &out->prompt, &out->n_prompt, err);
    if (!rc && out->n_prompt > (size_t)model->max_context)
        rc = rv_fail_kind(err, RUVLLM_TOO_LARGE, RUVLLM_ERROR_SONA, "the request does not fit the context");
    if (!rc)
        rc = rv_teacher_tokens(model, &nobody, response, strlen(response), &out->target, &out->n_target, err);
    return rc;
}

/* Has the model read the text, with what the tenant is answered with now. */
static ruvllm_status trace_text(const struct ruvllm_sona *s, const struct text *text, struct rv_trace **out,
                                struct ruvllm_error *err)
{
    struct rv_teacher_text taught = {.tenant = s->tenant,
                                     .prompt = text->prompt,
                                     .n_prompt = (int32_t)text->n_prompt,
                                     .target = text->target,
                                     .n_target = text->n_target};
    struct rv_learner_voice voice;
    ruvllm_status rc = rv_learner_voice(s->learner, s->tenant, &voice, err);

    *out = NULL;
    if (rc)
        return rc;
    taught.voice = &voice;
    rc = rv_teacher_trace(s->engine, &taught, out, err);
    if (!rc)
        (*out)->id = rv_str_map_hash(1, (const char *)text->target, (size_t)text->n_target * sizeof(*text->target));
    rv_learner_release_voice(&voice);
    return rc;
}

static double loss_of(const struct rv_trace *trace)
{
    double sum = 0;

    for (int32_t i = 0; i < trace->n_rows; i++)
        sum -= (double)trace->logprobs[i];
    return trace->n_rows ? sum / trace->n_rows : (double)NAN;
}

/* ---- loops ---------------------------------------------------------------------------------- */

/* Judges a text that was read; counts what came of it. */
static ruvllm_status judge(struct ruvllm_sona *s, struct rv_trace *trace, double quality,
                           struct ruvllm_sona_result *result, struct ruvllm_error *err)
{
    struct rv_learner_lesson lesson = {
        .kind = RV_STORE_EVENT_VOTE, .score = quality, .lesson = {.good = trace}, .generation = trace->generation};
    struct rv_learner_result r;
    ruvllm_status rc;

    trace->reach = (double)s->config.instant_lr / USUAL_RATE;
    rc = rv_learner_teach(s->learner, s->tenant, &lesson, &r, err);
    if (rc)
        return rc;
    result->applied = r.kl > 0;
    result->latency_us = r.compute_us;
    result->commit_us = r.commit_us;
    result->samples_used = trace->n_rows;
    result->loss_before = loss_of(trace);
    result->kl = r.kl;
    result->generation = r.generation;
    s->n_instant++;
    s->n_since_deep++;
    s->n_since_background++;
    s->surprise += fabs(r.advantage);
    s->total_us += (double)r.compute_us;
    return RUVLLM_OK;
}

ruvllm_status rv_sona_instant_adapt(struct ruvllm_sona *sona, const char *request, const char *response, double quality,
                                    struct ruvllm_sona_result *result, struct ruvllm_error *err)
{
    struct rv_trace *before = NULL, *after = NULL;
    int64_t start = rv_clock_us();
    struct ruvllm_error late;
    struct text text;
    ruvllm_status rc = read_text(sona->engine->model, request, response, &text, err);

    if (!rc)
        rc = trace_text(sona, &text, &before, err);
    result->read_us = rv_clock_us() - start;
    if (!rc)
        rc = judge(sona, before, quality, result, err);
    start = rv_clock_us();
    /* By now it is learned, and stays so: that it cannot be read once more is told by a number that is none. */
    if (!rc)
        result->loss_after = trace_text(sona, &text, &after, &late) ? (double)NAN : loss_of(after);
    result->read_us += rv_clock_us() - start;
    rv_trace_unref(before);
    rv_trace_unref(after);
    release_text(&text);
    return rc;
}

ruvllm_status rv_sona_background(struct ruvllm_sona *sona, struct ruvllm_sona_result *result, struct ruvllm_error *err)
{
    struct rv_learner_summary before, after;
    int64_t start = rv_clock_us();
    ruvllm_status rc = rv_learner_sum_up(sona->learner, sona->tenant, &before, err);

    if (!rc)
        rc = rv_learner_consolidate(sona->learner, sona->tenant, MAX_WAIT_US, &result->samples_used, err);
    if (!rc)
        rc = rv_learner_sum_up(sona->learner, sona->tenant, &after, err);
    if (rc)
        return rc;
    sona->background_us = rv_clock_us();
    sona->n_since_background = 0;
    sona->n_background++;
    result->applied = after.n_ticks > before.n_ticks;
    result->latency_us = sona->background_us - start;
    result->loss_before = result->loss_after = (double)NAN;
    result->kl = after.anchor_kl;
    result->generation = after.generation;
    return RUVLLM_OK;
}

bool rv_sona_is_background_due(const struct ruvllm_sona *sona)
{
    return sona->n_since_background >= sona->config.background_min_samples &&
           rv_clock_us() - sona->background_us >= (int64_t)sona->config.background_interval_ms * 1000;
}

/* Only what can be judged as an answer: everything else is for ruvllm_train. */
static ruvllm_status check_sample(const struct ruvllm_train_sample *sample, size_t i, struct ruvllm_error *err)
{
    bool has_score = !isnan(sample->score);

    if (sample->messages || sample->is_anchor || sample->rejected || !sample->prompt || !sample->response)
        return rv_fail_kind(
            err, RUVLLM_INVALID, RUVLLM_ERROR_SONA,
            "sample %zu is not a prompt with a response: conversations, pairs and anchors are for training", i);
    if (has_score && !(sample->score >= 0 && sample->score <= 1))
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_SONA, "the score of sample %zu is not between 0 and 1",
                            i);
    return RUVLLM_OK;
}

ruvllm_status rv_sona_deep_optimize(struct ruvllm_sona *sona, const struct ruvllm_train_sample *samples, size_t n,
                                    const struct ruvllm_deep_params *params, struct ruvllm_sona_result *result,
                                    struct ruvllm_error *err)
{
    struct ruvllm_deep_report report = {.struct_size = sizeof(report)};
    int64_t start;
    ruvllm_status rc = RUVLLM_OK;

    for (size_t i = 0; i < n && !rc; i++)
        rc = check_sample(&samples[i], i, err);
    for (size_t i = 0; i < n && !rc; i++)
        rc = rv_sona_instant_adapt(sona, samples[i].prompt, samples[i].response,
                                   isnan(samples[i].score) ? 1 : (double)samples[i].score, result, err);
    start = rv_clock_us();
    if (!rc)
        rc = rv_engine_deep_run(sona->engine, sona->tenant, params, &report, err);
    if (rc)
        return rc;
    result->applied = report.train.was_written;
    result->latency_us = rv_clock_us() - start;
    result->commit_us = 0;
    result->samples_used = (int32_t)report.train.n_samples;
    result->loss_before = report.train.held_out_before;
    result->loss_after = report.train.held_out_after;
    result->kl = report.train.anchor_kl;
    result->generation = report.generation;
    sona->n_deep++;
    sona->n_since_deep = 0;
    sona->surprise = 0;
    return RUVLLM_OK;
}

bool rv_sona_should_trigger_deep(const struct ruvllm_sona *sona)
{
    return sona->n_since_deep > 0 && (sona->surprise >= sona->config.deep_trigger_threshold ||
                                      sona->n_since_deep >= sona->config.max_pending_samples);
}

ruvllm_status rv_sona_forward(struct ruvllm_sona *sona, const float *state, float *out, struct ruvllm_error *err)
{
    return rv_learner_forward(sona->learner, sona->tenant, state, out, err);
}

ruvllm_status rv_sona_reset(struct ruvllm_sona *sona, struct ruvllm_error *err)
{
    struct rv_learner_result r;
    ruvllm_status rc = rv_learner_go_back(sona->learner, sona->tenant, 0, &r, err);

    if (rc)
        return rc;
    sona->n_since_deep = 0;
    sona->surprise = 0;
    return RUVLLM_OK;
}

ruvllm_status rv_sona_stats(struct ruvllm_sona *sona, struct ruvllm_sona_stats *out, struct ruvllm_error *err)
{
    struct rv_learner_summary sum;
    ruvllm_status rc = rv_learner_sum_up(sona->learner, sona->tenant, &sum, err);

    if (rc)
        return rc;
    out->n_instant = sona->n_instant;
    out->n_deep = sona->n_deep;
    out->n_background = sona->n_background;
    out->n_pending = sona->n_since_deep;
    out->surprise = sona->surprise;
    out->mean_latency_us = sona->n_instant ? sona->total_us / (double)sona->n_instant : 0;
    out->mean_quality = sum.mean;
    out->generation = sum.generation;
    out->spent_kl = sum.spent_kl;
    return RUVLLM_OK;
}
