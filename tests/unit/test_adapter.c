/* Adapters in memory: what is refused, what is copied, and who frees. */
#include "model/adapter.h"

#include "kernels/half.h"
#include "support/paper_model.h"
#include "support/test.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { RANK = 2, N_THREADS = 4, N_TURNS = 10000 };

/* Numbers that tell their place, in the same memory for every pair. */
struct source {
    float a[RANK * PAPER_FF];
    float b[RANK * PAPER_FF];
    int n_asked;
    int32_t last_layer;
    enum rv_part last_part;
    ruvllm_status answer;
    float first;
};

static ruvllm_status give(void *user, int32_t layer, enum rv_part part, struct rv_adapter_numbers *out,
                          struct ruvllm_error *err)
{
    struct source *s = user;

    if (s->answer)
        return rv_fail(err, s->answer, "no numbers today");
    if (layer >= 0 && s->n_asked > 0) // layers and parts go up, the head is last
        assert_true(layer > s->last_layer || (layer == s->last_layer && part > s->last_part));
    s->last_layer = layer;
    s->last_part = part;
    s->n_asked++;
    for (size_t i = 0; i < RANK * PAPER_FF; i++) {
        s->a[i] = (float)(layer + 1) + (float)part / 32 + (float)i / 256;
        s->b[i] = -s->a[i];
    }
    s->a[0] += s->first;
    *out = (struct rv_adapter_numbers){s->a, s->b};
    return RUVLLM_OK;
}

static ruvllm_status make(struct source *s, int32_t rank, enum rv_part part, float scale, int32_t head_rank,
                          struct rv_adapter **out, struct ruvllm_error *err)
{
    struct rv_adapter_pair layers[PAPER_LAYERS][RV_N_PARTS] = {0};
    struct rv_adapter_shape shape = {.hparams = &paper_llama.hparams,
                                     .manifest = &paper_llama.manifest,
                                     .layers = (void *)layers,
                                     .head_rank = head_rank,
                                     .head_scale = 0.5f};

    layers[1][part] = (struct rv_adapter_pair){.rank = rank, .scale = scale};
    layers[0][RV_PART_DOWN] = (struct rv_adapter_pair){.rank = RANK, .scale = 2.0f};
    return rv_adapter_new(out, &shape, give, s, err);
}

static void numbers_are_copied_and_turned(void **state)
{
    struct rv_adapter *adapter;
    struct source s = {0};
    const struct rv_adapter_pair *pair;

    (void)state;
    assert_ok(make(&s, RANK, RV_PART_K, 3.0f, 1, &adapter, err));
    assert_int_equal(s.n_asked, 3);
    assert_int_equal(adapter->max_rank, RANK);
    assert_int_equal(adapter->n_layers, PAPER_LAYERS);
    pair = &adapter->layers[1][RV_PART_K];
    assert_int_equal(pair->n_in, PAPER_EMBD);
    assert_int_equal(pair->n_out, PAPER_KV_HEADS * PAPER_HEAD_DIM);
    assert_true(pair->scale == 3.0f && adapter->head.scale == 0.5f);
    for (int32_t r = 0; r < RANK; r++) {
        for (int32_t i = 0; i < pair->n_in; i++)
            assert_int_equal(pair->a[r * pair->n_in + i],
                             rv_half_from_float(2.0f + (float)RV_PART_K / 32 + (float)(r * pair->n_in + i) / 256));
        for (int32_t i = 0; i < pair->n_out; i++) // B comes as [n_out][rank] and stays as its columns
            assert_int_equal(pair->b[r * pair->n_out + i],
                             rv_half_from_float(-2.0f - (float)RV_PART_K / 32 - (float)(i * RANK + r) / 256));
    }
    assert_int_equal((uintptr_t)pair->a % 64, 0);
    assert_int_equal((uintptr_t)adapter->head.b % 64, 0);
    assert_true(adapter->n_bytes > (uint64_t)2 * 2 * RANK * PAPER_EMBD);
    assert_null(adapter->layers[0][RV_PART_Q].a);
    rv_adapter_unref(adapter);
}

static void wrong_shapes_and_numbers_are_refused(void **state)
{
    struct rv_adapter *adapter;
    struct ruvllm_error fault = {0};
    struct source s = {0};

    (void)state;
    assert_fails(make(&s, 257, RV_PART_K, 1, 0, &adapter, &fault), RUVLLM_INVALID, fault, "rank 257");
    assert_fails(make(&s, -1, RV_PART_K, 1, 0, &adapter, &fault), RUVLLM_INVALID, fault, "rank -1");
    assert_fails(make(&s, 17, RV_PART_K, 1, 0, &adapter, &fault), RUVLLM_INVALID, fault, "between 1 and 16");
    assert_fails(make(&s, 1, RV_PART_QKV, 1, 0, &adapter, &fault), RUVLLM_INVALID, fault, "no matrix");
    assert_fails(make(&s, 1, RV_PART_ATTN_NORM, 1, 0, &adapter, &fault), RUVLLM_INVALID, fault, "no matrix");
    assert_fails(make(&s, 1, RV_PART_K, NAN, 0, &adapter, &fault), RUVLLM_INVALID, fault, "scale");
    assert_fails(make(&s, 0, RV_PART_K, 1, 33, &adapter, &fault), RUVLLM_INVALID, fault, "head's input");
    assert_int_equal(s.n_asked, 0);
    s.first = 65520.0f;
    assert_fails(make(&s, 0, RV_PART_K, 1, 0, &adapter, &fault), RUVLLM_INVALID, fault, "16 bits");
    s.answer = RUVLLM_IO;
    assert_fails(make(&s, 0, RV_PART_K, 1, 0, &adapter, &fault), RUVLLM_IO, fault, "today");
    assert_null(adapter);
    rv_adapter_unref(NULL);
}

static void *hold_and_let_go(void *user)
{
    struct rv_adapter *adapter = user;

    for (int i = 0; i < N_TURNS; i++) {
        struct rv_adapter *mine = rv_adapter_ref(adapter);

        if (mine->max_rank != RANK)
            abort();
        rv_adapter_unref(mine);
    }
    rv_adapter_unref(adapter); // the reference this thread was given
    return NULL;
}

static void any_thread_may_be_the_last(void **state)
{
    pthread_t threads[N_THREADS];
    struct rv_adapter *adapter;
    struct source s = {0};

    (void)state;
    assert_ok(make(&s, RANK, RV_PART_K, 1, 0, &adapter, err));
    for (int i = 0; i < N_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hold_and_let_go, rv_adapter_ref(adapter)), 0);
    rv_adapter_unref(adapter);
    for (int i = 0; i < N_THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_copied_and_turned),
        cmocka_unit_test(wrong_shapes_and_numbers_are_refused),
        cmocka_unit_test(any_thread_may_be_the_last),
    };

    return cmocka_run_group_tests(tests, paper_model_setup, paper_model_teardown);
}
