/* Everything is merged from the 16 bits that steps compute with, in doubles, and rounded once. */
#include "support/adapter_fixture.h"

#include "base/rng.h"
#include "kernels/half.h"
#include "model/gguf_parse.h"
#include "model/gguf_write.h"
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void *allocate(size_t n, size_t size)
{
    void *p = calloc(n, size);

    assert_non_null(p);
    return p;
}

/* ---- random ones --------------------------------------------------------------------------- */

struct source {
    const struct adapter_fixture *fixture;
    struct rv_rng rng;
    float *a, *b;
};

static ruvllm_status random_numbers(void *user, int32_t layer, enum rv_part part, struct rv_adapter_numbers *out,
                                    struct ruvllm_error *err)
{
    struct source *s = user;
    const struct adapter_fixture *f = s->fixture;
    const int64_t *ne = layer < 0 ? NULL : f->manifest->layers[layer][part]->ne;
    size_t n_in = ne ? (size_t)ne[0] : (size_t)f->hparams->n_embd;
    size_t n_out = ne ? (size_t)ne[1] : (size_t)f->hparams->n_embd;
    size_t rank = (size_t)(layer < 0 ? f->head_rank : f->rank);

    (void)err;
    free(s->a);
    free(s->b);
    s->a = allocate(rank * n_in, sizeof(float));
    s->b = allocate(rank * n_out, sizeof(float));
    for (size_t i = 0; i < rank * n_in; i++)
        s->a[i] = (float)(rv_rng_normal(&s->rng) / sqrt((double)n_in));
    for (size_t i = 0; i < rank * n_out; i++)
        s->b[i] = (float)(rv_rng_normal(&s->rng) * (double)f->strength / sqrt((double)rank));
    *out = (struct rv_adapter_numbers){.a = s->a, .b = s->b};
    return RUVLLM_OK;
}

struct rv_adapter *adapter_fixture_new(const struct adapter_fixture *fixture)
{
    static const float scales[] = {0.5f, 1.0f, 2.0f};
    struct rv_adapter_pair(*layers)[RV_N_PARTS] = allocate((size_t)fixture->hparams->n_layers, sizeof(*layers));
    struct source source = {.fixture = fixture};
    struct rv_adapter_shape shape = {.hparams = fixture->hparams,
                                     .manifest = fixture->manifest,
                                     .layers = fixture->rank > 0 ? (void *)layers : NULL,
                                     .head_rank = fixture->head_rank,
                                     .head_scale = 1.0f};
    struct rv_adapter *adapter;

    rv_rng_init(&source.rng, fixture->seed);
    for (int32_t layer = 0; layer < fixture->hparams->n_layers; layer++) {
        for (int part = 0; part < RV_N_PARTS; part++) {
            if (!fixture->manifest->layers[layer][part] || !rv_manifest_part_is_matrix((enum rv_part)part))
                continue;
            layers[layer][part].rank = fixture->rank;
            layers[layer][part].scale = scales[(layer + part) % 3];
        }
    }
    assert_ok(rv_adapter_new(&adapter, &shape, random_numbers, &source, err));
    free(source.a);
    free(source.b);
    free(layers);
    return adapter;
}

struct rv_adapter *adapter_fixture_new_of(const struct adapter_fixture *fixture, uint64_t layers_seed,
                                          uint64_t head_seed)
{
    struct adapter_fixture f = *fixture;
    struct rv_adapter *both, *head;
    size_t bytes;

    f.seed = layers_seed ? layers_seed : head_seed;
    f.rank = layers_seed ? f.rank : 0;
    f.head_rank = head_seed ? f.head_rank : 0;
    both = adapter_fixture_new(&f);
    if (!layers_seed || !head_seed)
        return both;
    f.seed = head_seed;
    f.rank = 0;
    head = adapter_fixture_new(&f);
    bytes = (size_t)head->head.rank * (size_t)head->head.n_in * sizeof(uint16_t);
    memcpy((void *)(uintptr_t)both->head.a, head->head.a, bytes); // nobody else has it yet
    memcpy((void *)(uintptr_t)both->head.b, head->head.b, bytes);
    rv_adapter_unref(head);
    return both;
}

/* ---- merging ------------------------------------------------------------------------------- */

static float *floats_of(const struct rv_gguf_tensor *t)
{
    size_t n = (size_t)(t->ne[0] * t->ne[1]);
    float *out = allocate(n, sizeof(float));

    if (t->type == GGML_TYPE_F32)
        memcpy(out, t->data, n * sizeof(float));
    else
        ggml_get_type_traits(t->type)->to_float(t->data, out, (int64_t)n);
    return out;
}

static double *doubles_of(const uint16_t *halves, size_t n)
{
    double *out = allocate(n, sizeof(*out));

    for (size_t i = 0; i < n; i++)
        out[i] = (double)rv_half_to_float(halves[i]);
    return out;
}

