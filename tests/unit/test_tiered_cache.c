/* The stand-alone cache: what it holds, in which precision, in how many bytes, and attention over it in doubles. */
#include "kv/tiered_cache.h"
#include "support/test.h"

#include "base/rng.h"
#include "kernels/half.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 32, MAX = 6000 };

static long n_allocations;

void *__real_rv_malloc(size_t bytes);
void *__real_rv_calloc(size_t n, size_t size);
void *__real_rv_realloc_array(void *array, size_t n, size_t size);
void *__wrap_rv_malloc(size_t bytes);
void *__wrap_rv_calloc(size_t n, size_t size);
void *__wrap_rv_realloc_array(void *array, size_t n, size_t size);

void *__wrap_rv_malloc(size_t bytes)
{
    n_allocations++;
    return __real_rv_malloc(bytes);
}

void *__wrap_rv_calloc(size_t n, size_t size)
{
    n_allocations++;
    return __real_rv_calloc(n, size);
}

void *__wrap_rv_realloc_array(void *array, size_t n, size_t size)
{
    n_allocations++;
    return __real_rv_realloc_array(array, n, size);
}

/* A cache, all rows that there are to append, and room to read everything back. */
struct scene {
    struct ruvllm_kv_cache_config config;
    struct ruvllm_kv_cache *cache;
    size_t row; // floats of a token
    int32_t n;  // appended
    float *keys, *values, *held_keys, *held_values;
};

static struct ruvllm_kv_cache_config small_config(void)
{
    struct ruvllm_kv_cache_config c = ruvllm_kv_cache_config_default();

    c.n_heads = 4;
    c.n_kv_heads = 2;
    c.head_dim = 64;
    return c;
}

static float *floats(size_t n)
{
    float *x = malloc(n * sizeof(*x));

    assert_non_null(x);
    return x;
}

/* Rows with a few outliers, as keys of real models have. */
static void scene_init(struct scene *s, const struct ruvllm_kv_cache_config *config)
{
    struct rv_rng rng;
    size_t n;

    memset(s, 0, sizeof(*s));
    s->config = *config;
    s->row = (size_t)config->n_kv_heads * (size_t)config->head_dim;
    n = MAX * s->row;
    s->keys = floats(n);
    s->values = floats(n);
    s->held_keys = floats((size_t)config->max_tokens * s->row);
    s->held_values = floats((size_t)config->max_tokens * s->row);
    rv_rng_init(&rng, 21);
    for (size_t i = 0; i < n; i++) {
        s->keys[i] = (float)rv_rng_uniform(&rng) * 4 - 2 + (i % 64 == 5 ? 20.0f : 0.0f);
        s->values[i] = (float)rv_rng_uniform(&rng) * 4 - 2;
    }
    assert_ok(rv_tiered_cache_new(&s->cache, config, err));
}

static void scene_release(struct scene *s)
{
    assert_true(rv_tiered_cache_check(s->cache));
    rv_tiered_cache_free(s->cache);
    free(s->keys);
    free(s->values);
    free(s->held_keys);
    free(s->held_values);
}

static void append(struct scene *s, int32_t n)
{
    assert_true(s->n + n <= MAX);
    rv_tiered_cache_append(s->cache, s->keys + (size_t)s->n * s->row, s->values + (size_t)s->n * s->row, (size_t)n);
    s->n += n;
    assert_true(rv_tiered_cache_check(s->cache));
}

static struct ruvllm_kv_cache_stats stats_of(const struct scene *s)
{
    struct ruvllm_kv_cache_stats stats;

    rv_tiered_cache_stats(s->cache, &stats);
    assert_int_equal(stats.total_tokens, stats.tail_tokens + stats.warm_tokens + stats.store_tokens);
    assert_int_equal(stats.total_tokens, rv_tiered_cache_n_tokens(s->cache));
    return stats;
}

