/*
 * The doors to adapters as files, on a real adapter: what a quantised model lacks of its F16 original, matrix by matrix
 * the best product of rank 16 (after LQER, arXiv 2402.02446). With it the quantised model must come nearer to the
 * original; and in whatever format it is kept, it must be the same adapter.
 */
#include "base/alloc.h"
#include "divergence.h"
#include "kernels/low_rank.h"
#include "model/adapter_file.h"
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RANK = 16, N_TOKENS = 96, FIRST = 8 };

static char original_path[512], coarse_path[512], own[512]; // own: the adapter, made once

struct opened {
    struct rv_gguf_file *gguf;
    struct rv_hparams hparams;
    struct rv_manifest manifest;
    struct rv_adapter_file_base base;
};

static void open_model(struct opened *m, const char *path)
{
    struct rv_rope_override none = {.ext_factor = -1};

    assert_ok(rv_gguf_file_open(&m->gguf, path, err));
    assert_ok(rv_hparams_read(&m->hparams, m->gguf, &none, err));
    assert_ok(rv_manifest_init(&m->manifest, m->gguf, &m->hparams, err));
    rv_adapter_file_base_init(&m->base, &m->hparams, &m->manifest);
}

static void close_model(struct opened *m)
{
    rv_manifest_release(&m->manifest);
    rv_gguf_file_close(m->gguf);
}

/* ---- the adapter --------------------------------------------------------------------------- */

static void add_repair(struct rv_adapter_file *file, const struct opened *original, const struct opened *coarse,
                       int32_t layer, enum rv_part part)
{
    const struct rv_gguf_tensor *want = original->manifest.layers[layer][part];
    const struct rv_gguf_tensor *have = coarse->manifest.layers[layer][part];
    size_t n_in = (size_t)want->ne[0], n_out = (size_t)want->ne[1], n = n_in * n_out;
    float *x = malloc(n * sizeof(*x)), *y = malloc(n * sizeof(*y)), *a, *b;
    struct rv_adapter_file_pair *pair;
    struct rv_low_rank_loss loss;
    struct rv_low_rank product;

    assert_true(x && y);
    rv_adapter_file_floats(&(struct rv_adapter_file_matrix){want->type, want->data}, want->ne[0], 0, want->ne[1], x);
    rv_adapter_file_floats(&(struct rv_adapter_file_matrix){have->type, have->data}, have->ne[0], 0, have->ne[1], y);
    for (size_t i = 0; i < n; i++)
        x[i] -= y[i];
    assert_true(rv_low_rank_from_matrix(&product, x, n_out, n_in, RANK, 1, &loss));
    assert_ok(rv_adapter_file_pair_at(file, &coarse->base, layer, part, &pair, err));
    a = rv_adapter_file_alloc(file, RANK * n_in * sizeof(*a));
    b = rv_adapter_file_alloc(file, RANK * n_out * sizeof(*b));
    assert_true(a && b);
    for (size_t i = 0; i < RANK * n_in; i++)
        a[i] = (float)product.a[i];
    for (size_t r = 0; r < RANK; r++) {
        for (size_t i = 0; i < n_out; i++)
            b[i * RANK + r] = (float)product.b[r * n_out + i];
    }
    pair->rank = RANK;
    pair->scale = 1.0f;
    pair->a = (struct rv_adapter_file_matrix){GGML_TYPE_F32, a};
    pair->b = (struct rv_adapter_file_matrix){GGML_TYPE_F32, b};
    rv_low_rank_release(&product);
    free(x);
    free(y);
}

static int write_repair(void **state)
{
    struct opened original, coarse;
    struct rv_adapter_file *file;

    (void)state;
    open_model(&original, original_path);
    open_model(&coarse, coarse_path);
    /* Quantising leaves the norms: to adapters both are the same base. */
    assert_string_equal(original.base.hash, coarse.base.hash);
    assert_ok(rv_adapter_file_new(&file, err));
    for (int32_t layer = 0; layer < coarse.hparams.n_layers; layer++) {
        for (int part = 0; part < RV_N_PARTS; part++) {
            if (coarse.manifest.layers[layer][part] && rv_manifest_part_is_matrix((enum rv_part)part))
                add_repair(file, &original, &coarse, layer, (enum rv_part)part);
        }
    }
    assert_ok(rv_adapter_file_seal(file, &coarse.base, err));
    assert_ok(rv_adapter_file_write(file, &coarse.base, own, RUVLLM_ADAPTER_OWN, err));
    rv_adapter_file_close(file);
    close_model(&coarse);
    close_model(&original);
    return 0;
}

