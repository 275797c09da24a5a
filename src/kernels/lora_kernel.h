/*
 * The two halves of a low-rank change y += B (A x), for rows that share A and B. A and B are in 16 bits, everything
 * else is computed in 32. A is its rows, [rank][n_in]; B rank-major, its columns, [rank][n_out].
 *
 * A row's result depends on nothing but itself: not on the other rows of the call, not on which outputs are asked for.
 */
#ifndef RV_KERNELS_LORA_KERNEL_H
#define RV_KERNELS_LORA_KERNEL_H

#include <stddef.h>
#include <stdint.h>

struct rv_lora_call {
    int32_t rank;
    int32_t n_in;
    int32_t n_out;
    int32_t n_rows;        // at least 1
    const uint16_t *a;     // [rank][n_in] F16
    const uint16_t *b;     // [rank][n_out] F16
    const float *const *x; // n_rows vectors of n_in
    float *const *y;       // n_rows vectors of n_out, which overlap no x
    float *inner;          // [n_rows][rank]
    int32_t first, end;    // the outputs that expand changes
};

/* Each reads of a call only what it needs. */
struct rv_lora_kernel {
    const char *name;
    void (*shrink)(const struct rv_lora_call *call); // inner = A x
    void (*expand)(const struct rv_lora_call *call); // y += B inner, outputs first to end - 1
};

/* The plain statement of what the others compute. */
extern const struct rv_lora_kernel rv_lora_kernel_scalar;
/* NULL where the build or the machine does not have the instructions. */
const struct rv_lora_kernel *rv_lora_kernel_avx2(void);
const struct rv_lora_kernel *rv_lora_kernel_avx512(void);
const struct rv_lora_kernel *rv_lora_kernel_neon(void);
/* The best there is here. */
const struct rv_lora_kernel *rv_lora_kernel_best(void);

#endif
