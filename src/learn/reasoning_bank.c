#include "learn/reasoning_bank.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "store/store_patterns.h"

#include <math.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

enum {
    DEFAULT_PATTERNS = 100000,
    DEFAULT_IN_MEMORY = 1000000,
    MAX_WAITING = 4096, // patterns that wait for the store
    MAX_TENANTS = 4096, // in memory
    BATCH = 256,        // of one transaction
    WAIT_SECONDS = 1
};

static const double GOOD = 0.6, BAD = 0.4;

/* A pattern on its way into memory and the store. */
struct entry {
    struct entry *next;
    char *tenant;
    struct rv_reasoning_pattern pattern;
    uint16_t embedding[RV_PATTERN_SCAN_MAX_DIMS];
};

struct list {
    struct entry *first, *last;
    size_t n;
};

struct tenant {
    struct tenant *next; // the one asked for before
    char *name;
    size_t n, cap;
    uint16_t *rows; // cap of n_dims
    struct rv_reasoning_pattern *patterns;
};

struct rv_reasoning_bank {
    struct rv_reasoning_bank_config config;
    char *model;
    size_t n_dims;

    pthread_mutex_t lock;
    struct tenant *tenants; // guarded by lock as the next two: those in memory, the last asked for first
    struct list unsaved;
    uint64_t n_lost;

    pthread_mutex_t save_lock;
    size_t n_since_prune; // guarded by save_lock: patterns written

    pthread_mutex_t inbox_lock;
    pthread_cond_t has_work;
    struct list inbox; // guarded by inbox_lock, as the next
    bool is_closing;
    pthread_t writer;
    bool has_writer;
};

static const char *name_of(const char *tenant)
{
    return tenant && *tenant ? tenant : "default"; // as the learner has it
}

static enum rv_reasoning_verdict verdict_of(double quality)
{
    return quality >= GOOD ? RV_REASONING_GOOD : quality <= BAD ? RV_REASONING_BAD : RV_REASONING_MIXED;
}

/* ---- lists ---------------------------------------------------------------------------------- */

static void push(struct list *list, struct entry *e)
{
    e->next = NULL;
    *(list->last ? &list->last->next : &list->first) = e;
    list->last = e;
    list->n++;
}

static struct entry *pop(struct list *list)
{
    struct entry *e = list->first;

    if (!e)
        return NULL;
    list->first = e->next;
    list->last = list->first ? list->last : NULL;
    list->n--;
    return e;
}

static void free_entry(struct entry *e)
{
    rv_free(e->tenant);
    rv_free(e);
}

static void free_list(struct list *list)
{
    struct entry *e;

    while ((e = pop(list)) != NULL)
        free_entry(e);
}

/* ---- what is in memory; everything under the lock ------------------------------------------- */

static void free_tenant(struct tenant *t)
{
    if (!t)
        return;
    rv_free(t->name);
    rv_free(t->rows);
    rv_free(t->patterns);
    rv_free(t);
}

/* The tenant, now the last asked for; NULL when it is not in memory. */
static struct tenant *find(struct rv_reasoning_bank *b, const char *name)
{
    for (struct tenant **at = &b->tenants; *at; at = &(*at)->next) {
        struct tenant *t = *at;

        if (strcmp(t->name, name) != 0)
            continue;
        *at = t->next;
        t->next = b->tenants;
        b->tenants = t;
        return t;
    }
    return NULL;
}

static ruvllm_status add_tenant(struct rv_reasoning_bank *b, const char *name, struct tenant **out,
                                struct ruvllm_error *err)
{
    struct tenant *t = rv_calloc(1, sizeof(*t));

    *out = NULL;
    if (t)
        t->name = rv_strdup(name);
    if (!t || !t->name) {
        free_tenant(t);
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a tenant's patterns");
    }
    t->next = b->tenants;
    b->tenants = t;
    *out = t;
    return RUVLLM_OK;
}

