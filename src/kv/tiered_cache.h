/*
 * The keys and values of one layer and one sequence as a thing of its own: a pool, a sequence, its tiers and the
 * attention over it. What the engine does for many sequences, for callers who bring their own model.
 *
 * What it holds depends on the tokens appended and the policies set, never on how many came with a call.
 *
 * One caller at a time. Nothing allocates after rv_tiered_cache_new.
 */
#ifndef RV_KV_TIERED_CACHE_H
#define RV_KV_TIERED_CACHE_H

#include "base/error.h"
#include "ruvllm_kernels.h"

RV_CHECKED ruvllm_status rv_tiered_cache_new(struct ruvllm_kv_cache **out, const struct ruvllm_kv_cache_config *config,
                                             struct ruvllm_error *err);
void rv_tiered_cache_free(struct ruvllm_kv_cache *cache);

/* Rows of [n_kv_heads][head_dim], oldest first. Cannot fail: the oldest blocks make room. */
void rv_tiered_cache_append(struct ruvllm_kv_cache *cache, const float *keys, const float *values, size_t n_tokens);
/* query and out are [n_heads][head_dim]; the cache is not empty. */
void rv_tiered_cache_attend(struct ruvllm_kv_cache *cache, const float *query, float scale, float *out);
int32_t rv_tiered_cache_head_dim(const struct ruvllm_kv_cache *cache);
int32_t rv_tiered_cache_n_tokens(const struct ruvllm_kv_cache *cache);
/* Everything in floats: rv_tiered_cache_n_tokens rows. */
void rv_tiered_cache_read(const struct ruvllm_kv_cache *cache, float *keys, float *values);
/* Fills all but struct_size. */
void rv_tiered_cache_stats(const struct ruvllm_kv_cache *cache, struct ruvllm_kv_cache_stats *out);
void rv_tiered_cache_clear(struct ruvllm_kv_cache *cache);
/* Takes lengths, precisions and limits of `config`; refuses another shape, and more tokens than there is room for. */
RV_CHECKED ruvllm_status rv_tiered_cache_update_policy(struct ruvllm_kv_cache *cache,
                                                       const struct ruvllm_kv_cache_config *config,
                                                       struct ruvllm_error *err);
/* Compares the parts with each other; for tests. */
bool rv_tiered_cache_check(const struct ruvllm_kv_cache *cache);

#endif
