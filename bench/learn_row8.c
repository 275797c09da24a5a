/*
 * Row 8: one tenant votes 1,000 times while another is answered in the same batches: the other's logits stay the same
 * bits. They are compared with those of the same batches before anything was learned.
 */
#include "learn_common.h"

#include <stdlib.h>
#include <string.h>

enum { N_TEACHING = 4, N_OTHER = 4, N_ALL = N_TEACHING + N_OTHER, PROMPT = 12, ANSWER = 16 };

/* What the other tenant's answers were drawn from. */
struct record {
    size_t n_vocab;
    float *other;   // N_OTHER x ANSWER rows
    float *own;     // the first row of the teaching tenant
    bool is_first;  // it is written now, and later compared with
    int64_t n_rows; // compared
    int64_t n_different;
    bool has_changed; // the teaching tenant's
};

static void look(void *user, int32_t answer, int32_t i, const float *state, float *logits)
{
    struct record *r = user;
    size_t bytes = r->n_vocab * sizeof(float);
    float *mine;

    (void)state;
    if (answer == 0 && i == 0) {
        if (r->is_first)
            memcpy(r->own, logits, bytes);
        else
            r->has_changed |= memcmp(r->own, logits, bytes) != 0;
    }
    if (answer < N_TEACHING)
        return;
    mine = r->other + ((size_t)(answer - N_TEACHING) * ANSWER + (size_t)i) * r->n_vocab;
    if (r->is_first)
        memcpy(mine, logits, bytes);
    else
        r->n_different += memcmp(mine, logits, bytes) != 0;
    r->n_rows += !r->is_first;
}

/* The same batch as every time, but for what the first tenant has learned. */
static void answer_all(struct lab *lab, const struct lab_texts *prompts, const struct rv_adapter *adapter,
                       struct rv_trace *const *traces, uint64_t seed, struct record *record)
{
    int32_t tokens[N_ALL][PROMPT + ANSWER];
    struct lab_answer answers[N_ALL];

    for (int i = 0; i < N_ALL; i++) {
        memcpy(tokens[i], prompts->tokens + i * PROMPT, PROMPT * sizeof(int32_t));
        answers[i] = (struct lab_answer){.tokens = tokens[i]};
        if (i < N_TEACHING) {
            answers[i].adapter = adapter;
            answers[i].trace = traces[i];
        }
    }
    rv_rng_init(&lab->rng, seed);
    lab_generate(lab, answers, N_ALL, PROMPT, ANSWER, look, record);
}

void learn_row8(struct learn_args *args)
{
    int n_votes = args->is_short ? 200 : 1000, n_changed = 0, n_rounds = 0;
    struct rv_tenant_learner *learner;
    struct rv_trace *traces[N_TEACHING];
    struct record record = {.is_first = true};
    struct lab_texts prompts;
    struct lab lab;

    lab_open(&lab, args->path, args->seed);
    lab_whiten(&lab);
    record.n_vocab = lab.n_vocab;
    record.other = lab_need(malloc((size_t)N_OTHER * ANSWER * lab.n_vocab * sizeof(float)));
    record.own = lab_need(malloc(lab.n_vocab * sizeof(float)));
    prompts = lab_write_texts(&lab, N_ALL, PROMPT);
    learner = lab_new_learner(&lab, 8);
    for (int i = 0; i < N_TEACHING; i++)
        traces[i] = lab_new_trace(&lab, ANSWER);
    answer_all(&lab, &prompts, NULL, traces, args->seed, &record);
    record.is_first = false;
    for (int done = 0; done < n_votes; done += N_TEACHING, n_rounds++) {
        struct rv_adapter *adapter;

        for (int i = 0; i < N_TEACHING; i++)
            lab_vote(learner, traces[i], (done + i) % 3 == 0);
        adapter = lab_publish(&lab, &learner->now.adapter);
        record.has_changed = false;
        answer_all(&lab, &prompts, adapter, traces, args->seed, &record);
        n_changed += record.has_changed;
        rv_adapter_unref(adapter);
    }
    learn_figure_print(args, &(struct learn_figure){
                                 .what = "rows_changed", .value = (double)record.n_different, .bound = LEARN_AT_MOST});
    learn_figure_print(args, &(struct learn_figure){.what = "rows_compared",
                                                    .value = (double)record.n_rows,
                                                    .bound = LEARN_AT_LEAST,
                                                    .must = (double)n_votes * ANSWER,
                                                    .short_must = (double)n_votes * ANSWER});
    learn_figure_print(args, &(struct learn_figure){.what = "own_changed",
                                                    .value = (double)n_changed / n_rounds,
                                                    .bound = LEARN_AT_LEAST,
                                                    .must = 0.99,
                                                    .short_must = 0.99});
    for (int i = 0; i < N_TEACHING; i++)
        rv_trace_unref(traces[i]);
    rv_tenant_learner_free(learner);
    lab_free_texts(&prompts);
    free(record.other);
    free(record.own);
    lab_close(&lab);
}
