#include "learn/learned_adapter.h"

#include "base/alloc.h"
#include "kernels/half.h"

struct source {
    const struct rv_adapter *head;
    const struct rv_adapter *layers;
    float *a; // scratch for the largest pair
    float *b;
};

static const struct rv_adapter_pair *pair_of(const struct source *s, int32_t layer, enum rv_part part)
{
    return layer < 0 ? &s->head->head : &s->layers->layers[layer][part];
}

/* A as it is, B turned to its outputs as rows. */
static ruvllm_status give_numbers(void *user, int32_t layer, enum rv_part part, struct rv_adapter_numbers *out,
                                  struct ruvllm_error *err)
{
    const struct source *s = user;
    const struct rv_adapter_pair *p = pair_of(s, layer, part);
    size_t rank = (size_t)p->rank, n_in = (size_t)p->n_in, n_out = (size_t)p->n_out;

    (void)err;
    for (size_t i = 0; i < rank * n_in; i++)
        s->a[i] = rv_half_to_float(p->a[i]);
    for (size_t r = 0; r < rank; r++)
        for (size_t i = 0; i < n_out; i++)
            s->b[i * rank + r] = rv_half_to_float(p->b[r * n_out + i]);
    *out = (struct rv_adapter_numbers){.a = s->a, .b = s->b};
    return RUVLLM_OK;
}

static void widen(const struct rv_adapter_pair *p, size_t *n_a, size_t *n_b)
{
    size_t a = (size_t)p->rank * (size_t)p->n_in, b = (size_t)p->rank * (size_t)p->n_out;

    *n_a = a > *n_a ? a : *n_a;
    *n_b = b > *n_b ? b : *n_b;
}

ruvllm_status rv_learned_adapter_join(struct rv_adapter **out, const struct rv_adapter *head,
                                      const struct rv_adapter *layers, const struct rv_hparams *hparams,
                                      const struct rv_manifest *manifest, struct ruvllm_error *err)
{
    struct rv_adapter_shape shape = {.hparams = hparams, .manifest = manifest};
    struct source source = {.head = head, .layers = layers};
    size_t n_a = 1, n_b = 1;
    ruvllm_status rc;

    *out = NULL;
    if (head && head->head.rank > 0) {
        shape.head_rank = head->head.rank;
        shape.head_scale = head->head.scale;
        widen(&head->head, &n_a, &n_b);
    }
    if (layers && layers->layers) {
        shape.layers = (const struct rv_adapter_pair(*)[RV_N_PARTS])layers->layers;
        for (int32_t layer = 0; layer < layers->n_layers; layer++)
            for (int part = 0; part < RV_N_PARTS; part++)
                widen(&layers->layers[layer][part], &n_a, &n_b);
    }
    source.a = rv_realloc_array(NULL, n_a, sizeof(float));
    source.b = rv_realloc_array(NULL, n_b, sizeof(float));
    rc = source.a && source.b ? rv_adapter_new(out, &shape, give_numbers, &source, err)
                              : rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate an adapter");
    rv_free(source.a);
    rv_free(source.b);
    return rc;
}
