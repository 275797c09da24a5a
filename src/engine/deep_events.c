/*
 * Every event that changes what answers makes a generation, as the learner counts them; going back makes one that
 * continues another. So what is in the newest generation is found by walking back from it.
 */
#include "engine/deep_events.h"

#include "base/alloc.h"
#include "learn/distil.h"
#include "learn/history.h"
#include "learn/lesson_tokens.h"
#include "learn/tick_event.h"
#include "store/store_events.h"

#include <math.h>
#include <string.h>

struct entry {
    int64_t parent; // generation that this one continues
    enum rv_store_event_kind kind;
    double score;
    bool is_forgotten;               // or has moved nothing
    bool is_used;                    // in the newest generation
    struct rv_lesson_tokens tokens;  // memory NULL: none were kept
    struct rv_deep_events_key *keys; // without a sample yet
    int32_t n_keys;
};

struct reader {
    const struct rv_deep_events_config *config;
    struct entry *entries; // of generation i + 1
    size_t n, cap;
    int64_t last_seq;
    int64_t n_taught;
    ruvllm_status rc;
    struct ruvllm_error err;
};

/* ---- the log -------------------------------------------------------------------------------- */

static bool is_feedback(enum rv_store_event_kind kind)
{
    return kind == RV_STORE_EVENT_VOTE || kind == RV_STORE_EVENT_CORRECTION || kind == RV_STORE_EVENT_PAIR;
}

static bool is_kept(int64_t generation, int64_t n)
{
    return generation == 0 || (generation > 0 && generation <= n && generation > n - RV_TENANT_LEARNER_SNAPSHOTS);
}

/* Which generation goes on after `n` of them by this event; -1: it makes none. As the learner counts them. */
static int64_t parent_of(const struct rv_store_event *event, int64_t n)
{
    int64_t back = n;

    if (event->is_forgotten || is_feedback(event->kind) || event->kind == RV_STORE_EVENT_DEEP ||
        event->kind == RV_STORE_EVENT_TICK)
        return n; // one that was forgotten changes nothing, and counts
    if (event->kind == RV_STORE_EVENT_ROLLBACK)
        return is_kept(event->generation, n) ? event->generation : -1;
    back = event->kind == RV_STORE_EVENT_GATE ? rv_tick_event_goes_back_to(event->result) : -1;
    while (back >= 0 && back < n && !is_kept(back, n))
        back++;
    return back < 0 || back > n ? -1 : back;
}

/* Votes in a flood move nothing, and are not trained on either. */
static bool has_moved_nothing(const struct rv_store_event *event)
{
    struct rv_str delta = event->delta;
    struct rv_history_note note;

    rv_history_take_note(&delta, &note);
    return event->kind == RV_STORE_EVENT_VOTE && note.kl == 0;
}

/* The keys for tokens of an event; what is damaged has none. */
static ruvllm_status read_keys(const struct reader *r, struct entry *e, struct rv_str bytes, struct ruvllm_error *err)
{
    struct rv_memory_page *page = NULL;

    if (bytes.len == 0 || rv_memory_page_read(&page, r->config->n_dims, bytes, NULL) || !page)
        return RUVLLM_OK;
    e->keys = rv_realloc_array(NULL, (size_t)page->n_keys + 1, sizeof(*e->keys));
    for (int32_t i = 0; e->keys && i < page->n_keys; i++) {
        const struct rv_memory_key *k = &page->keys[i];

        if (k->strength > 0.0f)
            e->keys[e->n_keys++] =
                (struct rv_deep_events_key){.last = k->context[0], .token = k->token, .name = rv_distil_name(page, i)};
    }
    rv_memory_page_unref(page);
    return e->keys ? RUVLLM_OK : rv_fail(err, RUVLLM_NO_MEMORY, "cannot hold the keys of an event");
}

static ruvllm_status add_entry(struct reader *r, const struct rv_store_event *event, int64_t parent,
                               struct ruvllm_error *err)
{
    struct entry *e;

    if (r->n == r->cap) {
        size_t cap = r->cap ? 2 * r->cap : 64;
        struct entry *more = rv_realloc_array(r->entries, cap, sizeof(*more));

        if (!more)
            return rv_fail(err, RUVLLM_NO_MEMORY, "cannot hold %zu events", cap);
        r->entries = more;
        r->cap = cap;
    }
    e = &r->entries[r->n++];
    *e = (struct entry){.parent = parent, .kind = event->kind, .score = event->score};
    e->is_forgotten = event->is_forgotten || has_moved_nothing(event);
    if (e->is_forgotten)
        return RUVLLM_OK;
    if (is_feedback(event->kind) && event->result.len > 0 &&
        rv_lesson_tokens_read(&e->tokens, event->result, r->config->n_vocab, err) == RUVLLM_NO_MEMORY)
        return RUVLLM_NO_MEMORY;
    return is_feedback(event->kind) ? read_keys(r, e, event->memory, err) : RUVLLM_OK; // no tokens: not trained on
}

