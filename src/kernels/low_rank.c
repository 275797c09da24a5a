/*
 * Everything works on lists of vectors that lie one behind the other: the columns of B and the rows of A. Orthonormal
 * ones come from Gram and Schmidt, done twice; a vector that is a combination of those before it becomes zero, which
 * keeps the products right and makes more vectors than dimensions no special case.
 */
#include "kernels/low_rank.h"

#include "base/alloc.h"
#include "base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 8, OVERSAMPLE = 10, N_ITERATIONS = 4, MAX_SWEEPS = 60 };

/* Below this share of its length nothing but rounding is left of a vector. */
static const double DEPENDENT = 1e-13;
/* Columns are orthogonal when their product is below this share of their lengths. */
static const double ORTHOGONAL = 1e-15;

/* ---- vectors ------------------------------------------------------------------------------- */

/* Several sums side by side, which compilers make vector code of. */
static double dot(const double *x, const double *y, size_t n)
{
    double sums[LANES] = {0}, sum = 0;
    size_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        for (size_t j = 0; j < LANES; j++)
            sums[j] += x[i + j] * y[i + j];
    }
    for (; i < n; i++)
        sum += x[i] * y[i];
    for (size_t j = 0; j < LANES; j++)
        sum += sums[j];
    return sum;
}

static void add_scaled(double *y, double factor, const double *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] += factor * x[i];
}

static void scale(double *x, double factor, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] *= factor;
}

static double *new_numbers(size_t rows, size_t columns)
{
    size_t n;

    return rv_size_mul(rows, columns, &n) ? rv_calloc(n ? n : 1, sizeof(double)) : NULL;
}

bool rv_low_rank_init(struct rv_low_rank *product, size_t n_out, size_t n_in, size_t rank)
{
    *product = (struct rv_low_rank){
        .n_out = n_out,
        .n_in = n_in,
        .rank = rank,
        .b = new_numbers(rank, n_out),
        .a = new_numbers(rank, n_in),
    };
    if (product->a && product->b)
        return true;
    rv_low_rank_release(product);
    return false;
}

void rv_low_rank_release(struct rv_low_rank *product)
{
    rv_free(product->a);
    rv_free(product->b);
    *product = (struct rv_low_rank){0};
}

double rv_low_rank_dot(const struct rv_low_rank *x, const struct rv_low_rank *y)
{
    double sum = 0;

    for (size_t i = 0; i < x->rank; i++) {
        for (size_t j = 0; j < y->rank; j++)
            sum += dot(x->b + i * x->n_out, y->b + j * x->n_out, x->n_out) *
                   dot(x->a + i * x->n_in, y->a + j * x->n_in, x->n_in);
    }
    return sum;
}

void rv_low_rank_row(const struct rv_low_rank *product, size_t i, double *out)
{
    memset(out, 0, product->n_in * sizeof(*out));
    for (size_t r = 0; r < product->rank; r++)
        add_scaled(out, product->b[r * product->n_out + i], product->a + r * product->n_in, product->n_in);
}

/* ---- QR ------------------------------------------------------------------------------------ */

/*
 * Makes k vectors of n numbers orthonormal or zero. `upper` [k][k], when wanted, gets the coefficients: vector j was
 * the sum over i of upper[i][j] times the new vector i.
 */
static void orthonormalise(double *vectors, size_t k, size_t n, double *upper)
{
    for (size_t j = 0; j < k; j++) {
        double *v = vectors + j * n;
        double length = sqrt(dot(v, v, n)), rest;

        for (int pass = 0; pass < 2; pass++) {
            for (size_t i = 0; i < j; i++) {
                double part = dot(vectors + i * n, v, n);

                add_scaled(v, -part, vectors + i * n, n);
                if (upper)
                    upper[i * k + j] += part;
            }
        }
        rest = sqrt(dot(v, v, n));
        if (rest <= DEPENDENT * length || rest == 0) {
            memset(v, 0, n * sizeof(*v));
            rest = 0;
        } else {
            scale(v, 1 / rest, n);
        }
        if (upper)
            upper[j * k + j] = rest;
    }
}

/* ---- singular values ----------------------------------------------------------------------- */

struct svd {
    size_t k;
    double *columns; // [k][k]: of the matrix; in the end each a singular value times a left vector
    double *right;   // [k][k]: its right vectors
    double *values;  // [k], the largest first
    size_t *order;   // [k]: which column has each
};