/* ---- what models say ------------------------------------------------------------------------ */

/* Logits over a piece of a story, for the caller to free(). */
static float *logits_of(const char *path, const char *adapter, size_t *n_vocab)
{
    static const char story[] =
        "Once upon a time, there was a little girl named Lily. She loved to play outside in the park with her dog. One "
        "day, they found a big red ball under a tree. Lily wanted to take it home, but her mom said that somebody must "
        "have lost it. So they waited and waited until a boy came and asked if they had seen his ball.";
    struct ruvllm_model_params params = ruvllm_model_params_default();
    struct ruvllm_model_info info = {.struct_size = sizeof(info)};
    struct ruvllm_input input = {.struct_size = sizeof(input), .text = story, .text_len = strlen(story)};
    ruvllm_model *model;
    int32_t *tokens;
    size_t n_tokens;
    float *logits;

    params.n_threads = 1;
    assert_ok(ruvllm_model_open(&model, path, &params, err));
    assert_ok(ruvllm_model_info_get(model, &info, err));
    assert_ok(ruvllm_tokenize(model, &input, &tokens, &n_tokens, err));
    if (adapter)
        assert_ok(ruvllm_model_set_adapter(model, adapter, 1.0f, err));
    n_tokens = n_tokens < N_TOKENS ? n_tokens : N_TOKENS;
    assert_true(n_tokens > 64);
    *n_vocab = (size_t)info.n_vocab;
    logits = calloc(N_TOKENS * *n_vocab, sizeof(*logits));
    assert_non_null(logits);
    assert_ok(ruvllm_forward(model, tokens, n_tokens, FIRST, logits, (n_tokens - FIRST) * *n_vocab, err));
    ruvllm_free(tokens);
    ruvllm_model_close(model);
    return logits;
}

static double mean_kl(const float *reference, const float *candidate, size_t n_vocab)
{
    struct divergence sum = {0};

    divergence_add(&sum, reference, candidate, n_vocab, 56);
    return divergence_mean_kl(&sum);
}

static void a_repaired_model_is_nearer_to_its_original(void **state)
{
    float *original, *coarse, *repaired;
    size_t n_vocab;
    double before, after;

    (void)state;
    original = logits_of(original_path, NULL, &n_vocab);
    coarse = logits_of(coarse_path, NULL, &n_vocab);
    repaired = logits_of(coarse_path, own, &n_vocab);
    before = mean_kl(original, coarse, n_vocab);
    after = mean_kl(original, repaired, n_vocab);
    print_message("mean KL to F16: %.4f quantised, %.4f with a repair of rank %d\n", before, after, RANK);
    assert_true(before > 1e-3 && after < 0.8 * before);
    free(original);
    free(coarse);
    free(repaired);
}

