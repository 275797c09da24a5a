/*
 * The scalar kernel against three plain loops in doubles, every vector variant of this machine against the scalar one.
 *
 * What a query may not see is poisoned: slots without a token hold NaN, blocks outside every window are not there.
 */
#include "kernels/attention_kernel.h"
#include "support/test.h"

#include "base/rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = RV_KV_BLOCK_TOKENS, MAX_Q = RV_ATTENTION_KERNEL_MAX_Q, MAX_BLOCKS = 16, LEAD = 64 };

static const int32_t all_dims[] = {8, 16, 40, 64, 72, 80, 96, 128, 256};

struct variant {
    const char *name;
    rv_attention_kernel_fn run;
};

/* The variants this machine can run; returns how many. */
static int variants(struct variant out[3])
{
    const struct variant all[] = {{"avx2", rv_attention_kernel_avx2()},
                                  {"avx512", rv_attention_kernel_avx512()},
                                  {"neon", rv_attention_kernel_neon()}};
    int n = 0;

    for (int i = 0; i < 3; i++)
        if (all[i].run)
            out[n++] = all[i];
    return n;
}

/* A sequence's blocks and some queries; every piece allocated to the byte. */
struct scene {
    struct rv_attention_call call;
    int32_t length;
    struct rv_attention_block *blocks; // MAX_BLOCKS
    int32_t table[MAX_BLOCKS];         // backwards, so that nobody may take the order for granted
    float *q[MAX_Q], *out[MAX_Q];
    int32_t first[MAX_Q], end[MAX_Q];
};

static void *allocate(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);

    assert_non_null(p);
    memset(p, 0xFF, bytes); // NaN in halves and floats
    return p;
}

static void random_row(struct rv_rng *rng, float *row, int32_t n, double size)
{
    for (int32_t d = 0; d < n; d++)
        row[d] = (float)(rv_rng_normal(rng) * size);
}

/* The scales of the slots from `slot` on become NaN. */
static void poison_scales(const struct scene *s, enum rv_kv_block_format format, uint8_t *data, int32_t slot)
{
    size_t bytes = (size_t)(TOKENS - slot) * 2;

    size_t chunk = (size_t)TOKENS * (format == RV_KV_BLOCK_Q8 ? 34 : 18);

    for (int32_t c = 0; c < s->call.head_dim / 32; c++) {
        memset(data + s->call.k_offset[format] + (size_t)c * chunk + slot * 2, 0xFF, bytes);
        if (format == RV_KV_BLOCK_Q8 || c == 0)
            memset(data + s->call.v_offset[format] + (size_t)c * TOKENS * 2 + slot * 2, 0xFF, bytes);
    }
}

static uint8_t *make_block(struct rv_rng *rng, const struct scene *s, enum rv_kv_block_format format, int32_t n_tokens,
                           double k_size)
{
    const struct rv_attention_call *c = &s->call;
    uint8_t *half = allocate(LEAD + 2 * rv_kv_block_k_bytes(RV_KV_BLOCK_F16, c->head_dim)), *data;
    float k[256], v[256];

    for (int32_t t = 0; t < n_tokens; t++) {
        random_row(rng, k, c->head_dim, k_size);
        random_row(rng, v, c->head_dim, 1);
        rv_kv_block_put(half + c->k_offset[0], half + c->v_offset[0], c->head_dim, t, k, v);
    }
    if (format == RV_KV_BLOCK_F16)
        return half;
    data = allocate(LEAD + rv_kv_block_k_bytes(format, c->head_dim) + rv_kv_block_v_bytes(format, c->head_dim));
    rv_kv_block_convert(RV_KV_BLOCK_F16, half + c->k_offset[0], half + c->v_offset[0], format,
                        data + c->k_offset[format], data + c->v_offset[format], c->head_dim);
    if (n_tokens < TOKENS)
        poison_scales(s, format, data, n_tokens);
    free(half);
    return data;
}

