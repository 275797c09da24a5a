#include "learn_ticks.h"

#include "learn/background.h"

#include <stdlib.h>

enum { ANCHOR_SEED = 11, STUDY_BYTES = 1 << 28 };

/* Anchors of LAB_SEQS texts more. */
static void add_texts(struct ticks *ticks, struct lab *lab)
{
    int32_t bos = rv_vocab_bos(lab->model->vocab), eos = rv_vocab_eos(lab->model->vocab);
    struct lab_answer answers[LAB_SEQS];

    for (int i = 0; i < LAB_SEQS; i++) {
        answers[i] = (struct lab_answer){.tokens = lab_need(calloc(LAB_TEXT, sizeof(int32_t))),
                                         .trace = lab_new_trace(lab, LAB_TEXT - 1)};
        answers[i].tokens[0] = bos >= 0 ? bos : eos >= 0 ? eos : 0;
    }
    lab_generate(lab, answers, LAB_SEQS, 1, LAB_TEXT - 1, NULL, NULL);
    for (int i = 0; i < LAB_SEQS; i++) {
        rv_anchors_add(&ticks->anchors, answers[i].trace);
        rv_trace_unref(answers[i].trace);
        free(answers[i].tokens);
    }
}

static void make_anchors(struct ticks *ticks, struct lab *lab)
{
    struct rv_rng rng = lab->rng;
    struct ruvllm_error err;

    if (rv_anchors_init(&ticks->anchors, (int32_t)lab->n_dims, &err))
        lab_die("anchors", &err);
    rv_rng_init(&lab->rng, ANCHOR_SEED);
    for (int i = 0; i < RV_ANCHORS_TEXTS; i += LAB_SEQS)
        add_texts(ticks, lab);
    lab->rng = rng;
}

static void begin(struct ticks *ticks, struct lab *lab, int32_t rank)
{
    struct rv_tick_config config = {.manifest = &lab->model->manifest,
                                    .hparams = &lab->model->hparams,
                                    .whitening = &lab->whitening,
                                    .anchors = &ticks->anchors,
                                    .rank = rank,
                                    .budget = RV_TICK_BUDGET};
    struct ruvllm_error err;

    if (rv_tick_init(&ticks->tick, &config, &err) || rv_study_new(&ticks->study, &lab->whitening, STUDY_BYTES, &err))
        lab_die("study", &err);
    ticks->n_new = ticks->n_ticks = ticks->n_alarms = 0;
}

void ticks_open(struct ticks *ticks, struct lab *lab, int32_t rank)
{
    *ticks = (struct ticks){0};
    make_anchors(ticks, lab);
    begin(ticks, lab, rank);
}

static void end(struct ticks *ticks)
{
    rv_study_unref(ticks->study);
    rv_tick_release(&ticks->tick);
}

void ticks_close(struct ticks *ticks)
{
    end(ticks);
    rv_anchors_release(&ticks->anchors);
}

void ticks_restart(struct ticks *ticks, struct lab *lab, int32_t rank)
{
    end(ticks);
    begin(ticks, lab, rank);
}

static void run_tick(struct ticks *ticks, struct rv_tenant_learner *learner)
{
    struct rv_rehearsal_answer *answers[2 * RV_REHEARSAL_MAX];
    size_t n = rv_rehearsal_take(&ticks->study->rehearsal, answers);
    struct rv_tick_result result;
    struct ruvllm_error err;

    rv_tick_begin(&ticks->tick, &learner->now.adapter);
    if (rv_tick_run(&ticks->tick, ticks->study, answers, n, learner->now.mean, INT64_MAX, &result, &err))
        lab_die("tick", &err);
    for (size_t i = 0; i < n; i++)
        rv_rehearsal_unref(answers[i]);
    if (result.verdict != RV_TICK_ACCEPTED && result.verdict != RV_TICK_HALVED)
        return;
    if (rv_tenant_learner_tick(learner, &ticks->tick.made, learner->now.generation, result.kl, &err))
        lab_die("tick", &err);
    ticks->n_ticks++;
}

static void heed_alarm(struct ticks *ticks, struct rv_tenant_learner *learner)
{
    struct ruvllm_error err;
    int64_t since;

    if (!rv_flood_rings(&learner->now.flood, &since))
        return;
    if (rv_tenant_learner_pause(learner, since, &err))
        lab_die("alarm", &err);
    rv_rehearsal_drop_after(&ticks->study->rehearsal, since);
    ticks->n_alarms++;
}

void ticks_vote(struct ticks *ticks, struct rv_tenant_learner *learner, const struct rv_trace *trace, double score)
{
    struct rv_tenant_vote made;
    struct ruvllm_error err;

    if (rv_tenant_learner_weigh(learner, trace, score, &made, &err) || rv_tenant_learner_apply(learner, &made, &err))
        lab_die("vote", &err);
    if (learner->now.flood.n_paused == 0) {
        if (rv_rehearsal_add(&ticks->study->rehearsal, trace, score, made.advantage, learner->now.generation, &err))
            lab_die("rehearsal", &err);
        ticks->n_new++;
    }
    rv_tenant_learner_release_vote(&made);
    if (ticks->n_new >= RV_BACKGROUND_EVERY) {
        ticks->n_new = 0;
        run_tick(ticks, learner);
    }
    heed_alarm(ticks, learner);
}
