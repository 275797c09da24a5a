/*
 * Attention over block tables against ggml's over cells: the same weights, the same tokens, two decoders in one
 * process. What tiers cost is measured by bench_kv; here they must only stay sane.
 */
#include "base/rng.h"
#include "divergence.h"
#include "engine/model.h"
#include "kv/kv_seq.h"
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_TOKENS = 500, CONTEXT = 512 };

struct fixture {
    struct ruvllm_model *model;
    struct rv_kv_cache *cells;
    struct rv_decoder *cell_decoder;
    struct rv_block_pool *pool;
    struct rv_decoder *decoder;
    int32_t tokens[MAX_TOKENS];
    int32_t n_tokens; // as many as the model's context allows
    float *plain;     // logits over cells
    float *paged;
};

static void open_fixture(struct fixture *f, const char *path, bool rotates)
{
    struct ruvllm_model_params params = ruvllm_model_params_default();
    struct rv_block_pool_config pool = {.poison = true, .budget = (size_t)256 << 20};
    struct rv_decoder_config config;
    struct rv_rng rng;

    test_need_file(path);
    *f = (struct fixture){0};
    params.max_context = CONTEXT;
    params.max_batch = 128;
    assert_ok(rv_model_open(&f->model, path, &params, false, err));
    pool.n_layers = f->model->hparams.n_layers;
    pool.n_kv_heads = f->model->hparams.n_kv_heads;
    pool.head_dim = f->model->hparams.head_dim;
    assert_ok(rv_block_pool_new(&f->pool, &pool, err));
    config = (struct rv_decoder_config){.hparams = &f->model->hparams,
                                        .weights = &f->model->weights,
                                        .device = f->model->device,
                                        .pool = f->pool,
                                        .rotates = rotates,
                                        .max_rows = 128,
                                        .max_context = CONTEXT};
    assert_ok(rv_decoder_new(&f->decoder, &config, err));
    assert_ok(rv_kv_cache_new(&f->cells, &f->model->hparams, f->model->device, CONTEXT, err));
    config.pool = NULL;
    config.kv = f->cells;
    assert_ok(rv_decoder_new(&f->cell_decoder, &config, err));
    rv_rng_init(&rng, 7);
    f->n_tokens = f->model->max_context < MAX_TOKENS ? f->model->max_context : MAX_TOKENS;
    for (int i = 0; i < f->n_tokens; i++)
        f->tokens[i] = (int32_t)rv_rng_below(&rng, (uint64_t)f->model->hparams.n_vocab);
    f->plain = calloc((size_t)MAX_TOKENS * (size_t)f->model->hparams.n_vocab, sizeof(float));
    f->paged = calloc((size_t)MAX_TOKENS * (size_t)f->model->hparams.n_vocab, sizeof(float));
    assert_non_null(f->plain);
    assert_non_null(f->paged);
}

static void close_fixture(struct fixture *f)
{
    rv_decoder_free(f->cell_decoder);
    rv_kv_cache_free(f->cells);
    rv_decoder_free(f->decoder);
    assert_true(rv_block_pool_check(f->pool));
    assert_int_equal(rv_block_pool_used(f->pool), 0);
    rv_block_pool_free(f->pool);
    rv_model_close(f->model);
    free(f->plain);
    free(f->paged);
}

/* Computes rows first..first+n of the fixture's tokens, over cells or, with a table, over blocks; all are read out. */
static void run_rows(struct fixture *f, struct rv_kv_seq *seq, int32_t first, int32_t n)
{
    int32_t pos[128], seqs[128] = {0}, out_rows[128];
    struct rv_batch batch = {.n_rows = n,
                             .tokens = f->tokens + first,
                             .pos = pos,
                             .seq = seqs,
                             .seqs = &seq,
                             .out_rows = out_rows,
                             .n_out = n};
    size_t n_vocab = (size_t)f->model->hparams.n_vocab;
    float *rows;

    for (int32_t i = 0; i < n; i++) {
        pos[i] = first + i;
        out_rows[i] = i;
    }
    assert_ok(rv_decoder_run(seq ? f->decoder : f->cell_decoder, &batch, RV_DECODER_LOGITS, &rows, err));
    memcpy((seq ? f->paged : f->plain) + (size_t)first * n_vocab, rows, (size_t)n * n_vocab * sizeof(float));
}

static void run_plain(struct fixture *f)
{
    for (int32_t first = 0; first < f->n_tokens; first += 128)
        run_rows(f, NULL, first, f->n_tokens - first < 128 ? f->n_tokens - first : 128);
}

