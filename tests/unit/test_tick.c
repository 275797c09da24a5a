/* Ticks: they help, they stay within the budget, they let nothing pass that does worse on what was held out. */
#include "learn/tick.h"
#include "learn/tick_event.h"
#include "support/test.h"
#include "support/toy_head.h"

#include "base/alloc.h"
#include "kernels/vec.h"
#include "learn/background.h"

#include <math.h>
#include <semaphore.h>
#include <string.h>

enum { RANK = 2, TOKEN = 7 };

struct bed {
    struct toy_head toy;
    struct rv_tick tick;
    struct rv_study *study;
    struct rv_tenant_learner *learner;
};

static struct rv_tick_config config_of(struct bed *bed)
{
    return (struct rv_tick_config){.manifest = &bed->toy.manifest,
                                   .hparams = &bed->toy.hparams,
                                   .whitening = &bed->toy.whitening,
                                   .anchors = &bed->toy.anchors,
                                   .rank = RANK,
                                   .budget = RV_TICK_BUDGET};
}

static void open_bed_by(struct bed *bed, enum rv_consolidate_strategy strategy)
{
    struct rv_tick_config config;

    toy_head_open(&bed->toy, TOY_VOCAB_MAX, 5);
    config = config_of(bed);
    config.strategy = strategy;
    assert_ok(rv_tick_init(&bed->tick, &config, err));
    assert_ok(rv_study_new(&bed->study, &bed->toy.whitening, 1 << 26, err));
    assert_ok(rv_tenant_learner_new(&bed->learner, &bed->toy.whitening, RANK, err));
}

static void open_bed(struct bed *bed)
{
    open_bed_by(bed, RV_CONSOLIDATE_EWC_MERGE);
}

static void close_bed(struct bed *bed)
{
    rv_tenant_learner_free(bed->learner);
    rv_study_unref(bed->study);
    rv_tick_release(&bed->tick);
    toy_head_close(&bed->toy);
}

static struct rv_tick_result run(struct bed *bed, double mean)
{
    struct rv_rehearsal_answer *answers[2 * RV_REHEARSAL_MAX];
    size_t n = rv_rehearsal_take(&bed->study->rehearsal, answers);
    struct rv_tick_result result;

    rv_tick_begin(&bed->tick, &bed->learner->now.adapter);
    assert_ok(rv_tick_run(&bed->tick, bed->study, answers, n, mean, INT64_MAX, &result, err));
    for (size_t i = 0; i < n; i++)
        rv_rehearsal_unref(answers[i]);
    return result;
}

/* Runs a tick and applies it by its bytes. */
static void tick(struct bed *bed, double mean)
{
    struct rv_tick_result result = run(bed, mean);
    struct rv_str bytes;

    assert_true(result.verdict == RV_TICK_ACCEPTED || result.verdict == RV_TICK_HALVED);
    assert_ok(rv_tick_event_write(&bed->tick.made, &result, bed->learner->now.generation, &bytes, err));
    assert_ok(rv_tick_event_apply(bed->learner, bytes, err));
    rv_free((char *)(uintptr_t)bytes.data);
}

static void ticks_help_and_stay_within_the_budget(void **state)
{
    struct bed bed;

    (void)state;
    open_bed(&bed);
    toy_head_vote(&bed.toy, NULL, TOKEN, 200, &bed.study->rehearsal);
    for (int i = 0; i < 4; i++)
        tick(&bed, 0.2);
    assert_int_equal(bed.learner->now.generation, 4);
    assert_int_equal(bed.learner->now.n_ticks, 4);
    assert_true(bed.learner->now.anchor_kl > 0.002 && bed.learner->now.anchor_kl <= bed.tick.budget * 1.02);
    /* What is there is what the tick made, to the bit. */
    assert_memory_equal(bed.learner->now.adapter.b, bed.tick.made.b, RANK * TOY_DIMS * sizeof(float));
    rv_rehearsal_clear(&bed.study->rehearsal);
    toy_head_vote(&bed.toy, NULL, TOKEN, 100, &bed.study->rehearsal);
    assert_true(bed.study->fisher.n_seen == 4);
    close_bed(&bed);
}

