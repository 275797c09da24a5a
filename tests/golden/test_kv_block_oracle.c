/* Halves and quantised blocks against ggml's own: the same bits. */
#include "kernels/kv_block.h"
#include "support/test.h"

#include "base/rng.h"
#include "kernels/half.h"

#include <ggml.h>

#include <math.h>
#include <string.h>

enum { TOKENS = RV_KV_BLOCK_TOKENS, DIM = 128, CHUNK = 32, ROUNDS = 200 };

/* One chunk as ggml packs it: a half, then 32 or 16 bytes. */
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

static void quantise(enum rv_kv_block_format format, const float *chunk, struct packed *out)
{
    bool q8 = format == RV_KV_BLOCK_Q8;
    uint8_t bytes[2 + CHUNK];

    ggml_quantize_chunk(q8 ? GGML_TYPE_Q8_0 : GGML_TYPE_Q4_0, chunk, bytes, 0, 1, CHUNK, NULL);
    memcpy(&out->scale, bytes, 2);
    memcpy(out->numbers, bytes + 2, q8 ? CHUNK : CHUNK / 2);
}

/* The chunk with token t's numbers c * 32 and on, found where kv_block.h draws it. */
static void find_key(enum rv_kv_block_format format, const uint8_t *k, int32_t t, int32_t c, struct packed *out)
{
    const uint8_t *chunk = k + (size_t)c * rv_kv_block_bytes(format, CHUNK);

    memcpy(&out->scale, chunk + t * 2, 2);
    for (int32_t j = 0; j < (format == RV_KV_BLOCK_Q8 ? CHUNK : CHUNK / 2); j++)
        out->numbers[j] = chunk[TOKENS * 2 + j * TOKENS + t];
}

static void find_value(enum rv_kv_block_format format, const uint8_t *v, int32_t t, int32_t c, struct packed *out)
{
    int32_t bytes = format == RV_KV_BLOCK_Q8 ? CHUNK : CHUNK / 2;

    memcpy(&out->scale, v + (c * TOKENS + t) * 2, 2);
    memcpy(out->numbers, v + DIM / CHUNK * TOKENS * 2 + (t * DIM / CHUNK + c) * bytes, (size_t)bytes);
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

static void compare(enum rv_kv_block_format from, const uint8_t *k, const uint8_t *v, enum rv_kv_block_format to)
{
    static uint8_t k_out[TOKENS * DIM * 2], v_out[TOKENS * DIM * 2];
    float k_row[DIM], v_row[DIM];
    struct packed ours = {0}, theirs = {0};

    rv_kv_block_convert(from, k, v, to, k_out, v_out, DIM);
    for (int32_t t = 0; t < TOKENS; t++) {
        rv_kv_block_get(from, k, v, DIM, t, k_row, v_row);
        for (int32_t c = 0; c < DIM / CHUNK; c++) {
            find_key(to, k_out, t, c, &ours);
            quantise(to, k_row + c * CHUNK, &theirs);
            assert_memory_equal(&ours, &theirs, sizeof(ours));
            find_value(to, v_out, t, c, &ours);
            quantise(to, v_row + c * CHUNK, &theirs);
            assert_memory_equal(&ours, &theirs, sizeof(ours));
        }
    }
}

static void blocks_hold_the_bits_of_q8_0_and_q4_0(void **state)
{
    static uint8_t k[TOKENS * DIM * 2], v[TOKENS * DIM * 2], k8[TOKENS * DIM * 2], v8[TOKENS * DIM * 2];
    struct rv_rng rng;

    (void)state;
    rv_rng_init(&rng, 2);
    for (int round = 0; round < ROUNDS; round++) {
        for (int32_t t = 0; t < TOKENS; t++) {
            float k_row[DIM], v_row[DIM];

            for (int32_t d = 0; d < DIM; d++) {
                k_row[d] = number(&rng, round % 6);
                v_row[d] = number(&rng, round % 6);
            }
            rv_kv_block_put(k, v, DIM, t, k_row, v_row);
        }
        compare(RV_KV_BLOCK_F16, k, v, RV_KV_BLOCK_Q8);
        compare(RV_KV_BLOCK_F16, k, v, RV_KV_BLOCK_Q4);
        rv_kv_block_convert(RV_KV_BLOCK_F16, k, v, RV_KV_BLOCK_Q8, k8, v8, DIM);
        compare(RV_KV_BLOCK_Q8, k8, v8, RV_KV_BLOCK_Q4);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(halves_are_ggmls),
        cmocka_unit_test(blocks_hold_the_bits_of_q8_0_and_q4_0),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
