/*
 * A pool of cells, first free one first, so that a single sequence fills it in order and attention reads one
 * contiguous run. Keys of one head lie together: attention walks along cells, head by head.
 */
#include "kv/kv_cache.h"

#include "base/alloc.h"

#include <ggml-alloc.h>
#include <string.h>

enum { FREE = -1 };

struct rv_kv_cache {
    int32_t n_cells;
    int32_t n_layers;
    int32_t n_used;
    int32_t extent;     // one past the highest used cell
    int32_t first_free; // no free cell lies below
    int32_t *pos;       // n_cells; FREE or the position
    int32_t *seq;       // n_cells
    struct ggml_context *ctx;
    ggml_backend_buffer_t buffer;
    struct ggml_tensor **k; // n_layers
    struct ggml_tensor **v;
};

static ruvllm_status allocate(struct rv_kv_cache *kv, const struct rv_hparams *h, const struct rv_device *device,
                              struct ruvllm_error *err)
{
    size_t n_layers = (size_t)h->n_layers;
    struct ggml_init_params params = {.mem_size = (2 * n_layers + 1) * ggml_tensor_overhead(), .no_alloc = true};
    ggml_backend_buffer_type_t buft = ggml_backend_get_default_buffer_type(rv_device_backend(device, 0));

    kv->pos = rv_calloc((size_t)kv->n_cells, sizeof(*kv->pos));
    kv->seq = rv_calloc((size_t)kv->n_cells, sizeof(*kv->seq));
    kv->k = rv_calloc(n_layers, sizeof(struct ggml_tensor *));
    kv->v = rv_calloc(n_layers, sizeof(struct ggml_tensor *));
    kv->ctx = ggml_init(params);
    if (!kv->pos || !kv->seq || !kv->k || !kv->v || !kv->ctx)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the table of %d cells", kv->n_cells);
    for (int32_t i = 0; i < kv->n_cells; i++)
        kv->pos[i] = FREE;
    for (size_t i = 0; i < n_layers; i++) {
        kv->k[i] = ggml_new_tensor_3d(kv->ctx, GGML_TYPE_F16, h->head_dim, kv->n_cells, h->n_kv_heads);
        kv->v[i] = ggml_new_tensor_3d(kv->ctx, GGML_TYPE_F16, h->head_dim, kv->n_cells, h->n_kv_heads);
    }
    kv->buffer = ggml_backend_alloc_ctx_tensors_from_buft(kv->ctx, buft);
    if (!kv->buffer)
        return rv_fail_kind(err, RUVLLM_NO_MEMORY, RUVLLM_ERROR_KV_CACHE,
                            "cannot allocate the state of %d tokens; try a smaller context", kv->n_cells);
    /* Never read before written where the mask allows it, but 0 times garbage must not be NaN. */
    ggml_backend_buffer_clear(kv->buffer, 0);
    return RUVLLM_OK;
}

ruvllm_status rv_kv_cache_new(struct rv_kv_cache **out, const struct rv_hparams *hparams,
                              const struct rv_device *device, int32_t n_cells, struct ruvllm_error *err)
{
    struct rv_kv_cache *kv = rv_calloc(1, sizeof(*kv));
    ruvllm_status rc;

    *out = NULL;
    if (!kv)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the key-value cache");
    kv->n_cells = n_cells;
    kv->n_layers = hparams->n_layers;
    rc = allocate(kv, hparams, device, err);
    if (rc) {
        rv_kv_cache_free(kv);
        return rc;
    }
    *out = kv;
    return RUVLLM_OK;
}

void rv_kv_cache_free(struct rv_kv_cache *kv)
{
    if (!kv)
        return;
    ggml_backend_buffer_free(kv->buffer);
    ggml_free(kv->ctx);
    rv_free(kv->k);
    rv_free(kv->v);
    rv_free(kv->pos);
    rv_free(kv->seq);
    rv_free(kv);
}

int32_t rv_kv_cache_n_cells(const struct rv_kv_cache *kv)
{
    return kv->n_cells;
}

uint64_t rv_kv_cache_n_bytes(const struct rv_kv_cache *kv)
{
    return ggml_backend_buffer_get_size(kv->buffer);
}

struct ggml_tensor *rv_kv_cache_k(const struct rv_kv_cache *kv, int32_t layer)
{
    return kv->k[layer];
}

struct ggml_tensor *rv_kv_cache_v(const struct rv_kv_cache *kv, int32_t layer)
{
    return kv->v[layer];
}

bool rv_kv_cache_place(struct rv_kv_cache *kv, const int32_t *pos, const int32_t *seq, int32_t n, int64_t *cells)
{
    int32_t cell = kv->first_free;

    if (n > kv->n_cells - kv->n_used)
        return false;
    for (int32_t i = 0; i < n; i++, cell++) {
        while (kv->pos[cell] != FREE)
            cell++;
        kv->pos[cell] = pos[i];
        kv->seq[cell] = seq[i];
        cells[i] = cell;
    }
    kv->n_used += n;
    kv->first_free = cell;
    if (cell > kv->extent)
        kv->extent = cell;
    return true;
}

void rv_kv_cache_seq_trim(struct rv_kv_cache *kv, int32_t seq, int32_t from)
{
    for (int32_t i = 0; i < kv->extent; i++) {
        if (kv->pos[i] == FREE || kv->seq[i] != seq || kv->pos[i] < from)
            continue;
        kv->pos[i] = FREE;
        kv->n_used--;
        if (i < kv->first_free)
            kv->first_free = i;
    }
    while (kv->extent > 0 && kv->pos[kv->extent - 1] == FREE)
        kv->extent--;
}

int32_t rv_kv_cache_extent(const struct rv_kv_cache *kv)
{
    return kv->extent > 0 ? kv->extent : 1;
}

void rv_kv_cache_mask(const struct rv_kv_cache *kv, const int32_t *pos, const int32_t *seq, int32_t n, int32_t window,
                      int32_t n_kv, ggml_fp16_t *mask)
{
    const ggml_fp16_t seen = 0, unseen = 0xFC00; // half-precision zero and minus infinity

    for (int32_t row = 0; row < n; row++) {
        ggml_fp16_t *out = mask + (size_t)row * (size_t)n_kv;
        int32_t first = window > 0 && pos[row] >= window ? pos[row] - window + 1 : 0;

        for (int32_t cell = 0; cell < n_kv; cell++) {
            bool visible = kv->seq[cell] == seq[row] && kv->pos[cell] >= first && kv->pos[cell] <= pos[row];
            out[cell] = visible ? seen : unseen; // a free cell's position is below every `first`
        }
    }
}

bool rv_kv_cache_check(const struct rv_kv_cache *kv)
{
    int32_t n_used = 0, extent = 0;

    for (int32_t i = 0; i < kv->n_cells; i++) {
        if (kv->pos[i] == FREE) {
            if (i < kv->first_free)
                return false;
            continue;
        }
        n_used++;
        extent = i + 1;
        for (int32_t j = 0; j < i; j++) {
            if (kv->pos[j] == kv->pos[i] && kv->seq[j] == kv->seq[i])
                return false;
        }
    }
    return n_used == kv->n_used && extent == kv->extent;
}
