/*
 * The background loop's results on their way to a tenant. The linker puts our way of reading a tenant's log before the
 * learner's: it fails for the thread that hands results over, as when the store is away at that moment. It does the
 * same with ticks, so that one can be turned down, or held back.
 */
#include "base/clock.h"
#include "learn/learner_study.h"
#include "store/store_events.h"
#include "store/store_learner.h"
#include "support/learn_fixture.h"
#include "support/store_fixture.h"
#include "support/toy_head.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { VOCAB = 48, TOKEN = 7 };

static const int64_t LONG_US = 60000000; // the loop has idle priority: beside two busy programs it may take long

ruvllm_status __real_rv_learner_tenant_begin(struct rv_learner *learner, const char *name,
                                             struct rv_learner_tenant **out, struct ruvllm_error *err);
ruvllm_status __real_rv_learner_tenant_read(struct rv_learner *learner, struct rv_learner_tenant *tenant,
                                            struct ruvllm_error *err);
ruvllm_status __wrap_rv_learner_tenant_begin(struct rv_learner *learner, const char *name,
                                             struct rv_learner_tenant **out, struct ruvllm_error *err);
ruvllm_status __wrap_rv_learner_tenant_read(struct rv_learner *learner, struct rv_learner_tenant *tenant,
                                            struct ruvllm_error *err);

static pthread_t caller;
static atomic_int n_failures; // to come, on other threads

static bool fails_now(void)
{
    return !pthread_equal(pthread_self(), caller) && atomic_load(&n_failures) > 0 &&
           atomic_fetch_sub(&n_failures, 1) > 0;
}

static ruvllm_status store_is_away(struct ruvllm_error *err)
{
    return rv_fail_kind(err, RUVLLM_IO, RUVLLM_ERROR_STORAGE, "the store is away");
}

ruvllm_status __wrap_rv_learner_tenant_begin(struct rv_learner *learner, const char *name,
                                             struct rv_learner_tenant **out, struct ruvllm_error *err)
{
    return fails_now() ? store_is_away(err) : __real_rv_learner_tenant_begin(learner, name, out, err);
}

ruvllm_status __wrap_rv_learner_tenant_read(struct rv_learner *learner, struct rv_learner_tenant *tenant,
                                            struct ruvllm_error *err)
{
    return fails_now() ? store_is_away(err) : __real_rv_learner_tenant_read(learner, tenant, err);
}

ruvllm_status __real_rv_tick_run(struct rv_tick *tick, struct rv_study *study,
                                 struct rv_rehearsal_answer *const *answers, size_t n, double mean, int64_t until_us,
                                 struct rv_tick_result *result, struct ruvllm_error *err);
ruvllm_status __wrap_rv_tick_run(struct rv_tick *tick, struct rv_study *study,
                                 struct rv_rehearsal_answer *const *answers, size_t n, double mean, int64_t until_us,
                                 struct rv_tick_result *result, struct ruvllm_error *err);

ruvllm_status __real_rv_store_events_forget(struct ruvllm_store *store, const char *tenant, int64_t seq,
                                            struct ruvllm_error *err);
ruvllm_status __wrap_rv_store_events_forget(struct ruvllm_store *store, const char *tenant, int64_t seq,
                                            struct ruvllm_error *err);

static bool forgetting_fails, forgetting_is_in_doubt; // the second: it is done, and says that it failed

ruvllm_status __wrap_rv_store_events_forget(struct ruvllm_store *store, const char *tenant, int64_t seq,
                                            struct ruvllm_error *err)
{
    ruvllm_status rc = forgetting_fails ? store_is_away(err) : __real_rv_store_events_forget(store, tenant, seq, err);

    return forgetting_is_in_doubt ? store_is_away(err) : rc;
}

ruvllm_status __real_rv_store_learner_look(struct ruvllm_store *store, const char *tenant, const char *model,
                                           struct rv_store_look *out, struct ruvllm_error *err);
ruvllm_status __wrap_rv_store_learner_look(struct ruvllm_store *store, const char *tenant, const char *model,
                                           struct rv_store_look *out, struct ruvllm_error *err);

static atomic_bool looking_fails;
static _Atomic(void (*)(void)) meanwhile; // what others do once another thread has looked

