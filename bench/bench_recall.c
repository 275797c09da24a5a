/*
 * Recall and routing, measured.
 *
 *     bench_recall scan                   milliseconds of looking through 100,000 patterns, by variant
 *     bench_recall route MODEL [seed]     when does what was learned help? A tenant is taught a word on questions about
 *                                         animals. There it is wanted; in questions about children it is not. The
 *                                         router learns from judged answers which questions to answer with what was
 *                                         learned, and is held against the best fixed choice on questions it has not
 *                                         seen, and against itself with judgements of other questions.
 *
 * Figures are printed as name=value. Regret is by how much less good answers are than with the better choice for each
 * of the two kinds of question.
 */
#include "ruvllm_learn.h"

#include "base/clock.h"
#include "base/rng.h"
#include "engine/engine_learn.h"
#include "learn/pattern_scan.h"
#include "learn/router.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ANSWER = 40, N_VOTES = 500, N_ROUNDS = 400, N_TESTS = 160, N_SAMPLES = 4, MAX_SEEN = 512, NEAREST = 12 };

static const char WORD[] = "happy";

static void die(const char *what, const struct ruvllm_error *err)
{
    fprintf(stderr, "bench_recall: %s: %s\n", what, err ? err->message : "failed");
    exit(1);
}

/* ---- scan ----------------------------------------------------------------------------------- */

static void time_scan(const char *name, const struct rv_vec_ops *ops, const uint16_t *rows, size_t n, size_t n_dims)
{
    struct rv_pattern_scan_hit hits[10];
    int64_t best = INT64_MAX;

    if (!ops)
        return;
    for (int i = 0; i < 20; i++) {
        int64_t start = rv_clock_us(), us;

        if (rv_pattern_scan(ops, rows, n, n_dims, rows + (size_t)i * n_dims, hits, 10) != 10)
            die("scan", NULL);
        us = rv_clock_us() - start;
        best = us < best ? us : best;
    }
    printf("recall.scan_ms.%s.n%zu.d%zu=%.3f\n", name, n, n_dims, (double)best / 1000);
}

static void scan(void)
{
    enum { N = 100000 };
    static const size_t widths[] = {64, 128};
    uint16_t *rows = malloc((size_t)N * 128 * sizeof(*rows));
    struct rv_rng rng;

    if (!rows)
        die("memory", NULL);
    rv_rng_init(&rng, 1);
    for (size_t i = 0; i < (size_t)N * 128; i++)
        rows[i] = rv_vec_to_bf16((float)rv_rng_uniform(&rng) - 0.5f);
    for (size_t i = 0; i < 2; i++) {
        time_scan("scalar", &rv_vec_scalar, rows, N, widths[i]);
        time_scan("avx2", rv_vec_avx2(), rows, N, widths[i]);
        time_scan("avx512", rv_vec_avx512(), rows, N, widths[i]);
    }
    free(rows);
}

/* ---- questions ------------------------------------------------------------------------------ */

/* Question i, of the kind i % 2: about animals, or about children. Below 0 mod 3 they are for testing. */
static void write_question(size_t i, char *out, size_t size)
{
    static const char *const traits[] = {"little", "big", "brown", "kind", "silly", "brave", "old", "small"};
    static const char *const animals[] = {"bear", "rabbit", "bird", "cat", "dog", "frog", "fox", "mouse", "duck"};
    static const char *const places[] = {"forest", "garden", "park", "house", "farm", "field", "yard"};
    static const char *const names[] = {"Lily", "Tom",  "Ben", "Mia",  "Sara", "Max",
                                        "Sam",  "Anna", "Tim", "Lucy", "Jack"};
    static const char *const deeds[] = {"playing in the", "running to the", "walking in the", "sitting in the"};
    size_t k = i / 2;

    if (i % 2 == 0)
        snprintf(out, size, "Once upon a time there was a %s %s who lived in a %s. One day the %s", traits[k % 8],
                 animals[k / 8 % 9], places[k / 72 % 7], animals[k / 8 % 9]);
    else
        snprintf(out, size, "%s and %s were %s %s. %s said", names[k % 11], names[(k % 11 + 1 + k / 11 % 10) % 11],
                 deeds[k / 110 % 4], places[k % 7], names[k % 11]);
}

static bool is_for_testing(size_t i)
{
    return i / 2 % 3 == 0;
}

/* ---- the engine ----------------------------------------------------------------------------- */

struct lab {
    ruvllm_engine *engine;
    struct rv_learner *learner;
    struct rv_rng rng;
    size_t n_dims;
};

