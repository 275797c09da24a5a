/*
 * The decoder on a real model: however a sequence is cut into batches, mixed with others or read out in part, its
 * logits stay those of the sequence computed alone and whole.
 *
 * Tolerance: batches of different sizes run through different kernels of ggml, whose sums differ in order and by up to
 * 5e-4 on these logits (F32 weights, F16 cache); a wrong mask or position gives more than 0.2.
 */
#include "graph/decoder.h"
#include "support/test.h"

#include "base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH = 40, CONTEXT = 128, ROWS = 64 };
static const double TOLERANCE = 5e-3;

struct fixture {
    struct rv_gguf_file *file;
    struct rv_hparams hparams;
    struct rv_manifest manifest;
    struct rv_weights weights;
    struct rv_device *device;
    struct rv_kv_cache *kv;
    struct rv_decoder *decoder;
    int32_t tokens[2][LENGTH];
    float *alone[2]; // logits of each sequence computed whole
};

static struct fixture f;

static int setup(void **state)
{
    const char *path = test_data("models/stories260K.gguf");
    struct rv_rope_override rope = {.ext_factor = -1};
    struct rv_weights_options options = {.use_mmap = true, .repack = true};
    struct rv_decoder_config config;
    struct rv_rng rng;

    (void)state;
    assert_ok(rv_gguf_file_open(&f.file, path, err));
    assert_ok(rv_hparams_read(&f.hparams, f.file, &rope, err));
    assert_ok(rv_manifest_init(&f.manifest, f.file, &f.hparams, err));
    assert_ok(rv_device_open(&f.device, "cpu", 2, err));
    assert_ok(rv_weights_load(&f.weights, f.file, &f.manifest, &f.hparams, f.device, &options, err));
    assert_ok(rv_kv_cache_new(&f.kv, &f.hparams, f.device, CONTEXT, err));
    config = (struct rv_decoder_config){.hparams = &f.hparams,
                                        .weights = &f.weights,
                                        .device = f.device,
                                        .kv = f.kv,
                                        .max_rows = ROWS,
                                        .max_context = CONTEXT};
    assert_ok(rv_decoder_new(&f.decoder, &config, err));
    rv_rng_init(&rng, 3);
    for (int s = 0; s < 2; s++) {
        for (int i = 0; i < LENGTH; i++)
            f.tokens[s][i] = i ? 3 + (int32_t)rv_rng_below(&rng, 500) : 1;
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rv_decoder_free(f.decoder);
    rv_kv_cache_free(f.kv);
    rv_weights_release(&f.weights);
    rv_manifest_release(&f.manifest);
    rv_device_close(f.device);
    rv_gguf_file_close(f.file);
    free(f.alone[0]);
    free(f.alone[1]);
    return 0;
}

/* Runs rows of sequences; out lists the rows to read. Copies the results. */
static void run(const int32_t *tokens, const int32_t *pos, const int32_t *seq, int32_t n, const int32_t *out,
                int32_t n_out, float *logits)
{
    struct rv_batch batch = {.n_rows = n, .tokens = tokens, .pos = pos, .seq = seq, .out_rows = out, .n_out = n_out};
    float *rows;

    assert_ok(rv_decoder_run(f.decoder, &batch, RV_DECODER_LOGITS, &rows, err));
    assert_true((rows == NULL) == (n_out == 0));
    if (n_out && logits)
        memcpy(logits, rows, (size_t)n_out * (size_t)f.hparams.n_vocab * sizeof(float));
}

static void expect_row(const float *row, int s, int32_t pos)
{
    const float *want = f.alone[s] + (size_t)pos * (size_t)f.hparams.n_vocab;
    double worst = 0;

    for (int32_t i = 0; i < f.hparams.n_vocab; i++)
        worst = fmax(worst, fabs((double)row[i] - (double)want[i]));
    if (!(worst < TOLERANCE))
        fail_msg("sequence %d position %d is off by %g", s, pos, worst);
}

static float *new_rows(int32_t n)
{
    float *rows = malloc((size_t)n * (size_t)f.hparams.n_vocab * sizeof(float));

    assert_non_null(rows);
    return rows;
}

static void compute_alone(void **state)
{
    int32_t pos[LENGTH], seq[LENGTH] = {0}, out[LENGTH];

    (void)state;
    for (int32_t i = 0; i < LENGTH; i++)
        pos[i] = out[i] = i;
    for (int s = 0; s < 2; s++) {
        f.alone[s] = new_rows(LENGTH);
        run(f.tokens[s], pos, seq, LENGTH, out, LENGTH, f.alone[s]);
        rv_kv_cache_seq_trim(f.kv, 0, 0);
    }
}

static void token_by_token_gives_the_same_as_all_at_once(void **state)
{
    float *row = new_rows(1);
    int32_t seq = 0, out = 0;

    (void)state;
    for (int32_t i = 0; i < LENGTH; i++) {
        run(&f.tokens[0][i], &i, &seq, 1, &out, 1, row);
        expect_row(row, 0, i);
    }
    rv_kv_cache_seq_trim(f.kv, 0, 0);
    free(row);
}

static void two_sequences_mixed_row_by_row_do_not_see_each_other(void **state)
{
    int32_t tokens[20], pos[20], seq[20], out[20];
    float *rows = new_rows(20);

    (void)state;
    for (int32_t start = 0; start < LENGTH; start += 10) {
        for (int32_t i = 0; i < 20; i++) {
            seq[i] = i % 2;
            pos[i] = start + i / 2;
            tokens[i] = f.tokens[seq[i]][pos[i]];
            out[i] = i;
        }
        run(tokens, pos, seq, 20, out, 20, rows);
        for (int32_t i = 0; i < 20; i++)
            expect_row(rows + (size_t)i * (size_t)f.hparams.n_vocab, seq[i], pos[i]);
    }
    rv_kv_cache_seq_trim(f.kv, 0, 0);
    rv_kv_cache_seq_trim(f.kv, 1, 0);
    free(rows);
}

static void reading_out_some_rows_or_none_changes_nothing(void **state)
{
    int32_t pos[LENGTH], seq[LENGTH] = {0}, out[3] = {1, 4, 9};
    float *rows = new_rows(3);

    (void)state;
    for (int32_t i = 0; i < LENGTH; i++)
        pos[i] = i;
    run(f.tokens[0], pos, seq, 10, out, 3, rows);
    for (int i = 0; i < 3; i++)
        expect_row(rows + (size_t)i * (size_t)f.hparams.n_vocab, 0, out[i]);
    run(f.tokens[0] + 10, pos + 10, seq, 20, NULL, 0, NULL);
    out[0] = 9;
    run(f.tokens[0] + 30, pos + 30, seq, 10, out, 1, rows);
    expect_row(rows, 0, 39);
    rv_kv_cache_seq_trim(f.kv, 0, 0);
    free(rows);
}

static void a_trimmed_sequence_goes_on_as_if_the_tail_had_never_been(void **state)
{
    int32_t pos[LENGTH], seq[LENGTH] = {0}, out = 0;
    float *row = new_rows(1);

    (void)state;
    for (int32_t i = 0; i < LENGTH; i++)
        pos[i] = i;
    run(f.tokens[0], pos, seq, 10, NULL, 0, NULL);
    run(f.tokens[1], pos + 10, seq, 15, NULL, 0, NULL); /* a wrong continuation */
    rv_kv_cache_seq_trim(f.kv, 0, 10);
    for (int32_t i = 10; i < 20; i++) {
        run(&f.tokens[0][i], &pos[i], seq, 1, &out, 1, row);
        expect_row(row, 0, i);
    }
    rv_kv_cache_seq_trim(f.kv, 0, 0);
    free(row);
}

static void a_full_cache_is_an_error_that_says_so(void **state)
{
    int32_t pos[ROWS], seq[ROWS] = {0};
    struct rv_batch batch = {.n_rows = ROWS, .tokens = f.tokens[0], .pos = pos, .seq = seq};
    int32_t tokens[ROWS] = {0};
    struct ruvllm_error error;
    float *rows;

    (void)state;
    batch.tokens = tokens;
    for (int32_t round = 0; round < CONTEXT / ROWS; round++) {
        for (int32_t i = 0; i < ROWS; i++)
            pos[i] = round * ROWS + i;
        assert_ok(rv_decoder_run(f.decoder, &batch, RV_DECODER_LOGITS, &rows, err));
    }
    batch.n_rows = 1;
    assert_fails(rv_decoder_run(f.decoder, &batch, RV_DECODER_LOGITS, &rows, &error), RUVLLM_TOO_LARGE, error,
                 "context of 128");
    assert_true(rv_kv_cache_check(f.kv));
    rv_kv_cache_seq_trim(f.kv, 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compute_alone),
        cmocka_unit_test(token_by_token_gives_the_same_as_all_at_once),
        cmocka_unit_test(two_sequences_mixed_row_by_row_do_not_see_each_other),
        cmocka_unit_test(reading_out_some_rows_or_none_changes_nothing),
        cmocka_unit_test(a_trimmed_sequence_goes_on_as_if_the_tail_had_never_been),
        cmocka_unit_test(a_full_cache_is_an_error_that_says_so),
    };

    test_need_data();
    return cmocka_run_group_tests(tests, setup, teardown);
}
