#include "learn/memory_page.h"

#include "base/alloc.h"
#include "kernels/vec.h"

#include <math.h>
#include <string.h>

enum { VERSION = 1, FEW_SHARED = 2, ENOUGH_SHARED = 12 };

static const float REACH_A_TOKEN = 0.35f; // in radii
static const float LEAST_TRUST = 0.1f;

struct header {
    int32_t version;
    int32_t n_dims;
    int32_t n_keys;
};

/* ---- life ----------------------------------------------------------------------------------- */

static ruvllm_status new_page(struct rv_memory_page **out, int32_t n_dims, int32_t cap, struct ruvllm_error *err)
{
    struct rv_memory_page *p = rv_calloc(1, sizeof(*p));

    *out = NULL;
    if (!p)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a page of memory");
    atomic_init(&p->n_refs, 1);
    p->n_dims = n_dims;
    p->keys = rv_calloc((size_t)cap, sizeof(*p->keys));
    p->places = rv_calloc((size_t)cap * (size_t)n_dims, sizeof(*p->places));
    if (!p->keys || !p->places) {
        rv_memory_page_unref(p);
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %d keys of %d numbers", (int)cap, (int)n_dims);
    }
    *out = p;
    return RUVLLM_OK;
}

struct rv_memory_page *rv_memory_page_ref(struct rv_memory_page *page)
{
    atomic_fetch_add_explicit(&page->n_refs, 1, memory_order_relaxed); // who adds one has one
    return page;
}

void rv_memory_page_unref(struct rv_memory_page *page)
{
    if (!page || atomic_fetch_sub_explicit(&page->n_refs, 1, memory_order_acq_rel) > 1)
        return;
    rv_free(page->keys);
    rv_free(page->places);
    rv_free(page);
}

ruvllm_status rv_memory_page_pick(struct rv_memory_page **out, struct rv_memory_page *page, const bool *is_wanted,
                                  struct ruvllm_error *err)
{
    size_t dims = (size_t)page->n_dims;
    int32_t n = 0;
    ruvllm_status rc;

    for (int32_t i = 0; i < page->n_keys; i++)
        n += is_wanted[i];
    *out = n > 0 && n == page->n_keys ? rv_memory_page_ref(page) : NULL;
    if (n == 0 || *out)
        return RUVLLM_OK;
    rc = new_page(out, page->n_dims, n, err);
    for (int32_t i = 0; i < page->n_keys && !rc; i++) {
        struct rv_memory_page *o = *out;

        if (!is_wanted[i])
            continue;
        o->keys[o->n_keys] = page->keys[i];
        memcpy(o->places + (size_t)o->n_keys++ * dims, page->places + (size_t)i * dims, dims * sizeof(*o->places));
    }
    return rc;
}

int32_t rv_memory_page_shared(const int32_t *a, const int32_t *b)
{
    int32_t n = 0;

    while (n < RV_MEMORY_PAGE_CONTEXT && a[n] == b[n] && a[n] >= 0)
        n++;
    /* Both begin there: nothing is left that could differ. */
    return n > 0 && n < RV_MEMORY_PAGE_CONTEXT && a[n] < 0 && b[n] < 0 ? RV_MEMORY_PAGE_CONTEXT : n;
}

float rv_memory_page_reach(int32_t n_shared)
{
    return n_shared <= FEW_SHARED ? 1 : 1 + (float)(n_shared - FEW_SHARED) * REACH_A_TOKEN;
}

float rv_memory_page_trust(int32_t n_shared)
{
    float part = (float)n_shared / ENOUGH_SHARED;

    return part < 1 ? LEAST_TRUST + (1 - LEAST_TRUST) * part * part * part : 1;
}

/* ---- keys of an answer ---------------------------------------------------------------------- */

/* What memory had said is taken back however unlikely the head finds it. */
static bool is_wanted(const struct rv_trace *trace, const struct rv_memory_page_choice *c, int32_t row, float p)
{
    bool is_said = c->strength < 0 && trace->is_recalled[row];

    int32_t last;

    rv_trace_context(trace, row, &last, 1);
    return last >= 0 && (is_said || (p >= c->least && p < c->most));
}

