/* The SQL of patterns. */
#include "store/sql_patterns.h"

#include "store/sql_news.h"
#include "store/sql_statement.h"

enum { PAGE_BYTES = 64 * 1024 * 1024 };

#define COLUMNS "tenant, model, seq, time_us, outcome, verdict, embedding, content"

/* Unless the event was forgotten meanwhile, by whoever shares the store. */
static const char ADD[] = "INSERT INTO pattern (" COLUMNS ") SELECT $1, $2, $3, $4, $5, $6, $7, $8 WHERE NOT EXISTS "
                          "(SELECT 1 FROM event WHERE tenant = $1 AND seq = $3 AND is_forgotten = 1) RETURNING row";
static const char READ[] =
    "SELECT row, " COLUMNS " FROM pattern WHERE tenant = $1 AND model = $2 AND row > $3 ORDER BY row LIMIT $4";
static const char DELETE[] = "DELETE FROM pattern WHERE tenant = $1 AND model = $2 AND ($3 = 0 OR row = $3)";
static const char DELETE_EVENT[] =
    "DELETE FROM pattern WHERE tenant = $1 AND model = $2 AND (seq = $3 OR (seq = 0 AND time_us = $4))";
/* Without that many rows there is no such row, and nothing compares with NULL. */
static const char KEEP_NEWEST[] =
    "DELETE FROM pattern WHERE tenant = $1 AND model = $2 AND row <= (SELECT row FROM pattern WHERE tenant = $1 AND "
    "model = $2 ORDER BY row DESC LIMIT 1 OFFSET $3)";

ruvllm_status rv_sql_patterns_add(struct rv_store_db *db, struct rv_store_pattern *pattern, struct ruvllm_error *err)
{
    struct rv_sql_statement s;
    bool has_row;
    ruvllm_status rc = rv_sql_statement_begin(&s, db, ADD, "add a pattern", err);

    if (rc)
        return rc;
    rv_sql_statement_bind_text(&s, pattern->tenant);
    rv_sql_statement_bind_text(&s, pattern->model);
    rv_sql_statement_bind_int(&s, pattern->seq);
    rv_sql_statement_bind_int(&s, pattern->time_us);
    rv_sql_statement_bind_real(&s, pattern->outcome);
    rv_sql_statement_bind_int(&s, pattern->verdict);
    rv_sql_statement_bind_blob(&s, pattern->embedding.data, pattern->embedding.len);
    rv_sql_statement_bind_str(&s, pattern->text.len ? pattern->text.data : "", pattern->text.len);
    rc = rv_sql_statement_step(&s, &has_row, err);
    if (!rc && has_row) {
        pattern->row = rv_sql_statement_int(&s);
        rc = rv_sql_statement_status(&s, err);
    }
    if (!rc && has_row)
        rc = rv_sql_statement_step(&s, &has_row, err); // only the end of a statement writes what it did
    rv_sql_statement_end(&s);
    return rc;
}

static void read_row(struct rv_sql_statement *s, struct rv_store_pattern *out, struct rv_arena *arena)
{
    out->row = rv_sql_statement_int(s);
    out->tenant = rv_sql_statement_dup_text(s, RV_STORE_TENANT_MAX, arena);
    out->model = rv_sql_statement_dup_text(s, RV_STORE_MODEL_MAX, arena);
    out->seq = rv_sql_statement_int(s);
    out->time_us = rv_sql_statement_int(s);
    out->outcome = rv_sql_statement_real(s);
    out->verdict = rv_sql_statement_int32(s);
    out->embedding = rv_sql_statement_dup_bytes(s, RV_STORE_EMBEDDING_MAX, arena);
    out->text = rv_sql_statement_dup_str(s, RV_STORE_PATTERN_TEXT_MAX, arena);
}

static ruvllm_status read_rows(struct rv_sql_statement *s, size_t max, struct rv_sql_patterns_page *page,
                               struct ruvllm_error *err)
{
    bool has_row = true;
    ruvllm_status rc = RUVLLM_OK;

