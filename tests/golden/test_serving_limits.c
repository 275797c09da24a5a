/*
 * The engine where there is not enough: memory that is pressed for, answers that are interrupted, readers that are
 * slow, shares that differ. What outlives it: sessions.
 */
#include "base/clock.h"
#include "base/rng.h"
#include "support/serving_bed.h"

#include <math.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Memory for four sequences, and twelve that want it: all answers come, and they are the ones of an engine with room.
 */
static struct ruvllm_engine_stats compare_pressed(struct ruvllm_engine_params tight)
{
    struct ruvllm_kv_policy f16 = ruvllm_kv_policy_default();
    struct ruvllm_engine_params roomy = ruvllm_engine_params_default();
    struct ruvllm_generate_params params = bed_greedy(200);
    struct ruvllm_response *expected[12], *answer;
    struct ruvllm_engine_stats stats;
    ruvllm_engine *engine;
    double noise = 1e-6;
    uint64_t ids[12];
    size_t n_different = 0;

    f16.cold = RUVLLM_PRECISION_FP16;
    roomy.kv = tight.kv = &f16;
    params.ignore_eos = true;
    engine = bed_open("models/stories260K.gguf", &roomy);
    for (int i = 0; i < 12; i++)
        expected[i] = bed_drain(engine, bed_submit(engine, bed_beginnings[i % 8], i % 2 ? "a" : "b", &params));
    ruvllm_engine_close(engine);
    tight.kv_bytes = 28 * 24 * 1024; // 28 blocks; one sequence takes seven
    engine = bed_open("models/stories260K.gguf", &tight);
    for (int i = 0; i < 12; i++)
        ids[i] = bed_submit(engine, bed_beginnings[i % 8], i % 2 ? "a" : "b", &params);
    for (int i = 0; i < 12; i++) {
        answer = bed_drain(engine, ids[i]);
        n_different += bed_compare(expected[i], answer, &noise);
        ruvllm_response_free(answer);
        ruvllm_response_free(expected[i]);
    }
    bed_wait_until_idle(engine);
    stats = bed_stats(engine);
    print_message("%d preemptions, %d blocks spilled, %d restored, %zu answers differ\n", (int)stats.preempted,
                  (int)stats.blocks_spilled, (int)stats.blocks_restored, n_different);
    assert_true(stats.preempted > 0);
    assert_true(n_different <= 1);
    ruvllm_engine_close(engine);
    return stats;
}

static void pressure_changes_no_answer_in_f16(void **state)
{
    (void)state;
    assert_int_equal(compare_pressed(ruvllm_engine_params_default()).blocks_spilled, 0);
}

/* Without the tree, so that what comes back comes from the file. */
static void pressure_changes_no_answer_where_blocks_are_spilled(void **state)
{
    struct ruvllm_engine_params spilling = ruvllm_engine_params_default();
    struct ruvllm_engine_stats stats;

    (void)state;
    spilling.share_prefixes = false;
    spilling.spill_dir = "/tmp";
    spilling.spill_bytes = 16 << 20;
    stats = compare_pressed(spilling);
    assert_true(stats.blocks_restored > 0);
    assert_int_equal(stats.blocks_restored, stats.blocks_spilled);
    assert_int_equal(stats.spill_failures, 0);
}

static uint64_t submit_urgent(ruvllm_engine *engine, const char *text, const struct ruvllm_generate_params *params)
{
    struct ruvllm_input input = {.struct_size = sizeof(input), .text = text, .text_len = strlen(text)};
    struct ruvllm_request request = {
        .struct_size = sizeof(request), .input = &input, .params = params, .priority = 100};
    uint64_t id;

    assert_ok(ruvllm_engine_submit(engine, &request, &id, err));
    return id;
}

/*
 * One place, and others who take it again and again. What was interrupted lies in the file in three precisions; when it
 * goes on, nothing is computed twice, so there is not even noise: the answer is that of an engine that never stopped.
 */
