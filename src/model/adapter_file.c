/*
 * What the formats share: the list of pairs, the checks every pair must pass whoever read it, the hashes, and the way
 * to memory and back. The formats themselves are adapter_gguf and adapter_peft.
 */
#include "model/adapter_file.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "kernels/half.h"
#include "model/adapter_gguf.h"
#include "model/adapter_peft.h"
#include "model/gguf_value.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct rv_adapter_file_storage {
    struct rv_arena arena;
    struct rv_gguf_file *gguf; // NULL: the numbers are in the arena
    size_t pairs_cap;
    int32_t (*index)[RV_N_PARTS]; // place of a layer's pair in the list plus one; 0: none
    int32_t head;                 // the same of the head's
};

/* ---- the base ------------------------------------------------------------------------------ */

static void hash_vector(struct rv_sha256 *sha, const struct rv_gguf_tensor *vector)
{
    if (vector)
        rv_sha256_add(sha, vector->data, vector->n_bytes);
}

void rv_adapter_file_base_init(struct rv_adapter_file_base *base, const struct rv_hparams *hparams,
                               const struct rv_manifest *manifest)
{
    struct rv_sha256 sha;
    char line[160];
    int len =
        snprintf(line, sizeof(line), "ruvllm base 1 %s %d %d %d %d %d %d\n", hparams->arch->name, hparams->n_layers,
                 hparams->n_embd, hparams->n_heads, hparams->n_kv_heads, hparams->head_dim, hparams->n_ff);

    *base = (struct rv_adapter_file_base){.hparams = hparams, .manifest = manifest};
    rv_sha256_init(&sha);
    rv_sha256_add(&sha, line, (size_t)len);
    for (int32_t layer = 0; layer < hparams->n_layers; layer++) {
        hash_vector(&sha, manifest->layers[layer][RV_PART_ATTN_NORM]);
        hash_vector(&sha, manifest->layers[layer][RV_PART_FFN_NORM]);
    }
    hash_vector(&sha, manifest->roots[RV_ROOT_OUTPUT_NORM]);
    rv_sha256_finish(&sha, base->hash);
}

/* ---- the list of pairs --------------------------------------------------------------------- */

ruvllm_status rv_adapter_file_new(struct rv_adapter_file **out, struct ruvllm_error *err)
{
    struct rv_adapter_file *file = rv_calloc(1, sizeof(*file));

    *out = NULL;
    if (file)
        file->storage = rv_calloc(1, sizeof(*file->storage));
    if (!file || !file->storage) {
        rv_free(file);
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate an adapter's list of matrices");
    }
    rv_arena_init(&file->storage->arena, SIZE_MAX / 2);
    *out = file;
    return RUVLLM_OK;
}

void rv_adapter_file_close(struct rv_adapter_file *file)
{
    if (!file)
        return;
    rv_gguf_file_close(file->storage->gguf);
    rv_arena_release(&file->storage->arena);
    rv_free(file->storage->index);
    rv_free(file->storage);
    rv_free(file->pairs);
    rv_free(file);
}

void *rv_adapter_file_alloc(struct rv_adapter_file *file, size_t bytes)
{
    return rv_arena_alloc(&file->storage->arena, bytes);
}

void rv_adapter_file_keep_gguf(struct rv_adapter_file *file, struct rv_gguf_file *gguf)
{
    RV_ASSERT(!file->storage->gguf);
    file->storage->gguf = gguf;
}

static ruvllm_status add_pair(struct rv_adapter_file *file, struct ruvllm_error *err)
{
    struct rv_adapter_file_storage *storage = file->storage;

    if (file->n_pairs == storage->pairs_cap) {
        size_t cap = storage->pairs_cap ? storage->pairs_cap * 2 : 4;
        struct rv_adapter_file_pair *grown = rv_realloc_array(file->pairs, cap, sizeof(*grown));

        if (!grown)
            return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a list of %zu matrices", cap);
        file->pairs = grown;
        storage->pairs_cap = cap;
    }
    file->n_pairs++;
    return RUVLLM_OK;
}

/* The place of the pair's number in the list. */
static ruvllm_status find_slot(struct rv_adapter_file *file, const struct rv_adapter_file_base *base, int32_t layer,
                               enum rv_part part, int32_t **out, struct ruvllm_error *err)
{
    struct rv_adapter_file_storage *storage = file->storage;