static void svd_release(struct svd *svd)
{
    rv_free(svd->columns);
    rv_free(svd->right);
    rv_free(svd->values);
    rv_free(svd->order);
}

static bool svd_init(struct svd *svd, size_t k)
{
    *svd = (struct svd){
        .k = k,
        .columns = new_numbers(k, k),
        .right = new_numbers(k, k),
        .values = new_numbers(k, 1),
        .order = rv_calloc(k ? k : 1, sizeof(*svd->order)),
    };
    if (svd->columns && svd->right && svd->values && svd->order)
        return true;
    svd_release(svd);
    return false;
}

static void rotate(double *x, double *y, size_t n, double c, double s)
{
    for (size_t i = 0; i < n; i++) {
        double old = x[i];

        x[i] = c * old - s * y[i];
        y[i] = s * old + c * y[i];
    }
}

/* Turns two columns until they are orthogonal; false when they were. */
static bool turn(struct svd *svd, size_t p, size_t q)
{
    size_t k = svd->k;
    double *x = svd->columns + p * k, *y = svd->columns + q * k;
    double xx = dot(x, x, k), yy = dot(y, y, k), xy = dot(x, y, k);
    double zeta, t, c;

    if (xy == 0 || fabs(xy) <= ORTHOGONAL * sqrt(xx) * sqrt(yy))
        return false;
    zeta = (yy - xx) / (2 * xy);
    t = copysign(1, zeta) / (fabs(zeta) + hypot(1, zeta));
    c = 1 / hypot(1, t);
    rotate(x, y, k, c, c * t);
    rotate(svd->right + p * k, svd->right + q * k, k, c, c * t);
    return true;
}

/* Hestenes' one-sided Jacobi method. `columns` holds the matrix. */
static void svd_run(struct svd *svd)
{
    size_t k = svd->k;
    bool is_turning = true;

    for (size_t i = 0; i < k; i++)
        svd->right[i * k + i] = 1;
    for (int sweep = 0; sweep < MAX_SWEEPS && is_turning; sweep++) {
        is_turning = false;
        for (size_t p = 0; p + 1 < k; p++) {
            for (size_t q = p + 1; q < k; q++)
                is_turning = turn(svd, p, q) || is_turning;
        }
    }
    for (size_t i = 0; i < k; i++) {
        double value = sqrt(dot(svd->columns + i * k, svd->columns + i * k, k));
        size_t at = i;

        for (; at > 0 && svd->values[at - 1] < value; at--) {
            svd->values[at] = svd->values[at - 1];
            svd->order[at] = svd->order[at - 1];
        }
        svd->values[at] = value;
        svd->order[at] = i;
    }
}

/* ---- truncation ---------------------------------------------------------------------------- */

/* columns[j][i] = sum over r of rb[i][r] ra[j][r]: what lies between the two orthonormal lists. */
static void fill_core(struct svd *svd, const double *rb, const double *ra)
{
    size_t k = svd->k;

    for (size_t j = 0; j < k; j++) {
        for (size_t i = 0; i < k; i++)
            svd->columns[j * k + i] = dot(rb + i * k, ra + j * k, k);
    }
}

/* out[s] = sum over i of weights[s][i] times sqrt(value) vectors[i], for the first `rank` values. */
static void combine(double *out, size_t n, size_t rank, const struct svd *svd, const double *vectors, bool is_left)
{
    size_t k = svd->k;

    for (size_t s = 0; s < rank; s++) {
        const double *weights = (is_left ? svd->columns : svd->right) + svd->order[s] * k;
        double value = svd->values[s];
        double factor = value > 0 ? (is_left ? 1 / sqrt(value) : sqrt(value)) : 0;

        for (size_t i = 0; i < k; i++)
            add_scaled(out + s * n, factor * weights[i], vectors + i * n, n);
    }
}

