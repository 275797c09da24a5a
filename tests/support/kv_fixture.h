/*
 * For suites about blocks of keys and values: a small pool, and tokens written into blocks and read back, so that a
 * suite can see whether a block still holds what its sequence computed.
 */
#ifndef RV_TESTS_SUPPORT_KV_FIXTURE_H
#define RV_TESTS_SUPPORT_KV_FIXTURE_H

#include "kv/kv_seq.h"

#include <stdbool.h>

/* Tokens that can be told apart after quantising: 1 to this. */
enum { KV_FIXTURE_TOKENS = 12 };

/* A pool with room for n_blocks in F16, which freed blocks leave poisoned. Sizes are as 4 : 3 : 2 from F16 to Q4. */
struct rv_block_pool *kv_fixture_pool(int32_t n_blocks);
/* Writes a token at a place of an F16 block, into every layer. */
void kv_fixture_write(struct rv_block_pool *pool, int32_t block, int32_t slot, int32_t token);
/* The token at a place of a block of any format; -1 when what is there is none, or differs between layers. */
int32_t kv_fixture_read(struct rv_block_pool *pool, int32_t block, int32_t slot);
/* Computes tokens[len..len+n) of a sequence: reserves, writes, advances. False when there was no room. */
bool kv_fixture_compute(struct rv_kv_seq *seq, const int32_t *tokens, int32_t n);
/* True when the blocks of a sequence hold its tokens. */
bool kv_fixture_holds(const struct rv_kv_seq *seq, const int32_t *tokens);

#endif
