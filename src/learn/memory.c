/*
 * A memory is a list of pages and a list of the keys in them that count, sorted by the token they come after. Adding a
 * page copies both lists, never the keys.
 */
#include "learn/memory.h"

#include "base/alloc.h"
#include "kernels/vec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A key that counts. */
struct entry {
    int32_t last;
    uint16_t page;
    uint16_t key;
};

struct rv_memory {
    atomic_int n_refs;
    const struct rv_whitening *whitening;
    int32_t n_pages;
    int32_t n_entries;
    struct rv_memory_page **pages; // the oldest first
    struct entry *entries;         // by `last`, then by page and key
};

/* Of l, where a key lies; and how near a key must be, in radii, to be said anew. */
static const float MAX_SHARE = 0.99f, SAME_PLACE = 0.25f;

/* ---- life ----------------------------------------------------------------------------------- */

struct rv_memory *rv_memory_ref(struct rv_memory *memory)
{
    atomic_fetch_add_explicit(&memory->n_refs, 1, memory_order_relaxed); // who adds one has one
    return memory;
}

void rv_memory_unref(struct rv_memory *memory)
{
    if (!memory || atomic_fetch_sub_explicit(&memory->n_refs, 1, memory_order_acq_rel) > 1)
        return;
    for (int32_t i = 0; i < memory->n_pages; i++)
        rv_memory_page_unref(memory->pages[i]);
    rv_free(memory->pages);
    rv_free(memory->entries);
    rv_free(memory);
}

int32_t rv_memory_n_keys(const struct rv_memory *memory)
{
    return memory ? memory->n_entries : 0;
}

struct rv_memory_page *const *rv_memory_pages(const struct rv_memory *memory, int32_t *n)
{
    *n = memory ? memory->n_pages : 0;
    return memory ? memory->pages : NULL;
}

static ruvllm_status new_memory(struct rv_memory **out, int32_t n_pages, int32_t n_entries, struct ruvllm_error *err)
{
    struct rv_memory *m = rv_calloc(1, sizeof(*m));

    *out = NULL;
    if (m) {
        atomic_init(&m->n_refs, 1);
        m->pages = rv_calloc((size_t)n_pages, sizeof(struct rv_memory_page *));
        m->entries = rv_calloc((size_t)n_entries, sizeof(*m->entries));
    }
    if (!m || !m->pages || !m->entries) {
        rv_memory_unref(m);
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a memory of %d keys", (int)n_entries);
    }
    *out = m;
    return RUVLLM_OK;
}

/* ---- adding a page -------------------------------------------------------------------------- */

static double distance_squared(const struct rv_memory_page *a, int32_t i, const struct rv_memory_page *b, int32_t j)
{
    size_t dims = (size_t)a->n_dims;
    const uint16_t *x = a->places + (size_t)i * dims, *y = b->places + (size_t)j * dims;
    double sum = 0;

    for (size_t d = 0; d < dims; d++) {
        double off = (double)rv_vec_from_bf16(x[d]) - (double)rv_vec_from_bf16(y[d]);

        sum += off * off;
    }
    return sum;
}

/* Tokens that two keys in the same place must share: all that are known of both. */
static int32_t n_known(const struct rv_memory_key *a, const struct rv_memory_key *b)
{
    int32_t n = 0;

    while (n < RV_MEMORY_PAGE_CONTEXT && a->context[n] >= 0 && b->context[n] >= 0)
        n++;
    return n;
}

/* True when a new key takes the place of an old one: in the same state, for any token, or against the same. */
static bool replaces(const struct rv_memory_page *page, int32_t key, const struct rv_memory_page *old, int32_t i_old,
                     double same)
{
    const struct rv_memory_key *n = &page->keys[key], *o = &old->keys[i_old];
    bool is_same = n->token == o->token;

    if (rv_memory_page_shared(n->context, o->context) < n_known(n, o) ||
        (!is_same && (n->strength < 0 || o->strength < 0)))
        return false;
    return distance_squared(page, key, old, i_old) < same;
}

