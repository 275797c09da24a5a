/* The scalar statement of the kernel, and the choice among the variants. */
#include "kernels/lora_kernel.h"

#include "kernels/half.h"

static void shrink(const struct rv_lora_call *call)
{
    for (int32_t r = 0; r < call->n_rows; r++) {
        for (int32_t j = 0; j < call->rank; j++) {
            const uint16_t *a = call->a + (size_t)j * (size_t)call->n_in;
            double sum = 0;

            for (int32_t i = 0; i < call->n_in; i++)
                sum += (double)rv_half_to_float(a[i]) * (double)call->x[r][i];
            call->inner[(size_t)r * (size_t)call->rank + (size_t)j] = (float)sum;
        }
    }
}

static void expand(const struct rv_lora_call *call)
{
    for (int32_t r = 0; r < call->n_rows; r++) {
        const float *inner = call->inner + (size_t)r * (size_t)call->rank;

        for (int32_t o = call->first; o < call->end; o++) {
            double sum = (double)call->y[r][o];

            for (int32_t j = 0; j < call->rank; j++)
                sum +=
                    (double)inner[j] * (double)rv_half_to_float(call->b[(size_t)j * (size_t)call->n_out + (size_t)o]);
            call->y[r][o] = (float)sum;
        }
    }
}

const struct rv_lora_kernel rv_lora_kernel_scalar = {.name = "scalar", .shrink = shrink, .expand = expand};

const struct rv_lora_kernel *rv_lora_kernel_best(void)
{
    const struct rv_lora_kernel *kernel = rv_lora_kernel_avx512();

    if (!kernel)
        kernel = rv_lora_kernel_avx2();
    if (!kernel)
        kernel = rv_lora_kernel_neon();
    return kernel ? kernel : &rv_lora_kernel_scalar;
}