static bool on_event(void *user, const struct rv_store_event *event)
{
    struct reader *r = user;

    r->last_seq = event->seq;
    if (strcmp(event->model ? event->model : "", r->config->model) == 0) {
        int64_t parent = parent_of(event, (int64_t)r->n);

        r->n_taught += is_feedback(event->kind) && !event->is_forgotten;
        if (parent >= 0)
            r->rc = add_entry(r, event, parent, &r->err);
    }
    return !r->rc;
}

static void mark_used(struct reader *r)
{
    for (int64_t g = (int64_t)r->n; g > 0; g = r->entries[g - 1].parent)
        r->entries[g - 1].is_used = is_feedback(r->entries[g - 1].kind) && !r->entries[g - 1].is_forgotten;
}

/* ---- samples -------------------------------------------------------------------------------- */

static const double LEAST_ADVANTAGE = 1e-3; // as good as the mean: it says nothing

/* What scores are measured by: two more votes, one of either kind, stand for what is not known yet. */
struct scale {
    double mean;
    double deviation;
};

static struct scale weigh_scores(const struct reader *r)
{
    double n = 2, sum = 1, squares = 1;
    struct scale s;

    for (size_t i = 0; i < r->n; i++) {
        if (r->entries[i].is_used && r->entries[i].kind == RV_STORE_EVENT_VOTE) {
            n++;
            sum += r->entries[i].score;
            squares += r->entries[i].score * r->entries[i].score;
        }
    }
    s.mean = sum / n;
    s.deviation = fmax(0.1, sqrt(fmax(0, squares / n - s.mean * s.mean)));
    return s;
}

static void free_sample(const struct rv_deep_sample *s)
{
    rv_free((void *)(uintptr_t)s->tokens);
    rv_free((void *)(uintptr_t)s->weights);
}

/* An answer with its question, cut to the length. */
struct answer {
    const struct rv_lesson_tokens *question;
    const int32_t *tokens;
    int32_t n;
};

static ruvllm_status fill(struct rv_deep_sample *out, const struct answer *a, int32_t max_tokens, float weight,
                          bool *was_cut, struct ruvllm_error *err)
{
    int32_t n_prompt = a->question->n_prompt, n = n_prompt + a->n < max_tokens ? n_prompt + a->n : max_tokens;
    int32_t *tokens = rv_realloc_array(NULL, (size_t)n, sizeof(*tokens));
    float *weights = rv_calloc((size_t)n, sizeof(*weights));

    *out = (struct rv_deep_sample){.tokens = tokens, .n = n, .weights = weights};
    if (!tokens || !weights) {
        free_sample(out);
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot hold %d tokens", n);
    }
    memcpy(tokens, a->question->prompt, (size_t)n_prompt * sizeof(*tokens));
    memcpy(tokens + n_prompt, a->tokens, (size_t)(n - n_prompt) * sizeof(*tokens));
    for (int32_t i = n_prompt > 1 ? n_prompt : 1; i < n; i++)
        weights[i] = weight;
    *was_cut = *was_cut || n < n_prompt + a->n;
    return RUVLLM_OK;
}

/* Whether something of an answer is within the length. */
static bool has_any(const struct rv_lesson_tokens *t, int32_t n_answer, int32_t max_tokens)
{
    return t->memory && n_answer > 0 && t->n_prompt < max_tokens && t->n_prompt + n_answer >= 2;
}

static ruvllm_status fill_rejected(struct rv_deep_sample *item, const struct answer *answer, int32_t max_tokens,
                                   bool *was_cut, struct ruvllm_error *err)
{
    struct rv_deep_sample *rejected = rv_calloc(1, sizeof(*rejected));
    ruvllm_status rc = rejected ? fill(rejected, answer, max_tokens, 1.0f, was_cut, err)
                                : rv_fail(err, RUVLLM_NO_MEMORY, "cannot hold a pair");

    item->rejected = rc ? NULL : rejected;
    if (rc)
        rv_free(rejected);
    return rc;
}

