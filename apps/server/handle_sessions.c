/*
 * /v1/sessions: conversations of the caller's tenant. A chat request that names one stores it; here they are listed,
 * read and deleted, and their keys and values are saved to a file and brought back.
 */
#include "server/handlers.h"

#include "base/alloc.h"
#include "server/api/api_json.h"
#include "server/session_page.h"
#include "server/session_store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <yyjson.h>

enum { PATH = 4096, MAX_MESSAGES = 4096 };

static bool has_store(struct rv_call *call)
{
    struct rv_api_error err;

    if (call->server->store)
        return true;
    rv_api_error_set(&err, 501, "no_store", NULL, "this server keeps no sessions: it was started with --store none");
    rv_call_fail(call, &err);
    return false;
}

static void fail_missing(struct rv_call *call)
{
    struct rv_api_error err;

    rv_api_error_set(&err, 404, "session_not_found", "id", "there is no session '%.64s'; /v1/sessions lists yours",
                     call->arg);
    rv_call_fail(call, &err);
}

/* False and an error as the reply when the caller has no such session; *out is freed with ruvllm_free. */
static bool get_session(struct rv_call *call, struct ruvllm_session **out)
{
    struct ruvllm_error err = {0};
    ruvllm_status rc;

    *out = NULL;
    if (!has_store(call))
        return false;
    rc = ruvllm_sessions_get(call->server->store, rv_call_tenant(call), call->arg, out, &err);
    if (rc == RUVLLM_NOT_FOUND || rc == RUVLLM_INVALID)
        fail_missing(call); // what is no id is nobody's session
    else if (rc)
        rv_call_fail_from(call, &err);
    return !rc;
}

static bool make_path(const struct rv_call *call, const char *file, char out[PATH])
{
    return call->server->sessions_folder && snprintf(out, PATH, "%s/%s", call->server->sessions_folder, file) < PATH;
}

static int64_t file_bytes(const struct rv_call *call, const char *file)
{
    char path[PATH];
    struct stat info;

    return *file && make_path(call, file, path) && stat(path, &info) == 0 ? (int64_t)info.st_size : 0;
}

static void add_session(const struct rv_call *call, const struct ruvllm_session *session, struct rv_buf *out)
{
    rv_api_json_begin(out, NULL, '{');
    rv_api_json_str(out, "id", session->id);
    rv_api_json_str(out, "object", "session");
    rv_api_json_int(out, "created", session->created_us / 1000000);
    rv_api_json_int(out, "updated", session->updated_us / 1000000);
    rv_api_json_str(out, "model", session->model);
    rv_api_json_str(out, "title", session->title);
    rv_api_json_int(out, "tokens", session->n_tokens);
    rv_api_json_int(out, "bytes", file_bytes(call, session->snapshot));
    if (session->messages)
        rv_api_json_raw(out, "messages", session->messages);
    rv_api_json_end(out, '}');
}

/* ---- list, read, delete ----------------------------------------------------------------------------- */

struct list {
    struct rv_call *call;
    int32_t n;
    int64_t last_us;
    char last_id[RV_SESSION_PAGE_ID];
};

static bool add_row(void *user, const struct ruvllm_session *session)
{
    struct list *list = user;

    add_session(list->call, session, &list->call->reply);
    list->n++;
    list->last_us = session->updated_us;
    snprintf(list->last_id, sizeof(list->last_id), "%s", session->id);
    return true;
}

static bool note_row(void *user, const struct ruvllm_session *session)
{
    (void)session;
    *(bool *)user = true;
    return false;
}

/* The rows of a page into the reply; *has_more: there is one behind them. */
static ruvllm_status list_page(struct list *list, const struct rv_session_page *page, bool *has_more,
                               struct ruvllm_error *err)
{
    ruvllm_store *store = list->call->server->store;
    const char *tenant = rv_call_tenant(list->call);
    ruvllm_status rc = ruvllm_sessions_list(store, tenant, page->before_us, page->before_us ? page->before_id : NULL,
                                            page->limit, add_row, list, err);