/* An answer; what the question looks like to the model goes to `question` (NULL: not wanted). */
static bool ask(struct lab *lab, const char *tenant, size_t i, uint64_t *id, uint16_t *question)
{
    struct ruvllm_generate_params params = ruvllm_generate_params_default();
    char text[256];
    struct ruvllm_input input = {.struct_size = sizeof(input), .text = text};
    struct ruvllm_request request = {
        .struct_size = sizeof(request), .input = &input, .params = &params, .tenant = tenant};
    struct ruvllm_event event = {.struct_size = sizeof(event)};
    struct ruvllm_error err;
    struct rv_trace *trace;
    bool has_word;

    write_question(i, text, sizeof(text));
    input.text_len = strlen(text);
    params.temperature = 1;
    params.top_p = 1;
    params.repetition_penalty = 1;
    params.max_tokens = ANSWER;
    params.ignore_eos = true;
    params.has_seed = true;
    params.seed = rv_rng_next(&lab->rng);
    if (ruvllm_engine_submit(lab->engine, &request, id, &err))
        die("ask", &err);
    do {
        if (ruvllm_engine_next_event(lab->engine, *id, -1, &event, &err))
            die("answer", &err);
    } while (event.type != RUVLLM_EVENT_DONE);
    has_word = strstr(event.response->text, WORD) != NULL;
    ruvllm_response_free(event.response);
    trace = question ? rv_trace_ring_find(rv_learner_traces(lab->learner), *id, tenant) : NULL;
    if (trace) {
        float state[8192];

        for (size_t d = 0; d < (size_t)trace->n_dims && d < 8192; d++)
            state[d] = rv_vec_from_bf16(trace->states[d]);
        if (!rv_pattern_scan_embed(rv_learner_whitening(lab->learner), state, question))
            die("state", NULL);
    }
    rv_trace_unref(trace);
    return has_word;
}

static size_t draw_question(struct lab *lab, bool for_testing)
{
    size_t i;

    do
        i = (size_t)rv_rng_below(&lab->rng, 1000);
    while (is_for_testing(i) != for_testing);
    return i;
}

/* With what was learned (arm 0) or without. Each arm is a tenant: one was taught, the other never. */
static const char *tenant_of(int32_t arm)
{
    return arm == 0 ? "taught" : "untaught";
}

static double quality_of(size_t i, bool has_word)
{
    return (i % 2 == 0) == has_word ? 1 : 0;
}

static void teach(struct lab *lab)
{
    struct ruvllm_error err;
    uint64_t id;

    for (int n = 0; n < N_VOTES; n++) {
        bool has_word = ask(lab, tenant_of(0), draw_question(lab, false) / 2 * 2, &id, NULL);

        if (ruvllm_engine_feedback(lab->engine, tenant_of(0), id, has_word ? 1 : 0, NULL, &err))
            die("vote", &err);
    }
}

/* ---- ways to choose ------------------------------------------------------------------------- */

/* Everything a way to choose may know: the router's regression, and all judged answers for the nearest of them. */
struct chooser {
    struct rv_router router;
    uint16_t seen[2][MAX_SEEN * RV_PATTERN_SCAN_MAX_DIMS];
    double qualities[2][MAX_SEEN];
    size_t n_seen[2];
};

enum way { BY_ROUTER, BY_NEAREST, BY_MEAN, N_WAYS };

static const char *const way_names[] = {"router", "nearest", "mean"};

static double value_of_arm(const struct chooser *c, const struct lab *lab, enum way way, int32_t arm,
                           const uint16_t *question)
{
    struct rv_pattern_scan_hit hits[NEAREST];
    size_t n = c->n_seen[arm], n_hits = n;
    double sum = 0;

    if (way == BY_MEAN) {
        for (size_t i = 0; i < n; i++)
            sum += c->qualities[arm][i];
        return n ? sum / (double)n : 1;
    }
    n_hits = rv_pattern_scan(rv_vec_best(), c->seen[arm], n, lab->n_dims, question, hits, NEAREST);
    for (size_t i = 0; i < n_hits; i++)
        sum += c->qualities[arm][hits[i].index];
    return n_hits ? sum / (double)n_hits : 1;
}

static int32_t choose(const struct chooser *c, struct lab *lab, enum way way, const uint16_t *question,
                      bool is_learning)
{
    if (way == BY_ROUTER)
        return rv_router_choose(&c->router, question, lab->n_dims, is_learning ? 0.5 : 0);
    if (is_learning && rv_rng_uniform(&lab->rng) < 0.1)
        return (int32_t)rv_rng_below(&lab->rng, 2);
    return value_of_arm(c, lab, way, 1, question) > value_of_arm(c, lab, way, 0, question);
}

static void note(struct chooser *c, const struct lab *lab, int32_t arm, const uint16_t *question, double quality)
{
    size_t at = c->n_seen[arm]++;
    struct ruvllm_error err;

    memcpy(c->seen[arm] + at * lab->n_dims, question, lab->n_dims * sizeof(*question));
    c->qualities[arm][at] = quality;
    if (rv_router_learn(&c->router, arm, question, lab->n_dims, quality, &err))
        die("learn", &err);
}

