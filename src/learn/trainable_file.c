/* Pairs are handed over as the file module wants them: A as it is, B with its outputs as rows. */
#include "learn/trainable_file.h"

static ruvllm_status add_pair(struct rv_adapter_file *file, const struct rv_adapter_file_base *base, int32_t layer,
                              enum rv_part part, const struct rv_trainable_pair *p, struct ruvllm_error *err)
{
    struct rv_adapter_file_pair *out;
    ruvllm_status rc = rv_adapter_file_pair_at(file, base, layer, part, &out, err);
    float *b;

    if (rc)
        return rc;
    b = rv_adapter_file_alloc(file, (size_t)p->rank * (size_t)p->n_out * sizeof(*b));
    if (!b)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a pair of rank %d", p->rank);
    for (int32_t r = 0; r < p->rank; r++)
        for (int32_t i = 0; i < p->n_out; i++)
            b[(size_t)i * (size_t)p->rank + (size_t)r] = p->b[(size_t)r * (size_t)p->n_out + (size_t)i];
    out->rank = p->rank;
    out->scale = p->scale;
    out->a = (struct rv_adapter_file_matrix){.type = GGML_TYPE_F32, .data = p->a};
    out->b = (struct rv_adapter_file_matrix){.type = GGML_TYPE_F32, .data = b};
    return RUVLLM_OK;
}

ruvllm_status rv_trainable_file_write(const struct rv_trainable *trainable, const struct rv_hparams *hparams,
                                      const struct rv_manifest *manifest, const char *path,
                                      ruvllm_adapter_format format, struct ruvllm_error *err)
{
    struct rv_adapter_file_base base;
    struct rv_adapter_file *file;
    ruvllm_status rc = rv_adapter_file_new(&file, err);

    if (rc)
        return rc;
    rv_adapter_file_base_init(&base, hparams, manifest);
    for (int32_t layer = 0; layer < trainable->n_layers && !rc; layer++) {
        for (int part = 0; part < RV_N_PARTS && !rc; part++) {
            const struct rv_trainable_pair *p = &trainable->layers[layer][part];

            if (p->rank > 0)
                rc = add_pair(file, &base, layer, (enum rv_part)part, p, err);
        }
    }
    if (!rc)
        rc = rv_adapter_file_seal(file, &base, err);
    if (!rc)
        rc = rv_adapter_file_write(file, &base, path, format, err);
    rv_adapter_file_close(file);
    return rc;
}
