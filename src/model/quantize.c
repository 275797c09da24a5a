/*
 * A tensor goes through in batches of rows. Threads: the caller's thread reads and writes; for each batch it starts
 * helpers, each of which turns its own run of rows to float and quantises them into its own part of the output, and
 * waits for all of them. Nobody shares anything but the atomic flag that says a weight was bad.
 */
#include "model/quantize.h"

#include "base/alloc.h"
#include "model/gguf_parse.h"
#include "model/gguf_write.h"
#include "model/model_map.h"
#include "model/quantize_mix.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum {
    BATCH_ELEMENTS = 1 << 22, // floats held at once: 16 MiB, unless a single row has more
    COPY_BYTES = 1 << 22,
    MAX_THREADS = 64,
};

static const float F16_MAX = 65504.0f;

enum fault { FAULT_NONE, FAULT_NOT_FINITE, FAULT_TOO_LARGE };

struct work {
    const struct rv_quantize_job *job;
    struct rv_quantize_result *result;
    struct rv_gguf_map map;
    struct rv_gguf_parse parse;
    struct rv_gguf_write *writer;
    enum ggml_type *types; // of each tensor in the new file
    int n_layers;
    uint64_t bytes_done; // of the input
    float *floats;
    size_t floats_cap;
    unsigned char *rows; // quantised
    size_t rows_cap;
};

/* ---- which type each tensor gets ----------------------------------------------------------- */

static bool is_float(enum ggml_type type)
{
    return type == GGML_TYPE_F32 || type == GGML_TYPE_F16 || type == GGML_TYPE_BF16;
}

static enum ggml_type wanted_type(const struct work *w, const struct rv_gguf_tensor *t)
{
    if (!rv_quantize_mix_applies(t->name, t->n_dims) || (!is_float(t->type) && !ggml_is_quantized(t->type)))
        return t->type;
    return rv_quantize_mix_type(w->job->mix, t->name, w->n_layers, w->job->is_pure);
}

static ruvllm_status choose_types(struct work *w, struct ruvllm_error *err)
{
    char label[RV_GGUF_VALUE_LABEL];

    w->types = rv_calloc(w->parse.n_tensors + 1, sizeof(*w->types));
    if (!w->types)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a list of %zu tensors", w->parse.n_tensors);
    for (size_t i = 0; i < w->parse.n_tensors; i++) {
        int layer = rv_quantize_mix_layer(w->parse.tensors[i].name);

        if (layer >= w->n_layers)
            w->n_layers = layer + 1;
    }
    for (size_t i = 0; i < w->parse.n_tensors; i++) {
        const struct rv_gguf_tensor *t = &w->parse.tensors[i];

        w->types[i] = rv_quantize_mix_fit(wanted_type(w, t), t->ne[0]);
        if (w->types[i] == t->type || is_float(t->type))
            continue;
        if (!w->job->allow_requantize)
            return rv_fail(err, RUVLLM_INVALID,
                           "tensor '%s' is quantised already (%s); start from an F16 file, or allow requantising",
                           rv_gguf_value_label(t->name.data, t->name.len, label), ggml_type_name(t->type));
        if (!ggml_get_type_traits(t->type)->to_float)
            return rv_fail(err, RUVLLM_UNSUPPORTED, "tensor '%s' is %s, which cannot be read back",
                           rv_gguf_value_label(t->name.data, t->name.len, label), ggml_type_name(t->type));
    }
    return RUVLLM_OK;
}

/* ---- the head of the new file -------------------------------------------------------------- */

static bool is_ours(const struct rv_gguf_kv *kv)
{
    static const char *const keys[] = {"general.file_type", "general.quantization_version"};

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        if (kv->key_len == strlen(keys[i]) && memcmp(kv->key, keys[i], kv->key_len) == 0)
            return true;
    }
    return false;
}

