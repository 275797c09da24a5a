/* Requests' names to choices, files to generations and back. All of it runs on callers' threads. */
#include "engine/engine_adapters.h"

#include <math.h>
#include <unistd.h>

enum { MAX_RESIDENT = 65536, MAX_KEPT = 1 << 20 };

static const float MAX_WEIGHT = 1e4f;

/* ---- life ----------------------------------------------------------------------------------- */

ruvllm_status rv_engine_adapters_check_model(const struct ruvllm_model *model, struct ruvllm_error *err)
{
    if (!model->backend || !model->backend->has_adapters)
        return rv_fail_kind(err, RUVLLM_UNSUPPORTED, RUVLLM_ERROR_ADAPTER,
                            "backend '%s' does not compute with adapters; leave 'adapter' out",
                            model->backend ? model->backend->name : "none");
    if (!model->device || !rv_device_is_cpu(model->device))
        return rv_fail_kind(err, RUVLLM_UNSUPPORTED, RUVLLM_ERROR_ADAPTER,
                            "adapters are computed with on the CPU only; open the model there or leave 'adapter' out");
    return RUVLLM_OK;
}

static uint64_t default_bytes(void)
{
    return (uint64_t)sysconf(_SC_PHYS_PAGES) / 4 * (uint64_t)sysconf(_SC_PAGESIZE);
}

static ruvllm_status check_params(const struct ruvllm_engine_params *p, struct ruvllm_error *err)
{
    const char *field = NULL;

    if (p->max_adapters < RV_ADAPTER_MIX_MAX || p->max_adapters > MAX_RESIDENT)
        field = "max_adapters";
    else if (p->keep_generations < 1 || p->keep_generations > MAX_KEPT)
        field = "keep_generations";
    if (field)
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_CONFIG, "'%s' is out of range", field);
    return RUVLLM_OK;
}

ruvllm_status rv_engine_adapters_open(struct rv_engine_adapters *adapters, const struct ruvllm_model *model,
                                      const struct ruvllm_engine_params *params,
                                      void (*on_ready)(void *user, struct rv_adapter_ticket *ticket), void *user,
                                      struct ruvllm_error *err)
{
    struct rv_adapter_registry_config config = {.max_layered = params->max_adapters,
                                                .max_bytes =
                                                    params->adapter_bytes ? params->adapter_bytes : default_bytes(),
                                                .max_generations = params->keep_generations,
                                                .on_ready = on_ready,
                                                .user = user};
    ruvllm_status rc = check_params(params, err);

    *adapters = (struct rv_engine_adapters){.model = model};
    if (rc || rv_engine_adapters_check_model(model, NULL))
        return rc;
    rv_adapter_file_base_init(&adapters->base, &model->hparams, &model->manifest);
    if (params->adapter_dir) {
        rc = rv_adapter_depot_open(&adapters->depot, params->adapter_dir, &adapters->base, err);
        if (rc)
            return rc;
        config.files = rv_adapter_depot_files(adapters->depot);
    }
    rc = rv_adapter_registry_open(&adapters->registry, &config, err);
    if (rc)
        rv_engine_adapters_close(adapters);
    return rc;
}

void rv_engine_adapters_stop(struct rv_engine_adapters *adapters)
{
    if (adapters->registry)
        rv_adapter_registry_stop(adapters->registry);
}

void rv_engine_adapters_close(struct rv_engine_adapters *adapters)
{
    rv_adapter_registry_close(adapters->registry);
    rv_adapter_depot_close(adapters->depot);
    adapters->registry = NULL;
    adapters->depot = NULL;
}

/* ---- requests ------------------------------------------------------------------------------- */

