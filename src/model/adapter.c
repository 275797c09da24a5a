/*
 * An adapter is one piece of memory: the count of references, the adapter, its table of pairs, and behind them, each
 * aligned for vectors, the numbers. Nothing in it changes once it is handed out, but the count.
 */
#include "model/adapter.h"

#include "base/alloc.h"
#include "kernels/half.h"

#include <math.h>
#include <stdatomic.h>

enum { ALIGNMENT = 64 };

struct rv_adapter_storage {
    atomic_int n_refs;
    struct rv_adapter adapter;
};

static size_t aligned(size_t n)
{
    return (n + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
}

/* ---- what it will hold --------------------------------------------------------------------- */

/* Fills in a pair's widths and adds what its numbers take to *bytes. */
static ruvllm_status plan_pair(struct rv_adapter_pair *pair, int64_t n_in, int64_t n_out, size_t *bytes,
                               struct ruvllm_error *err)
{
    int64_t narrow = n_in < n_out ? n_in : n_out;

    if (pair->rank < 1 || pair->rank > RV_ADAPTER_MAX_RANK || pair->rank > narrow)
        return rv_fail(err, RUVLLM_INVALID, "rank %d is not between 1 and %lld", pair->rank,
                       (long long)(narrow < RV_ADAPTER_MAX_RANK ? narrow : RV_ADAPTER_MAX_RANK));
    if (!isfinite(pair->scale))
        return rv_fail(err, RUVLLM_INVALID, "the scale is not a finite number");
    pair->n_in = (int32_t)n_in;
    pair->n_out = (int32_t)n_out;
    *bytes += aligned((size_t)pair->rank * (size_t)n_in * sizeof(uint16_t));
    *bytes += aligned((size_t)pair->rank * (size_t)n_out * sizeof(uint16_t));
    return RUVLLM_OK;
}

static ruvllm_status plan_layer_pair(struct rv_adapter_pair *pair, const struct rv_adapter_shape *shape, int32_t layer,
                                     enum rv_part part, size_t *bytes, struct ruvllm_error *err)
{
    const struct rv_gguf_tensor *matrix = shape->manifest->layers[layer][part];
    ruvllm_status rc;

    if (!matrix || !rv_manifest_part_is_matrix(part))
        return rv_fail(err, RUVLLM_INVALID, "the model has no matrix %d in layer %d to change", (int)part, layer);
    rc = plan_pair(pair, matrix->ne[0], matrix->ne[1], bytes, err);
    return rc ? rv_fail_in(err, rc, "cannot change matrix %d of layer %d", (int)part, layer) : RUVLLM_OK;
}

/* Copies the shape's pairs into the adapter with their widths; *bytes is what the numbers of all take. */
static ruvllm_status plan(struct rv_adapter *adapter, const struct rv_adapter_shape *shape, size_t *bytes,
                          struct ruvllm_error *err)
{
    ruvllm_status rc = RUVLLM_OK;

    *bytes = 0;
    for (int32_t layer = 0; adapter->layers && layer < adapter->n_layers; layer++) {
        for (int part = 0; part < RV_N_PARTS && !rc; part++) {
            struct rv_adapter_pair *pair = &adapter->layers[layer][part];

            *pair = (struct rv_adapter_pair){.rank = shape->layers[layer][part].rank,
                                             .scale = shape->layers[layer][part].scale};
            if (pair->rank != 0)
                rc = plan_layer_pair(pair, shape, layer, (enum rv_part)part, bytes, err);
            if (pair->rank > adapter->max_rank)
                adapter->max_rank = pair->rank;
        }
    }
    adapter->head = (struct rv_adapter_pair){.rank = shape->head_rank, .scale = shape->head_scale};
    if (!rc && shape->head_rank != 0) {
        rc = plan_pair(&adapter->head, shape->hparams->n_embd, shape->hparams->n_embd, bytes, err);
        if (rc)
            return rv_fail_in(err, rc, "cannot change the head's input");
    }
    if (adapter->head.rank > adapter->max_rank)
        adapter->max_rank = adapter->head.rank;
    return rc;
}

/* ---- its numbers --------------------------------------------------------------------------- */

/* Row r of a matrix that is given with `stride` between the numbers of a row. */
static bool store_row(uint16_t *out, const float *from, int32_t n, size_t stride)
{
    bool is_finite = true;

    for (int32_t i = 0; i < n; i++) {
        out[i] = rv_half_from_float(from[(size_t)i * stride]);
        is_finite = is_finite && (out[i] & 0x7c00) != 0x7c00;
    }
    return is_finite;
}

/* *at is where the free memory begins, and moves on. */
static ruvllm_status fill_pair(struct rv_adapter_pair *pair, unsigned char **at,
                               const struct rv_adapter_numbers *numbers, struct ruvllm_error *err)
{
    size_t rank = (size_t)pair->rank, n_in = (size_t)pair->n_in, n_out = (size_t)pair->n_out;
    uint16_t *a = (uint16_t *)(void *)*at;
    uint16_t *b = (uint16_t *)(void *)(*at + aligned(rank * n_in * sizeof(*a)));
    bool is_finite = true;

    for (size_t r = 0; r < rank; r++) {
        is_finite = store_row(a + r * n_in, numbers->a + r * n_in, pair->n_in, 1) && is_finite;
        is_finite = store_row(b + r * n_out, numbers->b + r, pair->n_out, rank) && is_finite;
    }
    if (!is_finite)
        return rv_fail(err, RUVLLM_INVALID, "it holds numbers that are not finite in 16 bits");
    pair->a = a;
    pair->b = b;
    *at = (unsigned char *)b + aligned(rank * n_out * sizeof(*b));
    return RUVLLM_OK;
}

static ruvllm_status ask_and_fill(struct rv_adapter_pair *pair, int32_t layer, enum rv_part part,
                                  rv_adapter_numbers_fn numbers, void *user, unsigned char **at,
                                  struct ruvllm_error *err)
{
    struct rv_adapter_numbers given = {0};
    ruvllm_status rc;

    if (pair->rank == 0)
        return RUVLLM_OK;
    rc = numbers(user, layer, part, &given, err);
    if (rc)
        return rc;
    rc = fill_pair(pair, at, &given, err);
    if (rc && layer >= 0)
        return rv_fail_in(err, rc, "cannot change matrix %d of layer %d", (int)part, layer);
    return rc ? rv_fail_in(err, rc, "cannot change the head's input") : RUVLLM_OK;
}

static ruvllm_status fill(struct rv_adapter *adapter, unsigned char *at, rv_adapter_numbers_fn numbers, void *user,
                          struct ruvllm_error *err)
{
    ruvllm_status rc = RUVLLM_OK;

    for (int32_t layer = 0; adapter->layers && layer < adapter->n_layers; layer++) {
        for (int part = 0; part < RV_N_PARTS && !rc; part++)
            rc = ask_and_fill(&adapter->layers[layer][part], layer, (enum rv_part)part, numbers, user, &at, err);
    }
    return rc ? rc : ask_and_fill(&adapter->head, -1, RV_PART_ATTN_NORM, numbers, user, &at, err);
}

/* ---- the whole ----------------------------------------------------------------------------- */

static size_t table_bytes(const struct rv_adapter_shape *shape)
{
    return shape->layers ? (size_t)shape->hparams->n_layers * sizeof(*shape->layers) : 0;
}

/* The memory in front of the numbers, which are planned into a copy of it first: their size is known only then. */
static struct rv_adapter_storage *new_storage(const struct rv_adapter_shape *shape, size_t number_bytes)
{
    size_t front = sizeof(struct rv_adapter_storage) + table_bytes(shape), n_bytes = 0;
    struct rv_adapter_storage *storage = NULL;

    if (rv_size_add(front + ALIGNMENT, number_bytes, &n_bytes))
        storage = rv_malloc(n_bytes);
    if (!storage)
        return NULL;
    atomic_init(&storage->n_refs, 1);
    storage->adapter = (struct rv_adapter){
        .n_layers = shape->hparams->n_layers,
        .layers = shape->layers ? (struct rv_adapter_pair(*)[RV_N_PARTS])(void *)(storage + 1) : NULL,
        .n_bytes = n_bytes,
        .storage = storage,
    };
    return storage;
}

ruvllm_status rv_adapter_new(struct rv_adapter **out, const struct rv_adapter_shape *shape,
                             rv_adapter_numbers_fn numbers, void *user, struct ruvllm_error *err)
{
    struct rv_adapter_storage *draft = new_storage(shape, 0), *storage = NULL;
    size_t number_bytes = 0;
    ruvllm_status rc = RUVLLM_OK;

    *out = NULL;
    if (draft)
        rc = plan(&draft->adapter, shape, &number_bytes, err);
    if (draft && !rc)
        storage = new_storage(shape, number_bytes);
    if (!draft || (!rc && !storage))
        rc = rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate an adapter of %zu bytes", number_bytes);
    rv_free(draft);
    if (rc == RUVLLM_OK)
        rc = plan(&storage->adapter, shape, &number_bytes, err);
    if (rc == RUVLLM_OK) {
        uintptr_t at = (uintptr_t)(storage + 1) + table_bytes(shape);

        rc = fill(&storage->adapter, (unsigned char *)(storage + 1) + table_bytes(shape) + (aligned(at) - at), numbers,
                  user, err);
    }
    if (rc) {
        rv_free(storage);
        return rc;
    }
    *out = &storage->adapter;
    return RUVLLM_OK;
}

struct rv_adapter *rv_adapter_ref(struct rv_adapter *adapter)
{
    /* Who refers to it already keeps it alive, so nothing has to be ordered. */
    atomic_fetch_add_explicit(&adapter->storage->n_refs, 1, memory_order_relaxed);
    return adapter;
}

void rv_adapter_unref(struct rv_adapter *adapter)
{
    /* Everybody's last reads come before the memory goes: release by each, acquire by the last. */
    if (adapter && atomic_fetch_sub_explicit(&adapter->storage->n_refs, 1, memory_order_acq_rel) == 1)
        rv_free(adapter->storage);
}
