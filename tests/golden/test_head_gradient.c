/* What is captured of a token against the gradient that doubles find with the whole vocabulary. */
#include "engine/model.h"

#include "base/rng.h"
#include "kernels/vec.h"
#include "learn/head_gradient.h"
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DIMS = 1024, N_STATES = 20 };

struct bed {
    struct ruvllm_model *model;
    struct rv_head_gradient gradient;
    size_t n_vocab, n_dims;
    float *head, *logits;
    float state[MAX_DIMS];
    double wanted[MAX_DIMS];
    struct rv_rng rng;
};

static void open_bed(struct bed *bed, const char *path)
{
    struct ruvllm_model_params params = ruvllm_model_params_default();

    *bed = (struct bed){0};
    test_need_file(test_data(path));
    params.max_context = 64;
    params.n_threads = 1;
    assert_ok(rv_model_open(&bed->model, test_data(path), &params, true, err));
    assert_ok(rv_head_gradient_init(&bed->gradient, &bed->model->manifest, &bed->model->hparams, err));
    bed->n_vocab = (size_t)bed->model->hparams.n_vocab;
    bed->n_dims = (size_t)bed->model->hparams.n_embd;
    bed->head = malloc(bed->n_vocab * bed->n_dims * sizeof(float));
    bed->logits = malloc(bed->n_vocab * sizeof(float));
    for (size_t v = 0; v < bed->n_vocab; v++)
        rv_head_gradient_row(&bed->gradient, (int32_t)v, bed->head + v * bed->n_dims);
    rv_rng_init(&bed->rng, 9);
}

static void close_bed(struct bed *bed)
{
    rv_head_gradient_release(&bed->gradient);
    free(bed->head);
    free(bed->logits);
    rv_model_close(bed->model);
}

static void take_state(void *user, float *rows, int32_t n_rows)
{
    struct bed *bed = user;

    (void)n_rows;
    memcpy(bed->state, rows, bed->n_dims * sizeof(float));
}

/* The state after the next token of a text, and its logits; capped where the test says so. */
static void make_state(struct bed *bed)
{
    static const char text[] = "Once upon a time there was a little girl who lived in a small house near the forest.";
    struct ruvllm_input input = {.struct_size = sizeof(input), .text = text, .text_len = strlen(text)};
    int32_t *tokens;
    size_t n;

    assert_ok(ruvllm_tokenize(bed->model, &input, &tokens, &n, err));
    assert_ok(rv_model_advance(bed->model, &tokens[bed->model->n_history % (int32_t)n], 1, 1, RV_DECODER_HIDDEN,
                               take_state, bed, err));
    ruvllm_free(tokens);
    for (size_t v = 0; v < bed->n_vocab; v++) {
        double sum = 0;

        for (size_t d = 0; d < bed->n_dims; d++)
            sum += (double)bed->state[d] * (double)bed->head[v * bed->n_dims + d];
        if (bed->gradient.cap > 0)
            sum = (double)bed->gradient.cap * tanh(sum / (double)bed->gradient.cap);
        bed->logits[v] = (float)sum;
    }
}

/* The gradient of -log softmax(logits / temperature)[token] by the state. */
static void differentiate(struct bed *bed, double temperature, size_t token)
{
    double max = -INFINITY, total = 0;

    for (size_t v = 0; v < bed->n_vocab; v++)
        max = fmax(max, (double)bed->logits[v]);
    for (size_t v = 0; v < bed->n_vocab; v++)
        total += exp(((double)bed->logits[v] - max) / temperature);
    memset(bed->wanted, 0, sizeof(bed->wanted));
    for (size_t v = 0; v < bed->n_vocab; v++) {
        double p = exp(((double)bed->logits[v] - max) / temperature) / total, share = 0, by;

        if (bed->gradient.cap > 0)
            share = (double)bed->logits[v] / (double)bed->gradient.cap;
        by = (p - (v == token)) * (1 - share * share) / temperature;
        for (size_t d = 0; d < bed->n_dims; d++)
            bed->wanted[d] += by * (double)bed->head[v * bed->n_dims + d];
    }
}

