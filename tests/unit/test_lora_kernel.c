/*
 * The scalar kernel against the product of matrices written down in doubles, every vector variant of this machine
 * against the scalar one; every array is allocated to the byte, and what may not be touched is poisoned.
 */
#include "kernels/half.h"
#include "kernels/lora_kernel.h"
#include "support/test.h"

#include "base/rng.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ROWS = 32 };

/* The variants this machine can run; returns how many. */
static int variants(const struct rv_lora_kernel *out[3])
{
    const struct rv_lora_kernel *all[] = {rv_lora_kernel_avx2(), rv_lora_kernel_avx512(), rv_lora_kernel_neon()};
    int n = 0;

    for (int i = 0; i < 3; i++)
        if (all[i])
            out[n++] = all[i];
    return n;
}

/* A pair, some rows, and what y was. */
struct scene {
    struct rv_lora_call call;
    uint16_t *a, *b;
    float *x[MAX_ROWS], *y[MAX_ROWS], *before[MAX_ROWS];
};

static void *allocate(size_t bytes)
{
    void *p = malloc(bytes);

    assert_non_null(p);
    return p;
}

static uint16_t *random_halves(struct rv_rng *rng, size_t n)
{
    uint16_t *p = allocate(n * sizeof(*p));

    for (size_t i = 0; i < n; i++)
        p[i] = rv_half_from_float((float)(rv_rng_normal(rng) * (i % 7 == 0 ? 1e-6 : 1))); // subnormal ones too
    return p;
}

static float *random_floats(struct rv_rng *rng, size_t n)
{
    float *p = allocate(n * sizeof(*p));

    for (size_t i = 0; i < n; i++)
        p[i] = (float)rv_rng_normal(rng);
    return p;
}

static void scene_init(struct scene *s, struct rv_rng *rng)
{
    static const int32_t ranks[] = {1, 2, 3, 4, 7, 8, 9, 16, 31, 64};
    static const int32_t widths[] = {1, 5, 8, 16, 31, 64, 65, 96, 200, 288, 511};
    struct rv_lora_call *c = &s->call;

    memset(s, 0, sizeof(*s));
    c->rank = ranks[rv_rng_below(rng, sizeof(ranks) / sizeof(ranks[0]))];
    c->n_in = widths[rv_rng_below(rng, sizeof(widths) / sizeof(widths[0]))];
    c->n_out = widths[rv_rng_below(rng, sizeof(widths) / sizeof(widths[0]))];
    c->n_rows = 1 + (int32_t)rv_rng_below(rng, rv_rng_below(rng, 2) ? 4 : MAX_ROWS);
    c->end = c->n_out;
    s->a = random_halves(rng, (size_t)c->rank * (size_t)c->n_in);
    s->b = random_halves(rng, (size_t)c->rank * (size_t)c->n_out);
    c->a = s->a;
    c->b = s->b;
    for (int32_t r = 0; r < c->n_rows; r++) {
        s->x[r] = random_floats(rng, (size_t)c->n_in);
        s->before[r] = random_floats(rng, (size_t)c->n_out);
        s->y[r] = allocate((size_t)c->n_out * sizeof(float));
    }
    c->x = (const float *const *)s->x;
    c->y = s->y;
    c->inner = allocate((size_t)c->n_rows * (size_t)c->rank * sizeof(float));
}

static void scene_release(struct scene *s)
{
    for (int32_t r = 0; r < s->call.n_rows; r++) {
        free(s->x[r]);
        free(s->y[r]);
        free(s->before[r]);
    }
    free(s->call.inner);
    free(s->a);
    free(s->b);
}

/* y as it was; inner full of NaN. */
static void reset(struct scene *s)
{
    memset(s->call.inner, 0xFF, (size_t)s->call.n_rows * (size_t)s->call.rank * sizeof(float));
    for (int32_t r = 0; r < s->call.n_rows; r++)
        memcpy(s->y[r], s->before[r], (size_t)s->call.n_out * sizeof(float));
}

static void run(const struct rv_lora_kernel *kernel, struct scene *s)
{
    reset(s);
    kernel->shrink(&s->call);
    kernel->expand(&s->call);
}

/*
 * In floats each of the two sums is off by some rounding steps of the sizes it adds up: `steps` for each number that
 * goes into one, in the worst order.
 */