/* How far row i of what is held is from what was appended, relative to its length; keys and values, the worse. */
static double distance(const struct scene *s, int32_t i)
{
    size_t from = (size_t)(s->n - rv_tiered_cache_n_tokens(s->cache) + i) * s->row, at = (size_t)i * s->row;
    double k = 0, v = 0, k_size = 0, v_size = 0;

    for (size_t d = 0; d < s->row; d++) {
        k += pow((double)s->held_keys[at + d] - (double)s->keys[from + d], 2);
        v += pow((double)s->held_values[at + d] - (double)s->values[from + d], 2);
        k_size += pow((double)s->keys[from + d], 2);
        v_size += pow((double)s->values[from + d], 2);
    }
    return fmax(sqrt(k / k_size), sqrt(v / v_size));
}

/*
 * Rows of uniform numbers, rotated: 32 of them span about 4.5 standard deviations. Q4 rounds to steps of a sixteenth of
 * that, Q8 of a 256th; halves to 2^-11. Each bound is some way above step / sqrt(12), and below what the next coarser
 * one gives.
 */
static void check_rows(const struct scene *s, int32_t first, int32_t end, double least, double most)
{
    rv_tiered_cache_read(s->cache, s->held_keys, s->held_values);
    for (int32_t i = first; i < end; i++) {
        double off = distance(s, i);

        if (!(off >= least && off <= most))
            fail_msg("row %d is off by %g, not between %g and %g", (int)i, off, least, most);
    }
}

static const double HALF_MOST = 1e-3, Q8_MOST = 0.015, Q4_MOST = 0.2;

/* As floats go through halves, with nothing else done to them. */
static void check_bits(const struct scene *s)
{
    rv_tiered_cache_read(s->cache, s->held_keys, s->held_values);
    for (size_t i = 0; i < (size_t)s->n * s->row; i++) {
        assert_true(s->held_keys[i] == rv_half_to_float(rv_half_from_float(s->keys[i])));
        assert_true(s->held_values[i] == rv_half_to_float(rv_half_from_float(s->values[i])));
    }
}

/* ---- what is held -------------------------------------------------------------------------- */

static void in_fp16_rows_come_back_to_the_bit(void **state)
{
    struct ruvllm_kv_cache_config c = small_config();
    struct scene s;

    (void)state;
    c.store = RUVLLM_PRECISION_FP16;
    scene_init(&s, &c);
    append(&s, 1000);
    check_bits(&s);
    scene_release(&s);
}

static void precision_falls_with_age(void **state)
{
    struct ruvllm_kv_cache_config c = small_config();
    struct scene s;

    (void)state;
    c.warm_length = 256;
    scene_init(&s, &c);
    append(&s, 1024);
    check_rows(&s, 0, 512, Q8_MOST, Q4_MOST);
    check_rows(&s, 512, 768, HALF_MOST, Q8_MOST);
    check_rows(&s, 768, 1024, 0, HALF_MOST);
    scene_release(&s);
}

static void a_tail_of_q8_has_full_blocks_in_q8(void **state)
{
    struct ruvllm_kv_cache_config c = small_config();
    struct scene s;

    (void)state;
    c.tail = RUVLLM_PRECISION_Q8;
    scene_init(&s, &c);
    append(&s, 520);
    assert_int_equal(stats_of(&s).store_tokens, 256);
    check_rows(&s, 0, 256, Q8_MOST, Q4_MOST);
    check_rows(&s, 256, 512, HALF_MOST, Q8_MOST);
    check_rows(&s, 512, 520, 0, HALF_MOST);
    scene_release(&s);
}

static void heads_that_cannot_be_quantised_stay_fp16_and_say_so(void **state)
{
    struct ruvllm_kv_cache_config c = small_config();
    struct scene s;

    (void)state;
    c.head_dim = 40;
    scene_init(&s, &c);
    append(&s, 1024);
    assert_false(stats_of(&s).can_quantize);
    assert_int_equal(stats_of(&s).tail_tokens, 1024);
    check_rows(&s, 0, 1024, 0, HALF_MOST);
    scene_release(&s);
}

/* ---- counts -------------------------------------------------------------------------------- */

/* Bytes of n blocks of 8 heads of 128 numbers, of which 32 take `run` bytes. */
static uint64_t bytes_of(int32_t n, uint64_t run)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

    return (uint64_t)n * ((2 * 8 * 128 * run + page - 1) / page * page);
}

