#include "store/witness_ring.h"

#include "base/alloc.h"

ruvllm_status rv_witness_ring_init(struct rv_witness_ring *ring, size_t cap, struct ruvllm_error *err)
{
    *ring = (struct rv_witness_ring){.rows = rv_calloc(cap, sizeof(*ring->rows)), .cap = cap};
    if (!ring->rows)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a witness buffer of %zu entries", cap);
    return RUVLLM_OK;
}

void rv_witness_ring_release(struct rv_witness_ring *ring)
{
    rv_free(ring->rows);
}

bool rv_witness_ring_push(struct rv_witness_ring *ring, const struct rv_store_witness *row)
{
    bool is_full = ring->n == ring->cap;

    if (is_full) {
        ring->i_first = (ring->i_first + 1) % ring->cap;
        ring->n--;
    }
    if (ring->n == 0)
        ring->i_first = 0; // a log that is written in time touches only the first pages of its buffer
    ring->rows[(ring->i_first + ring->n) % ring->cap] = *row;
    ring->n++;
    return is_full;
}

size_t rv_witness_ring_pop(struct rv_witness_ring *ring, struct rv_store_witness *out, size_t max)
{
    size_t n = ring->n < max ? ring->n : max;

    for (size_t i = 0; i < n; i++)
        out[i] = ring->rows[(ring->i_first + i) % ring->cap];
    ring->i_first = (ring->i_first + n) % ring->cap;
    ring->n -= n;
    return n;
}

size_t rv_witness_ring_unpop(struct rv_witness_ring *ring, const struct rv_store_witness *rows, size_t n)
{
    size_t room = ring->cap - ring->n, kept = n < room ? n : room;

    for (size_t i = 0; i < kept; i++) {
        ring->i_first = (ring->i_first + ring->cap - 1) % ring->cap;
        ring->rows[ring->i_first] = rows[n - 1 - i];
    }
    ring->n += kept;
    return n - kept;
}
