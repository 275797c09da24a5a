#include "learn/trace.h"

#include "base/alloc.h"
#include "base/str.h"

#include <pthread.h>
#include <string.h>

struct rv_trace_ring {
    pthread_mutex_t lock;
    struct rv_trace *oldest, *newest; // guarded by lock, as n_bytes
    uint64_t n_bytes;
    uint64_t max_bytes; // likewise
};

/* ---- one answer ----------------------------------------------------------------------------- */

ruvllm_status rv_trace_new(struct rv_trace **out, uint64_t id, const char *tenant, int32_t n_dims, int32_t max_tokens,
                           struct ruvllm_error *err)
{
    struct rv_trace *t = rv_calloc(1, sizeof(*t));
    size_t cap, n;

    *out = NULL;
    if (!t)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a trace");
    atomic_init(&t->n_refs, 1);
    t->id = id;
    t->asked_last = -1;
    t->n_dims = n_dims;
    t->scale = 1;
    t->cap = max_tokens < RV_TRACE_MAX_ROWS ? max_tokens : RV_TRACE_MAX_ROWS;
    cap = (size_t)t->cap;
    n = cap * (size_t)n_dims;
    t->tenant = rv_strndup(tenant ? tenant : "", tenant ? strlen(tenant) : 0);
    t->tokens = rv_realloc_array(NULL, cap, sizeof(*t->tokens));
    t->top = rv_realloc_array(NULL, cap * RV_TRACE_TOP, sizeof(*t->top));
    t->logprobs = rv_realloc_array(NULL, cap, sizeof(*t->logprobs));
    t->is_recalled = rv_calloc(cap ? cap : 1, sizeof(*t->is_recalled));
    t->states = rv_realloc_array(NULL, n, sizeof(*t->states));
    t->gradients = rv_realloc_array(NULL, n, sizeof(*t->gradients));
    t->probes = rv_realloc_array(NULL, n, sizeof(*t->probes));
    if (!t->tenant || !t->tokens || !t->top || !t->logprobs || !t->is_recalled || !t->states || !t->gradients ||
        !t->probes) {
        rv_trace_unref(t);
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a trace of %d tokens", (int)t->cap);
    }
    *out = t;
    return RUVLLM_OK;
}

ruvllm_status rv_trace_set_prompt(struct rv_trace *trace, const int32_t *tokens, int32_t n_tokens,
                                  struct ruvllm_error *err)
{
    trace->n_prompt = n_tokens;
    trace->asked_last = tokens[n_tokens - 1];
    if (n_tokens > RV_TRACE_MAX_PROMPT)
        return RUVLLM_OK;
    trace->prompt = rv_realloc_array(NULL, (size_t)n_tokens, sizeof(*trace->prompt));
    if (!trace->prompt)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a trace's question of %d tokens", (int)n_tokens);
    memcpy(trace->prompt, tokens, (size_t)n_tokens * sizeof(*tokens));
    return RUVLLM_OK;
}

void rv_trace_context(const struct rv_trace *trace, int32_t row, int32_t *out, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        int32_t back = i - row; // into the question, from its end

        if (back < 0)
            out[i] = trace->tokens[row - 1 - i];
        else if (trace->prompt && back < trace->n_prompt)
            out[i] = trace->prompt[trace->n_prompt - 1 - back];
        else
            out[i] = back == 0 ? trace->asked_last : -1;
    }
}

struct rv_trace *rv_trace_ref(struct rv_trace *trace)
{
    atomic_fetch_add_explicit(&trace->n_refs, 1, memory_order_relaxed); // who adds one has one
    return trace;
}

void rv_trace_unref(struct rv_trace *trace)
{
    if (!trace || atomic_fetch_sub_explicit(&trace->n_refs, 1, memory_order_acq_rel) > 1)
        return;
    rv_free(trace->tenant);
    rv_free(trace->prompt);
    rv_free(trace->tokens);
    rv_free(trace->top);
    rv_free(trace->logprobs);
    rv_free(trace->is_recalled);
    rv_free(trace->states);
    rv_free(trace->gradients);
    rv_free(trace->probes);
    rv_free(trace);
}

uint64_t rv_trace_n_bytes(const struct rv_trace *trace)
{
    uint64_t row = 3 * sizeof(uint16_t) * (uint64_t)trace->n_dims + sizeof(float) + sizeof(bool) +
                   (1 + RV_TRACE_TOP) * sizeof(int32_t);

    return sizeof(*trace) + (uint64_t)trace->cap * row +
           (trace->prompt ? (uint64_t)trace->n_prompt * sizeof(*trace->prompt) : 0);
}

/* ---- the ring ------------------------------------------------------------------------------- */

ruvllm_status rv_trace_ring_new(struct rv_trace_ring **out, uint64_t max_bytes, struct ruvllm_error *err)
{
    struct rv_trace_ring *ring = rv_calloc(1, sizeof(*ring));

    *out = ring;
    if (!ring)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the ring of traces");
    ring->max_bytes = max_bytes;
    pthread_mutex_init(&ring->lock, NULL);
    return RUVLLM_OK;
}

/* Takes out the oldest, under the lock. */
static struct rv_trace *pop(struct rv_trace_ring *ring)
{
    struct rv_trace *t = ring->oldest;

    ring->oldest = t->next;
    if (!ring->oldest)
        ring->newest = NULL;
    ring->n_bytes -= rv_trace_n_bytes(t);
    return t;
}

void rv_trace_ring_free(struct rv_trace_ring *ring)
{
    if (!ring)
        return;
    while (ring->oldest)
        rv_trace_unref(pop(ring));
    pthread_mutex_destroy(&ring->lock);
    rv_free(ring);
}

/* Takes out what is too much, under the lock; for unref_all, outside of it. */
static struct rv_trace *pop_excess(struct rv_trace_ring *ring)
{
    struct rv_trace *gone = NULL;

    while (ring->oldest && ring->n_bytes > ring->max_bytes) {
        struct rv_trace *t = pop(ring);

        t->next = gone;
        gone = t;
    }
    return gone;
}

static void unref_all(struct rv_trace *gone)
{
    while (gone) {
        struct rv_trace *next = gone->next;

        rv_trace_unref(gone);
        gone = next;
    }
}

void rv_trace_ring_resize(struct rv_trace_ring *ring, uint64_t max_bytes)
{
    struct rv_trace *gone;

    pthread_mutex_lock(&ring->lock);
    ring->max_bytes = max_bytes;
    gone = pop_excess(ring);
    pthread_mutex_unlock(&ring->lock);
    unref_all(gone);
}

void rv_trace_ring_add(struct rv_trace_ring *ring, struct rv_trace *trace)
{
    struct rv_trace *gone;

    trace->next = NULL;
    pthread_mutex_lock(&ring->lock);
    if (ring->newest)
        ring->newest->next = trace;
    else
        ring->oldest = trace;
    ring->newest = trace;
    ring->n_bytes += rv_trace_n_bytes(trace);
    gone = pop_excess(ring);
    pthread_mutex_unlock(&ring->lock);
    unref_all(gone);
}

struct rv_trace *rv_trace_ring_find(struct rv_trace_ring *ring, uint64_t id, const char *tenant)
{
    struct rv_trace *t;

    pthread_mutex_lock(&ring->lock);
    for (t = ring->oldest; t && t->id != id; t = t->next)
        ;
    if (t && strcmp(t->tenant, tenant ? tenant : "") != 0)
        t = NULL;
    if (t)
        atomic_fetch_add_explicit(&t->n_refs, 1, memory_order_relaxed);
    pthread_mutex_unlock(&ring->lock);
    return t;
}