static ruvllm_status take_list(const struct ruvllm_request *request, struct rv_adapter_choice *choices, int32_t *n,
                               struct ruvllm_error *err)
{
    if (request->n_adapters > RV_ADAPTER_MIX_MAX)
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_ADAPTER, "a request takes up to %d adapters, not %zu",
                            RV_ADAPTER_MIX_MAX, request->n_adapters);
    for (size_t i = 0; i < request->n_adapters; i++) {
        const struct ruvllm_adapter_use *use = &request->adapters[i];

        if (!use->id)
            return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_ADAPTER, "adapter %zu of the request has no id", i);
        if (!(fabsf(use->weight) <= MAX_WEIGHT))
            return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_ADAPTER,
                                "the weight of adapter '%s' is not a number between -%g and %g", use->id,
                                (double)MAX_WEIGHT, (double)MAX_WEIGHT);
        choices[i] = (struct rv_adapter_choice){.id = use->id, .generation = use->generation, .weight = use->weight};
    }
    *n = (int32_t)request->n_adapters;
    return RUVLLM_OK;
}

static ruvllm_status take_choices(const struct ruvllm_request *request, struct rv_adapter_choice *choices, int32_t *n,
                                  struct ruvllm_error *err)
{
    *n = 0;
    if (request->adapter && request->n_adapters)
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_ADAPTER, "give 'adapter' or 'adapters', not both");
    if (request->n_adapters && !request->adapters)
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_ADAPTER, "'adapters' is NULL");
    if (!request->adapter)
        return take_list(request, choices, n, err);
    choices[0] =
        (struct rv_adapter_choice){.id = request->adapter, .generation = request->adapter_generation, .weight = 1};
    *n = 1;
    return RUVLLM_OK;
}

ruvllm_status rv_engine_adapters_pin(struct rv_engine_adapters *adapters, const struct ruvllm_request *request,
                                     struct rv_adapter_ticket *ticket, struct ruvllm_error *err)
{
    struct rv_adapter_choice choices[RV_ADAPTER_MIX_MAX];
    int32_t n;
    ruvllm_status rc = take_choices(request, choices, &n, err);

    if (rc || n == 0)
        return rc;
    if (!adapters->registry)
        return rv_engine_adapters_check_model(adapters->model, err);
    return rv_adapter_registry_pin(adapters->registry, ticket, choices, n, err);
}

ruvllm_status rv_engine_adapters_layers(struct rv_engine_adapters *adapters, const struct ruvllm_request *request,
                                        uint64_t *layers, struct ruvllm_error *err)
{
    struct rv_adapter_ticket ticket = {0};
    ruvllm_status rc = rv_engine_adapters_pin(adapters, request, &ticket, err);

    *layers = ticket.layers;
    if (!rc && adapters->registry)
        rv_adapter_registry_release(adapters->registry, &ticket);
    return rc;
}

/* ---- the public calls ----------------------------------------------------------------------- */

ruvllm_status rv_engine_adapters_publish(struct rv_engine_adapters *adapters, const char *id, int64_t expected,
                                         struct rv_adapter *adapter, int64_t *generation, struct ruvllm_error *err)
{
    struct rv_adapter_offer offer = {.id = id, .expected = expected, .adapter = adapter};

    *generation = 0;
    if (!adapters->registry)
        return rv_engine_adapters_check_model(adapters->model, err);
    return rv_adapter_registry_publish(adapters->registry, &offer, generation, err);
}

ruvllm_status rv_engine_adapters_load(struct rv_engine_adapters *adapters, const char *id, const char *path,
                                      int64_t expected, int64_t *generation, struct ruvllm_error *err)
{
    struct rv_adapter_offer offer = {.id = id, .expected = expected};
    struct rv_adapter_file *file = NULL;
    ruvllm_status rc;

    *generation = 0;
    if (!adapters->registry)
        return rv_engine_adapters_check_model(adapters->model, err);
    rc = rv_adapter_file_open(&file, path, &adapters->base, err);
    if (!rc)
        rc = rv_adapter_file_adapter(file, &adapters->base, &offer.adapter, err);
    if (!rc) {
        offer.hash = file->hash;
        offer.source = adapters->depot ? file : NULL;
        rc = rv_adapter_registry_publish(adapters->registry, &offer, generation, err);
        if (!rc && offer.source)
            file = NULL; // the registry's now
    }
    rv_adapter_unref(offer.adapter);
    rv_adapter_file_close(file);
    return rc;
}