static void an_interrupted_answer_is_the_same_to_the_bit(void **state)
{
    struct ruvllm_engine_params wishes = ruvllm_engine_params_default();
    struct ruvllm_kv_policy tiers = ruvllm_kv_policy_default();
    struct ruvllm_generate_params params = bed_greedy(120), brief = bed_greedy(4);
    struct ruvllm_event event = {.struct_size = sizeof(event)};
    struct ruvllm_response *expected, *answer;
    struct ruvllm_engine_stats stats;
    char *text = bed_long_text(22);
    ruvllm_engine *engine;
    uint64_t id;

    (void)state;
    tiers.hot_tokens = 32;
    tiers.warm_tokens = 64;
    params.ignore_eos = true;
    wishes.kv = &tiers;
    wishes.max_sequences = 1;
    wishes.share_prefixes = false;
    wishes.spill_dir = "/tmp";
    wishes.spill_bytes = 64 << 20;
    engine = bed_open("models/minimind2-26m-f16.gguf", &wishes);
    expected = bed_drain(engine, bed_submit(engine, text, NULL, &params));
    assert_int_equal(bed_stats(engine).blocks_spilled, 0);
    id = bed_submit(engine, text, NULL, &params);
    for (int i = 0; i < 4; i++) {
        assert_ok(ruvllm_engine_next_event(engine, id, 60000, &event, err));
        assert_int_equal(event.type, RUVLLM_EVENT_TEXT);
        ruvllm_response_free(bed_drain(engine, submit_urgent(engine, bed_beginnings[i], &brief)));
    }
    do
        assert_ok(ruvllm_engine_next_event(engine, id, 60000, &event, err));
    while (event.type != RUVLLM_EVENT_DONE);
    answer = event.response;
    assert_int_equal(answer->n_tokens, expected->n_tokens);
    assert_memory_equal(answer->tokens, expected->tokens, answer->n_tokens * sizeof(*answer->tokens));
    for (size_t i = 0; i < answer->n_tokens * answer->logprobs_per_token; i++)
        assert_true(answer->logprobs[i].logprob == expected->logprobs[i].logprob);
    bed_wait_until_idle(engine);
    stats = bed_stats(engine);
    print_message("%d preemptions, %d blocks spilled, %d restored\n", (int)stats.preempted, (int)stats.blocks_spilled,
                  (int)stats.blocks_restored);
    assert_true(stats.preempted >= 2 && stats.blocks_restored > 16);
    assert_int_equal(stats.blocks_squeezed, 0);
    ruvllm_response_free(expected);
    ruvllm_response_free(answer);
    ruvllm_engine_close(engine);
    free(text);
}

static void a_spill_folder_that_is_not_there_is_an_error(void **state)
{
    struct ruvllm_engine_params wishes = ruvllm_engine_params_default();
    struct ruvllm_error failure;
    ruvllm_engine *engine;

    (void)state;
    test_need_file(test_data("models/stories260K.gguf"));
    wishes.spill_dir = "/tmp/there/is/no/such/folder";
    wishes.spill_bytes = 1 << 20;
    assert_fails(ruvllm_engine_open(&engine, test_data("models/stories260K.gguf"), &wishes, &failure), RUVLLM_NOT_FOUND,
                 failure, "cannot make a spill file");
    wishes.spill_dir = "/tmp";
    wishes.spill_bytes = 1;
    assert_fails(ruvllm_engine_open(&engine, test_data("models/stories260K.gguf"), &wishes, &failure), RUVLLM_INVALID,
                 failure, "no room for a block");
}

static void a_session_outlives_its_engine(void **state)
{
    struct ruvllm_generate_params params = bed_greedy(8);
    const char *path = test_temp_path(".session");
    char *text = bed_long_text(15);
    struct ruvllm_input input = {.struct_size = sizeof(input), .text = text, .text_len = strlen(text)};
    struct ruvllm_request mine = bed_request(&input, "a"), theirs = bed_request(&input, "b");
    struct ruvllm_response *first, *again;
    struct ruvllm_error failure;
    ruvllm_engine *engine;
    int32_t n_saved, n_loaded;

    (void)state;
    engine = bed_open("models/minimind2-26m-f16.gguf", NULL);
    assert_fails(ruvllm_engine_save_session(engine, &mine, path, &n_saved, &failure), RUVLLM_NOT_FOUND, failure,
                 "nothing of this conversation");
    first = bed_drain(engine, bed_submit(engine, text, "a", &params));
    assert_ok(ruvllm_engine_save_session(engine, &mine, path, &n_saved, err));
    assert_true(n_saved >= first->prompt_tokens / 32 * 32);
    ruvllm_engine_close(engine);

    engine = bed_open("models/minimind2-26m-f16.gguf", NULL);
    assert_fails(ruvllm_engine_load_session(engine, &theirs, path, &n_loaded, &failure), RUVLLM_INVALID, failure,
                 "another tenant");
    assert_ok(ruvllm_engine_load_session(engine, &mine, path, &n_loaded, err));
    assert_int_equal(n_loaded, n_saved);
    again = bed_drain(engine, bed_submit(engine, text, "a", &params));
    assert_int_equal(again->cached_tokens, (again->prompt_tokens - 1) / 32 * 32);
    assert_int_equal(again->n_tokens, first->n_tokens);
    assert_memory_equal(again->tokens, first->tokens, first->n_tokens * sizeof(*first->tokens));
    ruvllm_engine_close(engine);

    engine = bed_open("models/stories15M-f16.gguf", NULL);
    assert_fails(ruvllm_engine_load_session(engine, &mine, path, &n_loaded, &failure), RUVLLM_INVALID, failure,
                 "another model");
    ruvllm_engine_close(engine);
    ruvllm_response_free(first);
    ruvllm_response_free(again);
    free(text);
}

