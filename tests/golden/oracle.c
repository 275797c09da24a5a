/* A thin wrapper around libllama: load, clear, decode, read logits. */
#include "golden/oracle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <llama.h>

#include "support/test.h"

enum { ORACLE_BATCH = 512 };

struct oracle {
    struct llama_model *model;
    struct llama_context *ctx;
    const struct llama_vocab *vocab;
    struct llama_batch batch;
    int32_t n_past;
};

/* libllama tells every load in a hundred lines; only its errors are kept. */
static void log_errors(enum ggml_log_level level, const char *text, void *user)
{
    (void)user;
    if (level == GGML_LOG_LEVEL_ERROR)
        fputs(text, stderr);
}

static void override_rope(struct llama_context_params *params, const struct oracle_rope *rope)
{
    static const enum llama_rope_scaling_type kinds[] = {
        [ORACLE_ROPE_FROM_MODEL] = LLAMA_ROPE_SCALING_TYPE_UNSPECIFIED,
        [ORACLE_ROPE_NONE] = LLAMA_ROPE_SCALING_TYPE_NONE,
        [ORACLE_ROPE_LINEAR] = LLAMA_ROPE_SCALING_TYPE_LINEAR,
        [ORACLE_ROPE_YARN] = LLAMA_ROPE_SCALING_TYPE_YARN,
    };

    params->rope_scaling_type = kinds[rope->scaling];
    params->rope_freq_scale = rope->freq_scale;
    params->rope_freq_base = rope->freq_base;
    params->yarn_orig_ctx = rope->original_context;
    if (rope->beta_fast > 0)
        params->yarn_beta_fast = rope->beta_fast;
    if (rope->beta_slow > 0)
        params->yarn_beta_slow = rope->beta_slow;
}

struct oracle *oracle_open(const char *path, const struct oracle_params *wanted)
{
    struct oracle *oracle = calloc(1, sizeof(*oracle));
    struct llama_model_params model_params = llama_model_default_params();
    struct llama_context_params params = llama_context_default_params();

    assert_non_null(oracle);
    llama_log_set(log_errors, NULL);
    model_params.use_extra_bufts = !wanted->no_repack;
    oracle->model = llama_model_load_from_file(path, model_params);
    if (!oracle->model)
        fail_msg("libllama cannot load '%s'", path);
    params.n_ctx = (uint32_t)wanted->n_ctx;
    params.n_batch = ORACLE_BATCH;
    params.n_ubatch = ORACLE_BATCH;
    params.n_threads = wanted->n_threads;
    params.n_threads_batch = wanted->n_threads;
    if (wanted->rope)
        override_rope(&params, wanted->rope);
    oracle->ctx = llama_init_from_model(oracle->model, params);
    if (!oracle->ctx)
        fail_msg("libllama cannot make a context for '%s'", path);
    oracle->vocab = llama_model_get_vocab(oracle->model);
    oracle->batch = llama_batch_init(ORACLE_BATCH, 0, 1);
    return oracle;
}

void oracle_close(struct oracle *oracle)
{
    if (!oracle)
        return;
    llama_batch_free(oracle->batch);
    llama_free(oracle->ctx);
    llama_model_free(oracle->model);
    free(oracle);
}

bool oracle_use_lora(struct oracle *oracle, const char *path)
{
    struct llama_adapter_lora *lora = llama_adapter_lora_init(oracle->model, path); // freed with the model
    float strength = 1.0f;

    return lora && llama_set_adapters_lora(oracle->ctx, &lora, 1, &strength) == 0;
}

int32_t oracle_n_vocab(const struct oracle *oracle)
{
    return llama_vocab_n_tokens(oracle->vocab);
}

int32_t oracle_bos(const struct oracle *oracle)
{
    return llama_vocab_bos(oracle->vocab);
}

bool oracle_is_end(const struct oracle *oracle, int32_t token)
{
    return llama_vocab_is_eog(oracle->vocab, token);
}

size_t oracle_tokenize(const struct oracle *oracle, const char *text, size_t len, int32_t *out, size_t cap)
{
    int32_t n = llama_tokenize(oracle->vocab, text, (int32_t)len, out, (int32_t)cap, true, true);

    if (n < 0)
        fail_msg("%zu bytes are %d tokens, room is for %zu", len, -n, cap);
    return (size_t)n;
}

/* Decodes `n` tokens as the next positions of the sequence, with logits of those from `first` on. */
static void decode(struct oracle *oracle, const int32_t *tokens, size_t n, size_t first)
{
    struct llama_batch *batch = &oracle->batch;

    batch->n_tokens = (int32_t)n;
    for (size_t i = 0; i < n; i++) {
        batch->token[i] = tokens[i];
        batch->pos[i] = oracle->n_past + (int32_t)i;
        batch->n_seq_id[i] = 1;
        batch->seq_id[i][0] = 0;
        batch->logits[i] = i >= first;
    }
    if (llama_decode(oracle->ctx, *batch) != 0)
        fail_msg("libllama cannot decode %zu tokens at position %d", n, oracle->n_past);
    oracle->n_past += (int32_t)n;
}

void oracle_forward(struct oracle *oracle, const int32_t *tokens, size_t n, size_t first, size_t n_batch, float *logits)
{
    size_t n_vocab = (size_t)oracle_n_vocab(oracle);

    llama_memory_clear(llama_get_memory(oracle->ctx), true);
    oracle->n_past = 0;
    for (size_t at = 0; at < n; at += n_batch) {
        size_t count = n - at < n_batch ? n - at : n_batch;
        size_t skip = first > at ? first - at : 0;

        decode(oracle, tokens + at, count, skip);
        for (size_t i = skip; i < count; i++)
            memcpy(logits + (at + i - first) * n_vocab, llama_get_logits_ith(oracle->ctx, (int32_t)i),
                   n_vocab * sizeof(*logits));
    }
}

const float *oracle_decode(struct oracle *oracle, int32_t token)
{
    decode(oracle, &token, 1, 0);
    return llama_get_logits_ith(oracle->ctx, 0);
}
