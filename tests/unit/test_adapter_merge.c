/*
 * Merging against plain loops over full matrices in double. The result is rounded to 32 bits, numbers are of size 1 or
 * less and sums short: 1e-5 is a hundred times the rounding, and a thousandth of what a wrong weight would do.
 */
#include "model/adapter_merge.h"

#include "support/paper_model.h"
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double TOLERANCE = 1e-5;
/* Three adapters: all matrices; two of three; the head too. */
struct inputs {
    struct rv_adapter_file *files[3];
};

static struct inputs inputs_new(void)
{
    static const struct paper_adapter wanted[] = {
        {.seed = 1, .rank = 2, .scale = 0.5f, .scale_step = 0.1f, .type = GGML_TYPE_F16},
        {.seed = 2, .rank = 3, .scale = 1.5f, .differing = true, .type = GGML_TYPE_F32},
        {.seed = 3, .rank = 4, .head_rank = 2, .scale = 1.0f, .type = GGML_TYPE_BF16},
    };
    struct inputs in;

    for (size_t i = 0; i < 3; i++)
        in.files[i] = paper_adapter_new(&paper_llama, &wanted[i]);
    return in;
}

static void inputs_release(struct inputs *in)
{
    for (size_t i = 0; i < 3; i++)
        rv_adapter_file_close(in->files[i]);
}

static struct rv_adapter_file *merged(const struct inputs *in, size_t n, const struct ruvllm_merge_params *params,
                                      double *error)
{
    struct rv_adapter_file *out;

    assert_ok(rv_adapter_merge(&out, (const struct rv_adapter_file *const *)in->files, n, &paper_llama.base, params,
                               error, err));
    return out;
}

/* A full matrix of zeros where an adapter does not change it. */
static double *change_of(const struct rv_adapter_file *file, int32_t layer, enum rv_part part, size_t n)
{
    const struct rv_adapter_file_pair *pair = paper_adapter_pair(file, layer, part);
    double *zeros;

    if (pair)
        return paper_adapter_change(pair);
    zeros = calloc(n, sizeof(*zeros));
    assert_non_null(zeros);
    return zeros;
}

/* How one element of the result is made of those of the inputs. */
typedef double (*element_fn)(const double *x, size_t n, const void *user);

/* Holds every matrix of the result against the reference; the largest difference. */
static double largest_difference(const struct inputs *in, size_t n, const struct rv_adapter_file *out, element_fn fn,
                                 const void *user)
{
    double largest = 0;

    for (size_t i = 0; i < out->n_pairs; i++) {
        const struct rv_adapter_file_pair *pair = &out->pairs[i];
        size_t n_elements = (size_t)pair->n_in * (size_t)pair->n_out;
        double *have = paper_adapter_change(pair), *x[3];

        for (size_t k = 0; k < n; k++)
            x[k] = change_of(in->files[k], pair->layer, pair->part, n_elements);
        for (size_t j = 0; j < n_elements; j++) {
            double row[3] = {0};

            for (size_t k = 0; k < n; k++)
                row[k] = x[k][j];
            largest = fmax(largest, fabs(have[j] - fn(row, n, user)));
        }
        for (size_t k = 0; k < n; k++)
            free(x[k]);
        free(have);
    }
    return largest;
}

static double weighted(const double *x, size_t n, const void *user)
{
    const double *weights = user;
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += weights[i] * x[i];
    return sum;
}