ruvllm_status __wrap_rv_store_learner_look(struct ruvllm_store *store, const char *tenant, const char *model,
                                           struct rv_store_look *out, struct ruvllm_error *err)
{
    ruvllm_status rc =
        looking_fails ? store_is_away(err) : __real_rv_store_learner_look(store, tenant, model, out, err);
    void (*others)(void) = pthread_equal(pthread_self(), caller) ? NULL : atomic_exchange(&meanwhile, NULL);

    if (others)
        others();
    return rc;
}

bool __real_rv_store_events_are_spooled(struct ruvllm_store *store);
bool __wrap_rv_store_events_are_spooled(struct ruvllm_store *store);

static atomic_bool is_spooled;

bool __wrap_rv_store_events_are_spooled(struct ruvllm_store *store)
{
    return atomic_load(&is_spooled) || __real_rv_store_events_are_spooled(store);
}

static atomic_int n_runs; // of ticks
static atomic_bool turns_down;
static atomic_bool holds;   // a tick that is done, and passes, is not handed over yet
static atomic_bool is_held; // one is there

ruvllm_status __wrap_rv_tick_run(struct rv_tick *tick, struct rv_study *study,
                                 struct rv_rehearsal_answer *const *answers, size_t n, double mean, int64_t until_us,
                                 struct rv_tick_result *result, struct ruvllm_error *err)
{
    ruvllm_status rc = __real_rv_tick_run(tick, study, answers, n, mean, until_us, result, err);

    atomic_fetch_add(&n_runs, 1);
    if (atomic_load(&turns_down))
        result->verdict = RV_TICK_REJECTED;
    if (atomic_load(&holds))
        result->verdict = RV_TICK_ACCEPTED;
    while (atomic_load(&holds)) {
        atomic_store(&is_held, true);
        (void)sched_yield();
    }
    return rc;
}

struct bed {
    struct toy_head toy;
    struct rv_learner *learner;
    uint64_t id; // of the last answer
};

static void open_bed(struct bed *bed, ruvllm_store *store)
{
    struct rv_learner_config config = {.hparams = &bed->toy.hparams,
                                       .manifest = &bed->toy.manifest,
                                       .store = store,
                                       .model = "m",
                                       .rank = 2,
                                       .trace_bytes = 1 << 26,
                                       .studies = true};
    struct toy_head spare; // of which the learner takes what it needs

    caller = pthread_self();
    bed->id = 0;
    toy_head_open(&bed->toy, VOCAB, 1);
    toy_head_open(&spare, VOCAB, 1);
    assert_ok(rv_learner_new(&bed->learner, &config, &spare.whitening, err));
    assert_ok(rv_learner_study(bed->learner, &spare.anchors, err));
    toy_head_close(&spare);
}

static void close_bed(struct bed *bed)
{
    rv_learner_free(bed->learner);
    toy_head_close(&bed->toy);
}

/* Answers and votes on them: good with the token, else bad. */
static void vote(struct bed *bed, int n)
{
    for (int i = 0; i < n; i++) {
        struct rv_trace *trace = toy_head_answer(&bed->toy, NULL);
        struct rv_learner_result result;
        double score = toy_head_has(trace, TOKEN);

        trace->id = ++bed->id;
        rv_trace_ring_add(rv_learner_traces(bed->learner), trace);
        assert_ok(rv_learner_vote(bed->learner, NULL, bed->id, score, &result, err));
    }
}

/* Answers with the token are what should have been said. */
static void correct(struct bed *bed, int n)
{
    for (int i = 0; i < n; i++) {
        struct rv_learner_lesson lesson = {.kind = RV_STORE_EVENT_CORRECTION};
        struct rv_learner_result result;
        struct rv_trace *trace;

        do {
            trace = toy_head_answer(&bed->toy, NULL);
            if (!toy_head_has(trace, TOKEN)) {
                rv_trace_unref(trace);
                trace = NULL;
            }
        } while (!trace);
        lesson.lesson.good = trace;
        assert_ok(rv_learner_teach(bed->learner, NULL, &lesson, &result, err));
        rv_trace_unref(trace);
    }
}

static struct rv_learner_summary sum_up(struct bed *bed)
{
    struct rv_learner_summary sum;

    assert_ok(rv_learner_sum_up(bed->learner, NULL, &sum, err));
    return sum;
}

