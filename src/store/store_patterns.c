/* What a pattern may be. */
#include "store/store_patterns.h"

#include "base/clock.h"
#include "base/utf8.h"
#include "store/sql_patterns.h"
#include "store/store_name.h"

#include <math.h>
#include <string.h>

enum { PAGE = 256 };

static ruvllm_status check_names(const char *tenant, const char *model, struct ruvllm_error *err)
{
    ruvllm_status rc = rv_store_name_tenant(tenant, err);

    return rc ? rc : rv_store_name_text(model, RV_STORE_MODEL_MAX, "the name of the model", err);
}

static ruvllm_status check_pattern(const struct rv_store_pattern *p, struct ruvllm_error *err)
{
    ruvllm_status rc = check_names(p->tenant, p->model, err);

    if (!rc && (p->embedding.len > RV_STORE_EMBEDDING_MAX || p->text.len > RV_STORE_PATTERN_TEXT_MAX))
        rc = rv_fail(err, RUVLLM_TOO_LARGE, "an embedding or a text of a pattern is larger than %d bytes",
                     RV_STORE_PATTERN_TEXT_MAX);
    if (!rc && (p->seq < 0 || p->time_us < 0 || p->verdict < 0 || !isfinite(p->outcome)))
        rc = rv_fail(err, RUVLLM_INVALID, "a number of the pattern is negative, or none");
    if (!rc && p->text.len && (memchr(p->text.data, '\0', p->text.len) || !rv_utf8_valid(p->text.data, p->text.len)))
        rc = rv_fail(err, RUVLLM_INVALID, "the text of a pattern must be UTF-8 without NUL");
    return rc;
}

ruvllm_status rv_store_patterns_add(struct ruvllm_store *store, struct rv_store_pattern *pattern,
                                    struct ruvllm_error *err)
{
    ruvllm_status rc = check_pattern(pattern, err);

    if (rc)
        return rv_fail_in(err, rc, "cannot add a pattern");
    if (!pattern->model)
        pattern->model = "";
    if (!pattern->time_us)
        pattern->time_us = rv_clock_unix_us();
    rc = rv_sql_patterns_add(rv_store_lock(store), pattern, err);
    rv_store_unlock(store);
    return rc;
}

ruvllm_status rv_store_patterns_add_all(struct ruvllm_store *store, struct rv_store_pattern *patterns, size_t n,
                                        struct ruvllm_error *err)
{
    struct rv_store_db *db;
    ruvllm_status rc = RUVLLM_OK;

    for (size_t i = 0; i < n && !rc; i++) {
        rc = check_pattern(&patterns[i], err);
        patterns[i].model = patterns[i].model ? patterns[i].model : "";
        patterns[i].time_us = patterns[i].time_us ? patterns[i].time_us : rv_clock_unix_us();
    }
    if (rc)
        return rv_fail_in(err, rc, "cannot add patterns");
    db = rv_store_lock(store);
    rc = rv_sql_db_begin(db, err);
    if (!rc) {
        for (size_t i = 0; i < n && !rc; i++)
            rc = rv_sql_patterns_add(db, &patterns[i], err);
        rc = rv_sql_db_end(db, rc, err);
    }
    rv_store_unlock(store);
    return rc;
}

ruvllm_status rv_store_patterns_list(struct ruvllm_store *store, const char *tenant, const char *model, int64_t after,
                                     rv_store_patterns_fn fn, void *user, struct ruvllm_error *err)
{
    ruvllm_status rc = check_names(tenant, model, err);
    bool go_on = true;

    while (!rc && go_on) {
        struct rv_sql_patterns_page page;

        rc = rv_sql_patterns_read(rv_store_lock(store), tenant, model ? model : "", after, PAGE, &page, err);
        rv_store_unlock(store);
        go_on = !rc && page.n > 0;
        for (size_t i = 0; go_on && i < page.n; i++) {
            after = page.rows[i].row;
            go_on = fn(user, &page.rows[i]);
        }
        rv_sql_patterns_page_release(&page);
    }
    return rc;
}

ruvllm_status rv_store_patterns_delete(struct ruvllm_store *store, const char *tenant, const char *model, int64_t row,
                                       uint64_t *n_deleted, struct ruvllm_error *err)
{
    uint64_t n = 0;
    ruvllm_status rc = check_names(tenant, model, err);

    if (rc)
        return rc;
    rc = rv_sql_patterns_delete(rv_store_lock(store), tenant, model ? model : "", row, &n, err);
    rv_store_unlock(store);
    if (n_deleted)
        *n_deleted = n;
    return rc;
}

ruvllm_status rv_store_patterns_delete_event(struct ruvllm_store *store, const char *tenant, const char *model,
                                             int64_t seq, int64_t time_us, uint64_t *n_deleted,
                                             struct ruvllm_error *err)
{
    uint64_t n_gone = 0;
    ruvllm_status rc = check_names(tenant, model, err);

    if (rc)
        return rc;
    rc = rv_sql_patterns_delete_event(rv_store_lock(store), tenant, model ? model : "", seq, time_us, &n_gone, err);
    rv_store_unlock(store);
    if (n_deleted)
        *n_deleted = n_gone;
    return rc;
}

ruvllm_status rv_store_patterns_keep_newest(struct ruvllm_store *store, const char *tenant, const char *model, size_t n,
                                            uint64_t *n_deleted, struct ruvllm_error *err)
{
    uint64_t n_gone = 0;
    ruvllm_status rc = check_names(tenant, model, err);

    if (rc)
        return rc;
    rc = rv_sql_patterns_keep_newest(rv_store_lock(store), tenant, model ? model : "", n, &n_gone, err);
    rv_store_unlock(store);
    if (n_deleted)
        *n_deleted = n_gone;
    return rc;
}