struct shape {
    int32_t dim, length, n_q;
    int32_t window; // 0: the whole past
    int32_t format; // -1: mixed
    float cap;
    double score_size; // about the standard deviation of the scores
};

/* Queries whose ends differ, in no order, and now and then a few neighbours with the same. */
static void make_queries(struct rv_rng *rng, struct scene *s, const struct shape *shape)
{
    for (int32_t i = 0; i < shape->n_q; i++) {
        bool same = i > 0 && rv_rng_below(rng, 3) > 0;

        s->end[i] = same ? s->end[i - 1] : 1 + (int32_t)rv_rng_below(rng, (uint64_t)shape->length);
        s->first[i] = shape->window && s->end[i] > shape->window ? s->end[i] - shape->window : 0;
        s->q[i] = allocate((size_t)shape->dim * sizeof(float));
        s->out[i] = allocate((size_t)shape->dim * sizeof(float));
        random_row(rng, s->q[i], shape->dim, shape->score_size);
    }
}

static bool block_is_seen(const struct scene *s, int32_t b, int32_t n_q)
{
    for (int32_t i = 0; i < n_q; i++)
        if (s->first[i] < (b + 1) * TOKENS && s->end[i] > b * TOKENS)
            return true;
    return false;
}

static void scene_init(struct scene *s, struct rv_rng *rng, const struct shape *shape)
{
    memset(s, 0, sizeof(*s));
    s->length = shape->length;
    s->blocks = calloc(MAX_BLOCKS, sizeof(*s->blocks));
    assert_non_null(s->blocks);
    s->call = (struct rv_attention_call){.head_dim = shape->dim,
                                         .scale = 1.0f / sqrtf((float)shape->dim),
                                         .cap = shape->cap,
                                         .blocks = s->blocks,
                                         .table = s->table,
                                         .n_q = shape->n_q,
                                         .q = (const float *const *)s->q,
                                         .out = s->out,
                                         .first = s->first,
                                         .end = s->end};
    for (int format = 0; format < RV_KV_BLOCK_N_FORMATS; format++) {
        s->call.k_offset[format] = LEAD;
        s->call.v_offset[format] = LEAD + rv_kv_block_k_bytes((enum rv_kv_block_format)format, shape->dim);
    }
    make_queries(rng, s, shape);
    for (int32_t b = 0; b * TOKENS < shape->length; b++) {
        int32_t left = shape->length - b * TOKENS;
        int format = shape->format >= 0 ? shape->format : (int)rv_rng_below(rng, RV_KV_BLOCK_N_FORMATS);
        struct rv_attention_block *block = &s->blocks[MAX_BLOCKS - 1 - b];

        s->table[b] = MAX_BLOCKS - 1 - b;
        if (shape->dim % 32)
            format = RV_KV_BLOCK_F16;
        block->format = (enum rv_kv_block_format)format;
        if (block_is_seen(s, b, shape->n_q))
            block->data = make_block(rng, s, block->format, left < TOKENS ? left : TOKENS, 1);
    }
    s->call.scratch = allocate(rv_attention_kernel_scratch(shape->dim) * sizeof(float));
}

static void scene_release(struct scene *s)
{
    for (int32_t b = 0; b < MAX_BLOCKS; b++)
        free((void *)s->blocks[b].data);
    free(s->blocks);
    for (int32_t i = 0; i < MAX_Q; i++) {
        free(s->q[i]);
        free(s->out[i]);
    }
    free(s->call.scratch);
}

static void read_token(const struct scene *s, int32_t pos, float *k, float *v)
{
    const struct rv_attention_block *b = &s->blocks[s->table[pos / TOKENS]];

    rv_kv_block_get(b->format, b->data + s->call.k_offset[b->format], b->data + s->call.v_offset[b->format],
                    s->call.head_dim, pos % TOKENS, k, v);
}