static bool is_replaced(const struct rv_memory *before, const struct entry *e, const struct rv_memory_page *page,
                        double same)
{
    for (int32_t i = 0; page && i < page->n_keys; i++) {
        if (replaces(page, i, before->pages[e->page], e->key, same))
            return true;
    }
    return false;
}

static int by_place(const void *x, const void *y)
{
    const struct entry *a = x, *b = y;

    if (a->last != b->last)
        return a->last < b->last ? -1 : 1;
    if (a->page != b->page)
        return a->page < b->page ? -1 : 1;
    return (a->key > b->key) - (a->key < b->key);
}

/* How many keys of the old pages from `first` on, less those that are replaced, remain. */
static int32_t collect(const struct rv_memory *before, int32_t first, const struct rv_memory_page *page, double same,
                       struct entry *out)
{
    int32_t n = 0;

    for (int32_t i = 0; before && i < before->n_entries; i++) {
        const struct entry *e = &before->entries[i];

        if (e->page < first || is_replaced(before, e, page, same))
            continue;
        out[n] = *e;
        out[n++].page = (uint16_t)(e->page - first);
    }
    return n;
}

static int32_t max_keys(const struct rv_whitening *w)
{
    int32_t n = (int32_t)(RV_MEMORY_MAX_BYTES / (sizeof(uint16_t) * (size_t)w->n_dims));

    n = n < RV_MEMORY_MAX_KEYS ? n : RV_MEMORY_MAX_KEYS;
    return n > RV_MEMORY_PAGE_MAX ? n : RV_MEMORY_PAGE_MAX;
}

/* The oldest pages go until the rest has room, counted before anything is replaced. */
static int32_t first_kept(const struct rv_memory *before, int32_t n_new, const struct rv_whitening *whitening)
{
    int32_t most = max_keys(whitening), n = rv_memory_n_keys(before) + n_new, first = 0;
    int32_t per_page[RV_MEMORY_MAX_KEYS] = {0};

    for (int32_t i = 0; before && i < before->n_entries; i++)
        per_page[before->entries[i].page]++;
    while (before && first < before->n_pages &&
           (n > most || before->n_pages - first >= RV_MEMORY_MAX_KEYS || per_page[first] == 0))
        n -= per_page[first++];
    return first;
}

/* Adds the keys of the newest page where they belong; both parts are sorted. */
static void insert(struct rv_memory *m, const struct rv_memory_page *page)
{
    struct entry added[RV_MEMORY_PAGE_MAX];
    int32_t left = m->n_entries, n = page->n_keys;

    for (int32_t i = 0; i < n; i++)
        added[i] = (struct entry){.last = page->keys[i].context[0], .page = (uint16_t)m->n_pages, .key = (uint16_t)i};
    qsort(added, (size_t)n, sizeof(*added), by_place);
    m->n_entries += n;
    for (int32_t to = m->n_entries - 1; n > 0; to--) {
        bool is_old = left > 0 && by_place(&m->entries[left - 1], &added[n - 1]) > 0;

        m->entries[to] = is_old ? m->entries[--left] : added[--n];
    }
}

ruvllm_status rv_memory_extend(struct rv_memory **out, const struct rv_memory *before, struct rv_memory_page *page,
                               const struct rv_whitening *whitening, struct ruvllm_error *err)
{
    double reach = (double)whitening->radius * (double)SAME_PLACE;
    int32_t n_new = page ? page->n_keys : 0, first = first_kept(before, n_new, whitening);
    int32_t n_pages = before ? before->n_pages - first : 0;
    struct rv_memory *m;
    ruvllm_status rc;

    *out = NULL;
    if (rv_memory_n_keys(before) + n_new == 0)
        return RUVLLM_OK;
    rc = new_memory(&m, n_pages + 1, rv_memory_n_keys(before) + n_new, err);
    if (rc)
        return rc;
    m->whitening = whitening;
    for (; m->n_pages < n_pages; m->n_pages++)
        m->pages[m->n_pages] = rv_memory_page_ref(before->pages[first + m->n_pages]);
    m->n_entries = collect(before, first, page, reach * reach, m->entries);
    if (page) {
        insert(m, page);
        m->pages[m->n_pages++] = rv_memory_page_ref(page);
    }
    *out = m;
    return RUVLLM_OK;
}

