#include "learn/trace.h"

#include "base/alloc.h"
#include "base/str.h"

#include <pthread.h>
#include <string.h>

enum { BUCKETS = 4096, WORDS_SHARE = 4 }; // of the room, one part in so many is for words

/* The oldest have words alone; `whole` is the first that has its rows too. */
struct rv_trace_ring {
    pthread_mutex_t lock;
    struct rv_trace *oldest, *whole, *newest; // guarded by lock, as all that follows
    uint64_t word_bytes;
    uint64_t row_bytes;
    uint64_t max_bytes;
    struct rv_trace *buckets[BUCKETS]; // by the end of the id
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

static void free_rows(struct rv_trace *t)
{
    rv_free(t->top);
    rv_free(t->logprobs);
    rv_free(t->is_recalled);
    rv_free(t->states);
    rv_free(t->gradients);
    rv_free(t->probes);
    t->top = NULL;
    t->logprobs = NULL;
    t->is_recalled = NULL;
    t->states = t->gradients = t->probes = NULL;
}

void rv_trace_unref(struct rv_trace *trace)
{
    if (!trace || atomic_fetch_sub_explicit(&trace->n_refs, 1, memory_order_acq_rel) > 1)
        return;
    free_rows(trace);
    rv_free(trace->tenant);
    rv_free(trace->prompt);
    rv_free(trace->tokens);
    rv_free(trace);
}

bool rv_trace_has_rows(const struct rv_trace *trace)
{
    return trace->states != NULL;
}

bool rv_trace_can_be_read_again(const struct rv_trace *trace)
{
    return trace->prompt && trace->n_rows > 0 && !trace->has_adapters;
}

/* Memory that got smaller; it stays where it was if the system will have it so. */
static void *shrink(void *array, size_t n, size_t size)
{
    void *smaller = rv_realloc_array(array, n, size);

    return smaller ? smaller : array;
}

/* An answer seldom is as long as it could have been. */
static void give_back_room(struct rv_trace *t)
{
    size_t n = t->n_rows > 0 ? (size_t)t->n_rows : 1, dims = (size_t)t->n_dims;

    if ((size_t)t->cap <= n)
        return;
    t->tokens = shrink(t->tokens, n, sizeof(*t->tokens));
    t->top = shrink(t->top, n * RV_TRACE_TOP, sizeof(*t->top));
    t->logprobs = shrink(t->logprobs, n, sizeof(*t->logprobs));
    t->is_recalled = shrink(t->is_recalled, n, sizeof(*t->is_recalled));
    t->states = shrink(t->states, n * dims, sizeof(*t->states));
    t->gradients = shrink(t->gradients, n * dims, sizeof(*t->gradients));
    t->probes = shrink(t->probes, n * dims, sizeof(*t->probes));
    t->cap = (int32_t)n;
}

static uint64_t word_bytes(const struct rv_trace *t)
{
    return sizeof(*t) + (uint64_t)t->cap * sizeof(*t->tokens) +
           (t->prompt ? (uint64_t)t->n_prompt * sizeof(*t->prompt) : 0);
}

static uint64_t row_bytes(const struct rv_trace *t)
{
    uint64_t row =
        3 * sizeof(uint16_t) * (uint64_t)t->n_dims + sizeof(float) + sizeof(bool) + RV_TRACE_TOP * sizeof(int32_t);

    return t->states ? (uint64_t)t->cap * row : 0;
}

uint64_t rv_trace_n_bytes(const struct rv_trace *trace)
{
    return word_bytes(trace) + row_bytes(trace);
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

/* ---- under the lock ---- */

static struct rv_trace **place_of(struct rv_trace_ring *ring, uint64_t id)
{
    struct rv_trace **place = &ring->buckets[id % BUCKETS];

    while (*place && (*place)->id != id)
        place = &(*place)->next_like;
    return place;
}

/* Takes out the oldest. */
static struct rv_trace *pop(struct rv_trace_ring *ring)
{
    struct rv_trace *t = ring->oldest, **place = place_of(ring, t->id);

    ring->oldest = t->next;
    if (!ring->oldest)
        ring->newest = NULL;
    if (ring->whole == t)
        ring->whole = t->next;
    while (*place && *place != t) // ids of a caller's that are there twice
        place = &(*place)->next_like;
    if (*place)
        *place = t->next_like;
    ring->word_bytes -= word_bytes(t);
    ring->row_bytes -= row_bytes(t);
    return t;
}

static void push(struct rv_trace_ring *ring, struct rv_trace *t)
{
    struct rv_trace **bucket = &ring->buckets[t->id % BUCKETS];

    t->next = NULL;
    t->next_like = *bucket;
    *bucket = t;
    if (ring->newest)
        ring->newest->next = t;
    else
        ring->oldest = t;
    if (!ring->whole)
        ring->whole = t;
    ring->newest = t;
    ring->word_bytes += word_bytes(t);
    ring->row_bytes += row_bytes(t);
}

/* Takes the rows of the oldest that have any, until they fit. One that somebody has is left as it is: it is read. */
static void drop_rows(struct rv_trace_ring *ring)
{
    uint64_t most = ring->max_bytes - ring->max_bytes / WORDS_SHARE;

    for (struct rv_trace *t = ring->whole; t && ring->row_bytes > most; t = t->next) {
        if (atomic_load_explicit(&t->n_refs, memory_order_acquire) > 1)
            continue;
        ring->row_bytes -= row_bytes(t);
        free_rows(t);
    }
    while (ring->whole && !rv_trace_has_rows(ring->whole))
        ring->whole = ring->whole->next;
}

/* Takes out what is too much; for unref_all, outside of the lock. */
static struct rv_trace *pop_excess(struct rv_trace_ring *ring)
{
    struct rv_trace *gone = NULL;

    drop_rows(ring);
    while (ring->oldest &&
           (ring->word_bytes > ring->max_bytes / WORDS_SHARE || ring->word_bytes + ring->row_bytes > ring->max_bytes)) {
        struct rv_trace *t = pop(ring);

        t->next = gone;
        gone = t;
    }
    return gone;
}

/* ---- any thread ---- */

void rv_trace_ring_free(struct rv_trace_ring *ring)
{
    if (!ring)
        return;
    while (ring->oldest)
        rv_trace_unref(pop(ring));
    pthread_mutex_destroy(&ring->lock);
    rv_free(ring);
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

    give_back_room(trace);
    pthread_mutex_lock(&ring->lock);
    push(ring, trace);
    gone = pop_excess(ring);
    pthread_mutex_unlock(&ring->lock);
    unref_all(gone);
}

struct rv_trace *rv_trace_ring_find(struct rv_trace_ring *ring, uint64_t id, const char *tenant)
{
    struct rv_trace *t;

    pthread_mutex_lock(&ring->lock);
    t = *place_of(ring, id);
    if (t && strcmp(t->tenant, tenant ? tenant : "") != 0)
        t = NULL;
    if (t)
        atomic_fetch_add_explicit(&t->n_refs, 1, memory_order_relaxed);
    pthread_mutex_unlock(&ring->lock);
    return t;
}

void rv_trace_ring_move(struct rv_trace_ring *to, struct rv_trace_ring *from)
{
    struct rv_trace *t;

    do {
        pthread_mutex_lock(&from->lock);
        t = from->oldest ? pop(from) : NULL;
        pthread_mutex_unlock(&from->lock);
        if (t)
            rv_trace_ring_add(to, t);
    } while (t);
}