    if (layer < 0) {
        *out = &storage->head;
        return RUVLLM_OK;
    }
    if (layer >= base->hparams->n_layers || !rv_manifest_part_is_matrix(part) || !base->manifest->layers[layer][part])
        return rv_fail(err, RUVLLM_INVALID, "the model has no such matrix in layer %d", layer);
    if (!storage->index)
        storage->index = rv_calloc((size_t)base->hparams->n_layers, sizeof(*storage->index));
    if (!storage->index)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the table of an adapter's matrices");
    *out = &storage->index[layer][part];
    return RUVLLM_OK;
}

ruvllm_status rv_adapter_file_pair_at(struct rv_adapter_file *file, const struct rv_adapter_file_base *base,
                                      int32_t layer, enum rv_part part, struct rv_adapter_file_pair **out,
                                      struct ruvllm_error *err)
{
    const struct rv_gguf_tensor *matrix;
    int32_t *slot = NULL;
    ruvllm_status rc = find_slot(file, base, layer, part, &slot, err);

    *out = NULL;
    if (rc)
        return rc;
    if (*slot == 0) {
        rc = add_pair(file, err);
        if (rc)
            return rc;
        *slot = (int32_t)file->n_pairs;
        matrix = layer < 0 ? NULL : base->manifest->layers[layer][part];
        file->pairs[file->n_pairs - 1] = (struct rv_adapter_file_pair){
            .layer = layer < 0 ? -1 : layer,
            .part = part,
            .n_in = matrix ? (int32_t)matrix->ne[0] : base->hparams->n_embd,
            .n_out = matrix ? (int32_t)matrix->ne[1] : base->hparams->n_embd,
            .scale = 1.0f,
        };
    }
    *out = &file->pairs[*slot - 1];
    return RUVLLM_OK;
}

struct rv_str rv_adapter_file_pair_name(const struct rv_adapter_file_base *base,
                                        const struct rv_adapter_file_pair *pair)
{
    if (pair->layer < 0)
        return (struct rv_str){RV_ADAPTER_FILE_HEAD, strlen(RV_ADAPTER_FILE_HEAD)};
    return base->manifest->layers[pair->layer][pair->part]->name;
}

/* ---- numbers ------------------------------------------------------------------------------- */

struct rv_adapter_file_view rv_adapter_file_side(const struct rv_adapter_file_pair *pair,
                                                 enum rv_adapter_file_side side)
{
    if (side == RV_ADAPTER_FILE_A)
        return (struct rv_adapter_file_view){&pair->a, pair->n_in, pair->rank};
    return (struct rv_adapter_file_view){&pair->b, pair->rank, pair->n_out};
}

size_t rv_adapter_file_bytes(const struct rv_adapter_file_matrix *matrix, int64_t row_len, int64_t n_rows)
{
    return ggml_row_size(matrix->type, row_len) * (size_t)n_rows;
}

static void floats_from_16(const unsigned char *from, size_t n, bool is_half, float *out)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t bits;

        memcpy(&bits, from + i * sizeof(bits), sizeof(bits));
        out[i] = is_half ? rv_half_to_float(bits) : rv_half_bits_float((uint32_t)bits << 16);
    }
}

void rv_adapter_file_floats(const struct rv_adapter_file_matrix *matrix, int64_t row_len, int64_t first_row,
                            int64_t n_rows, float *out)
{
    const unsigned char *from = (const unsigned char *)matrix->data + rv_adapter_file_bytes(matrix, row_len, first_row);
    size_t n = (size_t)row_len * (size_t)n_rows;

    if (matrix->type == GGML_TYPE_F32)
        memcpy(out, from, n * sizeof(*out));
    else if (matrix->type == GGML_TYPE_F16 || matrix->type == GGML_TYPE_BF16)
        floats_from_16(from, n, matrix->type == GGML_TYPE_F16, out);
    else
        ggml_get_type_traits(matrix->type)->to_float(from, out, (int64_t)n);
}

/* ---- checks -------------------------------------------------------------------------------- */

static bool type_is_readable(enum ggml_type type)
{
    return type == GGML_TYPE_F32 || type == GGML_TYPE_F16 || type == GGML_TYPE_BF16 ||
           (ggml_is_quantized(type) && ggml_get_type_traits(type)->to_float);
}