static void sums_and_averages_are_exact(void **state)
{
    static const float given[] = {0.5f, -2.0f, 3.0f};
    struct ruvllm_merge_params params = {.method = RUVLLM_MERGE_SUM};
    struct inputs in = inputs_new();
    struct rv_adapter_file *out;
    double error = 1;

    (void)state;
    out = merged(&in, 3, &params, &error);
    assert_true(error == 0);
    assert_int_equal(out->n_pairs, in.files[2]->n_pairs);
    assert_int_equal(paper_adapter_pair(out, 0, RV_PART_Q)->rank, 2 + 3 + 4);
    assert_int_equal(paper_adapter_pair(out, -1, RV_PART_Q)->rank, 2);
    assert_true(largest_difference(&in, 3, out, weighted, (double[]){1, 1, 1}) < TOLERANCE);
    assert_true(largest_difference(&in, 3, out, weighted, (double[]){1, 1, 1.01}) > TOLERANCE);
    rv_adapter_file_close(out);
    params.weights = given;
    out = merged(&in, 3, &params, &error);
    assert_true(largest_difference(&in, 3, out, weighted, (double[]){0.5, -2, 3}) < TOLERANCE);
    rv_adapter_file_close(out);
    params.method = RUVLLM_MERGE_AVERAGE;
    out = merged(&in, 3, &params, &error);
    assert_true(largest_difference(&in, 3, out, weighted, (double[]){1.0 / 3, -4.0 / 3, 2}) < TOLERANCE);
    rv_adapter_file_close(out);
    params.weights = NULL;
    out = merged(&in, 2, &params, &error);
    assert_true(largest_difference(&in, 2, out, weighted, (double[]){0.5, 0.5}) < TOLERANCE);
    rv_adapter_file_close(out);
    inputs_release(&in);
}

/* The error that is told is that of all matrices together. */
static void a_smaller_rank_tells_its_error(void **state)
{
    struct ruvllm_merge_params params = {.method = RUVLLM_MERGE_SUM};
    struct inputs in = inputs_new();
    double before = 0;

    (void)state;
    for (int32_t rank = 9; rank >= 1; rank -= 4) {
        struct rv_adapter_file *out;
        double error = -1, dropped = 0, total = 0;

        params.rank = rank;
        out = merged(&in, 3, &params, &error);
        for (size_t i = 0; i < out->n_pairs; i++) {
            const struct rv_adapter_file_pair *pair = &out->pairs[i];
            size_t n = (size_t)pair->n_in * (size_t)pair->n_out;
            double *have = paper_adapter_change(pair), *x[3];

            assert_true(pair->rank <= rank);
            for (size_t k = 0; k < 3; k++)
                x[k] = change_of(in.files[k], pair->layer, pair->part, n);
            for (size_t j = 0; j < n; j++) {
                double want = x[0][j] + x[1][j] + x[2][j];

                total += want * want;
                dropped += (want - have[j]) * (want - have[j]);
            }
            for (size_t k = 0; k < 3; k++)
                free(x[k]);
            free(have);
        }
        assert_true(fabs(error - sqrt(dropped / total)) < 1e-5);
        assert_true(rank == 9 ? error == 0 : error > before);
        before = error;
        rv_adapter_file_close(out);
    }
    inputs_release(&in);
}

/* Ranks that come to more than a matrix has: an exact result of the full rank. */
static void no_rank_is_larger_than_the_matrix(void **state)
{
    struct paper_adapter wanted = {.seed = 8, .rank = 16, .scale = 1.0f, .type = GGML_TYPE_F32};
    struct ruvllm_merge_params params = {.method = RUVLLM_MERGE_SUM};
    struct inputs in = inputs_new();
    struct rv_adapter_file *out;
    double error = 1;

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        rv_adapter_file_close(in.files[i]);
        wanted.seed++;
        in.files[i] = paper_adapter_new(&paper_llama, &wanted);
    }
    out = merged(&in, 3, &params, &error);
    assert_true(error < 1e-12);
    assert_int_equal(paper_adapter_pair(out, 1, RV_PART_K)->rank, PAPER_KV_HEADS * PAPER_HEAD_DIM);
    assert_int_equal(out->max_rank, PAPER_EMBD);
    assert_true(largest_difference(&in, 3, out, weighted, (double[]){1, 1, 1}) < TOLERANCE);
    rv_adapter_file_close(out);
    inputs_release(&in);
}

