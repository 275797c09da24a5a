/* What the state of a learner may be; a handle of a store is one owner of claims. */
#include "store/store_learner.h"

#include "base/clock.h"
#include "store/sql_learner.h"
#include "store/store_name.h"

#include <math.h>
#include <string.h>

static ruvllm_status check_names(const char *tenant, const char *model, struct ruvllm_error *err)
{
    ruvllm_status rc = rv_store_name_tenant(tenant, err);

    return rc ? rc : rv_store_name_text(model, RV_STORE_MODEL_MAX, "the name of the model", err);
}

ruvllm_status rv_store_learner_get(struct ruvllm_store *store, const char *tenant, const char *model,
                                   struct rv_store_learner *out, struct ruvllm_error *err)
{
    bool found;
    ruvllm_status rc = check_names(tenant, model, err);

    if (rc)
        return rc;
    memset(out, 0, sizeof(*out));
    rv_store_name_copy(out->tenant, RV_STORE_TENANT_MAX, tenant);
    rv_store_name_copy(out->model, RV_STORE_MODEL_MAX, model);
    rc = rv_sql_learner_get(rv_store_lock(store), out->tenant, out->model, out, &found, err);
    rv_store_unlock(store);
    return rc;
}

ruvllm_status rv_store_learner_put(struct ruvllm_store *store, struct rv_store_learner *state, struct ruvllm_error *err)
{
    ruvllm_status rc = check_names(state->tenant, state->model, err);

    if (!rc && !(isfinite(state->mean) && isfinite(state->deviation) && isfinite(state->kl_spent)))
        rc = rv_fail(err, RUVLLM_INVALID, "a number of the learner's state is not finite");
    if (!rc && (state->applied_seq < 0 || state->n_votes < 0))
        rc = rv_fail(err, RUVLLM_INVALID, "a number of the learner's state is negative");
    if (!rc && state->extra_len > RV_STORE_EXTRA_MAX)
        rc = rv_fail(err, RUVLLM_TOO_LARGE, "%zu bytes of a learner's state are more than %d", state->extra_len,
                     RV_STORE_EXTRA_MAX);
    if (rc)
        return rc;
    state->updated_us = rv_clock_unix_us();
    rc = rv_sql_learner_put(rv_store_lock(store), state, err);
    rv_store_unlock(store);
    return rc;
}

ruvllm_status rv_store_learner_look(struct ruvllm_store *store, const char *tenant, const char *model,
                                    struct rv_store_look *out, struct ruvllm_error *err)
{
    ruvllm_status rc = check_names(tenant, model, err);

    *out = (struct rv_store_look){0};
    if (rc)
        return rc;
    rc = rv_sql_learner_look(rv_store_lock(store), tenant, model ? model : "", out, err);
    rv_store_unlock(store);
    return rc;
}
