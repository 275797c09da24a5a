/*
 * Every event that changes what answers makes a generation, as the learner counts them; going back makes one that
 * continues another. So what is in the newest generation is found by walking back from it.
 */
#include "engine/deep_events.h"

#include "base/alloc.h"
#include "learn/event_texts.h"
#include "store/store_events.h"

#include <math.h>
#include <string.h>

/* An answer of an event, with its question. */
struct answer {
    int32_t *tokens;
    size_t n, n_prompt;
};

struct entry {
    int64_t parent; // generation that this one continues
    enum rv_store_event_kind kind;
    double score;
    bool is_used;         // in the newest generation
    struct answer answer; // tokens NULL: no words
    struct answer rejected;
};

struct reader {
    const struct rv_deep_events_config *config;
    struct entry *entries; // of generation i + 1
    size_t n, cap;
    int64_t last_seq;
    ruvllm_status rc;
    struct ruvllm_error err;
};

/* ---- the log -------------------------------------------------------------------------------- */

static bool is_feedback(enum rv_store_event_kind kind)
{
    return kind == RV_STORE_EVENT_VOTE || kind == RV_STORE_EVENT_CORRECTION || kind == RV_STORE_EVENT_PAIR;
}

/* As the learner counts them. */
static bool makes_generation(const struct rv_store_event *event)
{
    return event->kind == RV_STORE_EVENT_ROLLBACK ||
           (!event->is_forgotten && (is_feedback(event->kind) || event->kind == RV_STORE_EVENT_DEEP));
}

static ruvllm_status read_answer(const struct reader *r, const struct rv_store_event *event, struct rv_str text,
                                 struct answer *out, struct ruvllm_error *err)
{
    if (event->prompt.len == 0 || text.len == 0)
        return RUVLLM_OK;
    return rv_event_texts_tokens(r->config->vocab, event->prompt, text, event->kind != RV_STORE_EVENT_VOTE,
                                 &out->tokens, &out->n, &out->n_prompt, err);
}

static ruvllm_status add_entry(struct reader *r, const struct rv_store_event *event, struct ruvllm_error *err)
{
    struct entry *e;
    ruvllm_status rc = RUVLLM_OK;

    if (r->n == r->cap) {
        size_t cap = r->cap ? 2 * r->cap : 64;
        struct entry *more = rv_realloc_array(r->entries, cap, sizeof(*more));

        if (!more)
            return rv_fail(err, RUVLLM_NO_MEMORY, "cannot hold %zu events", cap);
        r->entries = more;
        r->cap = cap;
    }
    e = &r->entries[r->n++];
    *e = (struct entry){.parent = (int64_t)r->n - 1, .kind = event->kind, .score = event->score};
    if (event->kind == RV_STORE_EVENT_ROLLBACK)
        e->parent = event->generation < (int64_t)r->n ? event->generation : (int64_t)r->n - 1;
    if (event->kind == RV_STORE_EVENT_VOTE)
        rc = read_answer(r, event, event->answer, &e->answer, err);
    if (event->kind == RV_STORE_EVENT_CORRECTION || event->kind == RV_STORE_EVENT_PAIR)
        rc = read_answer(r, event, event->correction, &e->answer, err);
    if (event->kind == RV_STORE_EVENT_PAIR && !rc)
        rc = read_answer(r, event, event->answer, &e->rejected, err);
    return rc;
}

static bool on_event(void *user, const struct rv_store_event *event)
{
    struct reader *r = user;

    r->last_seq = event->seq;
    if (strcmp(event->model ? event->model : "", r->config->model) == 0 && makes_generation(event))
        r->rc = add_entry(r, event, &r->err);
    return !r->rc;
}

static void mark_used(struct reader *r)
{
    for (int64_t g = (int64_t)r->n; g > 0; g = r->entries[g - 1].parent)
        r->entries[g - 1].is_used = is_feedback(r->entries[g - 1].kind);
}

/* ---- samples -------------------------------------------------------------------------------- */

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

/* Moves an answer's tokens into a sample; false when nothing of the answer is within the length. */
static bool take(struct rv_deep_sample *out, struct answer *from, int32_t max_tokens, float weight, bool *was_cut,
                 ruvllm_status *rc, struct ruvllm_error *err)
{
    size_t n = from->n < (size_t)max_tokens ? from->n : (size_t)max_tokens;
    float *weights;

    if (!from->tokens || n < 2 || n <= from->n_prompt)
        return false;
    weights = rv_calloc(n, sizeof(*weights));
    if (!weights) {
        *rc = rv_fail(err, RUVLLM_NO_MEMORY, "cannot hold %zu tokens", n);
        return false;
    }
    for (size_t i = from->n_prompt > 1 ? from->n_prompt : 1; i < n; i++)
        weights[i] = weight;
    *was_cut = *was_cut || n < from->n;
    *out = (struct rv_deep_sample){.tokens = from->tokens, .n = (int32_t)n, .weights = weights};
    from->tokens = NULL;
    return true;
}

static void free_sample(const struct rv_deep_sample *s)
{
    rv_free((void *)(uintptr_t)s->tokens);
    rv_free((void *)(uintptr_t)s->weights);
}

/* What was rejected for `item`; false when there is nothing of it. */
static bool take_rejected(struct rv_deep_sample *item, struct answer *from, int32_t max_tokens, bool *was_cut,
                          ruvllm_status *rc, struct ruvllm_error *err)
{
    struct rv_deep_sample *rejected = rv_calloc(1, sizeof(*rejected));

    if (!rejected) {
        *rc = rv_fail(err, RUVLLM_NO_MEMORY, "cannot hold a pair");
        return false;
    }
    if (!take(rejected, from, max_tokens, 1.0f, was_cut, rc, err)) {
        rv_free(rejected);
        return false;
    }
    item->rejected = rejected;
    return true;
}

static ruvllm_status add_sample(struct rv_deep_events *out, struct entry *e, const struct scale *scale,
                                int32_t max_tokens, struct ruvllm_error *err)
{
    struct rv_deep_sample *item = &out->items[out->n];
    bool is_vote = e->kind == RV_STORE_EVENT_VOTE, was_cut = false, is_good;
    double advantage = fmin(2, fmax(-2, (e->score - scale->mean) / scale->deviation));
    ruvllm_status rc = RUVLLM_OK;

    is_good = (!is_vote || fabs(advantage) > 1e-3) &&
              take(item, &e->answer, max_tokens, is_vote ? (float)advantage : 1.0f, &was_cut, &rc, err);
    if (is_good && e->kind == RV_STORE_EVENT_PAIR && !take_rejected(item, &e->rejected, max_tokens, &was_cut, &rc, err)) {
        free_sample(item);
        is_good = false;
    }
    out->n_unused += !is_good;
    if (rc || !is_good)
        return rc;
    item->is_vote = is_vote;
    item->episode = (int32_t)out->n;
    out->n++;
    out->n_votes += is_vote;
    out->n_corrections += e->kind == RV_STORE_EVENT_CORRECTION;
    out->n_pairs += e->kind == RV_STORE_EVENT_PAIR;
    out->n_cut += was_cut;
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
    }
    for (size_t i = 0; i < r.n; i++) {
        rv_free(r.entries[i].answer.tokens);
        rv_free(r.entries[i].rejected.tokens);
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
    *events = (struct rv_deep_events){0};
}
