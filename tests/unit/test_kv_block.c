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
    struct block b = {malloc(rv_kv_block_k_bytes(format, dim)), malloc(rv_kv_block_v_bytes(format, dim))};

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
    size_t bytes;

    (void)state;
    assert_int_equal(rv_kv_block_k_bytes(RV_KV_BLOCK_F16, 40), 40 * 64);
    assert_int_equal(rv_kv_block_v_bytes(RV_KV_BLOCK_F16, 40), 40 * 64);
    assert_int_equal(rv_kv_block_k_bytes(RV_KV_BLOCK_Q8, 64), 2 * 32 * 34);
    assert_int_equal(rv_kv_block_v_bytes(RV_KV_BLOCK_Q8, 64), 2 * 32 * 34);
    assert_int_equal(rv_kv_block_k_bytes(RV_KV_BLOCK_Q4, 128), 4 * 32 * 18 + 128 + 4 * 2);
    assert_int_equal(rv_kv_block_v_bytes(RV_KV_BLOCK_Q4, 128), 32 * (128 / 2 + 2));
    /* What the means cost, the values give back: 32 numbers take 18 bytes. */
    bytes = rv_kv_block_k_bytes(RV_KV_BLOCK_Q4, 64) + rv_kv_block_v_bytes(RV_KV_BLOCK_Q4, 64);
    assert_true(bytes >= 4 * 32 * 18 && bytes <= 4 * 32 * 18 + 4);
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

        memset(b.k, 0xEE, rv_kv_block_k_bytes(RV_KV_BLOCK_F16, dim));
        memset(b.v, 0xEE, rv_kv_block_v_bytes(RV_KV_BLOCK_F16, dim));
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
    memset(q8.k, 0, rv_kv_block_k_bytes(RV_KV_BLOCK_Q8, DIM));
    memset(q8.v, 0, rv_kv_block_v_bytes(RV_KV_BLOCK_Q8, DIM));
    memset(q4.k, 0, rv_kv_block_k_bytes(RV_KV_BLOCK_Q4, DIM));
    memset(q4.v, 0, rv_kv_block_v_bytes(RV_KV_BLOCK_Q4, DIM));
    /* Key number 35 is number 3 of the second chunk. */
    ((uint16_t *)(q8.k + 64 + 1024))[SLOT] = rv_half_from_float(0.5f);
    q8.k[64 + 1024 + 64 + 3 * TOKENS + SLOT] = (uint8_t)-7;
    ((uint16_t *)q8.v)[TOKENS + SLOT] = rv_half_from_float(0.25f);
    q8.v[2 * 64 + SLOT * DIM + 35] = 100;
    rv_kv_block_get(RV_KV_BLOCK_Q8, q8.k, q8.v, DIM, SLOT, k, v);
    assert_true(k[35] == -3.5f && k[34] == 0.0f && v[35] == 25.0f && v[36] == 0.0f);
    /* Numbers 35 and 51 are 3 and 3 + 16 of the second chunk, and share a byte; code 0 is -127, code 15 is 113. */
    ((uint16_t *)(q4.k + 64 + 512))[SLOT] = rv_half_from_float(0.5f);
    q4.k[64 + 512 + 64 + 3 * TOKENS + SLOT] = 0xF0;
    q4.k[2 * (64 + 512) + 35] = (uint8_t)-3; // means, and their scales behind them
    ((uint16_t *)(q4.k + 2 * (64 + 512) + DIM))[1] = rv_half_from_float(2.0f);
    ((uint16_t *)q4.v)[SLOT] = rv_half_from_float(0.25f);
    q4.v[64 + SLOT * DIM / 2 + 16 + 3] = 0x8F;
    rv_kv_block_get(RV_KV_BLOCK_Q4, q4.k, q4.v, DIM, SLOT, k, v);
    assert_true(k[35] == -63.5f - 6.0f && k[51] == 56.5f && k[36] == -63.5f && k[3] == 0.0f);
    assert_true(v[35] == 28.25f && v[51] == 0.25f && v[52] == -31.75f && v[3] == -31.75f);
    block_free(&q8);
    block_free(&q4);
}

static double size_of(const float *row, int32_t n)
{
    double largest = 0;

    for (int32_t d = 0; d < n; d++)
        largest = fabs((double)row[d]) > largest ? fabs((double)row[d]) : largest;
    return largest;
}

/* Half a step of the scale, and the scale's own rounding to a half (2^-11 of it, and as little in the subnormals). */
static void check_loss_of_8(const float *before, const float *after, int32_t dim)
{
    for (int32_t c = 0; c < dim; c += 32) {
        double largest = size_of(before + c, 32);

        for (int32_t d = c; d < c + 32; d++)
            assert_true(fabs((double)before[d] - (double)after[d]) <= largest / 127 / 2 + largest * 0x1p-10 + 1e-5);
    }
}

struct losses {
    double lost, had; // squares
    double largest;   // of one number, as a part of what the largest of its row was
};

static void add_loss(struct losses *sum, const float *before, const float *after, int32_t dim, double largest)
{
    for (int32_t d = 0; d < dim; d++) {
        double lost = fabs((double)before[d] - (double)after[d]);

        sum->lost += lost * lost;
        sum->had += (double)before[d] * (double)before[d];
        sum->largest = lost / largest > sum->largest ? lost / largest : sum->largest;
    }
}

