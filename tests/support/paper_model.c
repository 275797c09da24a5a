/* Tensors have names and shapes; only norms and the head have data, because nobody looks at the rest. */
#include "support/paper_model.h"

#include "base/rng.h"
#include "kernels/half.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Used by fuzz targets too, where there is no case to fail. */
static void must(bool holds, const char *what)
{
    if (holds)
        return;
    (void)fprintf(stderr, "paper model: %s\n", what);
    abort();
}

static struct rv_str copy_name(const char *name)
{
    char *copy = calloc(strlen(name) + 1, 1);

    must(copy != NULL, "no memory");
    memcpy(copy, name, strlen(name));
    return (struct rv_str){copy, strlen(name)};
}

static void add_matrix(struct paper_model *m, int32_t layer, enum rv_part part, const char *name, int64_t n_in,
                       int64_t n_out)
{
    struct rv_gguf_tensor *t = &m->tensors[layer][part];
    char full[64];

    (void)snprintf(full, sizeof(full), "blk.%d.%s.weight", layer, name);
    *t = (struct rv_gguf_tensor){.name = copy_name(full), .n_dims = 2, .ne = {n_in, n_out, 1, 1}};
    m->manifest.layers[layer][part] = t;
}

static void add_vector(struct paper_model *m, int32_t layer, enum rv_part part, const char *name)
{
    add_matrix(m, layer, part, name, PAPER_EMBD, 1);
    m->tensors[layer][part].n_dims = 1;
    m->tensors[layer][part].n_bytes = sizeof(m->norm);
    m->tensors[layer][part].data = m->norm;
}

static void add_layer(struct paper_model *m, int32_t layer, bool fused_qkv)
{
    int64_t n_q = PAPER_HEADS * PAPER_HEAD_DIM, n_kv = PAPER_KV_HEADS * PAPER_HEAD_DIM;
    bool fused_up = m->hparams.arch->fused_gate_up;

    add_vector(m, layer, RV_PART_ATTN_NORM, "attn_norm");
    add_vector(m, layer, RV_PART_FFN_NORM, "ffn_norm");
    if (fused_qkv) {
        add_matrix(m, layer, RV_PART_QKV, "attn_qkv", PAPER_EMBD, n_q + 2 * n_kv);
    } else {
        add_matrix(m, layer, RV_PART_Q, "attn_q", PAPER_EMBD, n_q);
        add_matrix(m, layer, RV_PART_K, "attn_k", PAPER_EMBD, n_kv);
        add_matrix(m, layer, RV_PART_V, "attn_v", PAPER_EMBD, n_kv);
    }
    add_matrix(m, layer, RV_PART_O, "attn_output", n_q, PAPER_EMBD);
    if (!fused_up)
        add_matrix(m, layer, RV_PART_GATE, "ffn_gate", PAPER_EMBD, PAPER_FF);
    add_matrix(m, layer, RV_PART_UP, "ffn_up", PAPER_EMBD, fused_up ? 2 * PAPER_FF : PAPER_FF);
    add_matrix(m, layer, RV_PART_DOWN, "ffn_down", PAPER_FF, PAPER_EMBD);
}

static void add_roots(struct paper_model *m, bool tied)
{
    m->roots[RV_ROOT_OUTPUT_NORM] = (struct rv_gguf_tensor){.name = {"output_norm.weight", 18},
                                                            .n_dims = 1,
                                                            .ne = {PAPER_EMBD, 1, 1, 1},
                                                            .n_bytes = sizeof(m->norm),
                                                            .data = m->norm};
    m->roots[RV_ROOT_OUTPUT] = (struct rv_gguf_tensor){.name = {"output.weight", 13},
                                                       .n_dims = 2,
                                                       .ne = {PAPER_EMBD, PAPER_VOCAB, 1, 1},
                                                       .n_bytes = sizeof(m->head),
                                                       .data = m->head};
    m->manifest.roots[RV_ROOT_OUTPUT_NORM] = &m->roots[RV_ROOT_OUTPUT_NORM];
    m->manifest.roots[RV_ROOT_OUTPUT] = &m->roots[RV_ROOT_OUTPUT];
    m->manifest.tied = tied;
}

void paper_model_init(struct paper_model *m, const char *arch, uint64_t seed, bool tied)
{
    struct rv_rng rng;

    memset(m, 0, sizeof(*m));
    m->hparams = (struct rv_hparams){
        .arch = rv_arch_find((struct rv_str){arch, strlen(arch)}),
        .n_vocab = PAPER_VOCAB,
        .n_layers = PAPER_LAYERS,
        .n_embd = PAPER_EMBD,
        .n_heads = PAPER_HEADS,
        .n_kv_heads = PAPER_KV_HEADS,
        .head_dim = PAPER_HEAD_DIM,
        .n_ff = PAPER_FF,
    };
    must(m->hparams.arch != NULL, "no such architecture");
    m->manifest.layers = calloc(PAPER_LAYERS, sizeof(*m->manifest.layers));
    m->tensors = calloc(PAPER_LAYERS, sizeof(*m->tensors));
    must(m->manifest.layers && m->tensors, "no memory");
    rv_rng_init(&rng, seed);
    for (size_t i = 0; i < PAPER_EMBD; i++)
        m->norm[i] = (float)rv_rng_uniform(&rng);
    for (size_t i = 0; i < PAPER_VOCAB * PAPER_EMBD; i++)
        m->head[i] = (float)rv_rng_normal(&rng);
    for (int32_t layer = 0; layer < PAPER_LAYERS; layer++)
        add_layer(m, layer, m->hparams.arch->fused_gate_up);
    add_roots(m, tied);
    rv_adapter_file_base_init(&m->base, &m->hparams, &m->manifest);
}

