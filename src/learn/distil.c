#include "learn/distil.h"

#include "base/alloc.h"
#include "base/keyed_hash.h"

#include <stdlib.h>
#include <string.h>

const double rv_distil_enough = 0.9;

struct names {
    uint64_t *list; // ascending
    size_t n;
};

static int by_size(const void *x, const void *y)
{
    uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;

    return (a > b) - (a < b);
}

uint64_t rv_distil_name(const struct rv_memory_page *page, int32_t key)
{
    static const uint8_t no_key[RV_KEYED_HASH_KEY];
    const struct rv_memory_key *k = &page->keys[key];
    size_t n_dims = (size_t)page->n_dims;
    uint64_t place = rv_keyed_hash64(no_key, page->places + (size_t)key * n_dims, n_dims * sizeof(*page->places));
    int32_t facts[RV_MEMORY_PAGE_CONTEXT + 2];

    memcpy(facts, k->context, sizeof(k->context));
    facts[RV_MEMORY_PAGE_CONTEXT] = k->token;
    facts[RV_MEMORY_PAGE_CONTEXT + 1] = k->strength > 0.0f;
    return place ^ rv_keyed_hash64(no_key, facts, sizeof(facts));
}

static bool is_named(void *user, const struct rv_memory_page *page, int32_t key)
{
    const struct names *names = user;
    uint64_t name = rv_distil_name(page, key);

    return bsearch(&name, names->list, names->n, sizeof(name), by_size) != NULL;
}

ruvllm_status rv_distil_drop(struct rv_memory **out, const struct rv_memory *before, struct rv_str names,
                             struct ruvllm_error *err)
{
    struct names n = {.n = names.len / sizeof(uint64_t)};
    ruvllm_status rc;

    *out = NULL;
    if (names.len % sizeof(uint64_t) != 0)
        return rv_fail_kind(err, RUVLLM_FORMAT, RUVLLM_ERROR_SONA, "an event of the log is damaged: a deep run's");
    if (!before)
        return RUVLLM_OK;
    n.list = rv_realloc_array(NULL, n.n + 1, sizeof(*n.list)); // none is a list too
    if (!n.list)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot hold the names of %zu keys", n.n);
    if (n.n > 0)
        memcpy(n.list, names.data, names.len);
    qsort(n.list, n.n, sizeof(*n.list), by_size);
    rc = rv_memory_without(out, before, is_named, &n, err);
    rv_free(n.list);
    return rc;
}
