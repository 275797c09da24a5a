/*
 * A deep run inside an engine, from outside: what a tenant corrected, voted on and preferred becomes a generation that
 * answers that tenant alone, below the head, and never meets another's cached keys and values; it is there after a
 * restart and gone after going back, to the bit; and what gains nothing, forgets too much, or was made of what was
 * undone meanwhile, changes nothing.
 */
#include "ruvllm_learn_log.h"
#include "ruvllm_train.h"

#include "engine/engine_learn.h"
#include "engine/teacher.h"
#include "kernels/vec.h"
#include "store/store_events.h"
#include "store/store_generations.h"
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CONTEXT = 256, N_ANSWER = 24, N_LESSONS = 14, LESSON_BYTES = 110, MAX_NAMED = 4, MAX_DIMS = 512 };

static const char *const MODEL = "models/stories260K.gguf";
static const char *const TEXT = "Once upon a time there was a little girl who lived in a small house near the forest "
                                "with her mother and her old dog. One day she went out to play and saw a";

static char *play; // what is taught: another kind of text
static const char *path;
static ruvllm_store *store;
static ruvllm_engine *engine;
static const char *adapter; // that requests name; NULL: none
static size_t n_adapters;   // or so many of `taken`, without weight

static ruvllm_engine *open_engine(ruvllm_store *with)
{
    struct ruvllm_engine_params params = ruvllm_engine_params_default();
    struct ruvllm_model_params model = ruvllm_model_params_default();
    struct ruvllm_learn_params learn = ruvllm_learn_params_default();
    ruvllm_engine *out;

    model.max_context = CONTEXT;
    model.n_threads = 1;
    params.model = &model;
    learn.store = with;
    learn.no_background = true; // generations are counted
    assert_ok(ruvllm_engine_open(&out, test_data(MODEL), &params, err));
    assert_ok(ruvllm_engine_learn(out, &learn, err));
    return out;
}

static void open_all(void)
{
    assert_ok(ruvllm_store_open(&store, path, NULL, err));
    engine = open_engine(store);
}

static void close_all(void)
{
    ruvllm_engine_close(engine);
    ruvllm_store_close(store);
}

static struct ruvllm_response *ask(const char *tenant, const char *text, uint64_t *id)
{
    struct ruvllm_generate_params params = ruvllm_generate_params_default();
    struct ruvllm_input input = {.struct_size = sizeof(input), .text = text, .text_len = strlen(text)};
    struct ruvllm_request request = {
        .struct_size = sizeof(request), .input = &input, .params = &params, .tenant = tenant, .adapter = adapter};
    struct ruvllm_event event = {.struct_size = sizeof(event)};
    struct ruvllm_adapter_use uses[MAX_NAMED];
    uint64_t mine;

    for (int i = 0; i < MAX_NAMED; i++)
        uses[i] = (struct ruvllm_adapter_use){.id = "taken", .weight = 0};
    request.adapters = n_adapters ? uses : NULL;
    request.n_adapters = n_adapters;
    params.temperature = 0;
    params.max_tokens = N_ANSWER;
    params.repetition_penalty = 1;
    params.n_logprobs = 2;
    params.ignore_eos = true;
    id = id ? id : &mine;
    assert_ok(ruvllm_engine_submit(engine, &request, id, err));
    do {
        assert_ok(ruvllm_engine_next_event(engine, *id, -1, &event, err));
    } while (event.type != RUVLLM_EVENT_DONE);
    return event.response;
}

static bool same(const struct ruvllm_response *a, const struct ruvllm_response *b)
{
    return a->n_tokens == b->n_tokens && memcmp(a->tokens, b->tokens, a->n_tokens * sizeof(*a->tokens)) == 0 &&
           memcmp(a->logprobs, b->logprobs, a->n_tokens * a->logprobs_per_token * sizeof(*a->logprobs)) == 0;
}