    *has_more = false;
    if (!rc && list->n == page->limit)
        rc = ruvllm_sessions_list(store, tenant, list->last_us, list->last_id, 1, note_row, has_more, err);
    return rc;
}

bool rv_handle_sessions(struct rv_call *call)
{
    struct list list = {.call = call};
    struct ruvllm_error err = {0};
    struct rv_session_page page;
    struct rv_api_error wrong;
    char next[RV_SESSION_PAGE_NEXT];
    bool has_more;

    if (!has_store(call))
        return true;
    if (!rv_session_page_read(&page, call->query, &wrong)) {
        rv_call_fail(call, &wrong);
        return true;
    }
    rv_api_json_begin(&call->reply, NULL, '{');
    rv_api_json_str(&call->reply, "object", "list");
    rv_api_json_begin(&call->reply, "data", '[');
    if (list_page(&list, &page, &has_more, &err)) {
        rv_call_fail_from(call, &err);
        return true;
    }
    rv_api_json_end(&call->reply, ']');
    rv_api_json_bool(&call->reply, "has_more", has_more);
    if (has_more) {
        rv_session_page_next(list.last_us, list.last_id, next);
        rv_api_json_str(&call->reply, "next", next);
    }
    rv_api_json_end(&call->reply, '}');
    rv_call_reply_json(call);
    return true;
}

bool rv_handle_session(struct rv_call *call)
{
    struct ruvllm_session *session;

    if (get_session(call, &session)) {
        add_session(call, session, &call->reply);
        rv_call_reply_json(call);
    }
    ruvllm_free(session);
    return true;
}

bool rv_handle_session_delete(struct rv_call *call)
{
    struct ruvllm_session *session;
    struct ruvllm_error err = {0};
    char path[PATH];

    if (!get_session(call, &session))
        return true;
    if (ruvllm_sessions_delete(call->server->store, rv_call_tenant(call), call->arg, &err)) {
        rv_call_fail_from(call, &err);
    } else {
        /* The row is gone, so a file that cannot be removed is only lost space; the log says so. */
        if (*session->snapshot && make_path(call, session->snapshot, path) && unlink(path) != 0 && errno != ENOENT)
            snprintf(call->cause, sizeof(call->cause), "cannot remove a session's file: errno %d", errno);
        rv_api_reply_session_deleted(&call->reply, call->arg);
        rv_call_reply_json(call);
    }
    ruvllm_free(session);
    return true;
}

/* ---- save and restore --------------------------------------------------------------------------------- */

/* The stored conversation as the engine takes it; the texts live as long as *doc. */
static ruvllm_status read_messages(const struct ruvllm_session *session, struct ruvllm_message **messages, size_t *n,
                                   yyjson_doc **doc, struct ruvllm_error *err)
{
    yyjson_val *message;
    size_t i, max;

    *doc = yyjson_read(session->messages, session->messages_len, 0);
    *n = yyjson_arr_size(yyjson_doc_get_root(*doc));
    *messages = rv_calloc(*n ? *n : 1, sizeof(**messages));
    if (!*messages)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the session's messages");
    if (*n == 0 || *n > MAX_MESSAGES)
        return rv_fail(err, RUVLLM_FORMAT, "the stored session has %zu messages", *n);
    yyjson_arr_foreach(yyjson_doc_get_root(*doc), i, max, message)
    {
        (*messages)[i].role = yyjson_get_str(yyjson_obj_get(message, "role"));
        (*messages)[i].content = yyjson_get_str(yyjson_obj_get(message, "content"));
        if (!(*messages)[i].role || !(*messages)[i].content)
            return rv_fail(err, RUVLLM_FORMAT, "message %zu of the stored session is not one", i);
    }
    return RUVLLM_OK;
}