static ruvllm_status write_head(struct work *w, struct ruvllm_error *err)
{
    /* The image of a folder has its tensors where others put them; a file of our own is laid out as usual. */
    uint64_t alignment = w->map.fd >= 0 ? w->parse.alignment : RV_GGUF_PARSE_DEFAULT_ALIGNMENT;
    ruvllm_status rc = rv_gguf_write_open(&w->writer, w->job->out, (uint32_t)alignment, err);

    if (rc)
        return rc;
    for (size_t i = 0; i < w->parse.n_kvs; i++) {
        const struct rv_gguf_kv *kv = &w->parse.kvs[i];
        struct rv_gguf_value value = rv_gguf_parse_value(kv);

        if (!is_ours(kv))
            rv_gguf_write_value(w->writer, kv->key, kv->key_len, &value);
    }
    rv_gguf_write_u32(w->writer, "general.file_type", w->job->mix->file_type);
    rv_gguf_write_u32(w->writer, "general.quantization_version", GGML_QNT_VERSION);
    for (size_t i = 0; i < w->parse.n_tensors; i++) {
        const struct rv_gguf_tensor *t = &w->parse.tensors[i];

        rc = rv_gguf_write_tensor(w->writer, t->name, w->types[i], t->n_dims, t->ne, err);
        if (rc)
            return rc;
    }
    return RUVLLM_OK;
}

/* ---- rows ---------------------------------------------------------------------------------- */

/* A run of rows for one thread. */
struct share {
    const unsigned char *from;
    float *floats;
    unsigned char *to;
    int64_t row_len;
    int64_t n_rows;
    enum ggml_type from_type;
    enum ggml_type to_type;
    enum fault fault;
};

static enum fault find_fault(const float *values, int64_t n, enum ggml_type type)
{
    float largest = 0;

    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(values[i]))
            return FAULT_NOT_FINITE;
        if (fabsf(values[i]) > largest)
            largest = fabsf(values[i]);
    }
    return type == GGML_TYPE_F16 && largest > F16_MAX ? FAULT_TOO_LARGE : FAULT_NONE;
}

static void *convert_share(void *user)
{
    struct share *s = user;
    int64_t n = s->row_len * s->n_rows;

    if (s->from_type == GGML_TYPE_F32)
        memcpy(s->floats, s->from, (size_t)n * sizeof(float));
    else
        ggml_get_type_traits(s->from_type)->to_float(s->from, s->floats, n);
    s->fault = find_fault(s->floats, n, s->to_type);
    if (s->fault == FAULT_NONE)
        ggml_quantize_chunk(s->to_type, s->floats, s->to, 0, s->n_rows, s->row_len, NULL);
    return NULL;
}

/* Runs the shares, the first one on this thread. A thread that cannot be started has its share done here. */
static void run_shares(struct share *shares, int n)
{
    pthread_t threads[MAX_THREADS];
    bool is_running[MAX_THREADS] = {false};

    for (int i = 1; i < n; i++)
        is_running[i] = pthread_create(&threads[i], NULL, convert_share, &shares[i]) == 0;
    convert_share(&shares[0]);
    for (int i = 1; i < n; i++) {
        if (is_running[i])
            pthread_join(threads[i], NULL);
        else
            convert_share(&shares[i]);
    }
}

static enum fault convert_rows(struct work *w, const struct rv_gguf_tensor *t, enum ggml_type type, int64_t first,
                               int64_t n_rows)
{
    struct share shares[MAX_THREADS];
    size_t from_row = ggml_row_size(t->type, t->ne[0]), to_row = ggml_row_size(type, t->ne[0]);
    int n = n_rows < w->job->n_threads ? (int)n_rows : w->job->n_threads;

    for (int i = 0; i < n; i++) {
        int64_t begin = n_rows * i / n, end = n_rows * (i + 1) / n;

        shares[i] = (struct share){
            .from = (const unsigned char *)t->data + (size_t)(first + begin) * from_row,
            .floats = w->floats + begin * t->ne[0],
            .to = w->rows + (size_t)begin * to_row,
            .row_len = t->ne[0],
            .n_rows = end - begin,
            .from_type = t->type,
            .to_type = type,
        };
    }
    run_shares(shares, n);
    for (int i = 0; i < n; i++) {
        if (shares[i].fault)
            return shares[i].fault;
    }
    /* A scale can still be beyond what its half float holds. */
    return ggml_validate_row_data(type, w->rows, to_row * (size_t)n_rows) ? FAULT_NONE : FAULT_TOO_LARGE;
}

