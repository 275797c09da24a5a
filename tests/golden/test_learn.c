/*
 * Votes in an engine, from outside: they change the next answer of their tenant and of nobody else, at once, without
 * touching a cache; they can be taken back to the bit; with a store they are there after a restart, to the bit.
 */
#include "engine/engine_learn.h"
#include "golden/learn_bed.h"

#include <math.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* An answer with what it was drawn from. *id is the request's. */
static struct ruvllm_response *ask(ruvllm_engine *engine, const char *tenant, float temperature, uint64_t seed,
                                   uint64_t *id)
{
    return learn_bed_ask(engine,
                         &(struct learn_bed_question){.tenant = tenant, .temperature = temperature, .seed = seed}, id);
}

/* Mean log-probability of an answer's tokens. */
static double likelihood(const struct ruvllm_response *r)
{
    double sum = 0;

    for (size_t i = 0; i < r->n_tokens; i++)
        sum += (double)r->logprobs[i * r->logprobs_per_token].logprob;
    return sum / (double)r->n_tokens;
}

/* Asks greedily and votes on it, `n` times; the generation it came to. */
static int64_t teach(ruvllm_engine *engine, const char *tenant, double score, int n)
{
    struct ruvllm_feedback_result result = {.struct_size = sizeof(result)};

    for (int i = 0; i < n; i++) {
        uint64_t id;

        ruvllm_response_free(ask(engine, tenant, 0, 1, &id));
        assert_ok(ruvllm_engine_feedback(engine, tenant, id, score, &result, err));
        assert_true(result.compute_us > 0 && result.compute_us < 1000000 && result.kl > 0);
    }
    return result.generation;
}

static void a_vote_changes_the_next_answer_of_its_tenant_alone(void **state)
{
    ruvllm_engine *engine = learn_bed_open_with(NULL);
    struct ruvllm_response *before = ask(engine, "anna", 0, 1, NULL), *other = ask(engine, "bert", 0, 1, NULL), *after;
    bool changed = false;

    (void)state;
    assert_int_equal(before->learned_generation, 0);
    assert_true(learn_bed_same(before, other));
    for (int i = 1; i <= 8 && !changed; i++) {
        assert_int_equal(teach(engine, "anna", 0, 1), i);
        after = ask(engine, "anna", 0, 1, NULL);
        assert_int_equal(after->learned_generation, i);
        assert_false(learn_bed_same(before, after)); // at once, in what it is drawn from
        changed = memcmp(before->tokens, after->tokens, before->n_tokens * sizeof(int32_t)) != 0;
        assert_true(after->cached_tokens > 0); // nothing below the head changed
        ruvllm_response_free(after);
    }
    assert_true(changed); // and soon in what it says
    after = ask(engine, "bert", 0, 1, NULL);
    assert_true(learn_bed_same(other, after));
    ruvllm_response_free(after);
    ruvllm_response_free(before);
    ruvllm_response_free(other);
    ruvllm_engine_close(engine);
}

/* The same seed draws the same tokens as long as they are likely enough, so the answer's own likelihood is compared. */
static void a_good_vote_makes_the_answer_likelier(void **state)
{
    ruvllm_engine *engine = learn_bed_open_with(NULL);
    struct ruvllm_feedback_result result = {.struct_size = sizeof(result)};
    struct ruvllm_response *before, *after;
    uint64_t id;

    (void)state;
    before = ask(engine, "anna", 0, 1, &id);
    assert_ok(ruvllm_engine_feedback(engine, "anna", id, 1, &result, err));
    after = ask(engine, "anna", 0, 1, NULL);
    assert_memory_equal(before->tokens, after->tokens, before->n_tokens * sizeof(int32_t));
    assert_true(likelihood(after) > likelihood(before));
    ruvllm_response_free(before);
    ruvllm_response_free(after);
    ruvllm_engine_close(engine);
}

