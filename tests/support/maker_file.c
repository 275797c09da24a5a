/*
 * Metadata and the stream of tensor data. The header comes from ggml's own writer, so these files are as any
 * converter would write them; keys are those the loaders of the architectures read.
 */
#include "support/maker_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ggml.h>
#include <gguf.h>

#include "base/rng.h"
#include "support/maker_tensors.h"
#include "support/maker_vocab.h"

/* A window or cap this large never binds: what "off" looks like where the key has a default. */
#define FAR_WINDOW (1u << 24)
#define FAR_CAP 1e5f

static const char *key(const struct maker_spec *spec, const char *suffix)
{
    static _Thread_local char text[96];

    snprintf(text, sizeof(text), "%s.%s", maker_spec_file_arch(spec), suffix);
    return text;
}

/* A model without attention: a state of one size for each sequence. */
static void write_states(struct gguf_context *gguf, const struct maker_spec *spec)
{
    gguf_set_val_u32(gguf, key(spec, "feed_forward_length"), 0);
    gguf_set_val_u32(gguf, key(spec, "attention.head_count"), 0);
    gguf_set_val_u32(gguf, key(spec, "ssm.conv_kernel"), MAKER_CONV_LENGTH);
    gguf_set_val_u32(gguf, key(spec, "ssm.inner_size"), 2 * (uint32_t)spec->n_embd);
    gguf_set_val_u32(gguf, key(spec, "ssm.state_size"), (uint32_t)spec->n_state);
    gguf_set_val_u32(gguf, key(spec, "ssm.time_step_rank"), (uint32_t)spec->n_embd / 16);
    gguf_set_val_f32(gguf, key(spec, "attention.layer_norm_rms_epsilon"), 1e-5f);
}

