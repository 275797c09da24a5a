/*
 * The three layouts, and the way down from one precision to the next. A block is quantised chunk by chunk (32 numbers
 * of 32 tokens) through a tile of floats in which tokens lie along the rows, for values as for keys: the search for
 * each token's largest number then runs in parallel over tokens, and the loops become vector code.
 */
#include "kernels/kv_block.h"

#include "base/error.h"
#include "kernels/half.h"

#include <math.h>

enum {
    TOKENS = RV_KV_BLOCK_TOKENS,
    CHUNK = 32, // numbers that share a scale
    SCALES_BYTES = TOKENS * 2,
};

/* [number][token] of one chunk. */
typedef float tile[CHUNK][TOKENS];
/* What the tile becomes: scales as halves, and integers: -127 to 127 for Q8, 0 to 15 for Q4. */
struct quantised {
    uint16_t scales[TOKENS];
    int8_t numbers[CHUNK][TOKENS];
};

static size_t chunk_bytes(enum rv_kv_block_format format)
{
    return format == RV_KV_BLOCK_F16  ? (size_t)CHUNK * TOKENS * 2
           : format == RV_KV_BLOCK_Q8 ? SCALES_BYTES + (size_t)CHUNK * TOKENS
                                      : SCALES_BYTES + (size_t)CHUNK * TOKENS / 2;
}

size_t rv_kv_block_bytes(enum rv_kv_block_format format, int32_t head_dim)
{
    return (size_t)head_dim * chunk_bytes(format) / CHUNK;
}

void rv_kv_block_put(void *k, void *v, int32_t head_dim, int32_t slot, const float *k_row, const float *v_row)
{
    uint16_t *keys = (uint16_t *)k + slot;
    uint16_t *values = (uint16_t *)v + (size_t)slot * (size_t)head_dim;
    uint16_t row[CHUNK];

    /* Two loops over a piece: converting is vector code, scattering cannot be. */
    for (int32_t d = 0; d < head_dim; d += CHUNK) {
        int32_t n = head_dim - d < CHUNK ? head_dim - d : CHUNK;

        for (int32_t j = 0; j < n; j++)
            row[j] = rv_half_from_float(k_row[d + j]);
        for (int32_t j = 0; j < n; j++)
            keys[(size_t)(d + j) * TOKENS] = row[j];
    }
    for (int32_t d = 0; d < head_dim; d++)
        values[d] = rv_half_from_float(v_row[d]);
}

/* Number j of 32 in a row of packed halves whose bytes are `stride` apart. */
static float nibble(const uint8_t *bytes, int32_t j, size_t stride)
{
    uint8_t both = bytes[(size_t)(j % 16) * stride];

    return (float)((j < 16 ? both & 15 : both >> 4) - 8);
}

static void get_key(enum rv_kv_block_format format, const uint8_t *k, int32_t head_dim, int32_t slot, float *row)
{
    for (int32_t d = 0; d < head_dim; d++) {
        const uint8_t *chunk = k + (size_t)(d / CHUNK) * chunk_bytes(format);
        const uint8_t *numbers = chunk + SCALES_BYTES + slot;
        float scale = rv_half_to_float(((const uint16_t *)chunk)[slot]);
        int32_t j = d % CHUNK;

        if (format == RV_KV_BLOCK_F16)
            row[d] = rv_half_to_float(((const uint16_t *)chunk)[j * TOKENS + slot]);
        else if (format == RV_KV_BLOCK_Q8)
            row[d] = scale * (float)(int8_t)numbers[j * TOKENS];
        else
            row[d] = scale * nibble(numbers, j, TOKENS);
    }
}

