/*
 * A key is "rv-" and 32 random bytes in base64url. Its first 8 characters after the "rv-" are its public id; the 208
 * bits behind them stay the secret. The store keeps the BLAKE2b-256 of the whole key: a plain hash is enough for what
 * nobody can guess, and a slow one would make every request slow.
 */
#include "store/store_keys.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "store/key_memory.h"
#include "store/sql_keys.h"
#include "store/store_name.h"
#include "store/store_witness.h"

#include <math.h>
#include <string.h>

enum {
    PREFIX_LEN = 3, // "rv-"
    KEY_LEN = PREFIX_LEN + RV_SECRET_TEXT,
    PAGE = 64,         // keys read at once
    TRIES = 8,         // to find an id that is free
    TOUCH_SECONDS = 60 // how coarse the time of last use is
};

_Static_assert(KEY_LEN + 1 == RUVLLM_KEY_SIZE, "the public constant has room for a key");
_Static_assert(sizeof(((struct ruvllm_key_info *)0)->id) == RV_STORE_KEY_ID_LEN + 1, "an id fits");
_Static_assert(sizeof(((struct ruvllm_key_info *)0)->tenant) == RV_STORE_TENANT_MAX + 1, "a tenant fits");
_Static_assert(sizeof(((struct ruvllm_key_info *)0)->name) == RV_STORE_KEY_NAME_MAX + 1, "a name fits");

static int64_t now_seconds(void)
{
    return rv_clock_unix_us() / 1000000;
}

struct ruvllm_key_params rv_store_keys_params_default(void)
{
    return (struct ruvllm_key_params){.struct_size = sizeof(struct ruvllm_key_params), .share = 1.0f};
}

static ruvllm_status check_params(const struct ruvllm_key_params *params, struct ruvllm_error *err)
{
    ruvllm_status rc = rv_store_name_tenant(params->tenant, err);

    if (!rc)
        rc = rv_store_name_text(params->name, RV_STORE_KEY_NAME_MAX, "the name of the key", err);
    if (!rc && params->requests_per_minute < 0)
        rc = rv_fail(err, RUVLLM_INVALID, "'requests_per_minute' is negative; 0 is no limit");
    if (!rc && !(params->share > 0.0f && params->share <= 1000.0f)) // false for NaN too
        rc = rv_fail(err, RUVLLM_INVALID, "'share' is a weight above 0 and up to 1000");
    if (!rc && params->expires && params->expires <= now_seconds())
        rc = rv_fail(err, RUVLLM_INVALID, "'expires' is not in the future; 0 is never");
    return rc;
}

/* A key whose id does not begin with '-' or '_': on a command line it would be taken for an option. */
static void make_key(char key[RUVLLM_KEY_SIZE])
{
    memcpy(key, "rv-", PREFIX_LEN);
    do
        rv_secret_make(key + PREFIX_LEN);
    while (key[PREFIX_LEN] == '-' || key[PREFIX_LEN] == '_');
}

static void fill_info(struct ruvllm_key_info *info, const struct ruvllm_key_params *params)
{
    *info = (struct ruvllm_key_info){.struct_size = sizeof(*info),
                                     .requests_per_minute = params->requests_per_minute,
                                     .share = params->share,
                                     .is_admin = params->is_admin,
                                     .created = now_seconds(),
                                     .expires = params->expires};
    rv_store_name_copy(info->tenant, RV_STORE_TENANT_MAX, params->tenant);
    rv_store_name_copy(info->name, RV_STORE_KEY_NAME_MAX, params->name);
}

static ruvllm_status add_key(struct ruvllm_store *store, struct rv_store_key *row, char key[RUVLLM_KEY_SIZE],
                             struct ruvllm_error *err)
{
    bool taken = true;
    ruvllm_status rc = RUVLLM_OK;

    for (int i = 0; !rc && taken && i < TRIES; i++) {
        make_key(key);
        rv_store_name_copy(row->info.id, RV_STORE_KEY_ID_LEN, key + PREFIX_LEN);
        rv_secret_hash(row->hash, key, KEY_LEN);
        rc = rv_sql_keys_add(rv_store_lock(store), row, &taken, err);
        rv_store_unlock(store);
    }
    if (!rc && taken)
        rc = rv_fail(err, RUVLLM_FORMAT, "no free id for a key was found: the table of keys is damaged");
    return rc;
}

