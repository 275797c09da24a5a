/* Listening sockets: TCP over IPv4 and IPv6, unix sockets, and those a service manager hands over. */
#ifndef RV_HTTP_HTTP_LISTEN_H
#define RV_HTTP_HTTP_LISTEN_H

#include "base/error.h"

#include <sys/socket.h>

enum { RV_HTTP_LISTEN_PEER_MAX = 48 };

/*
 * Opens "127.0.0.1:8080", "[::1]:8080", "name:8080" or "unix:/path"; port 0 takes a free one. The socket does not
 * block. The file of a unix socket that nobody listens to any more is replaced.
 */
RV_CHECKED ruvllm_status rv_http_listen_open(int *out, const char *address, struct ruvllm_error *err);
/* Makes an inherited socket ready for use; fails unless it listens. */
RV_CHECKED ruvllm_status rv_http_listen_adopt(int fd, struct ruvllm_error *err);
/* Removes the file of a unix socket made by rv_http_listen_open; does nothing for other addresses. */
void rv_http_listen_remove(const char *address);
/* The local port; 0 for a socket without one. */
int rv_http_listen_port(int fd);
/* The peer's address without its port into `text`, "unix" for a local socket; true when it is this machine. */
bool rv_http_listen_peer(const struct sockaddr *peer, char text[RV_HTTP_LISTEN_PEER_MAX]);

#endif