/* What a second tick makes of the first one's adapter: two things are there to be made one. */
static void make_twice(enum rv_consolidate_strategy strategy, float out[RANK * TOY_DIMS])
{
    struct bed bed;

    open_bed_by(&bed, strategy);
    toy_head_vote(&bed.toy, NULL, TOKEN, 100, &bed.study->rehearsal);
    tick(&bed, 0.2);
    toy_head_vote(&bed.toy, NULL, TOKEN + 1, 100, &bed.study->rehearsal);
    tick(&bed, 0.2);
    assert_int_equal(bed.tick.made.n_pairs, RANK);
    memcpy(out, bed.tick.made.b, RANK * TOY_DIMS * sizeof(*out));
    close_bed(&bed);
}

static void each_strategy_makes_something_else_and_the_same_again(void **state)
{
    static float made[RV_CONSOLIDATE_N][RANK * TOY_DIMS];
    float again[RANK * TOY_DIMS];

    (void)state;
    for (int i = 0; i < RV_CONSOLIDATE_N; i++) {
        make_twice((enum rv_consolidate_strategy)i, made[i]);
        make_twice((enum rv_consolidate_strategy)i, again);
        assert_memory_equal(made[i], again, sizeof(again));
        for (int j = 0; j < i; j++)
            assert_memory_not_equal(made[i], made[j], sizeof(again));
    }
}

static void what_does_worse_on_held_out_answers_is_not_let_pass(void **state)
{
    struct bed bed;
    struct rv_tick_result result;

    (void)state;
    open_bed(&bed);
    toy_head_vote(&bed.toy, NULL, TOKEN, 200, &bed.study->rehearsal);
    for (int i = 0; i < 2; i++) { // held-out answers say the opposite
        struct rv_rehearsal_kind *kind = i ? &bed.study->rehearsal.bad : &bed.study->rehearsal.good;

        for (size_t j = 0; j < kind->n; j++) {
            if (kind->answers[j]->is_held_out)
                kind->answers[j]->score = 1 - kind->answers[j]->score;
        }
    }
    result = run(&bed, 0.2);
    assert_int_equal(result.verdict, RV_TICK_REJECTED);
    assert_true(result.better < 0 && result.n_halvings == 3);
    close_bed(&bed);
}

static void an_adapter_beyond_the_budget_is_brought_back_without_any_vote(void **state)
{
    struct bed bed;
    struct rv_head_adapter *x;
    struct rv_rng rng;
    struct rv_tick_result result;

    (void)state;
    open_bed(&bed);
    assert_int_equal(run(&bed, 0.5).verdict, RV_TICK_NOTHING);
    x = &bed.learner->now.adapter;
    rv_rng_init(&rng, 2);
    x->n_pairs = RANK;
    for (int i = 0; i < RANK * TOY_DIMS; i++) {
        x->a[i] = 0.3f * (float)rv_rng_normal(&rng);
        x->b[i] = 0.3f * (float)rv_rng_normal(&rng);
    }
    result = run(&bed, 0.5);
    assert_int_equal(result.verdict, RV_TICK_HALVED);
    assert_true(result.kl_before > 0.05 && result.kl <= bed.tick.budget * 1.02);
    close_bed(&bed);
}

static void vote(struct bed *bed, double score)
{
    struct rv_trace *trace = toy_head_answer(&bed->toy, NULL);
    struct rv_tenant_vote made;

    assert_ok(rv_tenant_learner_weigh(bed->learner, trace, score, &made, err));
    assert_ok(rv_tenant_learner_apply(bed->learner, &made, err));
    rv_tenant_learner_release_vote(&made);
    rv_trace_unref(trace);
}

