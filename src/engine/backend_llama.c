/*
 * libllama behind the engine's table of functions: the only file that knows it.
 *
 * What comes here went through our own reader: the file is well-formed, its tensors lie inside it, its vocabulary is
 * one our tokenizer runs and its common numbers are in range. libllama reads the very file that was checked, by its
 * open descriptor, and never a second one: models split over several files are refused.
 *
 * Keys and values are libllama's, in one cache that all sequences share; a slot of the engine is a sequence number of
 * libllama's. An engine's pool only counts blocks, and the cache has a cell for every token they stand for, so what the
 * scheduler finds room for has a cell.
 */
#include "base/alloc.h"
#include "base/log.h"
#include "engine/backend.h"
#include "engine/engine.h"
#include "engine/model.h"
#include "kv/block_pool.h"
#include "model/ggml_log.h"

#include <llama.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct llama_state {
    struct rv_backend_state base; // first
    struct llama_context *ctx;
    struct llama_batch batch;
    bool has_batch;
    int32_t max_rows;
    uint64_t kv_bytes;
};

static struct llama_state *llama_of(struct rv_backend_state *state)
{
    return (struct llama_state *)(void *)state;
}

/* ---- what libllama says ---------------------------------------------------------------------- */

/*
 * libllama has one log for the process and tells reasons nowhere else. A thread that wants to know why a call failed
 * leaves a place for the first error of its own calls here; no other thread can see it.
 */
static _Thread_local struct ruvllm_error *listening;

static void on_log(enum ggml_log_level level, const char *text, void *user)
{
    int len = (int)strcspn(text, "\n");

    /* Its warnings are about settings that are ours to choose, its errors come with ours: both are details here. */
    rv_ggml_log_write(listening ? GGML_LOG_LEVEL_INFO : level, text, user);
    if (level == GGML_LOG_LEVEL_ERROR && listening && !listening->message[0] && len > 0)
        snprintf(listening->message, sizeof(listening->message), "%.*s", len, text);
}

static void start(void)
{
    llama_log_set(on_log, NULL);
    llama_backend_init();
}

static void listen_to(struct ruvllm_error *reason)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, start);
    *reason = (struct ruvllm_error){0};
    listening = reason;
}

/* Ends listening; a failure's sentence is ours, its reason libllama's. */
static ruvllm_status fail_with(const struct ruvllm_error *reason, ruvllm_status status, const char *what,
                               struct ruvllm_error *err)
{
    listening = NULL;
    return rv_fail(err, status, "libllama cannot %s: %s", what,
                   reason->message[0] ? reason->message : "it does not say why");
}

/* ---- models ---------------------------------------------------------------------------------- */

static ruvllm_status llama_describe(struct ruvllm_model *model, const struct ruvllm_model_params *params,
                                    struct ruvllm_error *err)
{
    uint32_t n_files = 1;
    ruvllm_status rc = rv_hparams_read_common(&model->hparams, model->file, err);

    if (!rc && rv_gguf_file_has(model->file, "split.count"))
        rc = rv_gguf_file_u32(model->file, "split.count", &n_files, err);
    if (!rc && n_files > 1)
        rc = rv_fail(err, RUVLLM_UNSUPPORTED,
                     "the model is split over %u files; join them with llama-gguf-split --merge", n_files);
    if (!rc && params->rope_scaling == RUVLLM_ROPE_NTK)
        rc = rv_fail_kind(err, RUVLLM_UNSUPPORTED, RUVLLM_ERROR_CONFIG,
                          "backend 'llama' has no RoPE scaling 'ntk'; choose linear or yarn");
    if (!rc)
        rc = rv_model_settle_context(model, params, err);
    if (rc)
        return rc;
    model->manifest.n_params = rv_manifest_n_params(model->file);
    model->manifest.tied = !rv_gguf_file_tensor_find(model->file, "output.weight");
    return RUVLLM_OK;
}