/* ---- dropping keys -------------------------------------------------------------------------- */

/* Page `number` with the keys that count and are not dropped; NULL when there are none. */
static ruvllm_status pick_page(struct rv_memory_page **out, const struct rv_memory *m, int32_t number,
                               rv_memory_key_fn is_dropped, void *user, struct ruvllm_error *err)
{
    struct rv_memory_page *page = m->pages[number];
    bool is_wanted[RV_MEMORY_PAGE_MAX] = {false};

    for (int32_t i = 0; i < m->n_entries; i++) {
        const struct entry *e = &m->entries[i];

        if (e->page == number)
            is_wanted[e->key] = !is_dropped(user, page, e->key);
    }
    return rv_memory_page_pick(out, page, is_wanted, err);
}

/* From its pages anew, so that it is what its pages make, as any other. */
ruvllm_status rv_memory_without(struct rv_memory **out, const struct rv_memory *before, rv_memory_key_fn is_dropped,
                                void *user, struct ruvllm_error *err)
{
    struct rv_memory *m = NULL;
    ruvllm_status rc = RUVLLM_OK;

    *out = NULL;
    for (int32_t i = 0; i < before->n_pages && !rc; i++) {
        struct rv_memory *next = NULL;
        struct rv_memory_page *page;

        rc = pick_page(&page, before, i, is_dropped, user, err);
        if (rc || !page)
            continue;
        rc = rv_memory_extend(&next, m, page, before->whitening, err);
        rv_memory_page_unref(page);
        if (!rc) {
            rv_memory_unref(m);
            m = next;
        }
    }
    if (rc)
        rv_memory_unref(m);
    else
        *out = m;
    return rc;
}

/* ---- asking --------------------------------------------------------------------------------- */

