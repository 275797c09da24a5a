/*
 * Greedy pair merging. Both paths take the pair with the smallest (priority, position) next, so they give the same
 * result; which one runs is only a matter of speed.
 *
 * In the heap path an entry is stale when either symbol has changed since it was pushed. A symbol changes only by
 * growing over its right neighbour or by vanishing into its left one: the pair that starts at a living symbol is
 * longer after any change, so its length tells.
 */
#include "text/merge.h"

#include "base/alloc.h"

#include <string.h>

/* Up to here scanning all pairs beats the heap's bookkeeping (measured on English text and source code). */
#define LINEAR_MAX 48
#define ARITY 4 // children share a cache line: half the misses of a binary heap on long runs
#define NO_RULE UINT32_MAX
#define NONE UINT32_MAX

struct rv_merge_link {
    uint32_t prev;
    uint32_t next;
};

struct rv_merge_entry {
    uint64_t key; // priority, then index of the left symbol
    uint32_t len; // of both symbols together when pushed
    int32_t id;
};

void rv_merge_init(struct rv_merge *merge, rv_merge_find_fn find, const void *context)
{
    *merge = (struct rv_merge){.find = find, .context = context};
}

void rv_merge_release(struct rv_merge *merge)
{
    rv_free(merge->symbols);
    rv_free(merge->links);
    rv_free(merge->heap);
    *merge = (struct rv_merge){0};
}

void rv_merge_clear(struct rv_merge *merge)
{
    merge->n_symbols = 0;
}

/* Makes an array hold at least `need` elements, doubling; false when memory is out. */
static bool grow(void **array, size_t *cap, size_t need, size_t size)
{
    size_t new_cap = *cap ? *cap : 64;
    void *grown;

    if (need <= *cap)
        return true;
    while (new_cap < need)
        new_cap *= 2;
    grown = rv_realloc_array(*array, new_cap, size);
    if (!grown)
        return false;
    *array = grown;
    *cap = new_cap;
    return true;
}

ruvllm_status rv_merge_push(struct rv_merge *merge, uint32_t start, uint32_t len, int32_t id, struct ruvllm_error *err)
{
    if (merge->n_symbols == merge->symbols_cap &&
        !grow((void **)&merge->symbols, &merge->symbols_cap, merge->n_symbols + 1, sizeof(*merge->symbols)))
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %zu symbols", merge->n_symbols + 1);
    merge->symbols[merge->n_symbols++] = (struct rv_merge_symbol){.start = start, .len = len, .id = id};
    return RUVLLM_OK;
}

static void rule_at(const struct rv_merge *merge, size_t i, struct rv_merge_rule *rule)
{
    if (i + 1 >= merge->n_symbols || !merge->find(merge->context, &merge->symbols[i], &merge->symbols[i + 1], rule))
        rule->priority = NO_RULE;
}

static void run_linear(struct rv_merge *merge)
{
    struct rv_merge_rule rules[LINEAR_MAX];
    struct rv_merge_symbol *symbols = merge->symbols;

    for (size_t i = 0; i < merge->n_symbols; i++)
        rule_at(merge, i, &rules[i]);
    for (;;) {
        size_t best = 0;
        for (size_t i = 1; i < merge->n_symbols; i++) {
            if (rules[i].priority < rules[best].priority)
                best = i;
        }
        if (rules[best].priority == NO_RULE)
            return;
        symbols[best].len += symbols[best + 1].len;
        symbols[best].id = rules[best].id;
        merge->n_symbols--;
        memmove(&symbols[best + 1], &symbols[best + 2], (merge->n_symbols - best - 1) * sizeof(*symbols));
        memmove(&rules[best + 1], &rules[best + 2], (merge->n_symbols - best - 1) * sizeof(*rules));
        rule_at(merge, best, &rules[best]);
        if (best > 0)
            rule_at(merge, best - 1, &rules[best - 1]);
    }
}

