/*
 * Attention of one decoded token: our kernel over blocks of each precision, ggml's flash attention over a cache in
 * halves, and three plain loops over floats. All run as nodes of a ggml graph on the same threads, one node a layer,
 * over enough layers that what they read does not fit a core's caches; one round runs every contender once, and medians
 * of the rounds are compared.
 *
 *     bench_attention [rounds [shape.context]]
 *
 * prints attention.<shape>.<context>.t<threads>.<f16|q8|q4>=<ggml's time / ours>, the time of .naive over that of f16,
 * and the microseconds a layer behind each. Where the processor computes in halves (AVX512-FP16), ggml 0.25 takes 128
 * numbers a step and the rest one by one: with heads of 64, as TinyLlama has, that is all of them.
 *
 * Threads: ggml's pool runs the nodes; each thread of a node takes KV heads of its own and a scratch of its own.
 */
#include "base/clock.h"
#include "base/rng.h"
#include "kernels/attention_kernel.h"
#include "model/device.h"

#include <ggml.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_ROUNDS = 99,
    MAX_LAYERS = 300,
    MAX_THREADS = 2,
    MAX_DIM = 128,
    N_ROWS = 64, // distinct keys and values; token t of head h has row (t + 7 h) % N_ROWS
    TOKENS = RV_KV_BLOCK_TOKENS,
};
static const size_t least_bytes = (size_t)96 << 20; // of keys and values a contender goes through

struct shape {
    const char *name;
    int32_t n_heads, n_kv_heads, dim;
};

static const struct shape shapes[] = {{"tinyllama", 32, 4, 64}, {"llama3-8b", 32, 8, 128}};

enum contender_kind { GGML, OURS_F16, OURS_Q8, OURS_Q4, NAIVE, N_CONTENDERS };
static const char *const kind_names[] = {"ggml", "f16", "q8", "q4", "naive"};

/* One way to compute; its keys and values are `layers` times those of one layer. */
struct contender {
    enum contender_kind kind;
    const struct shape *shape;
    int32_t context, n_layers;
    uint8_t *memory;
    struct rv_attention_block *blocks;
    int32_t *table;
    float *scratch[MAX_THREADS];
    float *scores; // naive: [context]
    struct ggml_context *ctx;
    struct ggml_cgraph *graph;
    struct ggml_tensor *q, *last;
    double times[MAX_ROUNDS]; // microseconds a layer
};

struct layer {
    struct contender *contender;
    int32_t index;
};

static float k_rows[N_ROWS][MAX_DIM], v_rows[N_ROWS][MAX_DIM];

static void *allocate(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);

    if (!p) {
        fprintf(stderr, "bench_attention: cannot allocate %zu bytes\n", bytes);
        exit(1);
    }
    return p;
}

static enum rv_kv_block_format format_of(enum contender_kind kind)
{
    return kind == OURS_Q8 ? RV_KV_BLOCK_Q8 : kind == OURS_Q4 ? RV_KV_BLOCK_Q4 : RV_KV_BLOCK_F16;
}

/* Bytes of one head's keys and values in a block. */
static size_t head_bytes(const struct contender *c)
{
    return rv_kv_block_k_bytes(format_of(c->kind), c->shape->dim) +
           rv_kv_block_v_bytes(format_of(c->kind), c->shape->dim);
}

/* Bytes of the keys and values of all heads of one layer. */
static size_t layer_bytes(const struct contender *c)
{
    size_t numbers = 2 * (size_t)c->context * (size_t)c->shape->n_kv_heads * (size_t)c->shape->dim;

    return c->kind == NAIVE  ? numbers * 4
           : c->kind == GGML ? numbers * 2
                             : (size_t)(c->context / TOKENS) * (size_t)c->shape->n_kv_heads * head_bytes(c);
}

/* Where the keys of a layer's head begin in a block; the values follow them. */
static size_t head_offset(const struct contender *c, int32_t layer, int32_t head)
{
    return ((size_t)layer * (size_t)c->shape->n_kv_heads + (size_t)head) * head_bytes(c);
}