static void tokens_and_bytes_are_counted_exactly(void **state)
{
    struct ruvllm_kv_cache_config c = ruvllm_kv_cache_config_default();
    struct ruvllm_kv_cache_stats stats;
    struct scene s;

    (void)state;
    scene_init(&s, &c);
    stats = stats_of(&s);
    assert_true(stats.total_tokens == 0 && stats.tail_bytes == 0 && stats.compression_ratio == 1);
    assert_int_equal(stats.migration_batch, 128); // asked for 64
    append(&s, 1000);                             // the last migration was at 896, and moved what ends at 640 or before
    stats = stats_of(&s);
    assert_int_equal(stats.store_tokens, 640);
    assert_int_equal(stats.tail_tokens, 360);
    assert_true(stats.tail_bytes == bytes_of(12, 64)); // the last block is not full
    assert_true(stats.store_bytes == bytes_of(20, 18));
    assert_true(stats.warm_tokens == 0 && stats.warm_bytes == 0 && stats.evicted_tokens == 0 && stats.can_quantize);
    assert_true(fabs(stats.compression_ratio - 1000.0 * 4 * 8 * 128 / (double)(bytes_of(12, 64) + bytes_of(20, 18))) <
                1e-9);
    scene_release(&s);
}

static void a_warm_tier_and_a_longer_batch_are_kept(void **state)
{
    struct ruvllm_kv_cache_config c = ruvllm_kv_cache_config_default();
    struct ruvllm_kv_cache_stats stats;
    struct scene s;

    (void)state;
    c.warm_length = 200;
    c.migration_batch = 300; // 384
    scene_init(&s, &c);
    append(&s, 1000); // the last migration was at 768
    stats = stats_of(&s);
    assert_int_equal(stats.migration_batch, 384);
    assert_int_equal(stats.store_tokens, 288); // 768 - 456 = 312, in whole blocks
    assert_int_equal(stats.warm_tokens, 512 - 288);
    assert_int_equal(stats.tail_tokens, 1000 - 512);
    assert_true(stats.store_bytes == bytes_of(9, 18));
    assert_true(stats.warm_bytes == bytes_of(7, 34));
    assert_true(stats.tail_bytes == bytes_of(16, 64));
    scene_release(&s);
}

/* ---- growing and forgetting ---------------------------------------------------------------- */

static void a_full_cache_forgets_its_oldest_block(void **state)
{
    struct ruvllm_kv_cache_config c = small_config();
    struct scene s;

    (void)state;
    c.max_tokens = 1000;
    scene_init(&s, &c);
    append(&s, 1000);
    assert_int_equal(stats_of(&s).evicted_tokens, 0);
    append(&s, 1);
    assert_int_equal(stats_of(&s).total_tokens, 969);
    assert_int_equal(stats_of(&s).evicted_tokens, 32);
    for (int i = 0; i < 100; i++) {
        struct ruvllm_kv_cache_stats stats;

        append(&s, 1 + i % 40);
        stats = stats_of(&s);
        assert_true(stats.total_tokens <= 1000 && stats.total_tokens > 1000 - BLOCK);
        assert_true(stats.evicted_tokens + (uint64_t)stats.total_tokens == (uint64_t)s.n);
        assert_true(stats.tail_tokens >= c.tail_length && stats.tail_tokens <= c.tail_length + 128 + 158);
    }
    check_rows(&s, 0, rv_tiered_cache_n_tokens(s.cache), 0, Q4_MOST); // the newest rows, in order
    check_rows(&s, 0, 500, Q8_MOST, Q4_MOST);
    scene_release(&s);
}

static void the_smallest_cache_works(void **state)
{
    struct ruvllm_kv_cache_config c = small_config();
    struct scene s;

    (void)state;
    c.max_tokens = 32;
    scene_init(&s, &c);
    append(&s, 320);
    assert_int_equal(stats_of(&s).total_tokens, 32);
    append(&s, 1);
    assert_int_equal(stats_of(&s).total_tokens, 1);
    check_rows(&s, 0, 1, 0, HALF_MOST);
    scene_release(&s);
}

