/*
 * Steps with adapters against the same model with the adapters merged into its matrices, and rows in mixed company
 * against the same rows alone.
 *
 * Tolerance: W x + B (A x) and (W + B A) x are different sums of the same numbers, so they differ by rounding, which
 * keys and values in F16 pass on. What adapters do is made large beside that: a matrix forgotten, a row mistaken or a
 * scale left out is off by more than 1e-3.
 */
#include "base/rng.h"
#include "divergence.h"
#include "engine/model.h"
#include "kv/kv_seq.h"
#include "support/adapter_fixture.h"
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONTEXT = 128, MAX_ROWS = 96, N_SEQS = 8, LENGTH = 64, N_READ = 48 };

/* A model, a decoder over blocks and some sequences. */
struct bed {
    struct ruvllm_model *model;
    struct rv_block_pool *pool;
    struct rv_decoder *decoder;
    struct rv_kv_seq seqs[N_SEQS];
};

static void open_bed_with(struct bed *b, const char *path, int32_t n_threads, bool stacks_adapters)
{
    struct ruvllm_model_params params = ruvllm_model_params_default();
    struct rv_tier_policy policy = rv_tier_policy_single(RV_KV_BLOCK_F16);
    struct rv_block_pool_config pool = {.poison = true, .budget = (size_t)256 << 20};
    struct rv_decoder_config config;

    test_need_file(path);
    *b = (struct bed){0};
    params.max_context = CONTEXT;
    params.n_threads = n_threads;
    assert_ok(rv_model_open(&b->model, path, &params, false, err));
    pool.n_layers = b->model->hparams.n_layers;
    pool.n_kv_heads = b->model->hparams.n_kv_heads;
    pool.head_dim = b->model->hparams.head_dim;
    assert_ok(rv_block_pool_new(&b->pool, &pool, err));
    config = (struct rv_decoder_config){.hparams = &b->model->hparams,
                                        .weights = &b->model->weights,
                                        .device = b->model->device,
                                        .pool = b->pool,
                                        .stacks_adapters = stacks_adapters,
                                        .max_rows = MAX_ROWS,
                                        .max_context = CONTEXT};
    assert_ok(rv_decoder_new(&b->decoder, &config, err));
    for (int i = 0; i < N_SEQS; i++)
        assert_ok(rv_kv_seq_init(&b->seqs[i], b->pool, &policy, CONTEXT, err));
}

static void open_bed(struct bed *b, const char *path, int32_t n_threads)
{
    open_bed_with(b, path, n_threads, false);
}

static void close_bed(struct bed *b)
{
    rv_decoder_free(b->decoder);
    for (int i = 0; i < N_SEQS; i++)
        rv_kv_seq_release(&b->seqs[i]);
    assert_int_equal(rv_block_pool_used(b->pool), 0);
    rv_block_pool_free(b->pool);
    rv_model_close(b->model);
}

static struct rv_adapter *new_adapter(const struct bed *b, uint64_t seed, int32_t rank, int32_t head_rank)
{
    struct adapter_fixture f = {.hparams = &b->model->hparams,
                                .manifest = &b->model->manifest,
                                .seed = seed,
                                .rank = rank,
                                .head_rank = head_rank,
                                .strength = 0.2f};

    return adapter_fixture_new(&f);
}

/* ---- one sequence against merged weights ----------------------------------------------------- */

/*
 * Logits of LENGTH tokens of one sequence: a step that reads out every row, one that reads out only its last, which
 * narrows the last layer, and single rows. Reads N_READ rows.
 */
