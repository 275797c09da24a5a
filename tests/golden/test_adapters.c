/*
 * Adapters in an engine, from outside: a request keeps the generation it began with; keys and values of one layer
 * content are never another's, while heads come and go without touching a cache; waiting for a place is not failing;
 * a day of loading and unloading leaves nothing behind.
 */
#include "engine/engine.h"

#include "base/rng.h"
#include "engine/adapter_census.h"
#include "ruvllm_adapter.h"
#include "support/adapter_fixture.h"
#include "support/test.h"

#include <dirent.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { CONTEXT = 256, N_ANSWER = 16, N_STREAMS = 16 };

/* Under a sanitizer, where a token costs twenty times as much and memory is what is looked at, a smaller model does. */
#ifdef RUVLLM_IS_SANITIZED
enum { N_CYCLES = 100, N_PUBLISHED = 30 };
static const char *const MODEL = "models/stories260K.gguf";
static const float STRENGTH = 0.5f;
#else
enum { N_CYCLES = 1000, N_PUBLISHED = 60 };
static const char *const MODEL = "models/stories15M-f16.gguf";
static const float STRENGTH = 0.1f; // what is far from sense is also far from exact
#endif
static const char *const TEXT = "Once upon a time there was a little girl who lived in a small house near the forest "
                                "with her mother and her old dog. One day she went out to play and saw a";

/* ---- engines, adapters, answers ----------------------------------------------------------------- */

static ruvllm_engine *open_engine(const struct ruvllm_engine_params *wishes)
{
    struct ruvllm_engine_params params = wishes ? *wishes : ruvllm_engine_params_default();
    struct ruvllm_model_params model = ruvllm_model_params_default();
    ruvllm_engine *engine;

    test_need_file(test_data(MODEL));
    model.max_context = CONTEXT;
    model.n_threads = 1;
    params.model = &model;
    assert_ok(ruvllm_engine_open(&engine, test_data(MODEL), &params, err));
    return engine;
}

static const char *new_folder(void)
{
    const char *path = test_temp_path(".adapters");

    (void)unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    return path;
}

/* Folders of a depot, empty by now. */
static void remove_folder(const char *path)
{
    char sub[512];

    for (int i = 0; i < 256; i++) {
        snprintf(sub, sizeof(sub), "%s/%02x", path, i);
        (void)rmdir(sub);
    }
    snprintf(sub, sizeof(sub), "%s/lock", path);
    (void)unlink(sub);
    assert_int_equal(rmdir(path), 0); // no file is left
}

/* With layers of one seed and the head of another; 0: none. For rv_adapter_unref. */
static struct rv_adapter *make(const struct ruvllm_model *model, uint64_t layers_seed, uint64_t head_seed)
{
    struct adapter_fixture f = {.hparams = &model->hparams, .manifest = &model->manifest, .strength = STRENGTH};
    struct rv_adapter *both, *head;
    size_t bytes;

    f.seed = layers_seed ? layers_seed : head_seed;
    f.rank = layers_seed ? 2 : 0;
    f.head_rank = head_seed ? 2 : 0;
    both = adapter_fixture_new(&f);
    if (!layers_seed || !head_seed)
        return both;
    f.seed = head_seed;
    f.rank = 0;
    head = adapter_fixture_new(&f);
    bytes = (size_t)head->head.rank * (size_t)head->head.n_in * sizeof(uint16_t);
    memcpy((void *)(uintptr_t)both->head.a, head->head.a, bytes); // nobody else has it yet
    memcpy((void *)(uintptr_t)both->head.b, head->head.b, bytes);
    rv_adapter_unref(head);
    return both;
}

static int64_t publish(ruvllm_engine *engine, const char *id, uint64_t layers_seed, uint64_t head_seed)
{
    struct rv_adapter *adapter = make(engine->model, layers_seed, head_seed);
    int64_t generation;

    assert_ok(rv_engine_adapters_publish(&engine->adapters, id, -1, adapter, &generation, err));
    rv_adapter_unref(adapter);
    return generation;
}