static void count_event(void *user, uint64_t id)
{
    (void)id;
    atomic_fetch_add((atomic_int *)user, 1);
}

static void listeners_are_called_and_slow_readers_miss_nothing(void **state)
{
    struct ruvllm_generate_params params = bed_greedy(40);
    struct ruvllm_input input = {.struct_size = sizeof(input), .text = "One day", .text_len = 7};
    struct ruvllm_request request = bed_request(&input, NULL);
    const struct timespec moment = {.tv_nsec = 1000000};
    ruvllm_engine *engine = bed_open("models/stories260K.gguf", NULL);
    struct ruvllm_response *answer;
    atomic_int n_events = 0;
    uint64_t id;

    (void)state;
    params.ignore_eos = true;
    request.params = &params;
    request.on_event = count_event;
    request.user = &n_events;
    assert_ok(ruvllm_engine_submit(engine, &request, &id, err));
    for (int i = 0; i < 10000 && atomic_load(&n_events) < 41; i++)
        nanosleep(&moment, NULL);
    assert_true(atomic_load(&n_events) >= 40); // one a token, and the end
    answer = bed_drain(engine, id);            // all of it at once
    assert_int_equal(answer->n_tokens, 40);
    ruvllm_response_free(answer);
    ruvllm_engine_close(engine);
}

enum { EMBED_CAP = 1024 };

