/* Attention over plain arrays against loops in doubles, on numbers that half precision holds exactly. */
#include "kernels/plain_attention.h"
#include "support/test.h"

#include "base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 32 };

struct scene {
    struct rv_plain_attention call;
    int32_t n_rows; // of k and v
    float *q, *k, *v, *out;
    int32_t table[16];
};

/* To the float, so that sanitizers see a step beyond. */
static float *numbers(struct rv_rng *rng, size_t n)
{
    float *x = malloc(n * sizeof(*x));

    assert_non_null(x);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(rint(rv_rng_normal(rng) * 128) / 128); // at most 11 bits: a half has them
    return x;
}

static void scene_init(struct scene *s, const struct rv_plain_attention *shape, bool paged, uint64_t seed)
{
    size_t dim = (size_t)shape->head_dim;
    int32_t n_entries = (shape->n_kv + BLOCK - 1) / BLOCK;
    struct rv_rng rng;

    rv_rng_init(&rng, seed);
    memset(s, 0, sizeof(*s));
    s->call = *shape;
    s->call.scale = 1.0f / sqrtf((float)dim);
    s->n_rows = paged ? (n_entries + 2) * BLOCK : shape->n_kv;
    s->q = numbers(&rng, (size_t)(shape->n_q * shape->n_heads) * dim);
    s->k = numbers(&rng, (size_t)(s->n_rows * shape->n_kv_heads) * dim);
    s->v = numbers(&rng, (size_t)(s->n_rows * shape->n_kv_heads) * dim);
    s->out = numbers(&rng, (size_t)(shape->n_q * shape->n_heads) * dim);
    for (int32_t i = 0; i < n_entries; i++)
        s->table[i] = n_entries + 1 - i; // backwards, with a block at either end that nobody uses
    s->call.q = s->q;
    s->call.k = s->k;
    s->call.v = s->v;
    s->call.out = s->out;
    s->call.table = paged ? s->table : NULL;
    s->call.n_blocks = paged ? n_entries + 2 : 0;
}

static void scene_release(struct scene *s)
{
    free(s->q);
    free(s->k);
    free(s->v);
    free(s->out);
}

static size_t row_of(const struct scene *s, int32_t pos, int32_t kv_head)
{
    int32_t row = s->call.table ? s->table[pos / BLOCK] * BLOCK + pos % BLOCK : pos;

    return ((size_t)row * (size_t)s->call.n_kv_heads + (size_t)kv_head) * (size_t)s->call.head_dim;
}

static void reference(const struct scene *s, int32_t i_q, int32_t head, double *out)
{
    const struct rv_plain_attention *c = &s->call;
    const float *q = s->q + ((size_t)i_q * (size_t)c->n_heads + (size_t)head) * (size_t)c->head_dim;
    int32_t end = c->causal ? c->n_kv - c->n_q + i_q + 1 : c->n_kv, kv_head = head / (c->n_heads / c->n_kv_heads);
    double scores[512], max = -INFINITY, total = 0;

    memset(out, 0, (size_t)c->head_dim * sizeof(*out));
    for (int32_t pos = 0; pos < end; pos++) {
        const float *k = s->k + row_of(s, pos, kv_head);

        scores[pos] = 0;
        for (int32_t d = 0; d < c->head_dim; d++)
            scores[pos] += (double)q[d] * (double)k[d] * (double)c->scale;
        max = fmax(max, scores[pos]);
    }
    for (int32_t pos = 0; pos < end; pos++)
        total += exp(scores[pos] - max);
    for (int32_t pos = 0; pos < end; pos++)
        for (int32_t d = 0; d < c->head_dim; d++)
            out[d] += exp(scores[pos] - max) / total * (double)s->v[row_of(s, pos, kv_head) + (size_t)d];
}

/* Values are about 1, scores a few units: a dozen roundings of floats. */
static void check(const struct scene *s)
{
    const struct rv_plain_attention *c = &s->call;
    double wanted[512];

    for (int32_t i = 0; i < c->n_q; i++) {
        for (int32_t head = 0; head < c->n_heads; head++) {
            const float *out = s->out + ((size_t)i * (size_t)c->n_heads + (size_t)head) * (size_t)c->head_dim;

            reference(s, i, head, wanted);
            for (int32_t d = 0; d < c->head_dim; d++)
                if (!(fabs((double)out[d] - wanted[d]) < 5e-6))
                    fail_msg("query %d of %d, head %d of %d to %d, dim %d of %d, %d positions: %.9g, not %.9g", (int)i,
                             (int)c->n_q, (int)head, (int)c->n_heads, (int)c->n_kv_heads, (int)d, (int)c->head_dim,
                             (int)c->n_kv, (double)out[d], wanted[d]);
        }
    }
}