/* Rows that become keys, ascending; how many. */
static int32_t choose(const struct rv_trace *trace, const struct rv_memory_page_choice *c, int32_t max_keys,
                      int32_t *rows)
{
    float likelihood[RV_MEMORY_PAGE_MAX];
    int32_t n = 0;

    for (int32_t i = 0; i < trace->n_rows; i++) {
        float p = expf(trace->logprobs[i]);
        int32_t at = n;

        if (!is_wanted(trace, c, i, p))
            continue;
        if (n == max_keys) { // the likeliest goes, or this one
            at = 0;
            for (int32_t j = 1; j < n; j++)
                at = likelihood[j] > likelihood[at] ? j : at;
            if (!(p < likelihood[at]))
                continue;
            memmove(rows + at, rows + at + 1, (size_t)(n - at - 1) * sizeof(*rows));
            memmove(likelihood + at, likelihood + at + 1, (size_t)(n - at - 1) * sizeof(*likelihood));
            at = --n;
        }
        rows[at] = i;
        likelihood[at] = p;
        n++;
    }
    return n;
}

/* The squared length of a key's place, as it is kept. */
static float square_of(const uint16_t *place, size_t dims)
{
    double sum = 0;

    for (size_t i = 0; i < dims; i++) {
        double x = (double)rv_vec_from_bf16(place[i]);

        sum += x * x;
    }
    return (float)sum;
}

/* What is written and what is read is judged by this alone: an event that could not be read again would end its log. */
static bool is_key(const struct rv_memory_key *k, float square)
{
    bool is_context = k->context[0] >= 0;

    for (int32_t i = 1; i < RV_MEMORY_PAGE_CONTEXT; i++)
        is_context = is_context && k->context[i] >= -1;
    return is_context && k->token >= 0 && k->strength >= -1 && k->strength <= 1 && isfinite(square);
}

/* A key of a row whose whitened state is `at`; a row whose state is no number becomes none. */
static void add_key(struct rv_memory_page *page, const struct rv_trace *trace, int32_t row, float strength,
                    const float *at)
{
    size_t dims = (size_t)page->n_dims;
    uint16_t *place = page->places + (size_t)page->n_keys * dims;
    struct rv_memory_key *key = &page->keys[page->n_keys];

    for (size_t i = 0; i < dims; i++)
        place[i] = rv_vec_to_bf16(at[i]);
    *key = (struct rv_memory_key){.token = trace->tokens[row], .strength = strength, .square = square_of(place, dims)};
    rv_trace_context(trace, row, key->context, RV_MEMORY_PAGE_CONTEXT);
    page->n_keys += is_key(key, key->square);
}

static void add_keys(struct rv_memory_page *page, const struct rv_trace *trace, const int32_t *rows, int32_t n,
                     float strength, const struct rv_whitening *whitening, float *scratch)
{
    size_t dims = (size_t)page->n_dims;

    for (int32_t i = 0; i < n; i++) {
        const uint16_t *state = trace->states + (size_t)rows[i] * dims;

        for (size_t d = 0; d < dims; d++)
            scratch[(size_t)i * dims + d] = rv_vec_from_bf16(state[d]);
    }
    rv_whitening_root(whitening, scratch, (size_t)n);
    for (int32_t i = 0; i < n; i++)
        add_key(page, trace, rows[i], strength, scratch + (size_t)i * dims);
}

ruvllm_status rv_memory_page_add(struct rv_memory_page **page, const struct rv_trace *trace,
                                 const struct rv_memory_page_choice *choice, const struct rv_whitening *whitening,
                                 float *scratch, struct ruvllm_error *err)
{
    int32_t rows[RV_MEMORY_PAGE_MAX], room = RV_MEMORY_PAGE_MAX - (*page ? (*page)->n_keys : 0), n;
    ruvllm_status rc = RUVLLM_OK;

    room = choice->max_keys < room ? choice->max_keys : room;
    n = room > 0 ? choose(trace, choice, room, rows) : 0;
    if (n > 0 && !*page)
        rc = new_page(page, trace->n_dims, RV_MEMORY_PAGE_MAX, err);
    for (int32_t i = 0; i < n && !rc; i += RV_MEMORY_PAGE_SCRATCH)
        add_keys(*page, trace, rows + i, n - i < RV_MEMORY_PAGE_SCRATCH ? n - i : RV_MEMORY_PAGE_SCRATCH,
                 choice->strength, whitening, scratch);
    if (*page && (*page)->n_keys == 0) {
        rv_memory_page_unref(*page);
        *page = NULL;
    }
    return rc;
}

