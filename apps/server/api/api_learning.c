/* What clients say of answers, and what they are told was learned. */
#include "server/api/api_learning.h"

#include "base/alloc.h"
#include "server/api/api_json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void copy(char *out, size_t cap, const char *text)
{
    snprintf(out, cap, "%s", text ? text : "");
}

/* ---- requests ---------------------------------------------------------------------------------------- */

/* An own copy of a text that may be absent. */
static void read_text(struct rv_api_fields *body, const char *name, size_t min_len, size_t max_len, char **out)
{
    const char *text;

    if (!rv_api_fields_string(body, name, min_len, max_len, &text))
        return;
    *out = rv_strndup(text, strlen(text));
    if (*out)
        return;
    rv_api_error_from(body->reader->err, &(struct ruvllm_error){.status = RUVLLM_NO_MEMORY});
    body->reader->failed = RUVLLM_NO_MEMORY;
}

/* What is said of the answer: one thing. */
static void read_verdict(struct rv_api_fields *body, struct rv_api_feedback *out)
{
    bool is_pair;

    read_text(body, "correction", 1, RV_API_MAX_CORRECTION, &out->correction);
    read_text(body, "preferred", 1, RV_API_MAX_CORRECTION, &out->preferred);
    read_text(body, "rejected", 1, RV_API_MAX_CORRECTION, &out->rejected);
    is_pair = out->preferred || out->rejected;
    if (!out->correction && !is_pair)
        rv_api_fields_require(body, "score");
    out->has_score = rv_api_fields_float(body, "score", 0, 1, &out->score);
    if (out->correction && (is_pair || out->has_score))
        rv_api_fields_fail(body->reader, "correction", "invalid_value",
                           "'correction' goes with neither 'score' nor 'preferred' nor 'rejected'");
    else if (is_pair && out->has_score)
        rv_api_fields_fail(body->reader, "score", "invalid_value",
                           "'score' does not go with 'preferred' or 'rejected'");
}

static void read_feedback(struct rv_api_fields *body, void *user)
{
    struct rv_api_feedback *out = user;
    static const struct rv_api_field known[] = {{.name = "response_id"}, {.name = "score"},    {.name = "correction"},
                                                {.name = "preferred"},   {.name = "rejected"}, {.name = "reason"},
                                                {.name = "choice"},      {.name = NULL}};
    static const struct rv_api_field *const tables[] = {known};
    const char *id = "";

    rv_api_fields_only(body, tables, 1);
    rv_api_fields_require(body, "response_id");
    rv_api_fields_string(body, "response_id", 1, RV_API_MAX_RESPONSE_ID, &id);
    read_verdict(body, out);
    read_text(body, "reason", 0, RV_API_MAX_REASON, &out->reason);
    rv_api_fields_int32(body, "choice", 0, RV_API_MAX_CHOICE, &out->choice);
    copy(out->response_id, sizeof(out->response_id), id);
}

ruvllm_status rv_api_learning_parse_feedback(const char *body, size_t len, struct rv_api_feedback *out,
                                             struct rv_api_error *err)
{
    *out = (struct rv_api_feedback){0};
    return rv_api_fields_parse(body, len, read_feedback, out, err);
}

void rv_api_learning_release_feedback(struct rv_api_feedback *feedback)
{
    rv_free(feedback->correction);
    rv_free(feedback->preferred);
    rv_free(feedback->rejected);
    rv_free(feedback->reason);
    *feedback = (struct rv_api_feedback){0};
}

static void read_rollback(struct rv_api_fields *body, void *user)
{
    struct rv_api_rollback *out = user;
    static const struct rv_api_field known[] = {{.name = "model"}, {.name = "generation"}, {.name = NULL}};
    static const struct rv_api_field *const tables[] = {known};
    const char *model = "";

    rv_api_fields_only(body, tables, 1);
    rv_api_fields_require(body, "generation");
    rv_api_fields_string(body, "model", 1, RV_API_MAX_MODEL, &model);
    rv_api_fields_int(body, "generation", 0, INT64_MAX, &out->generation);
    copy(out->model, sizeof(out->model), model);
}