/* Returns how many blocks changed their tier on the way. */
static int32_t run_paged(struct fixture *f, const struct rv_tier_policy *policy, int32_t chunk)
{
    struct rv_kv_seq seq;
    int32_t n_moved = 0;

    assert_ok(rv_kv_seq_init(&seq, f->pool, policy, CONTEXT, err));
    while (seq.len < f->n_tokens) {
        int32_t n = f->n_tokens - seq.len < chunk ? f->n_tokens - seq.len : chunk;

        n = n < rv_kv_seq_room(&seq) ? n : rv_kv_seq_room(&seq);
        assert_true(rv_kv_seq_reserve(&seq, n));
        run_rows(f, &seq, seq.len, n);
        rv_kv_seq_advance(&seq, n);
        n_moved += rv_kv_seq_migrate(&seq);
        assert_true(rv_kv_seq_check(&seq));
    }
    rv_kv_seq_release(&seq);
    return n_moved;
}

/* Mean over all rows of KL(plain || paged). */
static double mean_kl(const struct fixture *f)
{
    struct divergence sum = {0};

    divergence_add(&sum, f->plain, f->paged, (size_t)f->model->hparams.n_vocab, (size_t)f->n_tokens);
    return divergence_mean_kl(&sum);
}

static void compare(const char *path, bool rotates, const struct rv_tier_policy *policy, int32_t chunk, double bound)
{
    struct fixture f;
    int32_t n_moved;
    double kl;

    open_fixture(&f, path, rotates);
    run_plain(&f);
    n_moved = run_paged(&f, policy, chunk);
    assert_int_equal(n_moved > 0, policy->tiers[policy->n_tiers - 1].format != RV_KV_BLOCK_F16);
    kl = mean_kl(&f);
    print_message("%s chunk %d%s: mean KL %.2e\n", strrchr(path, '/') + 1, chunk, rotates ? " rotated" : "", kl);
    assert_true(kl >= -1e-9 && kl <= bound);
    close_fixture(&f);
}

static const char *const families[] = {"synth-qwen2.gguf",   "synth-qwen3.gguf",  "synth-phi3.gguf",
                                       "synth-gemma2.gguf",  "synth-gemma3.gguf", "synth-mistral.gguf",
                                       "synth-stablelm.gguf"};

static void f16_blocks_give_the_logits_of_f16_cells(void **state)
{
    struct rv_tier_policy policy = rv_tier_policy_single(RV_KV_BLOCK_F16);

    (void)state;
    compare(test_data("models/stories15M-f16.gguf"), false, &policy, 128, 1e-5);
    compare(test_data("models/stories15M-f16.gguf"), false, &policy, 1, 1e-5);
    compare(test_data("models/stories15M-f16.gguf"), true, &policy, 37, 1e-5);
    compare(test_data("models/stories260K.gguf"), false, &policy, 37, 1e-5);
}

/* The synthetic weights amplify: ggml's own attention moves their logits by up to 5e-3 between two shapes of a batch.
 */
static void every_family_agrees(void **state)
{
    struct rv_tier_policy policy = rv_tier_policy_single(RV_KV_BLOCK_F16);

    (void)state;
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
        compare(test_model(families[i]), false, &policy, 128, 2e-3);
}

static void tiers_stay_near(void **state)
{
    struct rv_tier_policy policy = {.n_tiers = 3,
                                    .tiers = {{RV_KV_BLOCK_F16, 64}, {RV_KV_BLOCK_Q8, 128}, {RV_KV_BLOCK_Q4, 0}},
                                    .keeps_first = true};
    struct rv_tier_policy q8 = rv_tier_policy_single(RV_KV_BLOCK_Q8);

    (void)state;
    compare(test_data("models/minimind2-26m-f16.gguf"), true, &q8, 64, 1e-3);
    compare(test_data("models/minimind2-26m-f16.gguf"), true, &policy, 64, 5e-2);
}

/* How a prompt is cut into steps must not change what its tokens see. */
static void tiers_do_not_depend_on_the_steps(void **state)
{
    struct rv_tier_policy policy = {.n_tiers = 2, .tiers = {{RV_KV_BLOCK_F16, 32}, {RV_KV_BLOCK_Q4, 0}}};
    struct fixture f;
    float *first;
    size_t n;

    (void)state;
    open_fixture(&f, test_data("models/minimind2-26m-f16.gguf"), true);
    n = (size_t)f.n_tokens * (size_t)f.model->hparams.n_vocab;
    assert_true(run_paged(&f, &policy, 128) > 0);
    first = f.plain;
    memcpy(first, f.paged, n * sizeof(float));
    assert_true(run_paged(&f, &policy, 17) > 0);
    print_message("chunks of 128 and of 17: mean KL %.2e\n", mean_kl(&f));
    assert_true(mean_kl(&f) <= 1e-5);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f16_blocks_give_the_logits_of_f16_cells),
        cmocka_unit_test(every_family_agrees),
        cmocka_unit_test(tiers_stay_near),
        cmocka_unit_test(tiers_do_not_depend_on_the_steps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
