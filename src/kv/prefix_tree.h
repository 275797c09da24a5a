/*
 * Blocks of keys and values that can be used again, found by the tokens they stand for. A node is one full block; its
 * key is a keyed hash of everything that made it: what the caller calls its scope (model, adapters' layers,
 * tenant, tiers) and all tokens from the start. Tokens of a node are compared besides, so a hit is exact.
 *
 * Blocks enter as soon as they are full, also while their sequence still runs (rv_block_pool_cache).
 * Nodes without children whose block nobody else uses can be dropped, least recently used first; a tenant's last
 * `tenant_floor` blocks are dropped only for its own sake, or when nothing else is left.
 *
 * Single owner: the thread that runs the graph. Memory for nodes is taken when the tree is made.
 */
#ifndef RV_KV_PREFIX_TREE_H
#define RV_KV_PREFIX_TREE_H

#include "base/keyed_hash.h"
#include "kv/block_pool.h"

struct rv_prefix_tree;

struct rv_prefix_tree_config {
    struct rv_block_pool *pool;
    int32_t max_nodes;                 // rv_block_pool_n_ids() of them are always enough
    int32_t tenant_floor;              // blocks
    uint8_t secret[RV_KEYED_HASH_KEY]; // nobody outside can make two prompts collide, or tell that they would
};

/* Everything besides the tokens that keys and values depend on. */
struct rv_prefix_scope {
    uint64_t model;
    uint64_t adapter_layers; // content of the adapters' layer parts; 0: none. Head-only adapters never enter
    uint64_t tenant;
    uint64_t tiers; // which policy made the blocks
};

/*
 * How far the blocks of one sequence are known to be in the tree, so that entering the next one does not begin at the
 * first again. All zero at a sequence's start, and again when it lost blocks. A plain value: when what it stands for
 * was dropped, the next call begins at the first block.
 */
struct rv_prefix_cursor {
    struct rv_keyed_hash key; // of the last of them
    int32_t n_blocks;
    bool is_closed; // a block was left out, so that those after it could not be found
};

RV_CHECKED ruvllm_status rv_prefix_tree_new(struct rv_prefix_tree **out, const struct rv_prefix_tree_config *config,
                                            struct ruvllm_error *err);
/* Drops all references. */
void rv_prefix_tree_free(struct rv_prefix_tree *tree);

/*
 * Looks for the longest run of full blocks that begins tokens[0..n): writes their numbers to blocks[] (room for n / 32)
 * and returns how many there are. Marks them as used now. The caller refers to them before anything is dropped.
 * `cursor`, which may be NULL, is set to the end of what was found.
 */
int32_t rv_prefix_tree_find(struct rv_prefix_tree *tree, const struct rv_prefix_scope *scope, const int32_t *tokens,
                            int32_t n, int32_t *blocks, struct rv_prefix_cursor *cursor);
/*
 * Enters blocks[0..n_blocks) for the tokens they hold (32 n_blocks of them). Blocks whose tokens are there already are
 * left out. When no node is free the least recently used one makes room; when none can, the rest is left out.
 * With a cursor only what lies behind it is looked at; NULL begins at the first block.
 */
void rv_prefix_tree_insert(struct rv_prefix_tree *tree, const struct rv_prefix_scope *scope, const int32_t *tokens,
                           const int32_t *blocks, int32_t n_blocks, struct rv_prefix_cursor *cursor);
/*
 * Drops up to n blocks that nobody else refers to, for the sake of `tenant`; returns how many were dropped: n, as long
 * as the pool has so many idle ones. Where idle blocks have only blocks in use after them, those leave the tree too,
 * uncounted: they stay with their sequences.
 */
int32_t rv_prefix_tree_evict(struct rv_prefix_tree *tree, uint64_t tenant, int32_t n);
/*
 * Takes everything of a tenant out of the tree, also what still runs; returns how many nodes that were. A sequence that
 * goes on afterwards enters its blocks again.
 */
int32_t rv_prefix_tree_forget_tenant(struct rv_prefix_tree *tree, uint64_t tenant);

int32_t rv_prefix_tree_n_nodes(const struct rv_prefix_tree *tree);
/* Walks everything and compares with counters and pool; for tests. */
bool rv_prefix_tree_check(const struct rv_prefix_tree *tree);

#endif
