/* A content is in the list of idle ones exactly while it is in memory, in a file, and held by nobody. */
#include "engine/adapter_residency.h"

static bool is_layered(const struct rv_adapter_body *body)
{
    return body->digest.layers != 0;
}

static bool is_idle(const struct rv_adapter_body *body)
{
    return body->adapter && body->n_holds == 0 && body->has_file && !body->is_doomed;
}

static void link_newest(struct rv_adapter_residency *r, struct rv_adapter_body *body)
{
    struct rv_adapter_residency_list *list = &r->idle[is_layered(body)];

    body->older = list->newest;
    body->newer = NULL;
    if (list->newest)
        list->newest->newer = body;
    else
        list->oldest = body;
    list->newest = body;
}

static void unlink_idle(struct rv_adapter_residency *r, struct rv_adapter_body *body)
{
    struct rv_adapter_residency_list *list = &r->idle[is_layered(body)];

    *(body->newer ? &body->newer->older : &list->newest) = body->older;
    *(body->older ? &body->older->newer : &list->oldest) = body->newer;
    body->newer = body->older = NULL;
}

void rv_adapter_residency_count(struct rv_adapter_residency *residency, const struct rv_adapter_body *body)
{
    residency->n_resident++;
    residency->n_bytes += body->n_bytes;
    residency->n_layered += is_layered(body);
}

void rv_adapter_residency_uncount(struct rv_adapter_residency *residency, const struct rv_adapter_body *body)
{
    residency->n_resident--;
    residency->n_bytes -= body->n_bytes;
    residency->n_layered -= is_layered(body);
}

static void evict(struct rv_adapter_residency *r, struct rv_adapter_body *body,
                  struct rv_adapter_residency_trash *trash)
{
    unlink_idle(r, body);
    rv_adapter_residency_uncount(r, body);
    r->n_evicted++;
    if (trash->n == RV_ADAPTER_RESIDENCY_TRASH)
        rv_adapter_residency_empty(trash);
    trash->adapters[trash->n++] = body->adapter;
    body->adapter = NULL;
}

/* The one of both lists that was used before the other; NULL when both are empty. */
static struct rv_adapter_body *oldest_of_all(const struct rv_adapter_residency *r)
{
    struct rv_adapter_body *head = r->idle[0].oldest, *layered = r->idle[1].oldest;

    if (!head || !layered)
        return head ? head : layered;
    return head->used < layered->used ? head : layered;
}

bool rv_adapter_residency_make_bytes(struct rv_adapter_residency *residency, uint64_t n_bytes,
                                     struct rv_adapter_residency_trash *trash)
{
    while (residency->n_bytes + n_bytes > residency->max_bytes) {
        struct rv_adapter_body *oldest = oldest_of_all(residency);

        if (!oldest)
            return false;
        evict(residency, oldest, trash);
    }
    return true;
}

bool rv_adapter_residency_make_room(struct rv_adapter_residency *residency, uint64_t n_bytes, bool is_layered,
                                    struct rv_adapter_residency_trash *trash)
{
    while (is_layered && residency->n_layered >= residency->max_layered) {
        if (!residency->idle[1].oldest)
            return false;
        evict(residency, residency->idle[1].oldest, trash);
    }
    return rv_adapter_residency_make_bytes(residency, n_bytes, trash);
}

void rv_adapter_residency_trim(struct rv_adapter_residency *residency, struct rv_adapter_residency_trash *trash)
{
    while (residency->n_layered > residency->max_layered && residency->idle[1].oldest)
        evict(residency, residency->idle[1].oldest, trash);
}

void rv_adapter_residency_hold(struct rv_adapter_residency *residency, struct rv_adapter_body *body)
{
    if (is_idle(body))
        unlink_idle(residency, body);
    body->n_holds++;
    body->used = ++residency->n_uses;
}

void rv_adapter_residency_let_go(struct rv_adapter_residency *residency, struct rv_adapter_body *body)
{
    body->n_holds--;
    if (is_idle(body))
        link_newest(residency, body);
}

void rv_adapter_residency_settle(struct rv_adapter_residency *residency, struct rv_adapter_body *body)
{
    if (is_idle(body))
        link_newest(residency, body);
}

void rv_adapter_residency_install(struct rv_adapter_residency *residency, struct rv_adapter_body *body,
                                  struct rv_adapter *adapter)
{
    body->n_holds++; // before it is in memory, so that it never counts as idle
    body->adapter = adapter;
    body->used = ++residency->n_uses;
}

void rv_adapter_residency_retire(struct rv_adapter_residency *residency, struct rv_adapter_body *body)
{
    if (!body->adapter)
        return;
    if (is_idle(body))
        unlink_idle(residency, body);
    rv_adapter_residency_uncount(residency, body);
}

void rv_adapter_residency_empty(struct rv_adapter_residency_trash *trash)
{
    while (trash->n > 0)
        rv_adapter_unref(trash->adapters[--trash->n]);
}