static void going_back_restores_every_bit(void **state)
{
    ruvllm_engine *engine = learn_bed_open_with(NULL);
    struct ruvllm_feedback_result result = {.struct_size = sizeof(result)};
    struct ruvllm_learned_info info = {.struct_size = sizeof(info)};
    struct ruvllm_response *base = ask(engine, "anna", 0, 1, NULL), *third, *again;
    struct ruvllm_error err;

    (void)state;
    teach(engine, "anna", 0, 3);
    third = ask(engine, "anna", 0, 1, NULL);
    teach(engine, "anna", 0, 4);
    assert_int_equal(ruvllm_engine_learned(engine, "anna", &info, &err), RUVLLM_OK);
    assert_true(info.generation == 7 && info.n_votes == 7 && info.oldest_generation == 1);
    assert_true(info.mean_score < 0.5 && info.spent_kl > 0);
    assert_int_equal(ruvllm_engine_learn_rollback(engine, "anna", 3, &result, &err), RUVLLM_OK);
    assert_int_equal(result.generation, 8);
    assert_int_equal(ruvllm_engine_learned(engine, "anna", &info, &err), RUVLLM_OK);
    assert_true(info.generation == 8 && info.n_votes == 3);
    assert_int_equal(ruvllm_engine_learned(engine, "bert", &info, &err), RUVLLM_OK);
    assert_true(info.generation == 0 && info.n_votes == 0 && info.oldest_generation == 0 && info.spent_kl == 0);
    assert_true(result.compute_us < 100000);
    again = ask(engine, "anna", 0, 1, NULL);
    assert_true(learn_bed_same(third, again));
    ruvllm_response_free(again);
    assert_int_equal(ruvllm_engine_learn_rollback(engine, "anna", 0, &result, &err), RUVLLM_OK);
    again = ask(engine, "anna", 0, 1, NULL);
    assert_true(learn_bed_same(base, again));
    assert_int_equal(ruvllm_engine_learn_rollback(engine, "anna", 99, &result, &err), RUVLLM_NOT_FOUND);
    assert_int_equal(ruvllm_engine_learn_rollback(engine, "anna", -1, &result, &err), RUVLLM_NOT_FOUND);
    ruvllm_response_free(again);
    ruvllm_response_free(third);
    ruvllm_response_free(base);
    ruvllm_engine_close(engine);
}

static void a_restart_forgets_nothing(void **state)
{
    const char *path = test_temp_path(".db");
    struct ruvllm_feedback_result result = {.struct_size = sizeof(result)};
    struct ruvllm_response *before, *after, *rolled;
    ruvllm_engine *engine;
    ruvllm_store *store;

    (void)state;
    (void)unlink(path);
    store = learn_bed_open_store(path);
    engine = learn_bed_open_with(store);
    assert_int_equal(teach(engine, "anna", 0, 3), 3);
    rolled = ask(engine, "anna", 0, 1, NULL);
    assert_int_equal(teach(engine, "anna", 1, 2), 5);
    before = ask(engine, "anna", 0, 1, NULL);
    ruvllm_engine_close(engine);
    ruvllm_store_close(store);
    store = learn_bed_open_store(path);
    engine = learn_bed_open_with(store);
    after = ask(engine, "anna", 0, 1, NULL);
    assert_int_equal(after->learned_generation, 5);
    assert_true(learn_bed_same(before, after));
    ruvllm_response_free(after);
    assert_ok(ruvllm_engine_learn_rollback(engine, "anna", 3, &result, err));
    assert_int_equal(result.sequence, 6);
    after = ask(engine, "anna", 0, 1, NULL);
    assert_true(learn_bed_same(rolled, after));
    ruvllm_response_free(after);
    ruvllm_response_free(before);
    ruvllm_response_free(rolled);
    ruvllm_engine_close(engine);
    ruvllm_store_close(store);
    (void)unlink(path);
}

static void what_is_no_vote_is_refused(void **state)
{
    ruvllm_engine *engine = learn_bed_open_with(NULL);
    struct ruvllm_feedback_result result = {.struct_size = sizeof(result)};
    static const double bad[] = {-0.1, 1.1, INFINITY, -INFINITY, NAN};
    struct ruvllm_error err;
    uint64_t id;

    (void)state;
    ruvllm_response_free(ask(engine, "anna", 0, 1, &id));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(ruvllm_engine_feedback(engine, "anna", id, bad[i], &result, &err), RUVLLM_INVALID);
    assert_int_equal(ruvllm_engine_feedback(engine, "bert", id, 1, &result, &err), RUVLLM_NOT_FOUND);
    assert_int_equal(ruvllm_engine_feedback(engine, "anna", id + 1, 1, &result, &err), RUVLLM_NOT_FOUND);
    assert_int_equal(ruvllm_engine_learn(engine, NULL, &err), RUVLLM_INVALID);
    assert_int_equal(ruvllm_engine_feedback(engine, "anna", id, 1, &result, &err), RUVLLM_OK);
    assert_int_equal(result.generation, 1);
    ruvllm_engine_close(engine);
}

