/* The public calls of ruvllm_adapter.h that take an engine or a model: arguments checked, then the part that works. */
#include "ruvllm_adapter.h"

#include "base/alloc.h"
#include "engine/door.h"
#include "engine/engine.h"

#include <math.h>
#include <string.h>

ruvllm_status ruvllm_engine_adapter_load(ruvllm_engine *engine, const char *id, const char *path, int64_t expected,
                                         int64_t *generation, struct ruvllm_error *err)
{
    ruvllm_status rc;

    if (!engine || !id || !path || !generation)
        return rv_fail(err, RUVLLM_INVALID, "engine, id, path and generation must not be NULL");
    if (expected < -1)
        return rv_fail(err, RUVLLM_INVALID, "'expected' is a generation, 0 or -1, not %lld", (long long)expected);
    rc = rv_engine_adapters_load(&engine->adapters, id, path, expected, generation, err);
    return rc ? rv_fail_in(err, rc, "cannot load adapter '%s'", id) : RUVLLM_OK;
}

ruvllm_status ruvllm_engine_adapter_unload(ruvllm_engine *engine, const char *id, int64_t generation,
                                           struct ruvllm_error *err)
{
    if (!engine || !id)
        return rv_door_fail_null(err, engine ? "id" : "engine");
    return rv_engine_adapters_unload(&engine->adapters, id, generation, err);
}

ruvllm_status ruvllm_engine_adapter_list(ruvllm_engine *engine, const char *prefix, struct ruvllm_adapter_info **infos,
                                         size_t *n, struct ruvllm_error *err)
{
    if (!engine || !infos || !n)
        return rv_fail(err, RUVLLM_INVALID, "engine, infos and n must not be NULL");
    return rv_engine_adapters_list(&engine->adapters, prefix, infos, n, err);
}

ruvllm_status ruvllm_engine_adapter_diff(ruvllm_engine *engine, const char *id, int64_t a, int64_t b, double *norm,
                                         struct ruvllm_error *err)
{
    if (!engine || !id || !norm)
        return rv_fail(err, RUVLLM_INVALID, "engine, id and norm must not be NULL");
    return rv_engine_adapters_diff(&engine->adapters, id, a, b, norm, err);
}

ruvllm_status ruvllm_engine_adapter_export(ruvllm_engine *engine, const char *id, int64_t generation, const char *path,
                                           ruvllm_adapter_format format, struct ruvllm_error *err)
{
    ruvllm_status rc;

    if (!engine || !id || !path)
        return rv_fail(err, RUVLLM_INVALID, "engine, id and path must not be NULL");
    if ((unsigned)format > RUVLLM_ADAPTER_OWN)
        return rv_fail(err, RUVLLM_INVALID, "there is no format %d of adapters", (int)format);
    rc = rv_engine_adapters_export(&engine->adapters, id, generation, path, format, err);
    return rc ? rv_fail_in(err, rc, "cannot export adapter '%s'", id) : RUVLLM_OK;
}

/* ---- one model, one caller ------------------------------------------------------------------- */

static ruvllm_status read_adapter(const struct ruvllm_model *model, const char *path, struct rv_adapter **out,
                                  struct ruvllm_error *err)
{
    struct rv_adapter_file_base base;
    struct rv_adapter_file *file = NULL;
    ruvllm_status rc = rv_engine_adapters_check_model(model, err);

    *out = NULL;
    if (rc)
        return rc;
    rv_adapter_file_base_init(&base, &model->hparams, &model->manifest);
    rc = rv_adapter_file_open(&file, path, &base, err);
    if (!rc)
        rc = rv_adapter_file_adapter(file, &base, out, err);
    rv_adapter_file_close(file);
    return rc;
}

/* Of the numbers below the head and of their weight. */
static ruvllm_status layers_of(const struct rv_adapter *adapter, float weight, uint64_t *layers,
                               struct ruvllm_error *err)
{
    static const uint8_t no_key[RV_KEYED_HASH_KEY];
    struct rv_adapter_digest digest;
    ruvllm_status rc = rv_adapter_digest(&digest, adapter, err);
    uint64_t parts[2] = {digest.layers, 0};

    *layers = 0;
    if (rc || !digest.layers)
        return rc;
    _Static_assert(sizeof(weight) <= sizeof(parts[1]), "a weight's bits fit");
    memcpy(&parts[1], &weight, sizeof(weight));
    *layers = rv_keyed_hash64(no_key, parts, sizeof(parts));
    return RUVLLM_OK;
}

ruvllm_status ruvllm_model_set_adapter(ruvllm_model *model, const char *path, float weight, struct ruvllm_error *err)
{
    struct rv_adapter *adapter = NULL;
    uint64_t layers = 0;
    ruvllm_status rc;

    if (!model)
        return rv_door_fail_null(err, "model");
    if (path && !isfinite(weight))
        return rv_fail(err, RUVLLM_INVALID, "the adapter's weight is not a finite number");
    rc = rv_model_acquire(model, err);
    if (rc)
        return rc;
    if (path)
        rc = read_adapter(model, path, &adapter, err);
    if (!rc && adapter)
        rc = layers_of(adapter, weight, &layers, err);
    if (!rc)
        rv_model_set_adapter(model, adapter, weight, layers);
    rv_adapter_unref(adapter);
    rv_model_yield(model);
    return rc;
}
