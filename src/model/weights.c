/*
 * Placement in three passes: plan (which buffer type each tensor goes to), allocate (one buffer a type), fill (on all
 * threads, since laying weights out anew is the slow part of loading).
 *
 * Threads: rv_weights_load runs on the caller's thread and starts helpers for the fill pass only. They take jobs
 * from one atomic counter and write to disjoint tensors; all have ended when it returns.
 */
#define _GNU_SOURCE // madvise
#include "model/weights.h"

#include "base/alloc.h"
#include "base/log.h"

#include <ggml-alloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAPPED = RV_DEVICE_MAX_BUFTS, N_PLACES = RV_DEVICE_MAX_BUFTS + 1 };

/* A tensor of the file, where it goes, and who waits for it. */
struct job {
    const struct rv_gguf_tensor *source;
    struct ggml_tensor **slot;
    int place;
};

struct rv_weights_storage {
    struct ggml_context *contexts[N_PLACES];
    ggml_backend_buffer_t buffers[N_PLACES];
};

struct plan {
    const struct rv_gguf_file *file;
    const struct rv_device *device;
    const struct rv_weights_options *options;
    ggml_backend_buffer_type_t bufts[RV_DEVICE_MAX_BUFTS];
    ggml_backend_buffer_t probes[RV_DEVICE_MAX_BUFTS]; // empty buffers, to ask what a type can do
    size_t n_bufts;
    size_t first_buft; // where the search for a matrix's place begins
    struct job *jobs;
    size_t n_jobs, jobs_cap;
    struct ruvllm_error *err;
    ruvllm_status failed;
};

/* Would `place` run the operation these weights are for? Asked with a node of the real shape. */
static bool can_run(struct plan *p, const struct rv_gguf_tensor *t, size_t i_buft, bool is_lookup)
{
    struct ggml_init_params params = {.mem_size = 8 * ggml_tensor_overhead(), .no_alloc = true};
    struct ggml_context *ctx = ggml_init(params);
    struct ggml_tensor *w, *node;
    bool ok;

    if (!ctx)
        return false;
    w = ggml_new_tensor_2d(ctx, t->type, t->ne[0], t->ne[1]);
    w->buffer = p->probes[i_buft];
    if (is_lookup)
        node = ggml_get_rows(ctx, w, ggml_new_tensor_1d(ctx, GGML_TYPE_I32, 512));
    else
        node = ggml_mul_mat(ctx, w, ggml_new_tensor_2d(ctx, GGML_TYPE_F32, t->ne[0], 512));
    ok = ggml_backend_dev_supports_op(rv_device_of_buft(p->device, p->bufts[i_buft]), node);
    w->buffer = NULL;
    ggml_free(ctx);
    return ok;
}

/* The CPU reads the file's pages as they are; its own buffer type is the last of the list. */
static int plain_place(const struct plan *p)
{
    return p->options->use_mmap ? MAPPED : (int)p->n_bufts - 1;
}

/* Best place for a matrix; -1 when nothing here can multiply with it. */
static int place_matrix(struct plan *p, const struct rv_gguf_tensor *t, bool is_lookup)
{
    size_t first = is_lookup ? p->n_bufts - 1 : p->first_buft; // rows are looked up on the CPU

    for (size_t i = first; i < p->n_bufts; i++) {
        if (can_run(p, t, i, is_lookup))
            return i == p->n_bufts - 1 ? plain_place(p) : (int)i;
    }
    return -1;
}

/* Vectors follow the device, or stay where they are. */
static int place_vector(const struct plan *p)
{
    return rv_device_is_cpu(p->device) ? plain_place(p) : 0;
}

static void add_job(struct plan *p, struct ggml_tensor **slot, int place, const struct rv_gguf_tensor *source)
{
    if (p->failed)
        return;
    if (place < 0) {
        p->failed = rv_fail(p->err, RUVLLM_UNSUPPORTED, "no device here computes with tensor '%.*s' of type %s",
                            (int)source->name.len, source->name.data, ggml_type_name(source->type));
        return;
    }
    RV_ASSERT(p->n_jobs < p->jobs_cap);
    p->jobs[p->n_jobs++] = (struct job){.source = source, .slot = slot, .place = place};
}

static void add_matrix(struct plan *p, struct ggml_tensor **slot, const struct rv_gguf_tensor *source)
{
    if (source)
        add_job(p, slot, place_matrix(p, source, false), source);
}

static void add_vector(struct plan *p, struct ggml_tensor **slot, const struct rv_gguf_tensor *source)
{
    if (source)
        add_job(p, slot, place_vector(p), source);
}

