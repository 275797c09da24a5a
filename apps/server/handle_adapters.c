/*
 * /v1/adapters: low-rank changes of a model. Every key sees those of its tenant and the shared ones; loading and
 * unloading is for admins, and only from the folder that the server was started with. The query's `model` says whose
 * adapters are meant, the default model's when it says nothing; only the list is over all models that are loaded.
 */
#include "server/handlers.h"

#include "base/alloc.h"
#include "server/adapter_choice.h"
#include "server/adapter_folder.h"
#include "server/api/api_json.h"
#include "server/reply_file.h"
#include "server/url_text.h"

#include <string.h>

enum { LIST_LIMIT = 1000 };

/* What a query may say beside `model`. */
struct wish {
    char model[RV_MODEL_SET_NAME + 1];
    int64_t generation; // 0: the newest, or all of them
    int64_t from;
    int64_t to;
    char format[8];
};

static void fail_query(struct rv_call *call, const char *field, const char *why)
{
    struct rv_api_error err;

    rv_api_error_set(&err, 400, "invalid_value", field, "%s", why);
    rv_call_fail(call, &err);
}

/* False: the reply says what is wrong. */
static bool read_query(struct rv_call *call, const char *const *known, struct wish *out)
{
    const char *query = call->query;

    *out = (struct wish){.format = "own"};
    if (!rv_url_text_has_only(query, known)) {
        fail_query(call, "", "the query has a field that is not known here; leave it out");
        return false;
    }
    if (strstr(query, "model=") && !rv_url_text_field(query, "model", out->model, sizeof(out->model))) {
        fail_query(call, "model", "'model' is too long for a model's name");
        return false;
    }
    if (strstr(query, "format=") && !rv_url_text_field(query, "format", out->format, sizeof(out->format)))
        out->format[0] = '\0';
    if (!rv_url_text_int(query, "generation", 1, INT64_MAX, &out->generation) ||
        !rv_url_text_int(query, "from", 1, INT64_MAX, &out->from) ||
        !rv_url_text_int(query, "to", 1, INT64_MAX, &out->to)) {
        fail_query(call, "generation", "generations are numbers from 1 on");
        return false;
    }
    return true;
}

static enum rv_call_ready take_model(struct rv_call *call, const char *name)
{
    return rv_call_take_model(call, *name ? name : rv_model_set_name(call->server->models, 0));
}

/* The id of the path; false and a 404 when it is none or none of this key's. */
static bool take_id(struct rv_call *call)
{
    struct rv_api_error err;

    rv_url_text_unescape(call->arg);
    if (rv_api_adapter_is_id(call->arg) && rv_adapter_choice_may_see(&call->key, call->arg))
        return true;
    rv_api_adapter_missing(&err, call->arg);
    rv_call_fail(call, &err);
    return false;
}

/* The failure of a call about an adapter: one that is not there gets the words it always gets. */
static void fail_from(struct rv_call *call, const char *id, const struct ruvllm_error *cause)
{
    struct rv_api_error err;

    if (cause->status != RUVLLM_NOT_FOUND) {
        rv_call_fail_from(call, cause);
        return;
    }
    rv_api_adapter_missing(&err, id);
    rv_call_fail(call, &err);
}

/* ---- list --------------------------------------------------------------------------------------- */

static void begin_list(struct rv_call *call)
{
    rv_api_json_begin(&call->reply, NULL, '{');
    rv_api_json_str(&call->reply, "object", "list");
    rv_api_json_begin(&call->reply, "data", '[');
}

static void end_list(struct rv_call *call, bool has_more)
{
    rv_api_json_end(&call->reply, ']');
    rv_api_json_bool(&call->reply, "has_more", has_more);
    rv_api_json_end(&call->reply, '}');
    rv_call_reply_json(call);
}

/* Adds what this key may see of one model's; `id` NULL: all of them. *n counts, up to one beyond the limit. */
static ruvllm_status add_adapters(struct rv_call *call, ruvllm_engine *engine, const char *model, const char *id,
                                  size_t *n, struct ruvllm_error *err)
{
    struct ruvllm_adapter_info *infos = NULL;
    size_t n_infos = 0;
    ruvllm_status rc = ruvllm_engine_adapter_list(engine, id, &infos, &n_infos, err);

    for (size_t i = 0; !rc && i < n_infos && *n <= LIST_LIMIT; i++) {
        if (!rv_adapter_choice_may_see(&call->key, infos[i].id) || (id && strcmp(infos[i].id, id) != 0))
            continue;
        if ((*n)++ < LIST_LIMIT)
            rv_api_adapter_reply(&call->reply, model, &infos[i]);
    }
    ruvllm_free(infos);
    return rc;
}