static void vote_until_a_tick_lands(struct bed *bed)
{
    int32_t n_used;

    for (int i = 0; i < 20 && sum_up(bed).n_ticks == 0; i++) {
        vote(bed, RV_BACKGROUND_EVERY);
        assert_ok(rv_learner_consolidate(bed->learner, NULL, LONG_US, &n_used, err));
    }
    assert_true(sum_up(bed).n_ticks > 0);
}

static void a_result_that_cannot_be_handed_over_is_not_the_last(void **state)
{
    int64_t until, n_ticks;
    struct bed bed;
    int32_t n_used;

    (void)state;
    open_bed(&bed, NULL);
    atomic_store(&n_failures, 1);
    vote(&bed, RV_BACKGROUND_EVERY);
    for (until = rv_clock_us() + LONG_US; atomic_load(&n_failures) > 0 && rv_clock_us() < until;)
        (void)sched_yield();
    assert_int_equal(atomic_load(&n_failures), 0);
    n_ticks = sum_up(&bed).n_ticks;
    vote(&bed, 4 * RV_BACKGROUND_EVERY);
    assert_ok(rv_learner_consolidate(bed.learner, NULL, LONG_US, &n_used, err));
    assert_true(sum_up(&bed).n_ticks > n_ticks);
    close_bed(&bed);
}

/* Without any vote: what corrections do elsewhere adds up, and is brought back into the tenant's budget. */
static void corrections_stay_within_the_budget(void **state)
{
    struct bed bed;
    int32_t n_used;

    (void)state;
    open_bed(&bed, NULL);
    correct(&bed, RV_BACKGROUND_EVERY);
    assert_ok(rv_learner_consolidate(bed.learner, NULL, LONG_US, &n_used, err));
    assert_true(sum_up(&bed).kl_budget > 0); // it was looked at
    assert_int_equal(sum_up(&bed).n_ticks, 0);
    for (int i = 0; i < 400 && sum_up(&bed).n_ticks == 0; i++) {
        correct(&bed, RV_BACKGROUND_EVERY);
        assert_ok(rv_learner_consolidate(bed.learner, NULL, LONG_US, &n_used, err));
    }
    assert_true(sum_up(&bed).n_ticks > 0);
    assert_true(sum_up(&bed).anchor_kl <= sum_up(&bed).kl_budget * 1.02);
    close_bed(&bed);
}

/* What was computed from an event is gone from the log before the event is: then it is gone from what answers too. */
static void what_is_half_forgotten_is_as_the_log_has_it(void **state)
{
    ruvllm_store *store = store_open(store_memory_path());
    struct rv_learner_result result;
    struct ruvllm_error failure;
    struct bed bed, again;
    uint64_t before;

    (void)state;
    open_bed(&bed, store);
    vote_until_a_tick_lands(&bed);
    before = learn_fixture_bits(bed.learner, NULL, NULL);
    forgetting_fails = true;
    assert_fails(rv_learner_forget(bed.learner, NULL, 1, &result, &failure), RUVLLM_IO, failure, "away");
    forgetting_fails = false;
    open_bed(&again, store);
    assert_true(learn_fixture_bits(again.learner, NULL, NULL) == learn_fixture_bits(bed.learner, NULL, NULL));
    assert_true(learn_fixture_bits(bed.learner, NULL, NULL) != before); // the ticks are gone
    close_bed(&again);
    close_bed(&bed);
    ruvllm_store_close(store);
}

/* Also where no tick is left in what answers. */
static void the_budget_is_known_after_a_restart(void **state)
{
    ruvllm_store *store = store_open(store_memory_path());
    struct rv_learner_result result;
    struct bed bed, again;
    double budget;

    (void)state;
    open_bed(&bed, store);
    assert_true(sum_up(&bed).kl_budget == 0);
    vote_until_a_tick_lands(&bed);
    budget = sum_up(&bed).kl_budget;
    assert_true(budget > 0);
    assert_ok(rv_learner_go_back(bed.learner, NULL, 0, &result, err));
    close_bed(&bed);
    open_bed(&again, store);
    assert_true(fabs(sum_up(&again).kl_budget - budget) < 1e-6 * budget); // kept as a float
    assert_int_equal(sum_up(&again).n_ticks, 0);
    close_bed(&again);
    ruvllm_store_close(store);
}