/* A file of ours with such an adapter. */
static const char *write_adapter(const ruvllm_engine *engine, uint64_t layers_seed, uint64_t head_seed)
{
    const char *path = test_temp_path(".gguf");
    struct rv_adapter *adapter = make(engine->model, layers_seed, head_seed);
    struct rv_adapter_file *file;

    assert_ok(rv_adapter_file_from(&file, adapter, &engine->adapters.base, err));
    assert_ok(rv_adapter_file_write(file, &engine->adapters.base, path, RUVLLM_ADAPTER_OWN, err));
    rv_adapter_file_close(file);
    rv_adapter_unref(adapter);
    return path;
}

static struct ruvllm_generate_params greedy(int32_t max_tokens)
{
    struct ruvllm_generate_params params = ruvllm_generate_params_default();

    params.temperature = 0;
    params.repetition_penalty = 1;
    params.max_tokens = max_tokens;
    params.n_logprobs = 2;
    params.ignore_eos = true;
    return params;
}

static struct ruvllm_response *drain(ruvllm_engine *engine, uint64_t id)
{
    struct ruvllm_event event = {.struct_size = sizeof(event)};

    do {
        assert_ok(ruvllm_engine_next_event(engine, id, 120000, &event, err));
        assert_int_not_equal(event.type, RUVLLM_EVENT_NONE);
    } while (event.type != RUVLLM_EVENT_DONE);
    return event.response;
}

static ruvllm_status try_submit(ruvllm_engine *engine, const char *adapter, int64_t generation, int32_t max_tokens,
                                uint64_t *id, struct ruvllm_error *err)
{
    struct ruvllm_generate_params params = greedy(max_tokens);
    struct ruvllm_input input = {.struct_size = sizeof(input), .text = TEXT, .text_len = strlen(TEXT)};
    struct ruvllm_request request = {.struct_size = sizeof(request),
                                     .input = &input,
                                     .params = &params,
                                     .adapter = adapter,
                                     .adapter_generation = generation};

    return ruvllm_engine_submit(engine, &request, id, err);
}

static struct ruvllm_response *answer(ruvllm_engine *engine, const char *adapter, int64_t generation)
{
    uint64_t id;

    assert_ok(try_submit(engine, adapter, generation, N_ANSWER, &id, err));
    return drain(engine, id);
}

/* How far the second best is behind in token i. */
static double gap(const struct ruvllm_response *r, size_t i)
{
    const struct ruvllm_token_logprob *row = r->logprobs + i * r->logprobs_per_token;

    return (double)(row[1].logprob - row[2].logprob);
}

/*
 * The same answer up to what batches of another shape do to the last bits: a first difference where the best two are a
 * hundredth apart at most. Another adapter moves log-probabilities by a tenth and more.
 */
static bool is_same(const struct ruvllm_response *a, const struct ruvllm_response *b)
{
    for (size_t i = 0; i < a->n_tokens && i < b->n_tokens; i++) {
        const struct ruvllm_token_logprob *x = a->logprobs + i * a->logprobs_per_token;
        const struct ruvllm_token_logprob *y = b->logprobs + i * b->logprobs_per_token;

        if (a->tokens[i] != b->tokens[i])
            return gap(a, i) < 0.01;
        if (fabs((double)(x->logprob - y->logprob)) > 0.01) {
            print_message("token %zu: log-probability %.4f, not %.4f\n", i, (double)x->logprob, (double)y->logprob);
            return false;
        }
    }
    return a->n_tokens == b->n_tokens;
}

/* What a fresh engine, which has cached nothing, answers. */
static struct ruvllm_response *fresh_answer(uint64_t layers_seed, uint64_t head_seed)
{
    ruvllm_engine *engine = open_engine(NULL);
    struct ruvllm_response *response;

    if (layers_seed || head_seed)
        publish(engine, "only", layers_seed, head_seed);
    response = answer(engine, layers_seed || head_seed ? "only" : NULL, 0);
    assert_int_equal(response->cached_tokens, 0);
    ruvllm_engine_close(engine);
    return response;
}

static void check_answer(ruvllm_engine *engine, const char *adapter, int64_t generation,
                         const struct ruvllm_response *expected, bool is_cached)
{
    struct ruvllm_response *r = answer(engine, adapter, generation);

    assert_int_equal(r->cached_tokens, is_cached ? (r->prompt_tokens - 1) / 32 * 32 : 0);
    assert_true(is_same(r, expected));
    ruvllm_response_free(r);
}

