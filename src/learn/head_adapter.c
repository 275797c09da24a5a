/*
 * The step: M = sum of w g h^T, whitened on the side of h, and its largest pair or two by power iteration. Nothing of
 * size n_dims x n_dims is made; each iteration reads the rows twice.
 *
 * Its length: for a token drawn from p, the expectation of (g . dh)^2 is the variance of the logits' change, which is
 * twice the KL divergence as far as second order goes. So the rows themselves say how long the step may be. But rows
 * that were certain of their tokens say nothing of what it does elsewhere: no step changes its own states by more than
 * a share of what states are long.
 */
#include "learn/head_adapter.h"

#include "base/alloc.h"
#include "kernels/vec.h"
#include "learn/small_eigen.h"

#include <math.h>
#include <string.h>

static const double MAX_CHANGE = 0.05; // of a state's length; votes on ordinary answers come to 0.01 to 0.045

enum { ITERATIONS = 2, MAX_PAIRS = RV_HEAD_ADAPTER_MAX_RANK + RV_HEAD_ADAPTER_STEP_RANK };

ruvllm_status rv_head_adapter_init(struct rv_head_adapter *out, int32_t n_dims, int32_t rank, struct ruvllm_error *err)
{
    size_t n = (size_t)(rank + RV_HEAD_ADAPTER_STEP_RANK) * (size_t)n_dims;

    *out = (struct rv_head_adapter){.n_dims = n_dims, .rank = rank};
    if (rank < 1 || rank > RV_HEAD_ADAPTER_MAX_RANK)
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_SONA, "the rank of what is learned must be 1 to %d",
                            RV_HEAD_ADAPTER_MAX_RANK);
    out->a = rv_calloc(n, sizeof(*out->a));
    out->b = rv_calloc(n, sizeof(*out->b));
    if (out->a && out->b)
        return RUVLLM_OK;
    rv_head_adapter_release(out);
    return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate an adapter of rank %d", (int)rank);
}

void rv_head_adapter_release(struct rv_head_adapter *adapter)
{
    rv_free(adapter->a);
    rv_free(adapter->b);
    *adapter = (struct rv_head_adapter){0};
}

void rv_head_adapter_clear(struct rv_head_adapter *adapter)
{
    adapter->n_pairs = 0;
}

/* ---- the step ------------------------------------------------------------------------------- */

/* What power iteration works on: the rows, less the pairs that were found already. */
struct sum {
    const struct rv_head_rows *rows;
    const struct rv_whitening *whitening;
    const struct rv_vec_ops *ops;
    size_t n_dims;
    int32_t n_found;
    float *a; // pairs found, in 32 bits
    float *b;
    float *first; // a b to begin with
    float *row;   // scratch
};

/*
 * b = M a', with a' = C^-1 a: the raising direction is against the gradient. Begins where to_right ended, whose last
 * rows are still in the processor's cache.
 */
static void to_left(const struct sum *s, const float *a, float *b)
{
    const struct rv_head_rows *r = s->rows;

    memset(b, 0, s->n_dims * sizeof(*b));
    for (size_t t = r->n; t-- > 0;) {
        float c;

        if (r->weights[t] == 0)
            continue;
        c = r->weights[t] * s->ops->dot_bf16(a, r->states + t * s->n_dims, s->n_dims);
        s->ops->add_bf16(b, r->gradients + t * s->n_dims, -c, s->n_dims);
    }
}

/* a = C^-1 (M^T b) */
static void to_right(const struct sum *s, const float *b, float *a)
{
    const struct rv_head_rows *r = s->rows;

    memset(s->row, 0, s->n_dims * sizeof(*s->row));
    for (size_t t = 0; t < r->n; t++) {
        float c;

        if (r->weights[t] == 0)
            continue;
        c = r->weights[t] * s->ops->dot_bf16(b, r->gradients + t * s->n_dims, s->n_dims);
        s->ops->add_bf16(s->row, r->states + t * s->n_dims, -c, s->n_dims);
    }
    rv_whitening_apply(s->whitening, s->row, a);
}