/* Room for one more: more memory, or the oldest eighth goes. */
static ruvllm_status make_room(const struct rv_reasoning_bank *b, struct tenant *t, struct ruvllm_error *err)
{
    size_t cap = t->cap ? 2 * t->cap : 64, old = b->config.max_patterns / 8 + 1;
    void *rows, *patterns;

    if (t->n < t->cap)
        return RUVLLM_OK;
    if (t->n >= b->config.max_patterns) {
        old = old < t->n ? old : t->n;
        t->n -= old;
        memmove(t->rows, t->rows + old * b->n_dims, t->n * b->n_dims * sizeof(*t->rows));
        memmove(t->patterns, t->patterns + old, t->n * sizeof(*t->patterns));
        return RUVLLM_OK;
    }
    cap = cap < b->config.max_patterns ? cap : b->config.max_patterns;
    rows = rv_realloc_array(t->rows, cap * b->n_dims, sizeof(*t->rows));
    t->rows = rows ? rows : t->rows;
    patterns = rv_realloc_array(t->patterns, cap, sizeof(*t->patterns));
    t->patterns = patterns ? patterns : t->patterns;
    if (!rows || !patterns)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %zu patterns", cap);
    t->cap = cap;
    return RUVLLM_OK;
}

static ruvllm_status keep(const struct rv_reasoning_bank *b, struct tenant *t, const struct rv_reasoning_pattern *p,
                          const uint16_t *embedding, struct ruvllm_error *err)
{
    ruvllm_status rc = make_room(b, t, err);

    if (rc)
        return rc;
    memcpy(t->rows + t->n * b->n_dims, embedding, b->n_dims * sizeof(*t->rows));
    t->patterns[t->n++] = *p;
    return RUVLLM_OK;
}

/* Lets the tenants go that were not asked for longest, but never the last one asked for. */
static void make_way(struct rv_reasoning_bank *b)
{
    size_t n = 0, n_tenants = 0;

    for (struct tenant **at = &b->tenants; *at;) {
        struct tenant *t = *at;

        n += t->n;
        if (t == b->tenants || (n <= b->config.max_in_memory && n_tenants < MAX_TENANTS)) {
            at = &t->next;
            n_tenants++;
            continue;
        }
        n -= t->n;
        *at = t->next;
        free_tenant(t);
    }
}

/* Out of memory with the one that was found or added last; it is read again when it is asked for. */
static void drop_first(struct rv_reasoning_bank *b)
{
    struct tenant *t = b->tenants;

    b->tenants = t->next;
    free_tenant(t);
}

/* A tenant that lacks one of its patterns is worth nothing: where there is a store it is read again. */
static bool take_one(struct rv_reasoning_bank *b, struct tenant *t, const struct entry *e, struct ruvllm_error *err)
{
    if (!keep(b, t, &e->pattern, e->embedding, err))
        return true;
    if (b->config.store)
        drop_first(b);
    return false;
}

/* Empties the inbox: into memory where the tenant is, and on to the store. */
static ruvllm_status take_in(struct rv_reasoning_bank *b, struct ruvllm_error *err)
{
    ruvllm_status rc = RUVLLM_OK;
    struct list inbox;
    struct entry *e;

    pthread_mutex_lock(&b->inbox_lock);
    inbox = b->inbox;
    b->inbox = (struct list){0};
    pthread_mutex_unlock(&b->inbox_lock);
    while ((e = pop(&inbox)) != NULL) {
        struct tenant *t = find(b, e->tenant);

        if (!t && !b->config.store && !rc)
            rc = add_tenant(b, e->tenant, &t, err);
        if (t && !take_one(b, t, e, rc ? NULL : err))
            rc = RUVLLM_NO_MEMORY;
        if (b->config.store)
            push(&b->unsaved, e);
        else
            free_entry(e);
    }
    make_way(b);
    while (b->unsaved.n > MAX_WAITING) {
        free_entry(pop(&b->unsaved));
        b->n_lost++;
    }
    return rc;
}

/* ---- the store ------------------------------------------------------------------------------ */

/* Takes up to BATCH out of what waits. */
static struct list take_batch(struct rv_reasoning_bank *b)
{
    struct list batch = {0};

    pthread_mutex_lock(&b->lock);
    while (batch.n < BATCH && b->unsaved.first)
        push(&batch, pop(&b->unsaved));
    pthread_mutex_unlock(&b->lock);
    return batch;
}

