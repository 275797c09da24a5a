/* Opening a model in the order of trust: file, text, numbers, tensors, and only then weights and a device. */
#include "engine/model.h"

#include "base/alloc.h"
#include "base/log.h"
#include "engine/own_kv.h"
#include "engine/vocab_loader.h"

#include <math.h>
#include <string.h>
#include <strings.h>

enum { DEFAULT_CONTEXT = 4096, MIN_BATCH = 1, MAX_BATCH = 8192 };

static ruvllm_status load_template(struct ruvllm_model *m, const struct ruvllm_model_params *params,
                                   struct ruvllm_error *err)
{
    struct rv_str source;
    ruvllm_status rc;

    if (!rv_gguf_file_has(m->file, "tokenizer.chat_template")) {
        if (params->template_sha256)
            return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_CONFIG,
                                "the file has no chat template, but one was pinned by its hash");
        return RUVLLM_OK;
    }
    rc = rv_gguf_file_str(m->file, "tokenizer.chat_template", &source, err);
    if (rc)
        return rc;
    m->template_source = rv_strndup(source.data, source.len);
    if (!m->template_source)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the chat template");
    /* A template that does not parse is no reason to refuse the model: using it is the error. */
    rc = rv_chat_template_new(&m->chat_template, source.data, source.len, &m->template_error);
    if (rc)
        rv_log(RUVLLM_LOG_WARN, "the model's chat template cannot be used: %s", m->template_error.message);
    if (!params->template_sha256)
        return RUVLLM_OK;
    if (!m->chat_template || strcasecmp(rv_chat_template_sha256(m->chat_template), params->template_sha256) != 0)
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_CONFIG,
                            "the chat template's SHA-256 is %s, not the pinned one: the file is not what you expect",
                            m->chat_template ? rv_chat_template_sha256(m->chat_template) : "unknown");
    return RUVLLM_OK;
}

static ruvllm_status check_params(const struct ruvllm_model_params *p, struct ruvllm_error *err)
{
    const char *field = NULL;
    ruvllm_status rc;

    if (p->max_context < 0)
        field = "max_context";
    else if (p->max_batch < MIN_BATCH || p->max_batch > MAX_BATCH)
        field = "max_batch";
    else if (p->n_threads < 0 || p->n_threads > 512)
        field = "n_threads";
    else if ((unsigned)p->rope_scaling > RUVLLM_ROPE_YARN)
        field = "rope_scaling";
    else if (!(p->rope_scale >= 0 && p->rope_scale <= 1e4f))
        field = "rope_scale";
    else if (!(p->rope_freq_base >= 0 && p->rope_freq_base <= 1e12f))
        field = "rope_freq_base";
    else if (p->rope_original_context < 0)
        field = "rope_original_context";
    else if (!(p->yarn_extrapolation <= 1e3f))
        field = "yarn_extrapolation";
    else if (!(p->yarn_attention >= 0 && p->yarn_attention <= 1e3f))
        field = "yarn_attention";
    else if (!(p->yarn_beta_fast >= 0 && p->yarn_beta_fast <= 1e6f))
        field = "yarn_beta_fast";
    else if (!(p->yarn_beta_slow >= 0 && p->yarn_beta_slow <= 1e6f))
        field = "yarn_beta_slow";
    if (field)
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_CONFIG, "'%s' is out of range", field);
    rc = rv_own_kv_check_attention(p->attention, err);
    return rc ? rc : rv_backend_check_name(p->backend, err);
}

ruvllm_status rv_model_settle_context(struct ruvllm_model *model, const struct ruvllm_model_params *params,
                                      struct ruvllm_error *err)
{
    struct ruvllm_model *m = model;
    const struct ruvllm_model_params *p = params;
    double reach = m->hparams.trained_context;

    /* A stretched RoPE reaches further than the training did. */
    if (p->rope_scaling > RUVLLM_ROPE_NONE && p->rope_scale > 1)
        reach = fmin((double)reach * (double)p->rope_scale, 1 << 28);
    m->max_context = p->max_context && p->max_context < reach ? p->max_context : (int32_t)reach;
    m->max_batch = p->max_batch < m->max_context ? p->max_batch : m->max_context;
    if ((size_t)m->hparams.n_vocab < rv_vocab_n_tokens(m->vocab))
        return rv_fail(err, RUVLLM_FORMAT, "the vocabulary has %zu tokens, the embedding only %d",
                       rv_vocab_n_tokens(m->vocab), m->hparams.n_vocab);
    return RUVLLM_OK;
}