/* ---- caches --------------------------------------------------------------------------------------- */

/* As llama.cpp#26207: a prompt computed under one adapter, then asked again under another, under none, and back. */
static void a_cached_prefix_never_crosses_adapters(void **state)
{
    struct ruvllm_response *a = fresh_answer(1, 0), *b = fresh_answer(2, 0), *none = fresh_answer(0, 0);
    ruvllm_engine *engine = open_engine(NULL);

    (void)state;
    assert_false(is_same(a, b));
    assert_false(is_same(a, none));
    publish(engine, "a", 1, 0);
    publish(engine, "b", 2, 0);
    check_answer(engine, "a", 0, a, false);
    check_answer(engine, "b", 0, b, false);
    check_answer(engine, NULL, 0, none, false);
    check_answer(engine, "a", 0, a, true);
    check_answer(engine, "b", 0, b, true);
    check_answer(engine, NULL, 0, none, true);
    ruvllm_response_free(a);
    ruvllm_response_free(b);
    ruvllm_response_free(none);
    ruvllm_engine_close(engine);
}

/* As vllm#42125: the same name is loaded with other weights. */
static void a_name_that_is_loaded_anew_has_caches_of_its_own(void **state)
{
    struct ruvllm_response *old = fresh_answer(1, 0), *new = fresh_answer(2, 0);
    ruvllm_engine *engine = open_engine(NULL);
    const char *first = write_adapter(engine, 1, 0), *second = write_adapter(engine, 2, 0);
    int64_t generation;

    (void)state;
    assert_ok(ruvllm_engine_adapter_load(engine, "x", first, 0, &generation, err));
    assert_int_equal(generation, 1);
    check_answer(engine, "x", 0, old, false);
    check_answer(engine, "x", 0, old, true);
    assert_ok(ruvllm_engine_adapter_load(engine, "x", second, 1, &generation, err));
    assert_int_equal(generation, 2);
    check_answer(engine, "x", 0, new, false);
    check_answer(engine, "x", 1, old, true); // asked for by number
    assert_ok(ruvllm_engine_adapter_unload(engine, "x", 0, err));
    assert_ok(ruvllm_engine_adapter_load(engine, "x", first, 0, &generation, err));
    assert_int_equal(generation, 3);
    check_answer(engine, "x", 0, old, true); // the same weights, so the same cache
    ruvllm_response_free(old);
    ruvllm_response_free(new);
    ruvllm_engine_close(engine);
}

static void a_head_only_publish_keeps_every_cache(void **state)
{
    struct ruvllm_response *first = fresh_answer(1, 5), *second = fresh_answer(1, 6), *head = fresh_answer(0, 7);
    ruvllm_engine *engine = open_engine(NULL);
    struct ruvllm_response *plain;

    (void)state;
    assert_false(is_same(first, second));
    publish(engine, "x", 1, 5);
    check_answer(engine, "x", 0, first, false);
    for (int i = 0; i < 3; i++) { // votes
        publish(engine, "x", 1, 6);
        check_answer(engine, "x", 0, second, true);
        publish(engine, "x", 1, 5);
        check_answer(engine, "x", 0, first, true);
    }
    plain = answer(engine, NULL, 0);
    assert_int_equal(plain->cached_tokens, 0);
    publish(engine, "head", 0, 7);
    check_answer(engine, "head", 0, head, true); // what the bare model computed
    assert_false(is_same(plain, head));
    ruvllm_response_free(plain);
    ruvllm_response_free(first);
    ruvllm_response_free(second);
    ruvllm_response_free(head);
    ruvllm_engine_close(engine);
}

