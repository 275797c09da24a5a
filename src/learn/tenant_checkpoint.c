/*
 * A header; the pages of all memories, each once; then each generation that is kept: its numbers, the rows of A, the
 * columns of B, and which pages are its memory's. Little-endian, as every machine we run on. The bytes come from a
 * database that may be anybody's: each number is judged before it is used.
 */
#include "learn/tenant_checkpoint.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/str_map.h"
#include "store/store_rows.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

enum { VERSION = 3, MAX_PAGES = RV_TENANT_LEARNER_SNAPSHOTS * RV_MEMORY_MAX_KEYS };

static const int64_t GENERATION_MAX = (int64_t)1 << 60; // counting up from there is safe

struct header {
    int32_t version;
    int32_t n_dims;
    int32_t rank;
    int32_t n_states;
    int32_t n_pages;
    int32_t unused;
    int64_t numbers_bytes; // of a state's numbers: another build's may be others
    uint64_t hash;         // of all that follows: tells what was damaged, not what was forged
};

/* A state's numbers are all that stands before its adapter, whatever they are. */
enum { NUMBERS = offsetof(struct rv_tenant_state, adapter) };

static size_t rows_bytes(int64_t n_pairs, int32_t n_dims)
{
    return (size_t)n_pairs * (size_t)n_dims * sizeof(float);
}

/* ---- to bytes ------------------------------------------------------------------------------- */

/* The pages of all generations, each once. */
struct pages {
    struct rv_memory_page **all;
    int32_t n;
};

static int32_t number_of(const struct pages *p, const struct rv_memory_page *page)
{
    int32_t i = p->n - 1; // the newest are looked for most

    while (i >= 0 && p->all[i] != page)
        i--;
    return i;
}

static ruvllm_status gather(struct pages *p, const struct rv_tenant_learner *l, struct ruvllm_error *err)
{
    for (int i = 0; i < RV_TENANT_LEARNER_SNAPSHOTS; i++) {
        int32_t n;
        struct rv_memory_page *const *pages = rv_memory_pages(l->snapshots[i].memory, &n);

        for (int32_t k = 0; l->snapshots[i].generation && k < n; k++) {
            struct rv_memory_page **more;

            if (number_of(p, pages[k]) >= 0)
                continue;
            more = rv_realloc_array(p->all, (size_t)p->n + 1, sizeof(struct rv_memory_page *));
            if (!more)
                return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a checkpoint");
            p->all = more;
            p->all[p->n++] = pages[k];
        }
    }
    return RUVLLM_OK;
}

static void put_pages(struct rv_buf *out, const struct pages *p, struct ruvllm_error *err, ruvllm_status *rc)
{
    for (int32_t i = 0; i < p->n && !*rc; i++) {
        struct rv_str bytes = {0};
        int64_t len;

        *rc = rv_memory_page_write(p->all[i], &bytes, err);
        len = (int64_t)bytes.len;
        rv_buf_add(out, &len, sizeof(len));
        rv_buf_add(out, bytes.data, bytes.len);
        rv_free((char *)(uintptr_t)bytes.data);
    }
}

static void put_state(struct rv_buf *out, const struct rv_tenant_state *s, const struct pages *p)
{
    size_t n = rows_bytes(s->adapter.n_pairs, s->adapter.n_dims);
    int64_t n_pairs = s->adapter.n_pairs, n_pages;
    int32_t n_own;
    struct rv_memory_page *const *own = rv_memory_pages(s->memory, &n_own);

    n_pages = n_own;
    rv_buf_add(out, s, NUMBERS);
    rv_buf_add(out, &n_pairs, sizeof(n_pairs));
    rv_buf_add(out, s->adapter.a, n);
    rv_buf_add(out, s->adapter.b, n);
    rv_buf_add(out, &n_pages, sizeof(n_pages));
    for (int32_t i = 0; i < n_own; i++) {
        int32_t number = number_of(p, own[i]);

        rv_buf_add(out, &number, sizeof(number));
    }
}

void rv_tenant_checkpoint_seal(void *data, size_t len)
{
    uint64_t hash;

    if (len < sizeof(struct header))
        return;
    hash = rv_str_map_hash(VERSION, (const char *)data + sizeof(struct header), len - sizeof(struct header));
    memcpy((char *)data + offsetof(struct header, hash), &hash, sizeof(hash));
}

ruvllm_status rv_tenant_checkpoint_write(const struct rv_tenant_learner *learner, void **out, size_t *len,
                                         struct ruvllm_error *err)
{
    struct header h = {.version = VERSION,
                       .n_dims = learner->now.adapter.n_dims,
                       .rank = learner->now.adapter.rank,
                       .numbers_bytes = NUMBERS};
    struct pages pages = {0};
    struct rv_buf bytes;
    ruvllm_status rc = gather(&pages, learner, err);