struct loading {
    ruvllm_progress_fn on_progress;
    void *user;
    bool is_stopped;
};

static bool on_load(float fraction, void *user)
{
    struct loading *l = user;

    l->is_stopped = l->on_progress && !l->on_progress(l->user, fraction);
    return !l->is_stopped;
}

/* Another handle of the file that our reader has open: not another file, whatever the path means by now. */
static ruvllm_status open_again(const struct rv_gguf_file *file, FILE **out, struct ruvllm_error *err)
{
    int fd;

    if (rv_gguf_file_fd(file) < 0)
        return rv_fail(err, RUVLLM_UNSUPPORTED, "libllama reads GGUF files only; turn the folder into one first");
    fd = dup(rv_gguf_file_fd(file));
    *out = fd >= 0 ? fdopen(fd, "rb") : NULL;
    if (*out) {
        rewind(*out);
        return RUVLLM_OK;
    }
    if (fd >= 0)
        close(fd);
    return rv_fail(err, RUVLLM_IO, "cannot open the model a second time for libllama");
}

/* What libllama loads but this engine has no way to run: it only appends tokens to sequences. */
static ruvllm_status check_kind(const struct ruvllm_model *m, struct ruvllm_error *err)
{
    int32_t n_vocab = llama_vocab_n_tokens(llama_model_get_vocab(m->llama));

    if (llama_model_has_encoder(m->llama) || !llama_model_has_decoder(m->llama) || llama_model_is_diffusion(m->llama))
        return rv_fail(err, RUVLLM_UNSUPPORTED, "a '%s' model does not write text token by token", m->architecture);
    if (n_vocab != m->hparams.n_vocab || llama_model_n_embd_out(m->llama) != m->hparams.n_embd)
        return rv_fail(err, RUVLLM_FORMAT, "libllama reads %d tokens of width %d where the file has %d of %d", n_vocab,
                       llama_model_n_embd_out(m->llama), m->hparams.n_vocab, m->hparams.n_embd);
    return RUVLLM_OK;
}

static ruvllm_status llama_load(struct ruvllm_model *model, const struct ruvllm_model_params *params,
                                struct ruvllm_error *err)
{
    struct loading loading = {.on_progress = params->on_progress, .user = params->progress_user};
    struct llama_model_params p = llama_model_default_params();
    bool is_cpu = rv_device_is_cpu(model->device);
    ggml_backend_dev_t devices[2] = {NULL, NULL};
    struct ruvllm_error reason;
    FILE *file;
    ruvllm_status rc = open_again(model->file, &file, err);

    if (rc)
        return rc;
    if (!is_cpu)
        devices[0] = ggml_backend_get_device(rv_device_backend(model->device, 0));
    p.devices = devices;
    p.n_gpu_layers = is_cpu ? 0 : -1;
    p.load_mode = params->use_mmap ? LLAMA_LOAD_MODE_MMAP : LLAMA_LOAD_MODE_NONE;
    p.lazy_mode = LLAMA_LAZY_MODE_OFF; // it would read from the handle that is closed below
    p.use_extra_bufts = params->repack;
    p.progress_callback = on_load;
    p.progress_callback_user_data = &loading;
    listen_to(&reason);
    model->llama = llama_model_load_from_file_ptr(file, p);
    fclose(file);
    if (!model->llama && loading.is_stopped) {
        listening = NULL;
        return rv_fail(err, RUVLLM_CANCELLED, "loading was stopped");
    }
    if (!model->llama)
        return fail_with(&reason, RUVLLM_UNSUPPORTED, "load the model", err);
    listening = NULL;
    /* It tells no parts: all is counted as what it was asked for. */
    *(params->use_mmap ? &model->weights.mapped_bytes : &model->weights.allocated_bytes) =
        llama_model_size(model->llama);
    return check_kind(model, err);
}

static void llama_unload(struct ruvllm_model *model)
{
    if (model->llama)
        llama_model_free(model->llama);
    model->llama = NULL;
}

