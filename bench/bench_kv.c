/*
 * What keys and values in fewer bits cost: a text is computed in steps of 64 tokens under each policy, blocks changing
 * their tier between the steps, and the second half of each chunk is compared with the same text under F16.
 *
 *     bench_kv MODEL TEXT CONTEXT CHUNKS [NAME]
 *
 * prints, for each policy,
 *     kv.<model>.<context>.<policy>.kl=      mean KL divergence to the F16 cache, nats
 *     kv.<model>.<context>.<policy>.ppl=     perplexity; of F16 itself too
 *     kv.<model>.<context>.<policy>.dppl=    how much it grew, as a fraction
 *     kv.<model>.<context>.<policy>.bytes=   bytes a token, whole blocks, at the end of a chunk
 *     kv.<model>.<context>.<policy>.smaller= F16's bytes divided by them
 *
 * Chunks are llama-perplexity's: CONTEXT tokens, the first replaced by BOS, the second half scored. Beyond the context
 * the model was trained for RoPE is stretched with YaRN, as `llama-perplexity --rope-scaling yarn --rope-scale 2` does.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/input.h"
#include "engine/model.h"
#include "kv/kv_seq.h"

enum { STEP = 64 };

struct policy {
    const char *name;
    struct rv_tier_policy tiers;
    bool rotates;
};

static const struct policy policies[] = {
    {"f16", {.n_tiers = 1, .tiers = {{RV_KV_BLOCK_F16, 0}}}, true}, // the one the others are compared with
    {"q8", {.n_tiers = 1, .tiers = {{RV_KV_BLOCK_Q8, 0}}}, true},
    {"tiers",
     {.n_tiers = 3, .tiers = {{RV_KV_BLOCK_F16, 256}, {RV_KV_BLOCK_Q8, 512}, {RV_KV_BLOCK_Q4, 0}}, .keeps_first = true},
     true},
    {"tiers_hot128", {.n_tiers = 2, .tiers = {{RV_KV_BLOCK_F16, 128}, {RV_KV_BLOCK_Q4, 0}}, .keeps_first = true}, true},
    {"q4", {.n_tiers = 1, .tiers = {{RV_KV_BLOCK_Q4, 0}}}, true},
    {"q4_plain", {.n_tiers = 1, .tiers = {{RV_KV_BLOCK_Q4, 0}}}, false},
};

enum { N_POLICIES = sizeof(policies) / sizeof(policies[0]) };

struct run {
    const char *name;
    struct ruvllm_model *model;
    struct rv_block_pool *pool;
    struct rv_decoder *decoders[2]; // by rotates
    int32_t *tokens;
    size_t n_tokens;
    int32_t context;
    int32_t chunks;
    float *reference; // logits of the scored half under F16
    double kl[N_POLICIES], nll[N_POLICIES], bytes[N_POLICIES];
    size_t n_scored;
};

static void die(const char *what, const struct ruvllm_error *err)
{
    fprintf(stderr, "bench_kv: %s: %s\n", what, err ? err->message : "failed");
    exit(1);
}

static double log_sum_exp(const float *row, size_t n)
{
    double max = row[0], sum = 0;

    for (size_t i = 1; i < n; i++)
        max = row[i] > max ? row[i] : max;
    for (size_t i = 0; i < n; i++)
        sum += exp(row[i] - max);
    return max + log(sum);
}

static double divergence(const float *p, const float *q, size_t n)
{
    double zp = log_sum_exp(p, n), zq = log_sum_exp(q, n), sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += exp(p[i] - zp) * ((p[i] - zp) - (q[i] - zq));
    return sum;
}

/* Scores rows of positions from..from+n; the logits of a position are judged by the token after it. */
static void score(struct run *r, int which, const int32_t *chunk, int32_t from, int32_t n, const float *rows)
{
    size_t n_vocab = (size_t)r->model->hparams.n_vocab;
    int32_t half = r->context / 2;

    for (int32_t i = 0; i < n; i++) {
        int32_t pos = from + i;
        const float *row = rows + (size_t)i * n_vocab;
        float *kept = r->reference + (size_t)(pos - half) * n_vocab;

        if (pos < half || pos + 1 >= r->context)
            continue;
        if (which == 0)
            memcpy(kept, row, n_vocab * sizeof(*row));
        r->nll[which] += log_sum_exp(row, n_vocab) - row[chunk[pos + 1]];
        r->kl[which] += which ? divergence(kept, row, n_vocab) : 0;
        r->n_scored += which == 0;
    }
}

static void run_step(struct run *r, int which, struct rv_kv_seq *seq, const int32_t *chunk)
{
    int32_t pos[STEP], seqs[STEP] = {0}, out_rows[STEP], from = seq->len;
    bool scores = from + STEP > r->context / 2;
    struct rv_batch batch = {.n_rows = STEP,
                             .tokens = chunk + from,
                             .pos = pos,
                             .seq = seqs,
                             .seqs = &seq,
                             .out_rows = out_rows,
                             .n_out = scores ? STEP : 0};
    struct ruvllm_error err;
    float *rows;

    for (int32_t i = 0; i < STEP; i++) {
        pos[i] = from + i;
        out_rows[i] = i;
    }
    if (!rv_kv_seq_reserve(seq, STEP))
        die("no room in the pool", NULL);
    if (rv_decoder_run(r->decoders[policies[which].rotates], &batch, RV_DECODER_LOGITS, &rows, &err))
        die("step", &err);
    if (scores)
        score(r, which, chunk, from, STEP, rows);
    rv_kv_seq_advance(seq, STEP);
    rv_kv_seq_migrate(seq);
}