/* Of an engine that is opened for this, and asked for a rank; 0: for none. */
static int32_t rank_with(ruvllm_store *store, int32_t rank)
{
    ruvllm_engine *engine = learn_bed_open(&(struct learn_bed_wishes){.no_learning = true});
    struct ruvllm_learn_params params = ruvllm_learn_params_default();
    struct rv_learner *learner;

    params.store = store;
    params.rank = rank;
    params.no_background = true;
    assert_ok(ruvllm_engine_learn(engine, &params, err));
    assert_ok(rv_engine_learn_get(engine, &learner, err));
    rank = rv_learner_made_with(learner)->rank;
    ruvllm_engine_close(engine);
    return rank;
}

/* Who looks at a store later folds what was learned as it was folded then. */
static void the_rank_is_as_it_was_in_the_store(void **state)
{
    char path[] = "/tmp/test_learn_rank_XXXXXX";
    ruvllm_store *store;
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    store = learn_bed_open_store(path);
    assert_int_equal(rank_with(store, 0), 2);
    assert_int_equal(rank_with(store, 5), 5);
    assert_int_equal(rank_with(store, 0), 5);
    assert_int_equal(rank_with(store, 3), 3);
    assert_int_equal(rank_with(store, 0), 3);
    assert_int_equal(rank_with(NULL, 0), 2);
    ruvllm_store_close(store);
    unlink(path);
}

static bool give_up(void *user, float share)
{
    (void)user;
    (void)share;
    return false;
}

static void an_engine_that_gave_up_says_so_and_may_try_again(void **state)
{
    ruvllm_engine *engine = learn_bed_open(&(struct learn_bed_wishes){.no_learning = true});
    struct ruvllm_learn_params params = ruvllm_learn_params_default();
    struct ruvllm_learned_info info = {.struct_size = sizeof(info)};
    struct ruvllm_feedback_result result = {.struct_size = sizeof(result)};
    struct ruvllm_error failure;
    uint64_t early;

    (void)state;
    params.on_progress = give_up;
    assert_fails(ruvllm_engine_learn(engine, &params, &failure), RUVLLM_CANCELLED, failure, "given up");
    assert_fails(ruvllm_engine_learned(engine, "anna", &info, &failure), RUVLLM_INVALID, failure, "does not learn");
    ruvllm_response_free(ask(engine, "anna", 0, 1, &early)); // it answers as ever
    assert_ok(ruvllm_engine_learn(engine, NULL, err));
    assert_ok(ruvllm_engine_feedback(engine, "anna", early, 1, &result, err)); // what was answered before counts
    assert_int_equal(result.generation, 1);
    assert_true(result.kl > 0);
    assert_fails(ruvllm_engine_learn(engine, NULL, &failure), RUVLLM_INVALID, failure, "learns already");
    ruvllm_engine_close(engine);
}

/* While texts are written that learning begins with: an answer comes, feedback is told to wait. */
struct preparing {
    ruvllm_engine *engine;
    uint64_t id;
    ruvllm_status refused;
    int n_asked;
};

static bool ask_meanwhile(void *user, float share)
{
    struct preparing *p = user;
    struct ruvllm_feedback_result result = {.struct_size = sizeof(result)};
    struct ruvllm_error err;

    if (share > 0 && p->n_asked == 0) {
        ruvllm_response_free(ask(p->engine, "anna", 0, 1, &p->id));
        p->refused = ruvllm_engine_feedback(p->engine, "anna", p->id, 1, &result, &err);
        p->n_asked++;
    }
    return true;
}

static void answers_go_on_while_learning_is_prepared(void **state)
{
    ruvllm_engine *engine = learn_bed_open(&(struct learn_bed_wishes){.no_learning = true});
    struct ruvllm_learn_params params = ruvllm_learn_params_default();
    struct ruvllm_feedback_result result = {.struct_size = sizeof(result)};
    struct preparing p = {.engine = engine};

    (void)state;
    params.on_progress = ask_meanwhile;
    params.progress_user = &p;
    assert_ok(ruvllm_engine_learn(engine, &params, err));
    assert_int_equal(p.n_asked, 1);
    assert_int_equal(p.refused, RUVLLM_BUSY);
    assert_ok(ruvllm_engine_feedback(engine, "anna", p.id, 1, &result, err));
    assert_true(result.kl > 0);
    ruvllm_engine_close(engine);
}