void paper_model_release(struct paper_model *m)
{
    for (int32_t layer = 0; layer < PAPER_LAYERS; layer++) {
        for (int part = 0; part < RV_N_PARTS; part++)
            free((void *)(uintptr_t)m->tensors[layer][part].name.data);
    }
    free(m->manifest.layers);
    free(m->tensors);
    memset(m, 0, sizeof(*m));
}

struct paper_model paper_llama, paper_phi3, paper_qwen2;

int paper_model_setup(void **state)
{
    (void)state;
    paper_model_init(&paper_llama, "llama", 1, false);
    paper_model_init(&paper_phi3, "phi3", 2, false);
    paper_model_init(&paper_qwen2, "qwen2", 3, true);
    return 0;
}

int paper_model_teardown(void **state)
{
    (void)state;
    paper_model_release(&paper_llama);
    paper_model_release(&paper_phi3);
    paper_model_release(&paper_qwen2);
    return 0;
}

/* ---- adapters ------------------------------------------------------------------------------ */

struct rv_adapter_file *paper_adapter_open(const struct paper_model *model, const char *path)
{
    struct rv_adapter_file *file = NULL;
    struct ruvllm_error err = {0};

    must(rv_adapter_file_open(&file, path, &model->base, &err) == RUVLLM_OK, err.message);
    return file;
}

static struct rv_adapter_file_matrix random_matrix(struct rv_adapter_file *file, struct rv_rng *rng, size_t n,
                                                   enum ggml_type type)
{
    size_t size = type == GGML_TYPE_F32 ? sizeof(float) : sizeof(uint16_t);
    unsigned char *data = rv_adapter_file_alloc(file, n * size);

    must(data != NULL, "no memory");
    for (size_t i = 0; i < n; i++) {
        float x = (float)(0.25 * rv_rng_normal(rng));
        uint32_t bits = rv_half_float_bits(x);
        uint16_t half = type == GGML_TYPE_F16 ? rv_half_from_float(x) : (uint16_t)(bits >> 16);

        memcpy(data + i * size, type == GGML_TYPE_F32 ? (void *)&bits : (void *)&half, size);
    }
    return (struct rv_adapter_file_matrix){type, data};
}

static void add_pair(const struct paper_model *m, const struct paper_adapter *wanted, struct rv_adapter_file *file,
                     int32_t layer, enum rv_part part, int32_t rank, struct rv_rng *rng)
{
    struct rv_adapter_file_pair *pair;

    must(rv_adapter_file_pair_at(file, &m->base, layer, part, &pair, NULL) == RUVLLM_OK, "no such matrix");
    pair->rank = rank;
    pair->scale = wanted->scale + wanted->scale_step * (float)(file->n_pairs - 1);
    pair->a = random_matrix(file, rng, (size_t)rank * (size_t)pair->n_in, wanted->type);
    pair->b = random_matrix(file, rng, (size_t)rank * (size_t)pair->n_out, wanted->type);
}

struct rv_adapter_file *paper_adapter_new(const struct paper_model *m, const struct paper_adapter *wanted)
{
    struct rv_adapter_file *file;
    struct rv_rng rng;
    int i_matrix = 0;

    must(rv_adapter_file_new(&file, NULL) == RUVLLM_OK, "no memory");
    rv_rng_init(&rng, wanted->seed);
    for (int32_t layer = 0; layer < PAPER_LAYERS && wanted->rank; layer++) {
        for (int part = 0; part < RV_N_PARTS; part++) {
            int32_t rank = wanted->differing && wanted->rank > layer ? wanted->rank - layer : wanted->rank;

            if (!m->manifest.layers[layer][part] || !rv_manifest_part_is_matrix((enum rv_part)part))
                continue;
            if (!wanted->differing || i_matrix % 3 != 2)
                add_pair(m, wanted, file, layer, (enum rv_part)part, rank, &rng);
            i_matrix++;
        }
    }
    if (wanted->head_rank)
        add_pair(m, wanted, file, -1, RV_PART_ATTN_NORM, wanted->head_rank, &rng);
    must(rv_adapter_file_seal(file, &m->base, NULL) == RUVLLM_OK, "the adapter is not good");
    return file;
}

double *paper_adapter_change(const struct rv_adapter_file_pair *pair)
{
    size_t n_in = (size_t)pair->n_in, n_out = (size_t)pair->n_out, rank = (size_t)pair->rank;
    double *out = calloc(n_in * n_out, sizeof(*out));
    float *a = calloc(rank * n_in, sizeof(*a)), *b = calloc(rank * n_out, sizeof(*b));

    must(out && a && b, "no memory");
    rv_adapter_file_floats(&pair->a, pair->n_in, 0, pair->rank, a);
    rv_adapter_file_floats(&pair->b, pair->rank, 0, pair->n_out, b);
    for (size_t o = 0; o < n_out; o++) {
        for (size_t i = 0; i < n_in; i++) {
            for (size_t r = 0; r < rank; r++)
                out[o * n_in + i] += (double)pair->scale * (double)b[o * rank + r] * (double)a[r * n_in + i];
        }
    }
    free(a);
    free(b);
    return out;
}

const struct rv_adapter_file_pair *paper_adapter_pair(const struct rv_adapter_file *file, int32_t layer,
                                                      enum rv_part part)
{
    for (size_t i = 0; i < file->n_pairs; i++) {
        if (file->pairs[i].layer == layer && (layer < 0 || file->pairs[i].part == part))
            return &file->pairs[i];
    }
    return NULL;
}
