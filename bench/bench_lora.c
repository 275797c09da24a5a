/*
 * What adapters cost a step: the same step with and without them, in rounds of both, whose ratios' median is printed.
 *
 *     bench_lora MODEL [THREADS] [ROUNDS]          ours
 *     bench_lora MODEL THREADS ROUNDS llama        llama.cpp's, one adapter for the whole batch
 *
 *     lora.16x8.<model>=0.93            a row of each of 16 sequences: 16 adapters of rank 8 on all matrices, over none
 *     lora.16x8.<model>.tok_s=210.1     with them; .none.tok_s without
 *     lora.head16x2.<model>=0.998       16 adapters of rank 2 at the head's input
 *     lora.prefill512.<model>=0.97      a prompt of 512 tokens, one adapter of rank 8
 *     lora.llama16x8.<model>=0.80       theirs: one of rank 8 for all; likewise lora.llama_prefill512
 */
#include "base/clock.h"
#include "base/rng.h"
#include "engine/model.h"
#include "kv/kv_seq.h"
#include "model/adapter.h"
#include "model/gguf_write.h"
#include "temp_path.h"

#include <llama.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_SEQS = 16, PROMPT = 32, STEPS = 12, LONG = 512, CONTEXT = 640, MAX_ROUNDS = 64, RANK = 8, HEAD_RANK = 2 };

static void need(bool is_good, const char *what, const struct ruvllm_error *err)
{
    if (is_good)
        return;
    (void)fprintf(stderr, "bench_lora: %s%s%s\n", what, err ? ": " : "", err ? err->message : "");
    exit(1);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof(*values), compare);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* Seconds of each round without and with adapters. */
struct rounds {
    double without[MAX_ROUNDS], with[MAX_ROUNDS];
    int n;
};

/* Runs both in turn, the first of each round changing; `run(user, with)` returns its seconds. */
static void take_rounds(struct rounds *r, int n, double (*run)(void *user, bool with), void *user)
{
    r->n = n;
    (void)run(user, false);
    (void)run(user, true);
    for (int i = 0; i < n; i++) {
        for (int turn = 0; turn < 2; turn++) {
            bool with = (i + turn) % 2 == 1;

            (with ? r->with : r->without)[i] = run(user, with);
        }
    }
}

static void report(const char *figure, const char *model, struct rounds *r, double n_tokens)
{
    double ratios[MAX_ROUNDS];

    for (int i = 0; i < r->n; i++)
        ratios[i] = r->without[i] / r->with[i];
    printf("lora.%s.%s=%.4f\n", figure, model, median(ratios, r->n));
    printf("lora.%s.%s.range=%.4f..%.4f\n", figure, model, ratios[0], ratios[r->n - 1]);
    printf("lora.%s.%s.tok_s=%.2f\n", figure, model, n_tokens / median(r->with, r->n));
    printf("lora.%s.%s.none.tok_s=%.2f\n", figure, model, n_tokens / median(r->without, r->n));
    (void)fflush(stdout);
}

/* ---- adapters -------------------------------------------------------------------------------- */

struct source {
    const struct ruvllm_model *model;
    struct rv_rng rng;
    int32_t rank;
    float *numbers;
};

/* Small numbers, none of which is zero. */
static ruvllm_status random_numbers(void *user, int32_t layer, enum rv_part part, struct rv_adapter_numbers *out,
                                    struct ruvllm_error *err)
{
    struct source *s = user;
    const int64_t *ne = layer < 0 ? NULL : s->model->manifest.layers[layer][part]->ne;
    size_t n_in = (size_t)(ne ? ne[0] : s->model->hparams.n_embd), rank = (size_t)s->rank;
    size_t n = rank * (n_in + (size_t)(ne ? ne[1] : s->model->hparams.n_embd));

    (void)err;
    s->numbers = realloc(s->numbers, n * sizeof(float));
    need(s->numbers != NULL, "out of memory", NULL);
    for (size_t i = 0; i < n; i++)
        s->numbers[i] = ((float)(rv_rng_next(&s->rng) >> 40) - 0x1p23f) * 0x1p-29f;
    *out = (struct rv_adapter_numbers){.a = s->numbers, .b = s->numbers + rank * n_in};
    return RUVLLM_OK;
}

