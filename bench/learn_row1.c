/* Row 1: one vote on one answer, and nothing before it: the answer itself, and unrelated text. */
#include "learn_common.h"

#include <stdio.h>

enum { PROMPT = 16, ANSWER = 48, N_OTHERS = 24, OTHERS_A_VOTE = 3 };

struct effect {
    struct learn_sample gain, right, self;
};

/* One tenant's first vote on its first answer. */
static void vote_once(struct lab *lab, const struct lab_texts *others, const double *base, int event, double score,
                      struct effect *effect)
{
    struct rv_tenant_learner *learner = lab_new_learner(lab, 2);
    struct rv_trace *trace = lab_new_trace(lab, ANSWER);
    struct lab_texts asked = lab_write_texts(lab, 1, PROMPT + ANSWER);
    struct lab_answer answer = {.tokens = asked.tokens, .trace = trace};
    struct rv_adapter *adapter;
    double gain;

    lab_generate(lab, &answer, 1, PROMPT, ANSWER, NULL, NULL);
    lab_vote(learner, trace, score);
    adapter = lab_publish(lab, &learner->now.adapter);
    gain = lab_nll(lab, NULL, asked.tokens, asked.length, PROMPT) -
           lab_nll(lab, adapter, asked.tokens, asked.length, PROMPT);
    learn_sample_add(&effect->gain, gain);
    learn_sample_add(&effect->right, score > 0.5 ? gain > 0 : gain < 0);
    for (int i = 0; i < OTHERS_A_VOTE; i++) { // others for every vote, so that many are looked at
        int32_t t = (event * OTHERS_A_VOTE + i) % others->n;

        learn_sample_add(&effect->self,
                         lab_nll(lab, adapter, others->tokens + t * others->length, others->length, 1) / base[t] - 1);
    }
    rv_adapter_unref(adapter);
    rv_tenant_learner_free(learner);
    rv_trace_unref(trace);
    lab_free_texts(&asked);
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
    int n_events = args->is_short ? 16 : 40;
    struct effect up = {0}, down = {0};
    double base[N_OTHERS];
    struct lab_texts others;
    struct lab lab;

    lab_open(&lab, args->path, args->seed);
    others = lab_write_texts(&lab, N_OTHERS, LAB_TEXT);
    for (int32_t i = 0; i < N_OTHERS; i++)
        base[i] = lab_nll(&lab, NULL, others.tokens + i * others.length, others.length, 1);
    for (int i = 0; i < n_events; i++) {
        vote_once(&lab, &others, base, i, 1, &up);
        vote_once(&lab, &others, base, i, 0, &down);
    }
    print(args, "up", &up, &(struct learn_figure){.bound = LEARN_AT_LEAST, .must = 0.10, .short_must = 0.05});
    print(args, "down", &down, &(struct learn_figure){.bound = LEARN_AT_MOST, .must = -0.08, .short_must = -0.04});
    lab_free_texts(&others);
    lab_close(&lab);
}
