/*
 * The public API's door to the kernels and the key-value cache that need no model: checks arguments, fills in defaults,
 * calls the part that does the work. No logic lives here.
 */
#include "ruvllm_kernels.h"

#include "engine/door.h"
#include "kernels/activation.h"
#include "kernels/gather.h"
#include "kernels/gemv.h"
#include "kernels/norm.h"
#include "kernels/plain_attention.h"
#include "kernels/rope_table.h"
#include "kv/tiered_cache.h"

#include <math.h>

static const char NULL_ARRAY[] = "an array is NULL";

/* Counts of the caller as the kernels have them; what does not fit is more than any of them takes. */
static int32_t clip(size_t n)
{
    return n < INT32_MAX ? (int32_t)n : INT32_MAX;
}

/* ---- attention ----------------------------------------------------------------------------- */

struct ruvllm_attention_config ruvllm_attention_config_default(void)
{
    return (struct ruvllm_attention_config){.struct_size = sizeof(struct ruvllm_attention_config),
                                            .n_heads = 32,
                                            .n_kv_heads = 8,
                                            .head_dim = 128,
                                            .causal = true};
}

static ruvllm_status take_attention(struct ruvllm_attention_config *ours, const struct ruvllm_attention_config *theirs,
                                    struct ruvllm_error *err)
{
    *ours = ruvllm_attention_config_default();
    return rv_door_take_struct(ours, sizeof(*ours), theirs, "ruvllm_attention_config", err);
}

int32_t ruvllm_attention_gqa_ratio(const struct ruvllm_attention_config *config)
{
    struct ruvllm_attention_config ours;

    if (!config || take_attention(&ours, config, NULL) || ours.n_heads < 1 || ours.n_kv_heads < 1)
        return 0;
    return ours.n_heads % ours.n_kv_heads ? 0 : ours.n_heads / ours.n_kv_heads;
}

static float scale_or_default(float scale, int32_t head_dim)
{
    return scale != 0.0f ? scale : 1.0f / sqrtf((float)head_dim);
}

float ruvllm_attention_effective_scale(const struct ruvllm_attention_config *config)
{
    struct ruvllm_attention_config ours;

    if (!config || take_attention(&ours, config, NULL) || ours.head_dim < 1)
        return 0.0f;
    return scale_or_default(ours.scale, ours.head_dim);
}

/* The rest of what the four have in common; `call` holds the arrays and counts. */
static ruvllm_status attend(const struct ruvllm_attention_config *config, struct rv_plain_attention *call,
                            struct ruvllm_error *err)
{
    if (!call->q || !call->k || !call->v || !call->out)
        return rv_fail(err, RUVLLM_INVALID, NULL_ARRAY);
    call->n_heads = config->n_heads;
    call->n_kv_heads = config->n_kv_heads;
    call->head_dim = config->head_dim;
    call->causal = config->causal;
    call->scale = scale_or_default(config->scale, config->head_dim);
    return rv_plain_attention(call, err);
}

ruvllm_status ruvllm_flash_attention(const float *query, size_t n_q, const float *key, const float *value, size_t n_kv,
                                     int32_t head_dim, float scale, bool causal, float *out, struct ruvllm_error *err)
{
    struct ruvllm_attention_config config = {
        .n_heads = 1, .n_kv_heads = 1, .head_dim = head_dim, .causal = causal, .scale = scale};
    struct rv_plain_attention call = {
        .q = query, .n_q = clip(n_q), .k = key, .v = value, .n_kv = clip(n_kv), .out = out};

    return attend(&config, &call, err);
}

ruvllm_status ruvllm_grouped_query_attention(const struct ruvllm_attention_config *config, const float *query,
                                             size_t n_q, const float *key, const float *value, size_t n_kv, float *out,
                                             struct ruvllm_error *err)
{
    struct rv_plain_attention call = {
        .q = query, .n_q = clip(n_q), .k = key, .v = value, .n_kv = clip(n_kv), .out = out};
    struct ruvllm_attention_config ours;
    ruvllm_status rc = take_attention(&ours, config, err);

    return rc ? rc : attend(&ours, &call, err);
}

