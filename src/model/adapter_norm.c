/*
 * <B A, D C> = sum over r, s of <b_r, d_s> <a_r, c_s>: as many inner products as pairs of ranks, and no matrix is
 * formed. Equal adapters give three times the same sum, bit by bit, so their difference is 0.
 */
#include "model/adapter_norm.h"

#include "kernels/half.h"

#include <math.h>

static double dot(const uint16_t *x, const uint16_t *y, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += (double)rv_half_to_float(x[i]) * (double)rv_half_to_float(y[i]);
    return sum;
}

static double pair_dot(const struct rv_adapter_pair *x, const struct rv_adapter_pair *y)
{
    size_t n_in = (size_t)x->n_in, n_out = (size_t)x->n_out;
    double sum = 0;

    for (size_t r = 0; r < (size_t)x->rank; r++) {
        for (size_t s = 0; s < (size_t)y->rank; s++)
            sum += dot(x->a + r * n_in, y->a + s * n_in, n_in) * dot(x->b + r * n_out, y->b + s * n_out, n_out);
    }
    return (double)x->scale * (double)y->scale * sum;
}

/* Over all matrices both change. */
static double whole_dot(const struct rv_adapter *x, const struct rv_adapter *y)
{
    double sum = pair_dot(&x->head, &y->head);

    for (int32_t layer = 0; x->layers && y->layers && layer < x->n_layers; layer++) {
        for (int part = 0; part < RV_N_PARTS; part++)
            sum += pair_dot(&x->layers[layer][part], &y->layers[layer][part]);
    }
    return sum;
}

double rv_adapter_norm(const struct rv_adapter *adapter)
{
    return sqrt(fmax(whole_dot(adapter, adapter), 0));
}

double rv_adapter_norm_difference(const struct rv_adapter *x, const struct rv_adapter *y)
{
    return sqrt(fmax(whole_dot(x, x) - whole_dot(x, y) + (whole_dot(y, y) - whole_dot(x, y)), 0));
}
