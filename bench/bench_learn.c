/*
 * What learning from feedback gains and what it costs elsewhere, on a real model, by the code the engine learns with.
 *
 *     bench_learn MODEL ROW [option=value ...]
 *
 * Rows are numbered as in docs/learning.md. Every figure is printed as learn.<row>...=value.
 */
#include "ruvllm.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/rng.h"
#include "engine/model.h"
#include "kernels/vec.h"
#include "learn/head_adapter.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TOKENS = 512, TOP = 32 };

struct lab {
    struct ruvllm_model *model;
    const char *name;
    size_t n_vocab, n_dims;
    float *head; // n_vocab rows
    struct rv_whitening whitening;
    const struct rv_vec_ops *ops;
    struct rv_rng rng;
    float *logits;
    float *scratch;
};

/* An answer as the engine would have captured it. */
struct answer {
    int32_t tokens[MAX_TOKENS];
    int32_t n_prompt, n;
    uint16_t *states, *gradients; // of the generated tokens
    float logp[MAX_TOKENS], weights[MAX_TOKENS];
};

static void die(const char *what, const struct ruvllm_error *err)
{
    fprintf(stderr, "bench_learn: %s: %s\n", what, err ? err->message : "failed");
    exit(1);
}

static void *need(void *memory)
{
    if (!memory)
        die("memory", NULL);
    return memory;
}

/* ---- the model ------------------------------------------------------------------------------ */

static void take_rows(void *user, float *rows, int32_t n_rows)
{
    float **out = user;
    (void)n_rows;
    *out = rows;
}

/* The state after the next token. */
static void advance(struct lab *lab, int32_t token, float *state)
{
    struct ruvllm_error err;
    float *rows;

    if (rv_model_advance(lab->model, &token, 1, 1, RV_DECODER_HIDDEN, take_rows, &rows, &err))
        die("advance", &err);
    memcpy(state, rows, lab->n_dims * sizeof(float));
}

struct copy {
    float *to;
    size_t n_dims;
};

static void copy_rows(void *user, float *rows, int32_t n_rows)
{
    struct copy *copy = user;

    memcpy(copy->to, rows, (size_t)n_rows * copy->n_dims * sizeof(float));
    copy->to += (size_t)n_rows * copy->n_dims;
}

/* All states of a text. */
static void states_of(struct lab *lab, const int32_t *tokens, int32_t n, float *states)
{
    struct copy copy = {.to = states, .n_dims = lab->n_dims};
    struct ruvllm_error err;

    rv_model_rewind(lab->model, 0);
    if (rv_model_advance(lab->model, tokens, n, n, RV_DECODER_HIDDEN, copy_rows, &copy, &err))
        die("forward", &err);
}

/* Logits of a state under an adapter (NULL: none), then their logarithm of the sum of exponentials. */
static double read_head(struct lab *lab, const struct rv_head_adapter *adapter, const float *state, float *logits)
{
    float changed[8192], max = -INFINITY;
    double sum = 0;

    memcpy(changed, state, lab->n_dims * sizeof(float));
    if (adapter && adapter->n_pairs) {
        float change[8192];

        rv_head_adapter_apply(adapter, state, change);
        lab->ops->add(changed, change, 1.0f, lab->n_dims);
    }
    for (size_t v = 0; v < lab->n_vocab; v++) {
        logits[v] = lab->ops->dot(lab->head + v * lab->n_dims, changed, lab->n_dims);
        max = logits[v] > max ? logits[v] : max;
    }
    for (size_t v = 0; v < lab->n_vocab; v++)
        sum += exp((double)(logits[v] - max));
    return (double)max + log(sum);
}

static int32_t draw(struct lab *lab, const float *logits, double lse)
{
    double mark = rv_rng_uniform(&lab->rng), passed = 0;

    for (size_t v = 0; v < lab->n_vocab; v++) {
        passed += exp((double)logits[v] - lse);
        if (passed > mark)
            return (int32_t)v;
    }
    return (int32_t)lab->n_vocab - 1;
}