static void put_back(struct rv_reasoning_bank *b, struct list *batch)
{
    pthread_mutex_lock(&b->lock);
    if (batch->last) {
        batch->last->next = b->unsaved.first;
        b->unsaved.last = b->unsaved.last ? b->unsaved.last : batch->last;
        b->unsaved.first = batch->first;
        b->unsaved.n += batch->n;
    }
    pthread_mutex_unlock(&b->lock);
    *batch = (struct list){0};
}

static ruvllm_status write_batch(struct rv_reasoning_bank *b, const struct list *batch, struct ruvllm_error *err)
{
    struct rv_store_pattern *rows = rv_calloc(batch->n ? batch->n : 1, sizeof(*rows));
    size_t n = 0;
    ruvllm_status rc;

    if (!rows)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %zu patterns", batch->n);
    for (const struct entry *e = batch->first; e; e = e->next)
        rows[n++] = (struct rv_store_pattern){
            .tenant = e->tenant,
            .model = b->model,
            .seq = e->pattern.seq,
            .time_us = e->pattern.time_us,
            .outcome = e->pattern.quality,
            .verdict = (int32_t)e->pattern.verdict,
            .embedding = {.data = (const char *)e->embedding, .len = b->n_dims * sizeof(*e->embedding)}};
    rc = rv_store_patterns_add_all(b->config.store, rows, n, err);
    rv_free(rows);
    return rc;
}

/* Every so often, what is beyond the newest goes from the store too: of those who wrote last. */
static ruvllm_status prune(struct rv_reasoning_bank *b, const struct list *batch, struct ruvllm_error *err)
{
    ruvllm_status rc = RUVLLM_OK;

    b->n_since_prune += batch->n;
    if (b->n_since_prune <= b->config.max_patterns / 8)
        return RUVLLM_OK;
    b->n_since_prune = 0;
    for (const struct entry *e = batch->first; e && !rc; e = e->next) {
        if (e == batch->first || strcmp(e->tenant, batch->first->tenant) != 0)
            rc = rv_store_patterns_keep_newest(b->config.store, e->tenant, b->model, b->config.max_patterns, NULL, err);
    }
    return rc;
}

/* Under save_lock: writes all that waits. What cannot be written waits on. */
static ruvllm_status save(struct rv_reasoning_bank *b, struct ruvllm_error *err)
{
    struct list batch = take_batch(b);
    ruvllm_status rc = RUVLLM_OK;

    while (batch.n && !rc) {
        rc = write_batch(b, &batch, err);
        if (rc) {
            put_back(b, &batch);
            break;
        }
        rc = prune(b, &batch, err);
        free_list(&batch);
        if (!rc)
            batch = take_batch(b);
    }
    return rc;
}

static ruvllm_status take_in_and_save(struct rv_reasoning_bank *b, struct ruvllm_error *err)
{
    ruvllm_status rc;

    pthread_mutex_lock(&b->save_lock);
    pthread_mutex_lock(&b->lock);
    rc = take_in(b, err);
    pthread_mutex_unlock(&b->lock);
    if (!rc && b->config.store)
        rc = save(b, err);
    pthread_mutex_unlock(&b->save_lock);
    return rc;
}

struct loading {
    struct rv_reasoning_bank *bank;
    struct tenant *tenant;
    ruvllm_status rc;
    struct ruvllm_error err;
};

static bool load_row(void *user, const struct rv_store_pattern *row)
{
    struct loading *l = user;
    struct rv_reasoning_pattern p = {.seq = row->seq, .time_us = row->time_us, .quality = row->outcome};
    uint16_t embedding[RV_PATTERN_SCAN_MAX_DIMS];

    if (row->embedding.len != l->bank->n_dims * sizeof(*embedding) || !(p.quality >= 0 && p.quality <= 1)) {
        l->rc = rv_fail_kind(&l->err, RUVLLM_FORMAT, RUVLLM_ERROR_SONA, "a pattern is damaged or of another model");
        return false;
    }
    p.verdict = verdict_of(p.quality);
    memcpy(embedding, row->embedding.data, row->embedding.len);
    for (size_t i = 0; i < l->bank->n_dims; i++) {
        if (!isfinite(rv_vec_from_bf16(embedding[i])))
            l->rc = rv_fail_kind(&l->err, RUVLLM_FORMAT, RUVLLM_ERROR_SONA, "a pattern is damaged");
    }
    if (!l->rc)
        l->rc = keep(l->bank, l->tenant, &p, embedding, &l->err);
    return !l->rc;
}

