/*
 * Keys and values of 32 tokens of one KV head, in three precisions, laid out for attention: along a row of keys lie
 * tokens (so that scores need no sum across lanes), along a row of values lie the head's numbers.
 *
 *             keys                                           values
 *     F16     [head_dim][32 tokens]                          [32 tokens][head_dim]
 *     Q8      per 32 dims: 32 scales, [32 dims][32 tokens]   per 32 dims: 32 scales; then [32 tokens][head_dim]
 *     Q4      per 32 dims: 32 scales, [16 pairs][32 tokens]  32 scales; then [32 tokens][head_dim / 2]
 *             then head_dim means in bytes, a scale per 32
 *
 * Two numbers share a byte in Q4: dim j in the low half, j + 16 of the same 32 in the high one. Scales are halves. Q8
 * is the arithmetic of ggml's Q8_0 along head_dim; Q4 keeps what the 32 keys have in common apart (kv_quant.h), and
 * gives all values of a token one scale. With a head_dim of 64, 32 numbers take 64, 34 and 18 bytes. Q8 and Q4 need a
 * head_dim that 32 divides.
 */
#ifndef RV_KERNELS_KV_BLOCK_H
#define RV_KERNELS_KV_BLOCK_H

#include <stddef.h>
#include <stdint.h>

enum { RV_KV_BLOCK_TOKENS = 32 };

enum rv_kv_block_format { RV_KV_BLOCK_F16, RV_KV_BLOCK_Q8, RV_KV_BLOCK_Q4, RV_KV_BLOCK_N_FORMATS };

/* Bytes of the keys of one head, and of its values. */
size_t rv_kv_block_k_bytes(enum rv_kv_block_format format, int32_t head_dim);
size_t rv_kv_block_v_bytes(enum rv_kv_block_format format, int32_t head_dim);
/* Writes the token in place `slot` of an F16 block from rows of head_dim floats. */
void rv_kv_block_put(void *k, void *v, int32_t head_dim, int32_t slot, const float *k_row, const float *v_row);
/* Reads it back from a block of any format. */
void rv_kv_block_get(enum rv_kv_block_format format, const void *k, const void *v, int32_t head_dim, int32_t slot,
                     float *k_row, float *v_row);
/* Writes a whole block in a lower precision: F16 to Q8 or Q4, Q8 to Q4. The two must not overlap. */
void rv_kv_block_convert(enum rv_kv_block_format from, const void *k, const void *v, enum rv_kv_block_format to,
                         void *k_out, void *v_out, int32_t head_dim);

#endif
