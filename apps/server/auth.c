/* The order of checks matters: nothing about the path decides before the key does. */
#include "server/auth.h"

#include "base/alloc.h"

#include <string.h>
#include <strings.h>

ruvllm_status rv_auth_init(struct rv_auth *auth, const struct rv_auth_source *source, struct ruvllm_error *err)
{
    *auth = (struct rv_auth){0};
    if (source)
        auth->source = *source;
    rv_keyed_hash_make_key(auth->secret);
    auth->cached = rv_calloc(RV_AUTH_N_CACHED, sizeof(*auth->cached));
    if (!auth->cached)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the table of known keys");
    return rv_auth_refresh(auth, err);
}

void rv_auth_release(struct rv_auth *auth)
{
    rv_free(auth->cached);
    *auth = (struct rv_auth){0};
}

ruvllm_status rv_auth_refresh(struct rv_auth *auth, struct ruvllm_error *err)
{
    uint64_t n = 0;
    ruvllm_status rc;

    if (!auth->source.count || auth->has_keys)
        return RUVLLM_OK;
    rc = auth->source.count(auth->source.user, &n, err);
    auth->has_keys = n > 0;
    return rc ? rv_fail_in(err, rc, "cannot count the keys") : RUVLLM_OK;
}

/* ---- names of this machine --------------------------------------------------------------------- */

/* Digits and dots that begin with 127. and have four parts: "127.0.0.1.evil.org" has more than that. */
static bool is_loopback_v4(const char *text, size_t len)
{
    int dots = 0;

    if (len < 9 || memcmp(text, "127.", 4) != 0)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '.')
            dots++;
        else if (text[i] < '0' || text[i] > '9')
            return false;
    }
    return dots == 3 && text[len - 1] != '.';
}

/* Whether what follows a name is nothing, or a colon and digits. */
static bool is_port(const char *text)
{
    if (*text == '\0')
        return true;
    if (*text != ':')
        return false;
    return text[1] != '\0' && strspn(text + 1, "0123456789") == strlen(text + 1);
}

bool rv_auth_is_local_name(const char *host)
{
    size_t len;

    if (strncmp(host, "[::1]", 5) == 0)
        return is_port(host + 5);
    len = strcspn(host, ":");
    if (!is_port(host + len))
        return false;
    return (len == 9 && strncasecmp(host, "localhost", 9) == 0) || is_loopback_v4(host, len);
}

bool rv_auth_is_local_address(const char *address)
{
    return strncmp(address, "unix:", 5) == 0 || rv_auth_is_local_name(address);
}

/* An Origin is "scheme://host[:port]": ours when it goes on with the Host it was sent to. "null" is not. */
static bool is_same_origin(const char *origin, const char *host)
{
    const char *name = strstr(origin, "://");

    return name && strcasecmp(name + 3, host) == 0;
}

/* ---- keys --------------------------------------------------------------------------------------- */

/* The token after "Bearer ", or NULL. */
static const char *bearer(const char *authorization, size_t *len)
{
    const char *token;

    if (!authorization || strncasecmp(authorization, "bearer ", 7) != 0)
        return NULL;
    token = authorization + 7;
    token += strspn(token, " ");
    *len = strlen(token);
    return *len > 0 ? token : NULL;
}

static void fill(struct rv_auth_key *key, const struct rv_keyed_hash *hash, const struct ruvllm_key_info *info)
{
    *key = (struct rv_auth_key){.number = hash->words[0],
                                .requests_per_minute = info->requests_per_minute,
                                .share = info->share,
                                .is_admin = info->is_admin};
    memcpy(key->id, info->id, sizeof(key->id));
    memcpy(key->tenant, info->tenant, sizeof(key->tenant));
}

/* What is known of a token, asking the source when the memory is too old. NULL: the source failed. */
static const struct rv_auth_cached *look_up(struct rv_auth *auth, const char *token, size_t len, int64_t now_us)
{
    struct rv_keyed_hash hash = rv_keyed_hash(auth->secret, token, len);
    struct rv_auth_cached *entry = &auth->cached[hash.words[1] % RV_AUTH_N_CACHED];
    struct ruvllm_key_info info = {.struct_size = sizeof(info)};
    ruvllm_key_verdict verdict = RUVLLM_KEY_UNKNOWN;

    if (entry->until_us > now_us && memcmp(&entry->hash, &hash, sizeof(hash)) == 0)
        return entry;
    *entry = (struct rv_auth_cached){0};
    if (auth->source.check(auth->source.user, token, len, &verdict, &info, NULL))
        return NULL;
    entry->hash = hash;
    entry->until_us = now_us + RV_AUTH_REMEMBER_US;
    entry->is_valid = verdict == RUVLLM_KEY_VALID;
    if (entry->is_valid)
        fill(&entry->key, &hash, &info);
    return entry;
}

static enum rv_auth_verdict check_without_keys(const struct rv_auth_request *request, struct rv_auth_key *key)
{
    if (!request->is_loopback || !request->host || !rv_auth_is_local_name(request->host))
        return RV_AUTH_FOREIGN;
    if (request->origin && !request->origin_is_listed && !is_same_origin(request->origin, request->host))
        return RV_AUTH_FOREIGN;
    *key = (struct rv_auth_key){.tenant = "local", .share = 1, .is_admin = true};
    return RV_AUTH_OK;
}

enum rv_auth_verdict rv_auth_check(struct rv_auth *auth, const struct rv_auth_request *request,
                                   enum rv_auth_access access, int64_t now_us, struct rv_auth_key *key)
{
    const struct rv_auth_cached *entry;
    const char *token;
    size_t len;

    *key = (struct rv_auth_key){0};
    if (access == RV_AUTH_OPEN)
        return RV_AUTH_OK;
    if (!auth->has_keys)
        return check_without_keys(request, key);
    token = bearer(request->authorization, &len);
    if (!token)
        return RV_AUTH_MISSING;
    entry = look_up(auth, token, len, now_us);
    if (!entry)
        return RV_AUTH_FAILED;
    if (!entry->is_valid)
        return RV_AUTH_WRONG;
    *key = entry->key;
    return access == RV_AUTH_ADMIN && !key->is_admin ? RV_AUTH_FORBIDDEN : RV_AUTH_OK;
}
