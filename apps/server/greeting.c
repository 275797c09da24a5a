/* Short: where, what, who may, and one line to try. */
#include "server/greeting.h"

#include <stdio.h>
#include <string.h>

static bool is_unix(const char *url)
{
    return strncmp(url, "unix:", 5) == 0;
}

/* A URL may hold a password: only its beginning is shown. */
static void print_store(const char *path)
{
    const char *slashes = path ? strstr(path, "://") : NULL;

    if (slashes)
        printf("  store   %.*s://...\n", (int)(slashes - path), path);
    else
        printf("  store   %s\n", path ? path : "none: no keys, no sessions, no witness log");
}

void rv_greeting_print(const struct rv_server *server, const char *url, const char *store_path)
{
    size_t n = rv_model_set_count(server->models);

    printf("RuvLLM %s listens on %s\n", ruvllm_version(), url);
    printf("  models  ");
    for (size_t i = 0; i < n && i < 8; i++)
        printf("%s%s%s", i ? ", " : "", rv_model_set_name(server->models, i), i == 0 && n > 1 ? " (default)" : "");
    printf(n > 8 ? " and %zu more\n" : "\n", n - 8);
    printf("  keys    %s\n", server->auth.has_keys ? "needed: send 'Authorization: Bearer KEY'"
                                                   : "none yet, so only this machine is served; 'ruvllm key create' "
                                                     "makes one");
    print_store(store_path);
    if (server->config->learns)
        printf("  learns  from feedback, %s\n",
               store_path ? "kept in the store" : "in memory only: without a store it ends with the server");
    if (!is_unix(url))
        printf("  page    %s/\n", url);
    printf("  loading %s ...\n", rv_model_set_name(server->models, 0));
    fflush(stdout);
}

/* What --auto came to: not what was wished for, but what the engine that was opened has. */
static void print_auto(const struct rv_server *server, ruvllm_engine *engine)
{
    struct ruvllm_model_info info = {.struct_size = sizeof(info)};
    struct ruvllm_engine_stats stats = {.struct_size = sizeof(stats)};
    const struct ruvllm_kv_policy *kv = server->config->engine.kv;
    const char *precision = "";

    if (!server->config->is_auto || ruvllm_model_info_get(ruvllm_engine_model(engine), &info, NULL) ||
        ruvllm_engine_stats_get(engine, &stats, NULL))
        return;
    if (info.has_tiers)
        precision = kv && kv->cold == RUVLLM_PRECISION_FP16 ? ", all of them in 16 bits"
                                                            : ", old parts of long conversations in fewer bits";
    printf("  auto    %d thread%s on %s, %.1f MiB for keys and values%s; %s\n", info.n_threads,
           info.n_threads == 1 ? "" : "s", info.device, (double)stats.kv_budget / (1 << 20), precision,
           server->config->auto_notes ? server->config->auto_notes : "");
}

void rv_greeting_print_ready(const struct rv_server *server, const char *url, ruvllm_engine *engine, bool has_keys)
{
    bool has_chat = ruvllm_model_chat_template(ruvllm_engine_model(engine)) != NULL;
    const char *key = has_keys ? " -H \"Authorization: Bearer $RUVLLM_KEY\"" : "";
    const char *model = rv_model_set_name(server->models, 0);
    char where[400];

    if (is_unix(url))
        snprintf(where, sizeof(where), "--unix-socket %s http://localhost", url + 5);
    else
        snprintf(where, sizeof(where), "%s", url);
    print_auto(server, engine);
    printf("Ready. Try:\n");
    if (has_chat)
        printf(
            "  curl %s/v1/chat/completions%s -H 'Content-Type: application/json' -d '{\"model\": \"%s\", \"messages\": "
            "[{\"role\": \"user\", \"content\": \"Hello\"}]}'\n",
            where, key, model);
    else
        printf("  curl %s/v1/completions%s -H 'Content-Type: application/json' -d '{\"model\": \"%s\", \"prompt\": "
               "\"Once upon a time\"}'\n",
               where, key, model);
    printf("Ctrl-C ends it when all answers are given, a second Ctrl-C at once.\n");
    fflush(stdout);
}