/* A tick that would go into the spool could bring back what others forget meanwhile. */
static void no_tick_lands_while_the_store_cannot_be_asked(void **state)
{
    ruvllm_store *store = store_open(store_memory_path());
    struct bed bed;
    int32_t n_used;

    (void)state;
    open_bed(&bed, store);
    vote(&bed, 1);
    looking_fails = true;
    for (int i = 0; i < 20; i++) {
        vote(&bed, RV_BACKGROUND_EVERY);
        assert_ok(rv_learner_consolidate(bed.learner, NULL, LONG_US, &n_used, err));
    }
    assert_int_equal(sum_up(&bed).n_ticks, 0);
    looking_fails = false;
    vote(&bed, 1); // what was put off is asked for with the next feedback
    vote_until_a_tick_lands(&bed);
    close_bed(&bed);
    ruvllm_store_close(store);
}

/* Who is never there for as many votes as a tick takes is held to the budget too, when it comes back. */
static void short_lives_stay_within_the_budget(void **state)
{
    ruvllm_store *store = store_open(store_memory_path());
    int64_t n_ticks = 0;
    struct bed bed;
    int32_t n_used;

    (void)state;
    for (int life = 0; life < 300 && n_ticks == 0; life++) {
        open_bed(&bed, store);
        correct(&bed, RV_BACKGROUND_EVERY - 1);
        assert_ok(rv_learner_consolidate(bed.learner, NULL, LONG_US, &n_used, err));
        assert_true(life == 0 || sum_up(&bed).kl_budget > 0); // it was looked at
        n_ticks = sum_up(&bed).n_ticks;
        close_bed(&bed);
    }
    assert_true(n_ticks > 0);
    ruvllm_store_close(store);
}

/* The log has it, but nothing to go back to. */
static void a_tick_that_was_turned_down_makes_no_generation(void **state)
{
    ruvllm_store *store = store_open(store_memory_path());
    struct rv_history history;
    struct bed bed;
    int32_t n_used;

    (void)state;
    open_bed(&bed, store);
    atomic_store(&turns_down, true);
    vote(&bed, RV_BACKGROUND_EVERY);
    assert_ok(rv_learner_consolidate(bed.learner, NULL, LONG_US, &n_used, err));
    vote(&bed, 1);
    atomic_store(&turns_down, false);
    assert_ok(rv_learner_history(bed.learner, NULL, 0, 100, &history, err));
    assert_int_equal(history.n, RV_BACKGROUND_EVERY + 2);
    assert_int_equal(history.rows[0].note.generation, RV_BACKGROUND_EVERY + 1);
    assert_int_equal(history.rows[1].kind, RV_STORE_EVENT_GATE);
    assert_int_equal(history.rows[1].note.generation, -1);
    assert_int_equal(sum_up(&bed).generation, RV_BACKGROUND_EVERY + 1);
    rv_history_release(&history);
    close_bed(&bed);
    ruvllm_store_close(store);
}

/* Who paused learning is told that nothing was gone over, and loses nothing by asking. */
static void while_paused_nothing_is_gone_over(void **state)
{
    struct bed bed;
    int32_t n_used;

    (void)state;
    open_bed(&bed, NULL);
    vote(&bed, 3);
    assert_ok(rv_learner_pause(bed.learner, NULL, true, err));
    assert_ok(rv_learner_consolidate(bed.learner, NULL, LONG_US, &n_used, err));
    assert_int_equal(n_used, 0);
    assert_ok(rv_learner_pause(bed.learner, NULL, false, err));
    assert_ok(rv_learner_consolidate(bed.learner, NULL, LONG_US, &n_used, err));
    assert_int_equal(n_used, 3);
    close_bed(&bed);
}

/* It was under way when learning was paused. What it was to go over is not lost. */
static void while_paused_no_tick_lands(void **state)
{
    struct bed bed;
    int32_t n_used;

    (void)state;
    open_bed(&bed, NULL);
    atomic_store(&is_held, false);
    atomic_store(&holds, true);
    vote(&bed, RV_BACKGROUND_EVERY);
    for (int64_t until = rv_clock_us() + LONG_US; !atomic_load(&is_held) && rv_clock_us() < until;)
        (void)sched_yield();
    assert_true(atomic_load(&is_held));
    assert_ok(rv_learner_pause(bed.learner, NULL, true, err));
    atomic_store(&holds, false);
    assert_ok(rv_learner_consolidate(bed.learner, NULL, LONG_US, &n_used, err)); // until it is handed over
    assert_int_equal(sum_up(&bed).n_ticks, 0);
    assert_int_equal(sum_up(&bed).generation, RV_BACKGROUND_EVERY);
    assert_ok(rv_learner_pause(bed.learner, NULL, false, err));
    assert_ok(rv_learner_consolidate(bed.learner, NULL, LONG_US, &n_used, err));
    assert_true(n_used > 0);
    close_bed(&bed);
}

