/* The SQL of policies. */
#include "store/sql_policies.h"

#include "store/sql_statement.h"

enum { PAGE_BYTES = 80 * 1024 * 1024 };

#define COLUMNS "tenant, name, updated_us, content"

static const char PUT[] = "INSERT INTO policy (" COLUMNS ") VALUES ($1, $2, $3, $4)"
                          " ON CONFLICT (tenant, name) DO UPDATE SET updated_us = $3, content = $4";
static const char READ[] = "SELECT " COLUMNS " FROM policy WHERE tenant = $1 AND name > $2 ORDER BY name LIMIT $3";
static const char FIND[] = "SELECT " COLUMNS " FROM policy WHERE tenant = $1 AND name = $2 LIMIT $3";
static const char DELETE[] = "DELETE FROM policy WHERE tenant = $1 AND name = $2";

ruvllm_status rv_sql_policies_put(struct rv_store_db *db, const struct rv_store_policy *policy,
                                  struct ruvllm_error *err)
{
    struct rv_sql_statement s;
    ruvllm_status rc = rv_sql_statement_begin(&s, db, PUT, "write a policy", err);

    if (rc)
        return rc;
    rv_sql_statement_bind_text(&s, policy->tenant);
    rv_sql_statement_bind_text(&s, policy->name);
    rv_sql_statement_bind_int(&s, policy->updated_us);
    rv_sql_statement_bind_str(&s, policy->value.len ? policy->value.data : "", policy->value.len);
    return rv_sql_statement_run(&s, err);
}

static ruvllm_status read_rows(struct rv_sql_statement *s, size_t max, struct rv_sql_policies_page *page,
                               struct ruvllm_error *err)
{
    bool has_row = true;
    ruvllm_status rc = RUVLLM_OK;

    page->rows = rv_arena_calloc(&page->arena, max, sizeof(*page->rows));
    while (!rc && page->rows && has_row && page->n < max) {
        struct rv_store_policy *row = &page->rows[page->n];

        rc = rv_sql_statement_step(s, &has_row, err);
        if (rc || !has_row)
            break;
        rv_sql_statement_text(s, row->tenant, RV_STORE_TENANT_MAX);
        rv_sql_statement_text(s, row->name, RV_STORE_POLICY_MAX);
        row->updated_us = rv_sql_statement_int(s);
        row->value = rv_sql_statement_dup_str(s, RV_STORE_POLICY_VALUE_MAX, &page->arena);
        rc = rv_sql_statement_status(s, err);
        if (page->arena.failed)
            break;
        page->n += !rc;
    }
    if (!rc && page->arena.failed)
        rc = rv_fail(err, page->arena.failed, "cannot keep %zu policies in memory", page->n + 1);
    return rc;
}

static ruvllm_status read_page(struct rv_store_db *db, const char *sql, const char *tenant, const char *name,
                               size_t max, struct rv_sql_policies_page *page, struct ruvllm_error *err)
{
    struct rv_sql_statement s;
    ruvllm_status rc;

    *page = (struct rv_sql_policies_page){0};
    rv_arena_init(&page->arena, PAGE_BYTES);
    rc = rv_sql_statement_begin(&s, db, sql, "read policies", err);
    if (rc)
        return rc;
    rv_sql_statement_bind_text(&s, tenant);
    rv_sql_statement_bind_text(&s, name);
    rv_sql_statement_bind_int(&s, (int64_t)max);
    rc = read_rows(&s, max, page, err);
    rv_sql_statement_end(&s);
    return rc;
}

ruvllm_status rv_sql_policies_read(struct rv_store_db *db, const char *tenant, const char *after, size_t max,
                                   struct rv_sql_policies_page *page, struct ruvllm_error *err)
{
    return read_page(db, READ, tenant, after, max, page, err);
}

ruvllm_status rv_sql_policies_find(struct rv_store_db *db, const char *tenant, const char *name,
                                   struct rv_sql_policies_page *page, struct ruvllm_error *err)
{
    return read_page(db, FIND, tenant, name, 1, page, err);
}

void rv_sql_policies_page_release(struct rv_sql_policies_page *page)
{
    rv_arena_release(&page->arena);
    page->n = 0;
}

ruvllm_status rv_sql_policies_delete(struct rv_store_db *db, const char *tenant, const char *name, bool *found,
                                     struct ruvllm_error *err)
{
    struct rv_sql_statement s;
    ruvllm_status rc = rv_sql_statement_begin(&s, db, DELETE, "delete a policy", err);

    *found = false;
    if (rc)
        return rc;
    rv_sql_statement_bind_text(&s, tenant);
    rv_sql_statement_bind_text(&s, name);
    rc = rv_sql_statement_run(&s, err);
    *found = !rc && db->n_changed > 0;
    return rc;
}