ruvllm_status rv_api_learning_parse_rollback(const char *body, size_t len, struct rv_api_rollback *out,
                                             struct rv_api_error *err)
{
    *out = (struct rv_api_rollback){0};
    return rv_api_fields_parse(body, len, read_rollback, out, err);
}

/* ---- replies ----------------------------------------------------------------------------------------- */

static void add_result(struct rv_buf *out, const struct ruvllm_feedback_result *result)
{
    rv_api_json_int(out, "generation", result->generation);
    rv_api_json_int(out, "sequence", result->sequence);
}

static void add_times(struct rv_buf *out, const struct ruvllm_feedback_result *result)
{
    rv_api_json_int(out, "compute_us", result->compute_us);
    rv_api_json_int(out, "commit_us", result->commit_us);
}

void rv_api_learning_reply_feedback(struct rv_buf *out, const char *response_id,
                                    const struct ruvllm_feedback_result *result)
{
    rv_api_json_begin(out, NULL, '{');
    rv_api_json_str(out, "object", "feedback");
    rv_api_json_str(out, "response_id", response_id);
    add_result(out, result);
    rv_api_json_real(out, "advantage", result->advantage);
    rv_api_json_real(out, "kl", result->kl);
    add_times(out, result);
    rv_api_json_int(out, "read_us", result->read_us);
    rv_api_json_end(out, '}');
}

void rv_api_learning_reply_rollback(struct rv_buf *out, const char *model, const struct ruvllm_feedback_result *result)
{
    rv_api_json_begin(out, NULL, '{');
    rv_api_json_str(out, "object", "learning.rollback");
    rv_api_json_str(out, "model", model);
    add_result(out, result);
    add_times(out, result);
    rv_api_json_end(out, '}');
}

void rv_api_learning_reply(struct rv_buf *out, const char *model, const struct ruvllm_learned_info *info)
{
    rv_api_json_begin(out, NULL, '{');
    rv_api_json_str(out, "object", "learning");
    rv_api_json_str(out, "model", model);
    rv_api_json_bool(out, "learning", info != NULL);
    if (info) {
        rv_api_json_int(out, "generation", info->generation);
        rv_api_json_int(out, "votes", info->n_votes);
        rv_api_json_real(out, "mean_score", info->mean_score);
        rv_api_json_int(out, "oldest_generation", info->oldest_generation);
        rv_api_json_real(out, "spent_kl", info->spent_kl);
        rv_api_json_int(out, "lessons", info->n_lessons);
        rv_api_json_int(out, "keys", info->n_keys);
        rv_api_json_bool(out, "paused", info->is_paused);
        rv_api_json_int(out, "votes_held_back", info->n_paused);
        rv_api_json_real(out, "anchor_kl", info->anchor_kl);
        rv_api_json_real(out, "kl_budget", info->kl_budget > 0 ? info->kl_budget : NAN);
        rv_api_json_int(out, "ticks", info->n_ticks);
        rv_api_json_str(out, "consolidation", ruvllm_consolidation_name(info->consolidation));
    }
    rv_api_json_end(out, '}');
}

void rv_api_learning_missing(struct rv_api_error *err, const char *response_id)
{
    rv_api_error_set(err, 404, "response_not_found", "response_id",
                     "there is no answer '%.*s' of this key's tenant, or it is too old to learn from",
                     RV_API_ERROR_NAME, response_id);
}

void rv_api_learning_not_yet(struct rv_api_error *err, const char *model)
{
    rv_api_error_set(
        err, 503, "learning_not_ready", NULL,
        "the model '%.*s' prepares to learn, which takes seconds to minutes the first time; what it answers "
        "now can be judged then. Try again in a while",
        RV_API_ERROR_NAME, model);
}

void rv_api_learning_off(struct rv_api_error *err, const char *model)
{
    if (model)
        rv_api_error_set(err, 501, "learning_off", NULL,
                         "the model '%.*s' cannot learn: that needs our own graph on the CPU", RV_API_ERROR_NAME,
                         model);
    else
        rv_api_error_set(err, 501, "learning_off", NULL, "this server does not learn: it was started without --learn");
}