/* w[o][i] += factor sum_j b[j][o] a[j][i]. */
static void merge_pair(float *w, const struct rv_adapter_pair *pair, double factor)
{
    size_t rank = (size_t)pair->rank, n_in = (size_t)pair->n_in, n_out = (size_t)pair->n_out;
    double *a, *b, *sums;

    if (rank == 0)
        return;
    a = doubles_of(pair->a, rank * n_in);
    b = doubles_of(pair->b, rank * n_out);
    sums = allocate(n_in, sizeof(*sums));
    for (size_t o = 0; o < n_out; o++, w += n_in) {
        for (size_t i = 0; i < n_in; i++)
            sums[i] = (double)w[i];
        for (size_t j = 0; j < rank; j++)
            for (size_t i = 0; i < n_in; i++)
                sums[i] += factor * b[j * n_out + o] * a[j * n_in + i];
        for (size_t i = 0; i < n_in; i++)
            w[i] = (float)sums[i];
    }
    free(a);
    free(b);
    free(sums);
}

static bool changes_head(const struct rv_adapter_mix *mix)
{
    for (int32_t k = 0; mix && k < mix->n_adapters; k++)
        if (mix->adapters[k]->head.rank > 0)
            return true;
    return false;
}

/* w (h + factor B A h) = (w + factor (w B) A) h, for the one adapter of the mix. */
static void merge_head(float *w, int64_t n_rows, const struct rv_adapter_mix *mix)
{
    const struct rv_adapter_pair *pair = &mix->adapters[0]->head;
    double factor = (double)mix->weights[0] * (double)pair->scale;
    size_t rank = (size_t)pair->rank, n = (size_t)pair->n_in;
    double *a, *b;

    if (!changes_head(mix))
        return;
    assert_int_equal(mix->n_adapters, 1);
    a = doubles_of(pair->a, rank * n);
    b = doubles_of(pair->b, rank * n);
    for (int64_t row = 0; row < n_rows; row++, w += n) {
        double change[RV_ADAPTER_MAX_RANK] = {0};

        for (size_t j = 0; j < rank; j++)
            for (size_t o = 0; o < n; o++)
                change[j] += (double)w[o] * b[j * n + o];
        for (size_t i = 0; i < n; i++) {
            double sum = (double)w[i];

            for (size_t j = 0; j < rank; j++)
                sum += factor * change[j] * a[j * n + i];
            w[i] = (float)sum;
        }
    }
    free(a);
    free(b);
}

static bool is_named(const struct rv_gguf_tensor *a, const struct rv_gguf_tensor *b)
{
    return a && b && a->name.len == b->name.len && memcmp(a->name.data, b->name.data, a->name.len) == 0;
}

static void merge_layers(float *w, const struct rv_gguf_tensor *t, const struct rv_manifest *manifest,
                         const struct rv_adapter_mix *mix)
{
    for (int32_t k = 0; k < mix->n_adapters; k++) {
        const struct rv_adapter *adapter = mix->adapters[k];

        for (int32_t layer = 0; adapter->layers && layer < adapter->n_layers; layer++) {
            for (int part = 0; part < RV_N_PARTS; part++) {
                const struct rv_adapter_pair *pair = &adapter->layers[layer][part];

                if (is_named(manifest->layers[layer][part], t))
                    merge_pair(w, pair, (double)mix->weights[k] * (double)pair->scale);
            }
        }
    }
}

static void write_tensor(struct rv_gguf_write *writer, const struct rv_gguf_tensor *t, bool is_head,
                         const struct rv_manifest *manifest, const struct rv_adapter_mix *mix)
{
    float *w = floats_of(t);

    if (mix && is_head)
        merge_head(w, t->ne[1], mix);
    else if (mix)
        merge_layers(w, t, manifest, mix);
    assert_ok(rv_gguf_write_data(writer, w, (size_t)(t->ne[0] * t->ne[1]) * sizeof(float), err));
    free(w);
}

void adapter_fixture_merge(const struct rv_gguf_file *model, const struct rv_hparams *hparams,
                           const struct rv_manifest *manifest, const struct rv_adapter_mix *mix, const char *out)
{
    const struct rv_gguf_tensor *head = manifest->roots[RV_ROOT_OUTPUT];
    bool adds_head = manifest->tied && changes_head(mix);
    struct rv_gguf_write *writer;
    struct rv_gguf_parse parse;
    uint64_t n_bytes;

    assert_false(adds_head && hparams->arch->tied_always);
    assert_ok(rv_gguf_parse_init(&parse, rv_gguf_file_mapping(model), rv_gguf_file_n_bytes(model), err));
    assert_ok(rv_gguf_write_open(&writer, out, 32, err));
    for (size_t i = 0; i < parse.n_kvs; i++) {
        struct rv_gguf_value value = rv_gguf_parse_value(&parse.kvs[i]);

        rv_gguf_write_value(writer, parse.kvs[i].key, parse.kvs[i].key_len, &value);
    }
    for (size_t i = 0; i < parse.n_tensors; i++) {
        const struct rv_gguf_tensor *t = &parse.tensors[i];

        assert_ok(rv_gguf_write_tensor(writer, t->name, GGML_TYPE_F32, t->n_dims, t->ne, err));
    }
    if (adds_head)
        assert_ok(rv_gguf_write_tensor(writer, (struct rv_str){"output.weight", 13}, GGML_TYPE_F32, 2, head->ne, err));
    for (size_t i = 0; i < parse.n_tensors; i++)
        write_tensor(writer, &parse.tensors[i], !manifest->tied && is_named(head, &parse.tensors[i]), manifest, mix);
    if (adds_head)
        write_tensor(writer, head, true, manifest, mix);
    assert_ok(rv_gguf_write_finish(writer, &n_bytes, err));
    rv_gguf_write_close(writer);
    rv_gguf_parse_release(&parse);
}