/* Our kernel, as the engine calls it: heads are dealt to the threads in turn. */
static void run_ours(struct ggml_tensor *dst, int ith, int nth, void *user)
{
    const struct layer *layer = user;
    struct contender *c = layer->contender;
    const struct shape *shape = c->shape;
    enum rv_kv_block_format format = format_of(c->kind);
    int32_t group = shape->n_heads / shape->n_kv_heads;
    rv_attention_kernel_fn kernel = rv_attention_kernel_best();

    for (int32_t head = ith; head < shape->n_kv_heads; head += nth) {
        const float *q[RV_ATTENTION_KERNEL_MAX_Q];
        float *out[RV_ATTENTION_KERNEL_MAX_Q];
        int32_t first[RV_ATTENTION_KERNEL_MAX_Q] = {0}, end[RV_ATTENTION_KERNEL_MAX_Q];
        struct rv_attention_call call = {.head_dim = shape->dim,
                                         .scale = 1.0f / sqrtf((float)shape->dim),
                                         .blocks = c->blocks,
                                         .table = c->table,
                                         .n_q = group,
                                         .q = q,
                                         .out = out,
                                         .first = first,
                                         .end = end,
                                         .scratch = c->scratch[ith]};

        for (int32_t i = 0; i < group; i++) {
            q[i] = (const float *)c->q->data + (size_t)(head * group + i) * (size_t)shape->dim;
            out[i] = (float *)dst->data + (size_t)(head * group + i) * (size_t)shape->dim;
            end[i] = c->context;
        }
        call.k_offset[format] = head_offset(c, layer->index, head);
        call.v_offset[format] = call.k_offset[format] + rv_kv_block_k_bytes(format, shape->dim);
        kernel(&call);
    }
}

/* Over keys and values [head][token][dim] in floats, first all keys, then all values. */
static void attend_naively(const struct contender *c, const float *q, const float *k, const float *v, float *out)
{
    int32_t dim = c->shape->dim;
    float max = -INFINITY, total = 0, scale = 1.0f / sqrtf((float)dim);

    for (int32_t t = 0; t < c->context; t++) {
        float score = 0;

        for (int32_t d = 0; d < dim; d++)
            score += q[d] * k[(size_t)t * (size_t)dim + (size_t)d];
        c->scores[t] = score * scale;
        max = c->scores[t] > max ? c->scores[t] : max;
    }
    memset(out, 0, (size_t)dim * sizeof(*out));
    for (int32_t t = 0; t < c->context; t++) {
        float weight = expf(c->scores[t] - max);

        total += weight;
        for (int32_t d = 0; d < dim; d++)
            out[d] += weight * v[(size_t)t * (size_t)dim + (size_t)d];
    }
    for (int32_t d = 0; d < dim; d++)
        out[d] /= total;
}

static void run_naive(struct ggml_tensor *dst, int ith, int nth, void *user)
{
    const struct layer *layer = user;
    struct contender *c = layer->contender;
    size_t dim = (size_t)c->shape->dim, head_floats = (size_t)c->context * dim;
    const float *k = (const float *)c->memory + (size_t)layer->index * layer_bytes(c) / sizeof(float);
    const float *v = k + head_floats * (size_t)c->shape->n_kv_heads;
    int32_t group = c->shape->n_heads / c->shape->n_kv_heads;

    (void)nth;
    if (ith > 0)
        return;
    for (int32_t h = 0; h < c->shape->n_heads; h++)
        attend_naively(c, (const float *)c->q->data + (size_t)h * dim, k + (size_t)(h / group) * head_floats,
                       v + (size_t)(h / group) * head_floats, (float *)dst->data + (size_t)h * dim);
}

static size_t row_of(int32_t token, int32_t head)
{
    return (size_t)(token + 7 * head) % N_ROWS;
}

/* Blocks repeat after N_ROWS / TOKENS: made once, then copied. */
static void fill_blocks(struct contender *c)
{
    enum rv_kv_block_format format = format_of(c->kind);
    size_t k_bytes = rv_kv_block_k_bytes(format, c->shape->dim), half_bytes = rv_kv_block_k_bytes(0, c->shape->dim);
    size_t block_bytes = head_offset(c, c->n_layers, 0);
    uint8_t *half = allocate(2 * half_bytes), *made = allocate(head_bytes(c));

    for (int32_t head = 0; head < c->shape->n_kv_heads; head++) {
        for (int32_t kind = 0; kind < N_ROWS / TOKENS; kind++) {
            for (int32_t t = 0; t < TOKENS; t++) {
                size_t row = row_of(kind * TOKENS + t, head);

                rv_kv_block_put(half, half + half_bytes, c->shape->dim, t, k_rows[row], v_rows[row]);
            }
            if (format == RV_KV_BLOCK_F16)
                memcpy(made, half, head_bytes(c));
            else
                rv_kv_block_convert(RV_KV_BLOCK_F16, half, half + half_bytes, format, made, made + k_bytes,
                                    c->shape->dim);
            for (int32_t b = kind; b < c->context / TOKENS; b += N_ROWS / TOKENS)
                for (int32_t layer = 0; layer < c->n_layers; layer++)
                    memcpy(c->memory + (size_t)b * block_bytes + head_offset(c, layer, head), made, head_bytes(c));
        }
    }
    c->blocks = allocate((size_t)(c->context / TOKENS) * sizeof(*c->blocks));
    c->table = allocate((size_t)(c->context / TOKENS) * sizeof(*c->table));
    for (int32_t b = 0; b < c->context / TOKENS; b++) {
        c->table[b] = b;
        c->blocks[b] = (struct rv_attention_block){c->memory + (size_t)b * block_bytes, format};
    }
    free(half);
    free(made);
}