static struct rv_adapter *new_adapter(const struct ruvllm_model *model, uint64_t seed, bool is_head)
{
    static struct rv_adapter_pair layers[RV_HPARAMS_MAX_LAYERS][RV_N_PARTS];
    struct source source = {.model = model, .rank = is_head ? HEAD_RANK : RANK};
    struct rv_adapter_shape shape = {.hparams = &model->hparams,
                                     .manifest = &model->manifest,
                                     .layers = is_head ? NULL : (void *)layers,
                                     .head_rank = is_head ? HEAD_RANK : 0,
                                     .head_scale = 1};
    struct rv_adapter *adapter;
    struct ruvllm_error err;

    rv_rng_init(&source.rng, seed);
    for (int32_t i = 0; i < model->hparams.n_layers; i++) {
        for (int part = 0; part < RV_N_PARTS; part++) {
            bool is_changed = model->manifest.layers[i][part] && rv_manifest_part_is_matrix((enum rv_part)part);

            layers[i][part] = (struct rv_adapter_pair){.rank = is_changed ? RANK : 0, .scale = 1};
        }
    }
    need(!rv_adapter_new(&adapter, &shape, random_numbers, &source, &err), "cannot make an adapter", &err);
    free(source.numbers);
    return adapter;
}

/* ---- ours ------------------------------------------------------------------------------------ */

struct ours {
    struct ruvllm_model *model;
    struct rv_block_pool *pool;
    struct rv_decoder *decoder;
    struct rv_kv_seq seqs[N_SEQS];
    struct rv_adapter_mix mixes[N_SEQS];
};

static void open_ours(struct ours *o, const char *path, int n_threads)
{
    struct ruvllm_model_params params = ruvllm_model_params_default();
    struct rv_tier_policy policy = rv_tier_policy_single(RV_KV_BLOCK_F16);
    struct rv_block_pool_config pool = {.budget = (size_t)2 << 30};
    struct rv_decoder_config config;
    struct ruvllm_error err;

    params.max_context = CONTEXT;
    params.n_threads = n_threads;
    need(!rv_model_open(&o->model, path, &params, false, &err), path, &err);
    pool.n_layers = o->model->hparams.n_layers;
    pool.n_kv_heads = o->model->hparams.n_kv_heads;
    pool.head_dim = o->model->hparams.head_dim;
    need(!rv_block_pool_new(&o->pool, &pool, &err), "pool", &err);
    config = (struct rv_decoder_config){.hparams = &o->model->hparams,
                                        .weights = &o->model->weights,
                                        .device = o->model->device,
                                        .pool = o->pool,
                                        .max_rows = LONG,
                                        .max_context = CONTEXT};
    need(!rv_decoder_new(&o->decoder, &config, &err), "decoder", &err);
    for (int i = 0; i < N_SEQS; i++)
        need(!rv_kv_seq_init(&o->seqs[i], o->pool, &policy, CONTEXT, &err), "sequence", &err);
}

/* `n_each` more tokens of the first n_seqs sequences in one step; each one's last row is read out. */
static void step(struct ours *o, int32_t n_seqs, int32_t n_each, bool with)
{
    static int32_t tokens[LONG], pos[LONG], seq[LONG], out_rows[N_SEQS];
    const struct rv_adapter_mix *mixes[N_SEQS];
    struct rv_kv_seq *seqs[N_SEQS];
    struct rv_batch batch = {.tokens = tokens,
                             .pos = pos,
                             .seq = seq,
                             .seqs = seqs,
                             .adapters = with ? seq : NULL,
                             .mixes = mixes,
                             .n_mixes = n_seqs,
                             .out_rows = out_rows,
                             .n_out = n_seqs};
    struct ruvllm_error err;
    float *rows;

    for (int32_t i = 0; i < n_seqs; i++) {
        seqs[i] = &o->seqs[i];
        mixes[i] = &o->mixes[i];
        need(rv_kv_seq_reserve(seqs[i], n_each), "no room", NULL);
        for (int32_t j = 0; j < n_each; j++, batch.n_rows++) {
            tokens[batch.n_rows] = (7919 * (seqs[i]->len + j) + 104729 * i) % o->model->hparams.n_vocab;
            pos[batch.n_rows] = seqs[i]->len + j;
            seq[batch.n_rows] = i;
        }
        out_rows[i] = batch.n_rows - 1;
    }
    need(!rv_decoder_run(o->decoder, &batch, RV_DECODER_LOGITS, &rows, &err), "step", &err);
    for (int32_t i = 0; i < n_seqs; i++)
        rv_kv_seq_advance(seqs[i], n_each);
}

