/* What a policy may be. */
#include "store/store_policies.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/utf8.h"
#include "store/sql_policies.h"
#include "store/store_name.h"

#include <string.h>

enum { PAGE = 256 };

static ruvllm_status check_names(const char *tenant, const char *name, struct ruvllm_error *err)
{
    ruvllm_status rc = rv_store_name_tenant(tenant, err);

    return rc ? rc : rv_store_name_policy(name, err);
}

ruvllm_status rv_store_policies_put(struct ruvllm_store *store, const char *tenant, const char *name, const char *value,
                                    size_t value_len, struct ruvllm_error *err)
{
    struct rv_store_policy row = {.value = {.data = value, .len = value_len}};
    ruvllm_status rc = check_names(tenant, name, err);

    if (!rc && value_len > RV_STORE_POLICY_VALUE_MAX)
        rc = rv_fail(err, RUVLLM_TOO_LARGE, "a policy of %zu bytes is larger than %d", value_len,
                     RV_STORE_POLICY_VALUE_MAX);
    if (!rc && value_len && (memchr(value, '\0', value_len) || !rv_utf8_valid(value, value_len)))
        rc = rv_fail(err, RUVLLM_INVALID, "the value of a policy must be UTF-8 without NUL");
    if (rc)
        return rc;
    rv_store_name_copy(row.tenant, RV_STORE_TENANT_MAX, tenant);
    rv_store_name_copy(row.name, RV_STORE_POLICY_MAX, name);
    row.updated_us = rv_clock_unix_us();
    rc = rv_sql_policies_put(rv_store_lock(store), &row, err);
    rv_store_unlock(store);
    return rc;
}

ruvllm_status rv_store_policies_get(struct ruvllm_store *store, const char *tenant, const char *name, char **value,
                                    bool *found, struct ruvllm_error *err)
{
    struct rv_sql_policies_page page;
    ruvllm_status rc = check_names(tenant, name, err);

    *value = NULL;
    *found = false;
    if (rc)
        return rc;
    rc = rv_sql_policies_find(rv_store_lock(store), tenant, name, &page, err);
    rv_store_unlock(store);
    if (!rc && page.n) {
        *value = rv_strndup(page.rows[0].value.data, page.rows[0].value.len);
        *found = *value != NULL;
        rc = *found ? RUVLLM_OK : rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a policy");
    }
    rv_sql_policies_page_release(&page);
    return rc;
}

ruvllm_status rv_store_policies_list(struct ruvllm_store *store, const char *tenant, rv_store_policies_fn fn,
                                     void *user, struct ruvllm_error *err)
{
    char after[RV_STORE_POLICY_MAX + 1] = "";
    ruvllm_status rc = rv_store_name_tenant(tenant, err);
    bool go_on = true;

    while (!rc && go_on) {
        struct rv_sql_policies_page page;

        rc = rv_sql_policies_read(rv_store_lock(store), tenant, after, PAGE, &page, err);
        rv_store_unlock(store);
        go_on = !rc && page.n > 0;
        for (size_t i = 0; go_on && i < page.n; i++) {
            rv_store_name_copy(after, RV_STORE_POLICY_MAX, page.rows[i].name);
            go_on = fn(user, &page.rows[i]);
        }
        rv_sql_policies_page_release(&page);
    }
    return rc;
}

ruvllm_status rv_store_policies_delete(struct ruvllm_store *store, const char *tenant, const char *name,
                                       struct ruvllm_error *err)
{
    bool found = false;
    ruvllm_status rc = check_names(tenant, name, err);

    if (rc)
        return rc;
    rc = rv_sql_policies_delete(rv_store_lock(store), tenant, name, &found, err);
    rv_store_unlock(store);
    if (!rc && !found)
        rc = rv_fail(err, RUVLLM_NOT_FOUND, "there is no policy '%s'", name);
    return rc;
}
