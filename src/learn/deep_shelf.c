/* Kept as generations of the model's name with an ending, apart from those of other loops. */
#include "learn/deep_shelf.h"

#include "base/alloc.h"
#include "model/adapter_digest.h"
#include "store/store_generations.h"

#include <stdio.h>
#include <string.h>

static void name_model(const struct rv_deep_shelf_place *place, char out[RV_STORE_MODEL_MAX + 1])
{
    snprintf(out, RV_STORE_MODEL_MAX + 1, "%s.deep", place->model);
}

static ruvllm_status get(const struct rv_deep_shelf_place *place, int64_t number, struct rv_store_generation *out,
                         struct ruvllm_error *err)
{
    char model[RV_STORE_MODEL_MAX + 1];

    name_model(place, model);
    return rv_store_generations_get(place->store, place->tenant, model, number, out, err);
}

/* Its content was forgotten; the number stays taken. */
static bool is_empty(const struct rv_store_generation *gen)
{
    return gen->hash[0] == '\0';
}

ruvllm_status rv_deep_shelf_content(const struct rv_deep_shelf_place *place, int64_t number,
                                    struct rv_deep_content *out, struct ruvllm_error *err)
{
    struct rv_store_generation *gen = rv_calloc(1, sizeof(*gen));
    void *bytes = NULL;
    ruvllm_status rc =
        gen ? get(place, number, gen, err) : rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a generation");

    if (!rc)
        rc = rv_store_generations_content(place->store, gen, &bytes, err);
    if (!rc)
        rc = rv_deep_content_read(out, place->hparams, place->manifest, (struct rv_str){bytes, gen->n_bytes}, err);
    rv_free(bytes);
    rv_free(gen);
    return rc ? rv_fail_in(err, rc, "cannot read the result of deep run %lld", (long long)number) : RUVLLM_OK;
}

ruvllm_status rv_deep_shelf_set(struct rv_deep_shelf *shelf, const struct rv_deep_shelf_place *place, int64_t number,
                                struct ruvllm_error *err)
{
    struct rv_deep_shelf next = {.number = number};
    struct rv_deep_content content;
    struct rv_adapter_digest digest;
    ruvllm_status rc;

    if (number == shelf->number)
        return RUVLLM_OK;
    if (number > 0) {
        rc = rv_deep_shelf_content(place, number, &content, err);
        if (rc)
            return rc;
        rc = rv_deep_content_adapter(&content.trainable, place->hparams, place->manifest, &next.adapter, err);
        rv_deep_content_release(&content);
        if (!rc)
            rc = rv_adapter_digest(&digest, next.adapter, err);
        if (rc) {
            rv_adapter_unref(next.adapter);
            return rc;
        }
        next.layers = digest.layers;
    }
    rv_deep_shelf_release(shelf);
    *shelf = next;
    return RUVLLM_OK;
}

void rv_deep_shelf_release(struct rv_deep_shelf *shelf)
{
    rv_adapter_unref(shelf->adapter);
    *shelf = (struct rv_deep_shelf){0};
}

ruvllm_status rv_deep_shelf_add(const struct rv_deep_shelf_place *place, struct rv_store_generation *gen,
                                struct rv_str content, struct ruvllm_error *err)
{
    snprintf(gen->tenant, sizeof(gen->tenant), "%s", place->tenant);
    name_model(place, gen->model);
    gen->kind = RV_STORE_GENERATION_DEEP;
    gen->is_active = true;
    return rv_store_generations_add(place->store, gen, content.data, content.len, err);
}

ruvllm_status rv_deep_shelf_forget(const struct rv_deep_shelf_place *place, int64_t seq, struct ruvllm_error *err)
{
    char model[RV_STORE_MODEL_MAX + 1];

    name_model(place, model);
    return rv_store_generations_forget(place->store, place->tenant, model, seq, err);
}

struct rv_str rv_deep_shelf_write_ref(const struct rv_store_generation *gen, uint8_t out[RV_DEEP_SHELF_REF_BYTES])
{
    memcpy(out, &gen->generation, 8);
    memcpy(out + 8, gen->hash, RV_SHA256_HEX_LEN);
    return (struct rv_str){(const char *)out, RV_DEEP_SHELF_REF_BYTES};
}

ruvllm_status rv_deep_shelf_read_ref(const struct rv_deep_shelf_place *place, struct rv_str bytes, int64_t *number,
                                     bool *is_forgotten, struct ruvllm_error *err)
{
    struct rv_store_generation *gen;
    ruvllm_status rc;

    if (bytes.len < RV_DEEP_SHELF_REF_BYTES) // a note follows
        return rv_fail_kind(err, RUVLLM_FORMAT, RUVLLM_ERROR_SONA, "an event of the log is damaged: a deep run's");
    memcpy(number, bytes.data, 8);
    gen = rv_calloc(1, sizeof(*gen));
    if (!gen)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a generation");
    rc = get(place, *number, gen, err);
    *is_forgotten = !rc && is_empty(gen);
    if (!rc && !*is_forgotten && memcmp(gen->hash, bytes.data + 8, RV_SHA256_HEX_LEN) != 0)
        rc = rv_fail_kind(err, RUVLLM_FORMAT, RUVLLM_ERROR_SONA,
                          "the store has another result of deep run %lld than the log says", (long long)*number);
    rv_free(gen);
    return rc;
}