/* Votes as soon as the engine learns, and gives up then. */
struct early_bird {
    ruvllm_engine *engine;
    uint64_t id;
    float first, learned; // shares: when it was asked first, and when it learned
    ruvllm_status rc;
    struct ruvllm_feedback_result result;
};

static bool vote_early(void *user, float share)
{
    struct early_bird *b = user;
    struct ruvllm_error err;

    b->first = b->first < 0 ? share : b->first;
    if (!ruvllm_engine_learns(b->engine))
        return true;
    b->learned = share;
    b->rc = ruvllm_engine_feedback(b->engine, "anna", b->id, 0, &b->result, &err);
    return false;
}

static bool note_first(void *user, float share)
{
    struct early_bird *b = user;

    b->first = b->first < 0 ? share : b->first;
    return true;
}

static void feedback_teaches_before_all_is_prepared(void **state)
{
    ruvllm_engine *engine = learn_bed_open(&(struct learn_bed_wishes){.no_learning = true});
    struct early_bird b = {.engine = engine, .first = -1, .result = {.struct_size = sizeof(b.result)}};
    struct ruvllm_learn_params params = ruvllm_learn_params_default();
    struct ruvllm_learned_info info = {.struct_size = sizeof(info)};
    struct ruvllm_response *answer;
    struct ruvllm_error failure;

    (void)state;
    assert_false(ruvllm_engine_learns(NULL));
    params.on_progress = give_up; // from here on answers leave traces
    params.progress_user = NULL;
    assert_fails(ruvllm_engine_learn(engine, &params, &failure), RUVLLM_CANCELLED, failure, "given up");
    assert_false(ruvllm_engine_learns(engine));
    ruvllm_response_free(ask(engine, "anna", 0, 1, &b.id));
    params.on_progress = vote_early;
    params.progress_user = &b;
    assert_fails(ruvllm_engine_learn(engine, &params, &failure), RUVLLM_CANCELLED, failure, "given up");
    assert_ok(b.rc);
    assert_int_equal(b.result.generation, 1);
    assert_true(b.first < 0.1f && b.learned >= 0.24f && b.learned < 0.5f);
    assert_true(ruvllm_engine_learns(engine)); // from votes alone, until it is asked again
    answer = ask(engine, "anna", 0, 1, NULL);
    assert_int_equal(answer->learned_generation, 1);
    ruvllm_response_free(answer);
    teach(engine, "anna", 1, 1);
    teach(engine, "anna", 0, 8);
    assert_ok(ruvllm_engine_learned(engine, "anna", &info, err));
    assert_int_equal(info.n_ticks, 0);
    b.first = -1;
    params.on_progress = note_first;
    assert_ok(ruvllm_engine_learn(engine, &params, err)); // goes on where it gave up
    assert_true(b.first >= 0.24f);
    for (int i = 0; i < 3000 && !(info.kl_budget > 0); i++) { // what was said before is gone over now
        (void)nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        assert_ok(ruvllm_engine_learned(engine, "anna", &info, err));
    }
    assert_true(info.kl_budget > 0);
    assert_fails(ruvllm_engine_learn(engine, &params, &failure), RUVLLM_INVALID, failure, "learns already");
    ruvllm_engine_close(engine);
}

/* Another replica, which began later and was done earlier. */
struct overtaker {
    const char *path;
    ruvllm_store *store;
    ruvllm_engine *engine;
};

static bool overtake(void *user, float share)
{
    struct overtaker *o = user;

    (void)share;
    if (!o->engine) {
        o->store = learn_bed_open_store(o->path);
        o->engine = learn_bed_open_with(o->store);
    }
    return true;
}

static int64_t count_measured(const char *path)
{
    static const char COUNT[] = "SELECT count(*) FROM generation WHERE tenant = '.states' AND model LIKE '%.states'";
    sqlite3_stmt *s;
    sqlite3 *db;
    int64_t n;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, COUNT, -1, &s, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    n = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    sqlite3_close(db);
    return n;
}