static float *run_sequence(struct bed *b, const struct rv_adapter_mix *mix)
{
    static const struct {
        int32_t n, n_out;
    } steps[] = {{31, 31}, {17, 1}, {1, 1}, {15, 15}};
    struct rv_kv_seq *seq = &b->seqs[0];
    size_t n_vocab = (size_t)b->model->hparams.n_vocab, n_read = 0;
    float *logits = malloc((size_t)N_READ * n_vocab * sizeof(float)), *rows;
    struct rv_rng rng;

    assert_non_null(logits);
    rv_rng_init(&rng, 31);
    rv_kv_seq_clear(seq);
    for (size_t s = 0; s < sizeof(steps) / sizeof(steps[0]); s++) {
        int32_t tokens[MAX_ROWS], pos[MAX_ROWS], out_rows[MAX_ROWS], zeros[MAX_ROWS] = {0};
        struct rv_batch batch = {.n_rows = steps[s].n,
                                 .tokens = tokens,
                                 .pos = pos,
                                 .seq = zeros,
                                 .seqs = &seq,
                                 .adapters = mix ? zeros : NULL,
                                 .mixes = &mix,
                                 .n_mixes = 1,
                                 .out_rows = out_rows,
                                 .n_out = steps[s].n_out};

        for (int32_t i = 0; i < batch.n_rows; i++) {
            tokens[i] = (int32_t)rv_rng_below(&rng, (uint64_t)n_vocab);
            pos[i] = seq->len + i;
            out_rows[i] = batch.n_rows - batch.n_out + i;
        }
        assert_true(rv_kv_seq_reserve(seq, batch.n_rows));
        assert_ok(rv_decoder_run(b->decoder, &batch, RV_DECODER_LOGITS, &rows, err));
        rv_kv_seq_advance(seq, batch.n_rows);
        memcpy(logits + n_read * n_vocab, rows, (size_t)batch.n_out * n_vocab * sizeof(float));
        n_read += (size_t)batch.n_out;
    }
    assert_int_equal(n_read, N_READ);
    assert_int_equal(seq->len, LENGTH);
    return logits;
}

static double mean_kl(const float *a, const float *b, int32_t n_vocab)
{
    struct divergence sum = {0};

    divergence_add(&sum, a, b, (size_t)n_vocab, N_READ);
    return divergence_mean_kl(&sum);
}

/* The logits of the model at `path`, computed with a mix. */
static float *logits_of(const char *path, const struct rv_adapter_mix *mix)
{
    struct bed b;
    float *logits;

    open_bed(&b, path, 1);
    logits = run_sequence(&b, mix);
    close_bed(&b);
    return logits;
}

struct comparison {
    double kl;         // merged against computed with the mix
    double kl_changed; // merged against the model without it
};

static struct comparison compare(const char *path, const char *merged, const struct rv_adapter_mix *mix,
                                 int32_t n_vocab)
{
    float *want = logits_of(merged, NULL), *have = logits_of(path, mix), *plain = logits_of(path, NULL);
    struct comparison c = {.kl = mean_kl(want, have, n_vocab), .kl_changed = mean_kl(want, plain, n_vocab)};

    free(want);
    free(have);
    free(plain);
    return c;
}

/*
 * The model all in F32 is compared with the merged one in F32, and the model as it is, unless it is quantised: then its
 * products are rounded in other ways than those of merged weights could be.
 */
static void check_merged(const char *path, bool with_head)
{
    static const double bound = 1e-5;
    char merged[256], plain[256];
    struct rv_adapter *first, *second;
    struct rv_adapter_mix mix;
    struct comparison c, c32;
    struct bed b;

    open_bed(&b, path, 1);
    first = new_adapter(&b, 1, 5, 0);
    second = new_adapter(&b, 2, 8, 0);
    mix = (struct rv_adapter_mix){.n_adapters = 2, .adapters = {first, second}, .weights = {1.0f, -0.5f}};
    if (with_head) {
        rv_adapter_unref(second);
        rv_adapter_unref(first);
        first = new_adapter(&b, 3, 8, 2);
        second = NULL;
        mix = (struct rv_adapter_mix){.n_adapters = 1, .adapters = {first}, .weights = {0.75f}};
    }
    (void)snprintf(merged, sizeof(merged), "%s", test_temp_path(".gguf"));
    (void)snprintf(plain, sizeof(plain), "%s", test_temp_path(".gguf"));
    adapter_fixture_merge(b.model->file, &b.model->hparams, &b.model->manifest, &mix, merged);
    adapter_fixture_merge(b.model->file, &b.model->hparams, &b.model->manifest, NULL, plain);
    c = compare(path, merged, &mix, b.model->hparams.n_vocab);
    c32 = compare(plain, merged, &mix, b.model->hparams.n_vocab);
    print_message("%s%s: mean KL %.2e, in F32 %.2e, without the adapters %.2e\n", strrchr(path, '/') + 1,
                  with_head ? " with the head's input" : "", c.kl, c32.kl, c32.kl_changed);
    assert_true(c32.kl_changed > 1e-2);
    assert_true(c32.kl >= -1e-9 && c32.kl <= bound);
    if (rv_gguf_file_main_type(b.model->file)[0] == 'f')
        assert_true(c.kl >= -1e-9 && c.kl <= bound);
    rv_adapter_unref(first);
    rv_adapter_unref(second);
    close_bed(&b);
    remove(merged);
    remove(plain);
}

