/*
 * Reading is one pass over the file's tensors: each name leads to a matrix of the model and a side of its pair. The
 * GGUF reader has checked that they lie in the file and do not overlap; what they mean is checked here and by
 * rv_adapter_file_seal. Writing goes pair by pair, A before B, in the order of the list.
 */
#include "model/adapter_gguf.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "model/gguf_value.h"
#include "model/gguf_write.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OWN_VERSION = 1, ALIGNMENT = 32, MAX_NAME = 128 };

static const char *const KEY_TYPE = "adapter.type";
static const char *const KEY_ALPHA = "adapter.lora.alpha";
static const char *const KEY_INVOCATION = "adapter.alora.invocation_tokens";
static const char *const KEY_VERSION = "ruvllm.adapter.version";
static const char *const KEY_BASE = "ruvllm.adapter.base";
static const char *const KEY_HASH = "ruvllm.adapter.hash";
static const char *const KEY_SCALES = "ruvllm.adapter.scales";
static const char *const KEY_PEFT_CONFIG = "ruvllm.adapter.peft_config";
static const char *const KEY_PEFT_HEADER = "ruvllm.adapter.peft_header";
static const char *const TYPE_LORA = "lora";
static const char *const TYPE_OWN = "ruvllm";

static bool equals(struct rv_str text, const char *word)
{
    return text.len == strlen(word) && memcmp(text.data, word, text.len) == 0;
}

static bool cut_end(struct rv_str *text, const char *end)
{
    size_t len = strlen(end);

    if (text->len < len || memcmp(text->data + text->len - len, end, len) != 0)
        return false;
    text->len -= len;
    return true;
}

/* ---- what the metadata says ---------------------------------------------------------------- */

struct source {
    struct rv_adapter_file *out;
    const struct rv_gguf_file *gguf;
    const struct rv_adapter_file_base *base;
    bool is_own;
    float alpha; // 0: pairs are not scaled
    float *scales;
    size_t n_scales;
    size_t i_scale; // next one
};

static ruvllm_status expect_word(const struct source *s, const char *key, const char *word, const char *sentence,
                                 struct ruvllm_error *err)
{
    char label[RV_GGUF_VALUE_LABEL];
    struct rv_str text = {"", 0};
    ruvllm_status rc = rv_gguf_file_str(s->gguf, key, &text, err);

    if (rc && rc != RUVLLM_NOT_FOUND)
        return rc;
    if (rc || !equals(text, word))
        return rv_fail(err, RUVLLM_FORMAT, "%s: '%s' is '%s', not '%s'", sentence, key,
                       rv_gguf_value_label(text.data, text.len, label), word);
    return RUVLLM_OK;
}

/* The base's hash is in files of ours, and whoever wrote another kind may have put it there. */
static ruvllm_status check_base(const struct source *s, struct ruvllm_error *err)
{
    struct rv_str hash;
    ruvllm_status rc =
        expect_word(s, "general.architecture", s->base->hparams->arch->name, "it was made for another base model", err);

    if (rc)
        return rc;
    if (!s->is_own && !rv_gguf_file_has(s->gguf, KEY_BASE))
        return RUVLLM_OK;
    rc = rv_gguf_file_str(s->gguf, KEY_BASE, &hash, err);
    if (rc)
        return rc;
    if (!equals(hash, s->base->hash))
        return rv_fail(err, RUVLLM_FORMAT,
                       "it was made for another base model: architecture and shape may be the same, the weights of "
                       "the norms are not");
    return RUVLLM_OK;
}