/* The gradient of -log p(token) by the head's input, from the TOP likeliest tokens, as it is captured. */
static void gradient_of(struct lab *lab, const float *logits, double lse, int32_t token, float *gradient)
{
    int32_t top[TOP];
    size_t n = 0;
    double mass = 0;

    for (size_t v = 0; v < lab->n_vocab; v++) {
        size_t at;

        if (n == TOP && logits[v] <= logits[top[TOP - 1]])
            continue;
        n = n < TOP ? n + 1 : n;
        for (at = n - 1; at > 0 && logits[top[at - 1]] < logits[v]; at--)
            top[at] = top[at - 1];
        top[at] = (int32_t)v;
    }
    for (size_t i = 0; i < n; i++)
        mass += exp((double)logits[top[i]] - lse);
    memset(gradient, 0, lab->n_dims * sizeof(float));
    for (size_t i = 0; i < n; i++)
        lab->ops->add(gradient, lab->head + (size_t)top[i] * lab->n_dims,
                      (float)(exp((double)logits[top[i]] - lse) / mass), lab->n_dims);
    lab->ops->add(gradient, lab->head + (size_t)token * lab->n_dims, -1.0f, lab->n_dims);
}

static struct answer *new_answer(const struct lab *lab)
{
    struct answer *a = need(calloc(1, sizeof(*a)));

    a->states = need(calloc(MAX_TOKENS * lab->n_dims, sizeof(*a->states)));
    a->gradients = need(calloc(MAX_TOKENS * lab->n_dims, sizeof(*a->gradients)));
    return a;
}

/* Goes on from the n_prompt tokens that are there, sampling at temperature 1. */
static void generate(struct lab *lab, const struct rv_head_adapter *adapter, struct answer *a, int32_t n, bool capture)
{
    float state[8192], gradient[8192];

    rv_model_rewind(lab->model, 0);
    for (int32_t i = 0; i < a->n_prompt; i++)
        advance(lab, a->tokens[i], state);
    a->n = 0;
    for (int32_t i = 0; i < n; i++) {
        double lse = read_head(lab, adapter, state, lab->logits);
        int32_t token = draw(lab, lab->logits, lse);

        a->logp[i] = (float)((double)lab->logits[token] - lse);
        if (capture) {
            gradient_of(lab, lab->logits, lse, token, gradient);
            for (size_t d = 0; d < lab->n_dims; d++) {
                a->states[(size_t)i * lab->n_dims + d] = rv_vec_to_bf16(state[d]);
                a->gradients[(size_t)i * lab->n_dims + d] = rv_vec_to_bf16(gradient[d]);
            }
        }
        a->tokens[a->n_prompt + i] = token;
        a->n++;
        if (i + 1 < n)
            advance(lab, token, state);
    }
}

/* Text the model itself writes, from its first token. */
static void write_text(struct lab *lab, int32_t *tokens, int32_t n)
{
    struct answer *a = new_answer(lab);

    a->tokens[0] = rv_vocab_bos(lab->model->vocab);
    a->n_prompt = 1;
    generate(lab, NULL, a, n - 1, false);
    memcpy(tokens, a->tokens, (size_t)n * sizeof(*tokens));
    free(a->states);
    free(a->gradients);
    free(a);
}

struct texts {
    int32_t n, length;
    int32_t *tokens;
    float *states;
};

static struct texts write_texts(struct lab *lab, int32_t n, int32_t length)
{
    struct texts t = {.n = n, .length = length};

    t.tokens = need(calloc((size_t)(n * length), sizeof(*t.tokens)));
    t.states = need(calloc((size_t)(n * length) * lab->n_dims, sizeof(*t.states)));
    for (int32_t i = 0; i < n; i++) {
        write_text(lab, t.tokens + i * length, length);
        states_of(lab, t.tokens + i * length, length, t.states + (size_t)(i * length) * lab->n_dims);
    }
    return t;
}

/* Mean negative log-likelihood of texts under an adapter. States do not depend on it. */
static double self_nll(struct lab *lab, const struct rv_head_adapter *adapter, const struct texts *t)
{
    double sum = 0;

    for (int32_t i = 0; i < t->n; i++) {
        for (int32_t j = 0; j + 1 < t->length; j++) {
            const float *state = t->states + (size_t)(i * t->length + j) * lab->n_dims;
            double lse = read_head(lab, adapter, state, lab->logits);

            sum += lse - (double)lab->logits[t->tokens[i * t->length + j + 1]];
        }
    }
    return sum / t->n / (t->length - 1);
}