static ruvllm_status check_numbers(const struct rv_adapter_file_view *view, struct ruvllm_error *err)
{
    float *row = rv_realloc_array(NULL, (size_t)view->row_len, sizeof(*row));
    bool is_finite = true;

    if (!row)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a row of %lld numbers", (long long)view->row_len);
    for (int64_t r = 0; r < view->n_rows && is_finite; r++) {
        rv_adapter_file_floats(view->matrix, view->row_len, r, 1, row);
        for (int64_t i = 0; i < view->row_len; i++)
            is_finite = is_finite && isfinite(row[i]);
    }
    rv_free(row);
    return is_finite ? RUVLLM_OK : rv_fail(err, RUVLLM_FORMAT, "it holds NaN or infinity");
}

static ruvllm_status check_side(const struct rv_adapter_file_pair *pair, enum rv_adapter_file_side side,
                                struct ruvllm_error *err)
{
    struct rv_adapter_file_view view = rv_adapter_file_side(pair, side);

    if (!view.matrix->data)
        return rv_fail(err, RUVLLM_FORMAT, "its %s is missing", side == RV_ADAPTER_FILE_A ? "A" : "B");
    if (!type_is_readable(view.matrix->type))
        return rv_fail(err, RUVLLM_UNSUPPORTED, "its numbers are of type %s", ggml_type_name(view.matrix->type));
    return check_numbers(&view, err);
}

static ruvllm_status check_pair(const struct rv_adapter_file_pair *pair, struct ruvllm_error *err)
{
    int32_t narrow = pair->n_in < pair->n_out ? pair->n_in : pair->n_out;
    ruvllm_status rc;

    if (pair->rank < 1 || pair->rank > RV_ADAPTER_MAX_RANK || pair->rank > narrow)
        return rv_fail(err, RUVLLM_FORMAT, "rank %d is not between 1 and %d", pair->rank,
                       narrow < RV_ADAPTER_MAX_RANK ? narrow : RV_ADAPTER_MAX_RANK);
    if (!isfinite(pair->scale))
        return rv_fail(err, RUVLLM_FORMAT, "its scale is not a finite number");
    rc = check_side(pair, RV_ADAPTER_FILE_A, err);
    return rc ? rc : check_side(pair, RV_ADAPTER_FILE_B, err);
}

static ruvllm_status check_pairs(const struct rv_adapter_file *file, const struct rv_adapter_file_base *base,
                                 struct ruvllm_error *err)
{
    if (file->n_pairs == 0)
        return rv_fail(err, RUVLLM_FORMAT, "it changes nothing: no pair of matrices is in it");
    for (size_t i = 0; i < file->n_pairs; i++) {
        struct rv_str name = rv_adapter_file_pair_name(base, &file->pairs[i]);
        ruvllm_status rc = check_pair(&file->pairs[i], err);

        if (rc)
            return rv_fail_in(err, rc, "cannot use its change of '%.*s'", (int)name.len, name.data);
    }
    return RUVLLM_OK;
}

/* ---- hashes -------------------------------------------------------------------------------- */

static void hash_pair(struct rv_sha256 *sha, const struct rv_adapter_file_base *base,
                      const struct rv_adapter_file_pair *pair)
{
    struct rv_str name = rv_adapter_file_pair_name(base, pair);
    char line[256];
    int len = snprintf(line, sizeof(line), "%.*s %d %d %d %08x %s %s\n", (int)name.len, name.data, pair->rank,
                       pair->n_in, pair->n_out, rv_half_float_bits(pair->scale), ggml_type_name(pair->a.type),
                       ggml_type_name(pair->b.type));

    rv_sha256_add(sha, line, (size_t)len);
    for (int side = RV_ADAPTER_FILE_A; side <= RV_ADAPTER_FILE_B; side++) {
        struct rv_adapter_file_view view = rv_adapter_file_side(pair, (enum rv_adapter_file_side)side);

        rv_sha256_add(sha, view.matrix->data, rv_adapter_file_bytes(view.matrix, view.row_len, view.n_rows));
    }
}

static void compute_hashes(struct rv_adapter_file *file, const struct rv_adapter_file_base *base)
{
    static const char title[] = "ruvllm adapter 1\n";
    struct rv_sha256 sha, layers;

    rv_sha256_init(&sha);
    rv_sha256_add(&sha, title, strlen(title));
    for (size_t i = 0; i < file->n_layer_pairs; i++)
        hash_pair(&sha, base, &file->pairs[i]);
    layers = sha;
    if (file->n_layer_pairs)
        rv_sha256_finish(&layers, file->layers_hash);
    if (file->n_layer_pairs < file->n_pairs)
        hash_pair(&sha, base, &file->pairs[file->n_pairs - 1]);
    rv_sha256_finish(&sha, file->hash);
}

