/* Traces wait for feedback, as many as there is room for, each for its tenant alone. */
#include "learn/trace.h"
#include "support/test.h"

static struct rv_trace *make(uint64_t id, const char *tenant)
{
    struct rv_trace *trace;
    struct ruvllm_error err;

    assert_int_equal(rv_trace_new(&trace, id, tenant, 64, 10, &err), RUVLLM_OK);
    trace->n_rows = 10;
    for (int32_t i = 0; i < 10; i++)
        trace->tokens[i] = (int32_t)id * 100 + i;
    return trace;
}

static bool has_rows(struct rv_trace_ring *ring, uint64_t id)
{
    struct rv_trace *trace = rv_trace_ring_find(ring, id, "a");
    bool has = trace && rv_trace_has_rows(trace);

    rv_trace_unref(trace);
    return has;
}

static void a_trace_is_found_by_its_tenant_only(void **state)
{
    struct rv_trace_ring *ring;
    struct ruvllm_error err;
    struct rv_trace *found;

    (void)state;
    assert_int_equal(rv_trace_ring_new(&ring, 1 << 20, &err), RUVLLM_OK);
    rv_trace_ring_add(ring, make(7, "anna"));
    rv_trace_ring_add(ring, make(8, NULL));
    assert_null(rv_trace_ring_find(ring, 7, "bert"));
    assert_null(rv_trace_ring_find(ring, 7, NULL));
    assert_null(rv_trace_ring_find(ring, 9, "anna"));
    found = rv_trace_ring_find(ring, 7, "anna");
    assert_non_null(found);
    assert_int_equal(found->id, 7);
    rv_trace_unref(found);
    found = rv_trace_ring_find(ring, 8, "");
    assert_non_null(found);
    rv_trace_unref(found);
    rv_trace_ring_free(ring);
}

static void the_oldest_lose_their_rows_and_keep_their_words(void **state)
{
    static const int32_t asked[] = {1, 2, 3};
    struct rv_trace *first = make(1, "a"), *found;
    uint64_t size = rv_trace_n_bytes(first);
    struct rv_trace_ring *ring;
    struct ruvllm_error err;

    (void)state;
    assert_int_equal(rv_trace_set_prompt(first, asked, 3, &err), RUVLLM_OK);
    assert_int_equal(rv_trace_ring_new(&ring, 4 * size, &err), RUVLLM_OK); // rows of three
    rv_trace_ring_add(ring, first);
    for (uint64_t id = 2; id <= 4; id++)
        rv_trace_ring_add(ring, make(id, "a"));
    found = rv_trace_ring_find(ring, 1, "a");
    assert_non_null(found);
    assert_false(rv_trace_has_rows(found));
    assert_int_equal(found->n_rows, 10);
    assert_int_equal(found->tokens[9], 109);
    assert_memory_equal(found->prompt, asked, sizeof(asked));
    assert_true(rv_trace_can_be_read_again(found));
    assert_true(rv_trace_n_bytes(found) < size / 5);
    rv_trace_unref(found);
    assert_true(has_rows(ring, 2) && has_rows(ring, 4));
    found = rv_trace_ring_find(ring, 2, "a"); // nobody asked anything
    assert_false(rv_trace_can_be_read_again(found));
    rv_trace_unref(found);
    rv_trace_ring_free(ring);
}

static void who_has_a_trace_has_all_of_it(void **state)
{
    struct rv_trace *first = make(1, "a"), *found;
    uint64_t size = rv_trace_n_bytes(first);
    struct rv_trace_ring *ring;
    struct ruvllm_error err;

    (void)state;
    assert_int_equal(rv_trace_ring_new(&ring, 4 * size, &err), RUVLLM_OK);
    rv_trace_ring_add(ring, first);
    found = rv_trace_ring_find(ring, 1, "a");
    for (uint64_t id = 2; id <= 4; id++)
        rv_trace_ring_add(ring, make(id, "a"));
    assert_true(rv_trace_has_rows(found));
    assert_false(has_rows(ring, 2)); // which gives way for it
    rv_trace_unref(found);
    assert_true(has_rows(ring, 1));
    rv_trace_ring_add(ring, make(5, "a"));
    assert_false(has_rows(ring, 1));
    found = rv_trace_ring_find(ring, 5, "a");
    rv_trace_ring_resize(ring, 0); // also what somebody has
    assert_null(rv_trace_ring_find(ring, 5, "a"));
    assert_true(rv_trace_has_rows(found));
    assert_string_equal(found->tenant, "a");
    rv_trace_unref(found);
    rv_trace_ring_add(ring, make(6, "a"));
    assert_null(rv_trace_ring_find(ring, 6, "a"));
    rv_trace_ring_free(ring);
}