/* A tick was under way, and is neither handed over nor made again: what was gone back to stays until more is said. */
static void going_back_is_the_last_word(void **state)
{
    enum { BACK = 3 };
    struct rv_learner_result result;
    uint64_t wanted;
    struct bed bed;
    int32_t n_used;

    (void)state;
    open_bed(&bed, NULL);
    vote(&bed, BACK);
    wanted = learn_fixture_bits(bed.learner, NULL, NULL);
    atomic_store(&is_held, false);
    atomic_store(&holds, true);
    vote(&bed, RV_BACKGROUND_EVERY - BACK);
    for (int64_t until = rv_clock_us() + LONG_US; !atomic_load(&is_held) && rv_clock_us() < until;)
        (void)sched_yield();
    assert_true(atomic_load(&is_held));
    atomic_store(&n_runs, 0);
    assert_ok(rv_learner_go_back(bed.learner, NULL, BACK, &result, err));
    atomic_store(&holds, false);
    assert_ok(rv_learner_consolidate(bed.learner, NULL, LONG_US, &n_used, err)); // until the tick is dropped
    assert_int_equal(n_used, 0);
    assert_int_equal(atomic_load(&n_runs), 0);
    assert_int_equal(sum_up(&bed).generation, result.generation);
    assert_true(learn_fixture_bits(bed.learner, NULL, NULL) == wanted);
    vote(&bed, 2);
    assert_ok(rv_learner_consolidate(bed.learner, NULL, LONG_US, &n_used, err));
    assert_int_equal(n_used, 2);
    assert_int_equal(atomic_load(&n_runs), 1);
    close_bed(&bed);
}

/* As another replica does it, whose news have not come yet: the tick asks before it lands. */
static void forget_or_pause_elsewhere(ruvllm_store *there, bool forgets)
{
    struct rv_store_learner row;

    if (forgets) {
        assert_ok(rv_store_events_forget(there, "default", 1, err));
        return;
    }
    assert_ok(rv_store_learner_get(there, "default", "m", &row, err));
    row.is_paused = true;
    assert_ok(rv_store_learner_put(there, &row, err));
}

static void hold_a_tick(struct bed *bed)
{
    atomic_store(&is_held, false);
    atomic_store(&holds, true);
    vote(bed, RV_BACKGROUND_EVERY);
    for (int64_t until = rv_clock_us() + LONG_US; !atomic_load(&is_held) && rv_clock_us() < until;)
        (void)sched_yield();
    assert_true(atomic_load(&is_held));
}

/* What is not known to be forgotten may be: nothing is made of it any more. */
static void what_may_be_forgotten_is_not_gone_over(void **state)
{
    ruvllm_store *store = store_open(store_memory_path());
    struct rv_learner_result result;
    struct ruvllm_error failure;
    struct bed bed;
    int32_t n_used;

    (void)state;
    open_bed(&bed, store);
    hold_a_tick(&bed);
    forgetting_is_in_doubt = true;
    assert_fails(rv_learner_forget(bed.learner, NULL, 1, &result, &failure), RUVLLM_IO, failure, "away");
    forgetting_is_in_doubt = false;
    (void)sum_up(&bed); // reads it anew
    atomic_store(&holds, false);
    vote(&bed, 1);
    assert_ok(rv_learner_consolidate(bed.learner, NULL, LONG_US, &n_used, err));
    assert_int_equal(n_used, 1);
    assert_int_equal(sum_up(&bed).n_ticks, 0);
    close_bed(&bed);
    ruvllm_store_close(store);
}

/* Another replica, between the moment in which a tick asks and that in which it is written down. */
static struct {
    ruvllm_store *store;
    struct rv_learner *learner; // who hears of it
} elsewhere;