static ruvllm_status read_own(struct source *s, struct ruvllm_error *err)
{
    uint32_t version = 0;
    ruvllm_status rc = rv_gguf_file_u32(s->gguf, KEY_VERSION, &version, err);

    if (!rc && version != OWN_VERSION)
        rc = rv_fail(err, RUVLLM_UNSUPPORTED, "its version is %u; this build reads %d", version, OWN_VERSION);
    if (!rc)
        rc = rv_gguf_file_array_f32(s->gguf, KEY_SCALES, &s->scales, &s->n_scales, err);
    if (!rc && rv_gguf_file_has(s->gguf, KEY_PEFT_CONFIG))
        rc = rv_gguf_file_str(s->gguf, KEY_PEFT_CONFIG, &s->out->peft_config, err);
    if (!rc && rv_gguf_file_has(s->gguf, KEY_PEFT_HEADER))
        rc = rv_gguf_file_str(s->gguf, KEY_PEFT_HEADER, &s->out->peft_header, err);
    return rc;
}

static ruvllm_status read_lora(struct source *s, struct ruvllm_error *err)
{
    ruvllm_status rc = expect_word(s, KEY_TYPE, TYPE_LORA, "it is no adapter of a kind that is known here", err);

    if (rc)
        return rc;
    if (rv_gguf_file_has(s->gguf, KEY_INVOCATION))
        return rv_fail(err, RUVLLM_UNSUPPORTED,
                       "it works only after certain tokens (an activated LoRA), which is not supported");
    return rv_gguf_file_has(s->gguf, KEY_ALPHA) ? rv_gguf_file_f32(s->gguf, KEY_ALPHA, &s->alpha, err) : RUVLLM_OK;
}

static ruvllm_status read_metadata(struct source *s, struct ruvllm_error *err)
{
    struct rv_str type = {"", 0};
    ruvllm_status rc = expect_word(s, "general.type", "adapter", "it is no adapter", err);

    if (rc)
        return rc;
    s->is_own = rv_gguf_file_str(s->gguf, KEY_TYPE, &type, NULL) == RUVLLM_OK && equals(type, TYPE_OWN);
    rc = s->is_own ? read_own(s, err) : read_lora(s, err);
    return rc ? rc : check_base(s, err);
}

/* ---- its tensors --------------------------------------------------------------------------- */

/* Why a tensor that is no change of a layer's matrix is refused. */
static ruvllm_status refuse(struct rv_str name, struct ruvllm_error *err)
{
    char label[RV_GGUF_VALUE_LABEL];
    struct rv_str rest = name;

    rv_gguf_value_label(name.data, name.len, label);
    if (equals(name, "token_embd.weight"))
        return rv_fail(err, RUVLLM_UNSUPPORTED, "it changes the embedding ('%s'), which is not supported", label);
    if (equals(name, "output.weight"))
        return rv_fail(err, RUVLLM_UNSUPPORTED,
                       "it changes the head's own matrix ('%s'), which is not supported; the head's input is", label);
    if (cut_end(&rest, "_norm.weight"))
        return rv_fail(err, RUVLLM_UNSUPPORTED, "it changes a norm ('%s'), which is not supported", label);
    return rv_fail(err, RUVLLM_FORMAT, "the model has no matrix '%s': it was made for another base model", label);
}

/* The matrix of the model a name means. */
static ruvllm_status find_matrix(const struct source *s, struct rv_str name, int32_t *layer, enum rv_part *part,
                                 struct ruvllm_error *err)
{
    static const char start[] = "blk.";
    char number[16] = "";
    char *end = number;
    unsigned long n;

    *layer = -1;
    *part = RV_PART_ATTN_NORM;
    if (s->is_own && equals(name, RV_ADAPTER_FILE_HEAD))
        return RUVLLM_OK;
    if (name.len <= strlen(start) || memcmp(name.data, start, strlen(start)) != 0)
        return refuse(name, err);
    for (size_t i = strlen(start); i < name.len && i - strlen(start) < sizeof(number) - 1; i++)
        number[i - strlen(start)] = name.data[i];
    n = strtoul(number, &end, 10);
    if (end == number || number[0] < '0' || number[0] > '9' || n >= (unsigned long)s->base->hparams->n_layers)
        return refuse(name, err);
    for (int i = 0; i < RV_N_PARTS; i++) {
        const struct rv_gguf_tensor *matrix = s->base->manifest->layers[n][i];

        if (matrix && rv_manifest_part_is_matrix((enum rv_part)i) && matrix->name.len == name.len &&
            memcmp(matrix->name.data, name.data, name.len) == 0) {
            *layer = (int32_t)n;
            *part = (enum rv_part)i;
            return RUVLLM_OK;
        }
    }
    return refuse(name, err);
}