static int compare_pairs(const void *left, const void *right)
{
    const struct rv_adapter_file_pair *a = left, *b = right;

    if (a->layer != b->layer)
        return (uint32_t)a->layer < (uint32_t)b->layer ? -1 : 1; // the head's -1 comes last
    return (a->part > b->part) - (a->part < b->part);
}

ruvllm_status rv_adapter_file_seal(struct rv_adapter_file *file, const struct rv_adapter_file_base *base,
                                   struct ruvllm_error *err)
{
    ruvllm_status rc = check_pairs(file, base, err);

    if (rc)
        return rc;
    qsort(file->pairs, file->n_pairs, sizeof(*file->pairs), compare_pairs);
    file->n_layer_pairs = file->n_pairs - (file->storage->head ? 1 : 0);
    /* The places have changed; nobody may look them up any more. */
    rv_free(file->storage->index);
    file->storage->index = NULL;
    for (size_t i = 0; i < file->n_pairs; i++) {
        if (file->pairs[i].rank > file->max_rank)
            file->max_rank = file->pairs[i].rank;
    }
    compute_hashes(file, base);
    return RUVLLM_OK;
}

/* ---- files --------------------------------------------------------------------------------- */

ruvllm_status rv_adapter_file_open(struct rv_adapter_file **out, const char *path,
                                   const struct rv_adapter_file_base *base, struct ruvllm_error *err)
{
    struct stat st;
    ruvllm_status rc;

    *out = NULL;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        rc = rv_adapter_peft_open(out, path, base, err);
    else
        rc = rv_adapter_gguf_open(out, path, base, err);
    return rc ? rv_fail_in(err, rc, "cannot use adapter '%s'", path) : RUVLLM_OK;
}

ruvllm_status rv_adapter_file_write(const struct rv_adapter_file *file, const struct rv_adapter_file_base *base,
                                    const char *path, ruvllm_adapter_format format, struct ruvllm_error *err)
{
    ruvllm_status rc;

    switch (format) {
    case RUVLLM_ADAPTER_GGUF:
        rc = rv_adapter_gguf_write(file, base, path, err);
        break;
    case RUVLLM_ADAPTER_OWN:
        rc = rv_adapter_gguf_write_own(file, base, path, err);
        break;
    case RUVLLM_ADAPTER_PEFT:
        rc = rv_adapter_peft_write(file, base, path, err);
        break;
    default:
        return rv_fail(err, RUVLLM_INVALID, "there is no adapter format of number %d", (int)format);
    }
    return rc ? rv_fail_in(err, rc, "cannot write adapter '%s'", path) : RUVLLM_OK;
}

/* ---- to memory and back -------------------------------------------------------------------- */

/* The pair whose turn it is, and room for the numbers of any. */
struct reader {
    const struct rv_adapter_file *file;
    size_t i_pair;
    float *a;
    float *b;
};

static ruvllm_status read_numbers(void *user, int32_t layer, enum rv_part part, struct rv_adapter_numbers *out,
                                  struct ruvllm_error *err)
{
    struct reader *reader = user;
    const struct rv_adapter_file_pair *pair = &reader->file->pairs[reader->i_pair++];

    (void)err;
    RV_ASSERT(pair->layer == layer && (layer < 0 || pair->part == part));
    rv_adapter_file_floats(&pair->a, pair->n_in, 0, pair->rank, reader->a);
    rv_adapter_file_floats(&pair->b, pair->rank, 0, pair->n_out, reader->b);
    *out = (struct rv_adapter_numbers){reader->a, reader->b};
    return RUVLLM_OK;
}

