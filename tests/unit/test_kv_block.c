/* Blocks: the layouts as the header draws them, and what each lower precision may lose. */
#include "kernels/kv_block.h"
#include "support/test.h"

#include "base/rng.h"
#include "kernels/half.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = RV_KV_BLOCK_TOKENS, MAX_DIM = 256 };

static const int32_t dims[] = {32, 64, 96, 128, 256};

/* Keys and values of one head, allocated to the byte so that ASan sees a step beyond. */
struct block {
    uint8_t *k, *v;
};

static struct block block_new(enum rv_kv_block_format format, int32_t dim)
{
    struct block b = {malloc(rv_kv_block_bytes(format, dim)), malloc(rv_kv_block_bytes(format, dim))};

    assert_non_null(b.k);
    assert_non_null(b.v);
    return b;
}

static void block_free(struct block *b)
{
    free(b->k);
    free(b->v);
}

static void fill(struct rv_rng *rng, struct block *b, int32_t dim)
{
    float k[MAX_DIM], v[MAX_DIM];

    for (int32_t t = 0; t < TOKENS; t++) {
        for (int32_t d = 0; d < dim; d++) {
            k[d] = (float)(rv_rng_normal(rng) * pow(2, rv_rng_normal(rng) * 2));
            v[d] = (float)rv_rng_normal(rng);
        }
        rv_kv_block_put(b->k, b->v, dim, t, k, v);
    }
}

static void thirty_two_numbers_take_64_34_and_18_bytes(void **state)
{
    (void)state;
    assert_int_equal(rv_kv_block_bytes(RV_KV_BLOCK_F16, 40), 40 * 64);
    assert_int_equal(rv_kv_block_bytes(RV_KV_BLOCK_Q8, 64), 2 * 32 * 34);
    assert_int_equal(rv_kv_block_bytes(RV_KV_BLOCK_Q4, 128), 4 * 32 * 18);
}

static void a_token_is_written_to_its_place_and_no_other(void **state)
{
    static const int32_t any[] = {8, 40, 64, 80, 128};

    (void)state;
    for (size_t s = 0; s < sizeof(any) / sizeof(any[0]); s++) {
        int32_t dim = any[s];
        struct block b = block_new(RV_KV_BLOCK_F16, dim);
        uint16_t *k = (uint16_t *)b.k, *v = (uint16_t *)b.v;
        float k_row[128], v_row[128];

        memset(b.k, 0xEE, rv_kv_block_bytes(RV_KV_BLOCK_F16, dim));
        memset(b.v, 0xEE, rv_kv_block_bytes(RV_KV_BLOCK_F16, dim));
        for (int32_t d = 0; d < dim; d++) {
            k_row[d] = 0.1f * (float)(d + 1);
            v_row[d] = -0.3f * (float)(d + 1);
        }
        rv_kv_block_put(b.k, b.v, dim, 5, k_row, v_row);
        for (int32_t t = 0; t < TOKENS; t++) {
            for (int32_t d = 0; d < dim; d++) {
                assert_int_equal(k[d * TOKENS + t], t == 5 ? rv_half_from_float(k_row[d]) : 0xEEEE);
                assert_int_equal(v[t * dim + d], t == 5 ? rv_half_from_float(v_row[d]) : 0xEEEE);
            }
        }
        block_free(&b);
    }
}

static void a_token_comes_back_as_the_nearest_halves(void **state)
{
    struct rv_rng rng;
    struct block b = block_new(RV_KV_BLOCK_F16, 72);
    float in[TOKENS][2][72], k[72], v[72];

    (void)state;
    rv_rng_init(&rng, 4);
    for (int32_t t = 0; t < TOKENS; t++) {
        for (int32_t d = 0; d < 72; d++) {
            in[t][0][d] = (float)rv_rng_normal(&rng);
            in[t][1][d] = (float)rv_rng_normal(&rng);
        }
        rv_kv_block_put(b.k, b.v, 72, t, in[t][0], in[t][1]);
    }
    for (int32_t t = 0; t < TOKENS; t++) {
        rv_kv_block_get(RV_KV_BLOCK_F16, b.k, b.v, 72, t, k, v);
        for (int32_t d = 0; d < 72; d++) {
            assert_true(k[d] == rv_half_to_float(rv_half_from_float(in[t][0][d])));
            assert_true(v[d] == rv_half_to_float(rv_half_from_float(in[t][1][d])));
        }
    }
    block_free(&b);
}

