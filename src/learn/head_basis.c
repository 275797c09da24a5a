#include "learn/head_basis.h"

#include "base/alloc.h"
#include "kernels/vec.h"
#include "learn/small_eigen.h"

#include <math.h>
#include <string.h>

_Static_assert((int)RV_HEAD_BASIS_MAX <= (int)RV_SMALL_EIGEN_MAX, "eigenvectors of the basis");

ruvllm_status rv_head_basis_init(struct rv_head_basis *out, const struct rv_whitening *whitening, int32_t max,
                                 struct ruvllm_error *err)
{
    size_t n = (size_t)max * (size_t)whitening->n_dims;

    *out = (struct rv_head_basis){.whitening = whitening, .max = max};
    out->rows = rv_calloc(n, sizeof(*out->rows));
    out->duals = rv_calloc(n, sizeof(*out->duals));
    if (out->rows && out->duals)
        return RUVLLM_OK;
    rv_head_basis_release(out);
    return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a basis of %d rows", (int)max);
}

void rv_head_basis_release(struct rv_head_basis *basis)
{
    rv_free(basis->rows);
    rv_free(basis->duals);
    *basis = (struct rv_head_basis){0};
}

static void add_row(struct rv_head_basis *b, const float *row)
{
    const struct rv_vec_ops *ops = rv_vec_best();
    size_t dims = (size_t)b->whitening->n_dims, at = (size_t)b->n * dims;
    float *new = b->rows + at, *dual = b->duals + at;
    double before, after;

    memcpy(new, row, dims * sizeof(*row));
    rv_whitening_metric(b->whitening, new, dual);
    before = sqrt((double)ops->dot(new, dual, dims));
    for (int pass = 0; pass < 2; pass++) { // once more for what rounding left
        for (int32_t k = 0; k < b->n; k++)
            ops->add(new, b->rows + (size_t)k * dims, -ops->dot(new, b->duals + (size_t)k * dims, dims), dims);
    }
    rv_whitening_metric(b->whitening, new, dual);
    after = sqrt((double)ops->dot(new, dual, dims));
    if (!(after > 1e-4 * before) || !isfinite(after))
        return;
    rv_vec_scale(new, (float)(1 / after), dims);
    rv_vec_scale(dual, (float)(1 / after), dims);
    b->n++;
}

void rv_head_basis_add(struct rv_head_basis *basis, const float *rows, int32_t n)
{
    for (int32_t i = 0; i < n && basis->n < basis->max; i++)
        add_row(basis, rows + (size_t)i * (size_t)basis->whitening->n_dims);
}

void rv_head_basis_read(const struct rv_head_basis *basis, const struct rv_head_adapter *adapter, float *out)
{
    const struct rv_vec_ops *ops = rv_vec_best();
    size_t dims = (size_t)basis->whitening->n_dims;

    memset(out, 0, (size_t)basis->n * dims * sizeof(*out));
    for (int32_t i = 0; i < adapter->n_pairs; i++) {
        for (int32_t k = 0; k < basis->n; k++)
            ops->add(out + (size_t)k * dims, adapter->b + (size_t)i * dims,
                     ops->dot(adapter->a + (size_t)i * dims, basis->duals + (size_t)k * dims, dims), dims);
    }
}

/* With coefficients M, the change is M^T Q; the eigenvectors of M M^T are its left sides in the basis Q. */
void rv_head_basis_write(const struct rv_head_basis *basis, const float *coefficients, struct rv_head_adapter *out)
{
    const struct rv_vec_ops *ops = rv_vec_best();
    double gram[RV_HEAD_BASIS_MAX * RV_HEAD_BASIS_MAX], values[RV_HEAD_BASIS_MAX];
    double vectors[RV_HEAD_BASIS_MAX * RV_HEAD_BASIS_MAX];
    size_t dims = (size_t)basis->whitening->n_dims;
    int n = basis->n;

    out->n_pairs = 0;
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++)
            gram[i * n + j] = (double)ops->dot(coefficients + (size_t)i * dims, coefficients + (size_t)j * dims, dims);
    }
    rv_small_eigen(gram, n, values, vectors);
    for (int i = 0; i < n && i < out->rank && values[i] > 1e-14 * values[0] && values[i] > 0; i++) {
        float *a = out->a + (size_t)i * dims, *b = out->b + (size_t)i * dims;
        double side = sqrt(sqrt(values[i])); // half of the pair's size on either side

        memset(a, 0, dims * sizeof(*a));
        memset(b, 0, dims * sizeof(*b));
        for (int k = 0; k < n; k++) {
            ops->add(a, basis->rows + (size_t)k * dims, (float)(side * vectors[i * n + k]), dims);
            ops->add(b, coefficients + (size_t)k * dims, (float)(vectors[i * n + k] / side), dims);
        }
        out->n_pairs++;
    }
}

ruvllm_status rv_head_basis_shift(struct rv_head_adapter *adapter, const struct rv_head_adapter *to,
                                  const struct rv_head_adapter *from, const struct rv_whitening *whitening,
                                  struct ruvllm_error *err)
{
    const struct rv_head_adapter *parts[] = {adapter, to, from};
    const float signs[] = {1, 1, -1};
    struct rv_head_basis basis;
    float *matrices;
    size_t size;
    ruvllm_status rc = rv_head_basis_init(&basis, whitening, 3 * RV_HEAD_ADAPTER_MAX_RANK, err);

    if (rc)
        return rc;
    for (int i = 0; i < 3; i++)
        rv_head_basis_add(&basis, parts[i]->a, parts[i]->n_pairs);
    size = (size_t)basis.n * (size_t)whitening->n_dims;
    matrices = rv_calloc(2 * (size ? size : 1), sizeof(*matrices));
    if (!matrices) {
        rv_head_basis_release(&basis);
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %zu numbers", 2 * size);
    }
    for (int i = 0; i < 3; i++) {
        rv_head_basis_read(&basis, parts[i], matrices + size);
        rv_vec_best()->add(matrices, matrices + size, signs[i], size);
    }
    rv_head_basis_write(&basis, matrices, adapter);
    rv_free(matrices);
    rv_head_basis_release(&basis);
    return RUVLLM_OK;
}
