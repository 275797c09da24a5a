#include "server/api/api_deep.h"

#include "server/api/api_json.h"

#include <math.h>
#include <stdio.h>

/* ---- request ----------------------------------------------------------------------------------------- */

static void read_wish(struct rv_api_fields *body, void *user)
{
    struct rv_api_deep_wish *out = user;
    static const struct rv_api_field known[] = {
        {.name = "model"}, {.name = "fresh"}, {.name = "max_forgetting"}, {.name = NULL}};
    static const struct rv_api_field *const tables[] = {known};
    const char *model = "";

    rv_api_fields_only(body, tables, 1);
    rv_api_fields_string(body, "model", 1, RV_API_MAX_MODEL, &model);
    rv_api_fields_bool(body, "fresh", &out->is_fresh);
    rv_api_fields_float(body, "max_forgetting", 0.0001, 1, &out->max_forgetting);
    snprintf(out->model, sizeof(out->model), "%s", model);
}

ruvllm_status rv_api_deep_parse(const char *body, size_t len, struct rv_api_deep_wish *out, struct rv_api_error *err)
{
    *out = (struct rv_api_deep_wish){.max_forgetting = ruvllm_deep_params_default().max_forgetting};
    return rv_api_fields_parse(body, len, read_wish, out, err);
}

/* ---- reply ------------------------------------------------------------------------------------------- */

static void add_count(struct rv_buf *out, const char *key, const struct ruvllm_deep_report *report, int64_t value)
{
    if (report)
        rv_api_json_int(out, key, value);
    else
        rv_api_json_null(out, key);
}

static void add_report(struct rv_buf *out, const struct ruvllm_deep_report *r)
{
    if (r && r->train.was_written)
        rv_api_json_int(out, "generation", r->generation);
    else
        rv_api_json_null(out, "generation");
    add_count(out, "votes", r, r ? r->n_votes : 0);
    add_count(out, "corrections", r, r ? r->n_corrections : 0);
    add_count(out, "pairs", r, r ? r->n_pairs : 0);
    add_count(out, "unused", r, r ? r->n_unused : 0);
    rv_api_json_real(out, "forgetting", r ? r->forgetting : (double)NAN);
}

void rv_api_deep_reply(struct rv_buf *out, const struct rv_api_deep_run *run)
{
    const struct ruvllm_train_progress *p = run->progress;
    const struct ruvllm_train_report *t = run->report ? &run->report->train : NULL;
    struct rv_api_error told = {0};

    if (run->failure)
        rv_api_error_from(&told, run->failure);
    rv_api_json_begin(out, NULL, '{');
    rv_api_json_str(out, "object", "learning.deep");
    rv_api_json_str(out, "model", run->model);
    rv_api_json_str(out, "status", run->status);
    rv_api_json_int(out, "created", run->started);
    rv_api_json_real(out, "seconds", run->seconds);
    rv_api_json_int(out, "epoch", p->epoch);
    rv_api_json_int(out, "epochs", p->n_epochs);
    rv_api_json_int(out, "step", t ? t->n_steps : p->step);
    rv_api_json_int(out, "steps", p->n_steps);
    rv_api_json_real(out, "loss", p->loss);
    rv_api_json_real(out, "held_out_before", t ? t->held_out_before : p->held_out_before);
    rv_api_json_real(out, "held_out", t ? t->held_out_after : p->held_out);
    add_report(out, run->report);
    rv_api_json_str(out, "error", run->failure ? told.message : NULL);
    rv_api_json_end(out, '}');
}