/*
 * A file most of whose bytes no new layout takes (the 2-bit types) is left as it is whole: copying the few others would
 * cost memory and loading time for little speed.
 */
static void weigh_new_layouts(struct plan *p, const struct rv_manifest *m, int32_t n_layers)
{
    uint64_t total = 0, laid_out = 0;

    if (!rv_device_is_cpu(p->device) || !p->options->use_mmap)
        return;
    for (int32_t layer = 0; layer < n_layers; layer++) {
        for (int part = 0; part < RV_N_PARTS; part++) {
            const struct rv_gguf_tensor *t = m->layers[layer][part];
            if (!t || !rv_manifest_part_is_matrix((enum rv_part)part))
                continue;
            total += t->n_bytes;
            if (place_matrix(p, t, false) != MAPPED)
                laid_out += t->n_bytes;
        }
    }
    if (laid_out < total / 2)
        p->first_buft = p->n_bufts - 1;
}

static void plan_layer(struct plan *p, struct rv_layer_weights *l, const struct rv_gguf_tensor *const *t,
                       const struct rv_arch *arch)
{
    add_vector(p, &l->attn_norm, t[RV_PART_ATTN_NORM]);
    add_vector(p, &l->attn_norm_b, t[RV_PART_ATTN_NORM_B]);
    add_matrix(p, &l->q, t[RV_PART_Q]);
    add_matrix(p, &l->k, t[RV_PART_K]);
    add_matrix(p, &l->v, t[RV_PART_V]);
    add_matrix(p, &l->qkv, t[RV_PART_QKV]);
    add_vector(p, &l->q_b, t[RV_PART_Q_B]);
    add_vector(p, &l->k_b, t[RV_PART_K_B]);
    add_vector(p, &l->v_b, t[RV_PART_V_B]);
    add_vector(p, &l->qkv_b, t[RV_PART_QKV_B]);
    add_vector(p, &l->q_norm, t[RV_PART_Q_NORM]);
    add_vector(p, &l->k_norm, t[RV_PART_K_NORM]);
    add_matrix(p, &l->o, t[RV_PART_O]);
    add_vector(p, &l->o_b, t[RV_PART_O_B]);
    add_vector(p, &l->attn_post_norm, t[RV_PART_ATTN_POST_NORM]);
    add_vector(p, &l->ffn_norm, t[RV_PART_FFN_NORM]);
    add_vector(p, &l->ffn_norm_b, t[RV_PART_FFN_NORM_B]);
    add_matrix(p, &l->gate, t[RV_PART_GATE]);
    add_vector(p, &l->gate_b, t[RV_PART_GATE_B]);
    add_matrix(p, arch->fused_gate_up ? &l->gate_up : &l->up, t[RV_PART_UP]);
    add_vector(p, arch->fused_gate_up ? &l->gate_up_b : &l->up_b, t[RV_PART_UP_B]);
    add_matrix(p, &l->down, t[RV_PART_DOWN]);
    add_vector(p, &l->down_b, t[RV_PART_DOWN_B]);
    add_vector(p, &l->ffn_post_norm, t[RV_PART_FFN_POST_NORM]);
}

static void plan_roots(struct plan *p, struct rv_weights *w, const struct rv_manifest *m)
{
    const struct rv_gguf_tensor *const *t = m->roots;
    int lookup = place_matrix(p, t[RV_ROOT_EMBEDDING], true);
    int head = place_matrix(p, t[RV_ROOT_OUTPUT], false);

    add_job(p, &w->embedding, lookup, t[RV_ROOT_EMBEDDING]);
    if (!m->tied || head != lookup) // else one tensor serves both
        add_job(p, &w->output, head, t[RV_ROOT_OUTPUT]);
    add_vector(p, &w->output_b, t[RV_ROOT_OUTPUT_B]);
    add_vector(p, &w->output_norm, t[RV_ROOT_OUTPUT_NORM]);
    add_vector(p, &w->output_norm_b, t[RV_ROOT_OUTPUT_NORM_B]);
    add_vector(p, &w->rope_freqs, t[RV_ROOT_ROPE_FREQS]);
    add_vector(p, &w->rope_long, t[RV_ROOT_ROPE_LONG]);
    add_vector(p, &w->rope_short, t[RV_ROOT_ROPE_SHORT]);
}

