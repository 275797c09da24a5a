/*
 * Keys and values of past tokens, for any number of sequences in one pool of cells. A cell holds one position of
 * one sequence; which cells a row may look at is told to the graph by a mask.
 *
 * Single owner: the thread that runs the graph. Nothing allocates after rv_kv_cache_new.
 */
#ifndef RV_KV_KV_CACHE_H
#define RV_KV_KV_CACHE_H

#include "model/device.h"
#include "model/hparams.h"

struct rv_kv_cache;

/* Room for n_cells tokens over all sequences, in f16, on the device. */
RV_CHECKED ruvllm_status rv_kv_cache_new(struct rv_kv_cache **out, const struct rv_hparams *hparams,
                                         const struct rv_device *device, int32_t n_cells, struct ruvllm_error *err);
void rv_kv_cache_free(struct rv_kv_cache *kv);

int32_t rv_kv_cache_n_cells(const struct rv_kv_cache *kv);
uint64_t rv_kv_cache_n_bytes(const struct rv_kv_cache *kv);
/* Keys and values of a layer: [head_dim, n_cells, n_kv_heads], one head's cells together. */
struct ggml_tensor *rv_kv_cache_k(const struct rv_kv_cache *kv, int32_t layer);
struct ggml_tensor *rv_kv_cache_v(const struct rv_kv_cache *kv, int32_t layer);

/*
 * Finds a free cell for each of n rows (position pos[i] of sequence seq[i]), marks it taken and writes its number to
 * cells[i]. False, with nothing taken, when fewer than n are free.
 */
bool rv_kv_cache_place(struct rv_kv_cache *kv, const int32_t *pos, const int32_t *seq, int32_t n, int64_t *cells);
/* Frees what a sequence holds from position `from` on. */
void rv_kv_cache_seq_trim(struct rv_kv_cache *kv, int32_t seq, int32_t from);
/* One past the highest cell in use, at least 1: what attention has to look at. */
int32_t rv_kv_cache_extent(const struct rv_kv_cache *kv);
/*
 * Writes the mask of n rows over the first n_kv cells: 0 where a row sees a cell (its own sequence, not the future,
 * inside `window` when that is not 0), -infinity elsewhere. `mask` has n rows of n_kv.
 */
void rv_kv_cache_mask(const struct rv_kv_cache *kv, const int32_t *pos, const int32_t *seq, int32_t n, int32_t window,
                      int32_t n_kv, ggml_fp16_t *mask);
/* Walks all cells and compares with the counters; for tests. */
bool rv_kv_cache_check(const struct rv_kv_cache *kv);

#endif
