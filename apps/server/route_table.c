/* A new route is a line here and a function in a handle_*.c. */
#include "server/route_table.h"

#include "server/handlers.h"

#include <string.h>

static const struct rv_route routes[] = {
    {.method = RV_HTTP_GET, .pattern = "/", .access = RV_AUTH_OPEN, .answer = rv_handle_page},
    {.method = RV_HTTP_GET, .pattern = "/page/*", .access = RV_AUTH_OPEN, .answer = rv_handle_page},
    {.method = RV_HTTP_GET, .pattern = "/healthz", .access = RV_AUTH_OPEN, .answer = rv_handle_healthz},
    {.method = RV_HTTP_GET, .pattern = "/readyz", .access = RV_AUTH_OPEN, .answer = rv_handle_readyz},
    {.method = RV_HTTP_GET, .pattern = "/metrics", .access = RV_AUTH_ADMIN, .answer = rv_handle_metrics},
    {.method = RV_HTTP_GET, .pattern = "/openapi.json", .answer = rv_handle_openapi},
    {.method = RV_HTTP_POST, .pattern = "/v1/chat/completions", .work = rv_handle_chat},
    {.method = RV_HTTP_POST, .pattern = "/v1/completions", .work = rv_handle_completions},
    {.method = RV_HTTP_POST, .pattern = "/v1/responses", .work = rv_handle_responses},
    {.method = RV_HTTP_POST, .pattern = "/v1/embeddings", .work = rv_handle_embeddings, .is_slow = true},
    {.method = RV_HTTP_POST, .pattern = "/v1/tokenize", .work = rv_handle_tokenize},
    {.method = RV_HTTP_POST, .pattern = "/v1/detokenize", .work = rv_handle_detokenize},
    {.method = RV_HTTP_POST, .pattern = "/v1/chat/template", .work = rv_handle_template},
    {.method = RV_HTTP_GET, .pattern = "/v1/models", .work = rv_handle_models},
    {.method = RV_HTTP_GET, .pattern = "/v1/models/**", .work = rv_handle_model},
    {.method = RV_HTTP_GET, .pattern = "/v1/sessions", .work = rv_handle_sessions},
    {.method = RV_HTTP_GET, .pattern = "/v1/sessions/*", .work = rv_handle_session},
    {.method = RV_HTTP_DELETE, .pattern = "/v1/sessions/*", .work = rv_handle_session_delete},
    {.method = RV_HTTP_POST, .pattern = "/v1/sessions/*/save", .work = rv_handle_session_save, .is_slow = true},
    {.method = RV_HTTP_POST, .pattern = "/v1/sessions/*/restore", .work = rv_handle_session_restore, .is_slow = true},
    {.method = RV_HTTP_GET, .pattern = "/v1/adapters", .work = rv_handle_adapters},
    {.method = RV_HTTP_POST,
     .pattern = "/v1/adapters",
     .access = RV_AUTH_ADMIN,
     .work = rv_handle_adapter_load,
     .is_slow = true},
    {.method = RV_HTTP_GET, .pattern = "/v1/adapters/*", .work = rv_handle_adapter},
    {.method = RV_HTTP_DELETE,
     .pattern = "/v1/adapters/*",
     .access = RV_AUTH_ADMIN,
     .work = rv_handle_adapter_unload,
     .is_slow = true},
    {.method = RV_HTTP_GET, .pattern = "/v1/adapters/*/export", .work = rv_handle_adapter_export, .is_slow = true},
    {.method = RV_HTTP_GET, .pattern = "/v1/adapters/*/diff", .work = rv_handle_adapter_diff, .is_slow = true},
    {.method = RV_HTTP_POST, .pattern = "/v1/feedback", .work = rv_handle_feedback, .is_vote = true},
    {.method = RV_HTTP_GET, .pattern = "/v1/learning", .work = rv_handle_learning, .is_vote = true},
    {.method = RV_HTTP_POST, .pattern = "/v1/learning/rollback", .work = rv_handle_learning_rollback, .is_vote = true},
    {.method = RV_HTTP_GET, .pattern = "/v1/learning/patterns", .work = rv_handle_patterns, .is_vote = true},
    {.method = RV_HTTP_DELETE, .pattern = "/v1/learning/patterns", .work = rv_handle_patterns_delete, .is_vote = true},
    {.method = RV_HTTP_GET, .pattern = "/v1/learning/history", .work = rv_handle_learning_history, .is_vote = true},
    {.method = RV_HTTP_POST, .pattern = "/v1/learning/pause", .work = rv_handle_learning_pause, .is_vote = true},
    {.method = RV_HTTP_POST, .pattern = "/v1/learning/resume", .work = rv_handle_learning_resume, .is_vote = true},
    {.method = RV_HTTP_POST, .pattern = "/v1/learning/forget", .work = rv_handle_learning_forget, .is_vote = true},
    {.method = RV_HTTP_GET, .pattern = "/v1/learning/deep", .work = rv_handle_deep, .is_vote = true},
    {.method = RV_HTTP_POST, .pattern = "/v1/learning/deep", .work = rv_handle_deep_begin, .is_vote = true},
    {.method = RV_HTTP_DELETE, .pattern = "/v1/learning/deep", .work = rv_handle_deep_stop, .is_vote = true},
    {.method = RV_HTTP_GET, .pattern = "/v1/learning/export", .work = rv_handle_learning_export, .is_slow = true},
};

