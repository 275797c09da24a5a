/* Kept as a generation of nobody's, as the whitening is. */
#include "learn/anchors_store.h"

#include "base/alloc.h"
#include "kernels/vec.h"
#include "store/store_generations.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char OWNER[] = ".states";

struct header {
    int32_t version;
    int32_t n_dims;
    int32_t n;
};

enum { VERSION = 2, OF_FEW_TEXTS = 1 };

static size_t state_bytes(const struct header *h)
{
    return (size_t)h->n * (size_t)h->n_dims * sizeof(uint16_t);
}

static size_t top_bytes(const struct header *h)
{
    return (size_t)h->n * RV_TRACE_TOP * sizeof(int32_t);
}

static void name_model(const char *model, char out[RV_STORE_MODEL_MAX + 1])
{
    snprintf(out, RV_STORE_MODEL_MAX + 1, "%s.anchors", model);
}

ruvllm_status rv_anchors_store_pack(const struct rv_anchors *anchors, char **out, size_t *len, struct ruvllm_error *err)
{
    struct header h = {.version = VERSION, .n_dims = anchors->n_dims, .n = anchors->n};

    *len = sizeof(h) + state_bytes(&h) + top_bytes(&h);
    *out = rv_malloc(*len);
    if (!*out)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %zu bytes", *len);
    memcpy(*out, &h, sizeof(h));
    memcpy(*out + sizeof(h), anchors->states, state_bytes(&h));
    memcpy(*out + sizeof(h) + state_bytes(&h), anchors->top, top_bytes(&h));
    return RUVLLM_OK;
}

/* Numbers that are numbers, and tokens that the model has. */
static bool is_sound(const struct rv_anchors *a, int32_t n_vocab)
{
    for (size_t i = 0; i < (size_t)a->n * (size_t)a->n_dims; i++) {
        if (!isfinite(rv_vec_from_bf16(a->states[i])))
            return false;
    }
    for (size_t i = 0; i < (size_t)a->n * RV_TRACE_TOP; i++) {
        if (a->top[i] < -1 || a->top[i] >= n_vocab)
            return false;
    }
    return true;
}

ruvllm_status rv_anchors_store_unpack(const char *bytes, size_t len, int32_t n_dims, int32_t n_vocab,
                                      struct rv_anchors *out, struct ruvllm_error *err)
{
    struct header h = {0};
    ruvllm_status rc;

    *out = (struct rv_anchors){0};
    if (len >= sizeof(h))
        memcpy(&h, bytes, sizeof(h));
    if (h.version != VERSION || h.n_dims != n_dims || h.n < 1 || h.n > RV_ANCHORS_MAX ||
        len != sizeof(h) + state_bytes(&h) + top_bytes(&h))
        return rv_fail_kind(err, RUVLLM_FORMAT, RUVLLM_ERROR_SONA,
                            "the anchors in the store are damaged or of another model");
    rc = rv_anchors_init(out, n_dims, err);
    if (rc)
        return rc;
    out->n = h.n;
    memcpy(out->states, bytes + sizeof(h), state_bytes(&h));
    memcpy(out->top, bytes + sizeof(h) + state_bytes(&h), top_bytes(&h));
    if (is_sound(out, n_vocab))
        return RUVLLM_OK;
    rv_anchors_release(out);
    return rv_fail_kind(err, RUVLLM_FORMAT, RUVLLM_ERROR_SONA, "the anchors in the store have numbers that are none");
}

/* Anchors as they once were, of 24 texts, are as good as none: they say nothing about rare states. */
static bool is_of_few_texts(const char *bytes, size_t len)
{
    struct header h = {0};

    if (len >= sizeof(h))
        memcpy(&h, bytes, sizeof(h));
    return h.version == OF_FEW_TEXTS;
}

ruvllm_status rv_anchors_store_load(struct ruvllm_store *store, const char *model, int32_t n_dims, int32_t n_vocab,
                                    struct rv_anchors *out, struct ruvllm_error *err)
{
    char name[RV_STORE_MODEL_MAX + 1];
    struct rv_store_generation generation;
    void *content = NULL;
    bool found = false;
    ruvllm_status rc;

    *out = (struct rv_anchors){0};
    if (!store)
        return RUVLLM_OK;
    name_model(model, name);
    rc = rv_store_generations_active(store, OWNER, name, &generation, &found, err);
    if (!rc && found)
        rc = rv_store_generations_content(store, &generation, &content, err);
    if (!rc && found && !is_of_few_texts(content, generation.n_bytes))
        rc = rv_anchors_store_unpack(content, generation.n_bytes, n_dims, n_vocab, out, err);
    rv_free(content);
    return rc;
}

ruvllm_status rv_anchors_store_save(struct ruvllm_store *store, const char *model, const struct rv_anchors *anchors,
                                    struct ruvllm_error *err)
{
    struct rv_store_generation generation = {.kind = RV_STORE_GENERATION_IMPORT, .is_active = true};
    char *bytes;
    size_t len;
    ruvllm_status rc;

    if (!store)
        return RUVLLM_OK;
    rc = rv_anchors_store_pack(anchors, &bytes, &len, err);
    if (rc)
        return rc;
    snprintf(generation.tenant, sizeof(generation.tenant), "%s", OWNER);
    name_model(model, generation.model);
    rc = rv_store_generations_add(store, &generation, bytes, len, err);
    rv_free(bytes);
    return rc;
}
