/*
 * Keys and values of 32 tokens of one KV head, in three precisions, laid out for attention: along a row of keys lie
 * tokens (so that scores need no sum across lanes), along a row of values lie the head's numbers.
 *
 *             keys                                           values
 *     F16     [head_dim][32 tokens]                          [32 tokens][head_dim]
 *     Q8      per 32 dims: 32 scales, [32 dims][32 tokens]   per 32 dims: 32 scales; then [32 tokens][head_dim]
 *     Q4      the same with two dims in a byte: dim j in the low half, j + 16 of the same 32 in the high one
 *
 * The arithmetic of Q8 and Q4 is that of ggml's Q8_0 and Q4_0 along head_dim: 32 numbers share a half-precision scale,
 * so 32 numbers take 64, 34 and 18 bytes. Q8 and Q4 need a head_dim that 32 divides.
 */
#ifndef RV_KERNELS_KV_BLOCK_H
#define RV_KERNELS_KV_BLOCK_H

#include <stddef.h>
#include <stdint.h>

enum { RV_KV_BLOCK_TOKENS = 32 };

enum rv_kv_block_format { RV_KV_BLOCK_F16, RV_KV_BLOCK_Q8, RV_KV_BLOCK_Q4, RV_KV_BLOCK_N_FORMATS };

/* Bytes of the keys of one head; its values take as many. */
size_t rv_kv_block_bytes(enum rv_kv_block_format format, int32_t head_dim);
/* Writes the token in place `slot` of an F16 block from rows of head_dim floats. */
void rv_kv_block_put(void *k, void *v, int32_t head_dim, int32_t slot, const float *k_row, const float *v_row);
/* Reads it back from a block of any format. */
void rv_kv_block_get(enum rv_kv_block_format format, const void *k, const void *v, int32_t head_dim, int32_t slot,
                     float *k_row, float *v_row);
/* Writes a whole block in a lower precision: F16 to Q8 or Q4, Q8 to Q4. The two must not overlap. */
void rv_kv_block_convert(enum rv_kv_block_format from, const void *k, const void *v, enum rv_kv_block_format to,
                         void *k_out, void *v_out, int32_t head_dim);

#endif