bool rv_low_rank_truncate(struct rv_low_rank *product, size_t rank, struct rv_low_rank_loss *loss)
{
    size_t k = product->rank;
    double *rb = new_numbers(k, k), *ra = new_numbers(k, k);
    struct rv_low_rank result = {0};
    struct svd svd = {0};
    bool is_done = false;

    rank = rank < k ? rank : k;
    if (rb && ra && svd_init(&svd, k) && rv_low_rank_init(&result, product->n_out, product->n_in, rank)) {
        orthonormalise(product->b, k, product->n_out, rb);
        orthonormalise(product->a, k, product->n_in, ra);
        fill_core(&svd, rb, ra);
        svd_run(&svd);
        combine(result.b, product->n_out, rank, &svd, product->b, true);
        combine(result.a, product->n_in, rank, &svd, product->a, false);
        *loss = (struct rv_low_rank_loss){0};
        for (size_t s = 0; s < k; s++) {
            loss->total += svd.values[s] * svd.values[s];
            loss->dropped += s < rank ? 0 : svd.values[s] * svd.values[s];
        }
        is_done = true;
    }
    if (is_done) {
        rv_low_rank_release(product);
        *product = result;
    }
    rv_free(rb);
    rv_free(ra);
    svd_release(&svd);
    return is_done;
}

/* ---- full matrices ------------------------------------------------------------------------- */

static void load_row(double *row, const float *matrix, size_t i, size_t n)
{
    for (size_t j = 0; j < n; j++)
        row[j] = (double)matrix[i * n + j];
}

/* b[s] = M a[s] */
static void multiply(struct rv_low_rank *p, const float *matrix, double *row)
{
    for (size_t i = 0; i < p->n_out; i++) {
        load_row(row, matrix, i, p->n_in);
        for (size_t s = 0; s < p->rank; s++)
            p->b[s * p->n_out + i] = dot(row, p->a + s * p->n_in, p->n_in);
    }
}

/* a[s] = M' b[s] */
static void multiply_back(struct rv_low_rank *p, const float *matrix, double *row)
{
    memset(p->a, 0, p->rank * p->n_in * sizeof(*p->a));
    for (size_t i = 0; i < p->n_out; i++) {
        load_row(row, matrix, i, p->n_in);
        for (size_t s = 0; s < p->rank; s++)
            add_scaled(p->a + s * p->n_in, p->b[s * p->n_out + i], row, p->n_in);
    }
}

static void iterate(struct rv_low_rank *p, const float *matrix, double *row, uint64_t seed)
{
    struct rv_rng rng;

    rv_rng_init(&rng, seed);
    for (size_t i = 0; i < p->rank * p->n_in; i++)
        p->a[i] = rv_rng_normal(&rng);
    for (int i = 0; i < N_ITERATIONS; i++) {
        multiply(p, matrix, row);
        orthonormalise(p->b, p->rank, p->n_out, NULL);
        multiply_back(p, matrix, row);
        if (i + 1 < N_ITERATIONS)
            orthonormalise(p->a, p->rank, p->n_in, NULL);
    }
}

/* Unit vectors on one side and the matrix itself on the other. */
static void split_exactly(struct rv_low_rank *p, const float *matrix)
{
    bool is_wide = p->rank == p->n_out;

    for (size_t s = 0; s < p->rank; s++) {
        if (is_wide) {
            p->b[s * p->n_out + s] = 1;
            load_row(p->a + s * p->n_in, matrix, s, p->n_in);
        } else {
            p->a[s * p->n_in + s] = 1;
            for (size_t i = 0; i < p->n_out; i++)
                p->b[s * p->n_out + i] = (double)matrix[i * p->n_in + s];
        }
    }
}

bool rv_low_rank_from_matrix(struct rv_low_rank *out, const float *matrix, size_t n_out, size_t n_in, size_t rank,
                             uint64_t seed, struct rv_low_rank_loss *loss)
{
    size_t narrow = n_out < n_in ? n_out : n_in;
    size_t k = rank + OVERSAMPLE < narrow ? rank + OVERSAMPLE : narrow;
    double *row = new_numbers(1, n_in), total = 0;
    struct rv_low_rank_loss kept;
    bool is_done;

    *out = (struct rv_low_rank){0};
    is_done = row && rv_low_rank_init(out, n_out, n_in, k);
    for (size_t i = 0; is_done && i < n_out; i++) {
        load_row(row, matrix, i, n_in);
        total += dot(row, row, n_in);
    }
    if (is_done && k == narrow)
        split_exactly(out, matrix);
    else if (is_done)
        iterate(out, matrix, row, seed);
    rv_free(row);
    if (!is_done || !rv_low_rank_truncate(out, rank, &kept)) {
        if (is_done)
            rv_low_rank_release(out);
        return false;
    }
    *loss = (struct rv_low_rank_loss){fmax(total - (kept.total - kept.dropped), 0), total};
    if (k == narrow)
        loss->dropped = kept.dropped;
    return true;
}