/* Makes the tensors without memory, each in the context of its place. */
static ruvllm_status create_tensors(struct plan *p, struct rv_weights_storage *s)
{
    struct ggml_init_params params = {.mem_size = (p->n_jobs + 1) * ggml_tensor_overhead(), .no_alloc = true};

    for (size_t i = 0; i < p->n_jobs; i++) {
        struct job *job = &p->jobs[i];
        const struct rv_gguf_tensor *t = job->source;

        if (!s->contexts[job->place])
            s->contexts[job->place] = ggml_init(params);
        if (!s->contexts[job->place])
            return rv_fail(p->err, RUVLLM_NO_MEMORY, "cannot allocate the list of weights");
        *job->slot = ggml_new_tensor_2d(s->contexts[job->place], t->type, t->ne[0], t->ne[1]);
        ggml_format_name(*job->slot, "%.*s", (int)t->name.len, t->name.data);
    }
    return RUVLLM_OK;
}

static ruvllm_status map_tensors(struct plan *p, struct rv_weights *w, struct rv_weights_storage *s)
{
    ggml_backend_dev_t cpu = rv_device_of_buft(p->device, p->bufts[p->n_bufts - 1]);
    char *base = (char *)rv_gguf_file_mapping(p->file); // ggml's interface knows no const; weights are only read
    ggml_backend_buffer_t buffer;

    if (!s->contexts[MAPPED])
        return RUVLLM_OK;
    buffer = ggml_backend_dev_buffer_from_host_ptr(cpu, base, rv_gguf_file_n_bytes(p->file), 0);
    if (!buffer)
        return rv_fail(p->err, RUVLLM_BACKEND, "ggml cannot use the mapped file");
    s->buffers[MAPPED] = buffer;
    ggml_backend_buffer_set_usage(buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    for (size_t i = 0; i < p->n_jobs; i++) {
        struct job *job = &p->jobs[i];
        if (job->place != MAPPED)
            continue;
        if (ggml_backend_tensor_alloc(buffer, *job->slot, base + job->source->offset) != GGML_STATUS_SUCCESS)
            return rv_fail(p->err, RUVLLM_BACKEND, "ggml cannot use tensor '%s' in the mapped file",
                           ggml_get_name(*job->slot));
        w->mapped_bytes += job->source->n_bytes;
    }
    return RUVLLM_OK;
}

static ruvllm_status allocate_tensors(struct plan *p, struct rv_weights *w, struct rv_weights_storage *s)
{
    for (size_t i = 0; i < p->n_bufts; i++) {
        if (!s->contexts[i])
            continue;
        s->buffers[i] = ggml_backend_alloc_ctx_tensors_from_buft(s->contexts[i], p->bufts[i]);
        if (!s->buffers[i])
            return rv_fail(p->err, RUVLLM_NO_MEMORY, "cannot allocate weights in %s memory; try a smaller quantisation",
                           ggml_backend_buft_name(p->bufts[i]));
        ggml_backend_buffer_set_usage(s->buffers[i], GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
        w->allocated_bytes += ggml_backend_buffer_get_size(s->buffers[i]);
    }
    return RUVLLM_OK;
}

/* ---- filling ------------------------------------------------------------------------------- */

struct fill {
    const struct plan *plan;
    atomic_size_t next_job;   // relaxed: only hands out numbers
    atomic_ullong done_bytes; // relaxed: for the progress bar
    atomic_bool is_cancelled; // relaxed: read again after the threads were joined
    uint64_t total_bytes;
};

/* Lets the system take back the pages of a tensor that now lives elsewhere; reading it again brings them back. */
static void drop_pages(const struct rv_gguf_file *file, const struct rv_gguf_tensor *t)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t start = ((uintptr_t)t->data + page - 1) & ~(page - 1);
    uintptr_t end = ((uintptr_t)t->data + t->n_bytes) & ~(page - 1);

    if (rv_gguf_file_fd(file) >= 0 && end > start)
        madvise((void *)start, end - start, MADV_DONTNEED);
}

static void fill_jobs(struct fill *fill, bool reports)
{
    const struct plan *p = fill->plan;
    const struct rv_weights_options *o = p->options;

    for (;;) {
        size_t i = atomic_fetch_add_explicit(&fill->next_job, 1, memory_order_relaxed);
        const struct job *job = &p->jobs[i];

        if (i >= p->n_jobs || atomic_load_explicit(&fill->is_cancelled, memory_order_relaxed))
            return;
        if (job->place == MAPPED)
            continue;
        ggml_backend_tensor_set(*job->slot, job->source->data, 0, job->source->n_bytes);
        drop_pages(p->file, job->source);
        atomic_fetch_add_explicit(&fill->done_bytes, ggml_nbytes(*job->slot), memory_order_relaxed);
        if (reports && o->on_progress) {
            unsigned long long done = atomic_load_explicit(&fill->done_bytes, memory_order_relaxed);
            if (!o->on_progress(o->progress_user, (float)((double)done / (double)fill->total_bytes)))
                atomic_store_explicit(&fill->is_cancelled, true, memory_order_relaxed);
        }
    }
}

static void *fill_thread(void *arg)
{
    fill_jobs(arg, false);
    return NULL;
}

static ruvllm_status fill_tensors(struct plan *p)
{
    enum { MAX_HELPERS = 15 };
    struct fill fill = {.plan = p, .total_bytes = 1};
    pthread_t helpers[MAX_HELPERS];
    int32_t n_helpers = 0;
    int32_t wanted = rv_device_is_cpu(p->device) ? rv_device_n_threads(p->device) - 1 : 0;

    for (size_t i = 0; i < p->n_jobs; i++) {
        if (p->jobs[i].place != MAPPED)
            fill.total_bytes += ggml_nbytes(*p->jobs[i].slot);
    }
    while (n_helpers < wanted && n_helpers < MAX_HELPERS &&
           pthread_create(&helpers[n_helpers], NULL, fill_thread, &fill) == 0)
        n_helpers++;
    fill_jobs(&fill, true);
    for (int32_t i = 0; i < n_helpers; i++)
        pthread_join(helpers[i], NULL);
    if (atomic_load(&fill.is_cancelled))
        return rv_fail(p->err, RUVLLM_CANCELLED, "loading was stopped");
    if (p->options->on_progress)
        p->options->on_progress(p->options->progress_user, 1.0f);
    return RUVLLM_OK;
}

static ruvllm_status plan_init(struct plan *p, const struct rv_hparams *h)
{
    p->jobs_cap = (size_t)h->n_layers * RV_N_PARTS + RV_N_ROOTS;
    p->jobs = rv_calloc(p->jobs_cap, sizeof(*p->jobs));
    if (!p->jobs)
        return rv_fail(p->err, RUVLLM_NO_MEMORY, "cannot allocate the loading plan");
    p->n_bufts = rv_device_weight_bufts(p->device, p->options->repack, p->bufts);
    for (size_t i = 0; i < p->n_bufts; i++) {
        p->probes[i] = ggml_backend_buft_alloc_buffer(p->bufts[i], 0);
        if (!p->probes[i])
            return rv_fail(p->err, RUVLLM_BACKEND, "cannot use %s memory", ggml_backend_buft_name(p->bufts[i]));
    }
    return RUVLLM_OK;
}

static void plan_release(struct plan *p)
{
    for (size_t i = 0; i < p->n_bufts; i++)
        ggml_backend_buffer_free(p->probes[i]);
    rv_free(p->jobs);
}

ruvllm_status rv_weights_load(struct rv_weights *out, const struct rv_gguf_file *file,
                              const struct rv_manifest *manifest, const struct rv_hparams *hparams,
                              const struct rv_device *device, const struct rv_weights_options *options,
                              struct ruvllm_error *err)
{
    struct plan p = {.file = file, .device = device, .options = options, .err = err};
    ruvllm_status rc;

    *out = (struct rv_weights){0};
    out->layers = rv_calloc((size_t)hparams->n_layers, sizeof(*out->layers));
    out->storage = rv_calloc(1, sizeof(*out->storage));
    if (!out->layers || !out->storage)
        rc = rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the table of weights");
    else
        rc = plan_init(&p, hparams);
    if (!rc) {
        weigh_new_layouts(&p, manifest, hparams->n_layers);
        plan_roots(&p, out, manifest);
        for (int32_t i = 0; i < hparams->n_layers; i++)
            plan_layer(&p, &out->layers[i], manifest->layers[i], hparams->arch);
        rc = p.failed;
    }
    if (!rc)
        rc = create_tensors(&p, out->storage);
    if (!rc)
        rc = map_tensors(&p, out, out->storage);
    if (!rc)
        rc = allocate_tensors(&p, out, out->storage);
    if (!rc)
        rc = fill_tensors(&p);
    if (!rc && !out->output)
        out->output = out->embedding;
    plan_release(&p);
    if (rc)
        rv_weights_release(out);
    return rc;
}

void rv_weights_release(struct rv_weights *weights)
{
    if (weights->storage) {
        for (int i = 0; i < N_PLACES; i++) {
            ggml_backend_buffer_free(weights->storage->buffers[i]);
            ggml_free(weights->storage->contexts[i]);
        }
    }
    rv_free(weights->storage);
    rv_free(weights->layers);
    *weights = (struct rv_weights){0};
}