static bool reserve(void **memory, size_t *cap, size_t n, size_t size)
{
    void *grown;

    if (n <= *cap)
        return true;
    grown = rv_realloc_array(*memory, n, size);
    if (!grown)
        return false;
    *memory = grown;
    *cap = n;
    return true;
}

static ruvllm_status reserve_batch(struct work *w, int64_t row_len, int64_t n_rows, enum ggml_type type,
                                   struct ruvllm_error *err)
{
    size_t n = (size_t)row_len * (size_t)n_rows;
    void *floats = w->floats, *rows = w->rows;
    bool is_there = reserve(&floats, &w->floats_cap, n, sizeof(float)) &&
                    reserve(&rows, &w->rows_cap, ggml_row_size(type, row_len) * (size_t)n_rows, 1);

    w->floats = floats;
    w->rows = rows;
    if (!is_there)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %zu numbers to convert at once", n);
    return RUVLLM_OK;
}

/* ---- tensors ------------------------------------------------------------------------------- */

static ruvllm_status report(struct work *w, uint64_t bytes, struct ruvllm_error *err)
{
    float fraction;

    w->bytes_done += bytes;
    fraction = (float)((double)w->bytes_done / (double)w->map.len);
    if (w->job->on_progress && !w->job->on_progress(w->job->user, fraction < 1 ? fraction : 1))
        return rv_fail(err, RUVLLM_CANCELLED, "stopped before the end; nothing was written");
    return RUVLLM_OK;
}

static ruvllm_status copy_tensor(struct work *w, const struct rv_gguf_tensor *t, struct ruvllm_error *err)
{
    for (uint64_t at = 0; at < t->n_bytes;) {
        size_t n = t->n_bytes - at < COPY_BYTES ? (size_t)(t->n_bytes - at) : COPY_BYTES;
        ruvllm_status rc = rv_gguf_write_data(w->writer, (const unsigned char *)t->data + at, n, err);

        if (rc == RUVLLM_OK)
            rc = report(w, n, err);
        if (rc)
            return rc;
        at += n;
    }
    return RUVLLM_OK;
}

static ruvllm_status fail_fault(enum fault fault, const struct rv_gguf_tensor *t, enum ggml_type type,
                                struct ruvllm_error *err)
{
    char label[RV_GGUF_VALUE_LABEL];

    rv_gguf_value_label(t->name.data, t->name.len, label);
    if (fault == FAULT_TOO_LARGE)
        return rv_fail(err, RUVLLM_FORMAT, "tensor '%s' holds numbers too large for %s; take BF16", label,
                       ggml_type_name(type));
    return rv_fail(err, RUVLLM_FORMAT, "tensor '%s' holds NaN or infinity: the model is broken", label);
}

static ruvllm_status convert_tensor(struct work *w, const struct rv_gguf_tensor *t, enum ggml_type type,
                                    struct ruvllm_error *err)
{
    int64_t n_rows = t->ne[1] * t->ne[2] * t->ne[3];
    int64_t batch = t->ne[0] < BATCH_ELEMENTS ? BATCH_ELEMENTS / t->ne[0] : 1;
    ruvllm_status rc = reserve_batch(w, t->ne[0], batch < n_rows ? batch : n_rows, type, err);

    for (int64_t first = 0; rc == RUVLLM_OK && first < n_rows; first += batch) {
        int64_t n = n_rows - first < batch ? n_rows - first : batch;
        enum fault fault = convert_rows(w, t, type, first, n);

        if (fault)
            return fail_fault(fault, t, type, err);
        rc = rv_gguf_write_data(w->writer, w->rows, ggml_row_size(type, t->ne[0]) * (size_t)n, err);
        if (rc == RUVLLM_OK)
            rc = report(w, ggml_row_size(t->type, t->ne[0]) * (uint64_t)n, err);
    }
    return rc;
}