/* Pushes the pair if it has a rule. The heap never outgrows what run_heap reserved. */
static void heap_push(struct rv_merge *merge, uint32_t left, uint32_t right)
{
    struct rv_merge_rule rule;
    struct rv_merge_entry entry;
    size_t i;

    if (left == NONE || right == NONE ||
        !merge->find(merge->context, &merge->symbols[left], &merge->symbols[right], &rule))
        return;
    entry = (struct rv_merge_entry){.key = (uint64_t)rule.priority << 32 | left,
                                    .len = merge->symbols[left].len + merge->symbols[right].len,
                                    .id = rule.id};
    RV_ASSERT(merge->heap_len < merge->heap_cap);
    for (i = merge->heap_len++; i > 0 && merge->heap[(i - 1) / ARITY].key > entry.key; i = (i - 1) / ARITY)
        merge->heap[i] = merge->heap[(i - 1) / ARITY];
    merge->heap[i] = entry;
}

/* The index of the smallest child of i, or n when it has none. */
static size_t smallest_child(const struct rv_merge_entry *heap, size_t i, size_t n)
{
    size_t best = ARITY * i + 1, end = best + ARITY;

    if (best >= n)
        return n;
    if (end > n)
        end = n;
    for (size_t child = best + 1; child < end; child++) {
        if (heap[child].key < heap[best].key)
            best = child;
    }
    return best;
}

static struct rv_merge_entry heap_pop(struct rv_merge *merge)
{
    struct rv_merge_entry *heap = merge->heap;
    struct rv_merge_entry top = heap[0], last = heap[--merge->heap_len];
    size_t i = 0, child;

    while ((child = smallest_child(heap, i, merge->heap_len)) < merge->heap_len && heap[child].key < last.key) {
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = last;
    return top;
}

/* Closes the gaps that merging left (symbols of length 0). */
static void compact(struct rv_merge *merge)
{
    size_t n = 0;

    for (size_t i = 0; i < merge->n_symbols; i++) {
        if (merge->symbols[i].len > 0)
            merge->symbols[n++] = merge->symbols[i];
    }
    merge->n_symbols = n;
}

static void merge_entry(struct rv_merge *merge, const struct rv_merge_entry *entry)
{
    uint32_t left = (uint32_t)entry->key, right = merge->links[left].next;
    struct rv_merge_symbol *a = &merge->symbols[left], *b;

    if (a->len == 0 || right == NONE)
        return;
    b = &merge->symbols[right];
    if (a->len + b->len != entry->len)
        return;
    a->len += b->len;
    a->id = entry->id;
    b->len = 0;
    merge->links[left].next = merge->links[right].next;
    if (merge->links[left].next != NONE)
        merge->links[merge->links[left].next].prev = left;
    heap_push(merge, merge->links[left].prev, left);
    heap_push(merge, left, merge->links[left].next);
}

static ruvllm_status run_heap(struct rv_merge *merge, struct ruvllm_error *err)
{
    size_t n = merge->n_symbols;

    /* n - 1 pairs at the start; each of at most n - 1 merges pops one entry and pushes at most two. */
    if (!grow((void **)&merge->links, &merge->links_cap, n, sizeof(*merge->links)) ||
        !grow((void **)&merge->heap, &merge->heap_cap, 2 * n, sizeof(*merge->heap)))
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate room to merge %zu symbols", n);
    merge->heap_len = 0;
    for (size_t i = 0; i < n; i++)
        merge->links[i] =
            (struct rv_merge_link){.prev = i ? (uint32_t)(i - 1) : NONE, .next = i + 1 < n ? (uint32_t)(i + 1) : NONE};
    for (size_t i = 0; i + 1 < n; i++)
        heap_push(merge, (uint32_t)i, (uint32_t)(i + 1));
    while (merge->heap_len > 0) {
        struct rv_merge_entry entry = heap_pop(merge);
        merge_entry(merge, &entry);
    }
    compact(merge);
    return RUVLLM_OK;
}

ruvllm_status rv_merge_run(struct rv_merge *merge, struct ruvllm_error *err)
{
    if (merge->n_symbols < 2)
        return RUVLLM_OK;
    if (merge->n_symbols > LINEAR_MAX)
        return run_heap(merge, err);
    run_linear(merge);
    return RUVLLM_OK;
}