/* A block written by hand from the picture in the header. */
static void quantised_blocks_are_read_as_drawn(void **state)
{
    enum { DIM = 64, SLOT = 9 };
    struct block q8 = block_new(RV_KV_BLOCK_Q8, DIM), q4 = block_new(RV_KV_BLOCK_Q4, DIM);
    float k[DIM], v[DIM];

    (void)state;
    memset(q8.k, 0, rv_kv_block_bytes(RV_KV_BLOCK_Q8, DIM));
    memset(q8.v, 0, rv_kv_block_bytes(RV_KV_BLOCK_Q8, DIM));
    memset(q4.k, 0x88, rv_kv_block_bytes(RV_KV_BLOCK_Q4, DIM));
    memset(q4.v, 0x88, rv_kv_block_bytes(RV_KV_BLOCK_Q4, DIM));
    /* Key number 35 is number 3 of the second chunk. */
    ((uint16_t *)(q8.k + 64 + 1024))[SLOT] = rv_half_from_float(0.5f);
    q8.k[64 + 1024 + 64 + 3 * TOKENS + SLOT] = (uint8_t)-7;
    ((uint16_t *)q8.v)[TOKENS + SLOT] = rv_half_from_float(0.25f);
    q8.v[2 * 64 + SLOT * DIM + 35] = 100;
    rv_kv_block_get(RV_KV_BLOCK_Q8, q8.k, q8.v, DIM, SLOT, k, v);
    assert_true(k[35] == -3.5f && k[34] == 0.0f && v[35] == 25.0f && v[36] == 0.0f);
    /* Numbers 35 and 51 are 3 and 3 + 16 of the second chunk, and share a byte. */
    ((uint16_t *)(q4.k + 64 + 512))[SLOT] = rv_half_from_float(0.5f);
    q4.k[64 + 512 + 64 + 3 * TOKENS + SLOT] = 0xF0;
    ((uint16_t *)q4.v)[TOKENS + SLOT] = rv_half_from_float(0.25f);
    q4.v[2 * 64 + SLOT * DIM / 2 + 16 + 3] = 0x0F;
    rv_kv_block_get(RV_KV_BLOCK_Q4, q4.k, q4.v, DIM, SLOT, k, v);
    assert_true(k[35] == -4.0f && k[51] == 3.5f && k[36] == 0.0f);
    assert_true(v[35] == 1.75f && v[51] == -2.0f && v[52] == 0.0f);
    block_free(&q8);
    block_free(&q4);
}

/* Half a step of the scale, and the scale's own rounding to a half (2^-11 of it, and as little in the subnormals). */
static void check_loss(const float *before, const float *after, int32_t dim, double steps)
{
    for (int32_t c = 0; c < dim; c += 32) {
        double largest = 0, step;

        for (int32_t d = c; d < c + 32; d++)
            largest = fabs((double)before[d]) > largest ? fabs((double)before[d]) : largest;
        step = largest / steps;
        for (int32_t d = c; d < c + 32; d++) {
            double lost = fabs((double)before[d] - (double)after[d]);

            assert_true(lost <= step * (steps == 8 ? 1.0 : 0.5) + largest * 0x1p-10 + 1e-5);
        }
    }
}

