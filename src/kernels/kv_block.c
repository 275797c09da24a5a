/*
 * The three layouts, and the way down from one precision to the next: chunk by chunk (32 numbers of 32 tokens) through
 * a tile of floats. The arithmetic is in kv_quant.c.
 */
#include "kernels/kv_block.h"

#include "base/error.h"
#include "kernels/half.h"
#include "kernels/kv_quant.h"

#include <string.h>

enum {
    TOKENS = RV_KV_BLOCK_TOKENS,
    CHUNK = 32, // numbers that share a scale
    SCALES_BYTES = TOKENS * 2,
};

/* Of keys: what repeats with every 32 numbers. */
static size_t chunk_bytes(enum rv_kv_block_format format)
{
    return format == RV_KV_BLOCK_F16  ? (size_t)CHUNK * TOKENS * 2
           : format == RV_KV_BLOCK_Q8 ? SCALES_BYTES + (size_t)CHUNK * TOKENS
                                      : SCALES_BYTES + (size_t)CHUNK * TOKENS / 2;
}

/* Of values: the scales before the numbers. */
static size_t value_scales_bytes(enum rv_kv_block_format format, int32_t head_dim)
{
    return format == RV_KV_BLOCK_F16  ? 0
           : format == RV_KV_BLOCK_Q8 ? (size_t)(head_dim / CHUNK) * SCALES_BYTES
                                      : SCALES_BYTES;
}

size_t rv_kv_block_k_bytes(enum rv_kv_block_format format, int32_t head_dim)
{
    size_t bytes = (size_t)head_dim * chunk_bytes(format) / CHUNK;

    return format == RV_KV_BLOCK_Q4 ? bytes + (size_t)head_dim + (size_t)(head_dim / CHUNK) * 2 : bytes;
}

size_t rv_kv_block_v_bytes(enum rv_kv_block_format format, int32_t head_dim)
{
    size_t numbers = (size_t)head_dim * TOKENS;

    return value_scales_bytes(format, head_dim) + (format == RV_KV_BLOCK_F16  ? numbers * 2
                                                   : format == RV_KV_BLOCK_Q8 ? numbers
                                                                              : numbers / 2);
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

/* Code j of 32 in a row of packed halves whose bytes are `stride` apart. */
static float code(const uint8_t *bytes, int32_t j, size_t stride)
{
    static const int8_t codes[] = {RV_KV_QUANT_CODES};
    uint8_t both = bytes[(size_t)(j % 16) * stride];

    return (float)codes[j < 16 ? both & 15 : both >> 4];
}

/* What number d of every key has in common. */
static float key_mean(const uint8_t *k, int32_t head_dim, int32_t d)
{
    const uint8_t *means = k + (size_t)(head_dim / CHUNK) * chunk_bytes(RV_KV_BLOCK_Q4);
    uint16_t scale;

    memcpy(&scale, means + head_dim + d / CHUNK * 2, sizeof(scale));
    return rv_half_to_float(scale) * (float)(int8_t)means[d];
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
            row[d] = scale * code(numbers, j, TOKENS) + key_mean(k, head_dim, d);
    }
}

static void get_value(enum rv_kv_block_format format, const uint8_t *v, int32_t head_dim, int32_t slot, float *row)
{
    const uint16_t *halves = (const uint16_t *)v;
    const uint8_t *numbers = v + value_scales_bytes(format, head_dim);

    for (int32_t d = 0; d < head_dim; d++) {
        size_t index = (size_t)slot * (size_t)head_dim + (size_t)d;
        int32_t chunk = d / CHUNK, j = d % CHUNK;

        if (format == RV_KV_BLOCK_F16)
            row[d] = rv_half_to_float(halves[index]);
        else if (format == RV_KV_BLOCK_Q8)
            row[d] = rv_half_to_float(halves[chunk * TOKENS + slot]) * (float)(int8_t)numbers[index];
        else
            row[d] = rv_half_to_float(halves[slot]) * code(numbers + (index - (size_t)j) / 2, j, 1);
    }
}

void rv_kv_block_get(enum rv_kv_block_format format, const void *k, const void *v, int32_t head_dim, int32_t slot,
                     float *k_row, float *v_row)
{
    get_key(format, k, head_dim, slot, k_row);
    get_value(format, v, head_dim, slot, v_row);
}

static void read_keys(enum rv_kv_block_format format, const uint8_t *chunk, rv_kv_quant_tile out)
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

static void read_values(enum rv_kv_block_format format, const uint8_t *v, int32_t head_dim, int32_t i_chunk,
                        rv_kv_quant_tile out)
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

static uint8_t both_halves(rv_kv_quant_numbers from, int j, int t)
{
    return (uint8_t)((uint32_t)from[j][t] | (uint32_t)from[j + CHUNK / 2][t] << 4);
}

static void write_keys(enum rv_kv_block_format format, const uint16_t *scales, rv_kv_quant_numbers from, uint8_t *chunk)
{
    uint8_t *numbers = chunk + SCALES_BYTES;

    memcpy(chunk, scales, SCALES_BYTES);
    if (format == RV_KV_BLOCK_Q8) {
        memcpy(numbers, from, sizeof(rv_kv_quant_numbers));
        return;
    }
    for (int j = 0; j < CHUNK / 2; j++)
        for (int t = 0; t < TOKENS; t++)
            numbers[j * TOKENS + t] = both_halves(from, j, t);
}