static double similarity(const float *a, const float *b, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

/* Long enough for several pieces, while somebody else's answer goes on. */
static void embeddings_are_made_beside_what_runs(void **state)
{
    struct ruvllm_generate_params params = bed_greedy(200);
    struct ruvllm_model_params own = ruvllm_model_params_default();
    static char text[BED_MAX_PROMPT];
    static float alone[EMBED_CAP], beside[EMBED_CAP];
    struct ruvllm_input input = {.struct_size = sizeof(input), .text = text};
    struct ruvllm_request request = bed_request(&input, NULL);
    ruvllm_engine *engine = bed_open("models/stories15M-f16.gguf", NULL);
    struct ruvllm_error failure;
    ruvllm_model *model;
    int32_t n_tokens;
    uint64_t id;

    (void)state;
    for (int i = 0; i < 24; i++)
        input.text_len += (size_t)snprintf(text + input.text_len, 64, "%s number %d. ", bed_beginnings[i % 8], i);
    own.max_context = BED_CONTEXT;
    own.n_threads = bed_n_threads;
    assert_ok(ruvllm_model_open(&model, test_data("models/stories15M-f16.gguf"), &own, err));
    assert_ok(ruvllm_embed(model, &input, alone, EMBED_CAP, err));
    params.ignore_eos = true;
    id = bed_submit(engine, "One day", NULL, &params);
    assert_ok(ruvllm_engine_embed(engine, &request, beside, EMBED_CAP, &n_tokens, err));
    assert_in_range(n_tokens, 129, 256);
    assert_true(fabs(similarity(beside, beside, 288) - 1) < 1e-4);
    assert_true(similarity(alone, beside, 288) > 0.9999);
    ruvllm_response_free(bed_drain(engine, id));
    bed_wait_until_idle(engine);
    assert_int_equal(bed_stats(engine).kv_blocks_f16, bed_stats(engine).kv_blocks_idle); // nothing is held
    assert_fails(ruvllm_engine_embed(engine, &request, beside, 7, &n_tokens, &failure), RUVLLM_INVALID, failure,
                 "room");
    input.text_len = 0;
    input.no_bos = true;
    assert_fails(ruvllm_engine_embed(engine, &request, beside, EMBED_CAP, &n_tokens, &failure), RUVLLM_INVALID, failure,
                 "nothing to embed");
    ruvllm_model_close(model);
    ruvllm_engine_close(engine);
}

enum { SHARE_TOKENS = 16, N_OF_EACH = 256, N_COMPARED = 240 };

/* In which order requests end, told by the engine's own thread: how often this one gets to run changes nothing. */
struct finish {
    atomic_int n;
    int order[2 * N_OF_EACH];
};

struct sharer {
    struct finish *finish;
    int who, n_events;
};

static void note_finish(void *user, uint64_t id)
{
    struct sharer *sharer = user;
    int n = atomic_load(&sharer->finish->n);

    (void)id;
    if (++sharer->n_events != SHARE_TOKENS)
        return;
    sharer->finish->order[n] = sharer->who;
    atomic_store(&sharer->finish->n, n + 1);
}

static uint64_t submit_weighted(ruvllm_engine *engine, int i, float share, struct sharer *sharer)
{
    struct ruvllm_generate_params params = bed_greedy(SHARE_TOKENS);
    char text[128];
    struct ruvllm_input input = {.struct_size = sizeof(input), .text = text};
    struct ruvllm_request request = bed_request(&input, share > 1 ? "three" : "one");
    uint64_t id;

    params.ignore_eos = true;
    input.text_len = (size_t)snprintf(text, sizeof(text), "%s %d and then they went home", bed_beginnings[i % 8], i);
    request.params = &params;
    request.share = share;
    request.on_event = note_finish;
    request.user = sharer;
    assert_ok(ruvllm_engine_submit(engine, &request, &id, err));
    return id;
}

/* Both have more waiting than is looked at, so which goes first is the engine's choice throughout. */
static void who_has_three_shares_is_served_three_times_as_much(void **state)
{
    struct ruvllm_engine_params wishes = ruvllm_engine_params_default();
    static const float shares[2] = {1, 3};
    static struct sharer sharers[2 * N_OF_EACH];
    static struct finish finish;
    uint64_t ids[2 * N_OF_EACH];
    int n_done[2] = {0}, first;
    ruvllm_engine *engine;

    (void)state;
    wishes.max_sequences = 4;
    wishes.max_queue = 2 * N_OF_EACH;
    wishes.prefill_tokens = 16; // shares are compared in steps of eight times as much
    wishes.share_prefixes = false;
    engine = bed_open("models/stories260K.gguf", &wishes);
    for (int i = 0; i < 2 * N_OF_EACH; i++) {
        sharers[i] = (struct sharer){.finish = &finish, .who = i % 2};
        ids[i] = submit_weighted(engine, i, shares[i % 2], &sharers[i]);
    }
    first = atomic_load(&finish.n);
    for (int i = 0; i < 2 * N_OF_EACH; i++)
        ruvllm_response_free(bed_drain(engine, ids[i]));
    assert_in_range(first, 0, 2 * N_OF_EACH / 4);
    for (int i = first; i < first + N_COMPARED; i++)
        n_done[finish.order[i]]++;
    print_message("%d answers for share 3, %d for share 1\n", n_done[1], n_done[0]);
    assert_in_range(100 * n_done[1] / n_done[0], 250, 360);
    ruvllm_engine_close(engine);
}

static void a_share_that_is_none_is_refused(void **state)
{
    static const float wrong[] = {-1, 1001, NAN, INFINITY};
    struct ruvllm_input input = {.struct_size = sizeof(input), .text = "a", .text_len = 1};
    struct ruvllm_request request = bed_request(&input, NULL);
    ruvllm_engine *engine = bed_open("models/stories260K.gguf", NULL);
    struct ruvllm_error failure;
    uint64_t id;

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        request.share = wrong[i];
        assert_fails(ruvllm_engine_submit(engine, &request, &id, &failure), RUVLLM_INVALID, failure, "share");
    }
    request.share = 3;
    request.struct_size = offsetof(struct ruvllm_request, share); // a caller that does not know it
    assert_ok(ruvllm_engine_submit(engine, &request, &id, err));
    ruvllm_response_free(bed_drain(engine, id));
    ruvllm_engine_close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pressure_changes_no_answer_in_f16),
        cmocka_unit_test(pressure_changes_no_answer_where_blocks_are_spilled),
        cmocka_unit_test(an_interrupted_answer_is_the_same_to_the_bit),
        cmocka_unit_test(a_spill_folder_that_is_not_there_is_an_error),
        cmocka_unit_test(a_session_outlives_its_engine),
        cmocka_unit_test(listeners_are_called_and_slow_readers_miss_nothing),
        cmocka_unit_test(embeddings_are_made_beside_what_runs),
        cmocka_unit_test(who_has_three_shares_is_served_three_times_as_much),
        cmocka_unit_test(a_share_that_is_none_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
