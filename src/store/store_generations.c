/* What a generation may be, and that content is what its hash says. */
#include "store/store_generations.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "store/sql_generations.h"
#include "store/store_name.h"

#include <string.h>

static ruvllm_status check_names(const char *tenant, const char *model, struct ruvllm_error *err)
{
    ruvllm_status rc = rv_store_name_tenant(tenant, err);

    return rc ? rc : rv_store_name_text(model, RV_STORE_MODEL_MAX, "the name of the model", err);
}

static ruvllm_status check_generation(const struct rv_store_generation *gen, size_t len, struct ruvllm_error *err)
{
    ruvllm_status rc = check_names(gen->tenant, gen->model, err);

    if (!rc)
        rc = rv_store_name_text(gen->metrics, RV_STORE_METRICS_MAX, "the metrics", err);
    if (!rc && (gen->kind < RV_STORE_GENERATION_INSTANT || gen->kind > RV_STORE_GENERATION_IMPORT))
        rc = rv_fail(err, RUVLLM_INVALID, "there is no kind %d of generation", (int)gen->kind);
    if (!rc && (gen->parent < 0 || gen->applied_seq < 0))
        rc = rv_fail(err, RUVLLM_INVALID, "a number of the generation is negative");
    if (!rc && len > RV_STORE_BLOB_MAX)
        rc = rv_fail(err, RUVLLM_TOO_LARGE, "an adapter of %zu bytes is larger than %d", len, RV_STORE_BLOB_MAX);
    return rc;
}

ruvllm_status rv_store_generations_add(struct ruvllm_store *store, struct rv_store_generation *gen, const void *data,
                                       size_t len, struct ruvllm_error *err)
{
    ruvllm_status rc = check_generation(gen, len, err);

    if (!rc) {
        data = len ? data : "";
        rv_sha256_hex(data, len, gen->hash);
        gen->n_bytes = len;
        gen->created_us = rv_clock_unix_us();
        rc = rv_sql_generations_add(rv_store_lock(store), gen, data, len, err);
        rv_store_unlock(store);
    }
    return rc ? rv_fail_in(err, rc, "cannot add a generation") : RUVLLM_OK;
}

static ruvllm_status find(struct ruvllm_store *store, const char *tenant, const char *model, int64_t generation,
                          struct rv_store_generation *out, bool *found, struct ruvllm_error *err)
{
    ruvllm_status rc = check_names(tenant, model, err);

    *found = false;
    if (rc)
        return rc;
    rc = rv_sql_generations_find(rv_store_lock(store), tenant, model ? model : "", generation, out, found, err);
    rv_store_unlock(store);
    return rc;
}

static ruvllm_status none(int64_t generation, struct ruvllm_error *err)
{
    return rv_fail_kind(err, RUVLLM_NOT_FOUND, RUVLLM_ERROR_ADAPTER, "there is no generation %lld",
                        (long long)generation);
}

ruvllm_status rv_store_generations_get(struct ruvllm_store *store, const char *tenant, const char *model,
                                       int64_t generation, struct rv_store_generation *out, struct ruvllm_error *err)
{
    bool found;
    ruvllm_status rc =
        generation > 0 ? find(store, tenant, model, generation, out, &found, err) : none(generation, err);

    return rc || found ? rc : none(generation, err);
}

ruvllm_status rv_store_generations_active(struct ruvllm_store *store, const char *tenant, const char *model,
                                          struct rv_store_generation *out, bool *found, struct ruvllm_error *err)
{
    return find(store, tenant, model, RV_SQL_GENERATIONS_ACTIVE, out, found, err);
}

ruvllm_status rv_store_generations_list(struct ruvllm_store *store, const char *tenant, const char *model,
                                        int64_t before, struct rv_store_generation *out, size_t max, size_t *n,
                                        struct ruvllm_error *err)
{
    ruvllm_status rc = check_names(tenant, model, err);

    *n = 0;
    if (!rc && (max < 1 || max > RV_STORE_LIMIT_MAX))
        rc = rv_fail(err, RUVLLM_INVALID, "%zu generations at once: it goes from 1 to %d", max, RV_STORE_LIMIT_MAX);
    if (rc)
        return rc;
    rc = rv_sql_generations_list(rv_store_lock(store), tenant, model ? model : "", before > 0 ? before : INT64_MAX, out,
                                 max, n, err);
    rv_store_unlock(store);
    return rc;
}

ruvllm_status rv_store_generations_activate(struct ruvllm_store *store, const char *tenant, const char *model,
                                            int64_t generation, struct ruvllm_error *err)
{
    bool found = false;
    ruvllm_status rc = check_names(tenant, model, err);

    if (!rc && generation < 0)
        rc = none(generation, err);
    if (rc)
        return rc;
    rc = rv_sql_generations_activate(rv_store_lock(store), tenant, model ? model : "", generation, &found, err);
    rv_store_unlock(store);
    return rc || found ? rc : none(generation, err);
}

ruvllm_status rv_store_generations_forget(struct ruvllm_store *store, const char *tenant, const char *model,
                                          int64_t seq, struct ruvllm_error *err)
{
    ruvllm_status rc = check_names(tenant, model, err);

    if (rc)
        return rc;
    rc = rv_sql_generations_forget(rv_store_lock(store), tenant, model ? model : "", seq, err);
    rv_store_unlock(store);
    return rc;
}

ruvllm_status rv_store_generations_content(struct ruvllm_store *store, const struct rv_store_generation *gen,
                                           void **out, struct ruvllm_error *err)
{
    char hash[RV_SHA256_HEX_LEN + 1];
    void *data = rv_malloc(gen->n_bytes ? (size_t)gen->n_bytes : 1);
    bool found = false;
    ruvllm_status rc;

    *out = NULL;
    if (!data)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate an adapter of %llu bytes",
                       (unsigned long long)gen->n_bytes);
    rc = rv_sql_generations_content(rv_store_lock(store), gen->hash, data, (size_t)gen->n_bytes, &found, err);
    rv_store_unlock(store);
    if (!rc && found)
        rv_sha256_hex(data, (size_t)gen->n_bytes, hash);
    if (!rc && (!found || memcmp(hash, gen->hash, sizeof(hash)) != 0))
        rc = rv_fail_kind(err, RUVLLM_FORMAT, RUVLLM_ERROR_STORAGE,
                          "the content of generation %lld is damaged: it is not what its hash says",
                          (long long)gen->generation);
    if (rc)
        rv_free(data);
    else
        *out = data;
    return rc;
}