static const struct rv_plain_attention shapes[] = {
    {.n_heads = 1, .n_kv_heads = 1, .head_dim = 8, .n_q = 1, .n_kv = 1},
    {.n_heads = 1, .n_kv_heads = 1, .head_dim = 64, .n_q = 1, .n_kv = 100},
    {.n_heads = 1, .n_kv_heads = 1, .head_dim = 40, .n_q = 70, .n_kv = 70, .causal = true},
    {.n_heads = 1, .n_kv_heads = 1, .head_dim = 64, .n_q = 70, .n_kv = 33},
    {.n_heads = 8, .n_kv_heads = 2, .head_dim = 64, .n_q = 5, .n_kv = 129, .causal = true},
    {.n_heads = 6, .n_kv_heads = 1, .head_dim = 128, .n_q = 20, .n_kv = 64, .causal = true},
    {.n_heads = 96, .n_kv_heads = 1, .head_dim = 16, .n_q = 3, .n_kv = 300}, // more to a KV head than a call takes
    {.n_heads = 4, .n_kv_heads = 4, .head_dim = 80, .n_q = 2, .n_kv = 37, .causal = true},
};

static void every_shape_is_the_formula(void **state)
{
    struct scene s;

    (void)state;
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        for (int paged = 0; paged < 2; paged++) {
            scene_init(&s, &shapes[i], paged, i);
            assert_ok(rv_plain_attention(&s.call, err));
            check(&s);
            scene_release(&s);
        }
    }
}

/* The arrays end with the last position, in the middle of a block: a sanitizer sees a step further. */
static void what_lies_beyond_the_last_position_is_not_read(void **state)
{
    struct scene s;
    size_t n;

    (void)state;
    scene_init(&s, &shapes[4], true, 1);
    s.table[4] = 6;
    s.table[0] = 2;
    n = (6 * BLOCK + 1) * 2 * 64 * sizeof(float);
    s.k = realloc(s.k, n);
    s.v = realloc(s.v, n);
    assert_true(s.k && s.v);
    s.call.k = s.k;
    s.call.v = s.v;
    assert_ok(rv_plain_attention(&s.call, err));
    check(&s);
    scene_release(&s);
}

/* The first block again at the end, where only a part of it is seen. */
static void a_block_may_stand_in_the_table_twice(void **state)
{
    struct scene s;

    (void)state;
    scene_init(&s, &shapes[4], true, 2);
    s.table[4] = s.table[0];
    assert_ok(rv_plain_attention(&s.call, err));
    check(&s);
    s.table[0] = s.table[1]; // and now it is whole nowhere
    assert_ok(rv_plain_attention(&s.call, err));
    check(&s);
    scene_release(&s);
}

static void refuse(const struct rv_plain_attention *call, const char *text)
{
    struct ruvllm_error err = {0};

    assert_fails(rv_plain_attention(call, &err), RUVLLM_INVALID, err, text);
}

static void what_cannot_be_computed_is_refused(void **state)
{
    struct rv_plain_attention call;
    struct scene s;

    (void)state;
    scene_init(&s, &shapes[4], true, 3);
    call = s.call;
    call.n_kv_heads = 3;
    refuse(&call, "8 heads cannot share 3 KV heads");
    call.n_kv_heads = 0;
    refuse(&call, "KV heads");
    call = s.call;
    call.head_dim = 60;
    refuse(&call, "'head_dim' is 60");
    call.head_dim = 520;
    refuse(&call, "'head_dim' is 520");
    call = s.call;
    call.n_q = 0;
    refuse(&call, "0 queries");
    call = s.call;
    call.n_kv = INT32_MAX;
    refuse(&call, "2147483647 positions");
    call = s.call;
    call.n_q = 130;
    refuse(&call, "the first sees nothing");
    s.table[3] = 7;
    refuse(&s.call, "entry 3 of the block table is 7, there are 7 blocks");
    s.table[3] = -1;
    refuse(&s.call, "entry 3");
    scene_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shape_is_the_formula),
        cmocka_unit_test(what_lies_beyond_the_last_position_is_not_read),
        cmocka_unit_test(a_block_may_stand_in_the_table_twice),
        cmocka_unit_test(what_cannot_be_computed_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
