/* Traces wait for feedback, as many as there is room for, each for its tenant alone. */
#include "learn/trace.h"
#include "support/test.h"

static struct rv_trace *make(uint64_t id, const char *tenant)
{
    struct rv_trace *trace;
    struct ruvllm_error err;

    assert_int_equal(rv_trace_new(&trace, id, tenant, 64, 10, &err), RUVLLM_OK);
    return trace;
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

static void the_oldest_goes_and_stays_alive_for_who_has_it(void **state)
{
    struct rv_trace *first = make(1, "a"), *found;
    struct rv_trace_ring *ring;
    struct ruvllm_error err;

    (void)state;
    assert_int_equal(rv_trace_ring_new(&ring, 3 * rv_trace_n_bytes(first), &err), RUVLLM_OK);
    rv_trace_ring_add(ring, first);
    found = rv_trace_ring_find(ring, 1, "a");
    for (uint64_t id = 2; id <= 4; id++)
        rv_trace_ring_add(ring, make(id, "a"));
    assert_null(rv_trace_ring_find(ring, 1, "a"));
    assert_string_equal(found->tenant, "a");
    rv_trace_unref(found);
    found = rv_trace_ring_find(ring, 2, "a");
    assert_non_null(found);
    rv_trace_unref(found);
    rv_trace_ring_resize(ring, 0);
    assert_null(rv_trace_ring_find(ring, 4, "a"));
    rv_trace_ring_add(ring, make(5, "a"));
    assert_null(rv_trace_ring_find(ring, 5, "a"));
    rv_trace_ring_free(ring);
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
        cmocka_unit_test(the_oldest_goes_and_stays_alive_for_who_has_it),
        cmocka_unit_test(long_answers_leave_their_beginning),
        cmocka_unit_test(what_was_asked_is_kept_up_to_a_bound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