/* Under both locks: the tenant with all its patterns. The store is read with them held: nothing else waits for those.
 */
static ruvllm_status load(struct rv_reasoning_bank *b, const char *name, struct tenant **out, struct ruvllm_error *err)
{
    struct loading loading = {.bank = b};
    ruvllm_status rc = add_tenant(b, name, &loading.tenant, err);

    *out = NULL;
    if (rc)
        return rc;
    if (b->config.store)
        rc = rv_store_patterns_list(b->config.store, name, b->model, 0, load_row, &loading, err);
    if (!rc && loading.rc) {
        rc = loading.rc;
        if (err)
            *err = loading.err;
    }
    for (const struct entry *e = b->unsaved.first; e && !rc; e = e->next) { // what the store did not take yet
        if (strcmp(e->tenant, name) == 0)
            rc = keep(b, loading.tenant, &e->pattern, e->embedding, err);
    }
    if (rc) {
        drop_first(b);
        return rv_fail_in(err, rc, "cannot read the patterns of tenant '%s'", name);
    }
    *out = loading.tenant;
    make_way(b);
    return RUVLLM_OK;
}

static void *run_writer(void *arg)
{
    struct rv_reasoning_bank *b = arg;
    bool is_closing = false, is_waiting = false; // for the store, since the last line in the log said so

    while (!is_closing) {
        struct ruvllm_error err = {0};
        struct timespec until;
        ruvllm_status rc;

        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += WAIT_SECONDS;
        pthread_mutex_lock(&b->inbox_lock);
        while (!b->is_closing && b->inbox.n < BATCH &&
               pthread_cond_timedwait(&b->has_work, &b->inbox_lock, &until) == 0)
            ;
        is_closing = b->is_closing;
        pthread_mutex_unlock(&b->inbox_lock);
        rc = take_in_and_save(b, &err);
        if (rc && !is_waiting)
            rv_log(RUVLLM_LOG_WARN, "patterns wait for the store: %s", err.message);
        is_waiting = rc != RUVLLM_OK;
    }
    return NULL;
}

/* ---- doors ---------------------------------------------------------------------------------- */

/* Takes the lock and finds the tenant, whose patterns are read if need be. Without success nothing is locked. */
static ruvllm_status begin(struct rv_reasoning_bank *b, const char *name, struct tenant **out, struct ruvllm_error *err)
{
    ruvllm_status rc;

    pthread_mutex_lock(&b->lock);
    rc = take_in(b, err);
    *out = rc ? NULL : find(b, name);
    if (!rc && !*out) { // once more, when nobody writes
        pthread_mutex_unlock(&b->lock);
        pthread_mutex_lock(&b->save_lock);
        pthread_mutex_lock(&b->lock);
        rc = take_in(b, err);
        *out = rc ? NULL : find(b, name);
        if (!rc && !*out)
            rc = load(b, name, out, err);
        pthread_mutex_unlock(&b->save_lock);
    }
    if (rc)
        pthread_mutex_unlock(&b->lock);
    return rc;
}

static ruvllm_status add(struct rv_reasoning_bank *bank, const char *tenant, const uint16_t *embedding, double quality,
                         int64_t seq, int64_t time_us, struct ruvllm_error *err)
{
    struct entry *e;
    bool is_much;

    if (!(quality >= 0 && quality <= 1))
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_SONA, "a quality lies between 0 and 1, and is %g",
                            quality);
    e = rv_calloc(1, sizeof(*e));
    if (e)
        e->tenant = rv_strdup(name_of(tenant));
    if (!e || !e->tenant) {
        rv_free(e);
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a pattern");
    }
    e->pattern = (struct rv_reasoning_pattern){
        .seq = seq, .time_us = time_us, .quality = quality, .verdict = verdict_of(quality)};
    memcpy(e->embedding, embedding, bank->n_dims * sizeof(*embedding));
    pthread_mutex_lock(&bank->inbox_lock);
    push(&bank->inbox, e);
    is_much = bank->inbox.n >= BATCH;
    if (is_much)
        pthread_cond_signal(&bank->has_work);
    pthread_mutex_unlock(&bank->inbox_lock);
    if (!is_much || bank->has_writer)
        return RUVLLM_OK;
    return take_in_and_save(bank, err); // nobody else would
}