static void write_values(enum rv_kv_block_format format, rv_kv_quant_numbers from, uint8_t *v, int32_t head_dim,
                         int32_t i_chunk)
{
    uint8_t *numbers = v + value_scales_bytes(format, head_dim);

    for (int t = 0; t < TOKENS; t++) {
        size_t start = (size_t)t * (size_t)head_dim + (size_t)i_chunk * CHUNK;

        if (format == RV_KV_BLOCK_Q8) {
            for (int j = 0; j < CHUNK; j++)
                numbers[start + (size_t)j] = (uint8_t)from[j][t];
        } else {
            for (int j = 0; j < CHUNK / 2; j++)
                numbers[start / 2 + (size_t)j] = both_halves(from, j, t);
        }
    }
}

/* ---- to eight bits --------------------------------------------------------------------------- */

static void to_8(const uint8_t *k, const uint8_t *v, uint8_t *k_out, uint8_t *v_out, int32_t head_dim)
{
    rv_kv_quant_numbers numbers;
    rv_kv_quant_tile tile;
    uint16_t scales[TOKENS];

    for (int32_t i = 0; i < head_dim / CHUNK; i++) {
        read_keys(RV_KV_BLOCK_F16, k + (size_t)i * chunk_bytes(RV_KV_BLOCK_F16), tile);
        rv_kv_quant_to_8(tile, scales, numbers);
        write_keys(RV_KV_BLOCK_Q8, scales, numbers, k_out + (size_t)i * chunk_bytes(RV_KV_BLOCK_Q8));
        read_values(RV_KV_BLOCK_F16, v, head_dim, i, tile);
        rv_kv_quant_to_8(tile, scales, numbers);
        memcpy(v_out + (size_t)i * SCALES_BYTES, scales, SCALES_BYTES);
        write_values(RV_KV_BLOCK_Q8, numbers, v_out, head_dim, i);
    }
}

/* ---- to four bits ---------------------------------------------------------------------------- */

/*
 * Keys of neighbours have much in common, and it is large: taken out first, what is left needs smaller steps. It costs
 * a query one more product a block.
 */
static void keys_to_4(enum rv_kv_block_format from, const uint8_t *k, uint8_t *k_out, int32_t head_dim)
{
    uint8_t *means = k_out + (size_t)(head_dim / CHUNK) * chunk_bytes(RV_KV_BLOCK_Q4);
    struct rv_kv_quant_search search;
    rv_kv_quant_numbers numbers;
    rv_kv_quant_tile tile;
    uint16_t scales[TOKENS], scale;

    for (int32_t i = 0; i < head_dim / CHUNK; i++) {
        read_keys(from, k + (size_t)i * chunk_bytes(from), tile);
        rv_kv_quant_take_mean(tile, (int8_t *)means + (size_t)i * CHUNK, &scale);
        memcpy(means + head_dim + i * 2, &scale, sizeof(scale));
        rv_kv_quant_search_begin(&search);
        rv_kv_quant_search_look(&search, tile);
        rv_kv_quant_search_try(&search, tile);
        rv_kv_quant_search_end(&search, scales);
        rv_kv_quant_to_4(tile, scales, numbers);
        write_keys(RV_KV_BLOCK_Q4, scales, numbers, k_out + (size_t)i * chunk_bytes(RV_KV_BLOCK_Q4));
    }
}

/* Errors of values average out over tokens: one scale for all of a token's numbers pays for the keys' means. */
static void values_to_4(enum rv_kv_block_format from, const uint8_t *v, uint8_t *v_out, int32_t head_dim)
{
    int32_t n_chunks = head_dim / CHUNK;
    struct rv_kv_quant_search search;
    rv_kv_quant_numbers numbers;
    rv_kv_quant_tile tile;
    uint16_t scales[TOKENS];

    rv_kv_quant_search_begin(&search);
    for (int32_t i = 0; i < n_chunks; i++) {
        read_values(from, v, head_dim, i, tile);
        rv_kv_quant_search_look(&search, tile);
    }
    for (int32_t i = 0; i < n_chunks; i++) {
        read_values(from, v, head_dim, i, tile);
        rv_kv_quant_search_try(&search, tile);
    }
    rv_kv_quant_search_end(&search, scales);
    memcpy(v_out, scales, sizeof(scales));
    for (int32_t i = 0; i < n_chunks; i++) {
        read_values(from, v, head_dim, i, tile);
        rv_kv_quant_to_4(tile, scales, numbers);
        write_values(RV_KV_BLOCK_Q4, numbers, v_out, head_dim, i);
    }
}

void rv_kv_block_convert(enum rv_kv_block_format from, const void *k, const void *v, enum rv_kv_block_format to,
                         void *k_out, void *v_out, int32_t head_dim)
{
    RV_ASSERT(from < to && head_dim % CHUNK == 0);
    if (to == RV_KV_BLOCK_Q8) {
        to_8(k, v, k_out, v_out, head_dim);
    } else {
        keys_to_4(from, k, k_out, head_dim);
        values_to_4(from, v, v_out, head_dim);
    }
}
