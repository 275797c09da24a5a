/* The list of backends, and which one a model gets. */
#include "engine/backend.h"

#include "engine/model.h"

#include <string.h>

static const struct rv_backend_ops *const backends[] = {
    &rv_backend_native_ops,
#ifdef RUVLLM_LLAMA
    &rv_backend_llama_ops,
#endif
};

static const struct rv_backend_ops *find(const char *name)
{
    for (size_t i = 0; i < sizeof(backends) / sizeof(backends[0]); i++) {
        if (strcmp(backends[i]->name, name) == 0)
            return backends[i];
    }
    return NULL;
}

static bool is_hybrid(const char *name)
{
    return !name || strcmp(name, "hybrid") == 0;
}

ruvllm_status rv_backend_check_name(const char *name, struct ruvllm_error *err)
{
    if (is_hybrid(name) || find(name))
        return RUVLLM_OK;
    if (strcmp(name, "llama") == 0)
        return rv_fail_kind(err, RUVLLM_UNSUPPORTED, RUVLLM_ERROR_CONFIG,
                            "this build has no backend 'llama'; install libllama and build with RUVLLM_LLAMA=ON");
    return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_CONFIG,
                        "there is no backend '%s'; choose native, llama or hybrid", name);
}

static ruvllm_status describe(struct ruvllm_model *model, const struct rv_backend_ops *ops,
                              const struct ruvllm_model_params *params, struct ruvllm_error *err)
{
    ruvllm_status rc = ops->describe(model, params, err);

    if (!rc)
        model->backend = ops;
    return rc;
}

ruvllm_status rv_backend_choose(struct ruvllm_model *model, const struct ruvllm_model_params *params,
                                struct ruvllm_error *err)
{
    const struct rv_backend_ops *llama = find("llama");
    bool hybrid = is_hybrid(params->backend), is_foreign = rv_hparams_is_foreign(model->file);
    struct ruvllm_error reason = {0};
    ruvllm_status rc;

    if (!hybrid && strcmp(params->backend, "native") != 0)
        return describe(model, llama, params, err);
    if (hybrid && is_foreign && llama)
        return describe(model, llama, params, err);
    rc = describe(model, &rv_backend_native_ops, params, &reason);
    if (rc && is_foreign)
        return rv_fail_kind(err, rc, reason.kind, "%s; %s", reason.message,
                            llama ? "open it with backend 'hybrid' or 'llama'"
                                  : "libllama may: this build lacks it, so build with RUVLLM_LLAMA=ON");
    if (rc && err)
        *err = reason;
    return rc;
}