static void real_models_compute_what_merged_ones_do(void **state)
{
    (void)state;
    check_merged(test_data("models/stories260K.gguf"), false);
    if (TEST_SANITIZED(true, false))
        return; // larger ones touch the same memory
    check_merged(test_data("models/stories15M-f16.gguf"), false);
    check_merged(test_data("models/minimind2-26m-f16.gguf"), true);
}

/* Three matrices or one, biases, norms after and within, one input for both halves: each family's own graph. */
static void every_family_computes_what_merged_ones_do(void **state)
{
    static const char *const families[] = {
        "synth-qwen2.gguf",  "synth-qwen3.gguf",   "synth-phi3.gguf",     "synth-gemma2.gguf",
        "synth-gemma3.gguf", "synth-mistral.gguf", "synth-stablelm.gguf", "synth-stablelm-parallel.gguf"};

    (void)state;
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
        check_merged(test_model(families[i]), strstr(families[i], "gemma") == NULL);
}

/* ---- many sequences ---------------------------------------------------------------------------- */

/* A prompt of five tokens of every sequence in one step, then four steps of a row of each; all last rows are read. */
enum { PROMPT = 5, N_STEPS = 5 };

static float *run_crowd(struct bed *b, const struct rv_adapter_mix *const mixes[N_SEQS])
{
    struct rv_kv_seq *seqs[N_SEQS];
    size_t n_vocab = (size_t)b->model->hparams.n_vocab, n_values = N_SEQS * n_vocab;
    float *logits = malloc(N_STEPS * n_values * sizeof(float)), *rows;
    struct rv_rng rng;

    assert_non_null(logits);
    rv_rng_init(&rng, 32);
    for (int i = 0; i < N_SEQS; i++) {
        seqs[i] = &b->seqs[i];
        rv_kv_seq_clear(seqs[i]);
    }
    for (size_t s = 0; s < N_STEPS; s++) {
        int32_t tokens[MAX_ROWS], pos[MAX_ROWS], seq[MAX_ROWS], out_rows[N_SEQS], n_each = s == 0 ? PROMPT : 1;
        struct rv_batch batch = {.tokens = tokens,
                                 .pos = pos,
                                 .seq = seq,
                                 .seqs = seqs,
                                 .adapters = seq,
                                 .mixes = mixes,
                                 .n_mixes = N_SEQS,
                                 .out_rows = out_rows,
                                 .n_out = N_SEQS};

        for (int32_t i = 0; i < N_SEQS; i++) {
            for (int32_t j = 0; j < n_each; j++, batch.n_rows++) {
                tokens[batch.n_rows] = (int32_t)rv_rng_below(&rng, (uint64_t)n_vocab);
                pos[batch.n_rows] = seqs[i]->len + j;
                seq[batch.n_rows] = i;
            }
            out_rows[i] = batch.n_rows - 1;
            assert_true(rv_kv_seq_reserve(seqs[i], n_each));
        }
        assert_ok(rv_decoder_run(b->decoder, &batch, RV_DECODER_LOGITS, &rows, err));
        for (int i = 0; i < N_SEQS; i++)
            rv_kv_seq_advance(seqs[i], n_each);
        memcpy(logits + s * n_values, rows, n_values * sizeof(float));
    }
    return logits;
}

/* Whether sequence i has the same bits in both at every step. */
static bool same_rows(const float *a, const float *b, int32_t i, int32_t n_vocab)
{
    for (size_t s = 0; s < N_STEPS; s++) {
        size_t at = (s * N_SEQS + (size_t)i) * (size_t)n_vocab;

        if (memcmp(a + at, b + at, (size_t)n_vocab * sizeof(float)) != 0)
            return false;
    }
    return true;
}