static void get_value(enum rv_kv_block_format format, const uint8_t *v, int32_t head_dim, int32_t slot, float *row)
{
    const uint16_t *halves = (const uint16_t *)v;
    const uint8_t *numbers = v + (size_t)(head_dim / CHUNK) * SCALES_BYTES;

    for (int32_t d = 0; d < head_dim; d++) {
        size_t index = (size_t)slot * (size_t)head_dim + (size_t)d;
        int32_t chunk = d / CHUNK, j = d % CHUNK;

        if (format == RV_KV_BLOCK_F16) {
            row[d] = rv_half_to_float(halves[index]);
        } else {
            float scale = rv_half_to_float(halves[chunk * TOKENS + slot]);

            row[d] = scale * (format == RV_KV_BLOCK_Q8 ? (float)(int8_t)numbers[index]
                                                       : nibble(numbers + (index - (size_t)j) / 2, j, 1));
        }
    }
}

void rv_kv_block_get(enum rv_kv_block_format format, const void *k, const void *v, int32_t head_dim, int32_t slot,
                     float *k_row, float *v_row)
{
    get_key(format, k, head_dim, slot, k_row);
    get_value(format, v, head_dim, slot, v_row);
}

static void read_keys(enum rv_kv_block_format format, const uint8_t *chunk, tile out)
{
    const uint16_t *halves = (const uint16_t *)chunk;
    const int8_t *numbers = (const int8_t *)chunk + SCALES_BYTES;
    float scales[TOKENS];

    if (format == RV_KV_BLOCK_F16) {
        for (int j = 0; j < CHUNK; j++)
            for (int t = 0; t < TOKENS; t++)
                out[j][t] = rv_half_to_float(halves[j * TOKENS + t]);
        return;
    }
    for (int t = 0; t < TOKENS; t++)
        scales[t] = rv_half_to_float(halves[t]);
    for (int j = 0; j < CHUNK; j++)
        for (int t = 0; t < TOKENS; t++)
            out[j][t] = scales[t] * (float)numbers[j * TOKENS + t];
}

static void read_values(enum rv_kv_block_format format, const uint8_t *v, int32_t head_dim, int32_t i_chunk, tile out)
{
    const uint16_t *halves = (const uint16_t *)v;
    const int8_t *numbers = (const int8_t *)v + (size_t)(head_dim / CHUNK) * SCALES_BYTES;

    for (int t = 0; t < TOKENS; t++) {
        size_t start = (size_t)t * (size_t)head_dim + (size_t)i_chunk * CHUNK;
        float scale = rv_half_to_float(halves[i_chunk * TOKENS + t]);
        float row[CHUNK];

        for (int j = 0; j < CHUNK; j++)
            row[j] =
                format == RV_KV_BLOCK_F16 ? rv_half_to_float((halves + start)[j]) : scale * (float)(numbers + start)[j];
        for (int j = 0; j < CHUNK; j++)
            out[j][t] = row[j];
    }
}

/* As ggml's Q8_0: the scale makes the largest number 127, integers round half away from zero. */
static void quantise_q8(tile in, struct quantised *out)
{
    float largest[TOKENS] = {0}, inverse[TOKENS];

    for (int j = 0; j < CHUNK; j++)
        for (int t = 0; t < TOKENS; t++)
            largest[t] = fabsf(in[j][t]) > largest[t] ? fabsf(in[j][t]) : largest[t];
    for (int t = 0; t < TOKENS; t++) {
        float scale = largest[t] / 127.0f;

        inverse[t] = scale != 0.0f ? 1.0f / scale : 0.0f;
        out->scales[t] = rv_half_from_float(scale);
    }
    for (int j = 0; j < CHUNK; j++) {
        for (int t = 0; t < TOKENS; t++) {
            float x = in[j][t] * inverse[t], rest;
            int32_t whole;

            x = x < 127.0f ? x : 127.0f; // for NaN, which no integer can hold
            x = x > -127.0f ? x : -127.0f;
            whole = (int32_t)x;
            rest = x - (float)whole;
            whole += (rest >= 0.5f) - (rest <= -0.5f);
            out->numbers[j][t] = (int8_t)whole;
        }
    }
}