static void arcs_go_from_one_to_the_other(void **state)
{
    static const float places[] = {0.0f, 0.3f, 1.0f};
    struct inputs in = inputs_new();

    (void)state;
    for (size_t p = 0; p < 3; p++) {
        struct ruvllm_merge_params params = {.method = RUVLLM_MERGE_SLERP, .weights = (float[]){0, places[p]}};
        double error, t = (double)places[p];
        struct rv_adapter_file *out = merged(&in, 2, &params, &error);

        for (size_t i = 0; i < out->n_pairs; i++) {
            const struct rv_adapter_file_pair *pair = &out->pairs[i];
            size_t n = (size_t)pair->n_in * (size_t)pair->n_out;
            double *have = paper_adapter_change(pair), xx = 0, yy = 0, xy = 0, angle, c0 = 1 - t, c1 = t;
            double *x = change_of(in.files[0], pair->layer, pair->part, n);
            double *y = change_of(in.files[1], pair->layer, pair->part, n);

            for (size_t j = 0; j < n; j++) {
                xx += x[j] * x[j];
                yy += y[j] * y[j];
                xy += x[j] * y[j];
            }
            if (yy > 0) {
                angle = acos(xy / sqrt(xx * yy));
                c0 = sin((1 - t) * angle) / sin(angle);
                c1 = sin(t * angle) / sin(angle);
            }
            for (size_t j = 0; j < n; j++)
                assert_true(fabs(have[j] - c0 * x[j] - c1 * y[j]) < TOLERANCE);
            free(have);
            free(x);
            free(y);
        }
        rv_adapter_file_close(out);
    }
    inputs_release(&in);
}

/* ---- TIES and DARE: matrices of the model are small enough that the full rank is exact --------- */

static int compare_sizes(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;

    return (a < b) - (a > b);
}

static double trim(const double *x, size_t n, double density)
{
    double *sizes = calloc(n, sizeof(*sizes)), threshold;

    assert_non_null(sizes);
    for (size_t i = 0; i < n; i++)
        sizes[i] = fabs(x[i]);
    qsort(sizes, n, sizeof(*sizes), compare_sizes);
    threshold = sizes[(size_t)ceil(density * (double)n) - 1];
    free(sizes);
    return threshold * (1 - 1e-7); // the suite counts in double, the code compares floats
}

static void ties_trims_elects_and_averages(void **state)
{
    static const float weights[] = {1.0f, 2.0f, 0.5f};
    struct ruvllm_merge_params params = {
        .method = RUVLLM_MERGE_TIES, .weights = weights, .density = 0.25f, .rank = PAPER_EMBD};
    struct inputs in = inputs_new();
    double error;
    struct rv_adapter_file *out = merged(&in, 3, &params, &error);

    (void)state;
    assert_true(error < 1e-6);
    for (size_t i = 0; i < out->n_pairs; i++) {
        const struct rv_adapter_file_pair *pair = &out->pairs[i];
        size_t n = (size_t)pair->n_in * (size_t)pair->n_out, n_changed = 0;
        double *have = paper_adapter_change(pair), *x[3], least[3];

        for (size_t k = 0; k < 3; k++) {
            x[k] = change_of(in.files[k], pair->layer, pair->part, n);
            least[k] = trim(x[k], n, 0.25);
        }
        for (size_t j = 0; j < n; j++) {
            double vote = 0, sum = 0, weight = 0;

            for (size_t k = 0; k < 3; k++) {
                x[k][j] = fabs(x[k][j]) >= least[k] ? x[k][j] : 0;
                vote += (double)weights[k] * x[k][j];
            }
            for (size_t k = 0; k < 3; k++) {
                if (x[k][j] * vote > 0) {
                    sum += (double)weights[k] * x[k][j];
                    weight += (double)weights[k];
                }
            }
            n_changed += weight > 0;
            assert_true(fabs(have[j] - (weight > 0 ? sum / weight : 0)) < TOLERANCE);
        }
        assert_true(n_changed >= n / 4 - 1 && n_changed < n);
        for (size_t k = 0; k < 3; k++)
            free(x[k]);
        free(have);
    }
    rv_adapter_file_close(out);
    inputs_release(&in);
}