ruvllm_status ruvllm_multi_query_attention(const struct ruvllm_attention_config *config, const float *query, size_t n_q,
                                           const float *key, const float *value, size_t n_kv, float *out,
                                           struct ruvllm_error *err)
{
    struct ruvllm_attention_config ours;
    ruvllm_status rc = take_attention(&ours, config, err);

    if (!rc && ours.n_kv_heads != 1)
        rc = rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_CONFIG, "'n_kv_heads' is %d; multi-query attention has 1",
                          ours.n_kv_heads);
    return rc ? rc : ruvllm_grouped_query_attention(&ours, query, n_q, key, value, n_kv, out, err);
}

ruvllm_status ruvllm_paged_attention(const struct ruvllm_attention_config *config, const float *query, size_t n_q,
                                     const float *key_blocks, const float *value_blocks, size_t n_blocks,
                                     const int32_t *block_table, size_t n_kv, float *out, struct ruvllm_error *err)
{
    struct rv_plain_attention call = {.q = query,
                                      .n_q = clip(n_q),
                                      .k = key_blocks,
                                      .v = value_blocks,
                                      .table = block_table,
                                      .n_blocks = clip(n_blocks),
                                      .n_kv = clip(n_kv),
                                      .out = out};
    struct ruvllm_attention_config ours;
    ruvllm_status rc = take_attention(&ours, config, err);

    if (rc)
        return rc;
    return block_table ? attend(&ours, &call, err) : rv_door_fail_null(err, "block_table");
}

/* ---- rows and numbers ---------------------------------------------------------------------- */

ruvllm_status ruvllm_rms_norm(const float *x, const float *weight, float *y, size_t n_rows, size_t n, float eps,
                              struct ruvllm_error *err)
{
    if (!x || !y)
        return rv_fail(err, RUVLLM_INVALID, NULL_ARRAY);
    for (size_t i = 0; i < n_rows && n > 0; i++)
        rv_norm_rms(x + i * n, weight, y + i * n, n, eps);
    return RUVLLM_OK;
}

ruvllm_status ruvllm_layer_norm(const float *x, const float *weight, const float *bias, float *y, size_t n_rows,
                                size_t n, float eps, struct ruvllm_error *err)
{
    if (!x || !y)
        return rv_fail(err, RUVLLM_INVALID, NULL_ARRAY);
    for (size_t i = 0; i < n_rows && n > 0; i++)
        rv_norm_layer(x + i * n, weight, bias, y + i * n, n, eps);
    return RUVLLM_OK;
}

ruvllm_status ruvllm_silu(const float *x, float *y, size_t n, struct ruvllm_error *err)
{
    if (!x || !y)
        return rv_fail(err, RUVLLM_INVALID, NULL_ARRAY);
    rv_activation_silu(x, y, n);
    return RUVLLM_OK;
}

ruvllm_status ruvllm_gelu(const float *x, float *y, size_t n, struct ruvllm_error *err)
{
    if (!x || !y)
        return rv_fail(err, RUVLLM_INVALID, NULL_ARRAY);
    rv_activation_gelu(x, y, n);
    return RUVLLM_OK;
}

ruvllm_status ruvllm_softmax(const float *x, float *y, size_t n_rows, size_t n, struct ruvllm_error *err)
{
    if (!x || !y)
        return rv_fail(err, RUVLLM_INVALID, NULL_ARRAY);
    for (size_t i = 0; i < n_rows && n > 0; i++)
        rv_activation_softmax(x + i * n, y + i * n, n);
    return RUVLLM_OK;
}

ruvllm_status ruvllm_embedding_gather(const float *table, size_t n_rows, size_t dim, const int32_t *ids, size_t n_ids,
                                      float *out, struct ruvllm_error *err)
{
    size_t bad;

    if (!table || !ids || !out)
        return rv_fail(err, RUVLLM_INVALID, NULL_ARRAY);
    bad = rv_gather_first_bad(ids, n_ids, n_rows);
    if (bad < n_ids)
        return rv_fail(err, RUVLLM_INVALID, "id %zu is %d, the table has %zu rows", bad, ids[bad], n_rows);
    rv_gather_rows(table, dim, ids, n_ids, out);
    return RUVLLM_OK;
}