/* None, the head's input, layers, both, mixes in either order, and two that share one. */
static void check_crowd(const char *path, int32_t n_threads)
{
    struct rv_adapter *all[4];
    struct rv_adapter_mix mixes[N_SEQS] = {{0}};
    const struct rv_adapter_mix *together[N_SEQS], *nobody[N_SEQS] = {0};
    float *mixed, *plain;
    struct bed b;

    open_bed(&b, path, n_threads);
    all[0] = new_adapter(&b, 11, 0, 2);
    all[1] = new_adapter(&b, 12, 8, 0);
    all[2] = new_adapter(&b, 13, 3, 2);
    all[3] = new_adapter(&b, 14, 8, 0);
    mixes[1] = (struct rv_adapter_mix){.n_adapters = 1, .adapters = {all[0]}, .weights = {1}};
    mixes[2] = (struct rv_adapter_mix){.n_adapters = 1, .adapters = {all[1]}, .weights = {1}};
    mixes[3] = (struct rv_adapter_mix){.n_adapters = 1, .adapters = {all[2]}, .weights = {0.5f}};
    mixes[4] = (struct rv_adapter_mix){.n_adapters = 2, .adapters = {all[1], all[3]}, .weights = {1, 0.25f}};
    mixes[5] = (struct rv_adapter_mix){.n_adapters = 2, .adapters = {all[3], all[1]}, .weights = {0.25f, 1}};
    mixes[6] = (struct rv_adapter_mix){
        .n_adapters = 4, .adapters = {all[0], all[1], all[2], all[3]}, .weights = {0.5f, 0.5f, 0.5f, 0.5f}};
    mixes[7] = (struct rv_adapter_mix){.n_adapters = 1, .adapters = {all[1]}, .weights = {-1}};
    for (int i = 0; i < N_SEQS; i++)
        together[i] = &mixes[i];
    mixed = run_crowd(&b, together);
    plain = run_crowd(&b, nobody);
    for (int i = 0; i < N_SEQS; i++) {
        const struct rv_adapter_mix *only[N_SEQS] = {0};
        float *alone;

        only[i] = &mixes[i];
        alone = run_crowd(&b, only);
        assert_true(same_rows(mixed, alone, i, b.model->hparams.n_vocab));
        assert_int_equal(same_rows(mixed, plain, i, b.model->hparams.n_vocab), i == 0);
        assert_true(same_rows(alone, plain, (i + 1) % N_SEQS, b.model->hparams.n_vocab));
        free(alone);
    }
    free(mixed);
    free(plain);
    for (int i = 0; i < 4; i++)
        rv_adapter_unref(all[i]);
    close_bed(&b);
}

static void a_row_in_a_crowd_is_what_it_is_alone(void **state)
{
    (void)state;
    check_crowd(test_data("models/stories260K.gguf"), 2);
    check_crowd(test_model("synth-phi3.gguf"), 2);
    if (TEST_SANITIZED(true, false))
        return;
    check_crowd(test_data("models/stories15M-f16.gguf"), 1);
    check_crowd(test_model("minimind2-26m-q4_k_m.gguf"), 1);
}

/* ---- gates ------------------------------------------------------------------------------------- */

/* Logits of a sequence that is one token. */
static float *run_token(struct bed *b, const struct rv_adapter_mix *mix, int32_t token)
{
    size_t bytes = (size_t)b->model->hparams.n_vocab * sizeof(float);
    struct rv_kv_seq *seq = &b->seqs[0];
    const int32_t zero = 0;
    struct rv_batch batch = {.n_rows = 1,
                             .tokens = &token,
                             .pos = &zero,
                             .seq = &zero,
                             .seqs = &seq,
                             .adapters = &zero,
                             .mixes = &mix,
                             .n_mixes = 1,
                             .out_rows = &zero,
                             .n_out = 1};
    float *logits = malloc(bytes), *rows;

    assert_non_null(logits);
    rv_kv_seq_clear(seq);
    assert_true(rv_kv_seq_reserve(seq, 1));
    assert_ok(rv_decoder_run(b->decoder, &batch, RV_DECODER_LOGITS, &rows, err));
    memcpy(logits, rows, bytes);
    return logits;
}

static float embedding_at(const struct bed *b, int32_t token, int32_t i)
{
    const struct ggml_tensor *t = b->model->weights.embedding;

    assert_int_equal(t->type, GGML_TYPE_F16);
    return ggml_fp16_to_fp32(((const ggml_fp16_t *)t->data)[(size_t)token * (size_t)t->ne[0] + (size_t)i]);
}

