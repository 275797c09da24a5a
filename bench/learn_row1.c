/* Row 1: one vote on one answer, and nothing before it: the answer itself, and unrelated text. */
#include "learn_common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROMPT = 16, ANSWER = 48, AT_ONCE = 8, N_OTHERS = 24, OTHERS_A_VOTE = 3 };

struct effect {
    struct learn_sample gain, right, self;
};

/* First answers, made together; each to a tenant of its own. */
struct answers {
    struct lab_texts texts; // prompts with answers behind them
    struct rv_trace *traces[AT_ONCE];
};

static void answers_make(struct answers *a, struct lab *lab)
{
    struct lab_texts prompts = lab_write_texts(lab, AT_ONCE, PROMPT);
    struct lab_answer answers[AT_ONCE];

    a->texts = (struct lab_texts){.n = AT_ONCE, .length = PROMPT + ANSWER};
    a->texts.tokens = lab_need(calloc(AT_ONCE * (PROMPT + ANSWER), sizeof(int32_t)));
    for (int i = 0; i < AT_ONCE; i++) {
        a->traces[i] = lab_new_trace(lab, ANSWER);
        answers[i] = (struct lab_answer){.tokens = a->texts.tokens + i * (PROMPT + ANSWER), .trace = a->traces[i]};
        memcpy(answers[i].tokens, prompts.tokens + i * PROMPT, PROMPT * sizeof(int32_t));
    }
    lab_generate(lab, answers, AT_ONCE, PROMPT, ANSWER, NULL, NULL);
    lab_free_texts(&prompts);
}

static void answers_release(struct answers *a)
{
    for (int i = 0; i < AT_ONCE; i++)
        rv_trace_unref(a->traces[i]);
    lab_free_texts(&a->texts);
}

/* Unrelated texts, and what each cost a token before. */
struct others {
    struct lab_texts texts;
    double base[N_OTHERS];
};

static double other_nll(struct lab *lab, const struct others *others, const struct rv_adapter *adapter, int32_t i)
{
    return lab_nll(lab, adapter, others->texts.tokens + i * others->texts.length, others->texts.length, 1);
}

/* A tenant's first vote, on answer `i`; `event` says which of the others are looked at, so that many are. */
static void vote_once(struct lab *lab, const struct others *others, const struct answers *a, int i, int event,
                      double score, struct effect *effect)
{
    const int32_t *asked = a->texts.tokens + i * a->texts.length;
    struct rv_tenant_learner *learner = lab_new_learner(lab, 2);
    struct rv_adapter *adapter;
    double gain;

    lab_vote(learner, a->traces[i], score);
    adapter = lab_publish(lab, &learner->now.adapter);
    gain = lab_nll(lab, NULL, asked, a->texts.length, PROMPT) - lab_nll(lab, adapter, asked, a->texts.length, PROMPT);
    learn_sample_add(&effect->gain, gain);
    learn_sample_add(&effect->right, score > 0.5 ? gain > 0 : gain < 0);
    for (int k = 0; k < OTHERS_A_VOTE; k++) {
        int32_t t = (event * OTHERS_A_VOTE + k) % N_OTHERS;

        learn_sample_add(&effect->self, other_nll(lab, others, adapter, t) / others->base[t] - 1);
    }
    rv_adapter_unref(adapter);
    rv_tenant_learner_free(learner);
}

static void print(struct learn_args *args, const char *side, const struct effect *e, const struct learn_figure *dlogp)
{
    char name[32];
    struct learn_figure figure = *dlogp;

    (void)snprintf(name, sizeof(name), "%s.dlogp", side);
    figure.what = name;
    figure.value = learn_sample_mean(&e->gain);
    figure.se = learn_sample_se(&e->gain);
    learn_figure_print(args, &figure);
    (void)snprintf(name, sizeof(name), "%s.right", side);
    learn_figure_print(args, &(struct learn_figure){.what = name,
                                                    .value = learn_sample_mean(&e->right),
                                                    .se = learn_sample_se(&e->right),
                                                    .bound = LEARN_AT_LEAST,
                                                    .must = 0.95,
                                                    .short_must = 0.8});
    (void)snprintf(name, sizeof(name), "%s.self", side);
    learn_figure_print(args, &(struct learn_figure){.what = name,
                                                    .value = learn_sample_mean(&e->self),
                                                    .se = learn_sample_se(&e->self),
                                                    .bound = LEARN_AT_MOST,
                                                    .must = 0.005,
                                                    .short_must = 0.01});
}

void learn_row1(struct learn_args *args)
{
    int n_votes = args->is_short ? 32 : 56; // half of them up
    struct effect up = {0}, down = {0};
    struct others others;
    struct lab lab;

    lab_open(&lab, args->path, args->seed);
    lab_whiten(&lab);
    others.texts = lab_write_texts(&lab, N_OTHERS, LAB_TEXT);
    for (int32_t i = 0; i < N_OTHERS; i++)
        others.base[i] = other_nll(&lab, &others, NULL, i);
    for (int n = 0; n < n_votes; n += AT_ONCE) {
        struct answers answers;

        answers_make(&answers, &lab);
        for (int i = 0; i < AT_ONCE; i++)
            vote_once(&lab, &others, &answers, i, (n + i) / 2, i % 2 == 0, i % 2 == 0 ? &up : &down);
        answers_release(&answers);
    }
    print(args, "up", &up, &(struct learn_figure){.bound = LEARN_AT_LEAST, .must = 0.10, .short_must = 0.05});
    print(args, "down", &down, &(struct learn_figure){.bound = LEARN_AT_MOST, .must = -0.08, .short_must = -0.04});
    lab_free_texts(&others.texts);
    lab_close(&lab);
}