bool rv_handle_adapters(struct rv_call *call)
{
    struct rv_model_set *set = call->server->models;
    struct ruvllm_error err = {0};
    ruvllm_status rc = RUVLLM_OK;
    size_t n = 0;

    begin_list(call);
    for (size_t i = 0; !rc && i < rv_model_set_count(set); i++) {
        ruvllm_engine *engine = rv_model_set_peek(set, i);

        if (!engine)
            continue;
        rc = add_adapters(call, engine, rv_model_set_name(set, i), NULL, &n, &err);
        rv_model_set_release(set, i, false);
        if (rc == RUVLLM_UNSUPPORTED)
            rc = RUVLLM_OK; // a model that cannot have any has none
    }
    if (rc)
        rv_call_fail_from(call, &err);
    else
        end_list(call, n > LIST_LIMIT);
    return true;
}

/* All generations of one. */
bool rv_handle_adapter(struct rv_call *call)
{
    static const char *const known[] = {"model", NULL};
    struct ruvllm_error err = {0};
    struct rv_api_error missing;
    struct wish wish;
    enum rv_call_ready ready;
    size_t n = 0;

    if (!read_query(call, known, &wish) || !take_id(call))
        return true;
    ready = take_model(call, wish.model);
    if (ready != RV_CALL_READY)
        return ready == RV_CALL_FAILED;
    begin_list(call);
    if (add_adapters(call, call->engine, rv_model_set_name(call->server->models, (size_t)call->i_model), call->arg, &n,
                     &err)) {
        fail_from(call, call->arg, &err);
    } else if (n == 0) {
        rv_api_adapter_missing(&missing, call->arg);
        rv_call_fail(call, &missing);
    } else {
        end_list(call, n > LIST_LIMIT);
    }
    return true;
}

/* ---- load and unload ------------------------------------------------------------------------------ */

/* Where the file is; false: the reply says why not. */
static bool find_file(struct rv_call *call, const char *path, char out[RV_ADAPTER_FOLDER_PATH])
{
    struct ruvllm_error err = {0};
    struct rv_api_error refusal;

    if (!call->server->adapters_folder) {
        rv_api_error_set(&refusal, 501, "no_adapters_folder", "path",
                         "this server loads no adapters: it was started without --adapters");
    } else {
        switch (rv_adapter_folder_find(call->server->adapters_folder, path, out, &err)) {
        case RUVLLM_OK:
            return true;
        case RUVLLM_NOT_FOUND:
            rv_api_error_set(&refusal, 404, "file_not_found", "path", "there is no '%.*s' in the adapters' folder",
                             RV_API_ERROR_NAME, path);
            break;
        case RUVLLM_INVALID:
            rv_api_error_set(&refusal, 403, "path_not_allowed", "path", "%s", err.message);
            break;
        default:
            rv_call_fail_from(call, &err);
            return false;
        }
    }
    rv_call_fail(call, &refusal);
    return false;
}

static void reply_generation(struct rv_call *call, const char *id, int64_t generation)
{
    const char *model = rv_model_set_name(call->server->models, (size_t)call->i_model);
    struct ruvllm_adapter_info *infos = NULL;
    struct ruvllm_error err = {0};
    size_t n = 0;

    if (ruvllm_engine_adapter_list(call->engine, id, &infos, &n, &err)) {
        rv_call_fail_from(call, &err);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        if (strcmp(infos[i].id, id) == 0 && infos[i].generation == generation) {
            rv_api_adapter_reply(&call->reply, model, &infos[i]);
            rv_call_reply_json(call);
            ruvllm_free(infos);
            return;
        }
    }
    ruvllm_free(infos);
    rv_fail(&err, RUVLLM_NOT_FOUND, "it was unloaded meanwhile");
    fail_from(call, id, &err);
}