static double run_decode(void *user, bool with)
{
    struct ours *o = user;
    int64_t start;

    if (o->seqs[N_SEQS - 1].len == 0)
        step(o, N_SEQS, PROMPT, false);
    for (int i = 0; i < N_SEQS; i++)
        need(rv_kv_seq_trim(&o->seqs[i], PROMPT) == PROMPT, "cannot go back to the prompt", NULL);
    step(o, N_SEQS, 1, with); // builds the graph
    start = rv_clock_us();
    for (int i = 0; i < STEPS; i++)
        step(o, N_SEQS, 1, with);
    return (double)(rv_clock_us() - start) * 1e-6;
}

static double run_prefill(void *user, bool with)
{
    struct ours *o = user;
    int64_t start;

    rv_kv_seq_clear(&o->seqs[0]);
    start = rv_clock_us();
    step(o, 1, LONG, with);
    return (double)(rv_clock_us() - start) * 1e-6;
}

static void set_adapters(struct ours *o, bool is_head)
{
    for (int i = 0; i < N_SEQS; i++) {
        rv_adapter_unref((struct rv_adapter *)o->mixes[i].adapters[0]);
        o->mixes[i] = (struct rv_adapter_mix){
            .n_adapters = 1, .adapters = {new_adapter(o->model, (uint64_t)i + 1, is_head)}, .weights = {1}};
    }
}

static void bench_ours(const char *path, const char *name, int n_threads, int n_rounds)
{
    static struct ours o;
    struct rounds r;

    open_ours(&o, path, n_threads);
    set_adapters(&o, false);
    take_rounds(&r, n_rounds, run_decode, &o);
    report("16x8", name, &r, (double)N_SEQS * STEPS);
    take_rounds(&r, n_rounds, run_prefill, &o);
    report("prefill512", name, &r, LONG);
    for (int i = 0; i < N_SEQS; i++)
        rv_kv_seq_clear(&o.seqs[i]);
    set_adapters(&o, true);
    take_rounds(&r, n_rounds, run_decode, &o);
    report("head16x2", name, &r, (double)N_SEQS * STEPS);
    for (int i = 0; i < N_SEQS; i++) {
        rv_adapter_unref((struct rv_adapter *)o.mixes[i].adapters[0]);
        rv_kv_seq_release(&o.seqs[i]);
    }
    rv_decoder_free(o.decoder);
    rv_block_pool_free(o.pool);
    rv_model_close(o.model);
}

/* ---- theirs ---------------------------------------------------------------------------------- */

struct theirs {
    struct llama_model *model;
    struct llama_context *context;
    struct llama_adapter_lora *adapter;
    struct llama_batch batch;
    int32_t n_vocab;
    bool has_prompts;
};

/* B as the matrix that files have: [n_out][rank]. */
static void write_pair(struct rv_gguf_write *w, const struct rv_adapter_pair *pair)
{
    size_t rank = (size_t)pair->rank, n_in = (size_t)pair->n_in, n_out = (size_t)pair->n_out;
    uint16_t *b = malloc(rank * n_out * sizeof(*b));
    struct ruvllm_error err;

    need(b != NULL, "out of memory", NULL);
    for (size_t o = 0; o < n_out; o++)
        for (size_t j = 0; j < rank; j++)
            b[o * rank + j] = pair->b[j * n_out + o];
    need(!rv_gguf_write_data(w, pair->a, rank * n_in * sizeof(*b), &err), "write", &err);
    need(!rv_gguf_write_data(w, b, rank * n_out * sizeof(*b), &err), "write", &err);
    free(b);
}