enum { N_ROUTES = sizeof(routes) / sizeof(routes[0]) };

size_t rv_route_table_count(void)
{
    return N_ROUTES;
}

const struct rv_route *rv_route_table_at(size_t i_route)
{
    return &routes[i_route];
}

size_t rv_route_table_index(const struct rv_route *route)
{
    return route ? (size_t)(route - routes) : N_ROUTES;
}

/* Whether `path` is what the pattern means; `arg` gets what '*' stood for. */
static bool matches(const char *pattern, const char *path, char arg[RV_ROUTE_ARG])
{
    const char *star = strchr(pattern, '*');
    size_t before = star ? (size_t)(star - pattern) : 0;
    bool takes_rest = star && star[1] == '*';
    size_t len;

    arg[0] = '\0';
    if (!star)
        return strcmp(pattern, path) == 0;
    if (strncmp(pattern, path, before) != 0)
        return false;
    path += before;
    len = takes_rest ? strlen(path) : strcspn(path, "/");
    if (len == 0 || len >= RV_ROUTE_ARG || strcmp(path + len, star + 1 + takes_rest) != 0)
        return false;
    memcpy(arg, path, len);
    arg[len] = '\0';
    return true;
}

static void add_method(char arg[RV_ROUTE_ARG], enum rv_http_method method)
{
    const char *name = method == RV_HTTP_GET ? "GET, HEAD" : rv_route_method_name(method);
    size_t len = strlen(arg);

    if (len + strlen(name) + 3 < RV_ROUTE_ARG) {
        if (len) {
            memcpy(arg + len, ", ", 3);
            len += 2;
        }
        memcpy(arg + len, name, strlen(name) + 1);
    }
}

enum rv_route_found rv_route_table_find(enum rv_http_method method, const char *path, const struct rv_route **route,
                                        char arg[RV_ROUTE_ARG])
{
    enum rv_http_method wanted = method == RV_HTTP_HEAD ? RV_HTTP_GET : method;
    char methods[RV_ROUTE_ARG] = "";

    *route = NULL;
    for (size_t i = 0; i < N_ROUTES; i++) {
        if (!matches(routes[i].pattern, path, arg))
            continue;
        if (routes[i].method == wanted) {
            *route = &routes[i];
            return RV_ROUTE_FOUND;
        }
        add_method(methods, routes[i].method);
    }
    memcpy(arg, methods, sizeof(methods));
    return methods[0] ? RV_ROUTE_OTHER_METHOD : RV_ROUTE_NONE;
}

const char *rv_route_method_name(enum rv_http_method method)
{
    static const char *const names[] = {"GET", "POST", "DELETE", "HEAD", "OPTIONS", "OTHER"};

    return names[method];
}
