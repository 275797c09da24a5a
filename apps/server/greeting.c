/* Short: where, what, who may, and one line to try. */
#include "server/greeting.h"

#include <stdio.h>

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
    printf("  store   %s\n", store_path ? store_path : "none: no keys, no sessions, no witness log");
    printf("  page    %s/\n", url);
    if (server->config->is_auto && server->config->auto_notes)
        printf("  auto    %s\n", server->config->auto_notes);
    printf("  loading %s ...\n", rv_model_set_name(server->models, 0));
    fflush(stdout);
}

void rv_greeting_print_ready(const struct rv_server *server, const char *url, bool has_chat, bool has_keys)
{
    const char *key = has_keys ? " -H \"Authorization: Bearer $RUVLLM_KEY\"" : "";
    const char *model = rv_model_set_name(server->models, 0);

    printf("Ready. Try:\n");
    if (has_chat)
        printf(
            "  curl %s/v1/chat/completions%s -H 'Content-Type: application/json' -d '{\"model\": \"%s\", \"messages\": "
            "[{\"role\": \"user\", \"content\": \"Hello\"}]}'\n",
            url, key, model);
    else
        printf("  curl %s/v1/completions%s -H 'Content-Type: application/json' -d '{\"model\": \"%s\", \"prompt\": "
               "\"Once upon a time\"}'\n",
               url, key, model);
    printf("Ctrl-C ends it when all answers are given, a second Ctrl-C at once.\n");
    fflush(stdout);
}