/* Lesson number i: a question, and how the play goes on there. */
static void lesson_of(int i, char question[64], char answer[LESSON_BYTES + 1])
{
    const char *at = play + i * 300;

    snprintf(question, 64, "%.40s", at);
    snprintf(answer, LESSON_BYTES + 1, "%s", at + 40);
}

/* Corrections, with a few votes and a pair among them. */
static void teach(const char *tenant, int n)
{
    for (int i = 0; i < n; i++) {
        struct ruvllm_feedback feedback = {.struct_size = sizeof(feedback)};
        char question[64], answer[LESSON_BYTES + 1];

        lesson_of(i, question, answer);
        ruvllm_response_free(ask(tenant, question, &feedback.id));
        if (i % 5 == 3) {
            feedback.has_score = true;
            feedback.score = i % 2;
        } else if (i % 5 == 4) {
            feedback.preferred = answer;
        } else {
            feedback.correction = answer;
        }
        assert_ok(ruvllm_engine_give_feedback(engine, tenant, &feedback, NULL, err));
    }
}

static struct ruvllm_deep_report train(const char *tenant, int32_t n_epochs, float max_forgetting)
{
    struct ruvllm_train_params t = ruvllm_deep_train_params_default();
    struct ruvllm_deep_params params = ruvllm_deep_params_default();
    struct ruvllm_deep_report report = {.struct_size = sizeof(report)};

    t.n_epochs = n_epochs;
    t.step_size = 3e-3f;
    t.batch_tokens = 512;
    t.n_threads = 2;
    params.train = &t;
    params.max_forgetting = max_forgetting;
    assert_ok(ruvllm_engine_learn_deep(engine, tenant, &params, &report, err));
    print_message("held out %.4f -> %.4f, forgetting %.4f, %d steps\n", report.train.held_out_before,
                  report.train.held_out_after, report.forgetting, report.train.n_steps);
    return report;
}

static void what_a_tenant_said_becomes_a_generation(void **state)
{
    struct ruvllm_feedback_result back = {.struct_size = sizeof(back)};
    struct ruvllm_response *other = ask("bert", TEXT, NULL), *before, *after, *again;
    struct ruvllm_deep_report report;

    (void)state;
    teach("anna", N_LESSONS);
    before = ask("anna", TEXT, NULL);
    assert_int_equal(before->learned_generation, N_LESSONS);
    report = train("anna", TEST_WATCHED(2, 4), 0.5f);
    assert_true(report.train.was_written && report.generation == N_LESSONS + 1 && report.sequence == N_LESSONS + 1);
    assert_true(report.n_corrections == 9 && report.n_votes == 3 && report.n_pairs == 2 && report.n_unused == 0);
    assert_true(report.train.held_out_after < report.train.held_out_before);
    assert_true(report.forgetting >= 0 && report.forgetting < 0.5);
    after = ask("anna", TEXT, NULL);
    assert_int_equal(after->learned_generation, N_LESSONS + 1);
    assert_int_equal(after->cached_tokens, 0); // keys and values of other layers are no use
    assert_false(same(before, after));
    again = ask("anna", TEXT, NULL);
    assert_true(again->cached_tokens > 0); // its own are
    assert_true(same(after, again));
    ruvllm_response_free(again);
    again = ask("bert", TEXT, NULL);
    assert_true(same(other, again)); // nobody else has it
    ruvllm_response_free(again);

    close_all();
    open_all();
    again = ask("anna", TEXT, NULL);
    assert_int_equal(again->learned_generation, N_LESSONS + 1);
    assert_true(same(after, again)); // after a restart, to the bit
    ruvllm_response_free(again);
    assert_ok(ruvllm_engine_learn_rollback(engine, "anna", N_LESSONS, &back, err));
    again = ask("anna", TEXT, NULL);
    assert_true(same(before, again)); // as before the run, to the bit
    ruvllm_response_free(again);
    assert_ok(ruvllm_engine_learn_rollback(engine, "anna", N_LESSONS + 1, &back, err));
    again = ask("anna", TEXT, NULL);
    assert_true(same(after, again)); // and forth
    ruvllm_response_free(again);
    assert_ok(ruvllm_engine_learn_rollback(engine, "anna", 0, &back, err));
    again = ask("anna", TEXT, NULL);
    assert_true(same(other, again)); // as the model came
    ruvllm_response_free(again);
    ruvllm_response_free(after);
    ruvllm_response_free(before);
    ruvllm_response_free(other);
}