static void conversion_to_8_bits_loses_at_most_half_a_step(void **state)
{
    struct rv_rng rng;

    (void)state;
    rv_rng_init(&rng, 5);
    for (size_t s = 0; s < sizeof(dims) / sizeof(dims[0]); s++) {
        int32_t dim = dims[s];
        struct block half = block_new(RV_KV_BLOCK_F16, dim), out = block_new(RV_KV_BLOCK_Q8, dim);
        float k[2][MAX_DIM], v[2][MAX_DIM];

        fill(&rng, &half, dim);
        rv_kv_block_convert(RV_KV_BLOCK_F16, half.k, half.v, RV_KV_BLOCK_Q8, out.k, out.v, dim);
        for (int32_t t = 0; t < TOKENS; t++) {
            rv_kv_block_get(RV_KV_BLOCK_F16, half.k, half.v, dim, t, k[0], v[0]);
            rv_kv_block_get(RV_KV_BLOCK_Q8, out.k, out.v, dim, t, k[1], v[1]);
            check_loss_of_8(k[0], k[1], dim);
            check_loss_of_8(v[0], v[1], dim);
        }
        block_free(&half);
        block_free(&out);
    }
}

/* Normal numbers, with `common` times a vector that all keys share. */
static void fill_normal(struct rv_rng *rng, struct block *b, int32_t dim, double common)
{
    float k[MAX_DIM], v[MAX_DIM], shared[MAX_DIM];

    for (int32_t d = 0; d < dim; d++)
        shared[d] = (float)(rv_rng_normal(rng) * common);
    for (int32_t t = 0; t < TOKENS; t++) {
        for (int32_t d = 0; d < dim; d++) {
            k[d] = shared[d] + (float)rv_rng_normal(rng);
            v[d] = (float)rv_rng_normal(rng);
        }
        rv_kv_block_put(b->k, b->v, dim, t, k, v);
    }
}

static void convert_to_4(struct rv_rng *rng, enum rv_kv_block_format from, int32_t dim, double common,
                         struct losses *keys, struct losses *values)
{
    struct block half = block_new(RV_KV_BLOCK_F16, dim), in = block_new(RV_KV_BLOCK_Q8, dim);
    struct block out = block_new(RV_KV_BLOCK_Q4, dim);
    struct block *source = from == RV_KV_BLOCK_F16 ? &half : &in;
    float k[2][MAX_DIM], v[2][MAX_DIM];

    fill_normal(rng, &half, dim, common);
    rv_kv_block_convert(RV_KV_BLOCK_F16, half.k, half.v, RV_KV_BLOCK_Q8, in.k, in.v, dim);
    rv_kv_block_convert(from, source->k, source->v, RV_KV_BLOCK_Q4, out.k, out.v, dim);
    for (int32_t t = 0; t < TOKENS; t++) {
        rv_kv_block_get(from, source->k, source->v, dim, t, k[0], v[0]);
        rv_kv_block_get(RV_KV_BLOCK_Q4, out.k, out.v, dim, t, k[1], v[1]);
        add_loss(keys, k[0], k[1], dim, size_of(k[0], dim) + 3 * common);
        add_loss(values, v[0], v[1], dim, size_of(v[0], dim));
    }
    block_free(&half);
    block_free(&in);
    block_free(&out);
}

/* Whole steps with the same bytes lose 0.0072 of normal numbers; values share a scale among more of them. */
static void conversion_to_4_bits_loses_little(void **state)
{
    struct rv_rng rng;

    (void)state;
    rv_rng_init(&rng, 6);
    for (enum rv_kv_block_format from = RV_KV_BLOCK_F16; from <= RV_KV_BLOCK_Q8; from++) {
        struct losses keys = {0}, values = {0};

        for (int i = 0; i < 40; i++)
            convert_to_4(&rng, from, 64, 0, &keys, &values);
        print_message("keys lose %.5f, values %.5f\n", keys.lost / keys.had, values.lost / values.had);
        assert_true(keys.lost / keys.had < 0.0061 && values.lost / values.had < 0.0073);
        assert_true(keys.largest < 0.2 && values.largest < 0.2);
    }
}

/* The common part may be far larger than the rest: the error is that of the rest. */
static void what_keys_have_in_common_costs_nothing(void **state)
{
    struct losses plain = {0}, shifted = {0}, values = {0};
    struct rv_rng rng;

    (void)state;
    rv_rng_init(&rng, 7);
    for (size_t s = 0; s < sizeof(dims) / sizeof(dims[0]); s++) {
        convert_to_4(&rng, RV_KV_BLOCK_F16, dims[s], 0, &plain, &values);
        convert_to_4(&rng, RV_KV_BLOCK_F16, dims[s], 8, &shifted, &values);
    }
    print_message("squared error %.1f alone, %.1f with much in common\n", plain.lost, shifted.lost);
    assert_true(shifted.lost < plain.lost * 1.1);
}

/* In keys its own 32 numbers, in values its own token. */
static void zeros_stay_zeros_and_nan_harms_only_its_own(void **state)
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
            for (int32_t d = t == 3 ? 32 : 0; d < DIM; d++) {
                assert_true(fabsf(k[d] - (t == 3 ? 1.0f : 0.0f)) < 2e-2f);
                assert_true(t == 3 || v[d] == 0.0f);
            }
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
        cmocka_unit_test(conversion_to_8_bits_loses_at_most_half_a_step),
        cmocka_unit_test(conversion_to_4_bits_loses_little),
        cmocka_unit_test(what_keys_have_in_common_costs_nothing),
        cmocka_unit_test(zeros_stay_zeros_and_nan_harms_only_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