/* Ranks and scales as rv_adapter_new takes them; *table is the caller's, NULL when no layer is changed. */
static bool shape_of(const struct rv_adapter_file *file, const struct rv_adapter_file_base *base,
                     struct rv_adapter_shape *shape, struct rv_adapter_pair (**table)[RV_N_PARTS])
{
    *shape = (struct rv_adapter_shape){.hparams = base->hparams, .manifest = base->manifest};
    *table = NULL;
    if (file->n_layer_pairs) {
        *table = rv_calloc((size_t)base->hparams->n_layers, sizeof(**table));
        if (!*table)
            return false;
    }
    for (size_t i = 0; i < file->n_layer_pairs; i++) {
        const struct rv_adapter_file_pair *pair = &file->pairs[i];

        (*table)[pair->layer][pair->part] = (struct rv_adapter_pair){.rank = pair->rank, .scale = pair->scale};
    }
    shape->layers = (const struct rv_adapter_pair(*)[RV_N_PARTS]) * table;
    if (file->n_layer_pairs < file->n_pairs) {
        shape->head_rank = file->pairs[file->n_pairs - 1].rank;
        shape->head_scale = file->pairs[file->n_pairs - 1].scale;
    }
    return true;
}

ruvllm_status rv_adapter_file_adapter(const struct rv_adapter_file *file, const struct rv_adapter_file_base *base,
                                      struct rv_adapter **out, struct ruvllm_error *err)
{
    struct reader reader = {.file = file};
    struct rv_adapter_pair(*table)[RV_N_PARTS] = NULL;
    struct rv_adapter_shape shape;
    size_t n_a = 0, n_b = 0;
    ruvllm_status rc;

    *out = NULL;
    for (size_t i = 0; i < file->n_pairs; i++) {
        const struct rv_adapter_file_pair *pair = &file->pairs[i];
        size_t a = (size_t)pair->rank * (size_t)pair->n_in, b = (size_t)pair->rank * (size_t)pair->n_out;

        n_a = a > n_a ? a : n_a;
        n_b = b > n_b ? b : n_b;
    }
    reader.a = rv_realloc_array(NULL, n_a, sizeof(*reader.a));
    reader.b = rv_realloc_array(NULL, n_b, sizeof(*reader.b));
    if (reader.a && reader.b && shape_of(file, base, &shape, &table))
        rc = rv_adapter_new(out, &shape, read_numbers, &reader, err);
    else
        rc = rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %zu numbers of an adapter", n_a + n_b);
    rv_free(reader.a);
    rv_free(reader.b);
    rv_free(table);
    return rc;
}

static ruvllm_status copy_pair(struct rv_adapter_file *file, const struct rv_adapter_file_base *base, int32_t layer,
                               enum rv_part part, const struct rv_adapter_pair *from, struct ruvllm_error *err)
{
    size_t rank = (size_t)from->rank, n_in = (size_t)from->n_in, n_out = (size_t)from->n_out;
    struct rv_adapter_file_pair *pair;
    uint16_t *a, *b;
    ruvllm_status rc;

    if (from->rank == 0)
        return RUVLLM_OK;
    rc = rv_adapter_file_pair_at(file, base, layer, part, &pair, err);
    if (rc)
        return rc;
    a = rv_adapter_file_alloc(file, rank * n_in * sizeof(*a));
    b = rv_adapter_file_alloc(file, rank * n_out * sizeof(*b));
    if (!a || !b)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %zu numbers of an adapter", rank * (n_in + n_out));
    memcpy(a, from->a, rank * n_in * sizeof(*a));
    for (size_t r = 0; r < rank; r++) {
        for (size_t i = 0; i < n_out; i++)
            b[i * rank + r] = from->b[r * n_out + i];
    }
    pair->rank = from->rank;
    pair->scale = from->scale;
    pair->a = (struct rv_adapter_file_matrix){GGML_TYPE_F16, a};
    pair->b = (struct rv_adapter_file_matrix){GGML_TYPE_F16, b};
    return RUVLLM_OK;
}

ruvllm_status rv_adapter_file_from(struct rv_adapter_file **out, const struct rv_adapter *adapter,
                                   const struct rv_adapter_file_base *base, struct ruvllm_error *err)
{
    struct rv_adapter_file *file;
    ruvllm_status rc = rv_adapter_file_new(&file, err);

    *out = NULL;
    if (rc)
        return rc;
    for (int32_t layer = 0; adapter->layers && layer < adapter->n_layers; layer++) {
        for (int part = 0; part < RV_N_PARTS && !rc; part++)
            rc = copy_pair(file, base, layer, (enum rv_part)part, &adapter->layers[layer][part], err);
    }
    if (!rc)
        rc = copy_pair(file, base, -1, RV_PART_ATTN_NORM, &adapter->head, err);
    if (!rc)
        rc = rv_adapter_file_seal(file, base, err);
    if (rc) {
        rv_adapter_file_close(file);
        return rc;
    }
    *out = file;
    return RUVLLM_OK;
}