static ruvllm_status take_rank(struct rv_adapter_file_pair *pair, int64_t rank, struct ruvllm_error *err)
{
    if (rank > RV_ADAPTER_MAX_RANK)
        return rv_fail(err, RUVLLM_FORMAT, "rank %lld is more than %d", (long long)rank, RV_ADAPTER_MAX_RANK);
    if (pair->rank && pair->rank != rank)
        return rv_fail(err, RUVLLM_FORMAT, "its A and B have ranks %d and %lld", pair->rank, (long long)rank);
    pair->rank = (int32_t)rank;
    return RUVLLM_OK;
}

static ruvllm_status take_matrix(struct source *s, struct rv_adapter_file_pair *pair, const struct rv_gguf_tensor *t,
                                 bool is_a, struct ruvllm_error *err)
{
    int64_t width = is_a ? t->ne[0] : t->ne[1], wanted = is_a ? pair->n_in : pair->n_out;
    ruvllm_status rc;

    if (width != wanted || t->ne[2] != 1 || t->ne[3] != 1)
        return rv_fail(err, RUVLLM_FORMAT,
                       "it is %lldx%lldx%lldx%lld where the model's matrix has %lld: it was made "
                       "for another base model",
                       (long long)t->ne[0], (long long)t->ne[1], (long long)t->ne[2], (long long)t->ne[3],
                       (long long)wanted);
    rc = take_rank(pair, is_a ? t->ne[1] : t->ne[0], err);
    if (rc)
        return rc;
    *(is_a ? &pair->a : &pair->b) = (struct rv_adapter_file_matrix){t->type, t->data};
    if (!is_a)
        return RUVLLM_OK;
    if (!s->is_own) {
        pair->scale = s->alpha != 0.0f ? s->alpha / (float)pair->rank : 1.0f;
        return RUVLLM_OK;
    }
    if (s->i_scale == s->n_scales)
        return rv_fail(err, RUVLLM_FORMAT, "it has more pairs than scales (%zu)", s->n_scales);
    pair->scale = s->scales[s->i_scale++];
    return RUVLLM_OK;
}

static ruvllm_status take_tensor(struct source *s, const struct rv_gguf_tensor *t, struct ruvllm_error *err)
{
    char label[RV_GGUF_VALUE_LABEL];
    struct rv_adapter_file_pair *pair;
    struct rv_str name = t->name;
    bool is_a = cut_end(&name, ".lora_a");
    enum rv_part part;
    int32_t layer;
    ruvllm_status rc;

    if (!is_a && !cut_end(&name, ".lora_b"))
        return refuse(name, err);
    rc = find_matrix(s, name, &layer, &part, err);
    if (!rc)
        rc = rv_adapter_file_pair_at(s->out, s->base, layer, part, &pair, err);
    if (rc)
        return rc;
    rc = take_matrix(s, pair, t, is_a, err);
    return rc ? rv_fail_in(err, rc, "tensor '%s'", rv_gguf_value_label(t->name.data, t->name.len, label)) : RUVLLM_OK;
}

static ruvllm_status check_own(const struct source *s, struct ruvllm_error *err)
{
    struct rv_str hash;
    ruvllm_status rc;

    if (s->i_scale != s->n_scales)
        return rv_fail(err, RUVLLM_FORMAT, "it has %zu scales for %zu pairs", s->n_scales, s->i_scale);
    rc = rv_gguf_file_str(s->gguf, KEY_HASH, &hash, err);
    if (!rc && !equals(hash, s->out->hash))
        rc = rv_fail(err, RUVLLM_FORMAT, "its content is not what its hash says: the file is damaged");
    return rc;
}