/* A vote that came while a tick was computed stays, and so does the tick. */
static void a_tick_comes_on_top_of_votes_that_were_faster(void **state)
{
    struct bed bed;
    struct rv_tick_result result;
    struct rv_head_adapter alone;
    float x[TOY_DIMS], base[TOY_DIMS], made[TOY_DIMS], before[TOY_DIMS], after[TOY_DIMS];

    (void)state;
    open_bed(&bed);
    vote(&bed, 1);
    toy_head_vote(&bed.toy, NULL, TOKEN, 100, &bed.study->rehearsal);
    for (int d = 0; d < TOY_DIMS; d++)
        x[d] = (float)(d % 5) - 2;
    rv_head_adapter_apply(&bed.learner->now.adapter, x, base);
    bed.learner->now.adapter.rank = RANK;
    result = run(&bed, 0.2);
    rv_head_adapter_apply(&bed.tick.made, x, made);
    vote(&bed, 0);
    rv_head_adapter_apply(&bed.learner->now.adapter, x, before);
    assert_true(rv_tenant_learner_can_tick(bed.learner, 1));
    /* In an adapter with room for all of it the sum is exact. */
    assert_ok(rv_head_adapter_init(&alone, TOY_DIMS, 8, err));
    alone.n_pairs = bed.learner->now.adapter.n_pairs;
    memcpy(alone.a, bed.learner->now.adapter.a, RANK * TOY_DIMS * sizeof(float));
    memcpy(alone.b, bed.learner->now.adapter.b, RANK * TOY_DIMS * sizeof(float));
    assert_ok(rv_head_basis_shift(&alone, &bed.tick.made, &bed.learner->snapshots[1].adapter, &bed.toy.whitening, err));
    rv_head_adapter_apply(&alone, x, after);
    for (int d = 0; d < TOY_DIMS; d++)
        assert_true(fabsf(after[d] - (before[d] + made[d] - base[d])) < 1e-3f);
    assert_ok(rv_tenant_learner_tick(bed.learner, &bed.tick.made, 1, result.kl, err));
    assert_true(bed.learner->now.generation == 3 && bed.learner->now.n_votes == 2);
    /* What was gone back from is void. */
    assert_ok(rv_tenant_learner_go_back(bed.learner, 1, err));
    assert_false(rv_tenant_learner_can_tick(bed.learner, 3));
    rv_head_adapter_release(&alone);
    close_bed(&bed);
}

static void after_an_alarm_votes_teach_nothing_for_a_while(void **state)
{
    struct bed bed;
    struct rv_tick_result nothing = {0};
    struct rv_str bytes;
    float kept[RANK * TOY_DIMS];

    (void)state;
    open_bed(&bed);
    for (int i = 0; i < 5; i++)
        vote(&bed, i % 2);
    memcpy(kept, bed.learner->snapshots[3].adapter.b, sizeof(kept));
    assert_ok(rv_tick_event_write_gate(RV_TICK_EVENT_PAUSED, &nothing, 3, &bytes, err));
    assert_ok(rv_tick_event_apply(bed.learner, bytes, err));
    rv_free((char *)(uintptr_t)bytes.data);
    assert_true(bed.learner->now.generation == 6 && bed.learner->now.flood.n_paused == RV_FLOOD_PAUSE);
    for (int i = 0; i < RV_FLOOD_PAUSE; i++) {
        vote(&bed, 0);
        assert_memory_equal(bed.learner->now.adapter.b, kept, sizeof(kept));
    }
    vote(&bed, 1);
    assert_memory_not_equal(bed.learner->now.adapter.b, kept, sizeof(kept));
    close_bed(&bed);
}

/* Of the generations since then none but the last are kept: finding the oldest is no walk over all of them. */
static void an_alarm_about_long_ago_goes_back_as_far_as_it_can(void **state)
{
    struct bed bed;

    (void)state;
    open_bed(&bed);
    bed.learner->now.generation = (int64_t)1 << 50;
    vote(&bed, 1);
    vote(&bed, 0);
    assert_int_equal(rv_tenant_learner_kept_since(bed.learner, 1), ((int64_t)1 << 50) + 1); // what is told of it
    assert_ok(rv_tenant_learner_pause(bed.learner, 1, err));
    assert_true(bed.learner->now.generation == ((int64_t)1 << 50) + 3 && bed.learner->now.n_votes == 1);
    close_bed(&bed);
}