/* ---- states ---------------------------------------------------------------------------------- */

static void set_rope(struct llama_context_params *c, const struct ruvllm_model_params *p)
{
    static const enum llama_rope_scaling_type kinds[] = {
        [RUVLLM_ROPE_FROM_MODEL] = LLAMA_ROPE_SCALING_TYPE_UNSPECIFIED,
        [RUVLLM_ROPE_NONE] = LLAMA_ROPE_SCALING_TYPE_NONE,
        [RUVLLM_ROPE_LINEAR] = LLAMA_ROPE_SCALING_TYPE_LINEAR,
        [RUVLLM_ROPE_NTK] = LLAMA_ROPE_SCALING_TYPE_NONE, // refused before
        [RUVLLM_ROPE_YARN] = LLAMA_ROPE_SCALING_TYPE_YARN,
    };

    c->rope_scaling_type = kinds[p->rope_scaling];
    c->rope_freq_base = p->rope_freq_base;
    c->rope_freq_scale = p->rope_scale > 0 ? 1 / p->rope_scale : 0;
    c->yarn_orig_ctx = (uint32_t)p->rope_original_context;
    if (p->yarn_extrapolation >= 0)
        c->yarn_ext_factor = p->yarn_extrapolation;
    if (p->yarn_attention > 0)
        c->yarn_attn_factor = p->yarn_attention;
    if (p->yarn_beta_fast > 0)
        c->yarn_beta_fast = p->yarn_beta_fast;
    if (p->yarn_beta_slow > 0)
        c->yarn_beta_slow = p->yarn_beta_slow;
}

static void llama_close(struct rv_backend_state *state)
{
    struct llama_state *s = llama_of(state);

    if (!s)
        return;
    if (s->has_batch)
        llama_batch_free(s->batch);
    if (s->ctx)
        llama_free(s->ctx);
    rv_free(s);
}

/* As many as an engine's blocks stand for, or one whole conversation. */
static uint32_t count_cells(const struct rv_backend_state_config *config)
{
    int32_t n = config->pool ? rv_block_pool_n_ids(config->pool) * RV_KV_BLOCK_TOKENS : config->max_context;

    return (uint32_t)n;
}

static ruvllm_status open_context(struct llama_state *s, struct ruvllm_model *m,
                                  const struct rv_backend_state_config *config, struct ruvllm_error *err)
{
    struct llama_context_params p = llama_context_default_params();
    struct ruvllm_error reason;

    if ((size_t)config->n_slots > llama_max_parallel_sequences())
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_CONFIG,
                            "'max_sequences' can be at most %zu with backend 'llama'",
                            llama_max_parallel_sequences() - RV_ENGINE_N_ASIDE);
    p.n_ctx = count_cells(config);
    p.n_batch = p.n_ubatch = (uint32_t)config->max_rows;
    p.n_seq_max = (uint32_t)config->n_slots;
    p.n_threads = p.n_threads_batch = rv_device_n_threads(m->device);
    p.pooling_type = LLAMA_POOLING_TYPE_NONE;
    p.kv_unified = true; // one budget for all sequences, as the scheduler counts it
    p.swa_full = true;   // a sequence can be cut anywhere
    p.no_perf = true;
    set_rope(&p, &m->wishes);
    listen_to(&reason);
    s->ctx = llama_init_from_model(m->llama, p);
    if (!s->ctx)
        return fail_with(&reason, RUVLLM_BACKEND, "make room to compute in", err);
    listening = NULL;
    if (!llama_get_memory(s->ctx))
        return rv_fail(err, RUVLLM_UNSUPPORTED, "a '%s' model does not write text token by token", m->architecture);
    llama_attach_threadpool(s->ctx, rv_device_threadpool(m->device), NULL);
    s->kv_bytes = llama_n_ctx(s->ctx) * m->hparams.kv_token_bytes;
    return RUVLLM_OK;
}

