#include "learn/consolidate.h"

#include "base/alloc.h"
#include "kernels/vec.h"
#include "learn/small_eigen.h"

#include <string.h>

/* Members in a common basis; each matrix is basis.n rows of n_dims. */
struct meeting {
    struct rv_head_basis basis;
    const struct rv_consolidate_member *members;
    int32_t n;
    size_t size;      // of a matrix
    float *matrices;  // one a member
    float *certainty; // likewise, for EWC_MERGE
    float *out;
};

const char *rv_consolidate_name(enum rv_consolidate_strategy strategy)
{
    static const char *const names[RV_CONSOLIDATE_N] = {"ewc_merge", "average", "quality_weighted", "best_only",
                                                        "ensemble"};

    return (unsigned)strategy < RV_CONSOLIDATE_N ? names[strategy] : NULL;
}

static void weigh(struct meeting *m, const double *weights)
{
    for (int32_t i = 0; i < m->n; i++)
        rv_vec_best()->add(m->out, m->matrices + (size_t)i * m->size, (float)weights[i], m->size);
}

static void average(struct meeting *m)
{
    double weights[RV_CONSOLIDATE_MAX];

    for (int32_t i = 0; i < m->n; i++)
        weights[i] = 1.0 / m->n;
    weigh(m, weights);
}

static void weigh_by_quality(struct meeting *m)
{
    double weights[RV_CONSOLIDATE_MAX], total = 0;

    for (int32_t i = 0; i < m->n; i++) {
        weights[i] = m->members[i].quality > 0 ? m->members[i].quality : 0;
        total += weights[i];
    }
    for (int32_t i = 0; i < m->n; i++)
        weights[i] = total > 0 ? weights[i] / total : 0;
    weigh(m, weights);
}

static void take_best(struct meeting *m)
{
    double weights[RV_CONSOLIDATE_MAX] = {0};
    int32_t best = 0;

    for (int32_t i = 1; i < m->n; i++)
        best = m->members[i].quality > m->members[best].quality ? i : best;
    weights[best] = 1;
    weigh(m, weights);
}

/*
 * The minimum of the sum of F_i (x - x_i)^2, number by number. Where nobody knows anything all count the same: a trifle
 * is added to each, small against what is known anywhere.
 */
static void merge_by_certainty(struct meeting *m)
{
    double trifle = 0;

    for (size_t j = 0; j < (size_t)m->n * m->size; j++)
        trifle += (double)m->certainty[j];
    trifle = trifle > 0 ? 1e-3 * trifle / (double)((size_t)m->n * m->size) : 1;
    for (size_t j = 0; j < m->size; j++) {
        double sum = 0, total = 0;

        for (int32_t i = 0; i < m->n; i++) {
            double f = (double)m->certainty[(size_t)i * m->size + j] + trifle;

            sum += f * (double)m->matrices[(size_t)i * m->size + j];
            total += f;
        }
        m->out[j] = (float)(sum / total);
    }
}

/* Directions that belong together: the eigenvectors of the sum of M M^T. In each the largest member speaks. */
static void let_the_largest_speak(struct meeting *m)
{
    const struct rv_vec_ops *ops = rv_vec_best();
    double gram[RV_HEAD_BASIS_MAX * RV_HEAD_BASIS_MAX] = {0}, values[RV_HEAD_BASIS_MAX];
    double vectors[RV_HEAD_BASIS_MAX * RV_HEAD_BASIS_MAX];
    size_t dims = (size_t)m->basis.whitening->n_dims;
    float *part = m->certainty; // room for one row of each member
    int n = m->basis.n;

    for (int32_t i = 0; i < m->n; i++) {
        const float *x = m->matrices + (size_t)i * m->size;

        for (int j = 0; j < n; j++) {
            for (int k = 0; k < n; k++)
                gram[j * n + k] += (double)ops->dot(x + (size_t)j * dims, x + (size_t)k * dims, dims);
        }
    }
    rv_small_eigen(gram, n, values, vectors);
    for (int e = 0; e < n; e++) {
        double largest = -1;
        int32_t who = 0;

        memset(part, 0, (size_t)m->n * dims * sizeof(*part));
        for (int32_t i = 0; i < m->n; i++) {
            for (int k = 0; k < n; k++)
                ops->add(part + (size_t)i * dims, m->matrices + (size_t)i * m->size + (size_t)k * dims,
                         (float)vectors[e * n + k], dims);
            if (rv_vec_norm(part + (size_t)i * dims, dims) > largest) {
                largest = rv_vec_norm(part + (size_t)i * dims, dims);
                who = i;
            }
        }
        for (int k = 0; k < n; k++)
            ops->add(m->out + (size_t)k * dims, part + (size_t)who * dims, (float)vectors[e * n + k], dims);
    }
}

static void decide(struct meeting *m, enum rv_consolidate_strategy strategy)
{
    switch (strategy) {
    case RV_CONSOLIDATE_AVERAGE:
        average(m);
        break;
    case RV_CONSOLIDATE_QUALITY_WEIGHTED:
        weigh_by_quality(m);
        break;
    case RV_CONSOLIDATE_BEST_ONLY:
        take_best(m);
        break;
    case RV_CONSOLIDATE_ENSEMBLE:
        let_the_largest_speak(m);
        break;
    default:
        for (int32_t i = 0; i < m->n; i++) {
            if (m->members[i].fisher)
                rv_head_fisher_read(m->members[i].fisher, &m->basis, m->certainty + (size_t)i * m->size);
        }
        merge_by_certainty(m);
        break;
    }
}

ruvllm_status rv_consolidate(struct rv_head_adapter *out, enum rv_consolidate_strategy strategy,
                             const struct rv_consolidate_member *members, int32_t n,
                             const struct rv_whitening *whitening, struct ruvllm_error *err)
{
    struct meeting m = {.members = members, .n = n};
    ruvllm_status rc;

    if (n < 1 || n > RV_CONSOLIDATE_MAX || !rv_consolidate_name(strategy))
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_SONA, "%d adapters cannot be made one by strategy %d",
                            (int)n, (int)strategy);
    rc = rv_head_basis_init(&m.basis, whitening, RV_HEAD_BASIS_MAX, err);
    if (rc)
        return rc;
    for (int32_t i = 0; i < n; i++)
        rv_head_basis_add(&m.basis, members[i].adapter->a, members[i].adapter->n_pairs);
    m.size = (size_t)m.basis.n * (size_t)whitening->n_dims;
    m.matrices = rv_calloc((size_t)(2 * n + 1) * (m.size ? m.size : 1), sizeof(*m.matrices));
    if (!m.matrices) {
        rv_head_basis_release(&m.basis);
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %d adapters to be made one", (int)n);
    }
    m.certainty = m.matrices + (size_t)n * m.size;
    m.out = m.certainty + (size_t)n * m.size;
    for (int32_t i = 0; i < n; i++)
        rv_head_basis_read(&m.basis, members[i].adapter, m.matrices + (size_t)i * m.size);
    decide(&m, strategy);
    rv_head_basis_write(&m.basis, m.out, out);
    rv_free(m.matrices);
    rv_head_basis_release(&m.basis);
    return RUVLLM_OK;
}
