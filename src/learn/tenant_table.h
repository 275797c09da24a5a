/*
 * Who a learner knows, by name, and how long ago each was used. Together they take no more memory than they may: of
 * those that nobody uses, the one that was left longest ago goes first. What brings it back is the owner's affair.
 *
 * Threads: every call may be made from any thread. Who was taken stays until it is left as often.
 */
#ifndef RV_LEARN_TENANT_TABLE_H
#define RV_LEARN_TENANT_TABLE_H

#include "base/error.h"

/* The first member of whatever the table holds. All of it is the table's, which guards it. */
struct rv_tenant_link {
    char *name; // never changes
    uint64_t n_users;
    uint64_t n_bytes;
    struct rv_tenant_link *next;  // in its bucket
    struct rv_tenant_link *older; // among those that nobody uses
    struct rv_tenant_link *newer;
};

/* What the owner does. Both are called with nothing locked or, for `make`, with the table locked. */
struct rv_tenant_table_ops {
    /* An empty one of this name, which lives as long. */
    ruvllm_status (*make)(void *user, const char *name, struct rv_tenant_link **out, struct ruvllm_error *err);
    /* Nobody has it any more, and nobody will find it: it is to be freed. `is_end`: the whole table is. */
    void (*let_go)(void *user, struct rv_tenant_link *link, bool is_end);
    /* Whether it can be brought back; asked with the table locked, while nobody uses it. */
    bool (*may_go)(void *user, const struct rv_tenant_link *link);
};

struct rv_tenant_table;

/* `max_bytes` 0: nobody goes. */
RV_CHECKED ruvllm_status rv_tenant_table_new(struct rv_tenant_table **out, const struct rv_tenant_table_ops *ops,
                                             void *user, uint64_t max_bytes, struct ruvllm_error *err);
/* Lets everybody go; nobody may be in use. */
void rv_tenant_table_free(struct rv_tenant_table *table);

/* The one of this name, made if need be, until it is left. */
RV_CHECKED ruvllm_status rv_tenant_table_take(struct rv_tenant_table *table, const char *name,
                                              struct rv_tenant_link **out, struct ruvllm_error *err);
/* `n_bytes` is what it takes now. Others may be let go, by this thread. */
void rv_tenant_table_leave(struct rv_tenant_table *table, struct rv_tenant_link *link, uint64_t n_bytes);
/* For who has only looked: it takes what it took, and nobody is let go, so this waits for nothing. */
void rv_tenant_table_leave_as_it_was(struct rv_tenant_table *table, struct rv_tenant_link *link);

/*
 * Has `fn` see the one of this name, if it is here, with the table locked: it waits for nothing. Nobody becomes younger
 * by it.
 */
void rv_tenant_table_visit(struct rv_tenant_table *table, const char *name,
                           void (*fn)(void *user, struct rv_tenant_link *link), void *user);

/* The same of all that are here. */
void rv_tenant_table_visit_all(struct rv_tenant_table *table, void (*fn)(void *user, struct rv_tenant_link *link),
                               void *user);

struct rv_tenant_table_stats {
    uint64_t n;       // that are here
    uint64_t n_bytes; // that they take
    uint64_t n_gone;  // that were let go
};

void rv_tenant_table_stats(struct rv_tenant_table *table, struct rv_tenant_table_stats *out);

#endif
