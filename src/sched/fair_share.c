/*
 * Tenants without requests keep their row, so that leaving and coming back does not wipe out what they had; when rows
 * run out, those go first whose count would be lifted anyway. There are twice as many rows as tenants can have
 * requests, so a sweep pays for itself.
 */
#include "sched/fair_share.h"

#include "base/alloc.h"

enum { FREE = -1 };

static const double lightest = 0.001; // less would outrun the counters

ruvllm_status rv_fair_share_init(struct rv_fair_share *share, int32_t max_requests, struct ruvllm_error *err)
{
    int32_t n = 2 * max_requests;
    ruvllm_status rc;

    *share = (struct rv_fair_share){.n_rows = n};
    share->tenants = rv_calloc((size_t)n, sizeof(*share->tenants));
    share->free_rows = rv_calloc((size_t)n, sizeof(*share->free_rows));
    if (!share->tenants || !share->free_rows)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a table of %d tenants", n);
    for (int32_t i = n - 1; i >= 0; i--) {
        share->tenants[i].n_requests = FREE;
        share->free_rows[share->n_free++] = i;
    }
    rc = rv_id_map_init(&share->row_by_id, (size_t)n, err);
    return rc ? rc : rv_id_heap_init(&share->present, n, err);
}

void rv_fair_share_release(struct rv_fair_share *share)
{
    rv_free(share->tenants);
    rv_free(share->free_rows);
    rv_id_map_release(&share->row_by_id);
    rv_id_heap_release(&share->present);
    *share = (struct rv_fair_share){0};
}

/* What the one served least among those present had; 0 when none is. */
static uint64_t lowest(const struct rv_fair_share *share)
{
    int32_t row = rv_id_heap_first(&share->present);

    return row >= 0 ? share->tenants[row].served : 0;
}

/* Forgets tenants without requests that were served no more than `limit`. */
static void forget_absent(struct rv_fair_share *share, uint64_t limit)
{
    for (int32_t i = 0; i < share->n_rows; i++) {
        struct rv_fair_share_tenant *t = &share->tenants[i];

        if (t->n_requests != 0 || t->served > limit)
            continue;
        (void)rv_id_map_remove(&share->row_by_id, t->id);
        t->n_requests = FREE;
        share->free_rows[share->n_free++] = i;
    }
}

static int32_t add_tenant(struct rv_fair_share *share, uint64_t id)
{
    int32_t row;
    bool is_new;

    if (share->n_free == 0)
        forget_absent(share, lowest(share));
    if (share->n_free == 0)
        forget_absent(share, UINT64_MAX);
    RV_ASSERT(share->n_free > 0); // no more requests than were announced
    row = share->free_rows[--share->n_free];
    share->tenants[row] = (struct rv_fair_share_tenant){.id = id};
    is_new = rv_id_map_add(&share->row_by_id, id, row);
    RV_ASSERT(is_new);
    return row;
}

int32_t rv_fair_share_enter(struct rv_fair_share *share, uint64_t tenant)
{
    int32_t row = rv_id_map_find(&share->row_by_id, tenant);
    struct rv_fair_share_tenant *t;

    if (row < 0)
        row = add_tenant(share, tenant);
    t = &share->tenants[row];
    if (t->n_requests++ > 0)
        return row;
    if (t->served < lowest(share))
        t->served = lowest(share);
    rv_id_heap_put(&share->present, row, t->served);
    return row;
}

void rv_fair_share_leave(struct rv_fair_share *share, int32_t row)
{
    RV_ASSERT(share->tenants[row].n_requests > 0);
    if (--share->tenants[row].n_requests == 0)
        rv_id_heap_remove(&share->present, row);
}

/* Fractions are kept, so that a token at a time costs in the end what all of them at once would. */
void rv_fair_share_charge(struct rv_fair_share *share, int32_t row, int32_t n, float weight)
{
    struct rv_fair_share_tenant *t = &share->tenants[row];
    double cost = weight == 0 ? n : n / (weight > lightest ? (double)weight : lightest);
    uint64_t whole;

    RV_ASSERT(t->n_requests > 0);
    cost += t->rest;
    whole = (uint64_t)cost;
    t->rest = cost - (double)whole;
    t->served += whole;
    rv_id_heap_put(&share->present, row, t->served);
}

bool rv_fair_share_check(const struct rv_fair_share *share)
{
    int32_t n_known = 0;

    for (int32_t i = 0; i < share->n_rows; i++) {
        const struct rv_fair_share_tenant *t = &share->tenants[i];

        if (rv_id_heap_has(&share->present, i) != (t->n_requests > 0))
            return false;
        if (t->n_requests > 0 && share->present.keys[i] != t->served)
            return false;
        if (t->n_requests == FREE)
            continue;
        if (rv_id_map_find(&share->row_by_id, t->id) != i)
            return false;
        n_known++;
    }
    return n_known + share->n_free == share->n_rows && share->row_by_id.n_ids == (size_t)n_known &&
           rv_id_heap_check(&share->present);
}