/* Softmax in two passes over all scores; returns the largest sum of sizes of products, which bounds rounding. */
static double three_loops(const struct scene *s, int32_t i, double *out)
{
    static float k[256], v[512][256];
    double scores[512], max = -INFINITY, total = 0, size = 0;

    for (int32_t pos = s->first[i]; pos < s->end[i]; pos++) {
        double x = 0, terms = 0;

        read_token(s, pos, k, v[pos]);
        for (int32_t d = 0; d < s->call.head_dim; d++) {
            x += (double)s->q[i][d] * (double)k[d];
            terms += fabs((double)s->q[i][d] * (double)k[d]);
        }
        x *= (double)s->call.scale;
        scores[pos] = s->call.cap != 0.0f ? (double)s->call.cap * tanh(x / (double)s->call.cap) : x;
        max = fmax(max, scores[pos]);
        size = fmax(size, terms * (double)s->call.scale);
    }
    memset(out, 0, (size_t)s->call.head_dim * sizeof(*out));
    for (int32_t pos = s->first[i]; pos < s->end[i]; pos++) {
        double weight = exp(scores[pos] - max);

        total += weight;
        for (int32_t d = 0; d < s->call.head_dim; d++)
            out[d] += weight * (double)v[pos][d];
    }
    for (int32_t d = 0; d < s->call.head_dim; d++)
        out[d] /= total;
    return size;
}

/*
 * Values are about 1 and weights sum to 1. A score in floats is off by some rounding steps of the sizes it adds up, and
 * weights are off by that factor.
 */
static void check_against_loops(const struct scene *s, const char *name, double steps)
{
    double wanted[256];

    for (int32_t i = 0; i < s->call.n_q; i++) {
        double size = three_loops(s, i, wanted);
        double tolerance = 1e-6 + steps * 0x1p-24 * (1 + size);

        for (int32_t d = 0; d < s->call.head_dim; d++) {
            double off = fabs((double)s->out[i][d] - wanted[d]);

            if (!(off <= tolerance))
                fail_msg("%s: dim %d of %d, query %d of %d, positions %d to %d, cap %g: %.9g, not %.9g (size %g)", name,
                         (int)d, (int)s->call.head_dim, (int)i, (int)s->call.n_q, (int)s->first[i], (int)s->end[i],
                         (double)s->call.cap, (double)s->out[i][d], wanted[d], size);
        }
    }
}

static struct shape random_shape(struct rv_rng *rng)
{
    static const int32_t windows[] = {0, 0, 1, 20, 32, 33, 100};
    static const float caps[] = {0, 0, 2, 50};
    struct shape shape = {.dim = all_dims[rv_rng_below(rng, sizeof(all_dims) / sizeof(all_dims[0]))],
                          .length = 1 + (int32_t)rv_rng_below(rng, 400),
                          .n_q = 1 + (int32_t)rv_rng_below(rng, rv_rng_below(rng, 8) ? 9 : MAX_Q),
                          .window = windows[rv_rng_below(rng, 7)],
                          .format = (int32_t)rv_rng_below(rng, 5) - 1,
                          .cap = caps[rv_rng_below(rng, 4)],
                          .score_size = rv_rng_below(rng, 4) ? 1 : 5};

    shape.format = shape.format == 3 ? -1 : shape.format;
    return shape;
}

static void the_scalar_kernel_is_three_loops(void **state)
{
    struct rv_rng rng;
    struct scene s;

    (void)state;
    rv_rng_init(&rng, 11);
    for (int round = 0; round < 60; round++) {
        struct shape shape = random_shape(&rng);

        scene_init(&s, &rng, &shape);
        rv_attention_kernel_scalar(&s.call);
        check_against_loops(&s, "scalar", 0);
        scene_release(&s);
    }
}

static void every_variant_computes_what_the_scalar_does(void **state)
{
    struct variant all[3];
    int n = variants(all);
    struct rv_rng rng;
    struct scene s;

    (void)state;
    rv_rng_init(&rng, 12);
    for (int round = 0; round < 300; round++) {
        struct shape shape = random_shape(&rng);

        scene_init(&s, &rng, &shape);
        for (int i = 0; i < n; i++) {
            all[i].run(&s.call);
            check_against_loops(&s, all[i].name, 6);
        }
        scene_release(&s);
    }
}

