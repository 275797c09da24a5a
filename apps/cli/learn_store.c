/* An engine is opened for each of them: what was learned is what an engine makes of the log. */
#include "learn_store.h"

#include "output.h"
#include "progress.h"

#include "base/clock.h"
#include "ruvllm_learn_log.h"

#include <math.h>
#include <string.h>

enum { WORDS_SHOWN = 60, SUM_BYTES = 96 }; // bytes

struct opened {
    ruvllm_store *store;
    ruvllm_engine *engine;
};

static void close_all(struct opened *o)
{
    ruvllm_engine_close(o->engine);
    ruvllm_store_close(o->store);
}

/* The store and an engine that learns from it; returns 0 or the exit code. */
static int open_all(struct opened *o, const struct rv_learn_store *what)
{
    struct ruvllm_engine_params params = ruvllm_engine_params_default();
    struct ruvllm_learn_params learn = ruvllm_learn_params_default();
    struct ruvllm_model_params model = what->model->params;
    struct ruvllm_error err = {0};
    struct rv_progress progress;
    char label[64];
    ruvllm_status rc;
    int code;

    *o = (struct opened){0};
    if (!rv_store_options_open(what->store, true, &o->store, &code))
        return code;
    snprintf(label, sizeof(label), "loading %s", rv_model_options_base_name(what->model->path));
    rv_progress_init(&progress, label);
    model.on_progress = rv_progress_on_load;
    model.progress_user = &progress;
    params.model = &model;
    learn.store = o->store;
    learn.no_background = true; // nobody votes here, so nothing has to be prepared for that
    learn.on_progress = rv_progress_on_load;
    learn.progress_user = &progress;
    rc = ruvllm_engine_open(&o->engine, what->model->path, &params, &err);
    if (!rc)
        rc = ruvllm_engine_learn(o->engine, &learn, &err);
    rv_progress_clear(&progress);
    if (!rc)
        return RV_EXIT_OK;
    close_all(o);
    return rv_output_failure(&err, NULL);
}

/* ---- run -------------------------------------------------------------------------------------- */

static void add_real(yyjson_mut_doc *doc, yyjson_mut_val *root, const char *key, double value)
{
    rv_output_json_add(doc, root, key, rv_output_json_real(doc, value, 6));
}

static int run_json(const struct rv_learn_store *what, const struct ruvllm_deep_report *r, double seconds)
{
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_mut_obj(doc);

    yyjson_mut_doc_set_root(doc, root);
    rv_output_json_add(doc, root, "tenant", rv_output_json_text(doc, what->tenant, strlen(what->tenant)));
    yyjson_mut_obj_add_bool(doc, root, "written", r->train.was_written);
    yyjson_mut_obj_add_bool(doc, root, "stopped", r->train.was_stopped);
    yyjson_mut_obj_add_bool(doc, root, "resumed", r->train.was_resumed);
    yyjson_mut_obj_add_int(doc, root, "generation", r->generation);
    yyjson_mut_obj_add_int(doc, root, "votes", r->n_votes);
    yyjson_mut_obj_add_int(doc, root, "corrections", r->n_corrections);
    yyjson_mut_obj_add_int(doc, root, "pairs", r->n_pairs);
    yyjson_mut_obj_add_int(doc, root, "unused", r->n_unused);
    yyjson_mut_obj_add_int(doc, root, "steps", r->train.n_steps);
    add_real(doc, root, "held_out_before", r->train.held_out_before);
    add_real(doc, root, "held_out_after", r->train.held_out_after);
    add_real(doc, root, "forgetting", r->forgetting);
    add_real(doc, root, "seconds", seconds);
    return rv_output_json(doc, false);
}

static void run_text(const struct ruvllm_deep_report *r, const char *checkpoint, double seconds)
{
    if (r->train.was_stopped) {
        printf("stopped after step %d", r->train.n_steps);
        if (checkpoint)
            printf("; the same command goes on from there (%s)", checkpoint);
        printf("\n");
        return;
    }
    if (r->train.was_written)
        printf("generation %lld answers from now on: ", (long long)r->generation);
    else
        printf("nothing was gained within what may be forgotten, so nothing was changed: ");
    printf("%lld votes, %lld corrections, %lld pairs; %d steps in %.1f s; held out %.4f -> %.4f; forgotten %+.2f %%\n",
           (long long)r->n_votes, (long long)r->n_corrections, (long long)r->n_pairs, r->train.n_steps, seconds,
           r->train.held_out_before, r->train.held_out_after, 100 * r->forgetting);
    if (r->n_unused > 0)
        printf("%lld events say nothing, or too little of them was kept\n", (long long)r->n_unused);
}

