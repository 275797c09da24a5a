/* The public API's door to the store: checks arguments, fills in defaults, calls the part that does the work. */
#include "ruvllm_store.h"

#include "engine/door.h"
#include "store/store_keys.h"
#include "store/store_path.h"
#include "store/store_sessions.h"
#include "store/store_witness.h"

/* ---- the store ----------------------------------------------------------------------------- */

struct ruvllm_store_params ruvllm_store_params_default(void)
{
    return rv_store_params_default();
}

ruvllm_status ruvllm_store_default_path(char **path, struct ruvllm_error *err)
{
    return path ? rv_store_path_default(path, err) : rv_door_fail_null(err, "path");
}

ruvllm_status ruvllm_store_open(ruvllm_store **out, const char *url, const struct ruvllm_store_params *params,
                                struct ruvllm_error *err)
{
    struct ruvllm_store_params ours = rv_store_params_default();
    ruvllm_status rc;

    if (!out)
        return rv_door_fail_null(err, "out");
    *out = NULL;
    if (!url)
        return rv_door_fail_null(err, "url");
    rc = rv_door_take_struct(&ours, sizeof(ours), params, "ruvllm_store_params", err);
    return rc ? rc : rv_store_open(out, url, &ours, err);
}

void ruvllm_store_close(ruvllm_store *store)
{
    rv_store_close(store);
}

/* ---- keys ---------------------------------------------------------------------------------- */

struct ruvllm_key_params ruvllm_key_params_default(void)
{
    return rv_store_keys_params_default();
}

/* Before the work is done: empties the caller's struct, or says that it is none of ours. NULL is fine. */
static ruvllm_status clear_info(struct ruvllm_key_info *info, struct ruvllm_error *err)
{
    static const struct ruvllm_key_info empty;

    return info ? rv_door_give_struct(info, &empty, sizeof(empty), "ruvllm_key_info", err) : RUVLLM_OK;
}

ruvllm_status ruvllm_keys_create(ruvllm_store *store, const struct ruvllm_key_params *params, char key[RUVLLM_KEY_SIZE],
                                 struct ruvllm_key_info *info, struct ruvllm_error *err)
{
    struct ruvllm_key_params ours = rv_store_keys_params_default();
    struct ruvllm_key_info made;
    ruvllm_status rc;

    if (!store || !key)
        return rv_door_fail_null(err, store ? "key" : "store");
    rc = rv_door_take_struct(&ours, sizeof(ours), params, "ruvllm_key_params", err);
    if (!rc)
        rc = clear_info(info, err);
    if (!rc)
        rc = rv_store_keys_create(store, &ours, key, &made, err);
    if (rc || !info)
        return rc;
    return rv_door_give_struct(info, &made, sizeof(made), "ruvllm_key_info", err);
}

ruvllm_status ruvllm_keys_list(ruvllm_store *store, const char *tenant, ruvllm_key_fn fn, void *user,
                               struct ruvllm_error *err)
{
    if (!store || !fn)
        return rv_door_fail_null(err, store ? "fn" : "store");
    return rv_store_keys_list(store, tenant, fn, user, err);
}

ruvllm_status ruvllm_keys_count(ruvllm_store *store, uint64_t *n, struct ruvllm_error *err)
{
    if (!store || !n)
        return rv_door_fail_null(err, store ? "n" : "store");
    return rv_store_keys_count(store, n, err);
}

ruvllm_status ruvllm_keys_revoke(ruvllm_store *store, const char *id, struct ruvllm_error *err)
{
    if (!store || !id)
        return rv_door_fail_null(err, store ? "id" : "store");
    return rv_store_keys_revoke(store, id, err);
}

const char *ruvllm_key_verdict_name(ruvllm_key_verdict verdict)
{
    static const char *const names[] = {"valid", "unknown", "expired", "revoked"};

    return (size_t)verdict < sizeof(names) / sizeof(names[0]) ? names[verdict] : "unknown";
}

ruvllm_status ruvllm_keys_check(ruvllm_store *store, const char *key, size_t key_len, ruvllm_key_verdict *verdict,
                                struct ruvllm_key_info *info, struct ruvllm_error *err)
{
    struct ruvllm_key_info found;
    ruvllm_status rc;