/* Scores of several thousand: a softmax without its maximum would overflow, one weight is nearly all. */
static void huge_scores_neither_overflow_nor_lose_the_largest(void **state)
{
    struct variant all[3];
    int n = variants(all);
    struct rv_rng rng;
    struct scene s;

    (void)state;
    rv_rng_init(&rng, 13);
    for (int round = 0; round < 60; round++) {
        struct shape shape = random_shape(&rng);

        shape.score_size = round % 2 ? 4000 : 300;
        shape.cap = 0;
        scene_init(&s, &rng, &shape);
        rv_attention_kernel_scalar(&s.call);
        check_against_loops(&s, "scalar", 0);
        for (int i = 0; i < n; i++) {
            all[i].run(&s.call);
            check_against_loops(&s, all[i].name, 6);
        }
        scene_release(&s);
    }
}

/* The same query alone, and among others in another order: the same bits. */
static void a_query_does_not_depend_on_its_neighbours(void **state)
{
    struct variant all[3];
    int n = variants(all);
    float together[MAX_Q][256];
    struct rv_rng rng;
    struct scene s;

    (void)state;
    rv_rng_init(&rng, 14);
    for (int round = 0; round < 60 * n; round++) {
        struct shape shape = random_shape(&rng);
        struct rv_attention_call part;
        size_t bytes = (size_t)shape.dim * sizeof(float);

        scene_init(&s, &rng, &shape);
        all[round % n].run(&s.call);
        for (int32_t i = 0; i < shape.n_q; i++)
            memcpy(together[i], s.out[i], bytes);
        part = s.call;
        for (int32_t i = 0; i < shape.n_q; i += part.n_q) {
            part.n_q = 1 + (int32_t)rv_rng_below(&rng, (uint64_t)(shape.n_q - i));
            part.q = s.call.q + i;
            part.out = s.call.out + i;
            part.first = s.call.first + i;
            part.end = s.call.end + i;
            all[round % n].run(&part);
        }
        for (int32_t i = 0; i < shape.n_q; i++)
            assert_memory_equal(together[i], s.out[i], bytes);
        scene_release(&s);
    }
}

static void one_visible_token_gives_its_value(void **state)
{
    struct variant all[3];
    int n = variants(all);
    struct shape shape = {.dim = 64, .length = 70, .n_q = 3, .window = 1, .format = 0, .score_size = 100};
    float k[64], v[64];
    struct rv_rng rng;
    struct scene s;

    (void)state;
    rv_rng_init(&rng, 15);
    scene_init(&s, &rng, &shape);
    for (int i = 0; i <= n; i++) {
        (i < n ? all[i].run : rv_attention_kernel_scalar)(&s.call);
        for (int32_t q = 0; q < 3; q++) {
            read_token(&s, s.first[q], k, v);
            assert_memory_equal(s.out[q], v, sizeof(v));
        }
    }
    scene_release(&s);
}

static void the_best_is_a_variant_of_this_machine(void **state)
{
    struct variant all[3];
    int n = variants(all);
    bool found = n == 0 && rv_attention_kernel_best() == rv_attention_kernel_scalar;

    (void)state;
    for (int i = 0; i < n; i++) {
        print_message("variant: %s\n", all[i].name);
        found = found || all[i].run == rv_attention_kernel_best();
    }
    assert_true(found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_scalar_kernel_is_three_loops),
        cmocka_unit_test(every_variant_computes_what_the_scalar_does),
        cmocka_unit_test(huge_scores_neither_overflow_nor_lose_the_largest),
        cmocka_unit_test(a_query_does_not_depend_on_its_neighbours),
        cmocka_unit_test(one_visible_token_gives_its_value),
        cmocka_unit_test(the_best_is_a_variant_of_this_machine),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
