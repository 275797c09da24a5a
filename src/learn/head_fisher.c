#include "learn/head_fisher.h"

#include "base/alloc.h"
#include "kernels/vec.h"

#include <string.h>

static const double SHARE = 0.1;

ruvllm_status rv_head_fisher_init(struct rv_head_fisher *out, const struct rv_whitening *whitening,
                                  struct ruvllm_error *err)
{
    size_t n = (size_t)RV_HEAD_ADAPTER_MAX_RANK * (size_t)whitening->n_dims;
    ruvllm_status rc;

    *out = (struct rv_head_fisher){0};
    rc = rv_head_basis_init(&out->basis, whitening, RV_HEAD_ADAPTER_MAX_RANK, err);
    if (!rc)
        rc = rv_head_basis_init(&out->other, whitening, RV_HEAD_ADAPTER_MAX_RANK, err);
    if (rc) {
        rv_head_fisher_release(out);
        return rc;
    }
    out->values = rv_calloc(n, sizeof(*out->values));
    out->scratch = rv_calloc(n, sizeof(*out->scratch));
    if (out->values && out->scratch)
        return RUVLLM_OK;
    rv_head_fisher_release(out);
    return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %zu numbers", 2 * n);
}

void rv_head_fisher_release(struct rv_head_fisher *fisher)
{
    rv_head_basis_release(&fisher->basis);
    rv_head_basis_release(&fisher->other);
    rv_free(fisher->values);
    rv_free(fisher->scratch);
    *fisher = (struct rv_head_fisher){0};
}

void rv_head_fisher_clear(struct rv_head_fisher *fisher)
{
    fisher->basis.n = 0;
    fisher->n_seen = 0;
}

/* A direction's inner product with states is that of the old ones, mixed; mixed terms are left out, as EWC does. */
void rv_head_fisher_read(const struct rv_head_fisher *fisher, const struct rv_head_basis *basis, float *out)
{
    const struct rv_vec_ops *ops = rv_vec_best();
    size_t dims = (size_t)basis->whitening->n_dims;

    memset(out, 0, (size_t)basis->n * dims * sizeof(*out));
    for (int32_t i = 0; i < basis->n; i++) {
        for (int32_t k = 0; k < fisher->basis.n; k++) {
            float c = ops->dot(basis->rows + (size_t)i * dims, fisher->basis.duals + (size_t)k * dims, dims);

            ops->add(out + (size_t)i * dims, fisher->values + (size_t)k * dims, c * c, dims);
        }
    }
}

struct sum {
    struct rv_head_fisher *fisher;
    size_t n;
};

static void add_row(void *user, const float *state, const float *gradient)
{
    struct sum *s = user;
    size_t dims = (size_t)s->fisher->basis.whitening->n_dims;

    s->n++;
    for (int32_t k = 0; k < s->fisher->basis.n; k++) {
        float inner = rv_vec_best()->dot(s->fisher->basis.rows + (size_t)k * dims, state, dims);
        float *out = s->fisher->scratch + (size_t)k * dims;

        for (size_t d = 0; d < dims; d++)
            out[d] += inner * inner * gradient[d] * gradient[d];
    }
}

/* What is known so far, in the directions of this adapter. */
static void turn(struct rv_head_fisher *f, const struct rv_head_adapter *adapter)
{
    struct rv_head_basis before = f->basis;
    float *values = f->scratch;

    f->other.n = 0;
    rv_head_basis_add(&f->other, adapter->a, adapter->n_pairs);
    rv_head_fisher_read(f, &f->other, values);
    f->basis = f->other;
    f->other = before;
    f->scratch = f->values;
    f->values = values;
}

void rv_head_fisher_add(struct rv_head_fisher *fisher, struct rv_head_fit *fit, const struct rv_head_adapter *adapter,
                        size_t n)
{
    size_t size = (size_t)adapter->n_dims;
    struct sum sum = {.fisher = fisher};
    double share = 1 / (double)(fisher->n_seen + 1);

    turn(fisher, adapter);
    size *= (size_t)fisher->basis.n;
    memset(fisher->scratch, 0, size * sizeof(*fisher->scratch));
    rv_head_fit_each(fit, adapter, n, add_row, &sum);
    if (sum.n == 0)
        return;
    share = share > SHARE ? share : SHARE;
    for (size_t i = 0; i < size; i++)
        fisher->values[i] += (float)share * (fisher->scratch[i] / (float)sum.n - fisher->values[i]);
    fisher->n_seen++;
}