/* The first entry after `last`, or of a later token. */
static int32_t find_last(const struct rv_memory *m, int32_t last)
{
    int32_t low = 0, high = m->n_entries;

    while (low < high) {
        int32_t middle = low + (high - low) / 2;

        if (m->entries[middle].last < last)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The word of a token, with its weight so far; in the place of the one that weighs least when there are too many. */
static struct rv_memory_word *word_of(struct rv_memory_answer *a, int32_t token, float weight)
{
    struct rv_memory_word *least = &a->words[0];

    for (int32_t i = 0; i < a->n_words; i++) {
        struct rv_memory_word *w = &a->words[i];

        if (w->token == token && (w->weight < 0) == (weight < 0))
            return w;
        least = fabsf(w->weight) < fabsf(least->weight) ? w : least;
    }
    if (a->n_words < RV_MEMORY_MAX_WORDS)
        least = &a->words[a->n_words++];
    else if (!(fabsf(weight) > fabsf(least->weight)))
        return NULL;
    *least = (struct rv_memory_word){.token = token};
    return least;
}

/* Adds what a key says that lies `near` (1: in the state itself, 0: at the radius). */
static void hear(struct rv_memory_answer *a, const struct rv_memory_key *key, int32_t n_shared, float near)
{
    bool is_against = key->strength < 0;
    /* Who is nearer has the say, and more so who shares more of what was read. */
    float weight = is_against ? key->strength * near : near * near * near * near * exp2f((float)n_shared);
    struct rv_memory_word *word = word_of(a, key->token, weight);
    float share =
        is_against ? 0 : MAX_SHARE * key->strength * (1 - (1 - near) * (1 - near)) * rv_memory_page_trust(n_shared);

    if (!word)
        return;
    if (is_against) // several do not add up: odds are lowered by the nearest
        word->weight = fminf(word->weight, weight);
    else
        word->weight += weight;
    a->share = share > a->share ? share : a->share;
}

/* The tokens before, as keys have them. */
static void take_context(const int32_t *tokens, int32_t n_tokens, int32_t *context)
{
    for (int32_t i = 0; i < RV_MEMORY_PAGE_CONTEXT; i++)
        context[i] = i < n_tokens ? tokens[n_tokens - 1 - i] : -1;
}

/* Words for tokens as shares that add up to 1. */
static void settle(struct rv_memory_answer *a)
{
    float sum = 0;

    for (int32_t i = 0; i < a->n_words; i++)
        sum += a->words[i].weight > 0 ? a->words[i].weight : 0;
    for (int32_t i = 0; i < a->n_words && sum > 0; i++)
        a->words[i].weight /= a->words[i].weight > 0 ? sum : 1;
}

bool rv_memory_ask(const struct rv_memory *memory, const int32_t *tokens, int32_t n_tokens, const float *state,
                   float *scratch, struct rv_memory_answer *answer)
{
    const struct rv_memory *m = memory;
    const struct rv_vec_ops *ops = rv_vec_best();
    size_t dims = (size_t)m->whitening->n_dims;
    int32_t last = tokens[n_tokens - 1], i = find_last(m, last), context[RV_MEMORY_PAGE_CONTEXT];
    float radius = m->whitening->radius, own;

    *answer = (struct rv_memory_answer){.distance = INFINITY};
    if (!(radius > 0) || i == m->n_entries || m->entries[i].last != last)
        return false;
    take_context(tokens, n_tokens, context);
    memcpy(scratch, state, dims * sizeof(*scratch));
    rv_whitening_root(m->whitening, scratch, 1);
    own = ops->dot(scratch, scratch, dims);
    for (; i < m->n_entries && m->entries[i].last == last; i++) {
        const struct rv_memory_page *page = m->pages[m->entries[i].page];
        const struct rv_memory_key *key = &page->keys[m->entries[i].key];
        int32_t n_shared = rv_memory_page_shared(context, key->context);
        float reach = radius * rv_memory_page_reach(n_shared);
        float off =
            own + key->square - 2 * ops->dot_bf16(scratch, page->places + (size_t)m->entries[i].key * dims, dims);
        float part = off > 0 ? off / (reach * reach) : 0; // of the radius, squared

        if (!(off < reach * reach)) // a state that is no number is near to nothing
            continue;
        answer->distance = fminf(answer->distance, sqrtf(part));
        hear(answer, key, n_shared, 1 - part);
    }
    settle(answer);
    return answer->n_words > 0;
}

static double log_sum(const float *logits, size_t n_vocab)
{
    float max = -INFINITY;
    double sum = 0;

    for (size_t i = 0; i < n_vocab; i++)
        max = logits[i] > max ? logits[i] : max;
    for (size_t i = 0; i < n_vocab; i++)
        sum += (double)expf(logits[i] - max);
    return (double)max + log(sum);
}

/*
 * (1 - l) p + l q, divided by 1 - l, leaves all logits as they are but those of q's tokens: exp(x) becomes exp(x) +
 * q l / (1 - l) times the sum of all. Keys against tokens are applied first, so that what was taken back and said anew
 * stays said.
 */
void rv_memory_mix(const struct rv_memory_answer *answer, float *logits, size_t n_vocab)
{
    double all, odds = (double)answer->share / (1 - (double)answer->share);

    for (int32_t i = 0; i < answer->n_words; i++) {
        const struct rv_memory_word *w = &answer->words[i];

        if (w->weight < 0 && (size_t)w->token < n_vocab)
            logits[w->token] += logf(fmaxf(1 + w->weight, 1e-6f));
    }
    if (!(answer->share > 0))
        return;
    all = log_sum(logits, n_vocab);
    if (!isfinite(all)) // the sampler says what is wrong with the row
        return;
    for (int32_t i = 0; i < answer->n_words; i++) {
        const struct rv_memory_word *w = &answer->words[i];
        double said, own;

        if (!(w->weight > 0) || (size_t)w->token >= n_vocab)
            continue;
        said = all + log((double)w->weight * odds);
        own = (double)logits[w->token];
        logits[w->token] = (float)(own > said ? own + log1p(exp(said - own)) : said + log1p(exp(own - said)));
    }
}
