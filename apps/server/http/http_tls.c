/* OpenSSL's context, and connections made from it. */
#include "server/http/http_tls.h"

#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/util.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

static ruvllm_status fail_tls(struct ruvllm_error *err, const char *what, const char *path)
{
    unsigned long code = ERR_peek_last_error();
    const char *reason = ERR_reason_error_string(code);

    /* Failures of the system, such as a missing file, have no text of OpenSSL's own. */
    rv_fail(err, RUVLLM_INVALID, "cannot use %s '%s': %s", what, path, reason ? reason : "the file cannot be read");
    ERR_clear_error();
    return RUVLLM_INVALID;
}

ruvllm_status rv_http_tls_open(struct ssl_ctx_st **out, const char *cert_path, const char *key_path,
                               struct ruvllm_error *err)
{
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    ruvllm_status rc = RUVLLM_OK;

    *out = NULL;
    if (!context || SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1)
        rc = rv_fail(err, RUVLLM_NO_MEMORY, "cannot make a TLS context");
    else if (SSL_CTX_use_certificate_chain_file(context, cert_path) != 1)
        rc = fail_tls(err, "the TLS certificate", cert_path);
    else if (SSL_CTX_use_PrivateKey_file(context, key_path, SSL_FILETYPE_PEM) != 1)
        rc = fail_tls(err, "the TLS key", key_path);
    else if (SSL_CTX_check_private_key(context) != 1)
        rc = fail_tls(err, "the TLS key", key_path);
    if (rc) {
        rv_http_tls_close(context);
        return rc;
    }
    /* An idle connection keeps no record buffers; a renegotiation would be work at the peer's wish. */
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    *out = context;
    return RUVLLM_OK;
}

void rv_http_tls_close(struct ssl_ctx_st *context)
{
    SSL_CTX_free(context);
}

struct bufferevent *rv_http_tls_accept(struct ssl_ctx_st *context, struct event_base *base, int fd)
{
    SSL *ssl = SSL_new(context);
    struct bufferevent *bev = NULL;

    if (ssl)
        bev = bufferevent_openssl_socket_new(base, fd, ssl, BUFFEREVENT_SSL_ACCEPTING, BEV_OPT_CLOSE_ON_FREE);
    if (bev)
        return bev;
    SSL_free(ssl);
    evutil_closesocket(fd);
    return NULL;
}

void rv_http_tls_say_goodbye(struct bufferevent *bev)
{
    SSL *ssl = bufferevent_openssl_get_ssl(bev);

    if (ssl && SSL_is_init_finished(ssl))
        SSL_shutdown(ssl);
    ERR_clear_error();
}