static void describe_pair(struct rv_gguf_write *w, const struct rv_adapter_pair *pair, const struct rv_gguf_tensor *t)
{
    char name[160];
    struct ruvllm_error err;
    struct rv_str str = {.data = name};

    str.len = (size_t)snprintf(name, sizeof(name), "%.*s.lora_a", (int)t->name.len, t->name.data);
    need(!rv_gguf_write_tensor(w, str, GGML_TYPE_F16, 2, (int64_t[]){pair->n_in, pair->rank, 1, 1}, &err), "write",
         &err);
    name[str.len - 1] = 'b';
    need(!rv_gguf_write_tensor(w, str, GGML_TYPE_F16, 2, (int64_t[]){pair->rank, pair->n_out, 1, 1}, &err), "write",
         &err);
}

/* One of our adapters as llama.cpp reads it. */
static void write_adapter(const char *model_path, const char *path)
{
    struct ruvllm_model_params params = ruvllm_model_params_default();
    struct rv_gguf_write *w;
    struct ruvllm_model *model;
    struct rv_adapter *adapter;
    struct ruvllm_error err;
    uint64_t n_bytes;

    need(!rv_model_open(&model, model_path, &params, false, &err), model_path, &err);
    adapter = new_adapter(model, 1, false);
    need(!rv_gguf_write_open(&w, path, 32, &err), path, &err);
    rv_gguf_write_str(w, "general.type", "adapter");
    rv_gguf_write_str(w, "general.architecture", model->architecture);
    rv_gguf_write_str(w, "adapter.type", "lora");
    rv_gguf_write_value(w, "adapter.lora.alpha", 18,
                        &(struct rv_gguf_value){.type = RV_GGUF_F32, .n = 1, .bytes = (const void *)&(float){RANK}});
    for (int pass = 0; pass < 2; pass++) {
        for (int32_t i = 0; i < adapter->n_layers; i++) {
            for (int part = 0; part < RV_N_PARTS; part++) {
                if (adapter->layers[i][part].rank > 0 && pass == 0)
                    describe_pair(w, &adapter->layers[i][part], model->manifest.layers[i][part]);
                else if (adapter->layers[i][part].rank > 0)
                    write_pair(w, &adapter->layers[i][part]);
            }
        }
    }
    need(!rv_gguf_write_finish(w, &n_bytes, &err), path, &err);
    rv_gguf_write_close(w);
    rv_adapter_unref(adapter);
    rv_model_close(model);
}

static void silent(enum ggml_log_level level, const char *text, void *user)
{
    (void)user;
    if (level == GGML_LOG_LEVEL_ERROR)
        (void)fputs(text, stderr);
}

static void open_theirs(struct theirs *t, const char *path, const char *adapter, int n_threads)
{
    struct llama_model_params model = llama_model_default_params();
    struct llama_context_params context = llama_context_default_params();

    llama_log_set(silent, NULL);
    t->model = llama_model_load_from_file(path, model);
    need(t->model != NULL, path, NULL);
    context.n_ctx = CONTEXT + N_SEQS * (PROMPT + STEPS + 1);
    context.n_batch = context.n_ubatch = LONG;
    context.n_seq_max = N_SEQS;
    context.kv_unified = true;
    context.n_threads = context.n_threads_batch = n_threads;
    t->context = llama_init_from_model(t->model, context);
    t->adapter = llama_adapter_lora_init(t->model, adapter);
    need(t->context && t->adapter, "llama.cpp cannot take the adapter", NULL);
    t->batch = llama_batch_init(LONG, 0, 1);
    t->n_vocab = llama_vocab_n_tokens(llama_model_get_vocab(t->model));
}