    *out = NULL;
    *len = 0;
    rv_buf_init(&bytes, RV_STORE_CHECKPOINT_MAX);
    rv_buf_add(&bytes, &h, sizeof(h));
    put_pages(&bytes, &pages, err, &rc);
    for (int64_t g = learner->now.generation - RV_TENANT_LEARNER_SNAPSHOTS + 1; g <= learner->now.generation; g++) {
        if (g < 1 || !rv_tenant_learner_has(learner, g))
            continue;
        put_state(&bytes, &learner->snapshots[g % RV_TENANT_LEARNER_SNAPSHOTS], &pages);
        h.n_states++;
    }
    h.n_pages = pages.n;
    rv_free(pages.all);
    if (!rc)
        rc = rv_buf_status(&bytes, "a checkpoint", err);
    if (rc) {
        rv_buf_release(&bytes);
        return rc;
    }
    memcpy(bytes.data, &h, sizeof(h));
    rv_tenant_checkpoint_seal(bytes.data, bytes.len);
    *out = rv_buf_take(&bytes, len);
    return RUVLLM_OK;
}

/* ---- and back ------------------------------------------------------------------------------- */

static ruvllm_status damaged(struct ruvllm_error *err)
{
    return rv_fail_kind(err, RUVLLM_FORMAT, RUVLLM_ERROR_SONA,
                        "a checkpoint is damaged, or of another model or rank than this one");
}

struct reader {
    const char *at;
    size_t left;
};

static bool take(struct reader *r, void *out, size_t len)
{
    if (r->left < len)
        return false;
    if (len)
        memcpy(out, r->at, len);
    r->at += len;
    r->left -= len;
    return true;
}

static bool are_finite(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(x[i]))
            return false;
    }
    return true;
}

/* A generation as early as `last`, or none. */
static bool is_before(int64_t generation, int64_t last)
{
    return generation >= 0 && generation <= last;
}

static bool is_flood(const struct rv_flood *f, int64_t generation)
{
    return f->good >= 0 && f->bad >= 0 && isfinite(f->good) && isfinite(f->bad) &&
           is_before(f->good_since, generation) && is_before(f->bad_since, generation) && f->n_paused >= 0 &&
           f->n_paused <= RV_FLOOD_PAUSE;
}

static bool is_possible(const struct rv_tenant_state *s, int64_t n_pairs, int32_t rank)
{
    int64_t g = s->generation;

    return g > 0 && g <= GENERATION_MAX && is_before(s->n_votes, g) && is_before(s->n_lessons, g) &&
           is_before(s->n_ticks, g) && is_before(s->root, g) && s->deep >= 0 && isfinite(s->mean) &&
           isfinite(s->variance) && s->variance >= 0 && isfinite(s->spent_kl) && isfinite(s->anchor_kl) &&
           isfinite(s->kl_budget) && is_flood(&s->flood, g) && n_pairs >= 0 && n_pairs <= rank;
}

/* The pages, for free_pages; fewer when it fails. */
static ruvllm_status read_pages(struct pages *p, struct reader *r, int32_t n, int32_t n_dims, struct ruvllm_error *err)
{
    ruvllm_status rc = RUVLLM_OK;

    p->all = n > 0 ? rv_calloc((size_t)n, sizeof(struct rv_memory_page *)) : NULL;
    if (n > 0 && !p->all)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a checkpoint's pages");
    for (; p->n < n && !rc; p->n++) {
        int64_t len;

        if (!take(r, &len, sizeof(len)) || len < 1 || (uint64_t)len > r->left)
            return damaged(err);
        rc = rv_memory_page_read(&p->all[p->n], n_dims, (struct rv_str){r->at, (size_t)len}, err);
        r->at += len;
        r->left -= (size_t)len;
        if (!rc && !p->all[p->n])
            return damaged(err);
    }
    return rc;
}

static void free_pages(struct pages *p)
{
    for (int32_t i = 0; i < p->n; i++)
        rv_memory_page_unref(p->all[i]);
    rv_free(p->all);
}

static struct rv_memory *more_of(struct rv_memory *memory)
{
    return memory ? rv_memory_ref(memory) : NULL;
}

/*
 * A generation's memory: the one of the generation before it and the pages that are new, as it mostly is, or all of its
 * pages in their order.
 */
