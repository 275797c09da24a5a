/* Anchors: some states of each text from all over it, and back from the store to the bit. */
#include "learn/anchors_store.h"
#include "base/alloc.h"
#include "kernels/vec.h"
#include "store/store_generations.h"
#include "support/store_fixture.h"

#include <string.h>

enum { DIMS = 4, VOCAB = 64 };

/* A text whose states say where in it they are. */
static void add_text(struct rv_anchors *anchors, int32_t n_rows)
{
    struct rv_trace *trace;

    assert_ok(rv_trace_new(&trace, 1, "t", DIMS, n_rows, err));
    trace->n_rows = n_rows;
    memset(trace->states, 0, (size_t)n_rows * DIMS * sizeof(*trace->states));
    for (int32_t i = 0; i < n_rows; i++)
        trace->states[i * DIMS] = rv_vec_to_bf16((float)i);
    for (int32_t i = 0; i < n_rows * RV_TRACE_TOP; i++)
        trace->top[i] = i % VOCAB;
    rv_anchors_add(anchors, trace);
    rv_trace_unref(trace);
}

static float place_of(const struct rv_anchors *anchors, int32_t i)
{
    return rv_vec_from_bf16(anchors->states[i * DIMS]);
}

static void each_text_gives_as_many_from_all_over_it(void **state)
{
    struct rv_anchors anchors;

    (void)state;
    assert_ok(rv_anchors_init(&anchors, DIMS, err));
    add_text(&anchors, 128);
    assert_int_equal(anchors.n, RV_ANCHORS_OF_TEXT);
    for (int32_t i = 0; i < anchors.n; i++)
        assert_true(place_of(&anchors, i) == (float)(4 * i + 2));
    add_text(&anchors, 64);
    assert_int_equal(anchors.n, 2 * RV_ANCHORS_OF_TEXT);
    for (int32_t i = 0; i < RV_ANCHORS_OF_TEXT; i++)
        assert_true(place_of(&anchors, RV_ANCHORS_OF_TEXT + i) == (float)(2 * i + 1));
    add_text(&anchors, 5); // all it has
    assert_int_equal(anchors.n, 2 * RV_ANCHORS_OF_TEXT + 5);
    for (int32_t i = 0; i < 5; i++)
        assert_true(place_of(&anchors, 2 * RV_ANCHORS_OF_TEXT + i) == (float)i);
    for (int i = 0; i < RV_ANCHORS_TEXTS; i++)
        add_text(&anchors, 40);
    assert_int_equal(anchors.n, RV_ANCHORS_MAX);
    rv_anchors_release(&anchors);
}

static void they_come_back_from_the_store(void **state)
{
    ruvllm_store *store = store_open(store_memory_path());
    struct rv_anchors made, read;

    (void)state;
    assert_ok(rv_anchors_init(&made, DIMS, err));
    add_text(&made, 128);
    assert_ok(rv_anchors_store_load(store, "m", DIMS, VOCAB, &read, err));
    assert_null(read.states); // not there yet
    assert_ok(rv_anchors_store_save(store, "m", &made, err));
    assert_ok(rv_anchors_store_load(store, "m", DIMS, VOCAB, &read, err));
    assert_int_equal(read.n, made.n);
    assert_memory_equal(read.states, made.states, (size_t)made.n * DIMS * sizeof(*made.states));
    assert_memory_equal(read.top, made.top, (size_t)made.n * RV_TRACE_TOP * sizeof(*made.top));
    rv_anchors_release(&read);
    rv_anchors_release(&made);
    ruvllm_store_close(store);
}

/* Keeps anchors as a program of another version would. */
static void save_version(ruvllm_store *store, const struct rv_anchors *anchors, int32_t version)
{
    struct rv_store_generation generation = {
        .tenant = ".states", .model = "m.anchors", .kind = RV_STORE_GENERATION_IMPORT, .is_active = true};
    char *bytes;
    size_t len;

    assert_ok(rv_anchors_store_pack(anchors, &bytes, &len, err));
    memcpy(bytes, &version, sizeof(version));
    assert_ok(rv_store_generations_add(store, &generation, bytes, len, err));
    rv_free(bytes);
}

static void those_of_few_texts_are_as_good_as_none(void **state)
{
    ruvllm_store *store = store_open(store_memory_path());
    struct rv_anchors made, read;
    struct ruvllm_error error;

    (void)state;
    assert_ok(rv_anchors_init(&made, DIMS, err));
    add_text(&made, 128);
    save_version(store, &made, 1);
    assert_ok(rv_anchors_store_load(store, "m", DIMS, VOCAB, &read, err));
    assert_null(read.states);
    assert_ok(rv_anchors_store_save(store, "m", &made, err)); // made anew, they take their place
    assert_ok(rv_anchors_store_load(store, "m", DIMS, VOCAB, &read, err));
    assert_int_equal(read.n, made.n);
    rv_anchors_release(&read);
    save_version(store, &made, 77);
    assert_int_equal(rv_anchors_store_load(store, "m", DIMS, VOCAB, &read, &error), RUVLLM_FORMAT);
    assert_null(read.states);
    rv_anchors_release(&made);
    ruvllm_store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_text_gives_as_many_from_all_over_it),
        cmocka_unit_test(they_come_back_from_the_store),
        cmocka_unit_test(those_of_few_texts_are_as_good_as_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