/* One at a time, all at once, and in pieces: the same bits. */
static void what_is_held_does_not_depend_on_the_calls(void **state)
{
    struct ruvllm_kv_cache_config c = small_config();
    struct scene one, all;
    struct rv_rng rng;

    (void)state;
    c.max_tokens = 700;
    c.tail_length = 100;
    c.warm_length = 100;
    rv_rng_init(&rng, 2);
    scene_init(&one, &c);
    scene_init(&all, &c);
    while (all.n < 5000) {
        int32_t n = 1 + (int32_t)rv_rng_below(&rng, rv_rng_below(&rng, 5) ? 60 : 1000);
        struct ruvllm_kv_cache_stats a, b;

        append(&all, n);
        while (one.n < all.n)
            append(&one, 1);
        a = stats_of(&one);
        b = stats_of(&all);
        assert_true(a.total_tokens == b.total_tokens && a.tail_tokens == b.tail_tokens &&
                    a.store_tokens == b.store_tokens && a.evicted_tokens == b.evicted_tokens);
        rv_tiered_cache_read(one.cache, one.held_keys, one.held_values);
        rv_tiered_cache_read(all.cache, all.held_keys, all.held_values);
        assert_memory_equal(one.held_keys, all.held_keys, (size_t)a.total_tokens * one.row * sizeof(float));
        assert_memory_equal(one.held_values, all.held_values, (size_t)a.total_tokens * one.row * sizeof(float));
    }
    scene_release(&one);
    scene_release(&all);
}

static void clearing_leaves_a_new_cache(void **state)
{
    struct ruvllm_kv_cache_config c = small_config();
    struct scene s;

    (void)state;
    c.max_tokens = 500;
    scene_init(&s, &c);
    append(&s, 777);
    rv_tiered_cache_clear(s.cache);
    s.n = 0;
    assert_true(rv_tiered_cache_check(s.cache));
    assert_true(stats_of(&s).total_tokens == 0 && stats_of(&s).evicted_tokens == 0);
    append(&s, 480);
    assert_int_equal(stats_of(&s).store_tokens, 384 - 256);
    check_rows(&s, 128, 480, 0, HALF_MOST);
    scene_release(&s);
}

/* ---- attention ----------------------------------------------------------------------------- */

/* Attention of one head over rows as they were read back. */
static void reference(const struct scene *s, const float *query, int32_t head, double *out)
{
    int32_t dim = s->config.head_dim, n = rv_tiered_cache_n_tokens(s->cache);
    size_t kv = (size_t)(head / (s->config.n_heads / s->config.n_kv_heads)) * (size_t)dim;
    static double scores[MAX];
    double max = -INFINITY, total = 0;

    for (int32_t i = 0; i < n; i++) {
        scores[i] = 0;
        for (int32_t d = 0; d < dim; d++)
            scores[i] += (double)query[head * dim + d] * (double)s->held_keys[(size_t)i * s->row + kv + (size_t)d];
        scores[i] *= 0.05;
        max = fmax(max, scores[i]);
    }
    for (int32_t i = 0; i < n; i++)
        total += exp(scores[i] - max);
    memset(out, 0, (size_t)dim * sizeof(*out));
    for (int32_t i = 0; i < n; i++)
        for (int32_t d = 0; d < dim; d++)
            out[d] += exp(scores[i] - max) / total * (double)s->held_values[(size_t)i * s->row + kv + (size_t)d];
}

/*
 * Rows read back are what attention sees, but for the roundings of two rotations. Scores sum up terms of sizes up to 20
 * in floats: 2^-24 of some tens, and weights are off by that factor.
 */
static void check_attention(const struct scene *s)
{
    int32_t dim = s->config.head_dim, n_heads = s->config.n_heads;
    float *query = floats((size_t)n_heads * (size_t)dim), *out = floats((size_t)n_heads * (size_t)dim);
    double wanted[512];
    struct rv_rng rng;

    rv_rng_init(&rng, (uint64_t)s->n);
    for (int32_t i = 0; i < n_heads * dim; i++)
        query[i] = (float)rv_rng_normal(&rng);
    rv_tiered_cache_read(s->cache, s->held_keys, s->held_values);
    rv_tiered_cache_attend(s->cache, query, 0.05f, out);
    for (int32_t head = 0; head < n_heads; head++) {
        reference(s, query, head, wanted);
        for (int32_t d = 0; d < dim; d++)
            if (!(fabs((double)out[head * dim + d] - wanted[d]) < 3e-5))
                fail_msg("after %d tokens head %d, dim %d: %.9g, not %.9g", (int)s->n, (int)head, (int)d,
                         (double)out[head * dim + d], wanted[d]);
    }
    free(query);
    free(out);
}