static void open_lab(struct lab *lab, const char *path, uint64_t seed)
{
    struct ruvllm_model_params params = ruvllm_model_params_default();
    const struct rv_gguf_tensor *head;
    struct ruvllm_error err;
    struct texts t;
    ggml_to_float_t to_float;

    memset(lab, 0, sizeof(*lab));
    params.n_threads = 1;
    params.max_context = MAX_TOKENS;
    if (rv_model_open(&lab->model, path, &params, true, &err))
        die(path, &err);
    lab->name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    lab->n_vocab = (size_t)lab->model->hparams.n_vocab;
    lab->n_dims = (size_t)lab->model->hparams.n_embd;
    lab->ops = rv_vec_best();
    rv_rng_init(&lab->rng, seed);
    head = lab->model->manifest.tied ? lab->model->manifest.roots[RV_ROOT_EMBEDDING]
                                     : lab->model->manifest.roots[RV_ROOT_OUTPUT];
    lab->head = need(malloc(lab->n_vocab * lab->n_dims * sizeof(float)));
    to_float = ggml_get_type_traits(head->type)->to_float;
    for (size_t v = 0; v < lab->n_vocab; v++) {
        const char *row = (const char *)head->data + v * ggml_row_size(head->type, (int64_t)lab->n_dims);

        if (head->type == GGML_TYPE_F32)
            memcpy(lab->head + v * lab->n_dims, row, lab->n_dims * sizeof(float));
        else
            to_float(row, lab->head + v * lab->n_dims, (int64_t)lab->n_dims);
    }
    lab->logits = need(malloc(lab->n_vocab * sizeof(float)));
    lab->scratch = need(malloc(16 * lab->n_dims * sizeof(float)));
    t = write_texts(lab, 16, 128);
    if (rv_whitening_init(&lab->whitening, t.states, (size_t)(t.n * t.length), (int32_t)lab->n_dims, &err))
        die("whitening", &err);
    free(t.tokens);
    free(t.states);
}

/* ---- row 1: one vote ------------------------------------------------------------------------ */

static void learn_from(struct lab *lab, struct rv_head_adapter *adapter, struct answer *a, double kl, int32_t n_pairs)
{
    struct rv_head_rows rows = {.n = (size_t)a->n,
                                .states = a->states,
                                .gradients = a->gradients,
                                .probes = a->gradients,
                                .weights = a->weights};
    struct rv_head_step step = {.a = need(calloc(4 * lab->n_dims, 2)), .b = need(calloc(4 * lab->n_dims, 2))};

    rv_head_adapter_step(&step, &rows, &lab->whitening, kl, n_pairs, lab->scratch);
    rv_head_adapter_fold(adapter, &step, 1.0f, &lab->whitening, lab->scratch);
    free(step.a);
    free(step.b);
}

/* A vote against an answer lowers tokens by their odds: likely ones most, without bound for none. */
static void weigh(struct answer *a, double advantage)
{
    for (int32_t i = 0; i < a->n; i++) {
        double p = exp((double)a->logp[i]), odds = p / (1 - p + 1e-6);

        a->weights[i] = (float)(advantage > 0 ? advantage : advantage * (odds < 3 ? odds : 3));
    }
}

static double answer_logp(struct lab *lab, const struct rv_head_adapter *adapter, const struct answer *a)
{
    float *states = need(malloc(MAX_TOKENS * lab->n_dims * sizeof(float)));
    double sum = 0;

    states_of(lab, a->tokens, a->n_prompt + a->n - 1, states);
    for (int32_t i = 0; i < a->n; i++) {
        const float *state = states + (size_t)(a->n_prompt + i - 1) * lab->n_dims;
        double lse = read_head(lab, adapter, state, lab->logits);

        sum += (double)lab->logits[a->tokens[a->n_prompt + i]] - lse;
    }
    free(states);
    return sum / a->n;
}

static void one_vote(struct lab *lab, double kl, int32_t n_pairs, int32_t n_events)
{
    struct texts prompts = write_texts(lab, 40, 16), others = write_texts(lab, 12, 128);
    double base = self_nll(lab, NULL, &others);
    struct answer *a = new_answer(lab);
    struct rv_head_adapter adapter;
    struct ruvllm_error err;

    if (rv_head_adapter_init(&adapter, (int32_t)lab->n_dims, 2, &err))
        die("adapter", &err);
    for (int sign = 1; sign >= -1; sign -= 2) {
        double moved = 0, harm = 0, us = 0;
        int right = 0;

        for (int32_t e = 0; e < n_events; e++) {
            double before, after;
            int64_t start;

            memcpy(a->tokens, prompts.tokens + (e % 40) * 16, 16 * sizeof(int32_t));
            a->n_prompt = 16;
            generate(lab, NULL, a, 48, true);
            weigh(a, sign);
            rv_head_adapter_clear(&adapter);
            start = rv_clock_us();
            learn_from(lab, &adapter, a, kl, n_pairs);
            us += (double)(rv_clock_us() - start);
            before = answer_logp(lab, NULL, a);
            after = answer_logp(lab, &adapter, a);
            moved += after - before;
            right += (after - before) * sign > 0;
            harm += self_nll(lab, &adapter, &others) / base - 1;
        }
        printf("learn.1.%s.%s.dlogp=%+.4f\n", sign > 0 ? "up" : "down", lab->name, moved / n_events);
        printf("learn.1.%s.%s.sign=%.3f\n", sign > 0 ? "up" : "down", lab->name, (double)right / n_events);
        printf("learn.1.%s.%s.self=%+.5f\n", sign > 0 ? "up" : "down", lab->name, harm / n_events);
        printf("learn.1.%s.%s.us=%.0f\n", sign > 0 ? "up" : "down", lab->name, us / n_events);
    }
}