/* The adapter that the session was made with; NULL: none. */
static const char *adapter_of(const struct rv_call *call, const struct ruvllm_session *session)
{
    const char *adapter;

    (void)rv_adapter_choice_find_model(call->server->models, session->model, &adapter); // it was found before
    return *adapter ? adapter : NULL;
}

/* `file` is the name the snapshot gets; it outlives the session's use of it. */
static ruvllm_status save(struct rv_call *call, struct ruvllm_session *session, const char *file, int32_t *n_tokens,
                          struct ruvllm_error *err)
{
    struct ruvllm_input input = {.struct_size = sizeof(input)};
    struct ruvllm_request request = {.struct_size = sizeof(request),
                                     .input = &input,
                                     .tenant = rv_call_tenant(call),
                                     .adapter = adapter_of(call, session)};
    struct ruvllm_message *messages = NULL;
    yyjson_doc *doc = NULL;
    char path[PATH];
    ruvllm_status rc = read_messages(session, &messages, &input.n_messages, &doc, err);

    input.messages = messages;
    if (!rc && !make_path(call, file, path))
        rc = rv_fail(err, RUVLLM_UNSUPPORTED, "this server has no folder for sessions");
    if (!rc)
        rc = ruvllm_engine_save_session(call->engine, &request, path, n_tokens, err);
    if (!rc) {
        session->snapshot = file;
        rc = ruvllm_sessions_put(call->server->store, session, err);
    }
    rv_free(messages);
    yyjson_doc_free(doc);
    return rc;
}

static ruvllm_status restore(struct rv_call *call, struct ruvllm_session *session, const char *file, int32_t *n_tokens,
                             struct ruvllm_error *err)
{
    struct ruvllm_request request = {
        .struct_size = sizeof(request), .tenant = rv_call_tenant(call), .adapter = adapter_of(call, session)};
    char path[PATH];

    (void)file;
    if (!*session->snapshot || !make_path(call, session->snapshot, path))
        return rv_fail(err, RUVLLM_NOT_FOUND, "session '%s' was not saved; POST to its /save first", session->id);
    return ruvllm_engine_load_session(call->engine, &request, path, n_tokens, err);
}

static bool save_or_restore(struct rv_call *call,
                            ruvllm_status (*run)(struct rv_call *call, struct ruvllm_session *session, const char *file,
                                                 int32_t *n_tokens, struct ruvllm_error *err))
{
    char file[RV_SESSION_STORE_NAME];
    struct ruvllm_session *session;
    struct ruvllm_error err = {0};
    enum rv_call_ready ready;
    const char *adapter;
    int32_t n_tokens = 0, i_model;

    if (!get_session(call, &session))
        return true;
    i_model = rv_adapter_choice_find_model(call->server->models, session->model, &adapter);
    ready = rv_call_take_model(call,
                               i_model < 0 ? session->model : rv_model_set_name(call->server->models, (size_t)i_model));
    if (ready == RV_CALL_READY) {
        rv_session_store_file_name(session->tenant, session->id, file);
        if (run(call, session, file, &n_tokens, &err)) {
            rv_call_fail_from(call, &err);
        } else {
            rv_api_json_begin(&call->reply, NULL, '{');
            rv_api_json_str(&call->reply, "id", session->id);
            rv_api_json_str(&call->reply, "object", "session");
            rv_api_json_int(&call->reply, "created", session->created_us / 1000000);
            rv_api_json_str(&call->reply, "model", session->model);
            rv_api_json_int(&call->reply, "tokens", n_tokens);
            rv_api_json_int(&call->reply, "bytes", file_bytes(call, session->snapshot));
            rv_api_json_end(&call->reply, '}');
            rv_call_reply_json(call);
        }
    }
    ruvllm_free(session);
    return ready != RV_CALL_WAITS;
}

bool rv_handle_session_save(struct rv_call *call)
{
    return save_or_restore(call, save);
}

bool rv_handle_session_restore(struct rv_call *call)
{
    return save_or_restore(call, restore);
}