int rv_learn_store_run(const struct rv_learn_store *what, const struct rv_learn_store_run *run)
{
    struct ruvllm_deep_params params = ruvllm_deep_params_default();
    struct ruvllm_deep_report report = {.struct_size = sizeof(report), .train = {.struct_size = sizeof(report.train)}};
    int64_t start = rv_clock_us();
    struct ruvllm_error err = {0};
    struct opened o;
    double seconds;
    int code = open_all(&o, what);

    if (code)
        return code;
    params.train = run->train;
    params.max_forgetting = run->max_forgetting;
    params.n_variants = run->n_variants;
    params.is_fresh = run->is_fresh;
    if (ruvllm_engine_learn_deep(o.engine, what->tenant, &params, &report, &err)) {
        code = rv_output_failure(&err, NULL);
    } else {
        seconds = (double)(rv_clock_us() - start) / 1e6;
        if (what->json)
            code = run_json(what, &report, seconds);
        else
            run_text(&report, run->train->checkpoint, seconds);
        code = report.train.was_stopped ? RV_EXIT_INTERRUPTED : code;
    }
    close_all(&o);
    return code;
}

/* ---- status and rollback ---------------------------------------------------------------------- */

static int tell_status(const struct rv_learn_store *what, const struct ruvllm_learned_info *info)
{
    yyjson_mut_doc *doc;
    yyjson_mut_val *root;

    if (!what->json) {
        printf("tenant       %s\n", what->tenant);
        printf("generation   %lld\n", (long long)info->generation);
        printf("can go back  to %lld and every one since, and to 0: the model as it came\n",
               (long long)info->oldest_generation);
        printf("votes        %lld, %.2f on average\n", (long long)info->n_votes, info->mean_score);
        printf("lessons      %lld, %lld states remembered\n", (long long)info->n_lessons, (long long)info->n_keys);
        printf("moved        %.4f nats a token, of all steps\n", info->spent_kl);
        return RV_EXIT_OK;
    }
    doc = yyjson_mut_doc_new(NULL);
    root = yyjson_mut_obj(doc);
    yyjson_mut_doc_set_root(doc, root);
    rv_output_json_add(doc, root, "tenant", rv_output_json_text(doc, what->tenant, strlen(what->tenant)));
    yyjson_mut_obj_add_int(doc, root, "generation", info->generation);
    yyjson_mut_obj_add_int(doc, root, "oldest_generation", info->oldest_generation);
    yyjson_mut_obj_add_int(doc, root, "votes", info->n_votes);
    add_real(doc, root, "mean_score", info->mean_score);
    yyjson_mut_obj_add_int(doc, root, "lessons", info->n_lessons);
    yyjson_mut_obj_add_int(doc, root, "keys", info->n_keys);
    add_real(doc, root, "spent_kl", info->spent_kl);
    return rv_output_json(doc, false);
}

int rv_learn_store_status(const struct rv_learn_store *what)
{
    struct ruvllm_learned_info info = {.struct_size = sizeof(info)};
    struct ruvllm_error err = {0};
    struct opened o;
    int code = open_all(&o, what);

    if (code)
        return code;
    code = ruvllm_engine_learned(o.engine, what->tenant, &info, &err) ? rv_output_failure(&err, NULL)
                                                                      : tell_status(what, &info);
    close_all(&o);
    return code;
}

int rv_learn_store_rollback(const struct rv_learn_store *what, int64_t generation)
{
    struct ruvllm_feedback_result result = {.struct_size = sizeof(result)};
    struct ruvllm_error err = {0};
    struct opened o;
    int code = open_all(&o, what);

    if (code)
        return code;
    if (ruvllm_engine_learn_rollback(o.engine, what->tenant, generation, &result, &err))
        code = rv_output_failure(&err, "'ruvllm learn status' says what can be gone back to");
    else if (what->json)
        printf("{\"generation\":%lld,\"as\":%lld}\n", (long long)result.generation, (long long)generation);
    else
        printf("generation %lld answers from now on, as %lld did\n", (long long)result.generation,
               (long long)generation);
    close_all(&o);
    return code;
}

/* ---- history and export ------------------------------------------------------------------------ */

struct list {
    yyjson_mut_doc *doc; // NULL: for people
    yyjson_mut_val *events;
    size_t n;
};

static void add_text(yyjson_mut_doc *doc, yyjson_mut_val *object, const char *key, const char *text)
{
    if (*text)
        rv_output_json_add(doc, object, key, rv_output_json_text(doc, text, strlen(text)));
}

static void add_event(struct list *list, const struct ruvllm_learned_event *e)
{
    yyjson_mut_val *o = yyjson_mut_arr_add_obj(list->doc, list->events);

    yyjson_mut_obj_add_int(list->doc, o, "sequence", e->sequence);
    yyjson_mut_obj_add_int(list->doc, o, "time_us", e->time_us);
    yyjson_mut_obj_add_int(list->doc, o, "generation", e->generation);
    yyjson_mut_obj_add_int(list->doc, o, "about", e->about);
    yyjson_mut_obj_add_str(list->doc, o, "kind", ruvllm_learned_kind_name(e->kind));
    yyjson_mut_obj_add_bool(list->doc, o, "forgotten", e->is_forgotten);
    if (e->kind == RUVLLM_LEARNED_VOTE)
        add_real(list->doc, o, "score", e->score);
    add_real(list->doc, o, "kl", e->kl);
    add_real(list->doc, o, "gain", e->gain);
    add_text(list->doc, o, "prompt", e->prompt);
    add_text(list->doc, o, "answer", e->answer);
    add_text(list->doc, o, "correction", e->correction);
    add_text(list->doc, o, "reason", e->reason);
}