/* ---- row 2: a skill from votes alone -------------------------------------------------------- */

static bool rewarded(struct lab *lab, const struct answer *a, const char *word)
{
    struct ruvllm_error err;
    char *text;
    bool found;

    if (ruvllm_detokenize(lab->model, a->tokens + a->n_prompt, (size_t)a->n, false, &text, NULL, &err))
        die("detokenize", &err);
    found = strstr(text, word) != NULL;
    ruvllm_free(text);
    return found;
}

static double success(struct lab *lab, const struct rv_head_adapter *adapter, const struct texts *prompts,
                      const char *word, int n)
{
    struct answer *a = new_answer(lab);
    int found = 0;

    for (int i = 0; i < n; i++) {
        memcpy(a->tokens, prompts->tokens + (300 + i % 100) * prompts->length,
               (size_t)prompts->length * sizeof(int32_t));
        a->n_prompt = prompts->length;
        generate(lab, adapter, a, 48, false);
        found += rewarded(lab, a, word);
    }
    return (double)found / n;
}

/* One tick of the background loop: towards the base on some of its own states, by Newton's length times `share`. */
static void tick(struct lab *lab, struct rv_head_adapter *adapter, const struct texts *anchors, int32_t n, double share)
{
    struct answer *a = new_answer(lab);
    float *base = need(malloc(lab->n_vocab * sizeof(float))), *gradient = need(malloc(lab->n_dims * sizeof(float)));
    struct rv_head_step step = {.a = need(calloc(4 * lab->n_dims, 2)), .b = need(calloc(4 * lab->n_dims, 2))};
    struct rv_head_rows rows = {
        .n = (size_t)n, .states = a->states, .gradients = a->gradients, .probes = a->gradients, .weights = a->weights};
    const float **at = need(calloc((size_t)n, sizeof(*at)));
    double slope = 0, curve = 0, kl = 0;

    for (int32_t i = 0; i < n; i++) {
        double lse0, lse;

        at[i] = anchors->states + rv_rng_below(&lab->rng, (uint64_t)(anchors->n * anchors->length)) * lab->n_dims;
        lse0 = read_head(lab, NULL, at[i], base);
        lse = read_head(lab, adapter, at[i], lab->logits);
        memset(gradient, 0, lab->n_dims * sizeof(float));
        for (size_t v = 0; v < lab->n_vocab; v++) {
            double p0 = exp((double)base[v] - lse0), q = exp((double)lab->logits[v] - lse) - p0;

            kl += p0 * ((double)base[v] - lse0 - (double)lab->logits[v] + lse) / n;
            if (fabs(q) > 1e-6)
                lab->ops->add(gradient, lab->head + v * lab->n_dims, (float)q, lab->n_dims);
        }
        a->weights[i] = 1;
        for (size_t d = 0; d < lab->n_dims; d++) {
            a->states[(size_t)i * lab->n_dims + d] = rv_vec_to_bf16(at[i][d]);
            a->gradients[(size_t)i * lab->n_dims + d] = rv_vec_to_bf16(gradient[d]);
        }
    }
    if (kl > share)
        rv_head_adapter_step(&step, &rows, &lab->whitening, 1e-3, 2, lab->scratch);
    if (step.n_pairs) {
        struct rv_head_adapter alone;
        struct ruvllm_error err;

        if (rv_head_adapter_init(&alone, (int32_t)lab->n_dims, 2, &err))
            die("adapter", &err);
        rv_head_adapter_fold(&alone, &step, 1.0f, &lab->whitening, lab->scratch);
        for (int32_t i = 0; i < n; i++) {
            float change[8192];
            double lse = read_head(lab, adapter, at[i], lab->logits), mean = 0, square = 0, dot = 0;

            rv_head_adapter_apply(&alone, at[i], change);
            for (size_t v = 0; v < lab->n_vocab; v++) {
                double p = exp((double)lab->logits[v] - lse), x;

                if (p < 1e-7)
                    continue;
                x = (double)lab->ops->dot(lab->head + v * lab->n_dims, change, lab->n_dims);
                mean += p * x;
                square += p * x * x;
            }
            for (size_t d = 0; d < lab->n_dims; d++)
                dot += (double)rv_vec_from_bf16(a->gradients[(size_t)i * lab->n_dims + d]) * (double)change[d];
            slope += dot / n;
            curve += (square - mean * mean) / n;
        }
        if (slope < 0 && curve > 0)
            rv_head_adapter_fold(adapter, &step, (float)((1 - share / kl) * -slope / curve), &lab->whitening,
                                 lab->scratch);
        rv_head_adapter_release(&alone);
    }
    free(step.a), free(step.b), free(base), free(gradient), free(at), free(a->states), free(a->gradients), free(a);
}