static void write_shape(struct gguf_context *gguf, const struct maker_spec *spec)
{
    bool is_stablelm = strcmp(spec->arch, "stablelm") == 0;
    int32_t n_rot = spec->without & MAKER_PARTIAL_ROTARY ? spec->head_dim : spec->n_rot;

    gguf_set_val_str(gguf, "general.architecture", maker_spec_file_arch(spec));
    gguf_set_val_str(gguf, "general.type", "model");
    gguf_set_val_str(gguf, "general.name", spec->name);
    gguf_set_val_u32(gguf, "general.quantization_version", 2);
    gguf_set_val_u32(gguf, key(spec, "vocab_size"), (uint32_t)spec->n_vocab);
    gguf_set_val_u32(gguf, key(spec, "context_length"), (uint32_t)spec->n_ctx);
    gguf_set_val_u32(gguf, key(spec, "embedding_length"), (uint32_t)spec->n_embd);
    gguf_set_val_u32(gguf, key(spec, "block_count"), (uint32_t)spec->n_layers);
    if (maker_spec_is_mamba(spec)) {
        write_states(gguf, spec);
        return;
    }
    gguf_set_val_u32(gguf, key(spec, "feed_forward_length"), (uint32_t)spec->n_ffn);
    if (spec->n_experts > 0) {
        gguf_set_val_u32(gguf, key(spec, "expert_count"), (uint32_t)spec->n_experts);
        gguf_set_val_u32(gguf, key(spec, "expert_used_count"), (uint32_t)spec->n_experts_used);
        gguf_set_val_u32(gguf, key(spec, "expert_feed_forward_length"), (uint32_t)spec->n_ffn);
    }
    gguf_set_val_u32(gguf, key(spec, "attention.head_count"), (uint32_t)spec->n_heads);
    gguf_set_val_u32(gguf, key(spec, "attention.head_count_kv"), (uint32_t)spec->n_kv_heads);
    gguf_set_val_u32(gguf, key(spec, "attention.key_length"), (uint32_t)spec->head_dim);
    gguf_set_val_u32(gguf, key(spec, "attention.value_length"), (uint32_t)spec->head_dim);
    gguf_set_val_u32(gguf, key(spec, "rope.dimension_count"), (uint32_t)n_rot);
    gguf_set_val_f32(gguf, key(spec, is_stablelm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon"),
                     1e-5f);
    if (is_stablelm)
        gguf_set_val_bool(gguf, key(spec, "use_parallel_residual"),
                          spec->parallel && !(spec->without & MAKER_PARALLEL));
}

static void write_attention(struct gguf_context *gguf, const struct maker_spec *spec)
{
    if (maker_spec_is_mamba(spec))
        return;
    if (spec->window)
        gguf_set_val_u32(gguf, key(spec, "attention.sliding_window"),
                         spec->without & MAKER_WINDOW ? FAR_WINDOW : (uint32_t)spec->window);
    if (spec->attn_softcap > 0)
        gguf_set_val_f32(gguf, key(spec, "attn_logit_softcapping"),
                         spec->without & MAKER_ATTN_SOFTCAP ? FAR_CAP : spec->attn_softcap);
    if (spec->final_softcap > 0)
        gguf_set_val_f32(gguf, key(spec, "final_logit_softcapping"),
                         spec->without & MAKER_FINAL_SOFTCAP ? FAR_CAP : spec->final_softcap);
}

static void write_rope(struct gguf_context *gguf, const struct maker_spec *spec)
{
    bool is_off = spec->without & MAKER_ROPE_FACTORS;

    if (maker_spec_is_mamba(spec))
        return;
    gguf_set_val_f32(gguf, key(spec, "rope.freq_base"), spec->rope_base);
    if (spec->rope_base_local > 0)
        gguf_set_val_f32(gguf, key(spec, "rope.freq_base_swa"),
                         spec->without & MAKER_LOCAL_ROPE ? spec->rope_base : spec->rope_base_local);
    if (spec->rope_original > 0 && spec->rope_scaling != MAKER_ROPE_LLAMA3)
        gguf_set_val_u32(gguf, key(spec, "rope.scaling.original_context_length"), (uint32_t)spec->rope_original);
    if (spec->rope_scaling == MAKER_ROPE_LINEAR || spec->rope_scaling == MAKER_ROPE_YARN) {
        const char *type = spec->rope_scaling == MAKER_ROPE_LINEAR ? "linear" : "yarn";

        gguf_set_val_str(gguf, key(spec, "rope.scaling.type"), is_off ? "none" : type);
        gguf_set_val_f32(gguf, key(spec, "rope.scaling.factor"), is_off ? 1.0f : spec->rope_factor);
    }
    if (spec->rope_scaling == MAKER_ROPE_LONGROPE) {
        float magnitude = sqrtf(1.0f + logf(spec->rope_factor) / logf((float)spec->rope_original));

        gguf_set_val_f32(gguf, key(spec, "rope.scaling.attn_factor"),
                         spec->without & MAKER_ROPE_MAGNITUDE ? 1.0f : magnitude);
    }
}

/* Makes one tensor and writes it, padded to the file's alignment. */
static bool write_tensor(FILE *file, const struct maker_tensor *tensor, const struct maker_spec *spec, size_t alignment)
{
    static const char zeros[64] = {0};
    size_t row_bytes = ggml_row_size(tensor->type, tensor->ne[0]);
    size_t total = row_bytes * (size_t)tensor->ne[1];
    int64_t n_kept = spec->unique_rows ? spec->unique_rows : 1; // rows held to be written again
    float *row = malloc((size_t)tensor->ne[0] * sizeof(*row));
    char *packed = malloc(row_bytes * (size_t)n_kept);
    struct rv_rng rng;
    bool ok = row && packed;

    maker_tensor_seed(tensor, spec, &rng);
    for (int64_t i = 0; ok && i < tensor->ne[1]; i++) {
        char *at = packed + (size_t)(i % n_kept) * row_bytes;

        if (!spec->unique_rows || i < n_kept) {
            maker_tensor_row(tensor, spec, i, &rng, row);
            ggml_quantize_chunk(tensor->type, row, at, 0, 1, tensor->ne[0], NULL);
        }
        ok = fwrite(at, 1, row_bytes, file) == row_bytes;
    }
    if (ok && total % alignment != 0)
        ok = fwrite(zeros, 1, alignment - total % alignment, file) == alignment - total % alignment;
    free(packed);
    free(row);
    return ok;
}

static ruvllm_status write_all(struct gguf_context *gguf, const struct maker_tensors *list,
                               const struct maker_spec *spec, const char *path, struct ruvllm_error *err)
{
    FILE *file = fopen(path, "wb");
    bool ok = file && gguf_write_to_file_ptr(gguf, file, true);

    for (size_t i = 0; ok && i < list->n_items; i++)
        ok = write_tensor(file, &list->items[i], spec, gguf_get_alignment(gguf));
    if (file && fclose(file) != 0)
        ok = false;
    if (ok)
        return RUVLLM_OK;
    if (file)
        remove(path);
    return rv_fail(err, RUVLLM_IO, "cannot write model '%s'", path);
}

static ruvllm_status add_tensors(struct gguf_context *gguf, const struct maker_tensors *list, struct ruvllm_error *err)
{
    struct ggml_init_params params = {.mem_size = ggml_tensor_overhead() * (list->n_items + 1), .no_alloc = true};
    struct ggml_context *ctx = ggml_init(params);

    if (!ctx)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot describe %zu tensors", list->n_items);
    for (size_t i = 0; i < list->n_items; i++) {
        const struct maker_tensor *item = &list->items[i];
        int64_t n_stacked = item->n_stacked ? item->n_stacked : 1;
        int64_t ne[3] = {item->ne[0], item->ne[1] / n_stacked, n_stacked};
        struct ggml_tensor *tensor = ggml_new_tensor(ctx, item->type, item->n_stacked ? 3 : item->n_dims, ne);

        ggml_set_name(tensor, item->name);
        gguf_add_tensor(gguf, tensor);
    }
    ggml_free(ctx);
    return RUVLLM_OK;
}

ruvllm_status maker_file_write(const struct maker_spec *spec, const char *path, struct ruvllm_error *err)
{
    struct maker_spec full = *spec; // the vocabulary settles its size
    struct maker_tensors list = {0};
    struct gguf_context *gguf = gguf_init_empty();
    ruvllm_status rc;

    if (!gguf)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot make model '%s'", path);
    rc = maker_vocab_write(gguf, &full, err);
    if (rc == RUVLLM_OK) {
        write_shape(gguf, &full);
        write_attention(gguf, &full);
        write_rope(gguf, &full);
        rc = maker_tensors_list(&list, &full, err);
    }
    if (rc == RUVLLM_OK)
        rc = add_tensors(gguf, &list, err);
    if (rc == RUVLLM_OK)
        rc = write_all(gguf, &list, &full, path, err);
    maker_tensors_release(&list);
    gguf_free(gguf);
    return rc;
}