/* Another engine, which learns nothing, with the file as an adapter. */
static void what_was_learned_can_be_taken_along(void **state)
{
    const char *file = test_temp_path(".gguf");
    struct ruvllm_feedback_result back = {.struct_size = sizeof(back)};
    struct ruvllm_response *mine, *theirs;
    size_t n_same = 0, n = 0;
    int64_t generation;

    (void)state;
    assert_ok(ruvllm_engine_learn_rollback(engine, "anna", N_LESSONS + 1, &back, err)); // of the case before
    mine = ask("anna", TEXT, NULL);
    assert_ok(ruvllm_engine_learn_export(engine, "anna", file, RUVLLM_ADAPTER_OWN, err));
    assert_ok(ruvllm_engine_adapter_load(engine, "taken", file, -1, &generation, err));
    adapter = "taken";
    theirs = ask("fred", TEXT, NULL);
    adapter = NULL;
    assert_int_equal(mine->n_tokens, theirs->n_tokens);
    /* Memory stays behind: likelihoods that it had a say in differ, and where it chose another token all after it. */
    for (; n < mine->n_tokens && mine->tokens[n] == theirs->tokens[n]; n++)
        n_same += fabsf(mine->logprobs[2 * n].logprob - theirs->logprobs[2 * n].logprob) < 2e-3f;
    assert_true(n >= N_ANSWER / 2 && n_same > n / 2);
    ruvllm_response_free(theirs);
    n_adapters = MAX_NAMED; // as many as a request may name, and what was learned on top
    theirs = ask("anna", TEXT, NULL);
    n_adapters = 0;
    assert_memory_equal(mine->tokens, theirs->tokens, mine->n_tokens * sizeof(*mine->tokens));
    ruvllm_response_free(mine);
    ruvllm_response_free(theirs);
}

static void a_second_run_goes_on_from_the_first(void **state)
{
    struct ruvllm_deep_report first, second;

    (void)state;
    teach("carl", N_LESSONS);
    first = train("carl", 2, 0.5f);
    second = train("carl", 2, 0.5f);
    assert_true(first.train.was_written);
    /* The same samples are held out, so it begins where the first one ended. */
    assert_true(fabs(second.train.held_out_before - first.train.held_out_after) < 1e-3);
}

static void what_forgets_too_much_answers_nobody(void **state)
{
    struct ruvllm_response *before, *after;
    struct ruvllm_deep_report report;

    (void)state;
    teach("dora", N_LESSONS);
    before = ask("dora", TEXT, NULL);
    report = train("dora", 1, 1e-6f);
    assert_true(!report.train.was_written && report.sequence == 0);
    after = ask("dora", TEXT, NULL);
    assert_true(same(before, after) && after->learned_generation == N_LESSONS);
    ruvllm_response_free(before);
    ruvllm_response_free(after);
}

static void what_was_gone_back_from_is_not_learned(void **state)
{
    struct ruvllm_feedback_result back = {.struct_size = sizeof(back)};
    struct ruvllm_error error;

    (void)state;
    assert_fails(ruvllm_engine_learn_deep(engine, "emil", NULL, NULL, &error), RUVLLM_INVALID, error, "too little");
    teach("emil", 8);
    assert_ok(ruvllm_engine_learn_rollback(engine, "emil", 3, &back, err));
    assert_fails(ruvllm_engine_learn_deep(engine, "emil", NULL, NULL, &error), RUVLLM_INVALID, error, "3 votes");
    assert_ok(ruvllm_engine_learn_rollback(engine, "emil", 7, &back, err));
    assert_true(train("emil", 1, 0.5f).n_corrections == 5);
}

