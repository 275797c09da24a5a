/*
 * RuvLLM's numeric kernels on plain arrays of floats, and a tiered key-value cache of its own: for callers who have a
 * model of their own, and for testing. Everything else of libruvllm is in ruvllm.h, whose rules on errors, ownership
 * and struct_size hold here too.
 */
#ifndef RUVLLM_KERNELS_H
#define RUVLLM_KERNELS_H

#include "ruvllm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- kernels ------------------------------------------------------------------------------- */

/*
 * The numeric parts on plain arrays of floats, for embedding and for testing. Each call runs on the caller's thread and
 * on that alone, whatever its size; split the rows over threads of your own where that pays. Calls share nothing, so
 * any number may run at once. Arrays are dense with the last index fastest; none may overlap but where that is said. A
 * count of 0 is a call that does nothing, except in attention, where it is RUVLLM_INVALID.
 */

/* How heads share keys and values. */
struct ruvllm_attention_config {
    size_t struct_size;
    int32_t n_heads;    // 32
    int32_t n_kv_heads; // 8; divides n_heads
    int32_t head_dim;   // 128; a multiple of 8, at most 512
    bool causal;        // true: query i of n_q is at position n_kv - n_q + i and sees what is not after it
    float scale;        // of the scores; 0: 1 / sqrt(head_dim)
};

RUVLLM_API struct ruvllm_attention_config ruvllm_attention_config_default(void);
/* Query heads to a KV head; 0 when the config is NULL or they do not divide. */
RUVLLM_API int32_t ruvllm_attention_gqa_ratio(const struct ruvllm_attention_config *config);
/* The scale, or what 0 stands for; 0 when the config is NULL or head_dim is not positive. */
RUVLLM_API float ruvllm_attention_effective_scale(const struct ruvllm_attention_config *config);

/*
 * Attention by the engine's own kernel: softmax(query key * scale) value in one pass, without the matrix of scores.
 *
 * Keys and values are copied into blocks of the engine's format first, in half precision: they keep 11 bits, and sizes
 * beyond 65504 become infinite. Queries, sums and results are floats. Each call allocates those blocks for one KV head,
 * 4 * head_dim bytes a position, and frees them; `ruvllm_kv_cache` keeps them from call to call.
 *
 * One head: query and out [n_q][head_dim], key and value [n_kv][head_dim]. Scale 0: 1 / sqrt(head_dim).
 */
RUVLLM_API ruvllm_status ruvllm_flash_attention(const float *query, size_t n_q, const float *key, const float *value,
                                                size_t n_kv, int32_t head_dim, float scale, bool causal, float *out,
                                                struct ruvllm_error *err);
/* Many heads: query and out [n_q][n_heads][head_dim], key and value [n_kv][n_kv_heads][head_dim]. NULL: default. */
RUVLLM_API ruvllm_status ruvllm_grouped_query_attention(const struct ruvllm_attention_config *config,
                                                        const float *query, size_t n_q, const float *key,
                                                        const float *value, size_t n_kv, float *out,
                                                        struct ruvllm_error *err);
/* The same with one KV head for all: config->n_kv_heads other than 1 is RUVLLM_INVALID. */
RUVLLM_API ruvllm_status ruvllm_multi_query_attention(const struct ruvllm_attention_config *config, const float *query,
                                                      size_t n_q, const float *key, const float *value, size_t n_kv,
                                                      float *out, struct ruvllm_error *err);
/*
 * The same over blocks of 32 tokens in any order: key_blocks and value_blocks [n_blocks][32][n_kv_heads][head_dim].
 * Entry i of block_table names the block with positions 32 i to 32 i + 31; there are as many entries as n_kv positions
 * need. What lies in the last block beyond n_kv is not read.
 */
RUVLLM_API ruvllm_status ruvllm_paged_attention(const struct ruvllm_attention_config *config, const float *query,
                                                size_t n_q, const float *key_blocks, const float *value_blocks,
                                                size_t n_blocks, const int32_t *block_table, size_t n_kv, float *out,
                                                struct ruvllm_error *err);

/* y = x / sqrt(mean(x^2) + eps) * weight, for each of n_rows rows of n. weight [n] or NULL: 1. y may be x. */
RUVLLM_API ruvllm_status ruvllm_rms_norm(const float *x, const float *weight, float *y, size_t n_rows, size_t n,
                                         float eps, struct ruvllm_error *err);
/* y = (x - mean) / sqrt(variance + eps) * weight + bias. weight and bias [n] or NULL: 1 and 0. y may be x. */
RUVLLM_API ruvllm_status ruvllm_layer_norm(const float *x, const float *weight, const float *bias, float *y,
                                           size_t n_rows, size_t n, float eps, struct ruvllm_error *err);

