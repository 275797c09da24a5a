/*
 * The public kernels and cache as a caller sees them: each door leads to the right room, with the arguments in the
 * right order, and turns away what makes no sense. The numbers themselves are the business of the suites of each
 * kernel.
 */
#include "ruvllm_kernels.h"
#include "support/test.h"

#include <math.h>
#include <string.h>

static bool near(float x, double wanted)
{
    return fabs((double)x - wanted) < 1e-5;
}

/* Asserts RUVLLM_INVALID with a message containing `text`. */
#define refuses(call, text)                                                                                            \
    do {                                                                                                               \
        struct ruvllm_error err_ = {0};                                                                                \
        struct ruvllm_error *err = &err_;                                                                              \
        assert_fails(call, RUVLLM_INVALID, err_, text);                                                                \
    } while (0)

/* ---- attention ----------------------------------------------------------------------------- */

static void an_attention_config_knows_its_ratio_and_scale(void **state)
{
    struct ruvllm_attention_config c = ruvllm_attention_config_default();

    (void)state;
    assert_int_equal(ruvllm_attention_gqa_ratio(&c), 4);
    assert_true(near(ruvllm_attention_effective_scale(&c), 1 / sqrt(128)));
    assert_true(c.causal);
    c.scale = 0.5f;
    assert_true(near(ruvllm_attention_effective_scale(&c), 0.5));
    c.n_kv_heads = 5;
    assert_int_equal(ruvllm_attention_gqa_ratio(&c), 0);
    c.n_kv_heads = 0;
    assert_int_equal(ruvllm_attention_gqa_ratio(&c), 0);
    c.struct_size = sizeof(c) + 1;
    assert_int_equal(ruvllm_attention_gqa_ratio(&c), 0);
    assert_true(ruvllm_attention_effective_scale(&c) == 0.0f);
    assert_int_equal(ruvllm_attention_gqa_ratio(NULL), 0);
    assert_true(ruvllm_attention_effective_scale(NULL) == 0.0f);
}

/*
 * Keys along one axis: with scale 1, scores 0, 1, ..., and values that are 1 at the number of the token. So `out` is
 * the row of weights.
 */
enum { DIM = 8, N_KV = 3 };

static const float axis[DIM] = {1};

static void fill_row(float *k, float *v, int token)
{
    memset(k, 0, DIM * sizeof(*k));
    memset(v, 0, DIM * sizeof(*v));
    k[0] = (float)token;
    v[token] = 1;
}

static void check_weights(const float *out, int n_seen, double scale)
{
    double total = 0;

    for (int t = 0; t < n_seen; t++)
        total += exp(scale * t);
    for (int t = 0; t < DIM; t++)
        assert_true(near(out[t], t < n_seen ? exp(scale * t) / total : 0));
}

static void flash_attention_weighs_what_a_query_sees(void **state)
{
    float k[N_KV * DIM], v[N_KV * DIM], q[2 * DIM], out[2 * DIM];

    (void)state;
    for (int t = 0; t < N_KV; t++)
        fill_row(k + t * DIM, v + t * DIM, t);
    memcpy(q, axis, sizeof(axis));
    memcpy(q + DIM, axis, sizeof(axis));
    assert_ok(ruvllm_flash_attention(q, 2, k, v, N_KV, DIM, 1.0f, true, out, err));
    check_weights(out, 2, 1);
    check_weights(out + DIM, 3, 1);
    assert_ok(ruvllm_flash_attention(q, 2, k, v, N_KV, DIM, 0.0f, false, out, err));
    check_weights(out, 3, 1 / sqrt(DIM));
    refuses(ruvllm_flash_attention(NULL, 2, k, v, N_KV, DIM, 1.0f, true, out, err), "NULL");
    refuses(ruvllm_flash_attention(q, 2, NULL, v, N_KV, DIM, 1.0f, true, out, err), "NULL");
    refuses(ruvllm_flash_attention(q, 2, k, NULL, N_KV, DIM, 1.0f, true, out, err), "NULL");
    refuses(ruvllm_flash_attention(q, 2, k, v, N_KV, DIM, 1.0f, true, NULL, err), "NULL");
    refuses(ruvllm_flash_attention(q, 2, k, v, N_KV, 7, 1.0f, true, out, err), "'head_dim' is 7");
    refuses(ruvllm_flash_attention(q, 2, k, v, N_KV, 0, 1.0f, true, out, err), "'head_dim' is 0");
    refuses(ruvllm_flash_attention(q, 2, k, v, 0, DIM, 1.0f, true, out, err), "0 positions");
    refuses(ruvllm_flash_attention(q, 2, k, v, 1, DIM, 1.0f, true, out, err), "sees nothing");
    refuses(ruvllm_flash_attention(q, SIZE_MAX, k, v, N_KV, DIM, 1.0f, false, out, err), "queries");
}

