/* Kept as a generation of nobody's: no model of a tenant's has a name like this one. */
#include "learn/whitening_store.h"

#include "base/alloc.h"
#include "store/store_generations.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char OWNER[] = ".states";

struct header {
    int32_t version;
    int32_t n_dims;
    int32_t n_directions;
    float rest;
    float ridge;
    float radius;
};

enum { VERSION = 2 }; // 1 had no radius: it is measured anew

static size_t bytes_of(int32_t n_dims, int32_t n_directions)
{
    return sizeof(struct header) + sizeof(float) * (size_t)n_directions * ((size_t)n_dims + 1);
}

static void name_model(const char *model, char out[RV_STORE_MODEL_MAX + 1])
{
    snprintf(out, RV_STORE_MODEL_MAX + 1, "%s.states", model);
}

/* Numbers that a row can be multiplied by. */
static bool is_sound(const struct rv_whitening *w)
{
    if (!(w->rest >= 0 && w->ridge > 0 && w->radius >= 0) || !isfinite(w->rest + w->ridge + w->radius))
        return false;
    for (int32_t i = 0; i < w->n_directions; i++) {
        if (!(w->variances[i] + w->ridge > 0) || !isfinite(w->variances[i]))
            return false;
    }
    for (size_t i = 0; i < (size_t)w->n_directions * (size_t)w->n_dims; i++) {
        if (!isfinite(w->directions[i]))
            return false;
    }
    return true;
}

static ruvllm_status unpack(const char *bytes, size_t len, int32_t n_dims, struct rv_whitening *out,
                            struct ruvllm_error *err)
{
    struct header h = {0};
    size_t n;

    if (len >= sizeof(h))
        memcpy(&h, bytes, sizeof(h));
    if (len >= sizeof(h) && h.version == 1)
        return RUVLLM_OK;
    if (h.version != VERSION || h.n_dims != n_dims || h.n_directions < 1 ||
        h.n_directions > RV_WHITENING_MAX_DIRECTIONS || len != bytes_of(h.n_dims, h.n_directions))
        return rv_fail_kind(err, RUVLLM_FORMAT, RUVLLM_ERROR_SONA,
                            "what the store has about the model's states is damaged or of another model");
    *out = (struct rv_whitening){
        .n_dims = h.n_dims, .n_directions = h.n_directions, .rest = h.rest, .ridge = h.ridge, .radius = h.radius};
    n = (size_t)h.n_directions * (size_t)h.n_dims;
    out->directions = rv_realloc_array(NULL, n, sizeof(float));
    out->variances = rv_realloc_array(NULL, (size_t)h.n_directions, sizeof(float));
    if (!out->directions || !out->variances) {
        rv_whitening_release(out);
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %zu numbers", n);
    }
    memcpy(out->directions, bytes + sizeof(h), n * sizeof(float));
    memcpy(out->variances, bytes + sizeof(h) + n * sizeof(float), (size_t)h.n_directions * sizeof(float));
    if (is_sound(out))
        return rv_whitening_round(out, err);
    rv_whitening_release(out);
    return rv_fail_kind(err, RUVLLM_FORMAT, RUVLLM_ERROR_SONA,
                        "what the store has about the model's states has numbers that are none");
}

/* Of one that was kept; *found false when none has that number. */
static ruvllm_status load_one(struct ruvllm_store *store, const char *name, int64_t number, int32_t n_dims,
                              struct rv_whitening *out, bool *found, struct ruvllm_error *err)
{
    struct rv_store_generation generation;
    void *content;
    ruvllm_status rc = rv_store_generations_get(store, OWNER, name, number, &generation, err);

    *found = rc != RUVLLM_NOT_FOUND;
    if (rc)
        return *found ? rc : RUVLLM_OK;
    rc = rv_store_generations_content(store, &generation, &content, err);
    if (rc)
        return rc;
    rc = unpack(content, generation.n_bytes, n_dims, out, err);
    rv_free(content);
    return rc;
}

ruvllm_status rv_whitening_store_load(struct ruvllm_store *store, const char *model, int32_t n_dims,
                                      struct rv_whitening *out, struct ruvllm_error *err)
{
    char name[RV_STORE_MODEL_MAX + 1];
    bool found = store != NULL;
    ruvllm_status rc = RUVLLM_OK;

    *out = (struct rv_whitening){0};
    name_model(model, name);
    for (int64_t number = 1; !rc && found && !out->directions; number++)
        rc = load_one(store, name, number, n_dims, out, &found, err);
    return rc;
}

ruvllm_status rv_whitening_store_save(struct ruvllm_store *store, const char *model,
                                      const struct rv_whitening *whitening, struct ruvllm_error *err)
{
    const struct rv_whitening *w = whitening;
    struct header h = {.version = VERSION,
                       .n_dims = w->n_dims,
                       .n_directions = w->n_directions,
                       .rest = w->rest,
                       .ridge = w->ridge,
                       .radius = w->radius};
    struct rv_store_generation generation = {.kind = RV_STORE_GENERATION_IMPORT, .is_active = true};
    size_t n = (size_t)w->n_directions * (size_t)w->n_dims * sizeof(float), len = bytes_of(w->n_dims, w->n_directions);
    char *bytes;
    ruvllm_status rc;

    if (!store)
        return RUVLLM_OK;
    bytes = rv_malloc(len);
    if (!bytes)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %zu bytes", len);
    memcpy(bytes, &h, sizeof(h));
    memcpy(bytes + sizeof(h), w->directions, n);
    memcpy(bytes + sizeof(h) + n, w->variances, (size_t)w->n_directions * sizeof(float));
    snprintf(generation.tenant, sizeof(generation.tenant), "%s", OWNER);
    name_model(model, generation.model);
    rc = rv_store_generations_add(store, &generation, bytes, len, err);
    rv_free(bytes);
    return rc;
}