static ruvllm_status add_keys(struct rv_deep_events *out, const struct entry *e, struct ruvllm_error *err)
{
    size_t n = out->n_keys + (size_t)e->n_keys;

    if (n > out->cap_keys) {
        struct rv_deep_events_key *more = rv_realloc_array(out->keys, 2 * n, sizeof(*more));

        if (!more)
            return rv_fail(err, RUVLLM_NO_MEMORY, "cannot hold %zu keys", n);
        out->keys = more;
        out->cap_keys = 2 * n;
    }
    for (int32_t i = 0; i < e->n_keys; i++) {
        out->keys[out->n_keys] = e->keys[i];
        out->keys[out->n_keys++].sample = out->n;
    }
    return RUVLLM_OK;
}

static void count(struct rv_deep_events *out, const struct entry *e, bool was_cut)
{
    out->n++;
    out->n_votes += e->kind == RV_STORE_EVENT_VOTE;
    out->n_corrections += e->kind == RV_STORE_EVENT_CORRECTION;
    out->n_pairs += e->kind == RV_STORE_EVENT_PAIR;
    out->n_cut += was_cut;
}

static ruvllm_status add_sample(struct rv_deep_events *out, const struct entry *e, const struct scale *scale,
                                int32_t max_tokens, struct ruvllm_error *err)
{
    const struct rv_lesson_tokens *t = &e->tokens;
    struct answer good = {t, t->good, t->n_good}, bad = {t, t->bad, t->n_bad};
    struct rv_deep_sample *item = &out->items[out->n];
    bool is_vote = e->kind == RV_STORE_EVENT_VOTE, is_pair = e->kind == RV_STORE_EVENT_PAIR, was_cut = false;
    double advantage = fmin(2, fmax(-2, (e->score - scale->mean) / scale->deviation));
    ruvllm_status rc;

    if ((is_vote && fabs(advantage) < LEAST_ADVANTAGE) || !has_any(t, t->n_good, max_tokens) ||
        (is_pair && !has_any(t, t->n_bad, max_tokens))) {
        out->n_unused++;
        return RUVLLM_OK;
    }
    rc = fill(item, &good, max_tokens, is_vote ? (float)advantage : 1.0f, &was_cut, err);
    if (!rc && is_pair) {
        rc = fill_rejected(item, &bad, max_tokens, &was_cut, err);
        if (rc)
            free_sample(item);
    }
    if (!rc) {
        rc = add_keys(out, e, err);
        if (rc && item->rejected)
            free_sample(item->rejected);
        if (rc) {
            rv_free((void *)(uintptr_t)item->rejected);
            free_sample(item);
        }
    }
    if (rc)
        return rc;
    item->is_vote = is_vote;
    item->episode = (int32_t)out->n;
    count(out, e, was_cut);
    return RUVLLM_OK;
}

static ruvllm_status make_samples(struct rv_deep_events *out, struct reader *r, struct ruvllm_error *err)
{
    struct scale scale = weigh_scores(r);
    ruvllm_status rc = RUVLLM_OK;

    out->items = rv_calloc(r->n ? r->n : 1, sizeof(*out->items));
    if (!out->items)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot hold %zu samples", r->n);
    for (size_t i = 0; i < r->n && !rc; i++)
        if (r->entries[i].is_used)
            rc = add_sample(out, &r->entries[i], &scale, r->config->max_tokens, err);
    return rc;
}

ruvllm_status rv_deep_events_init(struct rv_deep_events *out, const struct rv_deep_events_config *config,
                                  struct ruvllm_error *err)
{
    struct reader r = {.config = config};
    ruvllm_status rc;

    *out = (struct rv_deep_events){0};
    rc = rv_store_events_replay(config->store, config->tenant, 0, on_event, &r, err);
    if (!rc && r.rc) {
        rc = r.rc;
        if (err)
            *err = r.err;
    }
    if (!rc) {
        mark_used(&r);
        rc = make_samples(out, &r, err);
        out->last_seq = r.last_seq;
        out->generation = (int64_t)r.n;
        out->n_taught = r.n_taught;
    }
    for (size_t i = 0; i < r.n; i++) {
        rv_free(r.entries[i].tokens.memory);
        rv_free(r.entries[i].keys);
    }
    rv_free(r.entries);
    if (rc)
        rv_deep_events_release(out);
    return rc;
}

void rv_deep_events_release(struct rv_deep_events *events)
{
    for (size_t i = 0; i < events->n; i++) {
        const struct rv_deep_sample *rejected = events->items[i].rejected;

        free_sample(&events->items[i]);
        if (rejected)
            free_sample(rejected);
        rv_free((void *)(uintptr_t)rejected);
    }
    rv_free(events->items);
    rv_free(events->keys);
    *events = (struct rv_deep_events){0};
}
