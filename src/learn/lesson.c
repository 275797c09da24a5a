#include "learn/lesson.h"

#include "base/alloc.h"

#include <math.h>
#include <string.h>

/*
 * Nats a token that a lesson may go on its own rows, if they are ENOUGH_ROWS: a few say little about anything but
 * themselves, which memory has. Steps ten times as long gain no more over many lessons, and cost twice as much
 * elsewhere: what lessons have in common adds up, the rest does not. And how unlikely things are before they are taken
 * back.
 */
static const double REACH = 0.0002, MAX_ODDS = 3;

enum { ENOUGH_ROWS = 64 };

/* What is remembered of a text: all but matters of course; of a rejected one, what had rivals. */
static const struct rv_memory_page_choice FOR = {
    .strength = 1, .least = 0, .most = 0.7f, .max_keys = RV_MEMORY_PAGE_MAX - 16};
static const struct rv_memory_page_choice AGAINST = {.strength = -0.75f, .least = 0.1f, .most = 0.9f, .max_keys = 16};

/* Rows of both texts one after the other. */
struct rows {
    struct rv_head_rows rows;
    uint16_t *memory;
    float weights[2 * RV_TRACE_MAX_ROWS];
};

static double mean_logprob(const struct rv_trace *t)
{
    double sum = 0;

    for (int32_t i = 0; i < t->n_rows; i++)
        sum += (double)t->logprobs[i];
    return t->n_rows ? sum / t->n_rows : 0;
}

/* 1 for a correction; for a pair how far it is from being so. */
static double weight_of(const struct rv_lesson *lesson)
{
    return lesson->bad ? 1 / (1 + exp(mean_logprob(lesson->good) - mean_logprob(lesson->bad))) : 1;
}

static void set_weights(const struct rv_lesson *lesson, double weight, float *weights)
{
    int32_t n = lesson->good->n_rows;

    for (int32_t i = 0; i < n; i++)
        weights[i] = (float)weight;
    for (int32_t i = 0; lesson->bad && i < lesson->bad->n_rows; i++) {
        double p = exp((double)lesson->bad->logprobs[i]), odds = p / (1 - p + 1e-6);

        weights[n + i] = (float)(-weight * (odds < MAX_ODDS ? odds : MAX_ODDS)); // what is unlikely is left alone
    }
}

static ruvllm_status join(const struct rv_lesson *lesson, struct rows *out, struct ruvllm_error *err)
{
    size_t dims = (size_t)lesson->good->n_dims, n = (size_t)lesson->good->n_rows * dims;
    size_t m = (size_t)lesson->bad->n_rows * dims;
    uint16_t *to = rv_realloc_array(NULL, 3 * (n + m), sizeof(*to));

    if (!to)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the rows of a pair");
    out->memory = to;
    memcpy(to, lesson->good->states, n * sizeof(*to));
    memcpy(to + n, lesson->bad->states, m * sizeof(*to));
    memcpy(to + n + m, lesson->good->gradients, n * sizeof(*to));
    memcpy(to + 2 * n + m, lesson->bad->gradients, m * sizeof(*to));
    memcpy(to + 2 * (n + m), lesson->good->probes, n * sizeof(*to));
    memcpy(to + 3 * n + 2 * m, lesson->bad->probes, m * sizeof(*to));
    out->rows.states = to;
    out->rows.gradients = to + n + m;
    out->rows.probes = to + 2 * (n + m);
    out->rows.n = (size_t)(lesson->good->n_rows + lesson->bad->n_rows);
    return RUVLLM_OK;
}

static ruvllm_status gather(const struct rv_lesson *lesson, struct rows *out, struct ruvllm_error *err)
{
    const struct rv_trace *good = lesson->good;

    out->memory = NULL;
    out->rows = (struct rv_head_rows){.n = (size_t)good->n_rows,
                                      .states = good->states,
                                      .gradients = good->gradients,
                                      .probes = good->probes,
                                      .weights = out->weights};
    return lesson->bad ? join(lesson, out, err) : RUVLLM_OK;
}

static double reach_of(size_t n_rows)
{
    return n_rows < ENOUGH_ROWS ? REACH * (double)n_rows / ENOUGH_ROWS : REACH;
}

static ruvllm_status remember(struct rv_tenant_learner *l, const struct rv_lesson *lesson, struct rv_tenant_vote *vote,
                              struct ruvllm_error *err)
{
    ruvllm_status rc = rv_memory_page_add(&vote->keys, lesson->good, &FOR, l->whitening, l->scratch, err);

    if (!rc && lesson->bad)
        rc = rv_memory_page_add(&vote->keys, lesson->bad, &AGAINST, l->whitening, l->scratch, err);
    return rc;
}

ruvllm_status rv_lesson_weigh(struct rv_tenant_learner *learner, const struct rv_lesson *lesson,
                              struct rv_tenant_vote *vote, struct ruvllm_error *err)
{
    double weight = weight_of(lesson);
    struct rows *rows = rv_calloc(1, sizeof(*rows));
    ruvllm_status rc;

    if (!rows)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the rows of a lesson");
    rc = rv_tenant_learner_init_vote(vote, lesson->good->n_dims, err);
    if (!rc)
        rc = gather(lesson, rows, err);
    if (!rc) {
        vote->is_lesson = true;
        set_weights(lesson, weight, rows->weights);
        rv_head_adapter_step(&vote->step, &rows->rows, learner->whitening, reach_of(rows->rows.n) * weight, 2,
                             learner->scratch);
        rc = remember(learner, lesson, vote, err);
    }
    if (rc)
        rv_tenant_learner_release_vote(vote);
    rv_free(rows->memory);
    rv_free(rows);
    return rc;
}