static ruvllm_status check_gemv(const void *weights, size_t n_cols, const float *x, const float *y,
                                struct ruvllm_error *err)
{
    if (!weights || !x || !y)
        return rv_fail(err, RUVLLM_INVALID, NULL_ARRAY);
    if (n_cols % RV_GEMV_RUN)
        return rv_fail(err, RUVLLM_INVALID, "'n_cols' is %zu, which is no multiple of %d", n_cols, RV_GEMV_RUN);
    return RUVLLM_OK;
}

ruvllm_status ruvllm_gemv_int8(const void *weights, size_t n_rows, size_t n_cols, const float *x, float *y,
                               struct ruvllm_error *err)
{
    ruvllm_status rc = check_gemv(weights, n_cols, x, y, err);

    if (!rc)
        rv_gemv_q8(weights, n_rows, n_cols, x, y);
    return rc;
}

ruvllm_status ruvllm_gemv_int4(const void *weights, size_t n_rows, size_t n_cols, const float *x, float *y,
                               struct ruvllm_error *err)
{
    ruvllm_status rc = check_gemv(weights, n_cols, x, y, err);

    if (!rc)
        rv_gemv_q4(weights, n_rows, n_cols, x, y);
    return rc;
}

/* ---- rotary positions ---------------------------------------------------------------------- */

struct ruvllm_rope_config ruvllm_rope_config_default(void)
{
    return (struct ruvllm_rope_config){.struct_size = sizeof(struct ruvllm_rope_config),
                                       .dim = 128,
                                       .max_positions = 4096,
                                       .base = 10000.0f,
                                       .scaling = RUVLLM_ROPE_NONE,
                                       .factor = 1.0f};
}

ruvllm_status ruvllm_rope_table_new(ruvllm_rope_table **out, const struct ruvllm_rope_config *config,
                                    struct ruvllm_error *err)
{
    struct ruvllm_rope_config ours = ruvllm_rope_config_default();
    ruvllm_status rc;

    if (!out)
        return rv_door_fail_null(err, "out");
    *out = NULL;
    rc = rv_door_take_struct(&ours, sizeof(ours), config, "ruvllm_rope_config", err);
    return rc ? rc : rv_rope_table_new(out, &ours, err);
}

void ruvllm_rope_table_free(ruvllm_rope_table *table)
{
    rv_rope_table_free(table);
}

static ruvllm_status check_rope(const ruvllm_rope_table *table, ruvllm_rope_pairing pairing, size_t n_tokens,
                                int32_t n_heads, int32_t head_dim, const int32_t *positions, struct ruvllm_error *err)
{
    int32_t n_positions = rv_rope_table_n_positions(table);
    size_t bad = rv_gather_first_bad(positions, n_tokens, (size_t)n_positions);

    if (pairing != RUVLLM_ROPE_PAIRING_NORMAL && pairing != RUVLLM_ROPE_PAIRING_NEOX)
        return rv_fail(err, RUVLLM_INVALID, "there is no pairing %d", (int)pairing);
    if (n_heads < 0 || head_dim < rv_rope_table_dim(table))
        return rv_fail(err, RUVLLM_INVALID, "%d heads of %d numbers: the table rotates %d", n_heads, head_dim,
                       rv_rope_table_dim(table));
    if (bad < n_tokens)
        return rv_fail(err, RUVLLM_INVALID, "token %zu is at position %d, the table has %d", bad, positions[bad],
                       n_positions);
    return RUVLLM_OK;
}

ruvllm_status ruvllm_rope(const ruvllm_rope_table *table, ruvllm_rope_pairing pairing, float *x, size_t n_tokens,
                          int32_t n_heads, int32_t head_dim, const int32_t *positions, struct ruvllm_error *err)
{
    ruvllm_status rc;

    if (!table || !x || !positions)
        return rv_fail(err, RUVLLM_INVALID, "table, x and positions must not be NULL");
    rc = check_rope(table, pairing, n_tokens, n_heads, head_dim, positions, err);
    for (size_t i = 0; i < n_tokens && !rc; i++)
        rv_rope_table_rotate(table, positions[i], pairing, x + i * (size_t)n_heads * (size_t)head_dim, n_heads,
                             head_dim);
    return rc;
}

/* ---- the key-value cache ------------------------------------------------------------------- */

