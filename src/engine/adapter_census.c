/* Counts everything in a registry anew; what is counted while things change must come to the same. */
#include "engine/adapter_census.h"

#include "engine/adapter_threads.h"

struct census {
    size_t n_versions, n_ids, n_resident, n_idle, n_unwritten;
    int32_t n_layered;
    uint64_t n_bytes;
    bool is_right;
};

static void count_body(struct census *c, const struct rv_adapter_body *body)
{
    c->n_resident += body->adapter != NULL;
    c->n_layered += body->adapter && body->digest.layers;
    c->n_bytes += body->adapter ? body->n_bytes : 0;
    c->n_idle += body->adapter && body->has_file && body->n_holds == 0;
    c->n_unwritten += !body->has_file;
    c->is_right = c->is_right && body->n_versions > 0 && body->n_holds >= 0 && !body->is_doomed &&
                  (body->adapter || body->has_file || body->n_holds > 0);
}

static void count_name(struct census *c, const struct rv_adapter_name *name)
{
    int64_t before = INT64_MAX;
    int32_t n = 0;

    for (const struct rv_adapter_version *v = name->newest; v; v = v->older) {
        c->is_right = c->is_right && v->generation < before && v->generation <= name->last && !v->is_gone;
        before = v->generation;
        n++;
    }
    c->is_right = c->is_right && n == name->n_versions;
    c->n_versions += (size_t)n;
    c->n_ids += n > 0;
}

static size_t list_length(const struct rv_adapter_residency_list *list)
{
    size_t n = 0;

    for (const struct rv_adapter_body *body = list->oldest; body; body = body->newer)
        n++;
    return n;
}

bool rv_adapter_census_check(struct rv_adapter_registry *registry)
{
    struct rv_adapter_registry *r = registry;
    struct census c = {.is_right = true};

    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < r->index.n_body_buckets; i++) {
        for (const struct rv_adapter_body *body = r->index.bodies[i]; body; body = body->next)
            count_body(&c, body);
    }
    for (size_t i = 0; i < r->index.n_name_buckets; i++) {
        for (const struct rv_adapter_name *name = r->index.names[i]; name; name = name->next)
            count_name(&c, name);
    }
    c.is_right = c.is_right && c.n_versions == r->index.n_versions && c.n_ids == r->n_ids &&
                 (!r->config.files || c.n_unwritten == r->n_unwritten) &&
                 c.n_idle == list_length(&r->residency.idle[0]) + list_length(&r->residency.idle[1]);
    /* While something is read it is counted before it is there. */
    if (!r->served)
        c.is_right = c.is_right && c.n_resident == r->residency.n_resident && c.n_bytes == r->residency.n_bytes &&
                     c.n_layered == r->residency.n_layered;
    pthread_mutex_unlock(&r->lock);
    return c.is_right;
}