static void replicas_agree_on_what_is_measured_and_follow_each_other(void **state)
{
    struct overtaker o = {.path = test_temp_path(".db")};
    struct ruvllm_learn_params params = ruvllm_learn_params_default();
    struct ruvllm_feedback_result result = {.struct_size = sizeof(result)};
    struct ruvllm_response *here, *there = NULL;
    ruvllm_engine *engine = learn_bed_open(&(struct learn_bed_wishes){.no_learning = true});
    ruvllm_store *store;
    bool is_same = false;
    uint64_t id;

    (void)state;
    (void)unlink(o.path);
    store = learn_bed_open_store(o.path);
    params.store = store;
    params.on_progress = overtake;
    params.progress_user = &o;
    assert_ok(ruvllm_engine_learn(engine, &params, err));
    assert_non_null(o.engine);
    assert_int_equal(count_measured(o.path), 1);             // the second took what the first had kept
    ruvllm_response_free(ask(o.engine, "anna", 0, 1, NULL)); // she is in memory there
    ruvllm_response_free(ask(engine, "anna", 0, 1, &id));
    assert_ok(ruvllm_engine_feedback(engine, "anna", id, 0, &result, err));
    here = ask(engine, "anna", 0, 1, NULL);
    for (int i = 0; i < 200 && !is_same; i++) {
        ruvllm_response_free(there);
        (void)nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        there = ask(o.engine, "anna", 0, 1, NULL);
        is_same = there->learned_generation == 1;
    }
    assert_int_equal(there->learned_generation, 1);
    assert_true(learn_bed_same(here, there));
    ruvllm_response_free(here);
    ruvllm_response_free(there);
    ruvllm_engine_close(engine);
    ruvllm_engine_close(o.engine);
    ruvllm_store_close(store);
    ruvllm_store_close(o.store);
    (void)unlink(o.path);
}

/* Room for the rows of few answers: the first has lost its own by the time it is judged, and is read again. */
static void an_old_answer_is_read_again(void **state)
{
    enum { N_SINCE = 12 };
    ruvllm_engine *engines[2];
    struct ruvllm_feedback_result results[2];
    struct ruvllm_response *after[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct ruvllm_learn_params params = ruvllm_learn_params_default();
        uint64_t id;

        engines[i] = learn_bed_open(&(struct learn_bed_wishes){.no_learning = true});
        params.no_background = true;
        if (i == 1)
            params.trace_bytes = 96 * 1024;
        assert_ok(ruvllm_engine_learn(engines[i], &params, err));
        ruvllm_response_free(ask(engines[i], "anna", 1, 1, &id));
        for (uint64_t k = 0; k < N_SINCE; k++)
            ruvllm_response_free(ask(engines[i], "bert", 1, k, NULL));
        results[i] = (struct ruvllm_feedback_result){.struct_size = sizeof(results[i])};
        assert_ok(ruvllm_engine_feedback(engines[i], "anna", id, 1, &results[i], err));
        after[i] = ask(engines[i], "anna", 0, 1, NULL);
    }
    assert_int_equal(results[0].read_us, 0);
    assert_true(results[1].read_us > 0);
    assert_true(results[1].kl > 0 && fabs(results[1].kl / results[0].kl - 1) < 0.3);
    assert_int_equal(results[1].generation, 1);
    for (int i = 0; i < 2; i++) {
        ruvllm_response_free(after[i]);
        ruvllm_engine_close(engines[i]);
    }
}

/* Floods of one score come to nothing: the tenant's mean goes there. */
static void equal_votes_lose_their_weight(void **state)
{
    ruvllm_engine *engine = learn_bed_open_with(NULL);
    struct ruvllm_feedback_result result = {.struct_size = sizeof(result)};
    double first = 0;

    (void)state;
    for (int i = 0; i < 60; i++) {
        uint64_t id;

        ruvllm_response_free(ask(engine, "anna", 1, (uint64_t)i, &id));
        assert_ok(ruvllm_engine_feedback(engine, "anna", id, 0, &result, err));
        first = i == 0 ? result.kl : first;
    }
    assert_true(result.kl < first / 100);
    assert_true(fabs(result.advantage) < 0.2);
    ruvllm_engine_close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_vote_changes_the_next_answer_of_its_tenant_alone),
        cmocka_unit_test(a_good_vote_makes_the_answer_likelier),
        cmocka_unit_test(going_back_restores_every_bit),
        cmocka_unit_test(a_restart_forgets_nothing),
        cmocka_unit_test(what_is_no_vote_is_refused),
        cmocka_unit_test(the_rank_is_as_it_was_in_the_store),
        cmocka_unit_test(an_engine_that_gave_up_says_so_and_may_try_again),
        cmocka_unit_test(answers_go_on_while_learning_is_prepared),
        cmocka_unit_test(feedback_teaches_before_all_is_prepared),
        cmocka_unit_test(replicas_agree_on_what_is_measured_and_follow_each_other),
        cmocka_unit_test(an_old_answer_is_read_again),
        cmocka_unit_test(equal_votes_lose_their_weight),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