static ruvllm_status llama_open(struct rv_backend_state **out, struct ruvllm_model *model,
                                const struct rv_backend_state_config *config, struct ruvllm_error *err)
{
    struct llama_state *s = rv_calloc(1, sizeof(*s));
    ruvllm_status rc;

    *out = NULL;
    if (!s)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a model's state");
    s->base.ops = &rv_backend_llama_ops;
    s->max_rows = config->max_rows;
    rc = open_context(s, model, config, err);
    if (rc) {
        llama_close(&s->base);
        return rc;
    }
    s->batch = llama_batch_init(config->max_rows, 0, 1);
    s->has_batch = true;
    *out = &s->base;
    return RUVLLM_OK;
}

static void fill_batch(struct llama_state *s, const struct rv_batch *batch)
{
    struct llama_batch *b = &s->batch;

    b->n_tokens = batch->n_rows;
    for (int32_t i = 0; i < batch->n_rows; i++) {
        b->token[i] = batch->tokens[i];
        b->pos[i] = batch->pos[i];
        b->n_seq_id[i] = 1;
        b->seq_id[i][0] = batch->slots ? batch->slots[batch->seq[i]] : batch->seq[i];
        b->logits[i] = 0;
    }
    for (int32_t i = 0; i < batch->n_out; i++)
        b->logits[batch->out_rows[i]] = 1;
}

static ruvllm_status llama_run(struct rv_backend_state *state, const struct rv_batch *batch,
                               enum rv_decoder_result result, float **rows, struct ruvllm_error *err)
{
    struct llama_state *s = llama_of(state);
    bool wants_hidden = result == RV_DECODER_HIDDEN;
    struct ruvllm_error reason;
    int32_t rc;

    RV_ASSERT(batch->n_rows > 0 && batch->n_rows <= s->max_rows && (!wants_hidden || batch->n_out == batch->n_rows));
    fill_batch(s, batch);
    *rows = NULL;
    llama_set_embeddings(s->ctx, wants_hidden);
    listen_to(&reason);
    rc = llama_decode(s->ctx, s->batch);
    if (rc == 1)
        return fail_with(&reason, RUVLLM_TOO_LARGE, "find room for more tokens", err);
    if (rc != 0)
        return fail_with(&reason, RUVLLM_BACKEND, "compute a step", err);
    listening = NULL;
    /* Both wait for the device, and put the rows in the order of the batch. */
    if (batch->n_out > 0)
        *rows = wants_hidden ? llama_get_embeddings(s->ctx) : llama_get_logits(s->ctx);
    else
        llama_synchronize(s->ctx);
    if (batch->n_out > 0 && !*rows)
        return rv_fail(err, RUVLLM_BACKEND, "libllama computed a step and has no results of it");
    return RUVLLM_OK;
}

static int32_t llama_trim(struct rv_backend_state *state, int32_t seq, int32_t len)
{
    llama_memory_t memory = llama_get_memory(llama_of(state)->ctx);

    if (len > 0 && llama_memory_seq_rm(memory, seq, len, -1))
        return len;
    (void)llama_memory_seq_rm(memory, seq, -1, -1); // a whole sequence can always go
    return 0;
}

static uint64_t llama_kv_bytes(const struct rv_backend_state *state)
{
    return ((const struct llama_state *)(const void *)state)->kv_bytes;
}

/* It does not tell. */
static uint64_t llama_scratch_bytes(const struct rv_backend_state *state)
{
    (void)state;
    return 0;
}

const struct rv_backend_ops rv_backend_llama_ops = {
    .name = "llama",
    .can_learn = false,
    .has_blocks = false,
    .describe = llama_describe,
    .load = llama_load,
    .unload = llama_unload,
    .open = llama_open,
    .close = llama_close,
    .run = llama_run,
    .trim = llama_trim,
    .kv_bytes = llama_kv_bytes,
    .scratch_bytes = llama_scratch_bytes,
};
