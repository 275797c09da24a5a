/* The fast transform: log2(run) rounds of sums and differences. */
#include "kernels/hadamard.h"

#include <math.h>

static void rotate_run(float *row, int32_t run, float scale)
{
    for (int32_t half = 1; half < run; half *= 2) {
        for (int32_t start = 0; start < run; start += 2 * half) {
            for (int32_t i = start; i < start + half; i++) {
                float a = row[i], b = row[i + half];

                row[i] = a + b;
                row[i + half] = a - b;
            }
        }
    }
    for (int32_t i = 0; i < run; i++)
        row[i] *= scale;
}

void rv_hadamard(float *row, int32_t n)
{
    int32_t run = n & -n;

    for (int32_t start = 0; start < n; start += run)
        rotate_run(row + start, run, 1.0f / sqrtf((float)run));
}