static void a_session_belongs_to_its_layers(void **state)
{
    struct ruvllm_input input = {.struct_size = sizeof(input), .text = TEXT, .text_len = strlen(TEXT)};
    struct ruvllm_request request = {.struct_size = sizeof(request), .input = &input, .adapter = "x"};
    struct ruvllm_response *expected = fresh_answer(1, 6);
    const char *path = test_temp_path(".session");
    ruvllm_engine *engine = open_engine(NULL);
    struct ruvllm_error error;
    int32_t n_tokens;

    (void)state;
    publish(engine, "x", 1, 5);
    ruvllm_response_free(answer(engine, "x", 0));
    assert_ok(ruvllm_engine_save_session(engine, &request, path, &n_tokens, err));
    assert_true(n_tokens >= 32);
    request.adapter = NULL;
    assert_fails(ruvllm_engine_save_session(engine, &request, path, &n_tokens, &error), RUVLLM_NOT_FOUND, error,
                 "nothing of this conversation");
    ruvllm_engine_close(engine);

    engine = open_engine(NULL);
    publish(engine, "x", 2, 5); // the same name, other layers
    publish(engine, "y", 1, 6); // another name and head, the same layers
    assert_fails(ruvllm_engine_load_session(engine, &request, path, &n_tokens, &error), RUVLLM_INVALID, error,
                 "adapter");
    request.adapter = "x";
    assert_fails(ruvllm_engine_load_session(engine, &request, path, &n_tokens, &error), RUVLLM_INVALID, error,
                 "adapter");
    request.adapter = "y";
    assert_ok(ruvllm_engine_load_session(engine, &request, path, &n_tokens, err));
    check_answer(engine, "y", 0, expected, true);
    ruvllm_response_free(expected);
    ruvllm_engine_close(engine);
}

/* ---- under load ------------------------------------------------------------------------------------ */

enum { N_CONTENTS = 3 };

/* Generation g has content g % 3. */
static const uint64_t contents[N_CONTENTS][2] = {{1, 5}, {2, 5}, {2, 6}};

struct publisher {
    ruvllm_engine *engine;
    atomic_bool is_over;
    bool is_right;
};

static void *publish_on(void *arg)
{
    struct publisher *p = arg;
    const struct timespec pause = {.tv_nsec = 3000000};

    p->is_right = true;
    for (int64_t next = 2; !p->is_over; next++) {
        const uint64_t *seeds = contents[next % N_CONTENTS];
        struct rv_adapter *adapter = make(p->engine->model, seeds[0], seeds[1]);
        int64_t generation;

        if (rv_engine_adapters_publish(&p->engine->adapters, "x", next - 1, adapter, &generation, NULL))
            p->is_right = false;
        rv_adapter_unref(adapter);
        p->is_right = p->is_right && generation == next;
        nanosleep(&pause, NULL);
    }
    return NULL;
}

static void no_request_changes_its_generation_midway(void **state)
{
    struct ruvllm_engine_params wishes = ruvllm_engine_params_default();
    struct ruvllm_response *expected[N_CONTENTS];
    struct publisher publisher = {.is_over = false};
    uint64_t ids[N_STREAMS];
    int64_t first = INT64_MAX, last = 0;
    pthread_t thread;

    (void)state;
    for (int i = 0; i < N_CONTENTS; i++)
        expected[i] = fresh_answer(contents[i][0], contents[i][1]);
    wishes.adapter_dir = new_folder();
    wishes.max_adapters = 4;
    publisher.engine = open_engine(&wishes);
    publish(publisher.engine, "x", contents[1][0], contents[1][1]);
    for (int i = 0; i < N_STREAMS; i++)
        assert_ok(try_submit(publisher.engine, "x", 0, N_ANSWER, &ids[i], err));
    assert_int_equal(pthread_create(&thread, NULL, publish_on, &publisher), 0);
    for (int n = 0; n < N_PUBLISHED; n++) {
        struct ruvllm_response *r = drain(publisher.engine, ids[n % N_STREAMS]);

        assert_true(is_same(r, expected[r->adapter_generation % N_CONTENTS]));
        first = r->adapter_generation < first ? r->adapter_generation : first;
        last = r->adapter_generation > last ? r->adapter_generation : last;
        ruvllm_response_free(r);
        assert_ok(try_submit(publisher.engine, "x", 0, N_ANSWER, &ids[n % N_STREAMS], err));
    }
    publisher.is_over = true;
    pthread_join(thread, NULL);
    assert_true(publisher.is_right);
    print_message("answers of generations %lld to %lld\n", (long long)first, (long long)last);
    assert_true(last > first);
    ruvllm_engine_close(publisher.engine);
    remove_folder(wishes.adapter_dir);
    for (int i = 0; i < N_CONTENTS; i++)
        ruvllm_response_free(expected[i]);
}