ruvllm_status rv_reasoning_bank_add(struct rv_reasoning_bank *bank, const char *tenant, const uint16_t *embedding,
                                    double quality, int64_t seq, struct ruvllm_error *err)
{
    return add(bank, tenant, embedding, quality, seq, rv_clock_unix_us(), err);
}

bool rv_reasoning_bank_question(const struct rv_reasoning_bank *bank, const struct rv_trace *trace, uint16_t *out)
{
    size_t n_dims = (size_t)trace->n_dims;
    float *state =
        rv_trace_has_rows(trace) && trace->n_rows > 0 ? rv_realloc_array(NULL, n_dims, sizeof(*state)) : NULL;
    bool is_one;

    for (size_t i = 0; state && i < n_dims; i++)
        state[i] = rv_vec_from_bf16(trace->states[i]);
    is_one = state && rv_pattern_scan_embed(bank->config.whitening, state, out);
    rv_free(state);
    return is_one;
}

void rv_reasoning_bank_note(struct rv_reasoning_bank *bank, const struct rv_trace *trace, double quality, int64_t seq,
                            int64_t time_us)
{
    struct ruvllm_error err = {.message = "its state cannot be read"};
    uint16_t embedding[RV_PATTERN_SCAN_MAX_DIMS];

    if (!rv_reasoning_bank_question(bank, trace, embedding) ||
        add(bank, trace->tenant, embedding, quality, seq, time_us ? time_us : rv_clock_unix_us(), &err))
        rv_log(RUVLLM_LOG_WARN, "a judged answer is not kept as a pattern: %s", err.message);
}

ruvllm_status rv_reasoning_bank_search(struct rv_reasoning_bank *bank, const char *tenant, const uint16_t *embedding,
                                       struct rv_reasoning_pattern *out, size_t max, size_t *n,
                                       struct ruvllm_error *err)
{
    struct rv_pattern_scan_hit hits[RV_PATTERN_SCAN_MAX_HITS];
    struct tenant *t;
    ruvllm_status rc;

    *n = 0;
    if (max > RV_PATTERN_SCAN_MAX_HITS)
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_SONA, "a search finds at most %d patterns",
                            RV_PATTERN_SCAN_MAX_HITS);
    rc = begin(bank, name_of(tenant), &t, err);
    if (rc)
        return rc;
    *n = rv_pattern_scan(rv_vec_best(), t->rows, t->n, bank->n_dims, embedding, hits, max);
    for (size_t i = 0; i < *n; i++) {
        t->patterns[hits[i].index].n_used++;
        out[i] = t->patterns[hits[i].index];
        out[i].likeness = hits[i].likeness;
    }
    pthread_mutex_unlock(&bank->lock);
    return RUVLLM_OK;
}

ruvllm_status rv_reasoning_bank_list(struct rv_reasoning_bank *bank, const char *tenant,
                                     struct rv_reasoning_pattern *out, size_t max, size_t *n, size_t *n_all,
                                     struct ruvllm_error *err)
{
    struct tenant *t;
    ruvllm_status rc = begin(bank, name_of(tenant), &t, err);

    *n = 0;
    if (rc)
        return rc;
    for (; *n < max && *n < t->n; ++*n) {
        out[*n] = t->patterns[t->n - 1 - *n];
        out[*n].likeness = 1;
    }
    if (n_all)
        *n_all = t->n;
    pthread_mutex_unlock(&bank->lock);
    return RUVLLM_OK;
}

static bool is_of(const struct rv_reasoning_pattern *p, int64_t seq, int64_t time_us)
{
    return p->seq == seq || (p->seq == 0 && p->time_us == time_us);
}

void rv_reasoning_bank_drop(struct rv_reasoning_bank *bank, const char *tenant)
{
    pthread_mutex_lock(&bank->lock);
    if (tenant && find(bank, tenant))
        drop_first(bank);
    while (!tenant && bank->tenants)
        drop_first(bank);
    pthread_mutex_unlock(&bank->lock);
}

