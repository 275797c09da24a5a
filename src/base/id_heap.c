/* The textbook heap; every move of an id goes through place(), which keeps the table of places true. */
#include "base/id_heap.h"

#include "base/alloc.h"

ruvllm_status rv_id_heap_init(struct rv_id_heap *heap, int32_t max_ids, struct ruvllm_error *err)
{
    size_t n = (size_t)max_ids;

    *heap = (struct rv_id_heap){.max_ids = max_ids};
    heap->ids = rv_calloc(n, sizeof(*heap->ids));
    heap->places = rv_calloc(n, sizeof(*heap->places));
    heap->keys = rv_calloc(n, sizeof(*heap->keys));
    if (!heap->ids || !heap->places || !heap->keys)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a heap of %d ids", max_ids);
    for (int32_t i = 0; i < max_ids; i++)
        heap->places[i] = -1;
    return RUVLLM_OK;
}

void rv_id_heap_release(struct rv_id_heap *heap)
{
    rv_free(heap->ids);
    rv_free(heap->places);
    rv_free(heap->keys);
    *heap = (struct rv_id_heap){0};
}

static void place(struct rv_id_heap *heap, int32_t at, int32_t id)
{
    heap->ids[at] = id;
    heap->places[id] = at;
}

/* Finds the place of an id whose place is a hole now, upwards and then downwards; one of the two does nothing. */
static void settle(struct rv_id_heap *heap, int32_t at, int32_t id)
{
    uint64_t key = heap->keys[id];

    while (at > 0 && heap->keys[heap->ids[(at - 1) / 2]] > key) {
        place(heap, at, heap->ids[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    for (;;) {
        int32_t child = 2 * at + 1;

        if (child + 1 < heap->n && heap->keys[heap->ids[child + 1]] < heap->keys[heap->ids[child]])
            child++;
        if (child >= heap->n || heap->keys[heap->ids[child]] >= key)
            break;
        place(heap, at, heap->ids[child]);
        at = child;
    }
    place(heap, at, id);
}

void rv_id_heap_put(struct rv_id_heap *heap, int32_t id, uint64_t key)
{
    int32_t at = heap->places[id];

    heap->keys[id] = key;
    settle(heap, at >= 0 ? at : heap->n++, id);
}

void rv_id_heap_remove(struct rv_id_heap *heap, int32_t id)
{
    int32_t at = heap->places[id], last;

    if (at < 0)
        return;
    heap->places[id] = -1;
    last = heap->ids[--heap->n];
    if (last != id)
        settle(heap, at, last);
}

bool rv_id_heap_has(const struct rv_id_heap *heap, int32_t id)
{
    return heap->places[id] >= 0;
}

int32_t rv_id_heap_first(const struct rv_id_heap *heap)
{
    return heap->n > 0 ? heap->ids[0] : -1;
}

bool rv_id_heap_check(const struct rv_id_heap *heap)
{
    int32_t n = 0;

    for (int32_t i = 0; i < heap->max_ids; i++)
        n += heap->places[i] >= 0;
    for (int32_t i = 0; i < heap->n; i++) {
        if (heap->places[heap->ids[i]] != i || heap->keys[heap->ids[(i - (i > 0)) / 2]] > heap->keys[heap->ids[i]])
            return false;
    }
    return n == heap->n;
}