static void attention_is_the_formula_over_what_is_held(void **state)
{
    static const int32_t shapes[][3] = {{4, 2, 64}, {6, 3, 40}, {70, 1, 32}, {8, 8, 128}};

    (void)state;
    for (int i = 0; i < 4; i++) {
        struct ruvllm_kv_cache_config c = small_config();
        struct scene s;

        c.n_heads = shapes[i][0];
        c.n_kv_heads = shapes[i][1];
        c.head_dim = shapes[i][2];
        c.warm_length = i % 2 ? 128 : 0;
        c.max_tokens = 900;
        scene_init(&s, &c);
        for (int round = 0; round < 12; round++) {
            append(&s, round % 3 ? 150 : 7);
            check_attention(&s);
        }
        scene_release(&s);
    }
}

static void growing_and_attending_allocate_nothing(void **state)
{
    struct ruvllm_kv_cache_config c = small_config();
    float query[4 * 64] = {1}, out[4 * 64];
    struct scene s;
    long before;

    (void)state;
    c.max_tokens = 700;
    scene_init(&s, &c);
    before = n_allocations;
    assert_true(before > 0);
    append(&s, 2000);
    rv_tiered_cache_attend(s.cache, query, 1.0f, out);
    rv_tiered_cache_clear(s.cache);
    append(&s, 2000);
    assert_int_equal(n_allocations, before);
    scene_release(&s);
}

/* ---- policies ------------------------------------------------------------------------------ */

static void a_lower_precision_counts_for_what_is_held(void **state)
{
    struct ruvllm_kv_cache_config c = small_config();
    struct scene s;

    (void)state;
    c.store = RUVLLM_PRECISION_FP16;
    scene_init(&s, &c);
    append(&s, 1000);
    c.store = RUVLLM_PRECISION_Q4;
    assert_ok(rv_tiered_cache_update_policy(s.cache, &c, err));
    assert_true(rv_tiered_cache_check(s.cache));
    assert_int_equal(stats_of(&s).store_tokens, 640);
    check_rows(&s, 0, 640, Q8_MOST, Q4_MOST); // rotated before they were quantised: else outliers would cost more
    check_rows(&s, 640, 1000, 0, HALF_MOST);
    check_attention(&s);
    append(&s, 1000);
    check_attention(&s);
    scene_release(&s);
}

static void precision_that_is_gone_stays_gone(void **state)
{
    struct ruvllm_kv_cache_config c = small_config();
    struct scene s;

    (void)state;
    scene_init(&s, &c);
    append(&s, 1024);
    c.store = RUVLLM_PRECISION_FP16;
    assert_ok(rv_tiered_cache_update_policy(s.cache, &c, err));
    append(&s, 1024);
    assert_int_equal(stats_of(&s).store_tokens, 768);
    check_rows(&s, 0, 768, Q8_MOST, Q4_MOST);
    check_rows(&s, 768, 2048, 0, HALF_MOST);
    check_attention(&s);
    rv_tiered_cache_clear(s.cache);
    s.n = 0;
    append(&s, 1024);
    assert_int_equal(stats_of(&s).tail_tokens, 1024);
    check_bits(&s); // nothing is left of the old policy
    scene_release(&s);
}

static void a_lower_limit_evicts_at_once(void **state)
{
    struct ruvllm_kv_cache_config c = small_config();
    struct scene s;

    (void)state;
    scene_init(&s, &c);
    append(&s, 1010);
    c.max_tokens = 500;
    c.tail_length = 64;
    assert_ok(rv_tiered_cache_update_policy(s.cache, &c, err));
    assert_int_equal(stats_of(&s).total_tokens, 1010 - 16 * BLOCK);
    assert_int_equal(stats_of(&s).evicted_tokens, 16 * BLOCK);
    assert_int_equal(stats_of(&s).store_tokens, 384 - 64);
    check_rows(&s, 0, 320, Q8_MOST, Q4_MOST);
    append(&s, 500);
    check_attention(&s);
    c.max_tokens = 4096; // what it was made for
    assert_ok(rv_tiered_cache_update_policy(s.cache, &c, err));
    append(&s, 3700); // 486 were held: 4186 less 3 blocks
    assert_int_equal(stats_of(&s).total_tokens, 4186 - 3 * BLOCK);
    scene_release(&s);
}