/* `gguf` is taken over. */
static ruvllm_status open_gguf(struct rv_adapter_file **out, struct rv_gguf_file *gguf,
                               const struct rv_adapter_file_base *base, struct ruvllm_error *err)
{
    struct source s = {.gguf = gguf, .base = base};
    ruvllm_status rc = rv_adapter_file_new(&s.out, err);

    if (rc) {
        rv_gguf_file_close(gguf);
        return rc;
    }
    rv_adapter_file_keep_gguf(s.out, gguf);
    rc = read_metadata(&s, err);
    for (size_t i = 0; !rc && i < rv_gguf_file_n_tensors(gguf); i++)
        rc = take_tensor(&s, rv_gguf_file_tensor(gguf, i), err);
    if (!rc)
        rc = rv_adapter_file_seal(s.out, base, err);
    if (!rc && s.is_own)
        rc = check_own(&s, err);
    rv_free(s.scales);
    if (rc) {
        rv_adapter_file_close(s.out);
        return rc;
    }
    *out = s.out;
    return RUVLLM_OK;
}

ruvllm_status rv_adapter_gguf_open(struct rv_adapter_file **out, const char *path,
                                   const struct rv_adapter_file_base *base, struct ruvllm_error *err)
{
    struct rv_gguf_file *gguf;
    ruvllm_status rc = rv_gguf_file_open(&gguf, path, err);

    *out = NULL;
    return rc ? rc : open_gguf(out, gguf, base, err);
}

ruvllm_status rv_adapter_gguf_open_memory(struct rv_adapter_file **out, const void *data, size_t len,
                                          const struct rv_adapter_file_base *base, struct ruvllm_error *err)
{
    struct rv_gguf_file *gguf;
    ruvllm_status rc = rv_gguf_file_open_memory(&gguf, data, len, err);

    *out = NULL;
    return rc ? rc : open_gguf(out, gguf, base, err);
}

/* ---- writing ------------------------------------------------------------------------------- */

struct target {
    const struct rv_adapter_file *file;
    const struct rv_adapter_file_base *base;
    struct rv_gguf_write *writer;
    bool is_own;
    bool scales_into_b; // alphas differ, and llama.cpp's files have one
    float alpha;
};

static void write_value(struct target *t, const char *key, enum rv_gguf_type type, bool is_array, size_t n,
                        const void *bytes)
{
    struct rv_gguf_value value = {.type = type, .is_array = is_array, .n = n, .bytes = bytes};

    rv_gguf_write_value(t->writer, key, strlen(key), &value);
}

/* A string of any bytes, in the form files have it: its length, then itself. */
static ruvllm_status write_text(struct target *t, const char *key, struct rv_str text, struct ruvllm_error *err)
{
    uint64_t len = text.len;
    struct rv_buf buf;
    ruvllm_status rc;

    if (text.len == 0)
        return RUVLLM_OK;
    rv_buf_init(&buf, SIZE_MAX / 2);
    rv_buf_add(&buf, &len, sizeof(len));
    rv_buf_add(&buf, text.data, text.len);
    rc = rv_buf_status(&buf, "the PEFT configuration", err);
    if (!rc)
        write_value(t, key, RV_GGUF_STRING, false, 1, buf.data);
    rv_buf_release(&buf);
    return rc;
}

static ruvllm_status write_scales(struct target *t, struct ruvllm_error *err)
{
    float *scales = rv_realloc_array(NULL, t->file->n_pairs, sizeof(*scales));

    if (!scales)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %zu scales", t->file->n_pairs);
    for (size_t i = 0; i < t->file->n_pairs; i++)
        scales[i] = t->file->pairs[i].scale;
    write_value(t, KEY_SCALES, RV_GGUF_F32, true, t->file->n_pairs, scales);
    rv_free(scales);
    return RUVLLM_OK;
}

