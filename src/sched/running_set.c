/* An ordered array: it changes when requests come and go, and is walked in every step. */
#include "sched/running_set.h"

#include "base/alloc.h"

#include <string.h>

ruvllm_status rv_running_set_init(struct rv_running_set *set, struct rv_block_pool *pool, struct rv_prefix_tree *tree,
                                  int32_t max, struct ruvllm_error *err)
{
    *set = (struct rv_running_set){.pool = pool, .tree = tree, .max = max};
    set->requests = rv_calloc((size_t)max, sizeof(struct rv_request *));
    set->free_slots = rv_calloc((size_t)max, sizeof(*set->free_slots));
    if (!set->requests || !set->free_slots)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a table of %d sequences", max);
    for (int32_t i = 0; i < max; i++)
        set->free_slots[i] = max - 1 - i;
    return RUVLLM_OK;
}

void rv_running_set_release(struct rv_running_set *set)
{
    rv_free(set->requests);
    rv_free(set->free_slots);
    *set = (struct rv_running_set){0};
}

void rv_running_set_spill_to(struct rv_running_set *set, struct rv_spill_file *spill, size_t max_bytes)
{
    set->spill = spill;
    set->spill_step_bytes = max_bytes;
}

void rv_running_set_begin_plan(struct rv_running_set *set)
{
    set->is_dry = false;
    set->written_bytes = set->read_bytes = 0;
}

/* Having been preempted does not count: the next to give way would be one that is further on, and so in turn. */
static bool is_more_urgent(const struct rv_request *a, const struct rv_request *b)
{
    return a->priority != b->priority ? a->priority > b->priority : a->ticket < b->ticket;
}

void rv_running_set_add(struct rv_running_set *set, struct rv_request *request)
{
    int32_t i;

    RV_ASSERT(set->n < set->max);
    request->slot = set->free_slots[set->max - set->n - 1];
    for (i = set->n++; i > 0 && is_more_urgent(request, set->requests[i - 1]); i--)
        set->requests[i] = set->requests[i - 1];
    set->requests[i] = request;
    request->state = RV_REQUEST_RUNNING;
    request->n_rows = 0;
}

/* After the member was taken out of the table. */
static void vacate(struct rv_running_set *set, struct rv_request *request)
{
    set->free_slots[set->max - set->n - 1] = request->slot;
    if (set->on_vacant)
        set->on_vacant(set->user, request->slot);
}

void rv_running_set_remove(struct rv_running_set *set, struct rv_request *request)
{
    int32_t i = 0;

    while (i < set->n && set->requests[i] != request)
        i++;
    RV_ASSERT(i < set->n);
    set->n--;
    memmove(&set->requests[i], &set->requests[i + 1], (size_t)(set->n - i) * sizeof(struct rv_request *));
    vacate(set, request);
}

struct rv_request *rv_running_set_last(const struct rv_running_set *set)
{
    return set->n > 0 ? set->requests[set->n - 1] : NULL;
}

/*
 * Writes a sequence's blocks, from the first, as long as the file takes them. The last one too if it is not full: then
 * nothing at all is computed twice. Shared ones as well: they may be gone when it comes back.
 */
static void spill(struct rv_running_set *set, struct rv_request *request)
{
    const struct rv_kv_seq *kv = &request->kv;

    RV_ASSERT(request->spilled.n_blocks == 0);
    for (int32_t i = 0; set->spill && i * RV_KV_BLOCK_TOKENS < kv->len; i++) {
        int32_t n_held = kv->len - i * RV_KV_BLOCK_TOKENS;
        size_t bytes = rv_block_pool_block_bytes(set->pool, rv_block_pool_format(set->pool, kv->blocks[i]));

        if (set->written_bytes + bytes > set->spill_step_bytes ||
            !rv_spill_file_put(set->spill, &request->spilled, kv->blocks[i]))
            return;
        request->n_spilled += n_held < RV_KV_BLOCK_TOKENS ? n_held : RV_KV_BLOCK_TOKENS;
        set->written_bytes += bytes;
        set->n_spilled++;
    }
}

void rv_running_set_preempt_last(struct rv_running_set *set)
{
    struct rv_request *request = set->requests[--set->n];

    rv_request_drop_guesses(request, 0);
    spill(set, request);
    rv_kv_seq_clear(&request->kv);
    request->state = RV_REQUEST_WAITING;
    request->n_preempted++;
    request->n_rows = 0;
    request->cursor = (struct rv_prefix_cursor){0};
    request->next_lost = set->lost;
    set->lost = request;
    set->n_preempted++;
    vacate(set, request);
    set->is_dry = false; // blocks it shared may now be another's alone
}

size_t rv_running_set_available(const struct rv_running_set *set)
{
    size_t idle = set->tree ? rv_block_pool_idle_bytes(set->pool) : 0;

    return rv_block_pool_budget(set->pool) - rv_block_pool_used(set->pool) + idle;
}

/* ---- making room ---------------------------------------------------------------------------- */

