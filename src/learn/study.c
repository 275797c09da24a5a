#include "learn/study.h"

#include "base/alloc.h"

ruvllm_status rv_study_new(struct rv_study **out, const struct rv_whitening *whitening, uint64_t max_bytes,
                           struct ruvllm_error *err)
{
    struct rv_study *s = rv_calloc(1, sizeof(*s));
    ruvllm_status rc;

    *out = NULL;
    if (!s)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a tenant's study");
    atomic_init(&s->n_refs, 1);
    s->pull = 1;
    s->own_bytes = sizeof(*s) + 6 * RV_HEAD_ADAPTER_MAX_RANK * (uint64_t)whitening->n_dims * sizeof(float);
    rv_rehearsal_init(&s->rehearsal, max_bytes);
    rc = rv_head_fisher_init(&s->fisher, whitening, err);
    if (rc) {
        rv_study_unref(s);
        return rc;
    }
    *out = s;
    return RUVLLM_OK;
}

struct rv_study *rv_study_ref(struct rv_study *study)
{
    atomic_fetch_add_explicit(&study->n_refs, 1, memory_order_relaxed);
    return study;
}

void rv_study_unref(struct rv_study *study)
{
    if (!study || atomic_fetch_sub_explicit(&study->n_refs, 1, memory_order_acq_rel) > 1)
        return;
    rv_rehearsal_clear(&study->rehearsal);
    rv_head_fisher_release(&study->fisher);
    rv_free(study);
}

uint64_t rv_study_n_bytes(const struct rv_study *study)
{
    return study->own_bytes + study->rehearsal.n_bytes;
}