static ruvllm_status write_metadata(struct target *t, struct ruvllm_error *err)
{
    ruvllm_status rc;

    rv_gguf_write_str(t->writer, "general.type", "adapter");
    rv_gguf_write_str(t->writer, "general.architecture", t->base->hparams->arch->name);
    rv_gguf_write_str(t->writer, KEY_TYPE, t->is_own ? TYPE_OWN : TYPE_LORA);
    rv_gguf_write_str(t->writer, KEY_BASE, t->base->hash);
    if (!t->is_own) {
        if (!t->scales_into_b)
            write_value(t, KEY_ALPHA, RV_GGUF_F32, false, 1, &t->alpha);
        return RUVLLM_OK;
    }
    rv_gguf_write_u32(t->writer, KEY_VERSION, OWN_VERSION);
    rv_gguf_write_str(t->writer, KEY_HASH, t->file->hash);
    rc = write_scales(t, err);
    if (!rc)
        rc = write_text(t, KEY_PEFT_CONFIG, t->file->peft_config, err);
    return rc ? rc : write_text(t, KEY_PEFT_HEADER, t->file->peft_header, err);
}

/* llama.cpp knows no input of the head: the same change is one of the head's matrix, W (s B) A. */
static bool is_head_product(const struct target *t, const struct rv_adapter_file_pair *pair)
{
    return pair->layer < 0 && !t->is_own;
}

static ruvllm_status describe(struct target *t, const struct rv_adapter_file_pair *pair, struct ruvllm_error *err)
{
    struct rv_str name = rv_adapter_file_pair_name(t->base, pair);
    bool is_product = is_head_product(t, pair);
    bool is_float = is_product || (t->scales_into_b && !t->is_own);
    int64_t a_ne[4] = {pair->n_in, pair->rank, 1, 1};
    int64_t b_ne[4] = {pair->rank, is_product ? t->base->hparams->n_vocab : pair->n_out, 1, 1};
    char full[MAX_NAME];
    ruvllm_status rc;

    if (is_product)
        name = (struct rv_str){"output.weight", strlen("output.weight")};
    snprintf(full, sizeof(full), "%.*s.lora_a", (int)name.len, name.data);
    rc = rv_gguf_write_tensor(t->writer, (struct rv_str){full, strlen(full)}, pair->a.type, 2, a_ne, err);
    if (rc)
        return rc;
    snprintf(full, sizeof(full), "%.*s.lora_b", (int)name.len, name.data);
    return rv_gguf_write_tensor(t->writer, (struct rv_str){full, strlen(full)}, is_float ? GGML_TYPE_F32 : pair->b.type,
                                2, b_ne, err);
}

static ruvllm_status write_scaled_b(struct target *t, const struct rv_adapter_file_pair *pair, struct ruvllm_error *err)
{
    float row[RV_ADAPTER_MAX_RANK];
    ruvllm_status rc = RUVLLM_OK;

    for (int32_t i = 0; i < pair->n_out && !rc; i++) {
        rv_adapter_file_floats(&pair->b, pair->rank, i, 1, row);
        for (int32_t r = 0; r < pair->rank; r++)
            row[r] *= pair->scale;
        rc = rv_gguf_write_data(t->writer, row, (size_t)pair->rank * sizeof(*row), err);
    }
    return rc;
}

/* Row by row of the head's matrix: its product with B, in double. */
static ruvllm_status write_product_rows(struct target *t, const struct rv_adapter_file_pair *pair, const float *b,
                                        float *w, struct ruvllm_error *err)
{
    const struct rv_gguf_tensor *head = t->base->manifest->roots[RV_ROOT_OUTPUT];
    struct rv_adapter_file_matrix matrix = {head->type, head->data};
    float scale = t->scales_into_b ? pair->scale : 1.0f;
    ruvllm_status rc = RUVLLM_OK;

    for (int64_t v = 0; v < head->ne[1] && !rc; v++) {
        double sums[RV_ADAPTER_MAX_RANK] = {0};
        float row[RV_ADAPTER_MAX_RANK];

        rv_adapter_file_floats(&matrix, head->ne[0], v, 1, w);
        for (int32_t i = 0; i < pair->n_out; i++) {
            for (int32_t r = 0; r < pair->rank; r++)
                sums[r] += (double)w[i] * (double)b[(size_t)i * (size_t)pair->rank + (size_t)r];
        }
        for (int32_t r = 0; r < pair->rank; r++)
            row[r] = (float)(sums[r] * (double)scale);
        rc = rv_gguf_write_data(t->writer, row, (size_t)pair->rank * sizeof(*row), err);
    }
    return rc;
}

