/*
 * Tokens lie along the rows of a tile, so that the search for each token's scale runs in parallel over tokens and the
 * loops become vector code. NaN and infinity, which no integer can hold, may come out as anything, but they change no
 * other number's.
 */
#include "kernels/kv_quant.h"

#include "kernels/half.h"

#include <math.h>
#include <string.h>

enum { NUMBERS = RV_KV_QUANT_NUMBERS, TOKENS = RV_KV_QUANT_TOKENS, N_CODES = 16 };

static const float codes[N_CODES] = {RV_KV_QUANT_CODES};

/* The largest number as one end of the codes or the other, and a little beyond: cutting it helps all the rest. */
static const float trials[RV_KV_QUANT_TRIALS] = {1.0f / -127, 0.88f / -127, 1.0f / 113, 0.88f / 113};

static const float largest_half = 65504.0f;

void rv_kv_quant_to_8(rv_kv_quant_tile in, uint16_t *scales, rv_kv_quant_numbers out)
{
    float largest[TOKENS] = {0}, inverse[TOKENS];

    for (int j = 0; j < NUMBERS; j++)
        for (int t = 0; t < TOKENS; t++)
            largest[t] = fabsf(in[j][t]) > largest[t] ? fabsf(in[j][t]) : largest[t];
    for (int t = 0; t < TOKENS; t++) {
        float scale = largest[t] / 127.0f;

        inverse[t] = scale != 0.0f ? 1.0f / scale : 0.0f;
        scales[t] = rv_half_from_float(scale);
    }
    for (int j = 0; j < NUMBERS; j++) {
        for (int t = 0; t < TOKENS; t++) {
            float x = in[j][t] * inverse[t], rest;
            int32_t whole;

            x = x < 127.0f ? x : 127.0f; // for NaN, which no integer can hold
            x = x > -127.0f ? x : -127.0f;
            whole = (int32_t)x;
            rest = x - (float)whole;
            whole += (rest >= 0.5f) - (rest <= -0.5f);
            out[j][t] = (int8_t)whole;
        }
    }
}

void rv_kv_quant_search_begin(struct rv_kv_quant_search *search)
{
    memset(search, 0, sizeof(*search));
}

void rv_kv_quant_search_look(struct rv_kv_quant_search *search, rv_kv_quant_tile in)
{
    for (int j = 0; j < NUMBERS; j++) {
        for (int t = 0; t < TOKENS; t++) {
            float size = fabsf(in[j][t]);

            search->largest[t] =
                (size > fabsf(search->largest[t])) & (size <= largest_half) ? in[j][t] : search->largest[t];
        }
    }
}

/* The code nearest to each number of a row: start at the lowest, take every step whose middle lies below. */
static void nearest_codes(const float *row, const float *inverse, float *out)
{
    for (int t = 0; t < TOKENS; t++)
        out[t] = codes[0];
    for (int c = 1; c < N_CODES; c++) {
        float middle = (codes[c - 1] + codes[c]) / 2, step = codes[c] - codes[c - 1];

        for (int t = 0; t < TOKENS; t++)
            out[t] += row[t] * inverse[t] > middle ? step : 0.0f;
    }
}

/* The scales of a trial as they will be stored, and what to multiply with; 0 for a token of zeros. */
static void scales_of(const struct rv_kv_quant_search *search, int trial, float *scales, float *inverse)
{
    for (int t = 0; t < TOKENS; t++) {
        scales[t] = rv_half_to_float(rv_half_from_float(search->largest[t] * trials[trial]));
        inverse[t] = scales[t] != 0.0f ? 1.0f / scales[t] : 0.0f;
    }
}

void rv_kv_quant_search_try(struct rv_kv_quant_search *search, rv_kv_quant_tile in)
{
    float scales[TOKENS], inverse[TOKENS], nearest[TOKENS];

    for (int i = 0; i < RV_KV_QUANT_TRIALS; i++) {
        scales_of(search, i, scales, inverse);
        for (int j = 0; j < NUMBERS; j++) {
            nearest_codes(in[j], inverse, nearest);
            for (int t = 0; t < TOKENS; t++) {
                float miss = in[j][t] - scales[t] * nearest[t];

                search->errors[i][t] += fabsf(in[j][t]) <= largest_half ? miss * miss : 0.0f;
            }
        }
    }
}

void rv_kv_quant_search_end(const struct rv_kv_quant_search *search, uint16_t *scales)
{
    for (int t = 0; t < TOKENS; t++) {
        int best = 0;

        for (int i = 1; i < RV_KV_QUANT_TRIALS; i++)
            best = search->errors[i][t] < search->errors[best][t] ? i : best;
        scales[t] = rv_half_from_float(search->largest[t] * trials[best]);
    }
}

void rv_kv_quant_to_4(rv_kv_quant_tile in, const uint16_t *scales, rv_kv_quant_numbers out)
{
    float inverse[TOKENS];

    for (int t = 0; t < TOKENS; t++) {
        float scale = rv_half_to_float(scales[t]);

        inverse[t] = scale != 0.0f ? 1.0f / scale : 0.0f;
    }
    for (int j = 0; j < NUMBERS; j++) {
        int32_t places[TOKENS] = {0};

        for (int c = 1; c < N_CODES; c++)
            for (int t = 0; t < TOKENS; t++)
                places[t] += in[j][t] * inverse[t] > (codes[c - 1] + codes[c]) / 2;
        for (int t = 0; t < TOKENS; t++)
            out[j][t] = (int8_t)places[t];
    }
}

void rv_kv_quant_take_mean(rv_kv_quant_tile in, int8_t *means, uint16_t *scale)
{
    float mean[NUMBERS], largest = 0, step, inverse;

    for (int j = 0; j < NUMBERS; j++) {
        float sum = 0;

        for (int t = 0; t < TOKENS; t++)
            sum += fabsf(in[j][t]) <= largest_half ? in[j][t] : 0.0f;
        mean[j] = sum / TOKENS;
        largest = fabsf(mean[j]) > largest ? fabsf(mean[j]) : largest;
    }
    *scale = rv_half_from_float(largest / 127.0f);
    step = rv_half_to_float(*scale);
    inverse = step != 0.0f ? 1.0f / step : 0.0f;
    for (int j = 0; j < NUMBERS; j++) {
        float whole = rintf(mean[j] * inverse);

        whole = whole > 127.0f ? 127.0f : whole < -127.0f ? -127.0f : whole; // a subnormal step is coarse
        means[j] = (int8_t)whole;
        for (int t = 0; t < TOKENS; t++)
            in[j][t] -= whole * step;
    }
}