/* Words of thousands, by ids of which many look alike, within the room that was given. */
static void words_of_many_answers_are_kept(void **state)
{
    enum { N = 20000 };
    struct rv_trace *sample = make(1, "a");
    uint64_t room = 2000 * rv_trace_n_bytes(sample), n_bytes = 0;
    struct rv_trace_ring *ring;
    struct ruvllm_error err;
    int n_found = 0, n_whole = 0;

    (void)state;
    rv_trace_unref(sample);
    assert_int_equal(rv_trace_ring_new(&ring, room, &err), RUVLLM_OK);
    for (uint64_t id = 1; id <= N; id++)
        rv_trace_ring_add(ring, make(id * 512, "a"));
    for (uint64_t id = 1; id <= N; id++) {
        struct rv_trace *trace = rv_trace_ring_find(ring, id * 512, "a");

        if (!trace)
            continue;
        assert_int_equal(trace->tokens[3], (int32_t)(id * 512) * 100 + 3);
        n_bytes += rv_trace_n_bytes(trace);
        n_found++;
        n_whole += rv_trace_has_rows(trace);
        rv_trace_unref(trace);
    }
    assert_true(n_bytes <= room);
    assert_true(n_whole > 1400 && n_found > 2 * n_whole);
    assert_true(has_rows(ring, (uint64_t)N * 512));
    assert_null(rv_trace_ring_find(ring, 512, "a"));
    rv_trace_ring_free(ring);
}

static void an_answer_takes_the_room_it_has_come_to(void **state)
{
    struct rv_trace *trace, *found;
    struct rv_trace_ring *ring;
    struct ruvllm_error err;

    (void)state;
    assert_int_equal(rv_trace_ring_new(&ring, 1 << 20, &err), RUVLLM_OK);
    assert_int_equal(rv_trace_new(&trace, 1, "a", 64, 100000, &err), RUVLLM_OK);
    trace->n_rows = 3;
    for (int i = 0; i < 3 * 64; i++)
        trace->states[i] = (uint16_t)i;
    rv_trace_ring_add(ring, trace);
    found = rv_trace_ring_find(ring, 1, "a");
    assert_int_equal(found->cap, 3);
    assert_int_equal(found->states[3 * 64 - 1], 3 * 64 - 1);
    rv_trace_unref(found);
    rv_trace_ring_free(ring);
}

static void a_ring_gives_all_it_has_to_another(void **state)
{
    struct rv_trace_ring *from, *to;
    struct ruvllm_error err;

    (void)state;
    assert_int_equal(rv_trace_ring_new(&from, 1 << 20, &err), RUVLLM_OK);
    assert_int_equal(rv_trace_ring_new(&to, 1 << 20, &err), RUVLLM_OK);
    for (uint64_t id = 1; id <= 5; id++)
        rv_trace_ring_add(from, make(id, "a"));
    rv_trace_ring_move(to, from);
    for (uint64_t id = 1; id <= 5; id++) {
        assert_true(has_rows(to, id));
        assert_null(rv_trace_ring_find(from, id, "a"));
    }
    rv_trace_ring_free(from);
    rv_trace_ring_free(to);
}

static void long_answers_leave_their_beginning(void **state)
{
    struct rv_trace *trace;
    struct ruvllm_error err;

    (void)state;
    assert_int_equal(rv_trace_new(&trace, 1, "a", 8, 100000, &err), RUVLLM_OK);
    assert_int_equal(trace->cap, RV_TRACE_MAX_ROWS);
    rv_trace_unref(trace);
}

static void what_was_asked_is_kept_up_to_a_bound(void **state)
{
    static int32_t tokens[RV_TRACE_MAX_PROMPT + 1];
    struct rv_trace *trace = make(1, "a"), *other = make(2, "a");
    uint64_t before = rv_trace_n_bytes(trace);
    struct ruvllm_error err;
    int32_t context[3];

    (void)state;
    for (int32_t i = 0; i <= RV_TRACE_MAX_PROMPT; i++)
        tokens[i] = i;
    rv_trace_context(trace, 0, context, 3);
    assert_true(context[0] == -1 && context[1] == -1);
    assert_int_equal(rv_trace_set_prompt(trace, tokens, 10, &err), RUVLLM_OK);
    assert_memory_equal(trace->prompt, tokens, 10 * sizeof(*tokens));
    assert_int_equal(rv_trace_n_bytes(trace), before + 10 * sizeof(*tokens));
    trace->tokens[0] = 77;
    rv_trace_context(trace, 1, context, 3);
    assert_true(context[0] == 77 && context[1] == 9 && context[2] == 8);
    assert_int_equal(rv_trace_set_prompt(other, tokens, RV_TRACE_MAX_PROMPT + 1, &err), RUVLLM_OK);
    assert_null(other->prompt);
    assert_int_equal(other->n_prompt, RV_TRACE_MAX_PROMPT + 1);
    rv_trace_context(other, 0, context, 3);
    assert_true(context[0] == RV_TRACE_MAX_PROMPT && context[1] == -1);
    rv_trace_unref(trace);
    rv_trace_unref(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trace_is_found_by_its_tenant_only),
        cmocka_unit_test(the_oldest_lose_their_rows_and_keep_their_words),
        cmocka_unit_test(who_has_a_trace_has_all_of_it),
        cmocka_unit_test(words_of_many_answers_are_kept),
        cmocka_unit_test(an_answer_takes_the_room_it_has_come_to),
        cmocka_unit_test(a_ring_gives_all_it_has_to_another),
        cmocka_unit_test(long_answers_leave_their_beginning),
        cmocka_unit_test(what_was_asked_is_kept_up_to_a_bound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