/* Gates of zero weigh all alike; large ones choose by the token's embedding, as weights of 0 and 1 do. */
static void gates_weigh_adapters_by_the_token(void **state)
{
    enum { NUMBER = 3 };
    struct rv_adapter_mix half, gated, chosen;
    int n_chosen[2] = {0};
    struct rv_adapter *all[2];
    float *gates, *want, *have;
    struct bed b;
    size_t bytes;

    (void)state;
    open_bed(&b, test_data("models/stories15M-f16.gguf"), 2);
    bytes = (size_t)b.model->hparams.n_vocab * sizeof(float);
    all[0] = new_adapter(&b, 41, 4, 0);
    all[1] = new_adapter(&b, 42, 4, 2);
    gates = calloc(2 * (size_t)b.model->hparams.n_embd, sizeof(float));
    assert_non_null(gates);
    half = (struct rv_adapter_mix){.n_adapters = 2, .adapters = {all[0], all[1]}, .weights = {0.5f, 0.5f}};
    gated = (struct rv_adapter_mix){.n_adapters = 2, .adapters = {all[0], all[1]}, .weights = {1, 1}, .gates = gates};
    want = run_sequence(&b, &half);
    have = run_sequence(&b, &gated);
    assert_memory_equal(want, have, N_READ * bytes);
    free(want);
    free(have);
    gates[NUMBER] = 1e8f;
    for (int32_t token = 300; token < 1000; token += 37) {
        bool is_first = embedding_at(&b, token, NUMBER) > 0;

        chosen = half;
        chosen.weights[0] = is_first ? 1 : 0;
        chosen.weights[1] = is_first ? 0 : 1;
        n_chosen[is_first]++;
        want = run_token(&b, &chosen, token);
        have = run_token(&b, &gated, token);
        assert_memory_equal(want, have, bytes);
        free(want);
        free(have);
    }
    assert_true(n_chosen[0] > 0 && n_chosen[1] > 0);
    free(gates);
    for (int i = 0; i < 2; i++)
        rv_adapter_unref(all[i]);
    close_bed(&b);
}

/* ---- ggml's operations ------------------------------------------------------------------------- */

/* Crowds whose adapters change between steps, more of them than the stacks first have places for, of growing rank. */
static void stacked_adapters_compute_what_our_nodes_do(void **state)
{
    enum { N_ADAPTERS = 12 };
    const char *paths[] = {test_data("models/stories15M-f16.gguf"), test_model("synth-phi3.gguf")};
    struct rv_adapter_mix mixes[N_SEQS];
    const struct rv_adapter_mix *pointers[N_SEQS];
    struct rv_adapter *adapters[N_ADAPTERS];
    struct bed ours, stacked;

    (void)state;
    for (int p = TEST_SANITIZED(1, 0); p < 2; p++) {
        open_bed(&ours, paths[p], 1);
        open_bed_with(&stacked, paths[p], 1, true);
        for (int i = 0; i < N_ADAPTERS; i++)
            adapters[i] = new_adapter(&ours, (uint64_t)i + 50, i % 5 * 3, i % 2 ? 2 : i % 5 == 0);
        for (int round = 0; round < 4; round++) {
            struct divergence sum = {0};
            float *want, *have;

            for (int i = 0; i < N_SEQS; i++) {
                int first = (i + round * 3) % N_ADAPTERS;

                mixes[i] = (struct rv_adapter_mix){.n_adapters = round == 0 ? i % 2 : (i + round) % 3,
                                                   .adapters = {adapters[first], adapters[(first + 5) % N_ADAPTERS]},
                                                   .weights = {1, -0.5f}};
                pointers[i] = &mixes[i];
            }
            want = run_crowd(&ours, pointers);
            have = run_crowd(&stacked, pointers);
            divergence_add(&sum, want, have, (size_t)ours.model->hparams.n_vocab, N_STEPS * N_SEQS);
            print_message("%s round %d: mean KL %.2e\n", strrchr(paths[p], '/') + 1, round, divergence_mean_kl(&sum));
            assert_true(divergence_mean_kl(&sum) <= (p == 0 ? 1e-4 : 1e-3));
            free(want);
            free(have);
        }
        for (int i = 0; i < N_ADAPTERS; i++)
            rv_adapter_unref(adapters[i]);
        close_bed(&stacked);
        close_bed(&ours);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(real_models_compute_what_merged_ones_do),
        cmocka_unit_test(every_family_computes_what_merged_ones_do),
        cmocka_unit_test(a_row_in_a_crowd_is_what_it_is_alone),
        cmocka_unit_test(gates_weigh_adapters_by_the_token),
        cmocka_unit_test(stacked_adapters_compute_what_our_nodes_do),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