static void more_adapters_than_places_all_answer(void **state)
{
    struct ruvllm_engine_params wishes = ruvllm_engine_params_default();
    struct ruvllm_engine_stats stats = {.struct_size = sizeof(stats)};
    struct ruvllm_response *expected[6];
    ruvllm_engine *engine;
    uint64_t ids[12], late;
    char id[8];

    (void)state;
    for (int i = 0; i < 6; i++)
        expected[i] = fresh_answer((uint64_t)i + 1, 0);
    wishes.adapter_dir = new_folder();
    wishes.max_adapters = 4;
    engine = open_engine(&wishes);
    for (int i = 0; i < 6; i++) {
        snprintf(id, sizeof(id), "a%d", i);
        publish(engine, id, (uint64_t)i + 1, 0);
    }
    rv_adapter_registry_settle(engine->adapters.registry);
    for (int i = 0; i < 12; i++) {
        snprintf(id, sizeof(id), "a%d", i % 6);
        assert_ok(try_submit(engine, id, 0, N_ANSWER, &ids[i], err));
    }
    assert_ok(try_submit(engine, "a0", 0, N_ANSWER, &late, err));
    assert_ok(ruvllm_engine_cancel(engine, late, err)); // waiting or not
    for (int i = 0; i < 12; i++) {
        struct ruvllm_response *r = drain(engine, ids[i]);

        assert_true(is_same(r, expected[i % 6]));
        ruvllm_response_free(r);
    }
    assert_ok(ruvllm_engine_stats_get(engine, &stats, err));
    assert_int_equal(stats.adapters, 6);
    assert_true(stats.adapters_loaded >= 2 && stats.adapters_layered <= 4);
    assert_int_equal(stats.adapters_waiting, 0);
    /* Closing with requests that run and wait. */
    for (int i = 0; i < 12; i++) {
        snprintf(id, sizeof(id), "a%d", i % 6);
        assert_ok(try_submit(engine, id, 0, 100, &ids[i], err));
    }
    ruvllm_engine_close(engine);
    remove_folder(wishes.adapter_dir);
    for (int i = 0; i < 6; i++)
        ruvllm_response_free(expected[i]);
}

static long resident_kib(void)
{
    char line[128];
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    assert_non_null(file);
    assert_non_null(fgets(line, sizeof(line), file));
    fclose(file);
    assert_int_equal(sscanf(line, "%*d %ld", &pages), 1);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static int n_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int n = 0;

    assert_non_null(folder);
    while (readdir(folder))
        n++;
    closedir(folder);
    return n;
}

struct churn {
    ruvllm_engine *engine;
    const char *files[4];
    atomic_bool is_over;
    atomic_int n_cycles;
    bool is_right;
};

static void *churn(void *arg)
{
    struct churn *c = arg;
    struct rv_rng rng;
    char id[8];

    c->is_right = true;
    rv_rng_init(&rng, 3);
    for (int i = 0; i < N_CYCLES; i++) {
        struct rv_adapter *adapter = make(c->engine->model, 0, 1 + rv_rng_below(&rng, 1000));
        int64_t generation;

        snprintf(id, sizeof(id), "c%d", (int)rv_rng_below(&rng, 6));
        if (ruvllm_engine_adapter_load(c->engine, id, c->files[rv_rng_below(&rng, 4)], -1, &generation, NULL))
            c->is_right = false;
        if (rv_engine_adapters_publish(&c->engine->adapters, id, -1, adapter, &generation, NULL))
            c->is_right = false;
        rv_adapter_unref(adapter);
        (void)!ruvllm_engine_adapter_unload(c->engine, id, i % 3 ? generation : 0, NULL);
        c->n_cycles++;
    }
    c->is_over = true;
    return NULL;
}