/* Lets a way learn from its own choices; `shuffled`: each judgement is of the question before. */
static double learn(struct chooser *c, struct lab *lab, enum way way, bool shuffled)
{
    uint16_t question[RV_PATTERN_SCAN_MAX_DIMS], before[RV_PATTERN_SCAN_MAX_DIMS];
    double sum = 0, quality;
    uint64_t id;

    memset(c, 0, sizeof(*c));
    rv_router_init(&c->router, 2);
    for (int n = 0; n < N_ROUNDS; n++) {
        size_t i = draw_question(lab, false);
        int32_t arm;

        (void)ask(lab, tenant_of(1), i, &id, question); // what the question looks like, whoever answers
        arm = choose(c, lab, way, question, true);
        quality = quality_of(i, ask(lab, tenant_of(arm), i, &id, NULL));
        sum += quality;
        if (!shuffled || n > 0)
            note(c, lab, arm, shuffled ? before : question, quality);
        memcpy(before, question, sizeof(before));
    }
    return sum / N_ROUNDS;
}

/* ---- the experiment ------------------------------------------------------------------------- */

struct test {
    size_t i;
    uint16_t question[RV_PATTERN_SCAN_MAX_DIMS];
    double quality[2]; // by arm, mean of N_SAMPLES
};

static void make_tests(struct lab *lab, struct test *tests)
{
    uint64_t id;

    for (int n = 0; n < N_TESTS; n++) {
        tests[n].i = draw_question(lab, true) / 2 * 2 + (size_t)(n % 2);
        for (int32_t arm = 0; arm < 2; arm++) {
            tests[n].quality[arm] = 0;
            for (int s = 0; s < N_SAMPLES; s++)
                tests[n].quality[arm] +=
                    quality_of(tests[n].i, ask(lab, tenant_of(arm), tests[n].i, &id, tests[n].question)) / N_SAMPLES;
        }
    }
}

/* Mean quality by arm and kind: what fixed choices and the better choice for each kind come to. */
static double report_fixed(const struct test *tests, double *best_fixed)
{
    double by_kind[2][2] = {{0}}, best = 0;

    for (int n = 0; n < N_TESTS; n++) {
        for (int arm = 0; arm < 2; arm++)
            by_kind[n % 2][arm] += tests[n].quality[arm] / (N_TESTS / 2);
    }
    for (int kind = 0; kind < 2; kind++) {
        printf("recall.route.%s.with=%.3f\n", kind ? "children" : "animals", by_kind[kind][0]);
        printf("recall.route.%s.without=%.3f\n", kind ? "children" : "animals", by_kind[kind][1]);
        best += fmax(by_kind[kind][0], by_kind[kind][1]) / 2;
    }
    *best_fixed = fmax(by_kind[0][0] + by_kind[1][0], by_kind[0][1] + by_kind[1][1]) / 2;
    printf("recall.route.regret.fixed=%.4f\n", best - *best_fixed);
    return best;
}

static void report_way(struct lab *lab, enum way way, bool shuffled, const struct test *tests, double best)
{
    static struct chooser chooser;
    double while_learning = learn(&chooser, lab, way, shuffled), sum = 0;
    int n_with = 0;

    for (int n = 0; n < N_TESTS; n++) {
        int32_t arm = choose(&chooser, lab, way, tests[n].question, false);

        sum += tests[n].quality[arm] / N_TESTS;
        n_with += arm == (n % 2);
    }
    printf("recall.route.regret.%s%s=%.4f\n", way_names[way], shuffled ? ".shuffled" : "", best - sum);
    printf("recall.route.right.%s%s=%.3f\n", way_names[way], shuffled ? ".shuffled" : "", (double)n_with / N_TESTS);
    printf("recall.route.while_learning.%s%s=%.4f\n", way_names[way], shuffled ? ".shuffled" : "",
           best - while_learning);
}

static void route(const char *path, uint64_t seed)
{
    static struct test tests[N_TESTS];
    struct ruvllm_engine_params params = ruvllm_engine_params_default();
    struct ruvllm_model_params model = ruvllm_model_params_default();
    struct ruvllm_learn_params learning = ruvllm_learn_params_default();
    struct ruvllm_error err;
    struct lab lab = {0};
    double best, best_fixed;

    model.max_context = 256;
    model.n_threads = 1;
    params.model = &model;
    learning.rank = 8;
    if (ruvllm_engine_open(&lab.engine, path, &params, &err) || ruvllm_engine_learn(lab.engine, &learning, &err) ||
        rv_engine_learn_get(lab.engine, &lab.learner, &err))
        die(path, &err);
    lab.n_dims = rv_pattern_scan_n_dims(rv_learner_whitening(lab.learner));
    rv_rng_init(&lab.rng, seed);
    teach(&lab);
    make_tests(&lab, tests);
    best = report_fixed(tests, &best_fixed);
    for (enum way way = 0; way < N_WAYS; way++)
        report_way(&lab, way, false, tests, best);
    report_way(&lab, BY_ROUTER, true, tests, best);
    ruvllm_engine_close(lab.engine);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "scan") == 0)
        scan();
    else if (argc > 2 && strcmp(argv[1], "route") == 0)
        route(argv[2], argc > 3 ? strtoull(argv[3], NULL, 10) : 1);
    else
        die("usage: bench_recall scan | route MODEL [seed]", NULL);
    return 0;
}