    page->rows = rv_arena_calloc(&page->arena, max, sizeof(*page->rows));
    while (!rc && page->rows && has_row && page->n < max) {
        rc = rv_sql_statement_step(s, &has_row, err);
        if (rc || !has_row)
            break;
        read_row(s, &page->rows[page->n], &page->arena);
        rc = rv_sql_statement_status(s, err);
        if (page->arena.failed)
            break;
        page->n += !rc;
    }
    if (!rc && page->arena.failed)
        rc = rv_fail(err, page->arena.failed, "cannot keep %zu patterns in memory", page->n + 1);
    return rc;
}

ruvllm_status rv_sql_patterns_read(struct rv_store_db *db, const char *tenant, const char *model, int64_t after,
                                   size_t max, struct rv_sql_patterns_page *page, struct ruvllm_error *err)
{
    struct rv_sql_statement s;
    ruvllm_status rc;

    *page = (struct rv_sql_patterns_page){0};
    rv_arena_init(&page->arena, PAGE_BYTES);
    rc = rv_sql_statement_begin(&s, db, READ, "read patterns", err);
    if (rc)
        return rc;
    rv_sql_statement_bind_text(&s, tenant);
    rv_sql_statement_bind_text(&s, model);
    rv_sql_statement_bind_int(&s, after);
    rv_sql_statement_bind_int(&s, (int64_t)max);
    rc = read_rows(&s, max, page, err);
    rv_sql_statement_end(&s);
    return rc;
}

void rv_sql_patterns_page_release(struct rv_sql_patterns_page *page)
{
    rv_arena_release(&page->arena);
    page->n = 0;
}

/* Runs a statement that takes a tenant, a model and numbers. */
static ruvllm_status remove_rows(struct rv_store_db *db, const char *sql, const char *doing, const char *tenant,
                                 const char *model, const int64_t *numbers, size_t n_numbers, uint64_t *n_deleted,
                                 struct ruvllm_error *err)
{
    struct rv_sql_statement s;
    ruvllm_status rc = rv_sql_statement_begin(&s, db, sql, doing, err);

    *n_deleted = 0;
    if (rc)
        return rc;
    rv_sql_statement_bind_text(&s, tenant);
    rv_sql_statement_bind_text(&s, model);
    for (size_t i = 0; i < n_numbers; i++)
        rv_sql_statement_bind_int(&s, numbers[i]);
    rc = rv_sql_statement_run(&s, err);
    if (!rc)
        *n_deleted = (uint64_t)db->n_changed;
    return rc;
}

/* The same, by somebody's wish: who has them in memory is told. */
static ruvllm_status remove_and_tell(struct rv_store_db *db, const char *sql, const char *doing, const char *tenant,
                                     const char *model, const int64_t *numbers, size_t n_numbers, uint64_t *n_deleted,
                                     struct ruvllm_error *err)
{
    ruvllm_status rc = rv_sql_db_begin(db, err);

    *n_deleted = 0;
    if (rc)
        return rc;
    rc = remove_rows(db, sql, doing, tenant, model, numbers, n_numbers, n_deleted, err);
    if (!rc && *n_deleted)
        rc = rv_sql_news_tell(db, tenant, model, 0, err);
    return rv_sql_db_end(db, rc, err);
}

ruvllm_status rv_sql_patterns_delete(struct rv_store_db *db, const char *tenant, const char *model, int64_t row,
                                     uint64_t *n_deleted, struct ruvllm_error *err)
{
    return remove_and_tell(db, DELETE, "delete patterns", tenant, model, &row, 1, n_deleted, err);
}

ruvllm_status rv_sql_patterns_delete_event(struct rv_store_db *db, const char *tenant, const char *model, int64_t seq,
                                           int64_t time_us, uint64_t *n_deleted, struct ruvllm_error *err)
{
    return remove_and_tell(db, DELETE_EVENT, "delete a pattern", tenant, model, (const int64_t[]){seq, time_us}, 2,
                           n_deleted, err);
}

ruvllm_status rv_sql_patterns_keep_newest(struct rv_store_db *db, const char *tenant, const char *model, size_t n,
                                          uint64_t *n_deleted, struct ruvllm_error *err)
{
    return remove_rows(db, KEEP_NEWEST, "remove old patterns", tenant, model, &(int64_t){(int64_t)n}, 1, n_deleted,
                       err);
}