/* Few short corrections, gone over until they are known by heart. */
static void what_the_weights_know_is_no_longer_remembered(void **state)
{
    struct ruvllm_train_params t = ruvllm_deep_train_params_default();
    struct ruvllm_deep_params params = ruvllm_deep_params_default();
    struct ruvllm_deep_report report = {.struct_size = sizeof(report)};
    struct ruvllm_learned_info before = {.struct_size = sizeof(before)}, after = before;

    (void)state;
    for (int i = 0; i < 4; i++) {
        static const char *const questions[] = {"The cat is", "A big red ball was", "They went to", "Tom said that"};
        struct ruvllm_feedback feedback = {.struct_size = sizeof(feedback), .correction = " zan zan zan."};

        ruvllm_response_free(ask("gina", questions[i], &feedback.id));
        assert_ok(ruvllm_engine_give_feedback(engine, "gina", &feedback, NULL, err));
    }
    assert_ok(ruvllm_engine_learned(engine, "gina", &before, err));
    assert_true(before.n_keys > 0);
    t.n_epochs = 8;
    t.step_size = 1e-2f;
    t.held_out = 0;
    t.batch_tokens = 2048;
    t.n_threads = 2;
    params.train = &t;
    params.max_forgetting = 10;
    assert_ok(ruvllm_engine_learn_deep(engine, "gina", &params, &report, err));
    print_message("%lld of %lld keys went\n", (long long)report.n_distilled, (long long)before.n_keys);
    assert_true(report.train.was_written && report.n_distilled > 0);
    assert_ok(ruvllm_engine_learned(engine, "gina", &after, err));
    assert_true(after.n_keys >= before.n_keys - report.n_distilled && after.n_keys < before.n_keys);
    close_all();
    open_all();
    before = after;
    assert_ok(ruvllm_engine_learned(engine, "gina", &after, err));
    assert_int_equal(after.n_keys, before.n_keys);
}

/* ---- texts are read by what answers ---------------------------------------------------------- */

/* Keys of the last event, beside the states that an answer with the same words had. */
struct comparison {
    const struct rv_trace *trace;
    const struct rv_whitening *whitening;
    float strength; // of the keys that are looked at: 1, or below 0
    int n_met;      // keys for words of the answer
    double worst;   // squared distance of a key from its state, as a share of the state's length
};

static void compare_key(struct comparison *c, const struct rv_memory_page *page, int32_t i)
{
    const struct rv_memory_key *key = &page->keys[i];
    size_t dims = (size_t)page->n_dims;
    int32_t context[RV_MEMORY_PAGE_CONTEXT];
    float state[MAX_DIMS];

    for (int32_t row = 0; row < c->trace->n_rows; row++) {
        double off = 0, length = 0;

        rv_trace_context(c->trace, row, context, RV_MEMORY_PAGE_CONTEXT);
        if (c->trace->tokens[row] != key->token || memcmp(context, key->context, sizeof(context)) != 0)
            continue;
        for (size_t d = 0; d < dims; d++)
            state[d] = rv_vec_from_bf16(c->trace->states[(size_t)row * dims + d]);
        rv_whitening_root(c->whitening, state, 1);
        for (size_t d = 0; d < dims; d++) {
            double x = (double)state[d], y = (double)rv_vec_from_bf16(page->places[(size_t)i * dims + d]);

            off += (x - y) * (x - y);
            length += x * x;
        }
        c->n_met++;
        c->worst = fmax(c->worst, off / length);
    }
}

static bool compare_event(void *user, const struct rv_store_event *event)
{
    struct comparison *c = user;
    struct rv_memory_page *page;

    if (event->kind != RV_STORE_EVENT_CORRECTION && event->kind != RV_STORE_EVENT_PAIR)
        return true;
    c->n_met = 0;
    c->worst = 0;
    assert_ok(rv_memory_page_read(&page, c->trace->n_dims, event->memory, err));
    for (int32_t i = 0; page && i < page->n_keys; i++) {
        if ((page->keys[i].strength < 0) == (c->strength < 0))
            compare_key(c, page, i);
    }
    rv_memory_page_unref(page);
    return true;
}

