/* Laying the pairs out in one array, and their first values. */
#include "learn/trainable.h"

#include "base/alloc.h"
#include "base/rng.h"

#include <math.h>
#include <string.h>

uint32_t rv_trainable_all_parts(void)
{
    return 1u << RV_PART_Q | 1u << RV_PART_K | 1u << RV_PART_V | 1u << RV_PART_QKV | 1u << RV_PART_O |
           1u << RV_PART_GATE | 1u << RV_PART_UP | 1u << RV_PART_DOWN;
}

static const struct rv_gguf_tensor *matrix_at(const struct rv_trainable_shape *s, int32_t layer, int part)
{
    bool is_wanted = (s->parts >> part & 1) && rv_manifest_part_is_matrix((enum rv_part)part);

    return is_wanted ? s->manifest->layers[layer][part] : NULL;
}

size_t rv_trainable_count(const struct rv_trainable_shape *shape)
{
    size_t n = 0;

    for (int32_t layer = 0; layer < shape->hparams->n_layers; layer++) {
        for (int part = 0; part < RV_N_PARTS; part++) {
            const struct rv_gguf_tensor *w = matrix_at(shape, layer, part);

            n += w ? (size_t)shape->rank * ((size_t)w->ne[0] + (size_t)w->ne[1]) : 0;
        }
    }
    return n;
}

/* Ranks and widths; returns how many numbers there are. */
static size_t measure(struct rv_trainable *t, const struct rv_trainable_shape *s)
{
    size_t n = 0;

    for (int32_t layer = 0; layer < t->n_layers; layer++) {
        for (int part = 0; part < RV_N_PARTS; part++) {
            const struct rv_gguf_tensor *w = matrix_at(s, layer, part);
            struct rv_trainable_pair *p = &t->layers[layer][part];

            if (!w)
                continue;
            *p = (struct rv_trainable_pair){.rank = s->rank,
                                            .n_in = (int32_t)w->ne[0],
                                            .n_out = (int32_t)w->ne[1],
                                            .scale = s->alpha / (float)s->rank};
            n += (size_t)s->rank * ((size_t)p->n_in + (size_t)p->n_out);
        }
    }
    return n;
}

/* A is normal with variance 1 / n_in, so that A x is as large as x. */
static void fill(struct rv_trainable *t, uint64_t seed)
{
    struct rv_rng rng;
    size_t at = 0;

    rv_rng_init(&rng, seed);
    for (int32_t layer = 0; layer < t->n_layers; layer++) {
        for (int part = 0; part < RV_N_PARTS; part++) {
            struct rv_trainable_pair *p = &t->layers[layer][part];
            size_t n_a = (size_t)p->rank * (size_t)p->n_in, n_b = (size_t)p->rank * (size_t)p->n_out;
            double size = p->rank ? 1.0 / sqrt((double)p->n_in) : 0;

            if (!p->rank)
                continue;
            p->a = t->values + at;
            p->b = p->a + n_a;
            p->grad_a = t->grads + at;
            p->grad_b = p->grad_a + n_a;
            for (size_t i = 0; i < n_a; i++)
                p->a[i] = (float)(rv_rng_normal(&rng) * size);
            at += n_a + n_b;
        }
    }
}

ruvllm_status rv_trainable_init(struct rv_trainable *out, const struct rv_trainable_shape *shape,
                                struct ruvllm_error *err)
{
    *out = (struct rv_trainable){.n_layers = shape->hparams->n_layers};
    if (shape->rank < 1 || shape->rank > RV_TRAINABLE_MAX_RANK)
        return rv_fail(err, RUVLLM_INVALID, "rank %d is not between 1 and %d", shape->rank, RV_TRAINABLE_MAX_RANK);
    if (!(shape->alpha > 0.0f) || !isfinite(shape->alpha))
        return rv_fail(err, RUVLLM_INVALID, "alpha must be a number above 0");
    out->layers = rv_calloc((size_t)out->n_layers, sizeof(*out->layers));
    if (!out->layers)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the list of pairs");
    out->n = measure(out, shape);
    if (out->n == 0) {
        rv_trainable_release(out);
        return rv_fail(err, RUVLLM_INVALID, "the model has none of the matrices to be trained");
    }
    out->values = rv_calloc(out->n, sizeof(*out->values));
    out->grads = rv_calloc(out->n, sizeof(*out->grads));
    if (!out->values || !out->grads) {
        rv_trainable_release(out);
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the numbers to be trained");
    }
    fill(out, shape->seed);
    return RUVLLM_OK;
}

void rv_trainable_release(struct rv_trainable *trainable)
{
    rv_free(trainable->layers);
    rv_free(trainable->values);
    rv_free(trainable->grads);
    *trainable = (struct rv_trainable){0};
}

void rv_trainable_clear_grads(struct rv_trainable *trainable)
{
    memset(trainable->grads, 0, trainable->n * sizeof(*trainable->grads));
}