/* Heads 0 and 1 read the first KV head, whose keys grow; 2 and 3 the second, whose keys are all alike. */
static void heads_read_the_keys_of_their_group(void **state)
{
    struct ruvllm_attention_config c = ruvllm_attention_config_default();
    float k[N_KV * 2 * DIM], v[N_KV * 2 * DIM], q[4 * DIM], out[4 * DIM];

    (void)state;
    c.n_heads = 4;
    c.n_kv_heads = 2;
    c.head_dim = DIM;
    c.scale = 1.0f;
    for (int t = 0; t < N_KV; t++) {
        fill_row(k + 2 * t * DIM, v + 2 * t * DIM, t);
        fill_row(k + (2 * t + 1) * DIM, v + (2 * t + 1) * DIM, t);
        k[(2 * t + 1) * DIM] = 7;
    }
    for (int h = 0; h < 4; h++)
        memcpy(q + h * DIM, axis, sizeof(axis));
    assert_ok(ruvllm_grouped_query_attention(&c, q, 1, k, v, N_KV, out, err));
    for (int h = 0; h < 4; h++)
        check_weights(out + h * DIM, N_KV, h < 2 ? 1 : 0);
    refuses(ruvllm_multi_query_attention(&c, q, 1, k, v, N_KV, out, err), "'n_kv_heads' is 2");
    refuses(ruvllm_grouped_query_attention(&c, q, 1, k, NULL, N_KV, out, err), "NULL");
    c.n_kv_heads = 3;
    refuses(ruvllm_grouped_query_attention(&c, q, 1, k, v, N_KV, out, err), "4 heads cannot share 3");
    c.struct_size = 3;
    refuses(ruvllm_grouped_query_attention(&c, q, 1, k, v, N_KV, out, err), "'struct_size'");
}

static void one_kv_head_serves_all(void **state)
{
    struct ruvllm_attention_config c = ruvllm_attention_config_default();
    float k[N_KV * DIM], v[N_KV * DIM], q[4 * DIM], out[4 * DIM];

    (void)state;
    c.n_heads = 4;
    c.n_kv_heads = 1;
    c.head_dim = DIM;
    c.scale = 2.0f;
    for (int t = 0; t < N_KV; t++)
        fill_row(k + t * DIM, v + t * DIM, t);
    for (int h = 0; h < 4; h++)
        memcpy(q + h * DIM, axis, sizeof(axis));
    assert_ok(ruvllm_multi_query_attention(&c, q, 1, k, v, N_KV, out, err));
    for (int h = 0; h < 4; h++)
        check_weights(out + h * DIM, N_KV, 2);
}

static void pages_are_read_in_the_order_of_the_table(void **state)
{
    static float k[3 * 32 * DIM], v[3 * 32 * DIM];
    struct ruvllm_attention_config c = ruvllm_attention_config_default();
    const int32_t table[] = {2, 0};
    float out[DIM];

    (void)state;
    c.n_heads = c.n_kv_heads = 1;
    c.head_dim = DIM;
    c.scale = 1.0f;
    for (int i = 0; i < 32; i++) // 32 tokens that hardly count, then the one that does
        k[(2 * 32 + i) * DIM] = -40;
    v[0] = 5;
    k[DIM] = 1000; // beyond the length
    assert_ok(ruvllm_paged_attention(&c, axis, 1, k, v, 3, table, 33, out, err));
    assert_true(near(out[0], 5));
    refuses(ruvllm_paged_attention(&c, axis, 1, k, v, 2, table, 33, out, err), "entry 0 of the block table is 2");
    refuses(ruvllm_paged_attention(&c, axis, 1, k, v, 3, NULL, 33, out, err), "'block_table' is NULL");
    refuses(ruvllm_paged_attention(&c, axis, 1, k, NULL, 3, table, 33, out, err), "NULL");
}

/* ---- rows and numbers ---------------------------------------------------------------------- */