static void forget_and_add(void)
{
    struct rv_store_event event = {.kind = RV_STORE_EVENT_VOTE, .tenant = "default", .model = "another"};

    assert_ok(__real_rv_store_events_forget(elsewhere.store, "default", 1, err));
    assert_ok(rv_store_events_append(elsewhere.store, &event, 1, err));
    atomic_fetch_add(&elsewhere.learner->n_missed, 1); // as the follower tells it
}

static void a_tick_that_is_overtaken_while_it_is_written_ends(void **state)
{
    const char *path = store_memory_path();
    ruvllm_store *store = store_open(path);
    struct bed bed, again;
    int32_t n_used;

    (void)state;
    elsewhere.store = store_open(path);
    open_bed(&bed, store);
    hold_a_tick(&bed);
    elsewhere.learner = bed.learner;
    atomic_store(&meanwhile, forget_and_add);
    atomic_store(&holds, false);
    for (int64_t until = rv_clock_us() + LONG_US; atomic_load(&meanwhile) && rv_clock_us() < until;)
        (void)sched_yield();
    assert_null(atomic_load(&meanwhile));
    assert_ok(rv_learner_consolidate(bed.learner, NULL, LONG_US, &n_used, err));
    vote(&bed, 1); // it goes on
    open_bed(&again, store);
    assert_true(learn_fixture_bits(again.learner, NULL, NULL) == learn_fixture_bits(bed.learner, NULL, NULL));
    close_bed(&again);
    close_bed(&bed);
    ruvllm_store_close(elsewhere.store);
    ruvllm_store_close(store);
}

/* A tick names the generation it was made of, which may have another number by the time the spool is delivered. */
static void no_tick_lands_in_the_spool(void **state)
{
    ruvllm_store *store = store_open(store_memory_path());
    struct bed bed;
    int32_t n_used;

    (void)state;
    open_bed(&bed, store);
    hold_a_tick(&bed);
    atomic_store(&is_spooled, true);
    atomic_store(&holds, false);
    assert_ok(rv_learner_consolidate(bed.learner, NULL, LONG_US, &n_used, err));
    assert_int_equal(sum_up(&bed).n_ticks, 0);
    atomic_store(&is_spooled, false);
    vote_until_a_tick_lands(&bed);
    close_bed(&bed);
    ruvllm_store_close(store);
}

static void no_tick_lands_of_what_another_process_forgot_or_paused(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *path = store_memory_path();
        ruvllm_store *store = store_open(path), *there = store_open(path);
        struct bed bed;
        int32_t n_used;
        int64_t last;

        open_bed(&bed, store);
        hold_a_tick(&bed);
        forget_or_pause_elsewhere(there, i == 0);
        atomic_store(&holds, false);
        assert_ok(rv_learner_consolidate(bed.learner, NULL, LONG_US, &n_used, err)); // until it is handed over
        assert_int_equal(sum_up(&bed).n_ticks, 0);
        assert_true(sum_up(&bed).is_paused == (i == 1));
        assert_ok(rv_store_events_last(there, "default", &last, err));
        assert_int_equal(last, RV_BACKGROUND_EVERY);
        close_bed(&bed);
        ruvllm_store_close(there);
        ruvllm_store_close(store);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_tick_lands_of_what_another_process_forgot_or_paused),
        cmocka_unit_test(a_result_that_cannot_be_handed_over_is_not_the_last),
        cmocka_unit_test(a_tick_that_was_turned_down_makes_no_generation),
        cmocka_unit_test(corrections_stay_within_the_budget),
        cmocka_unit_test(no_tick_lands_while_the_store_cannot_be_asked),
        cmocka_unit_test(short_lives_stay_within_the_budget),
        cmocka_unit_test(what_is_half_forgotten_is_as_the_log_has_it),
        cmocka_unit_test(the_budget_is_known_after_a_restart),
        cmocka_unit_test(while_paused_nothing_is_gone_over),
        cmocka_unit_test(while_paused_no_tick_lands),
        cmocka_unit_test(going_back_is_the_last_word),
        cmocka_unit_test(what_may_be_forgotten_is_not_gone_over),
        cmocka_unit_test(a_tick_that_is_overtaken_while_it_is_written_ends),
        cmocka_unit_test(no_tick_lands_in_the_spool),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
