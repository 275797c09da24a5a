/* Halves and blocks of eight bits against ggml's own: the same bits. Four bits: its codes, and errors no larger. */
#include "kernels/kv_block.h"
#include "support/test.h"

#include "base/rng.h"
#include "kernels/half.h"

#include <ggml.h>

#include <math.h>
#include <string.h>

enum { TOKENS = RV_KV_BLOCK_TOKENS, DIM = 128, CHUNK = 32, ROUNDS = 200 };

/* One chunk as ggml packs Q8_0. */
struct packed {
    uint16_t scale;
    uint8_t numbers[CHUNK];
};

static void halves_are_ggmls(void **state)
{
    struct rv_rng rng;

    (void)state;
    rv_rng_init(&rng, 1);
    for (uint32_t i = 0; i < 2000000; i++) {
        uint32_t bits = (uint32_t)rv_rng_next(&rng);
        float x;

        memcpy(&x, &bits, sizeof(x));
        if (isnan(x))
            continue;
        assert_int_equal(rv_half_from_float(x), ggml_fp32_to_fp16(x));
        assert_int_equal(rv_half_from_float(x * 1e-30f), ggml_fp32_to_fp16(x * 1e-30f));
    }
}

static void quantise(const float *chunk, struct packed *out)
{
    uint8_t bytes[2 + CHUNK];

    ggml_quantize_chunk(GGML_TYPE_Q8_0, chunk, bytes, 0, 1, CHUNK, NULL);
    memcpy(&out->scale, bytes, 2);
    memcpy(out->numbers, bytes + 2, CHUNK);
}

/* The chunk with token t's numbers c * 32 and on, found where kv_block.h draws it. */
static void find_key(const uint8_t *k, int32_t t, int32_t c, struct packed *out)
{
    const uint8_t *chunk = k + (size_t)c * TOKENS * 34;

    memcpy(&out->scale, chunk + t * 2, 2);
    for (int32_t j = 0; j < CHUNK; j++)
        out->numbers[j] = chunk[TOKENS * 2 + j * TOKENS + t];
}

static void find_value(const uint8_t *v, int32_t t, int32_t c, struct packed *out)
{
    memcpy(&out->scale, v + (c * TOKENS + t) * 2, 2);
    memcpy(out->numbers, v + DIM / CHUNK * TOKENS * 2 + t * DIM + c * CHUNK, CHUNK);
}

/* Normal numbers, whole halves of steps that decide ties, equal sizes of both signs, subnormals, zeros. */
static float number(struct rv_rng *rng, int kind)
{
    double x = rv_rng_normal(rng);

    return kind == 0   ? (float)x
           : kind == 1 ? (float)rint(x * 3) / 2
           : kind == 2 ? (x > 0 ? 1.0f : -1.0f)
           : kind == 3 ? (float)(x * 1e-6)
           : kind == 4 ? 0.0f
                       : (float)(x * 10000);
}

static void compare(const uint8_t *k, const uint8_t *v)
{
    static uint8_t k_out[TOKENS * DIM * 2], v_out[TOKENS * DIM * 2];
    float k_row[DIM], v_row[DIM];
    struct packed ours, theirs;

    rv_kv_block_convert(RV_KV_BLOCK_F16, k, v, RV_KV_BLOCK_Q8, k_out, v_out, DIM);
    for (int32_t t = 0; t < TOKENS; t++) {
        rv_kv_block_get(RV_KV_BLOCK_F16, k, v, DIM, t, k_row, v_row);
        for (int32_t c = 0; c < DIM / CHUNK; c++) {
            find_key(k_out, t, c, &ours);
            quantise(k_row + c * CHUNK, &theirs);
            assert_memory_equal(&ours, &theirs, sizeof(ours));
            find_value(v_out, t, c, &ours);
            quantise(v_row + c * CHUNK, &theirs);
            assert_memory_equal(&ours, &theirs, sizeof(ours));
        }
    }
}

static void fill(struct rv_rng *rng, uint8_t *k, uint8_t *v, int32_t dim, int kind)
{
    for (int32_t t = 0; t < TOKENS; t++) {
        float k_row[DIM], v_row[DIM];

        for (int32_t d = 0; d < dim; d++) {
            k_row[d] = number(rng, kind);
            v_row[d] = number(rng, kind);
        }
        rv_kv_block_put(k, v, dim, t, k_row, v_row);
    }
}

static void blocks_of_8_bits_hold_the_bits_of_q8_0(void **state)
{
    static uint8_t k[TOKENS * DIM * 2], v[TOKENS * DIM * 2];
    struct rv_rng rng;

    (void)state;
    rv_rng_init(&rng, 2);
    for (int round = 0; round < ROUNDS; round++) {
        fill(&rng, k, v, DIM, round % 6);
        compare(k, v);
    }
}

/* With 32 numbers a head a token's values are one chunk as ggml packs IQ4_NL: a half, then 16 bytes. */
static void values_of_4_bits_are_read_by_ggml_and_lose_no_more(void **state)
{
    static uint8_t k[TOKENS * CHUNK * 2], v[TOKENS * CHUNK * 2], k4[TOKENS * CHUNK * 2], v4[TOKENS * CHUNK * 2];
    ggml_to_float_t to_float = ggml_get_type_traits(GGML_TYPE_IQ4_NL)->to_float;
    double ours = 0, theirs = 0;
    struct rv_rng rng;

    (void)state;
    rv_rng_init(&rng, 3);
    for (int round = 0; round < ROUNDS; round++) {
        fill(&rng, k, v, CHUNK, 0);
        rv_kv_block_convert(RV_KV_BLOCK_F16, k, v, RV_KV_BLOCK_Q4, k4, v4, CHUNK);
        for (int32_t t = 0; t < TOKENS; t++) {
            float before[CHUNK], after[CHUNK], key[CHUNK], read[CHUNK];
            uint8_t bytes[2 + CHUNK / 2];

            rv_kv_block_get(RV_KV_BLOCK_F16, k, v, CHUNK, t, key, before);
            rv_kv_block_get(RV_KV_BLOCK_Q4, k4, v4, CHUNK, t, key, after);
            memcpy(bytes, v4 + t * 2, 2);
            memcpy(bytes + 2, v4 + TOKENS * 2 + t * CHUNK / 2, CHUNK / 2);
            to_float(bytes, read, CHUNK);
            assert_memory_equal(after, read, sizeof(read));
            ggml_quantize_chunk(GGML_TYPE_IQ4_NL, before, bytes, 0, 1, CHUNK, NULL);
            to_float(bytes, read, CHUNK);
            for (int32_t j = 0; j < CHUNK; j++) {
                ours += (double)(after[j] - before[j]) * (double)(after[j] - before[j]);
                theirs += (double)(read[j] - before[j]) * (double)(read[j] - before[j]);
            }
        }
    }
    print_message("squared error: ours %.1f, ggml's own search %.1f\n", ours, theirs);
    assert_true(ours <= theirs * 1.1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(halves_are_ggmls),
        cmocka_unit_test(blocks_of_8_bits_hold_the_bits_of_q8_0),
        cmocka_unit_test(values_of_4_bits_are_read_by_ggml_and_lose_no_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