static void dare_drops_and_scales_by_its_seed(void **state)
{
    struct ruvllm_merge_params params = {.method = RUVLLM_MERGE_DARE, .density = 0.5f, .rank = PAPER_EMBD, .seed = 4};
    struct inputs in = inputs_new();
    double error, sum = 0, want = 0;
    struct rv_adapter_file *out = merged(&in, 1, &params, &error), *again = merged(&in, 1, &params, &error), *other;
    size_t n_kept = 0, n_all = 0;

    (void)state;
    assert_string_equal(out->hash, again->hash);
    params.seed = 5;
    other = merged(&in, 1, &params, &error);
    assert_string_not_equal(out->hash, other->hash);
    for (size_t i = 0; i < out->n_pairs; i++) {
        const struct rv_adapter_file_pair *pair = &out->pairs[i];
        size_t n = (size_t)pair->n_in * (size_t)pair->n_out;
        double *have = paper_adapter_change(pair), *x = change_of(in.files[0], pair->layer, pair->part, n);

        for (size_t j = 0; j < n; j++) {
            bool is_kept = fabs(have[j] - 2 * x[j]) < TOLERANCE;

            assert_true(is_kept || fabs(have[j]) < TOLERANCE);
            n_kept += is_kept;
            n_all++;
            sum += have[j] * x[j];
            want += x[j] * x[j];
        }
        free(have);
        free(x);
    }
    /* Half of 15,000 elements, give or take; and the expectation is what it was. */
    assert_true(fabs((double)n_kept / (double)n_all - 0.5) < 0.02);
    assert_true(fabs(sum / want - 1) < 0.05);
    rv_adapter_file_close(out);
    rv_adapter_file_close(again);
    rv_adapter_file_close(other);
    inputs_release(&in);
}

static void senseless_wishes_are_refused(void **state)
{
    struct inputs in = inputs_new();
    struct rv_adapter_file *out;
    struct ruvllm_error fault = {0};
    double error;

    (void)state;
#define REFUSED(n, text, ...)                                                                                          \
    do {                                                                                                               \
        struct ruvllm_merge_params params = {__VA_ARGS__};                                                             \
        assert_fails(rv_adapter_merge(&out, (const struct rv_adapter_file *const *)in.files, n, &paper_llama.base,     \
                                      &params, &error, &fault),                                                        \
                     RUVLLM_INVALID, fault, text);                                                                     \
        assert_null(out);                                                                                              \
    } while (0)
    REFUSED(0, "0 adapters", .method = RUVLLM_MERGE_SUM);
    REFUSED(3, "an arc", .method = RUVLLM_MERGE_SLERP);
    REFUSED(2, "place on the arc", .method = RUVLLM_MERGE_SLERP, .weights = (float[]){0, 1.5f});
    REFUSED(2, "density", .method = RUVLLM_MERGE_TIES);
    REFUSED(2, "density", .method = RUVLLM_MERGE_DARE, .density = NAN);
    REFUSED(2, "weight 2", .method = RUVLLM_MERGE_TIES, .density = 0.5f, .weights = (float[]){1, 0});
    REFUSED(2, "come to nothing", .method = RUVLLM_MERGE_AVERAGE, .weights = (float[]){1, -1});
    REFUSED(2, "weight 1", .method = RUVLLM_MERGE_SUM, .weights = (float[]){INFINITY, -1});
    REFUSED(2, "rank 257", .method = RUVLLM_MERGE_SUM, .rank = 257);
    REFUSED(2, "method", .method = (ruvllm_merge_method)17);
#undef REFUSED
    inputs_release(&in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_and_averages_are_exact),       cmocka_unit_test(a_smaller_rank_tells_its_error),
        cmocka_unit_test(no_rank_is_larger_than_the_matrix), cmocka_unit_test(arcs_go_from_one_to_the_other),
        cmocka_unit_test(ties_trims_elects_and_averages),    cmocka_unit_test(dare_drops_and_scales_by_its_seed),
        cmocka_unit_test(senseless_wishes_are_refused),
    };

    return cmocka_run_group_tests(tests, paper_model_setup, paper_model_teardown);
}