static void damaged_events_are_refused(void **state)
{
    struct bed bed;
    struct rv_tick_result result;
    struct rv_tick_event event;
    struct rv_str bytes;
    struct ruvllm_error failure;
    char *copy;

    (void)state;
    open_bed(&bed);
    toy_head_vote(&bed.toy, NULL, TOKEN, 60, &bed.study->rehearsal);
    result = run(&bed, 0.2);
    assert_ok(rv_tick_event_write(&bed.tick.made, &result, 0, &bytes, err));
    assert_ok(rv_tick_event_read(&event, &bed.tick.fitted, bytes, err));
    assert_true(event.decision == 0 && event.result.kl == result.kl);
    for (size_t len = 0; len < bytes.len; len++)
        assert_fails(rv_tick_event_read(&event, &bed.tick.fitted, (struct rv_str){bytes.data, len}, &failure),
                     RUVLLM_FORMAT, failure, "background");
    copy = rv_strndup(bytes.data, bytes.len);
    copy[bytes.len - 1] = copy[bytes.len - 2] = (char)0xff; // a number that is none
    assert_fails(rv_tick_event_read(&event, &bed.tick.fitted, (struct rv_str){copy, bytes.len}, &failure),
                 RUVLLM_FORMAT, failure, "none");
    rv_free(copy);
    rv_free((char *)(uintptr_t)bytes.data);
    close_bed(&bed);
}

/* ---- the loop ------------------------------------------------------------------------------- */

struct mailbox {
    sem_t rings;
    int n;
    struct rv_tick_result last;
};

static void on_made(void *user, struct rv_background_job *job)
{
    struct mailbox *box = user;

    box->n++;
    box->last = job->result;
    rv_background_job_free(job);
    sem_post(&box->rings);
}

static void the_loop_computes_and_hands_over(void **state)
{
    struct bed bed;
    struct mailbox box = {0};
    struct rv_background *background;
    struct rv_background_job *job;
    struct rv_tick_config config;

    (void)state;
    open_bed(&bed);
    config = config_of(&bed);
    sem_init(&box.rings, 0, 0);
    toy_head_vote(&bed.toy, NULL, TOKEN, 60, &bed.study->rehearsal);
    assert_ok(rv_background_open(&background, &config, on_made, &box, err));
    for (int i = 0; i < 3; i++) {
        assert_ok(rv_background_job_new(&job, "anna", bed.study, true, &bed.learner->now.adapter, err));
        job->mean = 0.2;
        rv_background_ask(background, job);
        sem_wait(&box.rings);
    }
    assert_true(box.n == 3 && box.last.verdict != RV_TICK_NOTHING && box.last.kl < 0.1);
    for (int i = 0; i < 20; i++) { // and closes with work left
        assert_ok(rv_background_job_new(&job, "anna", bed.study, true, &bed.learner->now.adapter, err));
        rv_background_ask(background, job);
    }
    rv_background_close(background);
    sem_destroy(&box.rings);
    close_bed(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ticks_help_and_stay_within_the_budget),
        cmocka_unit_test(each_strategy_makes_something_else_and_the_same_again),
        cmocka_unit_test(what_does_worse_on_held_out_answers_is_not_let_pass),
        cmocka_unit_test(an_adapter_beyond_the_budget_is_brought_back_without_any_vote),
        cmocka_unit_test(a_tick_comes_on_top_of_votes_that_were_faster),
        cmocka_unit_test(after_an_alarm_votes_teach_nothing_for_a_while),
        cmocka_unit_test(an_alarm_about_long_ago_goes_back_as_far_as_it_can),
        cmocka_unit_test(damaged_events_are_refused),
        cmocka_unit_test(the_loop_computes_and_hands_over),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