/* Takes out of b what lies along the pairs before. */
static void deflate(const struct sum *s, float *b)
{
    for (int32_t i = 0; i < s->n_found; i++) {
        const float *other = s->b + (size_t)i * s->n_dims;
        float square = s->ops->dot(other, other, s->n_dims);

        if (square > 0)
            s->ops->add(b, other, -s->ops->dot(b, other, s->n_dims) / square, s->n_dims);
    }
}

static bool normalise(float *x, size_t n)
{
    double norm = rv_vec_norm(x, n);

    if (!(norm > 0) || !isfinite(norm))
        return false;
    rv_vec_scale(x, (float)(1 / norm), n);
    return true;
}

/* One more pair, b of length 1; false when nothing is left. */
static bool find_pair(struct sum *s)
{
    float *a = s->a + (size_t)s->n_found * s->n_dims;
    float *b = s->b + (size_t)s->n_found * s->n_dims;

    memcpy(b, s->first, s->n_dims * sizeof(*b));
    for (int i = 0; i < ITERATIONS; i++) {
        if (i > 0)
            to_left(s, a, b);
        deflate(s, b);
        if (!normalise(b, s->n_dims))
            return false;
        to_right(s, b, a);
        if (!(rv_vec_norm(a, s->n_dims) > 0))
            return false;
    }
    s->n_found++;
    return true;
}

/* What the pairs found do to the rows: the mean of what is gained, by the rows' weights, and the mean KL divergence. */
struct effect {
    double gain;   // to first order, for weights whose mean size is 1
    double kl;     // half the mean of (g . B A h)^2, over gradients g of tokens as they are drawn
    double square; // the mean of |B A h|^2
};

static struct effect measure(const struct sum *s)
{
    struct effect e = {0};
    double size = 0;

    for (size_t t = 0; t < s->rows->n; t++) {
        double change = 0, gain = 0;

        for (int32_t i = 0; i < s->n_found; i++) {
            const float *b = s->b + (size_t)i * s->n_dims;
            float inner = s->ops->dot_bf16(s->a + (size_t)i * s->n_dims, s->rows->states + t * s->n_dims, s->n_dims);

            e.square += (double)inner * (double)inner; // the b are of length 1, and at right angles
            change += (double)(inner * s->ops->dot_bf16(b, s->rows->probes + t * s->n_dims, s->n_dims));
            gain -= (double)(inner * s->ops->dot_bf16(b, s->rows->gradients + t * s->n_dims, s->n_dims));
        }
        e.kl += change * change / 2;
        e.gain += (double)s->rows->weights[t] * gain;
        size += fabs((double)s->rows->weights[t]);
    }
    e.gain = size > 0 ? e.gain / size : 0;
    e.kl = s->rows->n ? e.kl / (double)s->rows->n : 0;
    e.square = s->rows->n ? e.square / (double)s->rows->n : 0;
    return e;
}

/*
 * How far to go: as far as is allowed. But who raises tokens gains less and less on the way, most of all when they were
 * the likeliest already, and loses beyond gain / (2 kl).
 */
static double length_of(const struct effect *e, double target_kl, bool raises, double mean_square)
{
    double allowed = sqrt(target_kl / e->kl), useful = e->gain / (2 * e->kl);
    double farthest = MAX_CHANGE * sqrt(mean_square / e->square);

    allowed = farthest < allowed ? farthest : allowed;
    return raises && useful < allowed ? useful : allowed;
}