/* As ggml's Q4_0: the scale makes the number largest in size -8, so that one end of -8 to 7 is used to the full. */
static void quantise_q4(tile in, struct quantised *out)
{
    float largest[TOKENS] = {0}, signed_largest[TOKENS] = {0}, inverse[TOKENS];

    for (int j = 0; j < CHUNK; j++) {
        for (int t = 0; t < TOKENS; t++) {
            int larger = fabsf(in[j][t]) > largest[t];

            signed_largest[t] = larger ? in[j][t] : signed_largest[t];
            largest[t] = larger ? fabsf(in[j][t]) : largest[t];
        }
    }
    for (int t = 0; t < TOKENS; t++) {
        float scale = signed_largest[t] / -8.0f;

        inverse[t] = scale != 0.0f ? 1.0f / scale : 0.0f;
        out->scales[t] = rv_half_from_float(scale);
    }
    for (int j = 0; j < CHUNK; j++) {
        for (int t = 0; t < TOKENS; t++) {
            float x = in[j][t] * inverse[t] + 8.5f;

            x = x < 15.0f ? x : 15.0f;
            x = x > 0.0f ? x : 0.0f;
            out->numbers[j][t] = (int8_t)(int32_t)x;
        }
    }
}

static uint8_t both_halves(const struct quantised *from, int j, int t)
{
    return (uint8_t)((uint32_t)from->numbers[j][t] | (uint32_t)from->numbers[j + CHUNK / 2][t] << 4);
}

static void write_keys(enum rv_kv_block_format format, const struct quantised *from, uint8_t *chunk)
{
    uint8_t *numbers = chunk + SCALES_BYTES;

    memcpy(chunk, from->scales, sizeof(from->scales));
    if (format == RV_KV_BLOCK_Q8) {
        memcpy(numbers, from->numbers, sizeof(from->numbers));
        return;
    }
    for (int j = 0; j < CHUNK / 2; j++)
        for (int t = 0; t < TOKENS; t++)
            numbers[j * TOKENS + t] = both_halves(from, j, t);
}

static void write_values(enum rv_kv_block_format format, const struct quantised *from, uint8_t *v, int32_t head_dim,
                         int32_t i_chunk)
{
    uint8_t *numbers = v + (size_t)(head_dim / CHUNK) * SCALES_BYTES;

    memcpy(v + (size_t)i_chunk * SCALES_BYTES, from->scales, sizeof(from->scales));
    for (int t = 0; t < TOKENS; t++) {
        size_t start = (size_t)t * (size_t)head_dim + (size_t)i_chunk * CHUNK;

        if (format == RV_KV_BLOCK_Q8) {
            for (int j = 0; j < CHUNK; j++)
                numbers[start + (size_t)j] = (uint8_t)from->numbers[j][t];
        } else {
            for (int j = 0; j < CHUNK / 2; j++)
                numbers[start / 2 + (size_t)j] = both_halves(from, j, t);
        }
    }
}

void rv_kv_block_convert(enum rv_kv_block_format from, const void *k, const void *v, enum rv_kv_block_format to,
                         void *k_out, void *v_out, int32_t head_dim)
{
    struct quantised quantised;
    tile numbers;

    RV_ASSERT(from < to && head_dim % CHUNK == 0);
    for (int32_t i = 0; i < head_dim / CHUNK; i++) {
        read_keys(from, (const uint8_t *)k + (size_t)i * chunk_bytes(from), numbers);
        (to == RV_KV_BLOCK_Q8 ? quantise_q8 : quantise_q4)(numbers, &quantised);
        write_keys(to, &quantised, (uint8_t *)k_out + (size_t)i * chunk_bytes(to));
        read_values(from, v, head_dim, i, numbers);
        (to == RV_KV_BLOCK_Q8 ? quantise_q8 : quantise_q4)(numbers, &quantised);
        write_values(to, &quantised, v_out, head_dim, i);
    }
}