/* Rows [layer][keys, values][head][token] of floats or halves. */
static void fill_rows(struct contender *c)
{
    size_t dim = (size_t)c->shape->dim, size = c->kind == NAIVE ? sizeof(float) : sizeof(ggml_fp16_t);
    uint8_t *to = c->memory;

    for (int32_t layer = 0; layer < c->n_layers; layer++) {
        for (int part = 0; part < 2; part++) {
            for (int32_t head = 0; head < c->shape->n_kv_heads; head++) {
                for (int32_t t = 0; t < c->context; t++, to += dim * size) {
                    const float *row = part ? v_rows[row_of(t, head)] : k_rows[row_of(t, head)];

                    if (c->kind == NAIVE)
                        memcpy(to, row, dim * size);
                    else
                        ggml_fp32_to_fp16_row(row, (ggml_fp16_t *)to, (int64_t)dim);
                }
            }
        }
    }
}

/* A tensor of halves over our own memory. */
static struct ggml_tensor *view_rows(struct contender *c, int32_t layer, int part)
{
    size_t bytes = layer_bytes(c);
    struct ggml_tensor *x = ggml_new_tensor_3d(c->ctx, GGML_TYPE_F16, c->shape->dim, c->context, c->shape->n_kv_heads);

    x->data = c->memory + (size_t)layer * bytes + (size_t)part * bytes / 2;
    return x;
}

static void build_graph(struct contender *c, struct layer *layers)
{
    struct ggml_init_params params = {.mem_size = ggml_tensor_overhead() * (MAX_LAYERS * 8 + 16) +
                                                  ggml_graph_overhead_custom(MAX_LAYERS * 8, false),
                                      .no_alloc = true};
    const struct shape *shape = c->shape;
    float scale = 1.0f / sqrtf((float)shape->dim);
    struct ggml_tensor *mask;

    c->ctx = ggml_init(params);
    c->q = ggml_new_tensor_3d(c->ctx, GGML_TYPE_F32, shape->dim, 1, shape->n_heads);
    c->q->data = allocate(ggml_nbytes(c->q));
    mask = ggml_new_tensor_2d(c->ctx, GGML_TYPE_F16, c->context, 1);
    mask->data = allocate(ggml_nbytes(mask));
    memset(mask->data, 0, ggml_nbytes(mask));
    c->graph = ggml_new_graph_custom(c->ctx, MAX_LAYERS * 8, false);
    for (int32_t i = 0; i < c->n_layers; i++) {
        layers[i] = (struct layer){c, i};
        if (c->kind == GGML) {
            c->last = ggml_flash_attn_ext(c->ctx, c->q, view_rows(c, i, 0), view_rows(c, i, 1), mask, scale, 0, 0);
            ggml_prec_set_acc(c->last, GGML_PREC_F32);
        } else {
            c->last = ggml_custom_4d(c->ctx, GGML_TYPE_F32, shape->dim, shape->n_heads, 1, 1, &c->q, 1,
                                     c->kind == NAIVE ? run_naive : run_ours, GGML_N_TASKS_MAX, &layers[i]);
        }
        c->last->data = allocate(ggml_nbytes(c->last));
        ggml_build_forward_expand(c->graph, c->last);
    }
}

static void contender_init(struct contender *c, struct layer *layers)
{
    struct rv_rng rng;

    c->n_layers = (int32_t)(least_bytes / layer_bytes(c)) + 1;
    if (c->n_layers > MAX_LAYERS)
        c->n_layers = MAX_LAYERS;
    c->memory = allocate((size_t)c->n_layers * layer_bytes(c));
    c->scores = allocate((size_t)c->context * sizeof(float));
    for (int i = 0; i < MAX_THREADS; i++)
        c->scratch[i] = allocate(rv_attention_kernel_scratch(c->shape->dim) * sizeof(float));
    if (c->kind == GGML || c->kind == NAIVE)
        fill_rows(c);
    else
        fill_blocks(c);
    build_graph(c, layers);
    rv_rng_init(&rng, 3);
    for (int64_t i = 0; i < ggml_nelements(c->q); i++)
        ((float *)c->q->data)[i] = (float)rv_rng_normal(&rng);
}

static void contender_release(struct contender *c)
{
    for (struct ggml_tensor *x = ggml_get_first_tensor(c->ctx); x; x = ggml_get_next_tensor(c->ctx, x)) {
        uint8_t *data = x->data;

        if (data < c->memory || data >= c->memory + (size_t)c->n_layers * layer_bytes(c))
            free(data);
    }
    ggml_free(c->ctx);
    for (int i = 0; i < MAX_THREADS; i++)
        free(c->scratch[i]);
    free(c->memory);
    free(c->blocks);
    free(c->table);
    free(c->scores);
}

