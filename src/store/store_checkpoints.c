/* What a checkpoint may be. */
#include "store/store_checkpoints.h"

#include "store/sql_checkpoints.h"
#include "store/store_name.h"

static ruvllm_status check_names(const char *tenant, const char *model, struct ruvllm_error *err)
{
    ruvllm_status rc = rv_store_name_tenant(tenant, err);

    return rc ? rc : rv_store_name_text(model, RV_STORE_MODEL_MAX, "the name of the model", err);
}

ruvllm_status rv_store_checkpoints_put(struct ruvllm_store *store, const char *tenant, const char *model, int64_t seq,
                                       int64_t n_forgotten, const void *data, size_t len, struct ruvllm_error *err)
{
    ruvllm_status rc = check_names(tenant, model, err);

    if (!rc && seq < 1)
        rc = rv_fail(err, RUVLLM_INVALID, "a checkpoint has events in it");
    if (!rc && len > RV_STORE_CHECKPOINT_MAX)
        rc =
            rv_fail(err, RUVLLM_TOO_LARGE, "a checkpoint of %zu bytes is larger than %d", len, RV_STORE_CHECKPOINT_MAX);
    if (rc)
        return rc;
    rc = rv_sql_checkpoints_put(rv_store_lock(store), tenant, model, seq, n_forgotten, data, len, err);
    rv_store_unlock(store);
    return rc;
}

ruvllm_status rv_store_checkpoints_get(struct ruvllm_store *store, const char *tenant, const char *model, int64_t *seq,
                                       void **out, size_t *len, struct ruvllm_error *err)
{
    ruvllm_status rc = check_names(tenant, model, err);

    *out = NULL;
    *len = 0;
    *seq = 0;
    if (rc)
        return rc;
    rc = rv_sql_checkpoints_get(rv_store_lock(store), tenant, model, seq, out, len, err);
    rv_store_unlock(store);
    return rc;
}
