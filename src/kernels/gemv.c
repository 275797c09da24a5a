/* The vector stays in floats; each run is summed before its scale is taken, in 16 lanes that become vector code. */
#include "kernels/gemv.h"

#include "kernels/half.h"

enum { LANES = 16 };

static float scale_of(const uint8_t *run)
{
    return rv_half_to_float((uint16_t)(run[0] | (uint16_t)(run[1] << 8)));
}

static float total(const float sums[LANES])
{
    float t = 0.0f;

    for (int j = 0; j < LANES; j++)
        t += sums[j];
    return t;
}

void rv_gemv_q8(const void *weights, size_t n_rows, size_t n_cols, const float *x, float *y)
{
    const uint8_t *run = weights;

    for (size_t r = 0; r < n_rows; r++) {
        float sums[LANES] = {0};

        for (size_t c = 0; c < n_cols; c += RV_GEMV_RUN, run += RV_GEMV_Q8_BYTES) {
            const int8_t *numbers = (const int8_t *)run + 2;
            float scale = scale_of(run);

            for (int j = 0; j < LANES; j++)
                sums[j] += scale * ((float)numbers[j] * x[c + (size_t)j] +
                                    (float)numbers[j + LANES] * x[c + (size_t)j + LANES]);
        }
        y[r] = total(sums);
    }
}

void rv_gemv_q4(const void *weights, size_t n_rows, size_t n_cols, const float *x, float *y)
{
    const uint8_t *run = weights;

    for (size_t r = 0; r < n_rows; r++) {
        float sums[LANES] = {0};

        for (size_t c = 0; c < n_cols; c += RV_GEMV_RUN, run += RV_GEMV_Q4_BYTES) {
            const uint8_t *numbers = run + 2;
            float scale = scale_of(run);

            for (int j = 0; j < LANES; j++)
                sums[j] += scale * ((float)((numbers[j] & 15) - 8) * x[c + (size_t)j] +
                                    (float)((numbers[j] >> 4) - 8) * x[c + (size_t)j + LANES]);
        }
        y[r] = total(sums);
    }
}