struct ruvllm_kv_cache_config ruvllm_kv_cache_config_default(void)
{
    return (struct ruvllm_kv_cache_config){.struct_size = sizeof(struct ruvllm_kv_cache_config),
                                           .tail_length = 256,
                                           .tail = RUVLLM_PRECISION_FP16,
                                           .store = RUVLLM_PRECISION_Q4,
                                           .max_tokens = 4096,
                                           .n_kv_heads = 8,
                                           .head_dim = 128,
                                           .migration_batch = 64,
                                           .n_heads = 32};
}

ruvllm_status ruvllm_kv_cache_new(ruvllm_kv_cache **out, const struct ruvllm_kv_cache_config *config,
                                  struct ruvllm_error *err)
{
    struct ruvllm_kv_cache_config ours = ruvllm_kv_cache_config_default();
    ruvllm_status rc;

    if (!out)
        return rv_door_fail_null(err, "out");
    *out = NULL;
    rc = rv_door_take_struct(&ours, sizeof(ours), config, "ruvllm_kv_cache_config", err);
    return rc ? rc : rv_tiered_cache_new(out, &ours, err);
}

void ruvllm_kv_cache_free(ruvllm_kv_cache *cache)
{
    rv_tiered_cache_free(cache);
}

ruvllm_status ruvllm_kv_cache_append(ruvllm_kv_cache *cache, const float *keys, const float *values, size_t n_tokens,
                                     struct ruvllm_error *err)
{
    if (!cache || !keys || !values)
        return rv_fail(err, RUVLLM_INVALID, "cache, keys and values must not be NULL");
    rv_tiered_cache_append(cache, keys, values, n_tokens);
    return RUVLLM_OK;
}

ruvllm_status ruvllm_kv_cache_attend(ruvllm_kv_cache *cache, const float *query, float scale, float *out,
                                     struct ruvllm_error *err)
{
    if (!cache || !query || !out)
        return rv_fail(err, RUVLLM_INVALID, "cache, query and out must not be NULL");
    if (rv_tiered_cache_n_tokens(cache) == 0)
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_KV_CACHE, "the cache is empty: there is nothing to see");
    rv_tiered_cache_attend(cache, query, scale_or_default(scale, rv_tiered_cache_head_dim(cache)), out);
    return RUVLLM_OK;
}

ruvllm_status ruvllm_kv_cache_get_all(const ruvllm_kv_cache *cache, float *keys, float *values, size_t max_tokens,
                                      size_t *n_tokens, struct ruvllm_error *err)
{
    if (!cache || !keys || !values || !n_tokens)
        return rv_fail(err, RUVLLM_INVALID, "cache, keys, values and n_tokens must not be NULL");
    *n_tokens = (size_t)rv_tiered_cache_n_tokens(cache);
    if (*n_tokens > max_tokens)
        return rv_fail_kind(err, RUVLLM_TOO_LARGE, RUVLLM_ERROR_KV_CACHE, "there is room for %zu tokens, %zu are held",
                            max_tokens, *n_tokens);
    rv_tiered_cache_read(cache, keys, values);
    return RUVLLM_OK;
}

ruvllm_status ruvllm_kv_cache_stats_get(const ruvllm_kv_cache *cache, struct ruvllm_kv_cache_stats *out,
                                        struct ruvllm_error *err)
{
    struct ruvllm_kv_cache_stats stats;

    if (!cache || !out)
        return rv_door_fail_null(err, cache ? "out" : "cache");
    rv_tiered_cache_stats(cache, &stats);
    return rv_door_give_struct(out, &stats, sizeof(stats), "ruvllm_kv_cache_stats", err);
}

void ruvllm_kv_cache_clear(ruvllm_kv_cache *cache)
{
    if (cache)
        rv_tiered_cache_clear(cache);
}

ruvllm_status ruvllm_kv_cache_update_policy(ruvllm_kv_cache *cache, const struct ruvllm_kv_cache_config *config,
                                            struct ruvllm_error *err)
{
    struct ruvllm_kv_cache_config ours = ruvllm_kv_cache_config_default();
    ruvllm_status rc;

    if (!cache || !config)
        return rv_door_fail_null(err, cache ? "config" : "cache");
    rc = rv_door_take_struct(&ours, sizeof(ours), config, "ruvllm_kv_cache_config", err);
    return rc ? rc : rv_tiered_cache_update_policy(cache, &ours, err);
}
