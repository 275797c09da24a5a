/* Four arrays of floats, and the few numbers of the state as one array of doubles. */
#include "learn/deep_state.h"

#include "model/gguf_write.h"

#include <math.h>
#include <string.h>

enum { N_ARRAYS = 4, N_NUMBERS = 9 };

static const char *const array_names[N_ARRAYS] = {"values", "best", "mean", "square"};
static const char *const fingerprint_key = "ruvllm.run.fingerprint";

static void arrays_of(const struct rv_deep_state_file *f, float *out[N_ARRAYS])
{
    out[0] = f->values;
    out[1] = f->best;
    out[2] = f->adamw->mean;
    out[3] = f->adamw->square;
}

static struct rv_str name_of(const char *text)
{
    return (struct rv_str){text, strlen(text)};
}

static ruvllm_status describe(struct rv_gguf_write *w, size_t n, struct ruvllm_error *err)
{
    int64_t numbers[4] = {N_NUMBERS, 1, 1, 1}, ne[4] = {(int64_t)n, 1, 1, 1};
    ruvllm_status rc = rv_gguf_write_tensor(w, name_of("state"), GGML_TYPE_F64, 1, numbers, err);

    for (int i = 0; i < N_ARRAYS && !rc; i++)
        rc = rv_gguf_write_tensor(w, name_of(array_names[i]), GGML_TYPE_F32, 1, ne, err);
    return rc;
}

ruvllm_status rv_deep_state_write(const struct rv_deep_state_file *file, const char *path, struct ruvllm_error *err)
{
    const struct rv_deep_state *s = file->state;
    double numbers[N_NUMBERS] = {s->has_begun,       s->epoch,     s->best_epoch,     s->n_worse, (double)s->at,
                                 s->held_out_before, s->best_loss, file->adamw->step, s->kl_scale};
    struct rv_gguf_write *w;
    float *arrays[N_ARRAYS];
    uint64_t n_bytes;
    ruvllm_status rc = rv_gguf_write_open(&w, path, 32, err);

    if (rc)
        return rc;
    arrays_of(file, arrays);
    rv_gguf_write_str(w, "general.type", "training-run");
    rv_gguf_write_str(w, fingerprint_key, file->fingerprint);
    rc = describe(w, file->adamw->n, err);
    if (!rc)
        rc = rv_gguf_write_data(w, numbers, sizeof(numbers), err);
    for (int i = 0; i < N_ARRAYS && !rc; i++)
        rc = rv_gguf_write_data(w, arrays[i], file->adamw->n * sizeof(float), err);
    if (!rc)
        rc = rv_gguf_write_finish(w, &n_bytes, err);
    rv_gguf_write_close(w);
    return rc;
}

static ruvllm_status find(const struct rv_gguf_file *g, const char *name, enum ggml_type type, size_t n,
                          const struct rv_gguf_tensor **out, struct ruvllm_error *err)
{
    const struct rv_gguf_tensor *t = rv_gguf_file_tensor_find(g, name);

    if (!t || t->type != type || t->n_dims != 1 || (uint64_t)t->ne[0] != n)
        return rv_fail(err, RUVLLM_FORMAT, "the file has no tensor '%s' of %zu numbers", name, n);
    *out = t;
    return RUVLLM_OK;
}

static bool is_count(double x)
{
    return x >= -1 && x <= 2147483647.0 && floor(x) == x;
}

static ruvllm_status take(const struct rv_deep_state_file *f, const struct rv_gguf_file *g, struct ruvllm_error *err)
{
    const struct rv_gguf_tensor *state = NULL, *arrays[N_ARRAYS] = {NULL};
    double x[N_NUMBERS];
    float *to[N_ARRAYS];
    ruvllm_status rc = find(g, "state", GGML_TYPE_F64, N_NUMBERS, &state, err);

    for (int i = 0; i < N_ARRAYS && !rc; i++)
        rc = find(g, array_names[i], GGML_TYPE_F32, f->adamw->n, &arrays[i], err);
    if (rc)
        return rc;
    memcpy(x, state->data, sizeof(x));
    if (!is_count(x[1]) || !is_count(x[2]) || !is_count(x[3]) || !is_count(x[7]) || !(x[4] >= 0 && x[4] < 1e15) ||
        x[1] < 0 || x[3] < 0 || x[7] < 0 || !(x[8] > 0 && x[8] < 1e15))
        return rv_fail(err, RUVLLM_FORMAT, "the run's numbers make no sense");
    *f->state = (struct rv_deep_state){.has_begun = x[0] != 0,
                                       .epoch = (int32_t)x[1],
                                       .best_epoch = (int32_t)x[2],
                                       .n_worse = (int32_t)x[3],
                                       .at = (size_t)x[4],
                                       .held_out_before = x[5],
                                       .best_loss = x[6],
                                       .kl_scale = x[8]};
    f->adamw->step = (int32_t)x[7];
    arrays_of(f, to);
    for (int i = 0; i < N_ARRAYS; i++)
        memcpy(to[i], arrays[i]->data, f->adamw->n * sizeof(float));
    return RUVLLM_OK;
}

ruvllm_status rv_deep_state_read(const struct rv_deep_state_file *file, const char *path, struct ruvllm_error *err)
{
    struct rv_gguf_file *g;
    struct rv_str fingerprint;
    ruvllm_status rc = rv_gguf_file_open(&g, path, err);

    if (!rc) {
        rc = rv_gguf_file_str(g, fingerprint_key, &fingerprint, err);
        if (!rc && (fingerprint.len != RV_SHA256_HEX_LEN ||
                    memcmp(fingerprint.data, file->fingerprint, RV_SHA256_HEX_LEN) != 0))
            rc = rv_fail(err, RUVLLM_INVALID,
                         "it belongs to another run: the model, the data or the settings are not the same");
        if (!rc)
            rc = take(file, g, err);
        rv_gguf_file_close(g);
    }
    return rc ? rv_fail_in(err, rc, "cannot go on from '%s'", path) : RUVLLM_OK;
}