void rv_head_adapter_step(struct rv_head_step *step, const struct rv_head_rows *rows,
                          const struct rv_whitening *whitening, double target_kl, int32_t n_pairs, float *scratch)
{
    size_t n = (size_t)whitening->n_dims;
    struct sum s = {.rows = rows,
                    .whitening = whitening,
                    .ops = rv_vec_best(),
                    .n_dims = n,
                    .a = scratch,
                    .b = scratch + RV_HEAD_ADAPTER_STEP_RANK * n,
                    .first = scratch + 2 * RV_HEAD_ADAPTER_STEP_RANK * n,
                    .row = scratch + (2 * RV_HEAD_ADAPTER_STEP_RANK + 1) * n};
    double length, side, total = 0;
    struct effect effect;

    step->n_pairs = 0;
    step->kl = 0;
    step->gain = 0;
    memset(s.first, 0, n * sizeof(*s.first));
    for (size_t t = rows->n; t-- > 0;) // so that what comes next finds the first rows in the cache
        s.ops->add_bf16(s.first, rows->gradients + t * n, -rows->weights[t], n);
    while (s.n_found < n_pairs && find_pair(&s))
        ;
    effect = measure(&s);
    for (size_t t = 0; t < rows->n; t++)
        total += (double)rows->weights[t];
    if (!(effect.kl > 0) || !isfinite(effect.kl))
        return;
    length = length_of(&effect, target_kl, total > 0, rv_whitening_mean_square(whitening));
    if (!(length > 0))
        return;
    side = sqrt(length); // half of it on either side
    for (size_t i = 0; i < (size_t)s.n_found * n; i++) {
        step->a[i] = rv_vec_to_bf16((float)(side * (double)s.a[i]));
        step->b[i] = rv_vec_to_bf16((float)(side * (double)s.b[i]));
    }
    step->n_pairs = s.n_found;
    step->kl = length * length * effect.kl;
    /* log p changes by the first order less the KL divergence: it works against who raises, and for who lowers. */
    step->gain = length * effect.gain + (total > 0 ? -step->kl : step->kl);
}

/* ---- folding -------------------------------------------------------------------------------- */

/* x^T C y, with C the covariance without its ridge. */
static void gram_of_states(const struct rv_whitening *w, const struct rv_vec_ops *ops, const float *rows, int n,
                           double *gram)
{
    double parts[MAX_PAIRS];
    size_t dims = (size_t)w->n_dims;

    for (int i = 0; i < n; i++) {
        for (int j = 0; j <= i; j++)
            gram[i * n + j] =
                (double)(w->rest + w->ridge) * (double)ops->dot(rows + (size_t)i * dims, rows + (size_t)j * dims, dims);
    }
    for (int32_t k = 0; k < w->n_directions; k++) {
        for (int i = 0; i < n; i++)
            parts[i] = (double)ops->dot(rows + (size_t)i * dims, w->directions + (size_t)k * dims, dims);
        for (int i = 0; i < n; i++) {
            for (int j = 0; j <= i; j++)
                gram[i * n + j] += (double)(w->variances[k] - w->rest) * parts[i] * parts[j];
        }
    }
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < i; j++)
            gram[j * n + i] = gram[i * n + j];
    }
}

/* rows <- m rows, n_out x n. */
static void recombine(const struct rv_vec_ops *ops, float *rows, int n, size_t dims, const double *m, int n_out,
                      float *scratch)
{
    memset(scratch, 0, (size_t)n_out * dims * sizeof(*scratch));
    for (int i = 0; i < n_out; i++) {
        for (int j = 0; j < n; j++)
            ops->add(scratch + (size_t)i * dims, rows + (size_t)j * dims, (float)m[i * n + j], dims);
    }
    memcpy(rows, scratch, (size_t)n_out * dims * sizeof(*scratch));
}

/*
 * Keeps the `rank` largest pairs of B A, measured on ordinary states. With the Gram matrix of A's rows Kx = E D E^T and
 * L = E sqrt(D), the singular values are those of Y^T L; Q are the eigenvectors of L^T Ky L. Then A <- Q L^-1 A and
 * B <- (L Q)^T B.
 */