/* What a training run came to, which the log has as JSON; false: it is none. */
static bool sum_up_run(const char *metrics, char out[SUM_BYTES])
{
    yyjson_doc *doc = yyjson_read(metrics, strlen(metrics), 0);
    yyjson_val *root = yyjson_doc_get_root(doc);
    yyjson_val *before = yyjson_obj_get(root, "held_out_before"), *after = yyjson_obj_get(root, "held_out_after");
    yyjson_val *forgetting = yyjson_obj_get(root, "forgetting");
    bool is_one = yyjson_is_num(before) && yyjson_is_num(after) && yyjson_is_num(forgetting);

    if (is_one)
        snprintf(out, SUM_BYTES, "held out %.4f -> %.4f; forgotten %+.2f %%", yyjson_get_num(before),
                 yyjson_get_num(after), 100 * yyjson_get_num(forgetting));
    yyjson_doc_free(doc);
    return is_one;
}

/* What an event was about, in one line; `sum` is room for it. */
static const char *words_of(const struct ruvllm_learned_event *e, char sum[SUM_BYTES])
{
    snprintf(sum, SUM_BYTES, "back to %lld", (long long)e->about);
    if (e->kind == RUVLLM_LEARNED_ROLLBACK || (e->kind == RUVLLM_LEARNED_DEEP && sum_up_run(e->reason, sum)))
        return sum;
    return e->is_forgotten ? "(forgotten)" : *e->correction ? e->correction : *e->reason ? e->reason : e->answer;
}

static void print_generation(int64_t generation)
{
    if (generation >= 0)
        printf("%10lld  ", (long long)generation);
    else
        printf("%10s  ", "-");
}

static bool on_event(void *user, const struct ruvllm_learned_event *e)
{
    struct list *list = user;
    char date[32], sum[SUM_BYTES];
    const char *words = words_of(e, sum);

    if (list->doc) {
        add_event(list, e);
    } else {
        if (list->n == 0)
            printf("%s%-16s  %10s  %-10s  %6s  %s%s\n", rv_output_style(stdout, RV_STYLE_BOLD), "TIME (UTC)",
                   "GENERATION", "KIND", "SCORE", "WORDS", rv_output_style(stdout, RV_STYLE_RESET));
        printf("%-16s  ", rv_store_options_date(e->time_us / 1000000, date));
        print_generation(e->generation);
        printf("%-10s  ", ruvllm_learned_kind_name(e->kind));
        if (e->kind == RUVLLM_LEARNED_VOTE)
            printf("%6.2f  ", e->score);
        else
            printf("%6s  ", "-");
        rv_output_field(stdout, words, strnlen(words, WORDS_SHOWN));
        printf("\n");
    }
    list->n++;
    return true;
}

/* Pages of them; one may be empty and have more behind it. */
static ruvllm_status read_history(const struct opened *o, const struct rv_learn_store *what, int32_t limit,
                                  struct list *list, struct ruvllm_error *err)
{
    int64_t before = 0;
    ruvllm_status rc = RUVLLM_OK;

    do {
        size_t left = (size_t)limit - list->n;

        rc = ruvllm_engine_learn_history(o->engine, what->tenant, before, left < 1000 ? left : 1000, on_event, list,
                                         &before, err);
    } while (!rc && before > 0 && list->n < (size_t)limit);
    return rc;
}

int rv_learn_store_history(const struct rv_learn_store *what, int32_t limit)
{
    struct ruvllm_error err = {0};
    struct list list = {0};
    yyjson_mut_val *root;
    struct opened o;
    int code = open_all(&o, what);

    if (code)
        return code;
    if (what->json) {
        list.doc = yyjson_mut_doc_new(NULL);
        root = yyjson_mut_obj(list.doc);
        yyjson_mut_doc_set_root(list.doc, root);
        list.events = yyjson_mut_obj_add_arr(list.doc, root, "events");
    }
    if (read_history(&o, what, limit, &list, &err)) {
        yyjson_mut_doc_free(list.doc);
        code = rv_output_failure(&err, NULL);
    } else if (list.doc) {
        code = rv_output_json(list.doc, false);
    } else if (list.n == 0) {
        puts("nothing was said yet");
    }
    close_all(&o);
    return code;
}

int rv_learn_store_export(const struct rv_learn_store *what, const char *path, int32_t format)
{
    struct ruvllm_error err = {0};
    struct opened o;
    int code = open_all(&o, what);

    if (code)
        return code;
    if (ruvllm_engine_learn_export(o.engine, what->tenant, path, (ruvllm_adapter_format)format, &err))
        code = rv_output_failure(&err, NULL);
    else
        printf("%s\n", path);
    close_all(&o);
    return code;
}