/* How far the keys of the last event, for tokens or against them, are from the states of an answer. */
static double distance_of_keys(struct rv_learner *learner, const struct rv_trace *trace, float strength)
{
    struct comparison c = {.trace = trace, .whitening = rv_learner_whitening(learner), .strength = strength};

    assert_true(trace->n_rows > 0 && trace->n_dims <= MAX_DIMS);
    assert_ok(rv_store_events_replay(store, trace->tenant, 0, compare_event, &c, err));
    print_message("%d keys of its words, the farthest at %.2g of the state's length\n", c.n_met, c.worst);
    assert_true(c.n_met >= 3);
    return c.worst;
}

/* The words of an answer, read by what answers now. */
static struct rv_trace *read_again(struct rv_learner *learner, const struct rv_trace *trace)
{
    struct rv_learner_voice voice;
    struct rv_teacher_text text = {.tenant = trace->tenant,
                                   .prompt = trace->prompt,
                                   .n_prompt = trace->n_prompt,
                                   .target = trace->tokens,
                                   .n_target = trace->n_rows,
                                   .voice = &voice};
    struct rv_trace *out;

    assert_ok(rv_learner_voice(learner, trace->tenant, &voice, err));
    assert_ok(rv_teacher_trace(engine, &text, &out, err));
    assert_true(out->layers == voice.layers && out->generation == voice.generation);
    rv_learner_release_voice(&voice);
    return out;
}

/*
 * A correction that repeats an answer reads the words that were said, after the same words: in the same states. The
 * other half of a pair is an answer from before the run: it is read as it would be said now. The bounds: bfloat16 twice
 * over, and sums in another order because several words are read at once, are far below; another generation's layers
 * are far beyond.
 */
static void texts_are_read_with_what_was_learned_below_the_head(void **state)
{
    struct ruvllm_feedback correction = {.struct_size = sizeof(correction)}, pair = {.struct_size = sizeof(pair)};
    struct rv_trace *before, *after, *again;
    struct ruvllm_response *answer;
    struct rv_learner *learner;

    (void)state;
    assert_ok(rv_engine_learn_get(engine, &learner, err));
    teach("hugo", N_LESSONS);
    ruvllm_response_free(ask("hugo", TEXT, &pair.id));
    assert_true(train("hugo", 1, 0.5f).train.was_written);

    answer = ask("hugo", TEXT, &correction.id);
    correction.correction = answer->text;
    assert_ok(ruvllm_engine_give_feedback(engine, "hugo", &correction, NULL, err));
    after = rv_trace_ring_find(rv_learner_traces(learner), correction.id, "hugo");
    assert_true(after && after->layers != 0);
    assert_true(distance_of_keys(learner, after, 1) < 1e-3);
    ruvllm_response_free(answer);
    rv_trace_unref(after);

    pair.preferred = " brown fox.";
    assert_ok(ruvllm_engine_give_feedback(engine, "hugo", &pair, NULL, err));
    before = rv_trace_ring_find(rv_learner_traces(learner), pair.id, "hugo");
    assert_true(before && before->layers == 0);
    again = read_again(learner, before);
    assert_true(distance_of_keys(learner, again, -1) < 1e-3);
    assert_true(distance_of_keys(learner, before, -1) > 1e-2);
    rv_trace_unref(before);
    rv_trace_unref(again);
}

/* ---- what is undone while a run goes on ------------------------------------------------------ */

enum { N_SOME = 8 };

/* What somebody does once, after the first step of a run. */
struct meddler {
    const char *tenant;
    void (*act)(const char *tenant);
    bool is_done;
};

static void go_back(const char *tenant)
{
    struct ruvllm_feedback_result back = {.struct_size = sizeof(back)};

    assert_ok(ruvllm_engine_learn_rollback(engine, tenant, 0, &back, err));
}

