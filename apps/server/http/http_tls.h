/* TLS 1.2 and newer under a connection, by OpenSSL behind libevent's buffers. Optional. */
#ifndef RV_HTTP_HTTP_TLS_H
#define RV_HTTP_HTTP_TLS_H

#include "base/error.h"

struct bufferevent;
struct event_base;
struct ssl_ctx_st;

/* Reads the certificate chain and its key, PEM files; failing names the file. */
RV_CHECKED ruvllm_status rv_http_tls_open(struct ssl_ctx_st **out, const char *cert_path, const char *key_path,
                                          struct ruvllm_error *err);
void rv_http_tls_close(struct ssl_ctx_st *context);
/* A connection that begins with the handshake; it owns the socket, also when it fails with NULL. */
struct bufferevent *rv_http_tls_accept(struct ssl_ctx_st *context, struct event_base *base, int fd);
/* Tells the peer that nothing more comes; everything was written before. */
void rv_http_tls_say_goodbye(struct bufferevent *bev);

#endif