static int tick_every = 0;
static double tick_share = 1;

static void skill(struct lab *lab, const char *word, double kl, int32_t rank, int32_t n_pairs, int32_t n_events,
                  double decay)
{
    struct texts prompts = write_texts(lab, 400, 12), others = write_texts(lab, 20, 128);
    struct texts anchors = write_texts(lab, 16, 128);
    double base_nll = self_nll(lab, NULL, &others), mean = 0.5, variance = 0.05;
    struct answer *a = new_answer(lab);
    struct rv_head_adapter adapter;
    struct ruvllm_error err;
    int n_good = 0;

    if (rv_head_adapter_init(&adapter, (int32_t)lab->n_dims, rank, &err))
        die("adapter", &err);
    printf("learn.2.base.%s=%.4f\n", lab->name, success(lab, NULL, &prompts, word, 600));
    for (int32_t e = 1; e <= n_events; e++) {
        double reward, advantage, deviation, rate = e < 50 ? 1.0 / (e + 1) : 0.02;

        memcpy(a->tokens, prompts.tokens + rv_rng_below(&lab->rng, 300) * 12, 12 * sizeof(int32_t));
        a->n_prompt = 12;
        generate(lab, &adapter, a, 48, true);
        reward = rewarded(lab, a, word);
        n_good += reward > 0;
        deviation = sqrt(variance) > 0.1 ? sqrt(variance) : 0.1;
        advantage = (reward - mean) / deviation;
        advantage = advantage > 2 ? 2 : advantage < -2 ? -2 : advantage;
        variance += rate * ((reward - mean) * (reward - mean) - variance);
        mean += rate * (reward - mean);
        for (int32_t i = 0; i < a->n; i++)
            a->weights[i] = (float)advantage;
        if (decay < 1)
            for (size_t i = 0; i < (size_t)adapter.n_pairs * lab->n_dims; i++)
                adapter.b[i] *= (float)decay;
        learn_from(lab, &adapter, a, kl * advantage * advantage / 4, n_pairs);
        if (tick_every && e % tick_every == 0)
            tick(lab, &adapter, &anchors, 64, tick_share);
        if (e % (n_events / 4) == 0)
            printf("learn.2.r%d.%s.after%d=%.4f self %+.4f good %d energy %.4f\n", rank, lab->name, e,
                   success(lab, &adapter, &prompts, word, 300), self_nll(lab, &adapter, &others) / base_nll - 1, n_good,
                   rv_head_adapter_energy(&adapter, &lab->whitening)),
                fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    struct lab lab;

    if (argc < 3)
        die("bench_learn MODEL ROW", NULL);
    open_lab(&lab, argv[1], 7);
    if (strcmp(argv[2], "1") == 0)
        one_vote(&lab, argc > 3 ? atof(argv[3]) : 0.05, argc > 4 ? atoi(argv[4]) : 1, argc > 5 ? atoi(argv[5]) : 40);
    tick_every = argc > 9 ? atoi(argv[9]) : 0;
    tick_share = argc > 10 ? atof(argv[10]) : 1;
    if (strcmp(argv[2], "2") == 0)
        skill(&lab, argc > 3 ? argv[3] : "happy", argc > 4 ? atof(argv[4]) : 0.01, argc > 5 ? atoi(argv[5]) : 8,
              argc > 6 ? atoi(argv[6]) : 1, argc > 7 ? atoi(argv[7]) : 1000, argc > 8 ? atof(argv[8]) : 1);
    return 0;
}