/* How far a captured row is from what is wanted, as a share of that. */
static double off_by(const struct bed *bed, const uint16_t *row)
{
    double off = 0, size = 0;

    for (size_t d = 0; d < bed->n_dims; d++) {
        double x = (double)rv_vec_from_bf16(row[d]) - bed->wanted[d];

        off += x * x;
        size += bed->wanted[d] * bed->wanted[d];
    }
    return sqrt(off / size);
}

static void check(struct bed *bed, float temperature)
{
    struct rv_trace *trace;
    double worst = 0;

    assert_ok(rv_trace_new(&trace, 1, "", (int32_t)bed->n_dims, N_STATES, err));
    rv_model_rewind(bed->model, 0);
    for (int i = 0; i < N_STATES; i++) {
        size_t token = rv_rng_below(&bed->rng, bed->n_vocab);
        double off;

        make_state(bed);
        rv_head_gradient_capture(&bed->gradient, trace, bed->state, bed->logits, temperature, (int32_t)token);
        differentiate(bed, temperature > 0 ? (double)temperature : 1, token);
        off = off_by(bed, trace->gradients + (size_t)i * bed->n_dims);
        worst = off > worst ? off : worst;
        assert_int_equal(trace->tokens[i], token);
        assert_true(fabsf(rv_vec_from_bf16(trace->states[(size_t)i * bed->n_dims]) - bed->state[0]) <=
                    0.005f * fabsf(bed->state[0]));
    }
    assert_int_equal(trace->n_rows, N_STATES);
    rv_head_gradient_capture(&bed->gradient, trace, bed->state, bed->logits, temperature, 0);
    assert_int_equal(trace->n_rows, N_STATES); // there is no room
    print_message("off by at most %.4f\n", worst);
    assert_true(worst < 0.03); // 16 bits, and the tail beyond 32 tokens
    rv_trace_unref(trace);
}

static void the_captured_gradient_is_the_softmax_s(void **state)
{
    struct bed bed;

    (void)state;
    open_bed(&bed, "models/stories260K.gguf");
    check(&bed, 1);
    check(&bed, 0);
    check(&bed, 0.7f);
    bed.gradient.cap = 30;
    check(&bed, 1);
    close_bed(&bed);
}

/* Probes are drawn from the same distribution: over many, their mean is 0 where the token's is not. */
static void probes_average_out(void **state)
{
    struct rv_trace *trace;
    double probes = 0, gradients = 0;
    struct bed bed;

    (void)state;
    open_bed(&bed, "models/stories260K.gguf");
    assert_ok(rv_trace_new(&trace, 1, "", (int32_t)bed.n_dims, RV_TRACE_MAX_ROWS, err));
    make_state(&bed);
    for (int i = 0; i < RV_TRACE_MAX_ROWS; i++)
        rv_head_gradient_capture(&bed.gradient, trace, bed.state, bed.logits, 1, 3);
    for (size_t d = 0; d < bed.n_dims; d++) {
        double probe = 0, gradient = 0;

        for (size_t i = 0; i < RV_TRACE_MAX_ROWS; i++) {
            probe += (double)rv_vec_from_bf16(trace->probes[i * bed.n_dims + d]) / RV_TRACE_MAX_ROWS;
            gradient += (double)rv_vec_from_bf16(trace->gradients[i * bed.n_dims + d]) / RV_TRACE_MAX_ROWS;
        }
        probes += probe * probe;
        gradients += gradient * gradient;
    }
    assert_true(probes < 0.02 * gradients);
    rv_trace_unref(trace);
    close_bed(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_captured_gradient_is_the_softmax_s),
        cmocka_unit_test(probes_average_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
