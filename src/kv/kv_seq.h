/*
 * The keys and values of one sequence: a table of blocks and a length. Blocks may be shared with other sequences and
 * with the prefix tree; a block that is to be written and that another sequence or the tree also knows is copied first.
 *
 * Single owner: the thread that runs the graph. Nothing allocates after rv_kv_seq_init.
 */
#ifndef RV_KV_KV_SEQ_H
#define RV_KV_KV_SEQ_H

#include "kv/block_pool.h"
#include "kv/tier.h"

/* Blocks change their tier only where a sequence's length is a multiple of this. */
enum { RV_KV_SEQ_STRIDE = 128 };

struct rv_kv_seq {
    struct rv_block_pool *pool;
    struct rv_tier_policy policy;
    int32_t *blocks; // block numbers; entry i holds positions 32 i to 32 i + 31
    int32_t n_blocks;
    int32_t cap_blocks;
    int32_t len;       // tokens computed
    int32_t n_settled; // blocks before this one have reached the last tier
};

/* Room for max_len tokens. */
RV_CHECKED ruvllm_status rv_kv_seq_init(struct rv_kv_seq *seq, struct rv_block_pool *pool,
                                        const struct rv_tier_policy *policy, int32_t max_len, struct ruvllm_error *err);
void rv_kv_seq_release(struct rv_kv_seq *seq);
/* Empties it for another use. */
void rv_kv_seq_clear(struct rv_kv_seq *seq);

/* New blocks that rv_kv_seq_reserve(seq, n) would take. */
int32_t rv_kv_seq_n_needed(const struct rv_kv_seq *seq, int32_t n);
/* Makes the places of the next n tokens writable. False, with nothing changed, when the pool has not enough room. */
bool rv_kv_seq_reserve(struct rv_kv_seq *seq, int32_t n);
/* Counts n reserved tokens as computed. */
void rv_kv_seq_advance(struct rv_kv_seq *seq, int32_t n);
/*
 * Forgets everything from position `len` on and returns how many tokens are left: fewer than asked for when the cut
 * goes through a block that is no longer F16, which then goes too.
 */
int32_t rv_kv_seq_trim(struct rv_kv_seq *seq, int32_t len);
/* Forgets the n oldest blocks, which must be full; positions are counted from the new beginning. */
void rv_kv_seq_drop_first(struct rv_kv_seq *seq, int32_t n);
/* What follows falls by other rules; blocks that are lower than these would have them stay so. */
void rv_kv_seq_set_policy(struct rv_kv_seq *seq, const struct rv_tier_policy *policy);
/* Appends a full block of another sequence or of the prefix tree to an empty or block-aligned sequence. */
void rv_kv_seq_share(struct rv_kv_seq *seq, int32_t block);
/*
 * Appends a block that holds the next n_tokens tokens, in full precision unless it is full, to an empty or
 * block-aligned sequence, which takes over the caller's reference.
 */
void rv_kv_seq_append(struct rv_kv_seq *seq, int32_t block, int32_t n_tokens);
/* Makes an empty sequence a copy of another; the one that goes on first copies the block they both end in. */
void rv_kv_seq_fork(struct rv_kv_seq *seq, const struct rv_kv_seq *from);
/*
 * Tokens that may be computed together from here: up to the next multiple of the stride where blocks change their tier.
 * So what a token sees does not depend on how a prompt was cut into steps.
 */
int32_t rv_kv_seq_room(const struct rv_kv_seq *seq);
/* The same for when it will be `len` tokens long. */
int32_t rv_kv_seq_room_at(const struct rv_kv_seq *seq, int32_t len);
/*
 * Moves blocks that have aged to their tier and returns how many moved. Blocks that another sequence reads too wait
 * until they are read by one alone, so that nobody's answer depends on how far somebody else is.
 */
int32_t rv_kv_seq_migrate(struct rv_kv_seq *seq);
/*
 * Moves full blocks that no other sequence reads to the last tier, oldest first and whatever their age, until the pool
 * has room for n_free new ones; returns how many moved. The first block stays where the policy keeps it.
 */
int32_t rv_kv_seq_squeeze(struct rv_kv_seq *seq, int32_t n_free);
/* Bytes that n_tokens of it would take when every block has the precision of its age. */
size_t rv_kv_seq_bytes_of(const struct rv_kv_seq *seq, int32_t n_tokens);
/* The same when everything is squeezed: with less than this in the pool it could never get so far. */
size_t rv_kv_seq_bytes_squeezed(const struct rv_kv_seq *seq, int32_t n_tokens);
/* Bytes of its blocks, shared ones counted in full. */
size_t rv_kv_seq_bytes(const struct rv_kv_seq *seq);
/* True when the table agrees with the pool; for tests. */
bool rv_kv_seq_check(const struct rv_kv_seq *seq);

#endif