static void check(const struct scene *s, const char *name, double steps)
{
    const struct rv_lora_call *c = &s->call;

    for (int32_t r = 0; r < c->n_rows; r++) {
        double inner[64] = {0}, inner_size[64] = {0};

        for (int32_t j = 0; j < c->rank; j++) {
            for (int32_t i = c->n_in - 1; i >= 0; i--) {
                double product = (double)rv_half_to_float(s->a[j * c->n_in + i]) * (double)s->x[r][i];

                inner[j] += product;
                inner_size[j] += fabs(product);
            }
        }
        for (int32_t o = 0; o < c->n_out; o++) {
            double wanted = (double)s->before[r][o], size = fabs(wanted);

            for (int32_t j = c->rank - 1; j >= 0; j--) {
                double factor = (double)rv_half_to_float(s->b[j * c->n_out + o]);

                wanted += factor * inner[j];
                size += fabs(factor) * inner_size[j];
            }
            if (!(fabs((double)s->y[r][o] - wanted) <= 0x1p-24 * steps * size))
                fail_msg("%s: rank %d, %d to %d, row %d of %d, output %d: %.9g, not %.9g (size %g)", name, c->rank,
                         c->n_in, c->n_out, r, c->n_rows, o, (double)s->y[r][o], wanted, size);
        }
    }
}

static void the_scalar_kernel_is_the_product_of_matrices(void **state)
{
    struct rv_rng rng;
    struct scene s;

    (void)state;
    rv_rng_init(&rng, 21);
    for (int round = 0; round < 60; round++) {
        scene_init(&s, &rng);
        run(&rv_lora_kernel_scalar, &s);
        check(&s, "scalar", 2); // each of the two results is rounded once
        scene_release(&s);
    }
}

static void every_variant_computes_what_the_scalar_does(void **state)
{
    const struct rv_lora_kernel *all[3];
    int n = variants(all);
    struct rv_rng rng;
    struct scene s;

    (void)state;
    rv_rng_init(&rng, 22);
    for (int round = 0; round < 150; round++) {
        scene_init(&s, &rng);
        for (int i = 0; i < n; i++) {
            run(all[i], &s);
            check(&s, all[i]->name, 12);
        }
        scene_release(&s);
    }
}

/* The same rows in other company, and outputs in any cuts: the same bits, and nothing beyond the cut is touched. */
static void a_row_does_not_depend_on_its_neighbours_or_on_cuts(void **state)
{
    const struct rv_lora_kernel *all[3];
    int n = variants(all);
    float *together[MAX_ROWS];
    struct rv_rng rng;
    struct scene s;

    (void)state;
    rv_rng_init(&rng, 23);
    for (int round = 0; round < 100 * n; round++) {
        const struct rv_lora_kernel *kernel = all[round % n];
        struct rv_lora_call part;
        size_t bytes;

        scene_init(&s, &rng);
        bytes = (size_t)s.call.n_out * sizeof(float);
        run(kernel, &s);
        for (int32_t r = 0; r < s.call.n_rows; r++) {
            together[r] = allocate(bytes);
            memcpy(together[r], s.y[r], bytes);
        }
        reset(&s);
        part = s.call;
        for (int32_t r = 0; r < s.call.n_rows; r += part.n_rows) {
            part.n_rows = 1 + (int32_t)rv_rng_below(&rng, (uint64_t)(s.call.n_rows - r));
            part.x = s.call.x + r;
            part.y = s.call.y + r;
            kernel->shrink(&part);
            for (part.first = 0; part.first < s.call.n_out; part.first = part.end) {
                part.end = part.first + 1 + (int32_t)rv_rng_below(&rng, (uint64_t)(s.call.n_out - part.first));
                kernel->expand(&part);
                for (int32_t o = part.end; o < s.call.n_out; o++)
                    assert_true(s.y[r][o] == s.before[r][o]);
            }
        }
        for (int32_t r = 0; r < s.call.n_rows; r++) {
            assert_memory_equal(together[r], s.y[r], bytes);
            free(together[r]);
        }
        scene_release(&s);
    }
}

static void the_best_is_a_variant_of_this_machine(void **state)
{
    const struct rv_lora_kernel *all[3];
    int n = variants(all);
    bool found = n == 0 && rv_lora_kernel_best() == &rv_lora_kernel_scalar;

    (void)state;
    for (int i = 0; i < n; i++) {
        print_message("variant: %s\n", all[i]->name);
        found = found || all[i] == rv_lora_kernel_best();
    }
    assert_true(found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_scalar_kernel_is_the_product_of_matrices),
        cmocka_unit_test(every_variant_computes_what_the_scalar_does),
        cmocka_unit_test(a_row_does_not_depend_on_its_neighbours_or_on_cuts),
        cmocka_unit_test(the_best_is_a_variant_of_this_machine),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
