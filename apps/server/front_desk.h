/*
 * Where exchanges come in: route, key, origin and rate are settled on their headers, before a body is read; then the
 * call goes to who answers it. All on the I/O thread, as callbacks of the HTTP server with the rv_server as user.
 */
#ifndef RV_SERVER_FRONT_DESK_H
#define RV_SERVER_FRONT_DESK_H

#include "server/server.h"

int rv_front_desk_on_headers(void *user, struct rv_http_exchange *exchange);
void rv_front_desk_on_request(void *user, struct rv_http_exchange *exchange);
size_t rv_front_desk_on_refusal(void *user, int status, const char *why, char *body, size_t body_cap);
void rv_front_desk_on_end(void *user, struct rv_http_exchange *exchange, enum rv_http_end why);

#endif