static void norms_work_row_by_row(void **state)
{
    const float x[] = {3, 4, 5, 0}, weight[] = {1, 2}, bias[] = {10, 20};
    float y[4];

    (void)state;
    assert_ok(ruvllm_rms_norm(x, weight, y, 2, 2, 0.0f, err));
    assert_true(near(y[0], 3 / sqrt(12.5)) && near(y[1], 8 / sqrt(12.5)) && near(y[2], sqrt(2)) && near(y[3], 0));
    assert_ok(ruvllm_layer_norm(x, weight, bias, y, 2, 2, 0.0f, err));
    assert_true(near(y[0], 9) && near(y[1], 22) && near(y[2], 11) && near(y[3], 18));
    assert_ok(ruvllm_rms_norm(x, NULL, y, 1, 2, 12.5f, err));
    assert_true(near(y[0], 0.6));
    assert_ok(ruvllm_layer_norm(x, NULL, NULL, y, 5, 0, 0.0f, err));
    refuses(ruvllm_rms_norm(NULL, weight, y, 2, 2, 0.0f, err), "NULL");
    refuses(ruvllm_rms_norm(x, weight, NULL, 2, 2, 0.0f, err), "NULL");
    refuses(ruvllm_layer_norm(NULL, weight, bias, y, 2, 2, 0.0f, err), "NULL");
    refuses(ruvllm_layer_norm(x, weight, bias, NULL, 2, 2, 0.0f, err), "NULL");
}

static void activations_are_what_their_names_say(void **state)
{
    const float x[] = {1, -1, 0, 0};
    float y[4];

    (void)state;
    assert_ok(ruvllm_silu(x, y, 3, err));
    assert_true(near(y[0], 0.731059) && near(y[1], -0.268941) && y[2] == 0.0f);
    assert_ok(ruvllm_gelu(x, y, 3, err));
    assert_true(near(y[0], 0.841192) && near(y[1], -0.158808) && y[2] == 0.0f);
    assert_ok(ruvllm_softmax(x, y, 2, 2, err));
    assert_true(near(y[0], 0.880797) && near(y[1], 0.119203) && near(y[2], 0.5) && near(y[3], 0.5));
    refuses(ruvllm_silu(NULL, y, 3, err), "NULL");
    refuses(ruvllm_gelu(x, NULL, 3, err), "NULL");
    refuses(ruvllm_softmax(x, NULL, 2, 2, err), "NULL");
}

static void embeddings_are_rows_of_the_table(void **state)
{
    const float table[] = {0, 1, 10, 11, 20, 21};
    const int32_t ids[] = {2, 1}, wrong[] = {0, 3};
    float out[4] = {0};

    (void)state;
    assert_ok(ruvllm_embedding_gather(table, 3, 2, ids, 2, out, err));
    assert_true(out[0] == 20 && out[1] == 21 && out[2] == 10 && out[3] == 11);
    refuses(ruvllm_embedding_gather(table, 3, 2, wrong, 2, out, err), "id 1 is 3, the table has 3 rows");
    assert_true(out[0] == 20);
    refuses(ruvllm_embedding_gather(NULL, 3, 2, ids, 2, out, err), "NULL");
    refuses(ruvllm_embedding_gather(table, 3, 2, NULL, 2, out, err), "NULL");
    refuses(ruvllm_embedding_gather(table, 3, 2, ids, 2, NULL, err), "NULL");
}

static void gemv_reads_both_layouts(void **state)
{
    uint8_t int8[34] = {0x00, 0x40, 3, 0xFF}; // scale 2; 3 and -1
    uint8_t int4[18] = {0x00, 0x38};          // scale 0.5
    float x[32] = {10, 100}, y = 0;

    (void)state;
    assert_ok(ruvllm_gemv_int8(int8, 1, 32, x, &y, err));
    assert_true(near(y, 2 * (30 - 100)));
    memset(int4 + 2, 0x88, 16);
    int4[2] = 0xAF; // number 0 is 7, number 16 is 2
    x[16] = 1000;
    assert_ok(ruvllm_gemv_int4(int4, 1, 32, x, &y, err));
    assert_true(near(y, 0.5 * (70 + 2000)));
    refuses(ruvllm_gemv_int8(int8, 1, 31, x, &y, err), "'n_cols' is 31");
    refuses(ruvllm_gemv_int4(int4, 1, 31, x, &y, err), "'n_cols' is 31");
    refuses(ruvllm_gemv_int8(NULL, 1, 32, x, &y, err), "NULL");
    refuses(ruvllm_gemv_int4(int4, 1, 32, NULL, &y, err), "NULL");
    refuses(ruvllm_gemv_int4(int4, 1, 32, x, NULL, err), "NULL");
}