/* ---- bytes ---------------------------------------------------------------------------------- */

static bool are_keys(const struct rv_memory_page *page)
{
    size_t dims = (size_t)page->n_dims;

    for (int32_t i = 0; i < page->n_keys; i++) {
        if (!is_key(&page->keys[i], square_of(page->places + (size_t)i * dims, dims)))
            return false;
    }
    return page->n_keys >= 1 && page->n_keys <= RV_MEMORY_PAGE_MAX;
}

/* Version, width, number; the keys; their places. Little-endian, as every machine we run on. */
ruvllm_status rv_memory_page_write(const struct rv_memory_page *page, struct rv_str *out, struct ruvllm_error *err)
{
    struct header h = {.version = VERSION};
    size_t keys, places;
    char *bytes;

    *out = (struct rv_str){0};
    if (!page)
        return RUVLLM_OK;
    if (!are_keys(page))
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_SONA,
                            "what is to be remembered has a state that is no number, or a token that is none");
    h.n_dims = page->n_dims;
    h.n_keys = page->n_keys;
    keys = (size_t)h.n_keys * sizeof(*page->keys);
    places = (size_t)h.n_keys * (size_t)h.n_dims * sizeof(*page->places);
    bytes = rv_malloc(sizeof(h) + keys + places);
    if (!bytes)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %zu bytes", sizeof(h) + keys + places);
    memcpy(bytes, &h, sizeof(h));
    memcpy(bytes + sizeof(h), page->keys, keys);
    memcpy(bytes + sizeof(h) + keys, page->places, places);
    *out = (struct rv_str){.data = bytes, .len = sizeof(h) + keys + places};
    return RUVLLM_OK;
}

ruvllm_status rv_memory_page_read(struct rv_memory_page **out, int32_t n_dims, struct rv_str bytes,
                                  struct ruvllm_error *err)
{
    struct rv_memory_page *p;
    struct header h = {0};
    size_t keys, places;
    ruvllm_status rc;

    *out = NULL;
    if (bytes.len == 0)
        return RUVLLM_OK;
    if (bytes.len >= sizeof(h))
        memcpy(&h, bytes.data, sizeof(h));
    if (h.version != VERSION || h.n_dims != n_dims || h.n_keys < 1 || h.n_keys > RV_MEMORY_PAGE_MAX)
        return rv_fail_kind(err, RUVLLM_FORMAT, RUVLLM_ERROR_SONA,
                            "the memory of an event is damaged or of another model");
    keys = (size_t)h.n_keys * sizeof(*p->keys);
    places = (size_t)h.n_keys * (size_t)n_dims * sizeof(*p->places);
    if (bytes.len != sizeof(h) + keys + places)
        return rv_fail_kind(err, RUVLLM_FORMAT, RUVLLM_ERROR_SONA, "the memory of an event is cut short");
    rc = new_page(&p, n_dims, h.n_keys, err);
    if (rc)
        return rc;
    p->n_keys = h.n_keys;
    memcpy(p->keys, bytes.data + sizeof(h), keys);
    memcpy(p->places, bytes.data + sizeof(h) + keys, places);
    /* Lengths are not believed but measured: by a wrong one a key would be near to everything. */
    for (int32_t i = 0; i < p->n_keys; i++)
        p->keys[i].square = square_of(p->places + (size_t)i * (size_t)n_dims, (size_t)n_dims);
    if (!are_keys(p)) {
        rv_memory_page_unref(p);
        return rv_fail_kind(err, RUVLLM_FORMAT, RUVLLM_ERROR_SONA, "the memory of an event has a key that is none");
    }
    *out = p;
    return RUVLLM_OK;
}
