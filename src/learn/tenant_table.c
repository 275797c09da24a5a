#include "learn/tenant_table.h"

#include "base/alloc.h"
#include "base/str_map.h"

#include <pthread.h>
#include <string.h>

enum { N_BUCKETS = 16384, TRIES = 8 }; // tries: how many of the oldest are asked whether they may go

struct rv_tenant_table {
    const struct rv_tenant_table_ops *ops;
    void *user;
    uint64_t max_bytes;
    pthread_mutex_t lock;
    struct rv_tenant_link *buckets[N_BUCKETS]; // guarded by lock, as all below
    struct rv_tenant_link *oldest;             // of those that nobody uses
    struct rv_tenant_link *newest;
    struct rv_tenant_table_stats stats;
};

ruvllm_status rv_tenant_table_new(struct rv_tenant_table **out, const struct rv_tenant_table_ops *ops, void *user,
                                  uint64_t max_bytes, struct ruvllm_error *err)
{
    struct rv_tenant_table *table = rv_calloc(1, sizeof(*table));

    *out = table;
    if (!table)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a table of tenants");
    table->ops = ops;
    table->user = user;
    table->max_bytes = max_bytes;
    pthread_mutex_init(&table->lock, NULL); // cannot fail with default attributes
    return RUVLLM_OK;
}

static void let_go(struct rv_tenant_table *table, struct rv_tenant_link *link, bool is_end)
{
    char *name = link->name;

    table->ops->let_go(table->user, link, is_end);
    rv_free(name);
}

void rv_tenant_table_free(struct rv_tenant_table *table)
{
    if (!table)
        return;
    for (size_t i = 0; i < N_BUCKETS; i++) {
        while (table->buckets[i]) {
            struct rv_tenant_link *link = table->buckets[i];

            table->buckets[i] = link->next;
            let_go(table, link, true);
        }
    }
    pthread_mutex_destroy(&table->lock);
    rv_free(table);
}

static struct rv_tenant_link **bucket_of(struct rv_tenant_table *table, const char *name)
{
    return &table->buckets[rv_str_map_hash(0, name, strlen(name)) % N_BUCKETS];
}

/* ---- with the lock held --------------------------------------------------------------------- */

static void put_last(struct rv_tenant_table *table, struct rv_tenant_link *link)
{
    link->newer = NULL;
    link->older = table->newest;
    if (table->newest)
        table->newest->newer = link;
    else
        table->oldest = link;
    table->newest = link;
}

static void take_out(struct rv_tenant_table *table, struct rv_tenant_link *link)
{
    if (link->older)
        link->older->newer = link->newer;
    else
        table->oldest = link->newer;
    if (link->newer)
        link->newer->older = link->older;
    else
        table->newest = link->older;
    link->older = link->newer = NULL;
}

static ruvllm_status add(struct rv_tenant_table *table, const char *name, struct rv_tenant_link **out,
                         struct ruvllm_error *err)
{
    struct rv_tenant_link *link, **bucket = bucket_of(table, name);
    char *copy = rv_strdup(name);
    ruvllm_status rc = copy ? table->ops->make(table->user, copy, &link, err)
                            : rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a tenant");

    if (rc) {
        rv_free(copy);
        return rc;
    }
    link->name = copy;
    link->next = *bucket;
    *bucket = link;
    table->stats.n++;
    *out = link;
    return RUVLLM_OK;
}

/* The oldest that may go, out of the table; NULL when all fit, or none of the oldest may. */
static struct rv_tenant_link *take_oldest(struct rv_tenant_table *table)
{
    for (int i = 0; i < TRIES && table->oldest && table->stats.n_bytes > table->max_bytes; i++) {
        struct rv_tenant_link *link = table->oldest, **at = bucket_of(table, link->name);

        take_out(table, link);
        if (!table->ops->may_go(table->user, link)) {
            put_last(table, link); // not before the others have had their turn
            continue;
        }
        while (*at != link)
            at = &(*at)->next;
        *at = link->next;
        table->stats.n--;
        table->stats.n_gone++;
        table->stats.n_bytes -= link->n_bytes;
        return link;
    }
    return NULL;
}

/* ---- doors ---------------------------------------------------------------------------------- */

/* With the table locked; NULL when it is not here. */
static struct rv_tenant_link *find(struct rv_tenant_table *table, const char *name)
{
    struct rv_tenant_link *link = *bucket_of(table, name);

    while (link && strcmp(link->name, name) != 0)
        link = link->next;
    return link;
}

ruvllm_status rv_tenant_table_take(struct rv_tenant_table *table, const char *name, struct rv_tenant_link **out,
                                   struct ruvllm_error *err)
{
    struct rv_tenant_link *link;
    ruvllm_status rc = RUVLLM_OK;

    pthread_mutex_lock(&table->lock);
    link = find(table, name);
    if (!link)
        rc = add(table, name, &link, err);
    else if (link->n_users == 0)
        take_out(table, link);
    if (!rc)
        link->n_users++;
    pthread_mutex_unlock(&table->lock);
    *out = rc ? NULL : link;
    return rc;
}

void rv_tenant_table_leave(struct rv_tenant_table *table, struct rv_tenant_link *link, uint64_t n_bytes)
{
    struct rv_tenant_link *gone = NULL;

    pthread_mutex_lock(&table->lock);
    table->stats.n_bytes += n_bytes - link->n_bytes;
    link->n_bytes = n_bytes;
    if (--link->n_users == 0)
        put_last(table, link);
    while (table->max_bytes && (gone = take_oldest(table)) != NULL) {
        pthread_mutex_unlock(&table->lock);
        let_go(table, gone, false);
        pthread_mutex_lock(&table->lock);
    }
    pthread_mutex_unlock(&table->lock);
}

void rv_tenant_table_leave_as_it_was(struct rv_tenant_table *table, struct rv_tenant_link *link)
{
    pthread_mutex_lock(&table->lock);
    if (--link->n_users == 0)
        put_last(table, link);
    pthread_mutex_unlock(&table->lock);
}

void rv_tenant_table_visit(struct rv_tenant_table *table, const char *name,
                           void (*fn)(void *user, struct rv_tenant_link *link), void *user)
{
    struct rv_tenant_link *link;

    pthread_mutex_lock(&table->lock);
    link = find(table, name);
    if (link)
        fn(user, link);
    pthread_mutex_unlock(&table->lock);
}

void rv_tenant_table_visit_all(struct rv_tenant_table *table, void (*fn)(void *user, struct rv_tenant_link *link),
                               void *user)
{
    pthread_mutex_lock(&table->lock);
    for (size_t i = 0; i < N_BUCKETS; i++) {
        for (struct rv_tenant_link *link = table->buckets[i]; link; link = link->next)
            fn(user, link);
    }
    pthread_mutex_unlock(&table->lock);
}

void rv_tenant_table_stats(struct rv_tenant_table *table, struct rv_tenant_table_stats *out)
{
    pthread_mutex_lock(&table->lock);
    *out = table->stats;
    pthread_mutex_unlock(&table->lock);
}