static void tell_tensor(struct work *w, const struct rv_gguf_tensor *t, enum ggml_type type)
{
    char label[RV_GGUF_VALUE_LABEL];
    enum ggml_type wanted = wanted_type(w, t);
    struct rv_quantize_tensor told = {
        .name = rv_gguf_value_label(t->name.data, t->name.len, label),
        .from = ggml_type_name(t->type),
        .to = ggml_type_name(type),
        .wanted = ggml_type_name(wanted),
        .bytes_before = t->n_bytes,
    };

    rv_gguf_parse_tensor_bytes(type, t->ne, &told.bytes_after);
    w->result->n_tensors++;
    w->result->n_converted += type != t->type;
    w->result->n_fallback += wanted != type;
    if (w->job->on_tensor)
        w->job->on_tensor(w->job->user, &told);
}

static ruvllm_status write_tensors(struct work *w, struct ruvllm_error *err)
{
    for (size_t i = 0; i < w->parse.n_tensors; i++) {
        const struct rv_gguf_tensor *t = &w->parse.tensors[i];
        ruvllm_status rc = w->types[i] == t->type ? copy_tensor(w, t, err) : convert_tensor(w, t, w->types[i], err);

        if (rc)
            return rc;
        tell_tensor(w, t, w->types[i]);
    }
    return RUVLLM_OK;
}

/* ---- the whole ----------------------------------------------------------------------------- */

static ruvllm_status check_output(const struct work *w, struct ruvllm_error *err)
{
    struct stat in, out;

    if (stat(w->job->out, &out) != 0)
        return RUVLLM_OK;
    if (stat(w->job->in, &in) != 0)
        return rv_fail_errno(err, errno, "cannot tell what '%s' is", w->job->in);
    if (w->map.fd >= 0 && fstat(w->map.fd, &in) != 0) // the file that is open, whatever the path means by now
        return rv_fail_errno(err, errno, "cannot tell what '%s' is", w->job->in);
    if (in.st_dev == out.st_dev && in.st_ino == out.st_ino)
        return rv_fail(err, RUVLLM_INVALID, "the output is the input; give the new file another name");
    if (!S_ISREG(out.st_mode))
        return rv_fail(err, RUVLLM_INVALID, "the output is no regular file");
    return RUVLLM_OK;
}

static ruvllm_status open_input(struct work *w, struct ruvllm_error *err)
{
    ruvllm_status rc = rv_model_map_open(&w->map, w->job->in, err);

    if (rc)
        return rc;
    rc = rv_gguf_parse_init(&w->parse, w->map.data, w->map.len, err);
    if (rc)
        return rc;
    if (rv_gguf_parse_find(&w->parse, "split.count", strlen("split.count")))
        return rv_fail(err, RUVLLM_UNSUPPORTED, "the model is split over several files; join them first");
    return check_output(w, err);
}

ruvllm_status rv_quantize_run(const struct rv_quantize_job *job, struct rv_quantize_result *out,
                              struct ruvllm_error *err)
{
    struct work w = {.job = job, .result = out, .map = {.fd = -1}};
    ruvllm_status rc;

    RV_ASSERT(job->n_threads >= 1 && job->n_threads <= MAX_THREADS);
    *out = (struct rv_quantize_result){0};
    rc = open_input(&w, err);
    if (rc == RUVLLM_OK)
        rc = choose_types(&w, err);
    if (rc)
        rc = rv_fail_in(err, rc, "cannot quantise '%s'", job->in);
    if (rc == RUVLLM_OK)
        rc = write_head(&w, err);
    if (rc == RUVLLM_OK)
        rc = write_tensors(&w, err);
    if (rc == RUVLLM_OK)
        rc = rv_gguf_write_finish(w.writer, &out->bytes_out, err);
    out->bytes_in = w.map.len;
    rv_gguf_write_close(w.writer);
    rv_gguf_parse_release(&w.parse);
    rv_gguf_map_close(&w.map);
    rv_free(w.types);
    rv_free(w.floats);
    rv_free(w.rows);
    return rc;
}