static void refuse_policy(struct scene *s, const struct ruvllm_kv_cache_config *c, const char *text)
{
    struct ruvllm_kv_cache_stats before = stats_of(s), after;
    struct ruvllm_error err = {0};

    assert_fails(rv_tiered_cache_update_policy(s->cache, c, &err), RUVLLM_INVALID, err, text);
    after = stats_of(s);
    assert_int_equal(before.total_tokens, after.total_tokens);
    assert_int_equal(before.tail_tokens, after.tail_tokens);
    assert_int_equal(before.store_tokens, after.store_tokens);
    assert_int_equal(before.tail_bytes, after.tail_bytes);
    assert_int_equal(before.store_bytes, after.store_bytes);
}

static void refuse_config(const struct ruvllm_kv_cache_config *c, const char *text)
{
    struct ruvllm_kv_cache *cache = (void *)1;
    struct ruvllm_error err = {0};

    assert_fails(rv_tiered_cache_new(&cache, c, &err), RUVLLM_INVALID, err, text);
    assert_null(cache);
}

static void what_cannot_be_kept_is_refused(void **state)
{
    struct ruvllm_kv_cache_config c = small_config();
    struct scene s;

    (void)state;
    scene_init(&s, &c);
    append(&s, 600);
    c.head_dim = 128;
    refuse_policy(&s, &c, "head_dim");
    c = s.config;
    c.max_tokens = 4097;
    refuse_policy(&s, &c, "made for at most 4096");
    c = s.config;
    c.max_tokens = 31;
    refuse_policy(&s, &c, "'max_tokens'");
    scene_release(&s);
    c = small_config();
    c.tail_length = -1;
    refuse_config(&c, "'tail_length'");
    c = small_config();
    c.warm_length = -1;
    refuse_config(&c, "'warm_length'");
    c = small_config();
    c.migration_batch = 0;
    refuse_config(&c, "'migration_batch'");
    c = small_config();
    c.tail = RUVLLM_PRECISION_Q4;
    refuse_config(&c, "the tail can be");
    c = small_config();
    c.tail = RUVLLM_PRECISION_Q8;
    c.store = RUVLLM_PRECISION_FP16;
    refuse_config(&c, "no finer than the tail");
    c = small_config();
    c.store = RUVLLM_PRECISION_FP32;
    refuse_config(&c, "FP16, Q8 or Q4");
    c = small_config();
    c.n_heads = 5;
    refuse_config(&c, "5 heads");
    c = small_config();
    c.head_dim = 12;
    refuse_config(&c, "'head_dim'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_fp16_rows_come_back_to_the_bit),
        cmocka_unit_test(precision_falls_with_age),
        cmocka_unit_test(a_tail_of_q8_has_full_blocks_in_q8),
        cmocka_unit_test(heads_that_cannot_be_quantised_stay_fp16_and_say_so),
        cmocka_unit_test(tokens_and_bytes_are_counted_exactly),
        cmocka_unit_test(a_warm_tier_and_a_longer_batch_are_kept),
        cmocka_unit_test(a_full_cache_forgets_its_oldest_block),
        cmocka_unit_test(the_smallest_cache_works),
        cmocka_unit_test(what_is_held_does_not_depend_on_the_calls),
        cmocka_unit_test(clearing_leaves_a_new_cache),
        cmocka_unit_test(attention_is_the_formula_over_what_is_held),
        cmocka_unit_test(growing_and_attending_allocate_nothing),
        cmocka_unit_test(a_lower_precision_counts_for_what_is_held),
        cmocka_unit_test(precision_that_is_gone_stays_gone),
        cmocka_unit_test(a_lower_limit_evicts_at_once),
        cmocka_unit_test(what_cannot_be_kept_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