static void remove_folder(const char *folder)
{
    char path[300];

    (void)snprintf(path, sizeof(path), "%s/adapter_config.json", folder);
    assert_int_equal(unlink(path), 0);
    (void)snprintf(path, sizeof(path), "%s/adapter_model.safetensors", folder);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

static void every_format_is_the_same_adapter(void **state)
{
    const char *lora = test_temp_path(".gguf"), *peft = test_temp_path(".peft");
    struct ruvllm_adapter_info info = {.struct_size = sizeof(info)}, other = info;
    struct ruvllm_error fault = {0};
    float *with_own, *with_lora, *with_peft;
    size_t n_vocab;

    (void)state;
    assert_ok(ruvllm_adapter_convert(coarse_path, own, peft, RUVLLM_ADAPTER_PEFT, err));
    assert_ok(ruvllm_adapter_convert(coarse_path, peft, lora, RUVLLM_ADAPTER_GGUF, err));
    assert_ok(ruvllm_adapter_describe(coarse_path, own, &info, err));
    assert_int_equal(info.max_rank, RANK);
    assert_int_equal(info.n_pairs, 6 * 7);
    assert_true(info.changes_layers && !info.changes_head && info.norm > 0 && info.file_bytes > info.n_bytes);
    assert_ok(ruvllm_adapter_describe(coarse_path, peft, &other, err));
    assert_string_equal(info.hash, other.hash);
    assert_ok(ruvllm_adapter_describe(original_path, lora, &other, err));
    assert_string_equal(info.hash, other.hash);
    assert_true(info.norm == other.norm);
    with_own = logits_of(coarse_path, own, &n_vocab);
    with_lora = logits_of(coarse_path, lora, &n_vocab);
    with_peft = logits_of(coarse_path, peft, &n_vocab);
    assert_memory_equal(with_own, with_lora, N_TOKENS * n_vocab * sizeof(float));
    assert_memory_equal(with_own, with_peft, N_TOKENS * n_vocab * sizeof(float));
    assert_fails(ruvllm_adapter_convert(coarse_path, own, lora, RUVLLM_ADAPTER_GGUF, &fault), RUVLLM_INVALID, fault,
                 "exists already");
    assert_fails(ruvllm_adapter_convert(coarse_path, own, test_temp_path(".x"), (ruvllm_adapter_format)9, &fault),
                 RUVLLM_INVALID, fault, "format");
    assert_fails(ruvllm_adapter_describe(test_data("models/stories260K.gguf"), lora, &other, &fault), RUVLLM_FORMAT,
                 fault, "another base model");
    assert_fails(ruvllm_adapter_describe(own, lora, &other, &fault), RUVLLM_FORMAT, fault, own);
    remove_folder(peft);
    free(with_own);
    free(with_lora);
    free(with_peft);
}

/* The half of twice an adapter is itself: the larger rank of the exact sum is cut without loss. */
static void merging_goes_from_files_to_a_file(void **state)
{
    const char *out = test_temp_path(".gguf"), *ties = test_temp_path(".gguf");
    struct ruvllm_merge_params params = ruvllm_merge_params_default();
    struct ruvllm_adapter_info info = {.struct_size = sizeof(info)}, merged = info;
    struct ruvllm_error fault = {0};
    const char *paths[] = {own, own};
    double error = 1;

    (void)state;
    assert_ok(ruvllm_adapter_describe(coarse_path, own, &info, err));
    params.rank = RANK;
    assert_ok(ruvllm_adapter_merge(coarse_path, paths, 2, &params, out, &error, err));
    assert_true(error < 1e-7);
    assert_ok(ruvllm_adapter_describe(coarse_path, out, &merged, err));
    assert_int_equal(merged.max_rank, RANK);
    assert_true(fabs(merged.norm / info.norm - 1) < 1e-3); // numbers in memory have 16 bits
    params.method = RUVLLM_MERGE_TIES;
    params.rank = 4;
    assert_ok(ruvllm_adapter_merge(coarse_path, paths, 2, &params, ties, &error, err));
    assert_true(error > 0.01 && error < 1);
    assert_fails(ruvllm_adapter_merge(coarse_path, paths, 2, &params, out, &error, &fault), RUVLLM_INVALID, fault,
                 "exists already");
    paths[1] = NULL;
    assert_int_equal(ruvllm_adapter_merge(coarse_path, paths, 2, &params, test_temp_path(".x"), NULL, NULL),
                     RUVLLM_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_repaired_model_is_nearer_to_its_original),
        cmocka_unit_test(every_format_is_the_same_adapter),
        cmocka_unit_test(merging_goes_from_files_to_a_file),
    };

    test_need_data();
    (void)snprintf(original_path, sizeof(original_path), "%s", test_data("models/stories15M-f16.gguf"));
    (void)snprintf(coarse_path, sizeof(coarse_path), "%s", test_model("stories15M-q4_0.gguf"));
    if (access(coarse_path, R_OK) != 0) {
        (void)fprintf(stderr, "*** TESTS OF ADAPTERS AS FILES SKIPPED: '%s' is not there (make models)\n", coarse_path);
        return 77;
    }
    (void)snprintf(own, sizeof(own), "%s", test_temp_path(".gguf"));
    return cmocka_run_group_tests(tests, write_repair, NULL);
}