/* Keeps 16 streams going until the churning ends; they may find no adapter of a name, but never fail otherwise. */
static int stream_until_over(struct churn *c)
{
    uint64_t ids[N_STREAMS] = {0};
    struct rv_rng rng;
    int n_answers = 0;
    char id[8];

    rv_rng_init(&rng, 4);
    for (int i = 0; !c->is_over || i % N_STREAMS; i++) {
        uint64_t *slot = &ids[i % N_STREAMS];
        struct ruvllm_error error;
        ruvllm_status rc;

        if (*slot) {
            ruvllm_response_free(drain(c->engine, *slot));
            n_answers++;
        }
        *slot = 0;
        snprintf(id, sizeof(id), "c%d", (int)rv_rng_below(&rng, 6));
        rc = try_submit(c->engine, rv_rng_below(&rng, 4) ? id : NULL, 0, 8, slot, &error);
        assert_true(rc == RUVLLM_OK || rc == RUVLLM_NOT_FOUND);
    }
    for (int i = 0; i < N_STREAMS; i++) {
        if (ids[i])
            ruvllm_response_free(drain(c->engine, ids[i]));
    }
    return n_answers;
}

static void a_day_of_loading_and_unloading_leaves_nothing_behind(void **state)
{
    struct ruvllm_engine_params wishes = ruvllm_engine_params_default();
    struct churn c = {.is_over = false};
    long kib[2];
    int n_open[2], n_answers;
    pthread_t thread;

    (void)state;
    wishes.adapter_dir = new_folder();
    wishes.max_adapters = 4;
    c.engine = open_engine(&wishes);
    for (int i = 0; i < 4; i++)
        c.files[i] = write_adapter(c.engine, (uint64_t)i + 1, (uint64_t)i % 2);
    for (int round = 0; round < 2; round++) { // the first one warms up
        c.is_over = false;
        assert_int_equal(pthread_create(&thread, NULL, churn, &c), 0);
        n_answers = stream_until_over(&c);
        pthread_join(thread, NULL);
        assert_true(c.is_right);
        for (int i = 0; i < 6; i++) {
            char id[8];

            snprintf(id, sizeof(id), "c%d", i);
            (void)!ruvllm_engine_adapter_unload(c.engine, id, 0, NULL);
        }
        rv_adapter_registry_settle(c.engine->adapters.registry);
        assert_true(rv_adapter_census_check(c.engine->adapters.registry));
        kib[round] = resident_kib();
        n_open[round] = n_descriptors();
        print_message("%d cycles, %d answers, %ld KiB, %d descriptors\n", c.n_cycles, n_answers, kib[round],
                      n_open[round]);
    }
    assert_int_equal(n_open[1], n_open[0]);
#ifndef RUVLLM_IS_SANITIZED
    assert_true(kib[1] <= kib[0] + 4096); // pages the allocator keeps; 1,000 adapters are 150 MiB
#endif
    ruvllm_engine_close(c.engine);
    remove_folder(wishes.adapter_dir);
}

/* ---- doors ------------------------------------------------------------------------------------------ */

static void what_a_request_asks_for_is_checked(void **state)
{
    struct ruvllm_adapter_use uses[5] = {{"x", 0, 1}, {"x", 0, 1}, {"x", 0, 1}, {"x", 0, 1}, {"x", 0, 1}};
    struct ruvllm_input input = {.struct_size = sizeof(input), .text = "One", .text_len = 3};
    struct ruvllm_request request = {.struct_size = sizeof(request), .input = &input, .adapter = "nobody"};
    struct ruvllm_engine_params wishes = ruvllm_engine_params_default();
    ruvllm_engine *engine = open_engine(NULL), *other;
    struct ruvllm_error error;
    static float embedding[288];
    int32_t n_tokens;
    uint64_t id;

    (void)state;
    publish(engine, "x", 0, 1);
    assert_fails(ruvllm_engine_submit(engine, &request, &id, &error), RUVLLM_NOT_FOUND, error, "no adapter 'nobody'");
    request.adapter = "x";
    request.adapter_generation = 2;
    assert_fails(ruvllm_engine_submit(engine, &request, &id, &error), RUVLLM_NOT_FOUND, error, "no generation 2");
    request.adapters = uses;
    request.n_adapters = 1;
    assert_fails(ruvllm_engine_submit(engine, &request, &id, &error), RUVLLM_INVALID, error, "not both");
    request.adapter = NULL;
    request.n_adapters = 5;
    assert_fails(ruvllm_engine_submit(engine, &request, &id, &error), RUVLLM_INVALID, error, "up to 4");
    request.n_adapters = 2;
    uses[1].weight = NAN;
    assert_fails(ruvllm_engine_submit(engine, &request, &id, &error), RUVLLM_INVALID, error, "weight");
    uses[1] = (struct ruvllm_adapter_use){0};
    assert_fails(ruvllm_engine_submit(engine, &request, &id, &error), RUVLLM_INVALID, error, "no id");
    request.n_adapters = 1;
    assert_fails(ruvllm_engine_embed(engine, &request, embedding, 288, &n_tokens, &error), RUVLLM_UNSUPPORTED, error,
                 "adapter");
    wishes.max_adapters = 3;
    assert_fails(ruvllm_engine_open(&other, test_data(MODEL), &wishes, &error), RUVLLM_INVALID, error, "max_adapters");
    ruvllm_engine_close(engine);
}