static bool load(struct rv_call *call, struct rv_api_adapter_load *wanted)
{
    char path[RV_ADAPTER_FOLDER_PATH];
    struct ruvllm_error err = {0};
    enum rv_call_ready ready;
    int64_t generation = 0;

    if (!find_file(call, wanted->path, path))
        return true;
    ready = take_model(call, wanted->model);
    if (ready != RV_CALL_READY)
        return ready == RV_CALL_FAILED;
    if (ruvllm_engine_adapter_load(call->engine, wanted->id, path, wanted->expected, &generation, &err)) {
        if (err.status == RUVLLM_FORMAT) // the operator's file is wrong, not the server
            err.status = RUVLLM_INVALID;
        rv_call_fail_from(call, &err);
        return true;
    }
    rv_model_set_keep(call->server->models, (size_t)call->i_model);
    reply_generation(call, wanted->id, generation);
    return true;
}

bool rv_handle_adapter_load(struct rv_call *call)
{
    struct rv_api_adapter_load *wanted = rv_calloc(1, sizeof(*wanted));
    struct ruvllm_error none = {0};
    struct rv_api_error err;
    bool is_done = true;

    if (!wanted) {
        rv_fail(&none, RUVLLM_NO_MEMORY, "cannot allocate the request");
        rv_call_fail_from(call, &none);
    } else if (rv_api_adapter_load_parse(call->body ? call->body : "", call->body_len, wanted, &err)) {
        rv_call_fail(call, &err);
    } else {
        is_done = load(call, wanted);
    }
    rv_free(wanted);
    return is_done;
}

bool rv_handle_adapter_unload(struct rv_call *call)
{
    static const char *const known[] = {"model", "generation", NULL};
    struct ruvllm_error err = {0};
    struct wish wish;
    enum rv_call_ready ready;

    if (!read_query(call, known, &wish) || !take_id(call))
        return true;
    ready = take_model(call, wish.model);
    if (ready != RV_CALL_READY)
        return ready == RV_CALL_FAILED;
    if (ruvllm_engine_adapter_unload(call->engine, call->arg, wish.generation, &err)) {
        fail_from(call, call->arg, &err);
    } else {
        rv_api_adapter_reply_deleted(&call->reply, call->arg);
        rv_call_reply_json(call);
    }
    return true;
}

/* ---- compare and export ----------------------------------------------------------------------------- */

bool rv_handle_adapter_diff(struct rv_call *call)
{
    static const char *const known[] = {"model", "from", "to", NULL};
    struct ruvllm_error err = {0};
    struct wish wish;
    enum rv_call_ready ready;
    double norm = 0;

    if (!read_query(call, known, &wish) || !take_id(call))
        return true;
    if (wish.from == 0 || wish.to == 0) {
        fail_query(call, wish.from ? "to" : "from", "say which generations: ?from=1&to=2");
        return true;
    }
    ready = take_model(call, wish.model);
    if (ready != RV_CALL_READY)
        return ready == RV_CALL_FAILED;
    if (ruvllm_engine_adapter_diff(call->engine, call->arg, wish.from, wish.to, &norm, &err)) {
        fail_from(call, call->arg, &err);
    } else {
        rv_api_adapter_reply_diff(&call->reply, call->arg, wish.from, wish.to, norm);
        rv_call_reply_json(call);
    }
    return true;
}

struct wanted_file {
    int64_t generation;
    ruvllm_adapter_format format;
};

static ruvllm_status write_export(struct rv_call *call, const void *user, const char *path, struct ruvllm_error *err)
{
    const struct wanted_file *wanted = user;

    return ruvllm_engine_adapter_export(call->engine, call->arg, wanted->generation, path, wanted->format, err);
}

bool rv_handle_adapter_export(struct rv_call *call)
{
    static const char *const known[] = {"model", "generation", "format", NULL};
    struct ruvllm_error err = {0};
    struct wish wish;
    enum rv_call_ready ready;
    struct wanted_file wanted;

    if (!read_query(call, known, &wish) || !take_id(call))
        return true;
    if (strcmp(wish.format, "own") != 0 && strcmp(wish.format, "gguf") != 0) {
        fail_query(call, "format",
                   "'format' is own or gguf; a PEFT adapter is a folder: 'ruvllm adapter export' writes those");
        return true;
    }
    wanted.generation = wish.generation;
    wanted.format = strcmp(wish.format, "own") == 0 ? RUVLLM_ADAPTER_OWN : RUVLLM_ADAPTER_GGUF;
    ready = take_model(call, wish.model);
    if (ready != RV_CALL_READY)
        return ready == RV_CALL_FAILED;
    if (rv_reply_file_make(call, write_export, &wanted, &err))
        fail_from(call, call->arg, &err);
    return true;
}
