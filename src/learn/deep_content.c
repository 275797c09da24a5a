#include "learn/deep_content.h"

#include "base/alloc.h"

#include <math.h>
#include <string.h>

static const char MAGIC[8] = "rvdeep1";

struct header {
    char magic[8];
    int32_t rank;
    uint32_t parts;
    float alpha;
    uint32_t has_fisher;
    uint64_t n;
};

ruvllm_status rv_deep_content_write(const struct rv_deep_content *content, struct rv_str *out, struct ruvllm_error *err)
{
    const struct rv_trainable *t = &content->trainable;
    struct header h = {.rank = content->rank,
                       .parts = content->parts,
                       .alpha = content->alpha,
                       .has_fisher = content->fisher != NULL,
                       .n = t->n};
    size_t bytes = t->n * sizeof(float), len = sizeof(h) + bytes * (1 + h.has_fisher);
    char *data = rv_malloc(len);

    if (!data)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %zu bytes", len);
    memcpy(h.magic, MAGIC, sizeof(MAGIC));
    memcpy(data, &h, sizeof(h));
    memcpy(data + sizeof(h), t->values, bytes);
    if (content->fisher)
        memcpy(data + sizeof(h) + bytes, content->fisher, bytes);
    *out = (struct rv_str){data, len};
    return RUVLLM_OK;
}

static bool are_finite(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

static ruvllm_status damaged(struct ruvllm_error *err)
{
    return rv_fail_kind(err, RUVLLM_FORMAT, RUVLLM_ERROR_SONA,
                        "what a deep run has left is damaged or of another model");
}

ruvllm_status rv_deep_content_read(struct rv_deep_content *out, const struct rv_hparams *hparams,
                                   const struct rv_manifest *manifest, struct rv_str bytes, struct ruvllm_error *err)
{
    struct rv_trainable_shape shape = {.hparams = hparams, .manifest = manifest, .seed = 1};
    struct header h = {.rank = 0};
    ruvllm_status rc;

    *out = (struct rv_deep_content){0};
    if (bytes.len >= sizeof(h))
        memcpy(&h, bytes.data, sizeof(h));
    if (memcmp(h.magic, MAGIC, sizeof(MAGIC)) != 0 || h.rank < 1 || h.rank > RV_TRAINABLE_MAX_RANK ||
        !(h.alpha > 0.0f) || !isfinite(h.alpha) || h.has_fisher > 1 || (h.parts & ~rv_trainable_all_parts()) ||
        h.n > bytes.len)
        return damaged(err);
    shape.rank = out->rank = h.rank;
    shape.alpha = out->alpha = h.alpha;
    shape.parts = out->parts = h.parts;
    /* The numbers must be there before room is made for them. */
    if (rv_trainable_count(&shape) != h.n || bytes.len != sizeof(h) + h.n * sizeof(float) * (1 + h.has_fisher))
        return damaged(err);
    rc = rv_trainable_init(&out->trainable, &shape, err);
    if (rc)
        return rc;
    memcpy(out->trainable.values, bytes.data + sizeof(h), h.n * sizeof(float));
    if (h.has_fisher) {
        out->fisher = rv_realloc_array(NULL, h.n, sizeof(float));
        if (!out->fisher)
            rc = rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %llu numbers", (unsigned long long)h.n);
        else
            memcpy(out->fisher, bytes.data + sizeof(h) + h.n * sizeof(float), h.n * sizeof(float));
    }
    if (!rc && (!are_finite(out->trainable.values, h.n) || (out->fisher && !are_finite(out->fisher, h.n))))
        rc = damaged(err);
    if (rc)
        rv_deep_content_release(out);
    return rc;
}

void rv_deep_content_release(struct rv_deep_content *content)
{
    rv_trainable_release(&content->trainable);
    rv_free(content->fisher);
    *content = (struct rv_deep_content){0};
}

/* ---- as an adapter ------------------------------------------------------------------------------ */

struct numbers {
    const struct rv_trainable *from;
    float *b; // the largest pair's, [n_out][rank]
};

static ruvllm_status give_numbers(void *user, int32_t layer, enum rv_part part, struct rv_adapter_numbers *out,
                                  struct ruvllm_error *err)
{
    const struct numbers *n = user;
    const struct rv_trainable_pair *p = &n->from->layers[layer][part];

    (void)err;
    for (size_t r = 0; r < (size_t)p->rank; r++)
        for (size_t i = 0; i < (size_t)p->n_out; i++)
            n->b[i * (size_t)p->rank + r] = p->b[r * (size_t)p->n_out + i];
    *out = (struct rv_adapter_numbers){.a = p->a, .b = n->b};
    return RUVLLM_OK;
}

ruvllm_status rv_deep_content_adapter(const struct rv_trainable *trainable, const struct rv_hparams *hparams,
                                      const struct rv_manifest *manifest, struct rv_adapter **out,
                                      struct ruvllm_error *err)
{
    size_t n_layers = (size_t)trainable->n_layers, most = 0;
    struct rv_adapter_pair(*pairs)[RV_N_PARTS] = rv_calloc(n_layers, sizeof(*pairs));
    struct rv_adapter_shape shape = {.hparams = hparams, .manifest = manifest};
    struct numbers numbers = {.from = trainable};
    ruvllm_status rc;

    *out = NULL;
    for (size_t layer = 0; pairs && layer < n_layers; layer++) {
        for (int part = 0; part < RV_N_PARTS; part++) {
            const struct rv_trainable_pair *p = &trainable->layers[layer][part];
            size_t n = (size_t)p->rank * (size_t)p->n_out;

            pairs[layer][part].rank = p->rank;
            pairs[layer][part].scale = p->scale;
            most = n > most ? n : most;
        }
    }
    numbers.b = rv_realloc_array(NULL, most, sizeof(*numbers.b));
    shape.layers = (const struct rv_adapter_pair(*)[RV_N_PARTS])pairs;
    rc = pairs && numbers.b ? rv_adapter_new(out, &shape, give_numbers, &numbers, err)
                            : rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate an adapter");
    rv_free(numbers.b);
    rv_free(pairs);
    return rc;
}