static void rope_turns_each_token_to_its_position(void **state)
{
    struct ruvllm_rope_config c = ruvllm_rope_config_default();
    float x[2 * 4] = {1, 0, 0, 0, 1, 0, 0, 9};
    const int32_t positions[] = {0, 2}, wrong[] = {1, 4096};
    ruvllm_rope_table *table;

    (void)state;
    assert_true(c.scaling == RUVLLM_ROPE_NONE && c.base == 10000.0f && c.dim == 128);
    c.dim = 2;
    assert_ok(ruvllm_rope_table_new(&table, &c, err));
    assert_ok(ruvllm_rope(table, RUVLLM_ROPE_PAIRING_NORMAL, x, 2, 1, 4, positions, err));
    assert_true(x[0] == 1.0f && near(x[4], cos(2)) && near(x[5], sin(2)) && x[7] == 9.0f);
    refuses(ruvllm_rope(table, RUVLLM_ROPE_PAIRING_NEOX, x, 2, 1, 4, wrong, err), "token 1 is at position 4096");
    assert_true(x[0] == 1.0f);
    refuses(ruvllm_rope(table, RUVLLM_ROPE_PAIRING_NEOX, x, 2, 1, 1, positions, err), "the table rotates 2");
    refuses(ruvllm_rope(table, (ruvllm_rope_pairing)9, x, 2, 1, 4, positions, err), "no pairing 9");
    refuses(ruvllm_rope(table, RUVLLM_ROPE_PAIRING_NEOX, x, 2, -1, 4, positions, err), "-1 heads");
    refuses(ruvllm_rope(NULL, RUVLLM_ROPE_PAIRING_NEOX, x, 2, 1, 4, positions, err), "NULL");
    refuses(ruvllm_rope(table, RUVLLM_ROPE_PAIRING_NEOX, NULL, 2, 1, 4, positions, err), "NULL");
    refuses(ruvllm_rope(table, RUVLLM_ROPE_PAIRING_NEOX, x, 2, 1, 4, NULL, err), "NULL");
    ruvllm_rope_table_free(table);
    ruvllm_rope_table_free(NULL);
    refuses(ruvllm_rope_table_new(NULL, &c, err), "'out' is NULL");
    c.scaling = RUVLLM_ROPE_FROM_MODEL;
    refuses(ruvllm_rope_table_new(&table, &c, err), "'scaling'");
    assert_null(table);
}

/* ---- the cache ----------------------------------------------------------------------------- */

static void a_cache_has_the_defaults_of_the_documents(void **state)
{
    struct ruvllm_kv_cache_config c = ruvllm_kv_cache_config_default();

    (void)state;
    assert_true(c.tail_length == 256 && c.tail == RUVLLM_PRECISION_FP16 && c.store == RUVLLM_PRECISION_Q4);
    assert_true(c.max_tokens == 4096 && c.migration_batch == 64 && c.warm_length == 0);
}

static void a_cache_lives_from_new_to_free(void **state)
{
    struct ruvllm_kv_cache_config c = ruvllm_kv_cache_config_default();
    struct ruvllm_kv_cache_stats stats = {.struct_size = sizeof(stats)};
    float k[N_KV * DIM], v[N_KV * DIM], keys[N_KV * DIM], values[N_KV * DIM], out[DIM];
    struct ruvllm_error err_struct = {0};
    ruvllm_kv_cache *cache;
    size_t n = 0;

    (void)state;
    c.n_heads = c.n_kv_heads = 1;
    c.head_dim = DIM;
    for (int t = 0; t < N_KV; t++)
        fill_row(k + t * DIM, v + t * DIM, t);
    assert_ok(ruvllm_kv_cache_new(&cache, &c, err));
    refuses(ruvllm_kv_cache_attend(cache, axis, 1.0f, out, err), "the cache is empty");
    assert_ok(ruvllm_kv_cache_append(cache, k, v, N_KV, err));
    assert_ok(ruvllm_kv_cache_attend(cache, axis, 1.0f, out, err));
    check_weights(out, N_KV, 1);
    assert_ok(ruvllm_kv_cache_attend(cache, axis, 0.0f, out, err));
    check_weights(out, N_KV, 1 / sqrt(DIM));
    assert_ok(ruvllm_kv_cache_get_all(cache, keys, values, N_KV, &n, err));
    assert_int_equal(n, N_KV);
    assert_memory_equal(keys, k, sizeof(k));
    assert_memory_equal(values, v, sizeof(v));
    n = 0;
    assert_fails(ruvllm_kv_cache_get_all(cache, keys, values, 2, &n, &err_struct), RUVLLM_TOO_LARGE, err_struct,
                 "room for 2 tokens, 3 are held");
    assert_int_equal(n, N_KV);
    assert_ok(ruvllm_kv_cache_stats_get(cache, &stats, err));
    assert_true(stats.total_tokens == 3 && stats.tail_tokens == 3 && stats.migration_batch == 128);
    assert_false(stats.can_quantize);
    c.max_tokens = 64;
    assert_ok(ruvllm_kv_cache_update_policy(cache, &c, err));
    c.max_tokens = 8192;
    refuses(ruvllm_kv_cache_update_policy(cache, &c, err), "made for at most 4096");
    ruvllm_kv_cache_clear(cache);
    assert_ok(ruvllm_kv_cache_stats_get(cache, &stats, err));
    assert_int_equal(stats.total_tokens, 0);
    ruvllm_kv_cache_free(cache);
}