static ruvllm_status write_product(struct target *t, const struct rv_adapter_file_pair *pair, struct ruvllm_error *err)
{
    float *b = rv_realloc_array(NULL, (size_t)pair->n_out * (size_t)pair->rank, sizeof(*b));
    float *w = rv_realloc_array(NULL, (size_t)pair->n_out, sizeof(*w));
    ruvllm_status rc;

    if (b && w) {
        rv_adapter_file_floats(&pair->b, pair->rank, 0, pair->n_out, b);
        rc = write_product_rows(t, pair, b, w, err);
    } else {
        rc = rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a row of the head");
    }
    rv_free(b);
    rv_free(w);
    return rc;
}

static ruvllm_status write_pair(struct target *t, const struct rv_adapter_file_pair *pair, struct ruvllm_error *err)
{
    ruvllm_status rc =
        rv_gguf_write_data(t->writer, pair->a.data, rv_adapter_file_bytes(&pair->a, pair->n_in, pair->rank), err);

    if (rc)
        return rc;
    if (is_head_product(t, pair))
        return write_product(t, pair, err);
    if (t->scales_into_b && !t->is_own)
        return write_scaled_b(t, pair, err);
    return rv_gguf_write_data(t->writer, pair->b.data, rv_adapter_file_bytes(&pair->b, pair->rank, pair->n_out), err);
}

static ruvllm_status write_all(struct target *t, const char *path, struct ruvllm_error *err)
{
    uint64_t n_bytes;
    ruvllm_status rc = rv_gguf_write_open(&t->writer, path, ALIGNMENT, err);

    if (rc)
        return rc;
    rc = write_metadata(t, err);
    for (size_t i = 0; !rc && i < t->file->n_pairs; i++)
        rc = describe(t, &t->file->pairs[i], err);
    for (size_t i = 0; !rc && i < t->file->n_pairs; i++)
        rc = write_pair(t, &t->file->pairs[i], err);
    if (!rc)
        rc = rv_gguf_write_finish(t->writer, &n_bytes, err);
    rv_gguf_write_close(t->writer);
    return rc;
}

ruvllm_status rv_adapter_gguf_write_own(const struct rv_adapter_file *file, const struct rv_adapter_file_base *base,
                                        const char *path, struct ruvllm_error *err)
{
    struct target t = {.file = file, .base = base, .is_own = true};

    return write_all(&t, path, err);
}

ruvllm_status rv_adapter_gguf_write(const struct rv_adapter_file *file, const struct rv_adapter_file_base *base,
                                    const char *path, struct ruvllm_error *err)
{
    struct target t = {.file = file, .base = base};

    if (file->n_layer_pairs < file->n_pairs && base->manifest->tied)
        return rv_fail(err, RUVLLM_UNSUPPORTED,
                       "it changes the head's input, and this model's head is its embedding, which llama.cpp's files "
                       "cannot change at the head alone");
    t.alpha = file->pairs[0].scale * (float)file->pairs[0].rank;
    for (size_t i = 0; i < file->n_pairs; i++) {
        float rank = (float)file->pairs[i].rank;

        /* Exactly what a reader will make of the one alpha, or not at all. */
        if (t.alpha == 0.0f || !isfinite(t.alpha) || t.alpha / rank != file->pairs[i].scale)
            t.scales_into_b = true;
    }
    return write_all(&t, path, err);
}
