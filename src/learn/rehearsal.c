#include "learn/rehearsal.h"

#include "base/alloc.h"

#include <string.h>

static uint64_t bytes_of(int32_t n_rows, int32_t n_dims)
{
    return sizeof(struct rv_rehearsal_answer) +
           (uint64_t)n_rows *
               (sizeof(float) + (1 + RV_TRACE_TOP) * sizeof(int32_t) + (uint64_t)n_dims * sizeof(uint16_t));
}

void rv_rehearsal_unref(struct rv_rehearsal_answer *answer)
{
    if (!answer || atomic_fetch_sub_explicit(&answer->n_refs, 1, memory_order_acq_rel) > 1)
        return;
    rv_free(answer->tokens);
    rv_free(answer->top);
    rv_free(answer->logprobs);
    rv_free(answer->states);
    rv_free(answer);
}

static ruvllm_status copy_trace(const struct rv_trace *trace, struct rv_rehearsal_answer **out,
                                struct ruvllm_error *err)
{
    struct rv_rehearsal_answer *a = rv_calloc(1, sizeof(*a));
    size_t n = (size_t)trace->n_rows, dims = (size_t)trace->n_dims;

    *out = NULL;
    if (!a)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate an answer to go over again");
    atomic_init(&a->n_refs, 1);
    a->tokens = rv_realloc_array(NULL, n, sizeof(*a->tokens));
    a->top = rv_realloc_array(NULL, n * RV_TRACE_TOP, sizeof(*a->top));
    a->logprobs = rv_realloc_array(NULL, n, sizeof(*a->logprobs));
    a->states = rv_realloc_array(NULL, n * dims, sizeof(*a->states));
    if (!a->tokens || !a->top || !a->logprobs || !a->states) {
        rv_rehearsal_unref(a);
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate an answer to go over again");
    }
    a->n_rows = trace->n_rows;
    a->n_dims = trace->n_dims;
    a->scale = trace->scale;
    memcpy(a->tokens, trace->tokens, n * sizeof(*a->tokens));
    memcpy(a->top, trace->top, n * RV_TRACE_TOP * sizeof(*a->top));
    memcpy(a->logprobs, trace->logprobs, n * sizeof(*a->logprobs));
    memcpy(a->states, trace->states, n * dims * sizeof(*a->states));
    *out = a;
    return RUVLLM_OK;
}

static void drop_oldest(struct rv_rehearsal *r, struct rv_rehearsal_kind *kind)
{
    struct rv_rehearsal_answer *a = kind->answers[kind->oldest];

    kind->oldest = (kind->oldest + 1) % RV_REHEARSAL_MAX;
    kind->n--;
    r->n_bytes -= bytes_of(a->n_rows, a->n_dims);
    rv_rehearsal_unref(a);
}

void rv_rehearsal_init(struct rv_rehearsal *out, uint64_t max_bytes)
{
    *out = (struct rv_rehearsal){.max_bytes = max_bytes};
}

void rv_rehearsal_clear(struct rv_rehearsal *rehearsal)
{
    while (rehearsal->good.n)
        drop_oldest(rehearsal, &rehearsal->good);
    while (rehearsal->bad.n)
        drop_oldest(rehearsal, &rehearsal->bad);
}

ruvllm_status rv_rehearsal_add(struct rv_rehearsal *rehearsal, const struct rv_trace *trace, double score,
                               double advantage, int64_t generation, struct ruvllm_error *err)
{
    struct rv_rehearsal *r = rehearsal;
    struct rv_rehearsal_kind *kind = advantage > 0 ? &r->good : &r->bad;
    uint64_t bytes = bytes_of(trace->n_rows, trace->n_dims);
    struct rv_rehearsal_answer *a;
    ruvllm_status rc;

    if (trace->n_rows == 0 || advantage == 0 || bytes > r->max_bytes)
        return RUVLLM_OK;
    rc = copy_trace(trace, &a, err);
    if (rc)
        return rc;
    a->score = score;
    a->advantage = advantage;
    a->generation = generation;
    a->is_held_out = kind->n_seen++ % RV_REHEARSAL_HELD_OUT == RV_REHEARSAL_HELD_OUT - 1;
    if (kind->n == RV_REHEARSAL_MAX)
        drop_oldest(r, kind);
    kind->answers[(kind->oldest + kind->n++) % RV_REHEARSAL_MAX] = a;
    r->n_bytes += bytes;
    while (r->n_bytes > r->max_bytes)
        drop_oldest(r, r->good.n > r->bad.n ? &r->good : &r->bad);
    return RUVLLM_OK;
}

static void drop_newest_after(struct rv_rehearsal *r, struct rv_rehearsal_kind *kind, int64_t generation)
{
    while (kind->n > 0) {
        struct rv_rehearsal_answer *a = kind->answers[(kind->oldest + kind->n - 1) % RV_REHEARSAL_MAX];

        if (a->generation <= generation)
            return;
        kind->n--;
        r->n_bytes -= bytes_of(a->n_rows, a->n_dims);
        rv_rehearsal_unref(a);
    }
}

void rv_rehearsal_drop_after(struct rv_rehearsal *rehearsal, int64_t generation)
{
    drop_newest_after(rehearsal, &rehearsal->good, generation);
    drop_newest_after(rehearsal, &rehearsal->bad, generation);
}

static size_t take_kind(const struct rv_rehearsal_kind *kind, struct rv_rehearsal_answer **out)
{
    for (size_t i = 0; i < kind->n; i++) {
        out[i] = kind->answers[(kind->oldest + i) % RV_REHEARSAL_MAX];
        atomic_fetch_add_explicit(&out[i]->n_refs, 1, memory_order_relaxed);
    }
    return kind->n;
}

size_t rv_rehearsal_take(const struct rv_rehearsal *rehearsal, struct rv_rehearsal_answer **out)
{
    size_t n = take_kind(&rehearsal->good, out);

    return n + take_kind(&rehearsal->bad, out + n);
}