static ruvllm_status open_weights(struct ruvllm_model *m, const struct ruvllm_model_params *p, struct ruvllm_error *err)
{
    ruvllm_status rc = rv_device_open(&m->device, p->device, p->n_threads, err);

    return rc ? rc : m->backend->load(m, p, err);
}

static ruvllm_status open_state(struct ruvllm_model *m, const char *attention, struct ruvllm_error *err)
{
    struct rv_backend_state_config config = {
        .n_slots = 1, .max_rows = m->max_batch, .max_context = m->max_context, .attention = attention};

    m->history = rv_calloc((size_t)m->max_context, sizeof(*m->history));
    m->pos = rv_calloc((size_t)m->max_batch, sizeof(*m->pos));
    m->seq = rv_calloc((size_t)m->max_batch, sizeof(*m->seq));
    m->out_rows = rv_calloc((size_t)m->max_batch, sizeof(*m->out_rows));
    if (!m->history || !m->pos || !m->seq || !m->out_rows)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the state of %d tokens", m->max_context);
    return m->backend->open(&m->state, m, &config, err);
}

/* For its vocabulary alone, a file without weights or of a family that nobody here can run is good enough. */
static bool is_vocab_enough(const struct ruvllm_model *m, const struct ruvllm_model_params *params)
{
    return params->vocab_only && (rv_gguf_file_n_tensors(m->file) == 0 || rv_hparams_is_foreign(m->file));
}

/* A string of the metadata, copied; "" where the file has none. */
static ruvllm_status copy_string(const struct rv_gguf_file *file, const char *key, char **out, struct ruvllm_error *err)
{
    struct rv_str value = {.data = "", .len = 0};
    ruvllm_status rc = rv_gguf_file_has(file, key) ? rv_gguf_file_str(file, key, &value, err) : RUVLLM_OK;

    if (rc)
        return rc;
    *out = rv_strndup(value.data, value.len);
    return *out ? RUVLLM_OK : rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate '%s'", key);
}

static ruvllm_status open_parts(struct ruvllm_model *m, const char *path, const struct ruvllm_model_params *params,
                                bool state, struct ruvllm_error *err)
{
    struct ruvllm_error reason = {0};
    ruvllm_status rc = check_params(params, err);

    if (!rc)
        rc = rv_gguf_file_open(&m->file, path, err);
    if (!rc)
        rc = copy_string(m->file, "general.name", &m->name, err);
    if (!rc)
        rc = copy_string(m->file, "general.architecture", &m->architecture, err);
    if (rc)
        return rc;
    m->quantization = rv_gguf_file_main_type(m->file);
    rc = rv_vocab_loader_open(m->file, &m->vocab, err);
    if (!rc)
        rc = load_template(m, params, err);
    if (!rc)
        rc = rv_constraint_shelf_new(&m->constraints, m->vocab, rv_tool_style_of(m->template_source), err);
    if (rc)
        return rc;
    rc = rv_backend_choose(m, params, &reason);
    if (rc && is_vocab_enough(m, params)) {
        memset(&m->hparams, 0, sizeof(m->hparams));
        return RUVLLM_OK;
    }
    if (rc && err)
        *err = reason;
    if (!rc && !params->vocab_only)
        rc = open_weights(m, params, err);
    if (!rc && !params->vocab_only && state)
        rc = open_state(m, params->attention, err);
    return rc;
}

ruvllm_status rv_model_open(struct ruvllm_model **out, const char *path, const struct ruvllm_model_params *params,
                            bool state, struct ruvllm_error *err)
{
    struct ruvllm_model *m = rv_calloc(1, sizeof(*m));
    ruvllm_status rc;

    *out = NULL;
    if (!m)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a model");
    atomic_init(&m->is_busy, false);
    m->wishes = *params;
    rc = open_parts(m, path, params, state, err);
    if (rc) {
        rv_model_close(m);
        return rv_fail_in(err, rc, "cannot open model '%s'", path);
    }
    *out = m;
    return RUVLLM_OK;
}

void rv_model_close(struct ruvllm_model *model)
{
    if (!model)
        return;
    if (model->state)
        model->backend->close(model->state);
    if (model->backend)
        model->backend->unload(model);
    rv_adapter_unref(model->adapter);
    rv_device_close(model->device);
    rv_chat_template_free(model->chat_template);
    rv_constraint_shelf_free(model->constraints);
    rv_vocab_free(model->vocab);
    rv_gguf_file_close(model->file);
    rv_free(model->template_source);
    rv_free(model->name);
    rv_free(model->architecture);
    rv_free(model->history);
    rv_free(model->pos);
    rv_free(model->seq);
    rv_free(model->out_rows);
    rv_free(model);
}