static void forget_one(const char *tenant)
{
    struct ruvllm_feedback_result back = {.struct_size = sizeof(back)};

    assert_ok(ruvllm_engine_learn_forget(engine, tenant, 2, &back, err));
}

static void go_back_elsewhere(const char *tenant)
{
    struct ruvllm_feedback_result back = {.struct_size = sizeof(back)};
    ruvllm_engine *other;
    ruvllm_store *with;

    assert_ok(ruvllm_store_open(&with, path, NULL, err));
    other = open_engine(with);
    assert_ok(ruvllm_engine_learn_rollback(other, tenant, N_SOME - 1, &back, err));
    ruvllm_engine_close(other);
    ruvllm_store_close(with);
}

static void pause_learning(const char *tenant)
{
    assert_ok(ruvllm_engine_learn_pause(engine, tenant, true, err));
}

/* Whatever the run has read is still there. */
static void vote_and_take_it_back(const char *tenant)
{
    struct ruvllm_feedback feedback = {.struct_size = sizeof(feedback), .has_score = true, .score = 1};
    struct ruvllm_feedback_result back = {.struct_size = sizeof(back)};

    ruvllm_response_free(ask(tenant, TEXT, &feedback.id));
    assert_ok(ruvllm_engine_give_feedback(engine, tenant, &feedback, NULL, err));
    assert_ok(ruvllm_engine_learn_rollback(engine, tenant, N_SOME, &back, err));
}

static bool meddle(void *user, const struct ruvllm_train_progress *progress)
{
    struct meddler *m = user;

    if (progress->step > 0 && !m->is_done) {
        m->is_done = true;
        m->act(m->tenant);
    }
    return true;
}

static ruvllm_status train_while(struct meddler *m, struct ruvllm_error *error)
{
    struct ruvllm_train_params t = ruvllm_deep_train_params_default();
    struct ruvllm_deep_params params = ruvllm_deep_params_default();
    struct ruvllm_deep_report report = {.struct_size = sizeof(report)};
    ruvllm_status rc;

    t.n_epochs = 1;
    t.step_size = 3e-3f;
    t.batch_tokens = 512;
    t.n_threads = 2;
    t.on_progress = meddle;
    t.user = m;
    params.train = &t;
    params.max_forgetting = 0.5f;
    params.is_idle = true; // as a server has it
    rc = ruvllm_engine_learn_deep(engine, m->tenant, &params, &report, error);
    assert_true(m->is_done && report.train.was_written == !rc);
    return rc;
}

/* Results of the tenant's runs that the store has; the last of them, if it is asked for. */
static size_t n_kept(const char *tenant, struct rv_store_generation *last)
{
    struct rv_store_generation *rows = calloc(4, sizeof(*rows));
    struct rv_learner *learner;
    char model[RV_STORE_MODEL_MAX + 1];
    size_t n, n_full = 0;

    assert_non_null(rows);
    assert_ok(rv_engine_learn_get(engine, &learner, err));
    snprintf(model, sizeof(model), "%s.deep", rv_learner_made_with(learner)->model);
    assert_ok(rv_store_generations_list(store, tenant, model, 0, rows, 4, &n, err));
    if (last && n > 0)
        *last = rows[0];
    for (size_t i = 0; i < n; i++)
        n_full += rows[i].n_bytes > 0;
    free(rows);
    return n_full;
}

