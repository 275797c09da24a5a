/*
 * Keys and values of the one sequence that a model computes without an engine: blocks of its own, in F16, where the
 * device is the CPU, and cells on any other, or where ggml's attention was asked for.
 *
 * Single owner: the call that computes. Nothing allocates after rv_own_kv_open.
 */
#ifndef RV_ENGINE_OWN_KV_H
#define RV_ENGINE_OWN_KV_H

#include "engine/backend.h"
#include "graph/batch.h"
#include "kv/kv_cache.h"
#include "kv/kv_seq.h"

struct rv_own_kv {
    struct rv_kv_cache *cells;  // or
    struct rv_block_pool *pool; // the CPU's
    struct rv_kv_seq seq;
    struct rv_kv_seq *seqs[1]; // the tables of a batch
};

/* INVALID for a name that is none of "own", "ggml" and "auto"; NULL is auto. */
RV_CHECKED ruvllm_status rv_own_kv_check_attention(const char *name, struct ruvllm_error *err);

/* Room for as many tokens as the config says, for the attention it names. */
RV_CHECKED ruvllm_status rv_own_kv_open(struct rv_own_kv *kv, const struct ruvllm_model *model,
                                        const struct rv_backend_state_config *config, struct ruvllm_error *err);
void rv_own_kv_close(struct rv_own_kv *kv);
uint64_t rv_own_kv_n_bytes(const struct rv_own_kv *kv);

/* Makes room for the rows of a batch and names it in the batch; max_len is the caller's to keep. */
void rv_own_kv_reserve(struct rv_own_kv *kv, struct rv_batch *batch);
/* Counts the rows of a reserved batch as computed. */
void rv_own_kv_advance(struct rv_own_kv *kv, const struct rv_batch *batch);
/* Forgets everything from position `len` on, and what was reserved. */
void rv_own_kv_trim(struct rv_own_kv *kv, int32_t len);

#endif