bool rv_model_has_blocks(const struct ruvllm_model *model)
{
    return model->backend && model->backend->has_blocks && (!model->device || rv_device_is_cpu(model->device));
}

ruvllm_status rv_model_acquire(struct ruvllm_model *model, struct ruvllm_error *err)
{
    bool expected = false;

    if (!model->state && model->device)
        return rv_fail(err, RUVLLM_INVALID, "the model is served by an engine; submit a request to it");
    if (!model->state)
        return rv_fail(err, RUVLLM_INVALID, "the model was opened for its vocabulary only and cannot compute");
    if (!atomic_compare_exchange_strong_explicit(&model->is_busy, &expected, true, memory_order_acquire,
                                                 memory_order_relaxed))
        return rv_fail(err, RUVLLM_BUSY, "the model is computing for another call");
    return RUVLLM_OK;
}

void rv_model_yield(struct ruvllm_model *model)
{
    atomic_store_explicit(&model->is_busy, false, memory_order_release);
}

void rv_model_set_adapter(struct ruvllm_model *model, struct rv_adapter *adapter, float weight, uint64_t layers)
{
    if (layers != model->adapter_layers)
        (void)rv_model_rewind(model, 0);
    rv_adapter_unref(model->adapter);
    model->adapter = adapter ? rv_adapter_ref(adapter) : NULL;
    model->mix = (struct rv_adapter_mix){.n_adapters = adapter != NULL, .adapters = {adapter}, .weights = {weight}};
    model->adapter_layers = layers;
}

int32_t rv_model_rewind(struct ruvllm_model *model, int32_t n)
{
    if (n < model->n_history)
        model->n_history = model->backend->trim(model->state, 0, n);
    return model->n_history;
}

/* One batch: rows first..first+n of the call, those from `out_from` on read out. */
static ruvllm_status advance_batch(struct ruvllm_model *m, const int32_t *tokens, int32_t n, int32_t n_out,
                                   enum rv_decoder_result result, float **rows, struct ruvllm_error *err)
{
    const struct rv_adapter_mix *mixes[1] = {&m->mix};
    struct rv_batch batch = {
        .n_rows = n, .tokens = tokens, .pos = m->pos, .seq = m->seq, .out_rows = m->out_rows, .n_out = n_out};

    if (m->adapter) {
        batch.adapters = m->seq; // all zero, as mixes has one entry
        batch.mixes = mixes;
        batch.n_mixes = 1;
    }
    for (int32_t i = 0; i < n; i++)
        m->pos[i] = m->n_history + i;
    for (int32_t i = 0; i < n_out; i++)
        m->out_rows[i] = n - n_out + i;
    return m->backend->run(m->state, &batch, result, rows, err);
}

ruvllm_status rv_model_advance(struct ruvllm_model *model, const int32_t *tokens, int32_t n, int32_t n_out,
                               enum rv_decoder_result result, rv_model_rows_fn on_rows, void *user,
                               struct ruvllm_error *err)
{
    int32_t start = model->n_history;

    RV_ASSERT(n > 0 && n_out <= n);
    if (n > model->max_context - start)
        return rv_fail_kind(err, RUVLLM_TOO_LARGE, RUVLLM_ERROR_KV_CACHE, "%d tokens do not fit a context of %d",
                            start + n, model->max_context);
    for (int32_t done = 0; done < n;) {
        int32_t size = n - done < model->max_batch ? n - done : model->max_batch;
        int32_t wanted = done + size - (n - n_out); // rows of this batch among the last n_out
        float *rows;
        ruvllm_status rc;

        wanted = wanted < 0 ? 0 : wanted < size ? wanted : size;
        rc = advance_batch(model, tokens + done, size, wanted, result, &rows, err);
        if (rc) {
            /* The failed batch may have taken room that the history does not count. */
            model->n_history = model->backend->trim(model->state, 0, start);
            return rc;
        }
        memcpy(model->history + model->n_history, tokens + done, (size_t)size * sizeof(*tokens));
        model->n_history += size;
        done += size;
        if (wanted && on_rows)
            on_rows(user, rows, wanted);
    }
    return RUVLLM_OK;
}
