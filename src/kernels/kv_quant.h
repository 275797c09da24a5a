/*
 * The arithmetic of keys and values in 8 and 4 bits, on tiles of 32 numbers of 32 tokens. Each token has a scale.
 *
 * Eight bits are whole steps of the scale. Four bits choose among 16 codes that lie close together near zero and far
 * apart at the ends, as the numbers themselves do after a rotation: for normal numbers the squared error is a quarter
 * smaller than with whole steps. The codes are those of ggml's IQ4_NL. One end reaches further than the other, so the
 * sign of a scale says which way round they are used, and a few scales are tried.
 */
#ifndef RV_KERNELS_KV_QUANT_H
#define RV_KERNELS_KV_QUANT_H

#include <stdint.h>

enum { RV_KV_QUANT_NUMBERS = 32, RV_KV_QUANT_TOKENS = 32, RV_KV_QUANT_TRIALS = 4 };

#define RV_KV_QUANT_CODES -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113

/* [number][token] */
typedef float rv_kv_quant_tile[RV_KV_QUANT_NUMBERS][RV_KV_QUANT_TOKENS];
/* What a tile becomes: -127 to 127 in 8 bits, a code's place (0 to 15) in 4. */
typedef int8_t rv_kv_quant_numbers[RV_KV_QUANT_NUMBERS][RV_KV_QUANT_TOKENS];

/* As ggml's Q8_0; scales are halves. */
void rv_kv_quant_to_8(rv_kv_quant_tile in, uint16_t *scales, rv_kv_quant_numbers out);

/*
 * The scales of 4 bits, one a token over any number of tiles: begin, look at all tiles, try all tiles, end. Numbers
 * that are not finite count for nothing.
 */
struct rv_kv_quant_search {
    float largest[RV_KV_QUANT_TOKENS]; // in size, with its sign
    float errors[RV_KV_QUANT_TRIALS][RV_KV_QUANT_TOKENS];
};

void rv_kv_quant_search_begin(struct rv_kv_quant_search *search);
void rv_kv_quant_search_look(struct rv_kv_quant_search *search, rv_kv_quant_tile in);
void rv_kv_quant_search_try(struct rv_kv_quant_search *search, rv_kv_quant_tile in);
void rv_kv_quant_search_end(const struct rv_kv_quant_search *search, uint16_t *scales);
void rv_kv_quant_to_4(rv_kv_quant_tile in, const uint16_t *scales, rv_kv_quant_numbers out);

/* The mean of each number over the tokens, in 8 bits with one scale; what the tile has beyond it stays there. */
void rv_kv_quant_take_mean(rv_kv_quant_tile in, int8_t *means, uint16_t *scale);

#endif