ruvllm_status rv_store_keys_create(struct ruvllm_store *store, const struct ruvllm_key_params *params,
                                   char key[RUVLLM_KEY_SIZE], struct ruvllm_key_info *info, struct ruvllm_error *err)
{
    struct rv_store_key row;
    ruvllm_status rc = check_params(params, err);

    if (!rc) {
        fill_info(&row.info, params);
        rc = add_key(store, &row, key, err);
    }
    if (rc) {
        rv_secret_wipe(key, RUVLLM_KEY_SIZE);
        return rv_fail_in(err, rc, "cannot create a key");
    }
    if (info)
        *info = row.info;
    return RUVLLM_OK;
}

ruvllm_status rv_store_keys_list(struct ruvllm_store *store, const char *tenant, ruvllm_key_fn fn, void *user,
                                 struct ruvllm_error *err)
{
    ruvllm_status rc = tenant ? rv_store_name_tenant(tenant, err) : RUVLLM_OK;
    struct rv_store_key *page;
    bool go_on = true;
    int64_t after = 0;
    size_t n = PAGE;

    if (rc)
        return rc;
    page = rv_calloc(PAGE, sizeof(*page));
    if (!page)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a page of keys");
    while (!rc && go_on && n == PAGE) {
        rc = rv_sql_keys_list(rv_store_lock(store), tenant, after, page, PAGE, &n, err);
        rv_store_unlock(store);
        for (size_t i = 0; !rc && go_on && i < n; i++) {
            go_on = fn(user, &page[i].info);
            after = page[i].row;
        }
    }
    rv_free(page);
    return rc;
}

ruvllm_status rv_store_keys_count(struct ruvllm_store *store, uint64_t *n, struct ruvllm_error *err)
{
    ruvllm_status rc = rv_sql_keys_count(rv_store_lock(store), now_seconds(), n, err);

    rv_store_unlock(store);
    return rc;
}

ruvllm_status rv_store_keys_revoke(struct ruvllm_store *store, const char *id, struct ruvllm_error *err)
{
    bool found = false;
    ruvllm_status rc = rv_store_name_key_id(id, err);

    if (rc)
        return rc;
    rc = rv_sql_keys_revoke(rv_store_lock(store), id, now_seconds(), &found, err);
    rv_store_unlock(store);
    if (!rc && !found)
        rc = rv_fail(err, RUVLLM_NOT_FOUND, "there is no key '%s'", id);
    return rc;
}

static ruvllm_key_verdict judge(const struct ruvllm_key_info *info, int64_t now)
{
    if (info->revoked)
        return RUVLLM_KEY_REVOKED;
    return info->expires && info->expires <= now ? RUVLLM_KEY_EXPIRED : RUVLLM_KEY_VALID;
}

/* With check_lock held: the key as the database has it or, while that is away, as it had it a few minutes ago. */
static ruvllm_status find_key(struct ruvllm_store *store, const uint8_t hash[RV_SECRET_BYTES], struct rv_store_key *row,
                              bool *found, struct ruvllm_error *err)
{
    struct ruvllm_error failure = {0};
    ruvllm_status rc = rv_sql_keys_find(store->check_db, hash, row, found, &failure);

    if (store->key_memory && !rc && *found)
        rv_key_memory_put(store->key_memory, row, rv_clock_us());
    else if (store->key_memory && !rc)
        rv_key_memory_drop(store->key_memory, hash);
    else if (store->key_memory && rv_sql_db_is_lost(store->check_db) &&
             rv_key_memory_find(store->key_memory, hash, rv_clock_us(), row)) {
        *found = true;
        return RUVLLM_OK;
    }
    if (rc && err)
        *err = failure;
    return rc;
}

ruvllm_status rv_store_keys_check(struct ruvllm_store *store, const char *key, size_t key_len,
                                  ruvllm_key_verdict *verdict, struct ruvllm_key_info *info, struct ruvllm_error *err)
{
    uint8_t hash[RV_SECRET_BYTES];
    struct rv_store_key row;
    int64_t now = now_seconds();
    bool found;
    ruvllm_status rc;

    *verdict = RUVLLM_KEY_UNKNOWN;
    if (key_len != KEY_LEN || memcmp(key, "rv-", PREFIX_LEN) != 0)
        return RUVLLM_OK;
    rv_secret_hash(hash, key, key_len);
    pthread_mutex_lock(&store->check_lock);
    rc = find_key(store, hash, &row, &found, err);
    pthread_mutex_unlock(&store->check_lock);
    /* The index compares byte by byte; what it finds is judged by a comparison that tells nothing by its time. */
    if (rc || !found || !rv_secret_is_equal(row.hash, hash))
        return rc;
    *verdict = judge(&row.info, now);
    *info = row.info;
    if (*verdict == RUVLLM_KEY_VALID && now - row.info.last_used >= TOUCH_SECONDS)
        rv_store_witness_touch(store->log, row.info.id, now);
    return RUVLLM_OK;
}