static void truncate(struct rv_head_adapter *x, const struct rv_whitening *whitening, float *scratch)
{
    const struct rv_vec_ops *ops = rv_vec_best();
    double kx[MAX_PAIRS * MAX_PAIRS], ky[MAX_PAIRS * MAX_PAIRS], e[MAX_PAIRS * MAX_PAIRS], d[MAX_PAIRS];
    double l[MAX_PAIRS * MAX_PAIRS], p[MAX_PAIRS * MAX_PAIRS], q[MAX_PAIRS * MAX_PAIRS], values[MAX_PAIRS];
    double to_a[MAX_PAIRS * MAX_PAIRS] = {0}, to_b[MAX_PAIRS * MAX_PAIRS] = {0};
    int n = x->n_pairs, n_kept;
    size_t dims = (size_t)x->n_dims;

    gram_of_states(whitening, ops, x->a, n, kx);
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++)
            ky[i * n + j] = (double)ops->dot(x->b + (size_t)i * dims, x->b + (size_t)j * dims, dims);
    }
    rv_small_eigen(kx, n, d, e);
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++)
            l[i * n + j] = e[j * n + i] * sqrt(d[j] > 1e-12 * d[0] ? d[j] : 0);
    }
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) {
            p[i * n + j] = 0;
            for (int k = 0; k < n; k++) {
                for (int m = 0; m < n; m++)
                    p[i * n + j] += l[k * n + i] * ky[k * n + m] * l[m * n + j];
            }
        }
    }
    rv_small_eigen(p, n, values, q);
    n_kept = n < x->rank ? n : x->rank;
    while (n_kept > 0 && !(values[n_kept - 1] > 1e-20 * values[0]))
        n_kept--;
    for (int i = 0; i < n_kept; i++) {
        double balance = sqrt(sqrt(values[i])); // half of the pair's size on either side

        for (int j = 0; j < n; j++) {
            for (int k = 0; k < n; k++) {
                if (d[k] > 1e-12 * d[0])
                    to_a[i * n + j] += q[i * n + k] * e[k * n + j] / sqrt(d[k]) * balance;
                to_b[i * n + j] += q[i * n + k] * l[j * n + k] / balance;
            }
        }
    }
    recombine(ops, x->a, n, dims, to_a, n_kept, scratch);
    recombine(ops, x->b, n, dims, to_b, n_kept, scratch);
    x->n_pairs = n_kept;
}

void rv_head_adapter_fold(struct rv_head_adapter *adapter, const struct rv_head_step *step, float share,
                          const struct rv_whitening *whitening, float *scratch)
{
    struct rv_head_adapter *x = adapter;
    size_t dims = (size_t)x->n_dims, base = (size_t)x->n_pairs * dims;

    if (step->n_pairs == 0)
        return;
    for (size_t i = 0; i < (size_t)step->n_pairs * dims; i++) {
        x->a[base + i] = rv_vec_from_bf16(step->a[i]);
        x->b[base + i] = share * rv_vec_from_bf16(step->b[i]);
    }
    x->n_pairs += step->n_pairs;
    truncate(x, whitening, scratch);
}

void rv_head_adapter_apply(const struct rv_head_adapter *adapter, const float *state, float *out)
{
    const struct rv_vec_ops *ops = rv_vec_best();
    size_t dims = (size_t)adapter->n_dims;

    memset(out, 0, dims * sizeof(*out));
    for (int32_t i = 0; i < adapter->n_pairs; i++)
        ops->add(out, adapter->b + (size_t)i * dims, ops->dot(adapter->a + (size_t)i * dims, state, dims), dims);
}

double rv_head_adapter_energy(const struct rv_head_adapter *adapter, const struct rv_whitening *whitening)
{
    const struct rv_vec_ops *ops = rv_vec_best();
    double gram[MAX_PAIRS * MAX_PAIRS], sum = 0;
    int n = adapter->n_pairs;
    size_t dims = (size_t)adapter->n_dims;

    gram_of_states(whitening, ops, adapter->a, n, gram);
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++)
            sum +=
                gram[i * n + j] * (double)ops->dot(adapter->b + (size_t)i * dims, adapter->b + (size_t)j * dims, dims);
    }
    return sum;
}
