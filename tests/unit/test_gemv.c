/* Quantised products against doubles over weights written down by hand, at an odd address; ggml's own are in golden/.
 */
#include "kernels/gemv.h"
#include "support/test.h"

#include "base/rng.h"
#include "kernels/half.h"

#include <math.h>
#include <stdlib.h>

enum { ROWS = 7, COLS = 160, RUNS = COLS / RV_GEMV_RUN };

struct matrix {
    uint8_t bytes[1 + ROWS * RUNS * RV_GEMV_Q8_BYTES];
    double numbers[ROWS][COLS];
    float x[COLS], y[ROWS];
};

static uint8_t *put_scale(struct rv_rng *rng, uint8_t *at, double *scale)
{
    uint16_t half = rv_half_from_float((float)(rv_rng_normal(rng) * 0.1));

    *scale = (double)rv_half_to_float(half);
    at[0] = (uint8_t)(half & 255);
    at[1] = (uint8_t)(half >> 8);
    return at + 2;
}

static void make_int8(struct matrix *m, struct rv_rng *rng)
{
    uint8_t *at = m->bytes + 1;
    double scale;

    for (int i = 0; i < ROWS * COLS; i++) {
        int number = (int)rv_rng_below(rng, 256) - 128;

        if (i % RV_GEMV_RUN == 0)
            at = put_scale(rng, at, &scale);
        *at++ = (uint8_t)number;
        m->numbers[i / COLS][i % COLS] = scale * number;
    }
}

static void make_int4(struct matrix *m, struct rv_rng *rng)
{
    uint8_t *at = m->bytes + 1;
    double scale;

    for (int i = 0; i < ROWS * COLS; i += RV_GEMV_RUN) {
        double *run = &m->numbers[i / COLS][i % COLS];

        at = put_scale(rng, at, &scale);
        for (int j = 0; j < 16; j++, at++) {
            int low = (int)rv_rng_below(rng, 16), high = (int)rv_rng_below(rng, 16);

            *at = (uint8_t)(low | high << 4);
            run[j] = scale * (low - 8);
            run[j + 16] = scale * (high - 8);
        }
    }
}

/* About COLS / 16 roundings of 2^-24 in each lane, of terms whose sizes sum up to `size`. */
static void check(const struct matrix *m)
{
    for (int r = 0; r < ROWS; r++) {
        double wanted = 0, size = 0;

        for (int c = 0; c < COLS; c++) {
            wanted += m->numbers[r][c] * (double)m->x[c];
            size += fabs(m->numbers[r][c] * (double)m->x[c]);
        }
        if (!(fabs((double)m->y[r] - wanted) <= 10 * 0x1p-24 * size))
            fail_msg("row %d is %.9g, not %.9g", r, (double)m->y[r], wanted);
    }
}

static void products_are_those_of_the_numbers(void **state)
{
    static struct matrix m;
    struct rv_rng rng;

    (void)state;
    rv_rng_init(&rng, 3);
    for (int round = 0; round < 20; round++) {
        for (int c = 0; c < COLS; c++)
            m.x[c] = (float)rv_rng_normal(&rng);
        make_int8(&m, &rng);
        rv_gemv_q8(m.bytes + 1, ROWS, COLS, m.x, m.y);
        check(&m);
        make_int4(&m, &rng);
        rv_gemv_q4(m.bytes + 1, ROWS, COLS, m.x, m.y);
        check(&m);
    }
}

static void no_columns_give_zero(void **state)
{
    float y[2] = {5, 5}, x = 0;

    (void)state;
    rv_gemv_q8("", 2, 0, &x, y);
    assert_true(y[0] == 0.0f && y[1] == 0.0f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_those_of_the_numbers),
        cmocka_unit_test(no_columns_give_zero),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