/* x / (1 + exp(-x)) of n numbers. y may be x. */
RUVLLM_API ruvllm_status ruvllm_silu(const float *x, float *y, size_t n, struct ruvllm_error *err);
/* x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), the approximation that models are trained with. y may be x. */
RUVLLM_API ruvllm_status ruvllm_gelu(const float *x, float *y, size_t n, struct ruvllm_error *err);
/* Softmax of each of n_rows rows of n. -INFINITY becomes 0; a row of nothing else becomes NaN. y may be x. */
RUVLLM_API ruvllm_status ruvllm_softmax(const float *x, float *y, size_t n_rows, size_t n, struct ruvllm_error *err);

/* out[i] = row ids[i] of a table [n_rows][dim]. An id outside it is RUVLLM_INVALID and leaves `out` untouched. */
RUVLLM_API ruvllm_status ruvllm_embedding_gather(const float *table, size_t n_rows, size_t dim, const int32_t *ids,
                                                 size_t n_ids, float *out, struct ruvllm_error *err);

/*
 * y[r] = row r of a quantised matrix times x, the vector in floats. n_cols is a multiple of 32. A row is runs of 32
 * numbers, each a scale in half precision (little end first) and the numbers themselves, as in ggml's Q8_0 and Q4_0:
 *
 *     int8: 32 signed bytes, 34 with the scale
 *     int4: 16 bytes, 18 with the scale; number j in the low half of byte j, number j + 16 in the high, 8 too large
 *
 * `weights` may lie at any address.
 */
RUVLLM_API ruvllm_status ruvllm_gemv_int8(const void *weights, size_t n_rows, size_t n_cols, const float *x, float *y,
                                          struct ruvllm_error *err);
RUVLLM_API ruvllm_status ruvllm_gemv_int4(const void *weights, size_t n_rows, size_t n_cols, const float *x, float *y,
                                          struct ruvllm_error *err);

/* Sines and cosines of all positions. Never changed after it was made: any thread may use it. */
typedef struct ruvllm_rope_table ruvllm_rope_table;

struct ruvllm_rope_config {
    size_t struct_size;
    int32_t dim;                 // how many numbers of a head are rotated, from its first on; even; 128
    int32_t max_positions;       // 4096
    float base;                  // 10000
    ruvllm_rope_scaling scaling; // NONE; FROM_MODEL is RUVLLM_INVALID: there is no model here
    float factor;                // context multiplier of the scaling, at least 1; 1
    int32_t original_context;    // YARN: what the model was trained with; must be given
    float yarn_attention;        // magnitude besides YaRN's own 0.1 ln(factor) + 1; 0: 1
    float yarn_beta_fast;        // 0: 32
    float yarn_beta_slow;        // 0: 1
};

RUVLLM_API struct ruvllm_rope_config ruvllm_rope_config_default(void);
/* Computed in doubles; takes 4 * dim bytes a position. NULL: default. On failure *out is NULL. */
RUVLLM_API ruvllm_status ruvllm_rope_table_new(ruvllm_rope_table **out, const struct ruvllm_rope_config *config,
                                               struct ruvllm_error *err);
RUVLLM_API void ruvllm_rope_table_free(ruvllm_rope_table *table);

typedef enum ruvllm_rope_pairing {
    RUVLLM_ROPE_PAIRING_NORMAL, // numbers 2 i and 2 i + 1 turn together
    RUVLLM_ROPE_PAIRING_NEOX    // numbers i and i + dim / 2
} ruvllm_rope_pairing;

/*
 * Rotates x [n_tokens][n_heads][head_dim] in place, token i to positions[i]. head_dim is at least the table's dim; the
 * rest of a head stays. A position outside the table is RUVLLM_INVALID and leaves x untouched.
 */
RUVLLM_API ruvllm_status ruvllm_rope(const ruvllm_rope_table *table, ruvllm_rope_pairing pairing, float *x,
                                     size_t n_tokens, int32_t n_heads, int32_t head_dim, const int32_t *positions,
                                     struct ruvllm_error *err);

/* ---- a key-value cache of its own ------------------------------------------------------------ */

/*
 * Keys and values of one layer and one sequence, for callers with a model of their own: the newest tokens in a precise
 * tail, older ones quantised, the oldest forgotten. It is what an engine keeps for each of its sequences: the same
 * blocks, tiers and attention. Positions are the caller's business: keys come as attention is to see them, rotated by
 * RoPE where there is any.
 *
 * What it holds depends on the tokens that were appended, not on how many came with each call. One caller at a time.
 */