/* Without a store there are no numbers. */
ruvllm_status rv_reasoning_bank_forget(struct rv_reasoning_bank *bank, const char *tenant, int64_t seq, int64_t time_us,
                                       struct ruvllm_error *err)
{
    const char *name = name_of(tenant);
    ruvllm_status rc;
    struct list rest = {0};
    struct entry *e;

    pthread_mutex_lock(&bank->save_lock);
    pthread_mutex_lock(&bank->lock);
    rc = take_in(bank, err);
    while ((e = pop(&bank->unsaved)) != NULL) {
        if (strcmp(e->tenant, name) == 0 && (seq == 0 || is_of(&e->pattern, seq, time_us)))
            free_entry(e);
        else
            push(&rest, e);
    }
    bank->unsaved = rest;
    if (find(bank, name))
        drop_first(bank);
    pthread_mutex_unlock(&bank->lock);
    if (!rc && bank->config.store)
        rc = seq ? rv_store_patterns_delete_event(bank->config.store, name, bank->model, seq, time_us, NULL, err)
                 : rv_store_patterns_delete(bank->config.store, name, bank->model, 0, NULL, err);
    pthread_mutex_unlock(&bank->save_lock);
    return rc;
}

ruvllm_status rv_reasoning_bank_flush(struct rv_reasoning_bank *bank, struct ruvllm_error *err)
{
    return take_in_and_save(bank, err);
}

uint64_t rv_reasoning_bank_n_lost(struct rv_reasoning_bank *bank)
{
    uint64_t n;

    pthread_mutex_lock(&bank->lock);
    n = bank->n_lost;
    pthread_mutex_unlock(&bank->lock);
    return n;
}

/* ---- life ----------------------------------------------------------------------------------- */

ruvllm_status rv_reasoning_bank_new(struct rv_reasoning_bank **out, const struct rv_reasoning_bank_config *config,
                                    struct ruvllm_error *err)
{
    struct rv_reasoning_bank *b = rv_calloc(1, sizeof(*b));
    ruvllm_status rc = RUVLLM_OK;

    *out = NULL;
    if (!b)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the bank of patterns");
    b->config = *config;
    b->config.max_patterns = config->max_patterns ? config->max_patterns : DEFAULT_PATTERNS;
    b->config.max_in_memory = config->max_in_memory ? config->max_in_memory : DEFAULT_IN_MEMORY;
    b->n_dims = rv_pattern_scan_n_dims(config->whitening);
    pthread_mutex_init(&b->lock, NULL);
    pthread_mutex_init(&b->save_lock, NULL);
    pthread_mutex_init(&b->inbox_lock, NULL);
    pthread_cond_init(&b->has_work, NULL);
    b->model = rv_strdup(config->model);
    if (!b->model)
        rc = rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the bank of patterns");
    if (!rc && config->store) {
        b->has_writer = pthread_create(&b->writer, NULL, run_writer, b) == 0;
        if (!b->has_writer)
            rc = rv_fail(err, RUVLLM_NO_MEMORY, "cannot start the thread that writes patterns");
    }
    if (rc) {
        rv_reasoning_bank_free(b);
        return rc;
    }
    *out = b;
    return RUVLLM_OK;
}

void rv_reasoning_bank_free(struct rv_reasoning_bank *bank)
{
    if (!bank)
        return;
    pthread_mutex_lock(&bank->inbox_lock);
    bank->is_closing = true;
    pthread_cond_signal(&bank->has_work);
    pthread_mutex_unlock(&bank->inbox_lock);
    if (bank->has_writer)
        pthread_join(bank->writer, NULL);
    while (bank->tenants) {
        struct tenant *t = bank->tenants;

        bank->tenants = t->next;
        free_tenant(t);
    }
    free_list(&bank->inbox);
    free_list(&bank->unsaved);
    pthread_cond_destroy(&bank->has_work);
    pthread_mutex_destroy(&bank->inbox_lock);
    pthread_mutex_destroy(&bank->save_lock);
    pthread_mutex_destroy(&bank->lock);
    rv_free(bank->model);
    rv_free(bank);
}