static void a_cache_turns_away_what_makes_no_sense(void **state)
{
    struct ruvllm_kv_cache_config c = ruvllm_kv_cache_config_default();
    struct ruvllm_kv_cache_stats stats = {.struct_size = 1};
    ruvllm_kv_cache *cache = (void *)1;
    float x[8];
    size_t n;

    (void)state;
    c.max_tokens = 0;
    refuses(ruvllm_kv_cache_new(&cache, &c, err), "'max_tokens' is out of range");
    assert_null(cache);
    c.struct_size = sizeof(c) + 8;
    refuses(ruvllm_kv_cache_new(&cache, &c, err), "'struct_size'");
    refuses(ruvllm_kv_cache_new(NULL, NULL, err), "'out' is NULL");
    assert_ok(ruvllm_kv_cache_new(&cache, NULL, err));
    refuses(ruvllm_kv_cache_append(NULL, x, x, 1, err), "NULL");
    refuses(ruvllm_kv_cache_append(cache, NULL, x, 1, err), "NULL");
    refuses(ruvllm_kv_cache_append(cache, x, NULL, 1, err), "NULL");
    assert_ok(ruvllm_kv_cache_append(cache, x, x, 0, err));
    refuses(ruvllm_kv_cache_attend(NULL, x, 1.0f, x, err), "NULL");
    refuses(ruvllm_kv_cache_attend(cache, NULL, 1.0f, x, err), "NULL");
    refuses(ruvllm_kv_cache_attend(cache, x, 1.0f, NULL, err), "NULL");
    refuses(ruvllm_kv_cache_get_all(NULL, x, x, 1, &n, err), "NULL");
    refuses(ruvllm_kv_cache_get_all(cache, x, x, 1, NULL, err), "NULL");
    refuses(ruvllm_kv_cache_stats_get(NULL, &stats, err), "'cache' is NULL");
    refuses(ruvllm_kv_cache_stats_get(cache, NULL, err), "'out' is NULL");
    refuses(ruvllm_kv_cache_stats_get(cache, &stats, err), "'struct_size'");
    refuses(ruvllm_kv_cache_update_policy(NULL, &c, err), "'cache' is NULL");
    refuses(ruvllm_kv_cache_update_policy(cache, NULL, err), "'config' is NULL");
    refuses(ruvllm_kv_cache_update_policy(cache, &c, err), "'struct_size'");
    ruvllm_kv_cache_free(cache);
    ruvllm_kv_cache_free(NULL);
    ruvllm_kv_cache_clear(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_attention_config_knows_its_ratio_and_scale),
        cmocka_unit_test(flash_attention_weighs_what_a_query_sees),
        cmocka_unit_test(heads_read_the_keys_of_their_group),
        cmocka_unit_test(one_kv_head_serves_all),
        cmocka_unit_test(pages_are_read_in_the_order_of_the_table),
        cmocka_unit_test(norms_work_row_by_row),
        cmocka_unit_test(activations_are_what_their_names_say),
        cmocka_unit_test(embeddings_are_rows_of_the_table),
        cmocka_unit_test(gemv_reads_both_layouts),
        cmocka_unit_test(rope_turns_each_token_to_its_position),
        cmocka_unit_test(a_cache_has_the_defaults_of_the_documents),
        cmocka_unit_test(a_cache_lives_from_new_to_free),
        cmocka_unit_test(a_cache_turns_away_what_makes_no_sense),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
