#include "learn_lessons.h"

#include "base/alloc.h"
#include "learn/first_text.h"
#include "learn/lesson.h"
#include "sample/weight.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_TEXTS = 24, FIRST_SEED = 7, N_OWN = 24 };

/* ---- what is learned, at work ----------------------------------------------------------------- */

/* A text that is read or written with what was learned. */
struct reading {
    struct lessons *lessons;
    const int32_t *tokens;
    int32_t first; // token that the first row was read at
    int32_t n;
    int32_t from;
    double nll;
    struct rv_trace *trace; // filled with the head's own rows; NULL: none
};

static void recall(struct reading *r, int32_t at, const float *state, float *logits)
{
    const struct rv_memory *memory = r->lessons->now.memory;
    struct rv_memory_answer answer;

    if (memory && rv_memory_ask(memory, r->tokens, at + 1, state, r->lessons->state, &answer))
        rv_memory_mix(&answer, logits, r->lessons->lab.n_vocab);
}

static void read_row(void *user, int32_t answer, int32_t i, const float *state, float *logits)
{
    struct reading *r = user;
    size_t n_vocab = r->lessons->lab.n_vocab;
    float max;

    (void)answer;
    if (i + 1 < r->from || i + 1 >= r->n)
        return;
    if (r->trace) {
        rv_head_gradient_read(&r->lessons->lab.gradient, r->trace, state, logits, r->tokens[i + 1]);
        return;
    }
    recall(r, i, state, logits);
    max = rv_weight_max(logits, n_vocab);
    r->nll += (double)(max - logits[r->tokens[i + 1]]) + log(rv_weight_sum(logits, n_vocab, max, rv_weight_scale(1)));
}

/* Leaves nothing to choose but the likeliest. */
static void write_row(void *user, int32_t answer, int32_t i, const float *state, float *logits)
{
    struct reading *r = user;
    size_t n_vocab = r->lessons->lab.n_vocab;
    float max;

    (void)answer;
    recall(r, r->first + i, state, logits);
    max = rv_weight_max(logits, n_vocab);
    for (size_t v = 0; v < n_vocab; v++)
        logits[v] = logits[v] < max ? -INFINITY : logits[v];
}

void lessons_answer(struct lessons *l, int32_t *tokens, int32_t n_prompt, int32_t n)
{
    struct reading r = {.lessons = l, .tokens = tokens, .first = n_prompt - 1};
    struct lab_answer answer = {.tokens = tokens, .adapter = l->now.adapter};

    lab_generate(&l->lab, &answer, 1, n_prompt, n, write_row, &r);
}

double lessons_nll(struct lessons *l, const int32_t *tokens, int32_t n, int32_t from)
{
    struct reading r = {.lessons = l, .tokens = tokens, .n = n, .from = from};

    lab_read(&l->lab, l->now.adapter, tokens, n, read_row, &r);
    return r.nll / (n - from);
}

static double own_nll(struct lessons *l)
{
    double sum = 0;

    for (int32_t i = 0; i < l->own.n; i++)
        sum += lessons_nll(l, l->own.tokens + i * l->own.length, l->own.length, 1);
    return sum / l->own.n;
}

double lessons_self(struct lessons *l)
{
    return own_nll(l) / l->own_nll - 1;
}

/* ---- learning --------------------------------------------------------------------------------- */

void lessons_correct(struct lessons *l, const int32_t *tokens, int32_t n_prompt, int32_t n)
{
    struct rv_trace *trace = lab_new_trace(&l->lab, n - n_prompt);
    struct reading r = {.lessons = l, .tokens = tokens, .n = n, .from = n_prompt, .trace = trace};
    struct rv_tenant_vote made;
    struct ruvllm_error err;

    if (rv_trace_set_prompt(trace, tokens, n_prompt, &err))
        lab_die("question", &err);
    lab_read(&l->lab, l->now.adapter, tokens, n, read_row, &r);
    if (rv_lesson_weigh(l->learner, &(struct rv_lesson){.good = trace}, &made, &err) ||
        rv_tenant_learner_apply(l->learner, &made, &err))
        lab_die("lesson", &err);
    rv_tenant_learner_release_vote(&made);
    rv_trace_unref(trace);
    rv_adapter_unref(l->now.adapter);
    l->now.adapter = lab_publish(&l->lab, &l->learner->now.adapter);
    l->now.memory = l->learner->now.memory;
}

/* As the engine does before it learns anything. */
static void measure_radius(struct lab *lab)
{
    struct lab_texts texts = lab_write_texts(lab, FIRST_TEXTS, LAB_TEXT);
    struct lessons plain = {.lab = *lab};
    struct rv_first_text first;
    struct ruvllm_error err;

    if (rv_first_text_init(&first, (size_t)FIRST_TEXTS * LAB_TEXT, (int32_t)lab->n_dims, &err))
        lab_die("texts", &err);
    for (int32_t i = 0; i < texts.n; i++) {
        struct rv_trace *trace = lab_new_trace(lab, LAB_TEXT);
        struct reading r = {
            .lessons = &plain, .tokens = texts.tokens + i * LAB_TEXT, .n = LAB_TEXT, .from = 1, .trace = trace};

        if (rv_trace_set_prompt(trace, r.tokens, 1, &err))
            lab_die("question", &err);
        lab_read(lab, NULL, r.tokens, LAB_TEXT, read_row, &r);
        rv_first_text_add(&first, trace);
        rv_trace_unref(trace);
    }
    if (rv_first_text_measure(&first, &lab->whitening, &err))
        lab_die("whitening", &err);
    rv_first_text_release(&first);
    lab_free_texts(&texts);
}

void lessons_forget(struct lessons *l, int32_t rank)
{
    rv_tenant_learner_free(l->learner);
    rv_adapter_unref(l->now.adapter);
    l->now = (struct learned){0};
    l->learner = lab_new_learner(&l->lab, rank);
}

void lessons_open(struct lessons *l, const struct learn_args *args, int32_t rank)
{
    *l = (struct lessons){0};
    lab_open(&l->lab, args->path, FIRST_SEED);
    measure_radius(&l->lab);
    rv_rng_init(&l->lab.rng, args->seed);
    l->state = lab_need(malloc(l->lab.n_dims * sizeof(float)));
    l->own = lab_write_texts(&l->lab, N_OWN, LAB_TEXT);
    l->own_nll = own_nll(l);
    lessons_forget(l, rank);
}

void lessons_close(struct lessons *l)
{
    rv_tenant_learner_free(l->learner);
    rv_adapter_unref(l->now.adapter);
    lab_free_texts(&l->own);
    free(l->state);
    lab_close(&l->lab);
}

/* ---- text ------------------------------------------------------------------------------------- */

int32_t lessons_tokens(const struct lessons *l, const char *text, bool begins, int32_t *out, int32_t max)
{
    const struct rv_vocab *vocab = l->lab.model->vocab;
    int32_t bos = rv_vocab_bos(vocab), n = 0, *ids;
    struct ruvllm_error err;
    size_t n_ids;

    /* A vocabulary that puts a space before the first word puts it where one stands already. */
    if (!begins && *text == ' ' && rv_vocab_adds_space(vocab))
        text++;
    if (rv_vocab_encode(vocab, text, strlen(text), NULL, 0, &ids, &n_ids, &err))
        lab_die("tokens", &err);
    if (begins && bos >= 0 && n < max)
        out[n++] = bos;
    for (size_t i = 0; i < n_ids && n < max; i++)
        out[n++] = ids[i];
    rv_free(ids);
    return n;
}
