/* The fast transform: log2(run) rounds of sums and differences, in any order; the first two are taken together. */
#include "kernels/hadamard.h"

#include <math.h>

/* Rounds over neighbours: four numbers at a time stay in registers. */
static void rotate_fours(float *row, int32_t run, float scale)
{
    for (int32_t i = 0; i < run; i += 4) {
        float sum = row[i] + row[i + 1], difference = row[i] - row[i + 1];
        float sum2 = row[i + 2] + row[i + 3], difference2 = row[i + 2] - row[i + 3];

        row[i] = (sum + sum2) * scale;
        row[i + 1] = (difference + difference2) * scale;
        row[i + 2] = (sum - sum2) * scale;
        row[i + 3] = (difference - difference2) * scale;
    }
}

/* A round over pieces of `half` numbers, a multiple of 4, that lie beside each other. */
static void rotate_pieces(float *restrict low, float *restrict high, int32_t half)
{
    for (int32_t i = 0; i < half; i += 4) {
        for (int32_t j = i; j < i + 4; j++) { // a fixed number, or the compiler guards its vector code against fewer
            float a = low[j], b = high[j];

            low[j] = a + b;
            high[j] = a - b;
        }
    }
}

static void rotate_run(float *row, int32_t run)
{
    float scale = 1.0f / sqrtf((float)run);

    if (run == 2) {
        float a = row[0], b = row[1];

        row[0] = (a + b) * scale;
        row[1] = (a - b) * scale;
    }
    if (run < 4)
        return;
    rotate_fours(row, run, scale);
    for (int32_t half = 4; half < run; half *= 2)
        for (int32_t start = 0; start < run; start += 2 * half)
            rotate_pieces(row + start, row + start + half, half);
}

void rv_hadamard(float *row, int32_t n)
{
    int32_t run = n & -n;

    for (int32_t start = 0; start < n; start += run)
        rotate_run(row + start, run);
}