/* Q4 goes to 7 at one end and -8 at the other: the end with 7 is cut by up to one step. */
static void conversion_loses_at_most_its_step(void **state)
{
    static const enum rv_kv_block_format from[] = {RV_KV_BLOCK_F16, RV_KV_BLOCK_F16, RV_KV_BLOCK_Q8};
    static const enum rv_kv_block_format to[] = {RV_KV_BLOCK_Q8, RV_KV_BLOCK_Q4, RV_KV_BLOCK_Q4};
    struct rv_rng rng;

    (void)state;
    rv_rng_init(&rng, 5);
    for (size_t s = 0; s < sizeof(dims) / sizeof(dims[0]) * 3; s++) {
        int32_t dim = dims[s / 3];
        struct block half = block_new(RV_KV_BLOCK_F16, dim), in = block_new(from[s % 3], dim);
        struct block out = block_new(to[s % 3], dim);
        float k[2][MAX_DIM], v[2][MAX_DIM];

        fill(&rng, &half, dim);
        if (from[s % 3] == RV_KV_BLOCK_F16) {
            memcpy(in.k, half.k, rv_kv_block_bytes(RV_KV_BLOCK_F16, dim));
            memcpy(in.v, half.v, rv_kv_block_bytes(RV_KV_BLOCK_F16, dim));
        } else {
            rv_kv_block_convert(RV_KV_BLOCK_F16, half.k, half.v, from[s % 3], in.k, in.v, dim);
        }
        rv_kv_block_convert(from[s % 3], in.k, in.v, to[s % 3], out.k, out.v, dim);
        for (int32_t t = 0; t < TOKENS; t++) {
            rv_kv_block_get(from[s % 3], in.k, in.v, dim, t, k[0], v[0]);
            rv_kv_block_get(to[s % 3], out.k, out.v, dim, t, k[1], v[1]);
            check_loss(k[0], k[1], dim, to[s % 3] == RV_KV_BLOCK_Q8 ? 127 : 8);
            check_loss(v[0], v[1], dim, to[s % 3] == RV_KV_BLOCK_Q8 ? 127 : 8);
        }
        block_free(&half);
        block_free(&in);
        block_free(&out);
    }
}

static void zeros_stay_zeros_and_nan_harms_only_its_own_chunk(void **state)
{
    enum { DIM = 64 };
    struct block half = block_new(RV_KV_BLOCK_F16, DIM);
    float row[DIM] = {0}, bad[DIM], k[DIM], v[DIM];

    (void)state;
    for (int32_t d = 0; d < DIM; d++)
        bad[d] = d < 32 ? (d % 3 ? NAN : INFINITY) : 1.0f;
    for (int32_t t = 0; t < TOKENS; t++)
        rv_kv_block_put(half.k, half.v, DIM, t, t == 3 ? bad : row, t == 3 ? bad : row);
    for (enum rv_kv_block_format to = RV_KV_BLOCK_Q8; to <= RV_KV_BLOCK_Q4; to++) {
        struct block out = block_new(to, DIM);

        rv_kv_block_convert(RV_KV_BLOCK_F16, half.k, half.v, to, out.k, out.v, DIM);
        for (int32_t t = 0; t < TOKENS; t++) {
            rv_kv_block_get(to, out.k, out.v, DIM, t, k, v);
            for (int32_t d = t == 3 ? 32 : 0; d < DIM; d++)
                assert_true(fabsf(k[d] - (t == 3 ? 1.0f : 0.0f)) < 1e-3f && fabsf(v[d] - k[d]) < 1e-6f);
        }
        block_free(&out);
    }
    block_free(&half);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thirty_two_numbers_take_64_34_and_18_bytes),
        cmocka_unit_test(a_token_is_written_to_its_place_and_no_other),
        cmocka_unit_test(a_token_comes_back_as_the_nearest_halves),
        cmocka_unit_test(quantised_blocks_are_read_as_drawn),
        cmocka_unit_test(conversion_loses_at_most_its_step),
        cmocka_unit_test(zeros_stay_zeros_and_nan_harms_only_its_own_chunk),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