    if (!store || !verdict)
        return rv_door_fail_null(err, store ? "verdict" : "store");
    *verdict = RUVLLM_KEY_UNKNOWN;
    if (!key)
        return rv_door_fail_null(err, "key");
    rc = clear_info(info, err);
    if (!rc)
        rc = rv_store_keys_check(store, key, key_len, verdict, &found, err);
    if (rc || !info || *verdict == RUVLLM_KEY_UNKNOWN)
        return rc;
    return rv_door_give_struct(info, &found, sizeof(found), "ruvllm_key_info", err);
}

/* ---- the witness log ----------------------------------------------------------------------- */

ruvllm_status ruvllm_witness_append(ruvllm_store *store, const struct ruvllm_witness *entry, struct ruvllm_error *err)
{
    struct ruvllm_witness ours = {.struct_size = sizeof(ours)};
    ruvllm_status rc;

    if (!store || !entry)
        return rv_door_fail_null(err, store ? "entry" : "store");
    rc = rv_door_take_struct(&ours, sizeof(ours), entry, "ruvllm_witness", err);
    return rc ? rc : rv_store_witness_append(store->log, &ours, err);
}

ruvllm_status ruvllm_witness_flush(ruvllm_store *store, struct ruvllm_error *err)
{
    return store ? rv_store_witness_flush(store->log, err) : rv_door_fail_null(err, "store");
}

struct ruvllm_witness_filter ruvllm_witness_filter_default(void)
{
    return (struct ruvllm_witness_filter){.struct_size = sizeof(struct ruvllm_witness_filter), .limit = 100};
}

ruvllm_status ruvllm_witness_query(ruvllm_store *store, const struct ruvllm_witness_filter *filter,
                                   ruvllm_witness_fn fn, void *user, struct ruvllm_error *err)
{
    struct ruvllm_witness_filter ours = ruvllm_witness_filter_default();
    ruvllm_status rc;

    if (!store || !fn)
        return rv_door_fail_null(err, store ? "fn" : "store");
    rc = rv_door_take_struct(&ours, sizeof(ours), filter, "ruvllm_witness_filter", err);
    return rc ? rc : rv_store_witness_query(store, &ours, fn, user, err);
}

ruvllm_status ruvllm_witness_stats_get(ruvllm_store *store, struct ruvllm_witness_stats *out, struct ruvllm_error *err)
{
    struct ruvllm_witness_stats stats;

    if (!store || !out)
        return rv_door_fail_null(err, store ? "out" : "store");
    rv_store_witness_stats(store->log, &stats);
    return rv_door_give_struct(out, &stats, sizeof(stats), "ruvllm_witness_stats", err);
}

ruvllm_status ruvllm_witness_prune(ruvllm_store *store, int32_t days, uint64_t *n_deleted, struct ruvllm_error *err)
{
    return store ? rv_store_witness_prune(store, days, n_deleted, err) : rv_door_fail_null(err, "store");
}

/* ---- sessions ------------------------------------------------------------------------------ */

ruvllm_status ruvllm_sessions_put(ruvllm_store *store, const struct ruvllm_session *session, struct ruvllm_error *err)
{
    struct ruvllm_session ours = {.struct_size = sizeof(ours)};
    ruvllm_status rc;

    if (!store || !session)
        return rv_door_fail_null(err, store ? "session" : "store");
    rc = rv_door_take_struct(&ours, sizeof(ours), session, "ruvllm_session", err);
    if (!rc && !ours.messages && ours.messages_len)
        return rv_door_fail_null(err, "messages");
    return rc ? rc : rv_store_sessions_put(store, &ours, err);
}

ruvllm_status ruvllm_sessions_get(ruvllm_store *store, const char *tenant, const char *id, struct ruvllm_session **out,
                                  struct ruvllm_error *err)
{
    if (!store || !out)
        return rv_door_fail_null(err, store ? "out" : "store");
    return rv_store_sessions_get(store, tenant, id, out, err);
}

ruvllm_status ruvllm_sessions_list(ruvllm_store *store, const char *tenant, int64_t before_us, const char *before_id,
                                   int32_t limit, ruvllm_session_fn fn, void *user, struct ruvllm_error *err)
{
    if (!store || !fn)
        return rv_door_fail_null(err, store ? "fn" : "store");
    return rv_store_sessions_list(store, tenant, before_us, before_id, limit, fn, user, err);
}

ruvllm_status ruvllm_sessions_delete(ruvllm_store *store, const char *tenant, const char *id, struct ruvllm_error *err)
{
    return store ? rv_store_sessions_delete(store, tenant, id, err) : rv_door_fail_null(err, "store");
}