static void step_theirs(struct theirs *t, int32_t n_seqs, int32_t first, int32_t n_each)
{
    struct llama_batch *b = &t->batch;

    b->n_tokens = 0;
    for (int32_t i = 0; i < n_seqs; i++) {
        for (int32_t j = 0; j < n_each; j++, b->n_tokens++) {
            b->token[b->n_tokens] = (7919 * (first + j) + 104729 * i) % t->n_vocab;
            b->pos[b->n_tokens] = first + j;
            b->n_seq_id[b->n_tokens] = 1;
            b->seq_id[b->n_tokens][0] = i;
            b->logits[b->n_tokens] = j == n_each - 1;
        }
    }
    need(llama_decode(t->context, *b) == 0, "llama.cpp cannot compute a step", NULL);
    llama_synchronize(t->context);
}

static void set_theirs(struct theirs *t, bool with)
{
    float scale = 1;

    need(llama_set_adapters_lora(t->context, &t->adapter, with ? 1 : 0, &scale) == 0, "llama.cpp refuses the adapter",
         NULL);
}

static double run_decode_theirs(void *user, bool with)
{
    struct theirs *t = user;
    int64_t start;

    set_theirs(t, with);
    if (!t->has_prompts)
        step_theirs(t, N_SEQS, 0, PROMPT);
    t->has_prompts = true;
    for (int i = 0; i < N_SEQS; i++)
        need(llama_memory_seq_rm(llama_get_memory(t->context), i, PROMPT, -1), "cannot go back to the prompt", NULL);
    step_theirs(t, N_SEQS, PROMPT, 1);
    start = rv_clock_us();
    for (int i = 0; i < STEPS; i++)
        step_theirs(t, N_SEQS, PROMPT + 1 + i, 1);
    return (double)(rv_clock_us() - start) * 1e-6;
}

static double run_prefill_theirs(void *user, bool with)
{
    struct theirs *t = user;
    int64_t start;

    llama_memory_clear(llama_get_memory(t->context), true);
    set_theirs(t, with);
    start = rv_clock_us();
    step_theirs(t, 1, 0, LONG);
    return (double)(rv_clock_us() - start) * 1e-6;
}

static void bench_theirs(const char *path, const char *name, int n_threads, int n_rounds)
{
    char adapter[512];
    struct theirs t = {0};
    struct rounds r;
    int fd;

    temp_path_of(adapter, sizeof(adapter), "bench_lora_XXXXXX");
    fd = mkstemp(adapter);
    need(fd >= 0, "cannot make a temporary file", NULL);
    write_adapter(path, adapter);
    open_theirs(&t, path, adapter, n_threads);
    (void)remove(adapter);
    take_rounds(&r, n_rounds, run_decode_theirs, &t);
    report("llama16x8", name, &r, (double)N_SEQS * STEPS);
    take_rounds(&r, n_rounds, run_prefill_theirs, &t);
    report("llama_prefill512", name, &r, LONG);
    llama_batch_free(t.batch);
    llama_free(t.context);
    llama_model_free(t.model);
}

int main(int argc, char **argv)
{
    int n_threads = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 2;
    int n_rounds = argc > 3 ? (int)strtol(argv[3], NULL, 10) : 5;
    const char *slash;
    char name[128];

    if (argc < 2 || n_threads < 1 || n_rounds < 1 || n_rounds > MAX_ROUNDS) {
        (void)fprintf(stderr, "usage: bench_lora MODEL [THREADS] [ROUNDS] [llama]\n");
        return 2;
    }
    slash = strrchr(argv[1], '/');
    (void)snprintf(name, sizeof(name), "%s", slash ? slash + 1 : argv[1]);
    if (strlen(name) > 5 && strcmp(name + strlen(name) - 5, ".gguf") == 0)
        name[strlen(name) - 5] = '\0';
    if (argc > 4 && strcmp(argv[4], "llama") == 0)
        bench_theirs(argv[1], name, n_threads, n_rounds);
    else
        bench_ours(argv[1], name, n_threads, n_rounds);
    return 0;
}
