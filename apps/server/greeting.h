/* What the program says on standard output when it starts to serve, and when it is ready. */
#ifndef RV_SERVER_GREETING_H
#define RV_SERVER_GREETING_H

#include "server/server.h"

/* `url` is where it is reached: "http://127.0.0.1:8080". */
void rv_greeting_print(const struct rv_server *server, const char *url, const char *store_path);
/*
 * What --auto came to, and a line to try, as it fits the default model that `engine` has. On the loader's thread, which
 * must not look at the I/O thread's fields.
 */
void rv_greeting_print_ready(const struct rv_server *server, const char *url, ruvllm_engine *engine, bool has_keys);

#endif
