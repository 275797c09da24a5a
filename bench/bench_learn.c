/*
 * What votes gain and what they cost elsewhere, on a real model, by the code the engine learns with. Always pairs: the
 * gain, and `self`, by how much the likelihood of text that the model itself wrote falls.
 *
 *     bench_learn MODEL 1 [events [seed]]              one vote on an answer of 48 tokens
 *     bench_learn MODEL 2 RANK [votes [seed [word]]]   a skill from votes alone: answers that contain the word
 *     bench_learn MODEL 16 RANK [votes [seed [word]]]  its control: the same votes, shuffled
 *     bench_learn MODEL 10 RANK [votes [seed [word]]]  taught as in row 2, then 200 votes all bad, all good, or by a
 * coin bench_learn MODEL 12                             microseconds of computing for a vote, by length of the answer
 *
 * Rows are numbered as in docs/internals/learn.md; figures are printed as learn.<row>.<what>.<model>=value.
 */
#include "ruvllm.h"

#include "base/clock.h"
#include "base/rng.h"
#include "engine/model.h"
#include "kernels/vec.h"
#include "learn/background.h"
#include "learn/head_gradient.h"
#include "learn/tenant_learner.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TOKENS = 512, MAX_DIMS = 8192, PROMPT = 12, ANSWER = 48, N_PROMPTS = 400, N_TAUGHT = 300 };

struct lab {
    struct ruvllm_model *model;
    const char *name;
    size_t n_vocab, n_dims;
    float *head; // n_vocab rows
    struct rv_head_gradient gradient;
    struct rv_whitening whitening;
    struct rv_anchors anchors;
    const struct rv_vec_ops *ops;
    struct rv_rng rng;
    float *logits;
};

