/*
 * Memory for keys and values: blocks of 32 tokens with all layers and KV heads, each in one of three precisions, within
 * a budget of bytes. A block is named by a number that stays the same when its precision falls and its bytes move, so
 * tables of sequences never have to be touched for that.
 *
 * Blocks are shared by counting references. Only an F16 block with a single reference may be written.
 *
 * Each precision has an address range of its own, as large as the budget; a block's place costs memory from its first
 * use until the pool needs its bytes for another precision. Nothing here allocates after rv_block_pool_new.
 *
 * Single owner: the thread that runs the graph.
 */
#ifndef RV_KV_BLOCK_POOL_H
#define RV_KV_BLOCK_POOL_H

#include "base/error.h"
#include "kernels/attention_kernel.h"

#include <stdbool.h>

struct rv_block_pool;

struct rv_block_pool_config {
    int32_t n_layers;
    int32_t n_kv_heads;
    int32_t head_dim;
    size_t budget; // bytes that blocks may take together; at least one F16 block
    bool poison;   // fill freed blocks with NaN: what is read after it was freed then shows in the result
    /*
     * Not 0: blocks are only counted, as so many bytes each, and have no memory; somebody else keeps what they stand
     * for. All are F16, and nothing may be read, written, copied or converted. Layers, heads and poison do not matter.
     */
    size_t counted_bytes;
};

/* The budget that n_blocks in F16 take: a block is whole pages. config->budget is not looked at. */
size_t rv_block_pool_budget_for(const struct rv_block_pool_config *config, int32_t n_blocks);

RV_CHECKED ruvllm_status rv_block_pool_new(struct rv_block_pool **out, const struct rv_block_pool_config *config,
                                           struct ruvllm_error *err);
void rv_block_pool_free(struct rv_block_pool *pool);

/* False where rows of head_dim numbers cannot be quantised: such a pool keeps everything in F16. */
bool rv_block_pool_can_quantize(const struct rv_block_pool *pool);
size_t rv_block_pool_block_bytes(const struct rv_block_pool *pool, enum rv_kv_block_format format);
size_t rv_block_pool_budget(const struct rv_block_pool *pool);
/* Bytes of the blocks in use. */
size_t rv_block_pool_used(const struct rv_block_pool *pool);
int32_t rv_block_pool_n_used(const struct rv_block_pool *pool, enum rv_kv_block_format format);
/* How many more F16 blocks fit. */
int32_t rv_block_pool_n_free(const struct rv_block_pool *pool);
/* One more than the highest number a block can have. */
int32_t rv_block_pool_n_ids(const struct rv_block_pool *pool);

/* A new block with one reference, its contents undefined; -1 when it does not fit the budget. */
int32_t rv_block_pool_take(struct rv_block_pool *pool, enum rv_kv_block_format format);
void rv_block_pool_ref(struct rv_block_pool *pool, int32_t block);
/* Drops a reference; a block without any, of the tree neither, is free. */
void rv_block_pool_unref(struct rv_block_pool *pool, int32_t block);
/* References of the prefix tree are counted apart: at most one a block. */
void rv_block_pool_cache(struct rv_block_pool *pool, int32_t block);
void rv_block_pool_uncache(struct rv_block_pool *pool, int32_t block);
bool rv_block_pool_is_cached(const struct rv_block_pool *pool, int32_t block);
/* References besides the tree's; a cached block with none is idle: it could be dropped. */
int32_t rv_block_pool_refs(const struct rv_block_pool *pool, int32_t block);
int32_t rv_block_pool_n_idle(const struct rv_block_pool *pool);
/* Bytes that dropping all idle blocks would free. */
size_t rv_block_pool_idle_bytes(const struct rv_block_pool *pool);
enum rv_kv_block_format rv_block_pool_format(const struct rv_block_pool *pool, int32_t block);

/* A new F16 block with the contents of another; -1 when it does not fit. */
int32_t rv_block_pool_copy(struct rv_block_pool *pool, int32_t block);
/*
 * Lowers a block's precision in place of the old one, for everybody who refers to it. Never needs room: this is what is
 * done when there is none.
 */
void rv_block_pool_convert(struct rv_block_pool *pool, int32_t block, enum rv_kv_block_format format);

/* All blocks by number, as attention reads them; entries change with take, unref and convert. */
const struct rv_attention_block *rv_block_pool_blocks(const struct rv_block_pool *pool);
/* The bytes of a block: for writing new tokens, and for saving and restoring it whole. */
uint8_t *rv_block_pool_data(struct rv_block_pool *pool, int32_t block);
/* Where keys and values of a head begin in a block of that format. */
size_t rv_block_pool_k_offset(const struct rv_block_pool *pool, enum rv_kv_block_format format, int32_t layer,
                              int32_t head);
size_t rv_block_pool_v_offset(const struct rv_block_pool *pool, enum rv_kv_block_format format, int32_t layer,
                              int32_t head);

/* Walks everything and compares with the counters; for tests. */
bool rv_block_pool_check(const struct rv_block_pool *pool);

#endif