static void a_folder_belongs_to_one_engine(void **state)
{
    struct ruvllm_engine_params wishes = ruvllm_engine_params_default();
    ruvllm_engine *engine, *other;
    struct ruvllm_error error;
    char left[512];

    (void)state;
    wishes.adapter_dir = new_folder();
    /* What an engine that was killed has left, and what is none of its business. */
    snprintf(left, sizeof(left), "%s/ab", wishes.adapter_dir);
    assert_int_equal(mkdir(left, 0700), 0);
    snprintf(left, sizeof(left), "%s/ab/%064d.gguf", wishes.adapter_dir, 7);
    test_write_file(left, "x", 1);
    engine = open_engine(&wishes);
    assert_int_not_equal(access(left, F_OK), 0);
    assert_fails(ruvllm_engine_open(&other, test_data(MODEL), &wishes, &error), RUVLLM_BUSY, error, "another engine");
    ruvllm_engine_close(engine);
    remove_folder(wishes.adapter_dir);
}

static void generations_are_listed_compared_and_exported(void **state)
{
    struct ruvllm_engine_params wishes = ruvllm_engine_params_default();
    struct ruvllm_adapter_info *infos;
    const char *path, *out = test_temp_path(".gguf");
    char *before, *after;
    size_t n, n_before, n_after;
    struct ruvllm_error error;
    ruvllm_engine *engine;
    int64_t generation;
    double norm;

    (void)state;
    wishes.adapter_dir = new_folder();
    engine = open_engine(&wishes);
    path = write_adapter(engine, 1, 1);
    assert_ok(ruvllm_engine_adapter_load(engine, "x", path, 0, &generation, err));
    assert_fails(ruvllm_engine_adapter_load(engine, "x", path, 0, &generation, &error), RUVLLM_CONFLICT, error,
                 "generation of adapter 'x' is 1");
    assert_int_equal(publish(engine, "x", 1, 2), 2);
    assert_ok(ruvllm_engine_adapter_list(engine, "x", &infos, &n, err));
    assert_int_equal(n, 2);
    assert_ok(ruvllm_engine_adapter_diff(engine, "x", 1, 1, &norm, err));
    assert_true(norm == 0);
    assert_ok(ruvllm_engine_adapter_diff(engine, "x", 1, 2, &norm, err));
    assert_true(norm > 0 && norm < infos[0].norm + infos[1].norm);
    ruvllm_free(infos);
    assert_ok(ruvllm_engine_adapter_export(engine, "x", 1, out, RUVLLM_ADAPTER_OWN, err));
    before = test_read_file(path, &n_before);
    after = test_read_file(out, &n_after);
    assert_int_equal(n_before, n_after);
    assert_memory_equal(before, after, n_before);
    free(before);
    free(after);
    assert_fails(ruvllm_engine_adapter_export(engine, "x", 3, out, RUVLLM_ADAPTER_OWN, &error), RUVLLM_NOT_FOUND, error,
                 "no generation 3");
    assert_fails(ruvllm_engine_adapter_load(engine, "x", test_data(MODEL), -1, &generation, &error), error.status,
                 error, "cannot load adapter 'x'");
    ruvllm_engine_close(engine);
    remove_folder(wishes.adapter_dir);
}