static ruvllm_status read_memory(struct rv_tenant_learner *l, struct rv_tenant_state *s, struct reader *r,
                                 const struct pages *p, struct ruvllm_error *err)
{
    const struct rv_tenant_state *before = &l->snapshots[(s->generation - 1) % RV_TENANT_LEARNER_SNAPSHOTS];
    int32_t n_known, first = 0;
    struct rv_memory_page *const *known =
        rv_memory_pages(before->generation == s->generation - 1 ? before->memory : NULL, &n_known);
    int64_t n;
    ruvllm_status rc = RUVLLM_OK;

    if (!take(r, &n, sizeof(n)) || n < 0 || n > RV_MEMORY_MAX_KEYS || r->left / sizeof(int32_t) < (uint64_t)n)
        return damaged(err);
    while (first < n_known && first < n) {
        int32_t number = -1;

        memcpy(&number, r->at + (size_t)first * sizeof(number), sizeof(number));
        if (number < 0 || number >= p->n || p->all[number] != known[first])
            break;
        first++;
    }
    s->memory = first > 0 && first == n_known ? more_of(before->memory) : NULL;
    first = s->memory ? first : 0;
    for (int64_t i = 0; i < n && !rc; i++) {
        struct rv_memory *next;
        int32_t number = -1;

        (void)take(r, &number, sizeof(number));
        if (number < 0 || number >= p->n)
            return damaged(err);
        if (i < first)
            continue;
        rc = rv_memory_extend(&next, s->memory, p->all[number], l->whitening, err);
        if (rc)
            return rc;
        rv_memory_unref(s->memory);
        s->memory = next;
    }
    return rc;
}

/* One generation into its place. */
static ruvllm_status read_state(struct rv_tenant_learner *l, struct reader *r, const struct pages *p,
                                struct ruvllm_error *err)
{
    int32_t n_dims = l->now.adapter.n_dims, rank = l->now.adapter.rank;
    struct rv_tenant_state numbers = {0}, *slot;
    int64_t n_pairs = 0;
    size_t n;
    ruvllm_status rc;

    if (!take(r, &numbers, NUMBERS) || !take(r, &n_pairs, sizeof(n_pairs)) || !is_possible(&numbers, n_pairs, rank))
        return damaged(err);
    slot = &l->snapshots[numbers.generation % RV_TENANT_LEARNER_SNAPSHOTS];
    n = rows_bytes(n_pairs, n_dims);
    if (slot->generation)
        return damaged(err); // two of them at one place
    rc = rv_tenant_learner_make_room(l, numbers.generation, err);
    if (rc)
        return rc;
    if (!take(r, slot->adapter.a, n) || !take(r, slot->adapter.b, n) ||
        !are_finite(slot->adapter.a, n / sizeof(float)) || !are_finite(slot->adapter.b, n / sizeof(float)))
        return damaged(err);
    memcpy(slot, &numbers, NUMBERS);
    slot->adapter.n_pairs = (int32_t)n_pairs;
    return read_memory(l, slot, r, p, err);
}

static ruvllm_status read_states(struct rv_tenant_learner *l, struct reader *r, const struct header *h,
                                 struct ruvllm_error *err)
{
    struct pages pages = {0};
    int64_t newest = 0;
    int32_t n = h->n_states;
    ruvllm_status rc = read_pages(&pages, r, h->n_pages, h->n_dims, err);

    for (int32_t i = 0; !rc && i < n; i++)
        rc = read_state(l, r, &pages, err);
    free_pages(&pages);
    for (int i = 0; i < RV_TENANT_LEARNER_SNAPSHOTS; i++)
        newest = l->snapshots[i].generation > newest ? l->snapshots[i].generation : newest;
    /* Those that are kept are the last ones, without gaps. */
    for (int64_t g = newest; !rc && g > newest - n; g--) {
        if (g < 1 || !rv_tenant_learner_has(l, g))
            rc = damaged(err);
    }
    if (!rc && r->left)
        rc = damaged(err);
    if (!rc)
        rv_tenant_learner_resume(l, newest);
    return rc;
}

ruvllm_status rv_tenant_checkpoint_read(struct rv_tenant_learner **out, const void *data, size_t len,
                                        const struct rv_whitening *whitening, int32_t rank, struct ruvllm_error *err)
{
    struct reader r = {.at = data, .left = len};
    struct header h;
    ruvllm_status rc;

    *out = NULL;
    if (!take(&r, &h, sizeof(h)) || h.version != VERSION || h.n_dims != whitening->n_dims || h.rank != rank ||
        h.numbers_bytes != NUMBERS || h.n_states < 1 || h.n_states > RV_TENANT_LEARNER_SNAPSHOTS || h.n_pages < 0 ||
        h.n_pages > MAX_PAGES || (uint64_t)h.n_pages > r.left / sizeof(int64_t) ||
        h.hash != rv_str_map_hash(VERSION, r.at, r.left))
        return damaged(err);
    rc = rv_tenant_learner_new(out, whitening, rank, err);
    if (!rc)
        rc = read_states(*out, &r, &h, err);
    if (rc) {
        rv_tenant_learner_free(*out);
        *out = NULL;
    }
    return rc;
}
