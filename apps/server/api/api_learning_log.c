#include "server/api/api_learning_log.h"

#include "server/api/api_json.h"

#include <stdio.h>

/* ---- requests ---------------------------------------------------------------------------------------- */

static void read_model(struct rv_api_fields *body, struct rv_api_learning_wish *out)
{
    const char *model = "";

    rv_api_fields_string(body, "model", 1, RV_API_MAX_MODEL, &model);
    snprintf(out->model, sizeof(out->model), "%s", model);
}

static void read_pause(struct rv_api_fields *body, void *user)
{
    static const struct rv_api_field known[] = {{.name = "model"}, {.name = NULL}};
    static const struct rv_api_field *const tables[] = {known};

    rv_api_fields_only(body, tables, 1);
    read_model(body, user);
}

static void read_forget(struct rv_api_fields *body, void *user)
{
    struct rv_api_learning_wish *out = user;
    static const struct rv_api_field known[] = {{.name = "model"}, {.name = "event"}, {.name = NULL}};
    static const struct rv_api_field *const tables[] = {known};

    rv_api_fields_only(body, tables, 1);
    rv_api_fields_require(body, "event");
    rv_api_fields_int(body, "event", 1, INT64_MAX, &out->event);
    read_model(body, out);
}

ruvllm_status rv_api_learning_log_parse_pause(const char *body, size_t len, struct rv_api_learning_wish *out,
                                              struct rv_api_error *err)
{
    *out = (struct rv_api_learning_wish){0};
    return rv_api_fields_parse(body, len, read_pause, out, err);
}

ruvllm_status rv_api_learning_log_parse_forget(const char *body, size_t len, struct rv_api_learning_wish *out,
                                               struct rv_api_error *err)
{
    *out = (struct rv_api_learning_wish){0};
    return rv_api_fields_parse(body, len, read_forget, out, err);
}

/* ---- replies ----------------------------------------------------------------------------------------- */

static void add_text(struct rv_buf *out, const char *key, const char *text)
{
    rv_api_json_str(out, key, *text ? text : NULL);
}

void rv_api_learning_log_reply_event(struct rv_buf *out, const struct ruvllm_learned_event *event)
{
    rv_api_json_begin(out, NULL, '{');
    rv_api_json_str(out, "object", "learning.event");
    rv_api_json_int(out, "sequence", event->sequence);
    rv_api_json_int(out, "created", event->time_us / 1000000);
    rv_api_json_str(out, "kind", ruvllm_learned_kind_name(event->kind));
    if (event->generation >= 0)
        rv_api_json_int(out, "generation", event->generation);
    else
        rv_api_json_null(out, "generation");
    rv_api_json_int(out, "about", event->about);
    rv_api_json_bool(out, "forgotten", event->is_forgotten);
    rv_api_json_real(out, "score", event->score);
    rv_api_json_real(out, "advantage", event->advantage);
    rv_api_json_real(out, "kl", event->kl);
    rv_api_json_real(out, "gain", event->gain);
    add_text(out, "prompt", event->prompt);
    add_text(out, "answer", event->answer);
    add_text(out, "correction", event->correction);
    add_text(out, "reason", event->reason);
    rv_api_json_end(out, '}');
}

void rv_api_learning_log_reply_pause(struct rv_buf *out, const char *model, bool is_paused)
{
    rv_api_json_begin(out, NULL, '{');
    rv_api_json_str(out, "object", "learning.pause");
    rv_api_json_str(out, "model", model);
    rv_api_json_bool(out, "paused", is_paused);
    rv_api_json_end(out, '}');
}

void rv_api_learning_log_reply_forget(struct rv_buf *out, const char *model,
                                      const struct ruvllm_feedback_result *result)
{
    rv_api_json_begin(out, NULL, '{');
    rv_api_json_str(out, "object", "learning.forget");
    rv_api_json_str(out, "model", model);
    rv_api_json_int(out, "event", result->sequence);
    rv_api_json_int(out, "generation", result->generation);
    rv_api_json_int(out, "compute_us", result->compute_us);
    rv_api_json_int(out, "commit_us", result->commit_us);
    rv_api_json_end(out, '}');
}