/* Drops idle blocks until so many bytes are free; one at a time, for those of low precision give back little. */
static bool evict_bytes(struct rv_running_set *set, uint64_t tenant, size_t bytes)
{
    while (rv_block_pool_budget(set->pool) - rv_block_pool_used(set->pool) < bytes) {
        if (!set->tree || rv_prefix_tree_evict(set->tree, tenant, 1) == 0)
            return false;
        set->n_evicted++;
    }
    return true;
}

/* The same for n new blocks. */
static bool evict(struct rv_running_set *set, uint64_t tenant, int32_t n)
{
    return evict_bytes(set, tenant, (size_t)n * rv_block_pool_block_bytes(set->pool, RV_KV_BLOCK_F16));
}

static bool squeeze(struct rv_running_set *set, int32_t n)
{
    for (int32_t i = set->n - 1; !set->is_dry && i >= 0; i--) {
        set->n_squeezed += (uint64_t)rv_kv_seq_squeeze(&set->requests[i]->kv, n);
        if (rv_block_pool_n_free(set->pool) >= n)
            return true;
    }
    set->is_dry = true;
    return false;
}

/* Room for one row, whatever it takes. */
static bool make_room(struct rv_running_set *set, const struct rv_request *request)
{
    for (;;) {
        int32_t n = rv_kv_seq_n_needed(&request->kv, 1); // less when the one it shared a block with is gone

        if (evict(set, request->scope.tenant, n) || squeeze(set, n))
            return true;
        if (rv_running_set_last(set) == request)
            return false;
        rv_running_set_preempt_last(set);
    }
}

/* The largest part of n rows that needs no more new blocks than there are. */
static int32_t rows_that_fit(const struct rv_running_set *set, const struct rv_kv_seq *kv, int32_t n)
{
    while (n > 0 && rv_kv_seq_n_needed(kv, n) > rv_block_pool_n_free(set->pool))
        n -= (kv->len + n - 1) % RV_KV_BLOCK_TOKENS + 1; // to the end of the block before
    return n > 0 ? n : 0;
}

int32_t rv_running_set_reserve(struct rv_running_set *set, struct rv_request *request, int32_t n)
{
    struct rv_kv_seq *kv = &request->kv;
    int32_t n_fit = n;

    if (!evict(set, request->scope.tenant, rv_kv_seq_n_needed(kv, n)))
        n_fit = rows_that_fit(set, kv, n);
    if (n_fit == 0 && make_room(set, request))
        n_fit = rows_that_fit(set, kv, n);
    return n_fit > 0 && rv_kv_seq_reserve(kv, n_fit) ? n_fit : 0;
}

/* ---- coming back ---------------------------------------------------------------------------- */

bool rv_running_set_can_restore(const struct rv_running_set *set, const struct rv_request *request)
{
    if (request->spilled.n_blocks == 0 || set->read_bytes == 0)
        return true;
    return set->read_bytes + rv_spill_file_bytes(set->spill, &request->spilled, 0, INT32_MAX) <= set->spill_step_bytes;
}

void rv_running_set_restore(struct rv_running_set *set, struct rv_request *request)
{
    struct rv_kv_seq *kv = &request->kv;
    struct rv_spill_run *run = &request->spilled;

    for (int32_t i = 0; i < kv->n_blocks && run->n_blocks > 0; i++)
        rv_spill_file_skip(set->spill, run);
    while (run->n_blocks > 0) {
        int32_t n_held = request->n_spilled - kv->len, block = -1;
        size_t bytes = rv_spill_file_bytes(set->spill, run, 0, 1);

        if (evict_bytes(set, request->scope.tenant, bytes))
            block = rv_spill_file_get(set->spill, run);
        if (block < 0)
            break;
        rv_kv_seq_append(kv, block, n_held < RV_KV_BLOCK_TOKENS ? n_held : RV_KV_BLOCK_TOKENS);
        set->read_bytes += bytes;
        set->n_restored++;
    }
    rv_running_set_forget(set, request);
}

void rv_running_set_forget(struct rv_running_set *set, struct rv_request *request)
{
    if (request->spilled.n_blocks > 0)
        rv_spill_file_drop(set->spill, &request->spilled);
    request->n_spilled = 0;
}

bool rv_running_set_check(const struct rv_running_set *set)
{
    for (int32_t i = 0; i < set->n; i++) {
        const struct rv_request *r = set->requests[i];

        if (r->state != RV_REQUEST_RUNNING || r->i_waiting >= 0 || !rv_kv_seq_check(&r->kv) ||
            r->kv.len > r->n_tokens || r->spilled.n_blocks != 0 || r->n_spilled != 0 ||
            (i > 0 && !is_more_urgent(set->requests[i - 1], r)))
            return false;
        for (int32_t k = 0; k < i; k++) {
            if (set->requests[k]->slot == r->slot)
                return false;
        }
        for (int32_t k = 0; k < set->max - set->n; k++) {
            if (set->free_slots[k] == r->slot)
                return false;
        }
    }
    return set->lost == NULL;
}
