/*
 * Who may ask for what. Only the I/O thread calls.
 *
 * With keys, a request carries one as `Authorization: Bearer rv-...` and the key names tenant, rate and rights. Without
 * any key in the store only loopback addresses are served, as tenant "local" with all rights, and only under a Host
 * that names this machine, with an Origin, where there is one, that is the same or was allowed: a page of another site
 * that made a browser resolve its own name to 127.0.0.1, or that posts to it, is refused. Once a key was seen the
 * server never goes back to serving without.
 *
 * What the store said about a key is remembered for less than a second, so a revoked key stops within one; the cache
 * holds hashes under a secret, never keys.
 */
#ifndef RV_SERVER_AUTH_H
#define RV_SERVER_AUTH_H

#include "base/error.h"
#include "base/keyed_hash.h"
#include "ruvllm_store.h"

enum { RV_AUTH_N_CACHED = 1024, RV_AUTH_REMEMBER_US = 800000 };

enum rv_auth_access {
    RV_AUTH_KEY, // the default: any valid key
    RV_AUTH_ADMIN,
    RV_AUTH_OPEN // anybody
};

enum rv_auth_verdict {
    RV_AUTH_OK,
    RV_AUTH_MISSING,   // 401: no key, or not as a bearer
    RV_AUTH_WRONG,     // 401: unknown, expired or revoked; which one is not told
    RV_AUTH_FORBIDDEN, // 403: the key may not
    RV_AUTH_FOREIGN,   // 403: no keys exist and it comes from elsewhere, or under a foreign name
    RV_AUTH_FAILED     // 503: the store could not say
};

/* Whose request it is. */
struct rv_auth_key {
    uint64_t number; // stands for the key where a number does
    char id[9];      // "" without keys
    char tenant[65];
    int32_t requests_per_minute; // 0: no limit
    float share;                 // of the engine among tenants that wait
    bool is_admin;
};

/* Where keys are asked about; a store's functions, or a test's. */
struct rv_auth_source {
    ruvllm_status (*check)(void *user, const char *key, size_t key_len, ruvllm_key_verdict *verdict,
                           struct ruvllm_key_info *info, struct ruvllm_error *err);
    ruvllm_status (*count)(void *user, uint64_t *n, struct ruvllm_error *err);
    void *user;
};

struct rv_auth_cached {
    struct rv_keyed_hash hash;
    int64_t until_us; // 0: free
    bool is_valid;
    struct rv_auth_key key;
};

struct rv_auth {
    struct rv_auth_source source;
    uint8_t secret[RV_KEYED_HASH_KEY];
    bool has_keys;
    struct rv_auth_cached *cached; // RV_AUTH_N_CACHED
};

/* What a request shows of itself. Strings may be NULL. */
struct rv_auth_request {
    const char *authorization;
    const char *host;
    const char *origin;
    bool origin_is_listed; // among those that the operator allowed
    bool is_loopback;
};

/* `source` NULL: there is no store, so no keys. */
RV_CHECKED ruvllm_status rv_auth_init(struct rv_auth *auth, const struct rv_auth_source *source,
                                      struct ruvllm_error *err);
void rv_auth_release(struct rv_auth *auth);
/* Looks whether keys have come into being; every second or so. */
RV_CHECKED ruvllm_status rv_auth_refresh(struct rv_auth *auth, struct ruvllm_error *err);
/* Judges a request for something with this access at now_us. *key is filled for OK and FORBIDDEN. */
enum rv_auth_verdict rv_auth_check(struct rv_auth *auth, const struct rv_auth_request *request,
                                   enum rv_auth_access access, int64_t now_us, struct rv_auth_key *key);

/* True for localhost, 127.x.y.z and [::1], with any port or none: what a Host header may say without keys. */
bool rv_auth_is_local_name(const char *host);
/* True for an address to listen on that only this machine reaches: 127.x.y.z:port, [::1]:port, localhost:port, unix: */
bool rv_auth_is_local_address(const char *address);

#endif