static void run_round(struct contender *c, const struct rv_device *device, int round)
{
    int64_t start = rv_clock_us();

    if (ggml_backend_graph_compute(rv_device_backend(device, 0), c->graph) != GGML_STATUS_SUCCESS) {
        fprintf(stderr, "bench_attention: a graph failed\n");
        exit(1);
    }
    c->times[round] = (double)(rv_clock_us() - start) / c->n_layers;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *times, int n)
{
    qsort(times, (size_t)n, sizeof(*times), by_size);
    return times[n / 2];
}

/* A fast kernel that computes something else would win every comparison. ggml sums values in halves. */
static void check_results(const struct contender *all)
{
    static const double bounds[] = {[GGML] = 0.3, [OURS_F16] = 0.002, [OURS_Q8] = 0.03, [OURS_Q4] = 0.3};

    for (int kind = 0; kind < NAIVE; kind++) {
        double worst = 0;

        for (int64_t i = 0; i < ggml_nelements(all[NAIVE].last); i++)
            worst = fmax(
                worst, fabs((double)((float *)all[NAIVE].last->data)[i] - (double)((float *)all[kind].last->data)[i]));
        if (worst > bounds[kind]) {
            fprintf(stderr, "bench_attention: %s is off by %g\n", kind_names[kind], worst);
            exit(1);
        }
    }
}

static void print_figures(struct contender *all, int n_threads, int n_rounds)
{
    double ggml_us = median(all[GGML].times, n_rounds), f16_us = 0;

    for (int kind = GGML; kind < N_CONTENDERS; kind++) {
        const struct contender *c = &all[kind];
        double us = kind == GGML ? ggml_us : median(all[kind].times, n_rounds);
        char name[96];

        if (kind == NAIVE && n_threads > 1)
            continue;
        f16_us = kind == OURS_F16 ? us : f16_us;
        snprintf(name, sizeof(name), "attention.%s.%dk.t%d.%s", c->shape->name, (int)c->context / 1024, n_threads,
                 kind_names[kind]);
        if (kind != GGML)
            printf("%s=%.2f\n", name, kind == NAIVE ? us / f16_us : ggml_us / us);
        printf("%s_us=%.0f\n", name, us);
    }
    fflush(stdout);
}

static void compare(const struct shape *shape, int32_t context, int n_rounds)
{
    static struct contender all[N_CONTENDERS];
    static struct layer layers[N_CONTENDERS][MAX_LAYERS];

    for (int kind = 0; kind < N_CONTENDERS; kind++) {
        all[kind] = (struct contender){.kind = (enum contender_kind)kind, .shape = shape, .context = context};
        contender_init(&all[kind], layers[kind]);
    }
    for (int n_threads = 1; n_threads <= MAX_THREADS; n_threads++) {
        int n_kinds = n_threads == 1 ? N_CONTENDERS : NAIVE;
        struct ruvllm_error err;
        struct rv_device *device;

        if (rv_device_open(&device, "cpu", n_threads, &err)) {
            fprintf(stderr, "bench_attention: %s\n", err.message);
            exit(1);
        }
        for (int round = -1; round < n_rounds; round++) // the first one is not kept
            for (int kind = 0; kind < n_kinds; kind++)
                run_round(&all[kind], device, round < 0 ? 0 : round);
        check_results(all);
        print_figures(all, n_threads, n_rounds);
        rv_device_close(device);
    }
    for (int kind = 0; kind < N_CONTENDERS; kind++)
        contender_release(&all[kind]);
}

int main(int argc, char **argv)
{
    static const int32_t contexts[] = {1024, 8192, 32768};
    long n_rounds = argc > 1 ? strtol(argv[1], NULL, 10) : 9;
    struct rv_rng rng;

    if (n_rounds < 1 || n_rounds > MAX_ROUNDS) {
        fprintf(stderr, "usage: bench_attention [rounds, 1 to %d [shape.context]]\n", MAX_ROUNDS);
        return 1;
    }
    rv_rng_init(&rng, 1);
    for (int i = 0; i < N_ROWS; i++) {
        for (int d = 0; d < MAX_DIM; d++) {
            k_rows[i][d] = (float)rv_rng_normal(&rng);
            v_rows[i][d] = (float)rv_rng_normal(&rng);
        }
    }
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        for (size_t j = 0; j < sizeof(contexts) / sizeof(contexts[0]); j++) {
            char name[32];

            snprintf(name, sizeof(name), "%s.%dk", shapes[i].name, (int)contexts[j] / 1024);
            if (argc < 3 || strcmp(argv[2], name) == 0)
                compare(&shapes[i], contexts[j], (int)n_rounds);
        }
    }
    return 0;
}
