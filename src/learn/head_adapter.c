/*
 * The step: M = sum of w g h^T, whitened on the side of h, and the largest pair or two of what a few sums of its
 * gradients span. Nothing of size n_dims x n_dims is made. What a step costs is fetching the rows, so all
 * directions are multiplied while a row is at hand, and what was gained needs no look at the rows: it is what M was
 * multiplied by.
 *
 * Its length: for a token drawn from p, the expectation of (g . dh)^2 is the variance of the logits' change, which is
 * twice the KL divergence as far as second order goes. So the rows themselves say how long the step may be. But rows
 * that were certain of their tokens say nothing of what it does elsewhere: no step changes its own states by more than
 * a share of what states are long.
 */
#include "learn/head_adapter.h"

#include "base/alloc.h"
#include "kernels/row_sums.h"
#include "kernels/vec.h"
#include "learn/small_eigen.h"

#include <math.h>
#include <string.h>

static const double MAX_CHANGE = 0.05; // of a state's length; votes on ordinary answers come to 0.01 to 0.045

enum {
    BLOCK = RV_ROW_SUMS_MAX, // directions that are looked for together
    CHUNK = 64,              // rows whose sums are kept
    MANY = 128,              // rows: of more, half say where to look
    MAX_MEASURED = 64,       // rows that say how far a step may go
    FEW = 16,                // of them that lie together
    MAX_PAIRS = RV_HEAD_ADAPTER_MAX_RANK + RV_HEAD_ADAPTER_STEP_RANK
};

_Static_assert(3 * BLOCK <= RV_HEAD_ADAPTER_SCRATCH, "a, b and x of a block are scratch");

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

void rv_head_adapter_copy(struct rv_head_adapter *to, const struct rv_head_adapter *from)
{
    size_t n = (size_t)from->n_pairs * (size_t)from->n_dims;

    to->n_pairs = from->n_pairs;
    memcpy(to->a, from->a, n * sizeof(*to->a));
    memcpy(to->b, from->b, n * sizeof(*to->b));
}

/* ---- the step ------------------------------------------------------------------------------- */

/* Directions that are looked for together, in the rows. */
struct block {
    const struct rv_head_rows *rows;
    const struct rv_whitening *whitening;
    const struct rv_row_sums_ops *sums;
    const struct rv_vec_ops *ops;
    size_t n_dims;
    size_t n;
    float *b; // n of n_dims, at right angles and of length 1
    float *x; // M^T b
    float *a; // C^-1 x
};

/* Makes the b orthonormal, in order; what lies in the span of those before is left out. */
static void orthonormalise(struct block *s)
{
    size_t n = 0, dims = s->n_dims;

    for (size_t i = 0; i < s->n; i++) {
        float *row = s->b + n * dims, before, after;

        if (n != i)
            memcpy(row, s->b + i * dims, dims * sizeof(*row));
        before = s->ops->dot(row, row, dims);
        for (int pass = 0; pass < 2; pass++) { // once more for what rounding left
            for (size_t j = 0; j < n; j++)
                s->ops->add(row, s->b + j * dims, -s->ops->dot(row, s->b + j * dims, dims), dims);
        }
        after = s->ops->dot(row, row, dims);
        if (!(after > 1e-10f * before) || !isfinite(after))
            continue;
        rv_vec_scale(row, 1 / sqrtf(after), dims);
        n++;
    }
    s->n = n;
}

/*
 * To begin with: M applied to parts of the answer one after the other, as if all states were alike. What the parts say
 * differs more than what halves of its rows taken in turn would. Of a long answer the first half of each part: it only
 * says where to look.
 */
static void begin(struct block *s)
{
    const struct rv_head_rows *r = s->rows;
    float c[CHUNK];

    s->n = r->n < BLOCK ? r->n : BLOCK;
    memset(s->b, 0, s->n * s->n_dims * sizeof(*s->b));
    for (size_t i = s->n; i-- > 0;) { // so that what comes next finds the first rows in the cache
        size_t from = r->n * i / s->n, end = r->n * (i + 1) / s->n;

        end -= r->n > MANY ? (end - from) / 2 : 0;
        for (size_t t = from; t < end; t += CHUNK) {
            size_t n = end - t < CHUNK ? end - t : CHUNK;

            for (size_t k = 0; k < n; k++)
                c[k] = -r->weights[t + k];
            s->sums->adds(r->gradients + t * s->n_dims, n, c, s->b + i * s->n_dims, 1, s->n_dims);
        }
    }
    orthonormalise(s);
}