/* Texts the model has written, with the states the head read. */
struct texts {
    int32_t n, length;
    int32_t *tokens;
    float *states;
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

/* States after n more tokens, of the last n_out. */
static void advance(struct lab *lab, const int32_t *tokens, int32_t n, int32_t n_out, float *states)
{
    struct copy copy = {.to = states, .n_dims = lab->n_dims};
    struct ruvllm_error err;

    if (rv_model_advance(lab->model, tokens, n, n_out, RV_DECODER_HIDDEN, copy_rows, &copy, &err))
        die("forward", &err);
}

/* Logits of a state under an adapter (NULL: none); the logarithm of the sum of their exponentials. */
static double read_head(struct lab *lab, const struct rv_head_adapter *adapter, const float *state, float *logits)
{
    float changed[MAX_DIMS], change[MAX_DIMS], max = -INFINITY;
    double sum = 0;

    memcpy(changed, state, lab->n_dims * sizeof(float));
    if (adapter && adapter->n_pairs) {
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

/* Goes on from n_prompt tokens with n more, at temperature 1; leaves a trace (NULL: none). */
static void generate(struct lab *lab, const struct rv_head_adapter *adapter, int32_t *tokens, int32_t n_prompt,
                     int32_t n, struct rv_trace *trace)
{
    float state[MAX_DIMS];

    rv_model_rewind(lab->model, 0);
    advance(lab, tokens, n_prompt, 1, state);
    if (trace)
        trace->n_rows = 0;
    for (int32_t i = 0; i < n; i++) {
        double lse = read_head(lab, adapter, state, lab->logits);

        tokens[n_prompt + i] = draw(lab, lab->logits, lse);
        if (trace)
            rv_head_gradient_capture(&lab->gradient, trace, state, lab->logits, 1, tokens[n_prompt + i]);
        if (i + 1 < n)
            advance(lab, &tokens[n_prompt + i], 1, 1, state);
    }
}

/* Rows to hold against: of texts that nobody is taught or tested with. */
static void make_anchors(struct lab *lab)
{
    struct ruvllm_error err;
    struct rv_trace *trace;

    if (rv_anchors_init(&lab->anchors, (int32_t)lab->n_dims, &err) ||
        rv_trace_new(&trace, 1, "", (int32_t)lab->n_dims, 127, &err))
        die("anchors", &err);
    for (int i = 0; i < 24; i++) {
        int32_t tokens[128] = {rv_vocab_bos(lab->model->vocab)};

        generate(lab, NULL, tokens, 1, 127, trace);
        rv_anchors_add(&lab->anchors, trace, 1);
    }
    rv_trace_unref(trace);
}

static struct texts write_texts(struct lab *lab, int32_t n, int32_t length)
{
    struct texts t = {.n = n, .length = length};

    t.tokens = need(calloc((size_t)(n * length), sizeof(*t.tokens)));
    t.states = need(calloc((size_t)(n * length) * lab->n_dims, sizeof(*t.states)));
    for (int32_t i = 0; i < n; i++) {
        int32_t *tokens = t.tokens + i * length;

        tokens[0] = rv_vocab_bos(lab->model->vocab);
        generate(lab, NULL, tokens, 1, length - 1, NULL);
        rv_model_rewind(lab->model, 0);
        advance(lab, tokens, length, length, t.states + (size_t)(i * length) * lab->n_dims);
    }
    return t;
}

static void free_texts(struct texts *t)
{
    free(t->tokens);
    free(t->states);
}

/* Mean negative log-likelihood of texts from token `from` on. States do not depend on the adapter. */
static double nll(struct lab *lab, const struct rv_head_adapter *adapter, const struct texts *t, int32_t from)
{
    double sum = 0;

    for (int32_t i = 0; i < t->n; i++) {
        for (int32_t j = from - 1; j + 1 < t->length; j++) {
            const float *state = t->states + (size_t)(i * t->length + j) * lab->n_dims;
            double lse = read_head(lab, adapter, state, lab->logits);

            sum += lse - (double)lab->logits[t->tokens[i * t->length + j + 1]];
        }
    }
    return sum / t->n / (t->length - from);
}

/* Mean KL divergence from the model as it came at every state of texts: what `self` is but for the luck of the draw. */
static double divergence(struct lab *lab, const struct rv_head_adapter *adapter, const struct texts *t)
{
    float *base = need(malloc(lab->n_vocab * sizeof(float)));
    double sum = 0;

    for (int32_t i = 0; i < t->n * t->length; i++) {
        const float *state = t->states + (size_t)i * lab->n_dims;
        double was = read_head(lab, NULL, state, base), is = read_head(lab, adapter, state, lab->logits);

        for (size_t v = 0; v < lab->n_vocab; v++) {
            double before = (double)base[v] - was;

            sum += exp(before) * (before - ((double)lab->logits[v] - is));
        }
    }
    free(base);
    return sum / t->n / t->length;
}

static void open_lab(struct lab *lab, const char *path)
{
    struct ruvllm_model_params params = ruvllm_model_params_default();
    struct ruvllm_error err;
    struct texts t;

    *lab = (struct lab){.ops = rv_vec_best()};
    params.n_threads = 1;
    params.max_context = MAX_TOKENS;
    if (rv_model_open(&lab->model, path, &params, true, &err))
        die(path, &err);
    lab->name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    lab->n_vocab = (size_t)lab->model->hparams.n_vocab;
    lab->n_dims = (size_t)lab->model->hparams.n_embd;
    rv_rng_init(&lab->rng, 7);
    if (rv_head_gradient_init(&lab->gradient, &lab->model->manifest, &lab->model->hparams, &err))
        die("head", &err);
    lab->head = need(malloc(lab->n_vocab * lab->n_dims * sizeof(float)));
    for (size_t v = 0; v < lab->n_vocab; v++)
        rv_head_gradient_row(&lab->gradient, (int32_t)v, lab->head + v * lab->n_dims);
    lab->logits = need(malloc(lab->n_vocab * sizeof(float)));
    t = write_texts(lab, 16, 128);
    if (rv_whitening_init(&lab->whitening, t.states, (size_t)(t.n * t.length), (int32_t)lab->n_dims, &err))
        die("whitening", &err);
    free_texts(&t);
    make_anchors(lab);
}

static struct rv_trace *new_trace(const struct lab *lab, int32_t n)
{
    struct rv_trace *trace;
    struct ruvllm_error err;

    if (rv_trace_new(&trace, 1, "", (int32_t)lab->n_dims, n, &err))
        die("trace", &err);
    return trace;
}

static struct rv_tenant_learner *new_learner(const struct lab *lab, int32_t rank)
{
    struct rv_tenant_learner *learner;
    struct ruvllm_error err;

    if (rv_tenant_learner_new(&learner, &lab->whitening, rank, &err))
        die("learner", &err);
    return learner;
}

/* A vote, remembered in the study (NULL: none). */
static void vote(struct rv_tenant_learner *learner, struct rv_study *study, const struct rv_trace *trace, double score)
{
    struct rv_tenant_vote made;
    struct ruvllm_error err;
    int64_t since;

    if (rv_tenant_learner_weigh(learner, trace, score, &made, &err) || rv_tenant_learner_apply(learner, &made, &err))
        die("vote", &err);
    if (study && learner->now.flood.n_paused == 0 &&
        rv_rehearsal_add(&study->rehearsal, trace, score, made.advantage, learner->now.generation, &err))
        die("rehearsal", &err);
    rv_tenant_learner_release_vote(&made);
    if (study && rv_flood_rings(&learner->now.flood, &since)) {
        if (rv_tenant_learner_pause(learner, since, &err))
            die("pause", &err);
        rv_rehearsal_drop_after(&study->rehearsal, since);
    }
}

/* What the background loop does between votes. */
static void work(struct rv_tick *tick, struct rv_tenant_learner *learner, struct rv_study *study)
{
    struct rv_rehearsal_answer *answers[2 * RV_REHEARSAL_MAX];
    size_t n = rv_rehearsal_take(&study->rehearsal, answers);
    struct rv_tick_result result;
    struct ruvllm_error err;

    rv_tick_begin(tick, &learner->now.adapter);
    if (rv_tick_run(tick, study, answers, n, learner->now.mean, INT64_MAX, &result, &err))
        die("tick", &err);
    if (getenv("TICKS"))
        fprintf(stderr, "%d kl %.4f -> %.4f better %+.4f +- %.4f pull %.2f n %zu good %.1f mean %.3f\n",
                (int)result.verdict, result.kl_before, result.kl, result.better, result.error, study->pull, n,
                tick->fit.n_good, learner->now.mean);
    if (result.verdict == RV_TICK_ACCEPTED || result.verdict == RV_TICK_HALVED) {
        if (rv_tenant_learner_tick(learner, &tick->made, learner->now.generation, result.kl, &err))
            die("tick", &err);
    }
    for (size_t i = 0; i < n; i++)
        rv_rehearsal_unref(answers[i]);
}

/* ---- row 1: one vote ------------------------------------------------------------------------ */

static void one_vote(struct lab *lab, int n_events, double score, const char *what)
{
    struct texts others = write_texts(lab, 12, 128);
    struct rv_trace *trace = new_trace(lab, ANSWER);
    double base = nll(lab, NULL, &others, 1), moved = 0, harm = 0;
    int n_right = 0;

    for (int e = 0; e < n_events; e++) {
        struct rv_tenant_learner *learner = new_learner(lab, 2);
        struct texts asked = write_texts(lab, 1, 16 + ANSWER);
        double gain;

        generate(lab, NULL, asked.tokens, 16, ANSWER, trace);
        rv_model_rewind(lab->model, 0);
        advance(lab, asked.tokens, asked.length, asked.length, asked.states);
        vote(learner, NULL, trace, score);
        gain = nll(lab, NULL, &asked, 16) - nll(lab, &learner->now.adapter, &asked, 16);
        moved += gain;
        n_right += (score > 0.5) == (gain > 0);
        harm += nll(lab, &learner->now.adapter, &others, 1) / base - 1;
        rv_tenant_learner_free(learner);
        free_texts(&asked);
    }
    printf("learn.1.%s.dlogp.%s=%+.4f\n", what, lab->name, moved / n_events);
    printf("learn.1.%s.right.%s=%.3f\n", what, lab->name, (double)n_right / n_events);
    printf("learn.1.%s.self.%s=%+.5f\n", what, lab->name, harm / n_events);
    rv_trace_unref(trace);
    free_texts(&others);
}

/* ---- row 2: a skill from votes alone -------------------------------------------------------- */

static bool has_word(struct lab *lab, const int32_t *tokens, const char *word)
{
    struct ruvllm_error err;
    char *text;
    bool found;

    if (ruvllm_detokenize(lab->model, tokens, ANSWER, false, &text, NULL, &err))
        die("detokenize", &err);
    found = strstr(text, word) != NULL;
    ruvllm_free(text);
    return found;
}

/* The share of answers to unseen prompts that contain the word. */
static double success(struct lab *lab, const struct rv_head_adapter *adapter, const struct texts *prompts,
                      const char *word, int n)
{
    int32_t tokens[PROMPT + ANSWER];
    int n_found = 0;

    for (int i = 0; i < n; i++) {
        memcpy(tokens, prompts->tokens + (N_TAUGHT + i % (N_PROMPTS - N_TAUGHT)) * PROMPT, PROMPT * sizeof(int32_t));
        generate(lab, adapter, tokens, PROMPT, ANSWER, NULL);
        n_found += has_word(lab, tokens + PROMPT, word);
    }
    return (double)n_found / n;
}

struct skill {
    const char *row; // of the table
    int32_t rank;
    int n_votes;
    uint64_t seed;
    const char *word;
};

/* Who votes. */
enum voter { HONEST, SHUFFLED, ALL_BAD, ALL_GOOD, COIN };

/* A tenant that is taught, with everything the engine would have for it. */
struct course {
    const struct skill *skill;
    struct texts prompts, others;
    struct rv_tenant_learner *learner;
    struct rv_trace *trace;
    struct rv_tick tick;
    struct rv_study *study;
    double base;   // of `others`, before
    double before; // share of answers with the word
    int n_votes;
};

static void open_course(struct lab *lab, const struct skill *s, struct course *c)
{
    struct rv_tick_config config = {.manifest = &lab->model->manifest,
                                    .hparams = &lab->model->hparams,
                                    .whitening = &lab->whitening,
                                    .anchors = &lab->anchors,
                                    .rank = s->rank,
                                    .budget = getenv("BUDGET") ? atof(getenv("BUDGET")) : RV_TICK_BUDGET};
    struct ruvllm_error err;

    *c = (struct course){.skill = s,
                         .prompts = write_texts(lab, N_PROMPTS, PROMPT),
                         .others = write_texts(lab, 20, 128),
                         .learner = new_learner(lab, s->rank),
                         .trace = new_trace(lab, ANSWER)};
    c->base = nll(lab, NULL, &c->others, 1);
    c->before = success(lab, NULL, &c->prompts, s->word, 600);
    if (rv_tick_init(&c->tick, &config, &err) || rv_study_new(&c->study, &lab->whitening, (uint64_t)1 << 28, &err))
        die("study", &err);
    rv_rng_init(&lab->rng, s->seed);
}

static void close_course(struct course *c)
{
    rv_tick_release(&c->tick);
    rv_study_unref(c->study);
    rv_tenant_learner_free(c->learner);
    rv_trace_unref(c->trace);
    free_texts(&c->prompts);
    free_texts(&c->others);
}

static double score_of(struct lab *lab, const struct course *c, enum voter voter, const int32_t *answer)
{
    switch (voter) {
    case HONEST:
        return has_word(lab, answer, c->skill->word);
    case SHUFFLED:
        return rv_rng_uniform(&lab->rng) < c->before;
    case COIN:
        return rv_rng_uniform(&lab->rng) < 0.5;
    default:
        return voter == ALL_GOOD;
    }
}

static void attend(struct lab *lab, struct course *c, enum voter voter, int n)
{
    int32_t tokens[PROMPT + ANSWER];

    for (int i = 0; i < n; i++) {
        memcpy(tokens, c->prompts.tokens + rv_rng_below(&lab->rng, N_TAUGHT) * PROMPT, PROMPT * sizeof(int32_t));
        generate(lab, &c->learner->now.adapter, tokens, PROMPT, ANSWER, c->trace);
        vote(c->learner, c->study, c->trace, score_of(lab, c, voter, tokens + PROMPT));
        if (++c->n_votes % RV_BACKGROUND_EVERY == 0)
            work(&c->tick, c->learner, c->study);
    }
}

static void print_course(struct lab *lab, struct course *c, const char *what)
{
    const struct skill *s = c->skill;
    const struct rv_head_adapter *adapter = &c->learner->now.adapter;

    printf("learn.%s.r%d%s.%s=%.4f\n", s->row, s->rank, what, lab->name,
           success(lab, adapter, &c->prompts, s->word, 600));
    printf("learn.%s.r%d%s.self.%s=%+.5f\n", s->row, s->rank, what, lab->name,
           nll(lab, adapter, &c->others, 1) / c->base - 1);
    printf("learn.%s.r%d%s.kl.%s=%.5f\n", s->row, s->rank, what, lab->name, divergence(lab, adapter, &c->others));
    printf("learn.%s.r%d%s.nll.%s=%.5f\n", s->row, s->rank, what, lab->name, c->base);
}

static void learn_skill(struct lab *lab, const struct skill *s, bool is_shuffled)
{
    struct course c;

    open_course(lab, s, &c);
    attend(lab, &c, is_shuffled ? SHUFFLED : HONEST, s->n_votes);
    print_course(lab, &c, "");
    printf("learn.%s.r%d.before.%s=%.4f\n", s->row, s->rank, lab->name, c.before);
    close_course(&c);
}

/* ---- row 10: hostile votes ------------------------------------------------------------------ */

static void resist(struct lab *lab, const struct skill *s)
{
    static const char *const names[] = {".bad", ".good", ".coin"};

    for (int i = 0; i < 3; i++) {
        struct course c;

        open_course(lab, s, &c);
        attend(lab, &c, HONEST, s->n_votes);
        if (i == 0)
            print_course(lab, &c, ".taught");
        attend(lab, &c, (enum voter)(ALL_BAD + i), 200);
        print_course(lab, &c, names[i]);
        close_course(&c);
    }
}

/* ---- row 12: the time of a vote ------------------------------------------------------------- */

static int by_size(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;

    return (a > b) - (a < b);
}

static void time_votes(struct lab *lab)
{
    static const int lengths[] = {64, 256};

    for (size_t l = 0; l < sizeof(lengths) / sizeof(lengths[0]); l++) {
        enum { N = 101 };
        struct rv_tenant_learner *learner = new_learner(lab, 2);
        struct rv_trace *trace = new_trace(lab, lengths[l]);
        int32_t tokens[MAX_TOKENS] = {rv_vocab_bos(lab->model->vocab)};
        double us[N];

        generate(lab, NULL, tokens, 1, lengths[l], trace);
        for (int i = 0; i < N; i++) {
            int64_t start = rv_clock_us();

            vote(learner, NULL, trace, i % 2);
            us[i] = (double)(rv_clock_us() - start);
        }
        qsort(us, N, sizeof(us[0]), by_size);
        printf("learn.12.us_p50.t%d.%s=%.0f\n", lengths[l], lab->name, us[N / 2]);
        printf("learn.12.us_p99.t%d.%s=%.0f\n", lengths[l], lab->name, us[N - 2]);
        rv_tenant_learner_free(learner);
        rv_trace_unref(trace);
    }
}

static int number(int argc, char **argv, int at, int otherwise)
{
    return argc > at ? (int)strtol(argv[at], NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
    const char *row = argc > 2 ? argv[2] : "";
    struct lab lab;

    if (argc < 3)
        die("usage: bench_learn MODEL ROW ...", NULL);
    open_lab(&lab, argv[1]);
    if (strcmp(row, "1") == 0) {
        int n = number(argc, argv, 3, 40);

        rv_rng_init(&lab.rng, (uint64_t)number(argc, argv, 4, 1));
        one_vote(&lab, n, 1, "up");
        one_vote(&lab, n, 0, "down");
    } else if (strcmp(row, "2") == 0 || strcmp(row, "10") == 0 || strcmp(row, "16") == 0) {
        const struct skill skill = {.row = row,
                                    .rank = number(argc, argv, 3, 8),
                                    .n_votes = number(argc, argv, 4, 1000),
                                    .seed = (uint64_t)number(argc, argv, 5, 1),
                                    .word = argc > 6 ? argv[6] : "happy"};

        if (strcmp(row, "10") == 0)
            resist(&lab, &skill);
        else
            learn_skill(&lab, &skill, strcmp(row, "16") == 0);
    } else if (strcmp(row, "12") == 0) {
        time_votes(&lab);
    } else {
        die("there is no such row", NULL);
    }
    return 0;
}