typedef struct ruvllm_kv_cache ruvllm_kv_cache;

struct ruvllm_kv_cache_config {
    size_t struct_size;
    int32_t tail_length;    // tokens that stay in the tail's precision at least; 256
    ruvllm_precision tail;  // FP16; or Q8. A block of 32 tokens is FP16 until it is full in any case
    int32_t warm_length;    // with an FP16 tail and a Q4 store: tokens after the tail that are kept in Q8; 0
    ruvllm_precision store; // Q4; or Q8; or FP16. No finer than the tail; the same: nothing moves
    int32_t max_tokens;     // 4096; at least 32
    int32_t n_kv_heads;     // 8
    int32_t head_dim;       // 128; a multiple of 8, at most 512. Unless 32 divides it everything stays FP16
    int32_t
        migration_batch; // tokens from one migration to the next; 64, which means 128: rounded up to multiples of that
    int32_t n_heads;     // of the queries; 32
};

RUVLLM_API struct ruvllm_kv_cache_config ruvllm_kv_cache_config_default(void);

/* Memory is taken as tokens come; attend and append allocate nothing. NULL: default. On failure *out is NULL. */
RUVLLM_API ruvllm_status ruvllm_kv_cache_new(ruvllm_kv_cache **out, const struct ruvllm_kv_cache_config *config,
                                             struct ruvllm_error *err);
RUVLLM_API void ruvllm_kv_cache_free(ruvllm_kv_cache *cache);

/*
 * Adds n_tokens rows: keys and values [n_tokens][n_kv_heads][head_dim], oldest first. Every migration_batch tokens,
 * whole blocks that have become older than tail_length move to the store, so the tail is up to migration_batch + 158
 * tokens longer than asked for. A token that finds max_tokens in the cache makes the oldest block go: 32 tokens at
 * once, so a full cache holds the last max_tokens - 31 to max_tokens.
 */
RUVLLM_API ruvllm_status ruvllm_kv_cache_append(ruvllm_kv_cache *cache, const float *keys, const float *values,
                                                size_t n_tokens, struct ruvllm_error *err);
/*
 * Attention of one token over everything held: query and out [n_heads][head_dim]. Scale 0: 1 / sqrt(head_dim). An empty
 * cache is RUVLLM_INVALID.
 */
RUVLLM_API ruvllm_status ruvllm_kv_cache_attend(ruvllm_kv_cache *cache, const float *query, float scale, float *out,
                                                struct ruvllm_error *err);
/*
 * Everything held, in floats, oldest first: keys and values [*n_tokens][n_kv_heads][head_dim]. Each has room for
 * max_tokens rows; too few is RUVLLM_TOO_LARGE, with *n_tokens set to what it takes.
 */
RUVLLM_API ruvllm_status ruvllm_kv_cache_get_all(const ruvllm_kv_cache *cache, float *keys, float *values,
                                                 size_t max_tokens, size_t *n_tokens, struct ruvllm_error *err);

struct ruvllm_kv_cache_stats {
    size_t struct_size;
    int32_t total_tokens;
    int32_t tail_tokens;
    int32_t warm_tokens;
    int32_t store_tokens;
    uint64_t tail_bytes; // memory that is really taken: whole blocks, in whole pages of the system
    uint64_t warm_bytes;
    uint64_t store_bytes;
    double compression_ratio; // what the tokens would take in FP16, to what they take; 1 when there are none
    uint64_t evicted_tokens;  // since the cache was made or cleared
    int32_t migration_batch;  // the one in force
    bool can_quantize;        // false: 32 does not divide head_dim, everything stays FP16
};

RUVLLM_API ruvllm_status ruvllm_kv_cache_stats_get(const ruvllm_kv_cache *cache, struct ruvllm_kv_cache_stats *out,
                                                   struct ruvllm_error *err);
/* Forgets everything and keeps the policy. */
RUVLLM_API void ruvllm_kv_cache_clear(ruvllm_kv_cache *cache);
/*
 * Other lengths, precisions and limits from now on, for what is held too: it migrates and is evicted at once. Precision
 * that is gone does not come back. RUVLLM_INVALID, with nothing changed, when the numbers of heads or head_dim differ
 * or max_tokens is more than the cache was made for.
 */
RUVLLM_API ruvllm_status ruvllm_kv_cache_update_policy(ruvllm_kv_cache *cache,
                                                       const struct ruvllm_kv_cache_config *config,
                                                       struct ruvllm_error *err);

#ifdef __cplusplus
}
#endif
#endif
