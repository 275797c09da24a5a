/* Results of deep runs as bytes: they come back as they were, and what is damaged is refused before room is made. */
#include "learn/deep_content.h"
#include "support/paper_model.h"
#include "support/test.h"

#include "base/alloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void make(struct rv_deep_content *out, bool has_fisher)
{
    struct rv_trainable_shape shape = {.hparams = &paper_llama.hparams,
                                       .manifest = &paper_llama.manifest,
                                       .parts = 1u << RV_PART_Q | 1u << RV_PART_DOWN,
                                       .rank = 3,
                                       .alpha = 6,
                                       .seed = 9};

    *out = (struct rv_deep_content){.rank = 3, .alpha = 6, .parts = shape.parts};
    assert_ok(rv_trainable_init(&out->trainable, &shape, err));
    assert_int_equal(rv_trainable_count(&shape), out->trainable.n);
    for (size_t i = 0; i < out->trainable.n; i++)
        out->trainable.values[i] += (float)i / 1000.0f;
    out->fisher = has_fisher ? rv_calloc(out->trainable.n, sizeof(float)) : NULL;
    for (size_t i = 0; i < out->trainable.n && has_fisher; i++)
        out->fisher[i] = (float)i;
}

static void what_was_written_comes_back(void **state)
{
    (void)state;
    for (int has_fisher = 0; has_fisher < 2; has_fisher++) {
        struct rv_deep_content made, read;
        struct rv_adapter *adapter;
        struct rv_str bytes;

        make(&made, has_fisher);
        assert_ok(rv_deep_content_write(&made, &bytes, err));
        assert_ok(rv_deep_content_read(&read, &paper_llama.hparams, &paper_llama.manifest, bytes, err));
        assert_true(read.rank == 3 && read.alpha == 6.0f && read.parts == made.parts);
        assert_int_equal(read.trainable.n, made.trainable.n);
        assert_memory_equal(read.trainable.values, made.trainable.values, made.trainable.n * sizeof(float));
        assert_true((read.fisher != NULL) == has_fisher);
        if (has_fisher)
            assert_memory_equal(read.fisher, made.fisher, made.trainable.n * sizeof(float));
        assert_ok(rv_deep_content_adapter(&read.trainable, &paper_llama.hparams, &paper_llama.manifest, &adapter, err));
        assert_true(adapter->layers[1][RV_PART_Q].rank == 3 && adapter->layers[1][RV_PART_K].rank == 0);
        assert_true(adapter->layers[0][RV_PART_DOWN].scale == 2.0f && adapter->head.rank == 0);
        rv_adapter_unref(adapter);
        rv_free((char *)(uintptr_t)bytes.data);
        rv_deep_content_release(&made);
        rv_deep_content_release(&read);
    }
}

static void what_is_damaged_is_refused(void **state)
{
    struct rv_deep_content made, read;
    struct ruvllm_error error;
    struct rv_str bytes;
    char *data;

    (void)state;
    make(&made, true);
    assert_ok(rv_deep_content_write(&made, &bytes, err));
    data = (char *)(uintptr_t)bytes.data;
    for (size_t len = 0; len < bytes.len; len += len < 40 ? 1 : 97)
        assert_fails(rv_deep_content_read(&read, &paper_llama.hparams, &paper_llama.manifest,
                                          (struct rv_str){data, len}, &error),
                     RUVLLM_FORMAT, error, "damaged");
    for (size_t at = 0; at < 32; at++) { // every byte of the header matters
        data[at] = (char)(data[at] ^ 0x41);
        if (at < 16 || at >= 20)
            assert_fails(rv_deep_content_read(&read, &paper_llama.hparams, &paper_llama.manifest, bytes, &error),
                         RUVLLM_FORMAT, error, "damaged");
        else if (!rv_deep_content_read(&read, &paper_llama.hparams, &paper_llama.manifest, bytes, NULL))
            rv_deep_content_release(&read); // another alpha is an alpha too
        data[at] = (char)(data[at] ^ 0x41);
    }
    memcpy(data + 40, &(float){NAN}, sizeof(float));
    assert_fails(rv_deep_content_read(&read, &paper_llama.hparams, &paper_llama.manifest, bytes, &error), RUVLLM_FORMAT,
                 error, "damaged");
    rv_free(data);
    rv_deep_content_release(&made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_comes_back),
        cmocka_unit_test(what_is_damaged_is_refused),
    };

    return cmocka_run_group_tests(tests, paper_model_setup, paper_model_teardown);
}
