/* The scalar statement of the sums, and the choice among the variants. */
#include "kernels/row_sums.h"

#include "kernels/vec.h"

static void dots(const uint16_t *rows, size_t n_rows, const float *x, size_t n_x, size_t n, float *out)
{
    for (size_t t = 0; t < n_rows; t++) {
        for (size_t i = 0; i < n_x; i++)
            out[t * n_x + i] = rv_vec_scalar.dot_bf16(x + i * n, rows + t * n, n);
    }
}

static void adds(const uint16_t *rows, size_t n_rows, const float *c, float *y, size_t n_y, size_t n)
{
    for (size_t i = 0; i < n_y; i++) {
        for (size_t j = 0; j < n; j++) {
            double sum = (double)y[i * n + j];

            for (size_t t = 0; t < n_rows; t++)
                sum += (double)c[t * n_y + i] * (double)rv_vec_from_bf16(rows[t * n + j]);
            y[i * n + j] = (float)sum;
        }
    }
}

const struct rv_row_sums_ops rv_row_sums_scalar = {.dots = dots, .adds = adds};

const struct rv_row_sums_ops *rv_row_sums_best(void)
{
    const struct rv_row_sums_ops *ops = rv_row_sums_avx512();

    if (!ops)
        ops = rv_row_sums_avx2();
    return ops ? ops : &rv_row_sums_scalar;
}