ruvllm_status rv_engine_adapters_unload(struct rv_engine_adapters *adapters, const char *id, int64_t generation,
                                        struct ruvllm_error *err)
{
    if (!adapters->registry)
        return rv_engine_adapters_check_model(adapters->model, err);
    return rv_adapter_registry_forget(adapters->registry, id, generation, err);
}

ruvllm_status rv_engine_adapters_list(struct rv_engine_adapters *adapters, const char *prefix,
                                      struct ruvllm_adapter_info **infos, size_t *n, struct ruvllm_error *err)
{
    *infos = NULL;
    *n = 0;
    if (!adapters->registry)
        return RUVLLM_OK; // it has none
    return rv_adapter_registry_list(adapters->registry, prefix, infos, n, err);
}

ruvllm_status rv_engine_adapters_diff(struct rv_engine_adapters *adapters, const char *id, int64_t a, int64_t b,
                                      double *norm, struct ruvllm_error *err)
{
    const struct rv_adapter_choice choices[2] = {{.id = id, .generation = a}, {.id = id, .generation = b}};
    struct rv_adapter_ticket ticket;
    ruvllm_status rc;

    *norm = 0;
    if (!adapters->registry)
        return rv_engine_adapters_check_model(adapters->model, err);
    rc = rv_adapter_registry_fetch(adapters->registry, &ticket, choices, 2, err);
    if (rc)
        return rc;
    rc = rv_adapter_digest_distance(norm, ticket.mix.adapters[0], ticket.mix.adapters[1], err);
    rv_adapter_registry_release(adapters->registry, &ticket);
    return rc;
}

/* The file as it was loaded, or what is in memory where there is no folder. */
static ruvllm_status open_content(struct rv_engine_adapters *adapters, const struct rv_adapter_ticket *ticket,
                                  struct rv_adapter_file **out, struct ruvllm_error *err)
{
    ruvllm_status rc;

    if (!adapters->depot)
        return rv_adapter_file_from(out, ticket->mix.adapters[0], &adapters->base, err);
    rc = rv_adapter_registry_await_file(adapters->registry, ticket, err);
    return rc ? rc : rv_adapter_depot_read(adapters->depot, ticket->versions[0]->body->digest.hash, out, err);
}

ruvllm_status rv_engine_adapters_export(struct rv_engine_adapters *adapters, const char *id, int64_t generation,
                                        const char *path, ruvllm_adapter_format format, struct ruvllm_error *err)
{
    const struct rv_adapter_choice choice = {.id = id, .generation = generation};
    struct rv_adapter_ticket ticket;
    struct rv_adapter_file *file = NULL;
    ruvllm_status rc;

    if (!adapters->registry)
        return rv_engine_adapters_check_model(adapters->model, err);
    rc = rv_adapter_registry_fetch(adapters->registry, &ticket, &choice, 1, err);
    if (rc)
        return rc;
    rc = open_content(adapters, &ticket, &file, err);
    if (!rc)
        rc = rv_adapter_file_write(file, &adapters->base, path, format, err);
    rv_adapter_file_close(file);
    rv_adapter_registry_release(adapters->registry, &ticket);
    return rc;
}

void rv_engine_adapters_fill_stats(const struct rv_engine_adapters *adapters, struct ruvllm_engine_stats *stats)
{
    struct rv_adapter_registry_stats s;

    if (!adapters->registry)
        return;
    rv_adapter_registry_stats_get(adapters->registry, &s);
    stats->adapters = (int32_t)s.n_ids;
    stats->adapters_layered = (int32_t)s.n_layered;
    stats->adapters_waiting = (int32_t)s.n_waiting;
    stats->adapter_bytes = s.n_bytes;
    stats->adapters_loaded = s.n_loaded;
    stats->adapters_evicted = s.n_evicted;
    stats->adapter_failures = s.n_unsaved;
}