static void what_was_undone_meanwhile_does_not_come_back(void **state)
{
    static const struct {
        struct meddler meddler;
        const char *told; // NULL: nothing, and the result answers
    } all[] = {
        {{.tenant = "ines", .act = go_back}, "undone"},          {{.tenant = "jan", .act = forget_one}, "undone"},
        {{.tenant = "kim", .act = go_back_elsewhere}, "undone"}, {{.tenant = "lea", .act = pause_learning}, "paused"},
        {{.tenant = "max", .act = vote_and_take_it_back}, NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct meddler m = all[i].meddler;
        struct ruvllm_error error = {0};

        teach(m.tenant, N_SOME);
        if (all[i].told)
            assert_fails(train_while(&m, &error), RUVLLM_CONFLICT, error, all[i].told);
        else
            assert_ok(train_while(&m, err));
        assert_int_equal(n_kept(m.tenant, NULL), all[i].told ? 0 : 1);
    }
}

static void what_is_forgotten_leaves_no_weights(void **state)
{
    enum { N_OWN = N_SOME + 2 }; // who was taught the same has the same weights, which would stay
    struct ruvllm_feedback_result back = {.struct_size = sizeof(back)};
    struct rv_store_generation gen = {0};
    struct ruvllm_response *as_it_came, *answer;
    struct ruvllm_error error;
    void *content;

    (void)state;
    as_it_came = ask("otto", TEXT, NULL);
    teach("otto", N_OWN);
    assert_true(train("otto", 1, 0.5f).train.was_written);
    assert_int_equal(n_kept("otto", &gen), 1);
    assert_ok(ruvllm_engine_learn_forget(engine, "otto", N_OWN, &back, err));
    assert_int_equal(n_kept("otto", NULL), 0);
    assert_fails(rv_store_generations_content(store, &gen, &content, &error), RUVLLM_FORMAT, error, "damaged");
    for (int64_t i = 1; i < N_OWN; i++)
        assert_ok(ruvllm_engine_learn_forget(engine, "otto", i, &back, err));
    answer = ask("otto", TEXT, NULL);
    assert_true(same(as_it_came, answer));
    ruvllm_response_free(answer);
    close_all();
    open_all();
    answer = ask("otto", TEXT, NULL);
    assert_true(same(as_it_came, answer));
    ruvllm_response_free(answer);
    ruvllm_response_free(as_it_came);
}

static void a_paused_tenant_is_not_trained_for(void **state)
{
    struct ruvllm_error error;

    (void)state;
    assert_ok(ruvllm_engine_learn_pause(engine, "nora", true, err));
    assert_fails(ruvllm_engine_learn_deep(engine, "nora", NULL, NULL, &error), RUVLLM_CONFLICT, error, "resume");
}

static void without_a_log_there_is_nothing_to_learn_from(void **state)
{
    ruvllm_engine *other = open_engine(NULL);
    struct ruvllm_error error;

    (void)state;
    assert_fails(ruvllm_engine_learn_deep(other, "anna", NULL, NULL, &error), RUVLLM_UNSUPPORTED, error, "no log");
    assert_fails(ruvllm_engine_learn_deep(NULL, "anna", NULL, NULL, &error), RUVLLM_INVALID, error, "engine");
    ruvllm_engine_close(other);
}

static int setup(void **state)
{
    size_t len;

    (void)state;
    test_need_file(test_data(MODEL));
    play = test_read_file(test_data("text/tinyshakespeare.txt"), &len);
    assert_true(len > 20000);
    path = test_temp_path(".db");
    open_all();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    close_all();
    free(play);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_tenant_said_becomes_a_generation),
        cmocka_unit_test(what_was_learned_can_be_taken_along),
        cmocka_unit_test(what_the_weights_know_is_no_longer_remembered),
        cmocka_unit_test(without_a_log_there_is_nothing_to_learn_from),
        /* Not under sanitizers: more runs. */
        cmocka_unit_test(a_second_run_goes_on_from_the_first),
        cmocka_unit_test(what_forgets_too_much_answers_nobody),
        cmocka_unit_test(what_was_gone_back_from_is_not_learned),
        cmocka_unit_test(texts_are_read_with_what_was_learned_below_the_head),
        cmocka_unit_test(what_was_undone_meanwhile_does_not_come_back),
        cmocka_unit_test(a_paused_tenant_is_not_trained_for),
        cmocka_unit_test(what_is_forgotten_leaves_no_weights),
    };
    enum { N = sizeof(tests) / sizeof(tests[0]) };

    test_need_data();
    /* The threads of the others are the same. */
    return _cmocka_run_group_tests("engine_deep", tests, TEST_WATCHED(1, TEST_SANITIZED(N - 7, N)), setup, teardown);
}