static void mixes_add_up(void **state)
{
    struct ruvllm_adapter_use nothing[2] = {{"a", 0, 0}, {"head", 0, 0}}, half[2] = {{"a", 0, 0.5f}, {"a", 0, 0.5f}};
    struct ruvllm_generate_params params = greedy(N_ANSWER);
    struct ruvllm_input input = {.struct_size = sizeof(input), .text = TEXT, .text_len = strlen(TEXT)};
    struct ruvllm_request request = {
        .struct_size = sizeof(request), .input = &input, .params = &params, .adapters = nothing, .n_adapters = 2};
    struct ruvllm_response *a = fresh_answer(1, 0), *none = fresh_answer(0, 0), *r;
    ruvllm_engine *engine = open_engine(NULL);
    uint64_t id;

    (void)state;
    publish(engine, "a", 1, 0);
    publish(engine, "head", 0, 1);
    assert_ok(ruvllm_engine_submit(engine, &request, &id, err));
    r = drain(engine, id);
    assert_true(is_same(r, none));
    ruvllm_response_free(r);
    request.adapters = half;
    assert_ok(ruvllm_engine_submit(engine, &request, &id, err));
    r = drain(engine, id);
    assert_true(is_same(r, a));
    assert_int_equal(r->cached_tokens, 0);
    assert_int_equal(r->adapter_generation, 1);
    ruvllm_response_free(r);
    ruvllm_response_free(a);
    ruvllm_response_free(none);
    ruvllm_engine_close(engine);
}

static void one_model_wears_one_adapter(void **state)
{
    struct ruvllm_model_params model_params = ruvllm_model_params_default();
    struct ruvllm_generate_params params = greedy(N_ANSWER);
    struct ruvllm_input input = {.struct_size = sizeof(input), .text = TEXT, .text_len = strlen(TEXT)};
    struct ruvllm_response *worn = fresh_answer(1, 5), *head = fresh_answer(0, 6), *none = fresh_answer(0, 0), *r;
    ruvllm_engine *engine = open_engine(NULL);
    const char *both_path = write_adapter(engine, 1, 5), *head_path = write_adapter(engine, 0, 6);
    struct ruvllm_error error;
    ruvllm_model *model;

    (void)state;
    ruvllm_engine_close(engine);
    model_params.max_context = CONTEXT;
    model_params.n_threads = 1;
    assert_ok(ruvllm_model_open(&model, test_data(MODEL), &model_params, err));
    assert_ok(ruvllm_model_set_adapter(model, both_path, 1, err));
    assert_ok(ruvllm_generate(model, &input, &params, &r, err));
    assert_true(is_same(r, worn));
    ruvllm_response_free(r);
    assert_ok(ruvllm_model_set_adapter(model, NULL, 0, err));
    assert_ok(ruvllm_generate(model, &input, &params, &r, err));
    assert_int_equal(r->cached_tokens, 0);
    assert_true(is_same(r, none));
    ruvllm_response_free(r);
    assert_ok(ruvllm_model_set_adapter(model, head_path, 1, err));
    assert_ok(ruvllm_generate(model, &input, &params, &r, err));
    assert_int_equal(r->cached_tokens, r->prompt_tokens - 1); // no layer has changed
    assert_true(is_same(r, head));
    ruvllm_response_free(r);
    assert_fails(ruvllm_model_set_adapter(model, head_path, NAN, &error), RUVLLM_INVALID, error, "weight");
    assert_fails(ruvllm_model_set_adapter(model, "no-such-file", 1, &error), RUVLLM_NOT_FOUND, error, "no-such-file");
    ruvllm_model_close(model);
    ruvllm_response_free(worn);
    ruvllm_response_free(head);
    ruvllm_response_free(none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cached_prefix_never_crosses_adapters),
        cmocka_unit_test(a_name_that_is_loaded_anew_has_caches_of_its_own),
        cmocka_unit_test(a_head_only_publish_keeps_every_cache),
        cmocka_unit_test(a_session_belongs_to_its_layers),
        cmocka_unit_test(no_request_changes_its_generation_midway),
        cmocka_unit_test(more_adapters_than_places_all_answer),
        cmocka_unit_test(a_day_of_loading_and_unloading_leaves_nothing_behind),
        cmocka_unit_test(what_a_request_asks_for_is_checked),
        cmocka_unit_test(a_folder_belongs_to_one_engine),
        cmocka_unit_test(generations_are_listed_compared_and_exported),
        cmocka_unit_test(mixes_add_up),
        cmocka_unit_test(one_model_wears_one_adapter),
    };

    test_need_data();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