/* x = M^T b: the raising direction is against the gradient. */
static void multiply(const struct block *s)
{
    const struct rv_head_rows *r = s->rows;
    float c[CHUNK * BLOCK];

    memset(s->x, 0, s->n * s->n_dims * sizeof(*s->x));
    for (size_t t = 0; t < r->n; t += CHUNK) {
        size_t n = r->n - t < CHUNK ? r->n - t : CHUNK;

        s->sums->dots(r->gradients + t * s->n_dims, n, s->b, s->n, s->n_dims, c);
        for (size_t k = 0; k < n; k++) {
            for (size_t i = 0; i < s->n; i++)
                c[k * s->n + i] *= -r->weights[t + k];
        }
        s->sums->adds(r->states + t * s->n_dims, n, c, s->x, s->n, s->n_dims);
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
 * Of what the block spans, the pairs that gain most: b^T M C^-1 M^T b is the gain of a direction b, so the eigenvectors
 * of that matrix among the b. Returns what they gain in all.
 */
static double keep_best(struct block *s, int32_t n_pairs)
{
    double gains[BLOCK * BLOCK], values[BLOCK], vectors[BLOCK * BLOCK], all = 0;
    int n = (int)s->n, n_kept = n_pairs < n ? n_pairs : n;

    for (int i = 0; i < n; i++) {
        for (int j = 0; j <= i; j++) {
            gains[i * n + j] = gains[j * n + i] =
                (double)s->ops->dot(s->x + (size_t)i * s->n_dims, s->a + (size_t)j * s->n_dims, s->n_dims);
            all += fabs(gains[i * n + j]);
        }
    }
    s->n = 0;
    if (!(all > 0) || !isfinite(all))
        return 0;
    rv_small_eigen(gains, n, values, vectors);
    while (n_kept > 0 && !(values[n_kept - 1] > 1e-12 * values[0]))
        n_kept--;
    recombine(s->ops, s->a, n, s->n_dims, vectors, n_kept, s->x);
    recombine(s->ops, s->b, n, s->n_dims, vectors, n_kept, s->x);
    s->n = (size_t)n_kept;
    all = 0;
    for (int i = 0; i < n_kept; i++)
        all += values[i];
    return all;
}

/* What the pairs found do to the rows: the mean of what is gained, by the rows' weights, and the mean KL divergence. */
struct effect {
    double gain;   // to first order, for weights whose mean size is 1
    double kl;     // half the mean of (g . B A h)^2, over gradients g of tokens as they are drawn
    double square; // the mean of |B A h|^2
};

/* Adds what up to FEW rows say. */
static void measure_some(const struct block *s, size_t t, size_t n, struct effect *e)
{
    float inner[FEW * BLOCK], outer[FEW * BLOCK];

    s->sums->dots(s->rows->states + t * s->n_dims, n, s->a, s->n, s->n_dims, inner);
    s->sums->dots(s->rows->probes + t * s->n_dims, n, s->b, s->n, s->n_dims, outer);
    for (size_t k = 0; k < n; k++) {
        double change = 0;

        for (size_t i = k * s->n; i < (k + 1) * s->n; i++) {
            e->square += (double)inner[i] * (double)inner[i]; // the b are of length 1, and at right angles
            change += (double)inner[i] * (double)outer[i];
        }
        e->kl += change * change / 2;
    }
}

/* Of a long answer, few rows out of every so many: as many as a short one has say well enough how far a step may go. */
static struct effect measure(const struct block *s, double gain)
{
    size_t n = s->rows->n, n_few = n > MAX_MEASURED ? FEW * ((n + MAX_MEASURED - 1) / MAX_MEASURED) : FEW, n_seen = 0;
    struct effect e = {0};
    double size = 0;

    for (size_t t = 0; t < n && s->n > 0; t += n_few) {
        size_t m = n - t < FEW ? n - t : FEW;

        measure_some(s, t, m, &e);
        n_seen += m;
    }
    for (size_t t = 0; t < n; t++)
        size += fabs((double)s->rows->weights[t]);
    e.gain = size > 0 ? gain / size : 0;
    e.kl = n_seen ? e.kl / (double)n_seen : 0;
    e.square = n_seen ? e.square / (double)n_seen : 0;
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
    struct block s = {.rows = rows,
                      .whitening = whitening,
                      .sums = rv_row_sums_best(),
                      .ops = rv_vec_best(),
                      .n_dims = n,
                      .b = scratch,
                      .x = scratch + BLOCK * n,
                      .a = scratch + 2 * BLOCK * n};
    double length, total = 0;
    struct effect effect;
    float side;

    step->n_pairs = 0;
    step->kl = 0;
    step->gain = 0;
    begin(&s);
    multiply(&s);
    rv_whitening_apply(whitening, s.x, s.n, s.a);
    effect = measure(&s, keep_best(&s, n_pairs));
    for (size_t t = 0; t < rows->n; t++)
        total += (double)rows->weights[t];
    if (!(effect.kl > 0) || !isfinite(effect.kl))
        return;
    length = length_of(&effect, target_kl, total > 0, rv_whitening_mean_square(whitening));
    if (!(length > 0))
        return;
    side = (float)sqrt(length); // half of it on either side
    for (size_t i = 0; i < s.n * n; i++) {
        step->a[i] = rv_vec_to_bf16(side * s.a[i]);
        step->b[i] = rv_vec_to_bf16(side * s.b[i]);
    }
    step->n_pairs = (int32_t)s.n;
    step->kl = length * length * effect.kl;
    /* log p changes by the first order less the KL divergence: it works against who raises, and for who lowers. */
    step->gain = length * effect.gain + (total > 0 ? -step->kl : step->kl);
}

/* ---- folding -------------------------------------------------------------------------------- */

/* x^T C y, with C the covariance without its ridge. */
static void gram_of_states(const struct rv_whitening *w, const struct rv_vec_ops *ops, const float *rows, int n,
                           double *gram)
{
    float parts[RV_WHITENING_MAX_DIRECTIONS][MAX_PAIRS];
    size_t dims = (size_t)w->n_dims;

    rv_whitening_parts(w, rows, (size_t)n, MAX_PAIRS, parts[0]);
    for (int i = 0; i < n; i++) {
        for (int j = 0; j <= i; j++) {
            double sum =
                (double)(w->rest + w->ridge) * (double)ops->dot(rows + (size_t)i * dims, rows + (size_t)j * dims, dims);

            for (int32_t k = 0; k < w->n_directions; k++)
                sum += (double)(w->variances[k] - w->rest) * (double)parts[k][i] * (double)parts[k][j];
            gram[i * n + j] = gram[j * n + i] = sum;
        }
    }
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