static void run_chunk(struct run *r, int which, const int32_t *chunk)
{
    struct ruvllm_error err;
    struct rv_kv_seq seq;

    if (rv_kv_seq_init(&seq, r->pool, &policies[which].tiers, r->context, &err))
        die("sequence", &err);
    while (seq.len < r->context)
        run_step(r, which, &seq, chunk);
    r->bytes[which] = (double)rv_kv_seq_bytes(&seq) / r->context;
    rv_kv_seq_release(&seq);
    fprintf(stderr, ".");
}

static void report(const struct run *r)
{
    double n = (double)r->n_scored, base = exp(r->nll[0] / n);

    fprintf(stderr, "\n");
    for (int i = 0; i < N_POLICIES; i++) {
        double ppl = exp(r->nll[i] / n);
        const char *name = policies[i].name;

        printf("kv.%s.%d.%s.kl=%.6f\n", r->name, r->context, name, r->kl[i] / n);
        printf("kv.%s.%d.%s.ppl=%.4f\n", r->name, r->context, name, ppl);
        printf("kv.%s.%d.%s.dppl=%+.5f\n", r->name, r->context, name, ppl / base - 1);
        printf("kv.%s.%d.%s.bytes=%.0f\n", r->name, r->context, name, r->bytes[i]);
        printf("kv.%s.%d.%s.smaller=%.3f\n", r->name, r->context, name, r->bytes[0] / r->bytes[i]);
    }
}

static char *read_text(const char *path, size_t *len)
{
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    long size = -1;

    if (!file || fseek(file, 0, SEEK_END) || (size = ftell(file)) < 0 || fseek(file, 0, SEEK_SET))
        die(path, NULL);
    text = malloc((size_t)size + 1);
    if (!text || fread(text, 1, (size_t)size, file) != (size_t)size)
        die(path, NULL);
    fclose(file);
    *len = (size_t)size;
    return text;
}

static void open_model(struct run *r, const char *path)
{
    struct ruvllm_model_params params = ruvllm_model_params_default();
    struct ruvllm_model_info info = {.struct_size = sizeof(info)};
    struct ruvllm_error err;
    ruvllm_model *look;

    params.vocab_only = true;
    if (ruvllm_model_open(&look, path, &params, &err) || ruvllm_model_info_get(look, &info, &err))
        die(path, &err);
    params.vocab_only = false;
    if (r->context > info.trained_context) {
        params.rope_scaling = RUVLLM_ROPE_YARN;
        params.rope_scale = (float)r->context / (float)info.trained_context;
    }
    params.max_context = r->context;
    params.max_batch = STEP;
    ruvllm_model_close(look);
    if (rv_model_open(&r->model, path, &params, false, &err))
        die(path, &err);
}

static void open_run(struct run *r, const char *path, const char *text_path)
{
    struct rv_block_pool_config pool = {0};
    struct ruvllm_input input = {.struct_size = sizeof(input)};
    struct ruvllm_error err;

    open_model(r, path);
    pool.n_layers = r->model->hparams.n_layers;
    pool.n_kv_heads = r->model->hparams.n_kv_heads;
    pool.head_dim = r->model->hparams.head_dim;
    pool.budget = (size_t)1 << 31;
    if (rv_block_pool_new(&r->pool, &pool, &err))
        die("pool", &err);
    for (int i = 0; i < 2; i++) {
        struct rv_decoder_config config = {.hparams = &r->model->hparams,
                                           .weights = &r->model->weights,
                                           .device = r->model->device,
                                           .pool = r->pool,
                                           .rotates = i == 1,
                                           .max_rows = STEP,
                                           .max_context = r->context};
        if (rv_decoder_new(&r->decoders[i], &config, &err))
            die("decoder", &err);
    }
    input.text = read_text(text_path, &input.text_len);
    if (rv_input_tokens(r->model, &input, &r->tokens, &r->n_tokens, &err))
        die(text_path, &err);
    free((void *)(uintptr_t)input.text);
    r->reference = malloc((size_t)(r->context / 2) * (size_t)r->model->hparams.n_vocab * sizeof(float));
    if (!r->reference)
        die("memory", NULL);
}

int main(int argc, char **argv)
{
    struct run r = {0};

    if (argc < 5) {
        fprintf(stderr, "usage: bench_kv MODEL TEXT CONTEXT CHUNKS [NAME]\n");
        return 2;
    }
    r.name = argc > 5 ? argv[5] : "model";
    r.context = (int32_t)strtol(argv[3], NULL, 10) / STEP * STEP;
    r.chunks = (int32_t)strtol(argv[4], NULL, 10);
    open_run(&r, argv[1], argv[2]);
    for (int32_t i = 0; i < r.chunks && (size_t)(i + 1) * (size_t)r.context <= r.n_tokens; i++) {
        int32_t *chunk = r.tokens + (size_t)i * (size_t)r.context;

        if (rv_vocab_bos(r.model->vocab) >= 0)
            chunk[0] = rv_vocab_bos(r.model->vocab);
        for (int which = 0; which < N_POLICIES; which++)
            run_chunk(&r, which, chunk);
    }
    if (r.n_scored == 0)
        die("the text is shorter than one chunk", NULL);
    report(&r);
    rv_decoder_free(r.decoders[0]);
    rv_decoder_free(r.decoders[1]);
    rv_block_pool_free(r.pool);
    rv_model_close(r.model);
    rv_free(r.tokens);
    free(r.reference);
    return 0;
}
