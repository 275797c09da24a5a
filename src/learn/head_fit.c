/*
 * Gradients: for a state h, h' = h + B (A h), and p' = softmax of W h' over the row's set of tokens, the gradient of
 * any loss by h' is W^T (dL/dlogits), by B it is that times (A h)^T, by A it is (B^T of it) h^T. Steps are Adam's, in
 * units in which a state's inner products with A are about 1 and the head's rows have length 1, so that the same
 * numbers serve every model.
 *
 * Tokens to lower are weighed by how much of their likelihood is left (arXiv 2503.14286, "tapered"): what became
 * unlikely is left alone.
 */
#include "learn/head_fit.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/rng.h"
#include "kernels/vec.h"

#include <math.h>
#include <string.h>

enum {
    ANCHORS_A_STEP = 32,
    ROWS_A_STEP = 32, // of either side
    LOOK_EVERY = 16,  // steps: how far the adapter moves each anchor
    MAX_PAIRS = RV_HEAD_ADAPTER_MAX_RANK + RV_HEAD_ADAPTER_STEP_RANK
};

static const double STEP = 0.04, MOMENTUM = 0.9, SPREAD = 0.99, LEAST_PULL = 0.02, MOST_PULL = 200;
static const float PLAIN_SHARE = 0.01f; // of a token's weight that does not depend on its credit

/* A row's tokens and what the head says about them: logarithms of probabilities. */
struct reading {
    const float *rows[RV_HEAD_FIT_SET];
    float base[RV_HEAD_FIT_SET]; // by the model as it came
    float now[RV_HEAD_FIT_SET];  // with the adapter
    float give[RV_HEAD_FIT_SET]; // of logits by inner products
    float many[RV_HEAD_FIT_SET]; // the logarithm of how many tokens it stands for
    size_t n;                    // the row's own token first, if it has one
};

struct vectors {
    float *state, *changed, *slope, *grad_a, *grad_b, *mean_a, *mean_b, *square_a, *square_b, *late_a, *late_b;
};

static struct vectors vectors_of(const struct rv_head_fit *f)
{
    size_t dims = f->table->head.n_dims, n = (size_t)f->rank * dims;
    float *m = f->memory;

    return (struct vectors){.state = m,
                            .changed = m + dims,
                            .slope = m + 2 * dims,
                            .grad_a = m + 3 * dims,
                            .grad_b = m + 3 * dims + n,
                            .mean_a = m + 3 * dims + 2 * n,
                            .mean_b = m + 3 * dims + 3 * n,
                            .square_a = m + 3 * dims + 4 * n,
                            .square_b = m + 3 * dims + 5 * n,
                            .late_a = m + 3 * dims + 6 * n,
                            .late_b = m + 3 * dims + 7 * n};
}

ruvllm_status rv_head_fit_init(struct rv_head_fit *out, struct rv_head_table *table,
                               const struct rv_whitening *whitening, const struct rv_anchors *anchors, int32_t rank,
                               struct ruvllm_error *err)
{
    size_t dims = table->head.n_dims;
    ruvllm_status rc;

    *out = (struct rv_head_fit){.table = table, .whitening = whitening, .anchors = anchors, .rank = rank, .pull = 1};
    out->memory = rv_calloc(3 * dims + 8 * (size_t)rank * dims, sizeof(*out->memory));
    out->marks = rv_calloc(table->head.n_vocab, sizeof(*out->marks));
    rc = out->memory && out->marks ? rv_credit_init(&out->credit, table->head.n_vocab, err)
                                   : rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate what fitting an adapter needs");
    if (!rc)
        rc = rv_anchor_draw_init(&out->draw, anchors, err);
    if (!rc)
        rc = rv_tail_draw_init(&out->tail, table->head.n_vocab, err);
    if (rc)
        rv_head_fit_release(out);
    return rc;
}

void rv_head_fit_release(struct rv_head_fit *fit)
{
    rv_free(fit->up.rows);
    rv_free(fit->up.sums);
    rv_free(fit->down.rows);
    rv_free(fit->down.sums);
    rv_credit_release(&fit->credit);
    rv_tail_draw_release(&fit->tail);
    rv_free(fit->memory);
    rv_free(fit->marks);
    rv_anchor_draw_release(&fit->draw);
    *fit = (struct rv_head_fit){0};
}

/* ---- what to learn from --------------------------------------------------------------------- */

static ruvllm_status reserve(struct rv_head_fit_side *side, size_t n, struct ruvllm_error *err)
{
    struct rv_head_fit_row *rows;
    float *sums;

    side->n = 0;
    if (n <= side->cap)
        return RUVLLM_OK;
    rows = rv_realloc_array(side->rows, n, sizeof(*rows));
    side->rows = rows ? rows : side->rows;
    sums = rows ? rv_realloc_array(side->sums, n, sizeof(*sums)) : NULL;
    side->sums = sums ? sums : side->sums;
    if (!sums)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %zu rows to learn from", n);
    side->cap = n;
    return RUVLLM_OK;
}

/*
 * An answer's rows, each by its share of the answer and by what its token has to do with the scores: with good ones
 * (sign 1), with bad ones (-1), or with either (0).
 */
static void put_rows(struct rv_head_fit_side *side, const struct rv_credit *credit, const struct rv_rehearsal_answer *a,
                     float share, float sign)
{
    for (int32_t i = 0; i < a->n_rows; i++) {
        float of = rv_credit_of(credit, a->tokens[i]);

        of = sign == 0 ? fabsf(of) : sign * of;

        side->rows[side->n++] =
            (struct rv_head_fit_row){.state = a->states + (size_t)i * (size_t)a->n_dims,
                                     .top = a->top + (size_t)i * RV_TRACE_TOP,
                                     .token = a->tokens[i],
                                     .logprob = a->logprobs[i],
                                     .scale = a->scale,
                                     .weight = share * (PLAIN_SHARE + (1 - PLAIN_SHARE) * (of > 0 ? of : 0))};
    }
}

/* Weights that sum to 1, and their running sums to draw by. */
static void close_side(struct rv_head_fit_side *side)
{
    double total = 0, passed = 0;

    for (size_t i = 0; i < side->n; i++)
        total += (double)side->rows[i].weight;
    if (!(total > 0))
        side->n = 0;
    side->strength = (float)total;
    for (size_t i = 0; i < side->n; i++) {
        side->rows[i].weight = (float)((double)side->rows[i].weight / total);
        passed += (double)side->rows[i].weight;
        side->sums[i] = (float)passed;
    }
}

/* How much all answers of a side count together, and how many that is: (sum w)^2 / sum w^2. */
struct tally {
    double sum, squares;
    size_t n_rows;
};

static double number_of(const struct tally *t)
{
    return t->squares > 0 ? t->sum * t->sum / t->squares : 0;
}

/* Tokens that stand for all that are in no set: a draw that nothing was fitted to. */
static void draw_tail(struct rv_head_fit *f)
{
    struct rv_rng rng;

    rv_rng_init(&rng, ++f->n_draws);
    rv_tail_draw(&f->tail, &rng);
}

static ruvllm_status note_side(struct rv_head_fit *f, const struct rv_head_fit_side *side, struct ruvllm_error *err)
{
    ruvllm_status rc = RUVLLM_OK;

    for (size_t i = 0; i < side->n && !rc; i++)
        rc = rv_tail_draw_note(&f->tail, side->rows[i].top, RV_TRACE_TOP, err);
    return rc;
}

/* What was likely on anchors and in answers. */
static ruvllm_status note_likely(struct rv_head_fit *f, struct ruvllm_error *err)
{
    ruvllm_status rc;

    rv_tail_draw_clear(&f->tail);
    rc = rv_tail_draw_note(&f->tail, f->anchors->top, (size_t)f->anchors->n * RV_TRACE_TOP, err);
    if (!rc)
        rc = note_side(f, &f->up, err);
    return rc ? rc : note_side(f, &f->down, err);
}

ruvllm_status rv_head_fit_load(struct rv_head_fit *fit, struct rv_rehearsal_answer *const *answers, size_t n,
                               double mean, bool held_out, struct ruvllm_error *err)
{
    struct tally up = {0}, down = {0};
    ruvllm_status rc;

    for (size_t i = 0; i < n; i++) {
        double off = answers[i]->score - mean;
        struct tally *t = off > 0 ? &up : &down;

        if (answers[i]->is_held_out != held_out)
            continue;
        t->sum += fabs(off);
        t->squares += off * off;
        t->n_rows += (size_t)answers[i]->n_rows;
    }
    rc = reserve(&fit->up, up.n_rows, err);
    if (!rc)
        rc = reserve(&fit->down, down.n_rows, err);
    if (rc)
        return rc;
    if (!held_out) {
        fit->n_good = number_of(&up) < number_of(&down) ? number_of(&up) : number_of(&down);
        rv_credit_clear(&fit->credit, number_of(&up), number_of(&down));
    }
    for (int pass = held_out; pass < 2; pass++) {
        for (size_t i = 0; i < n; i++) {
            double off = answers[i]->score - mean;
            const struct tally *t = off > 0 ? &up : &down;
            float share = t->sum > 0 ? (float)(fabs(off) / t->sum) : 0;

            if (answers[i]->is_held_out != held_out)
                continue;
            if (pass == 0)
                rv_credit_add(&fit->credit, answers[i]->tokens, answers[i]->n_rows, off > 0, share);
            else
                put_rows(off > 0 ? &fit->up : &fit->down, &fit->credit, answers[i], share / (float)answers[i]->n_rows,
                         held_out  ? 0.0f
                         : off > 0 ? 1.0f
                                   : -1.0f);
        }
    }
    close_side(&fit->up);
    close_side(&fit->down);
    if (!held_out) {
        fit->n_common = rv_credit_best(&fit->credit, fit->common, RV_HEAD_FIT_COMMON);
        rc = note_likely(fit, err);
        draw_tail(fit);
    }
    return rc;
}

/* ---- reading the head ----------------------------------------------------------------------- */

static void gather_one(struct rv_head_fit *f, struct reading *r, int32_t token)
{
    const float *row;

    if (token < 0 || (size_t)token >= f->table->head.n_vocab || f->marks[token] == f->mark)
        return;
    row = rv_head_table_row(f->table, token);
    if (!row)
        return;
    f->marks[token] = f->mark;
    r->rows[r->n++] = row;
}

static void gather(struct rv_head_fit *f, struct reading *r, const int32_t *top, int32_t token)
{
    r->n = 0;
    if (++f->mark == 0) { // the counter came round
        memset(f->marks, 0, f->table->head.n_vocab * sizeof(*f->marks));
        f->mark = 1;
    }
    gather_one(f, r, token);
    for (int i = 0; i < RV_TRACE_TOP; i++)
        gather_one(f, r, top[i]);
    for (size_t i = 0; i < f->n_common; i++)
        gather_one(f, r, f->common[i]);
    memset(r->many, 0, r->n * sizeof(*r->many));
    for (size_t i = 0; i < f->tail.n; i++) {
        size_t n = r->n;

        gather_one(f, r, f->tail.tokens[i]);
        if (r->n > n)
            r->many[n] = f->tail.many[i];
    }
}

/* Logarithms of the probabilities of the set's tokens for a state. */
static void read_head(const struct rv_head_fit *f, struct reading *r, const float *state, float scale, float *out)
{
    const struct rv_vec_ops *ops = rv_vec_best();
    float cap = f->table->head.cap, max = -INFINITY;
    double sum = 0, lse;

    for (size_t i = 0; i < r->n; i++) {
        float x = ops->dot(r->rows[i], state, f->table->head.n_dims);

        if (cap > 0)
            x = cap * tanhf(x / cap);
        r->give[i] = scale * (cap > 0 ? 1 - x * x / (cap * cap) : 1);
        out[i] = scale * x + r->many[i];
        max = out[i] > max ? out[i] : max;
    }
    for (size_t i = 0; i < r->n; i++)
        sum += (double)expf(out[i] - max);
    lse = (double)max + log(sum);
    for (size_t i = 0; i < r->n; i++)
        out[i] = (float)((double)out[i] - lse);
}

/* h, A h and h + B (A h). */
static void change_state(const struct rv_head_fit *f, const struct rv_head_adapter *x, const uint16_t *state,
                         const struct vectors *v, float *inner)
{
    const struct rv_vec_ops *ops = rv_vec_best();
    size_t dims = f->table->head.n_dims;

    for (size_t d = 0; d < dims; d++)
        v->changed[d] = v->state[d] = rv_vec_from_bf16(state[d]);
    for (int32_t k = 0; k < x->n_pairs; k++) {
        inner[k] = ops->dot(x->a + (size_t)k * dims, v->state, dims);
        ops->add(v->changed, x->b + (size_t)k * dims, inner[k], dims);
    }
}

static double divergence(const struct reading *r)
{
    double sum = 0;

    for (size_t i = 0; i < r->n; i++)
        sum += exp((double)r->base[i]) * (double)(r->base[i] - r->now[i]);
    return sum > 0 ? sum : 0;
}

static double read_anchor(struct rv_head_fit *f, const struct rv_head_adapter *x, size_t i, const struct vectors *v,
                          float *inner, struct reading *r)
{
    gather(f, r, f->anchors->top + i * RV_TRACE_TOP, -1);
    change_state(f, x, f->anchors->states + i * f->table->head.n_dims, v, inner);
    read_head(f, r, v->state, 1, r->base);
    read_head(f, r, v->changed, 1, r->now);
    return divergence(r);
}

double rv_head_fit_kl(struct rv_head_fit *fit, const struct rv_head_adapter *adapter)
{
    struct vectors v = vectors_of(fit);
    float inner[MAX_PAIRS];
    struct reading r;
    size_t n = rv_anchors_n_guards(fit->anchors);
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += read_anchor(fit, adapter, i * RV_ANCHORS_GUARD, &v, inner, &r);
    return n ? sum / (double)n : 0;
}

double rv_head_fit_entropy(struct rv_head_fit *fit)
{
    const struct rv_head_adapter none = {.n_dims = (int32_t)fit->table->head.n_dims};
    struct vectors v = vectors_of(fit);
    struct reading r;
    size_t n = rv_anchors_n_guards(fit->anchors);
    double sum = 0;

    for (size_t i = 0; i < n; i++) {
        read_anchor(fit, &none, i * RV_ANCHORS_GUARD, &v, NULL, &r);
        for (size_t j = 0; j < r.n; j++)
            sum -= exp((double)r.base[j]) * (double)(r.base[j] - r.many[j]);
    }
    return n ? sum / (double)n : 0;
}

/* The logarithm of a row's token's probability under an adapter. */
static double read_row(struct rv_head_fit *f, const struct rv_head_adapter *x, const struct rv_head_fit_row *row,
                       const struct vectors *v)
{
    float inner[MAX_PAIRS];
    struct reading r;

    gather(f, &r, row->top, row->token);
    change_state(f, x, row->state, v, inner);
    read_head(f, &r, v->changed, row->scale, r.now);
    return r.n ? (double)r.now[0] : 0;
}

/* What one side adds to a comparison: the mean difference by weights, and the square of its standard error. */
static void compare_side(struct rv_head_fit *f, const struct rv_head_fit_side *side,
                         const struct rv_head_adapter *before, const struct rv_head_adapter *after, double sign,
                         struct rv_head_fit_verdict *out)
{
    struct vectors v = vectors_of(f);
    size_t stride = side->n / RV_HEAD_FIT_COMPARED + 1;
    double total = 0, sum = 0, squares = 0, weights = 0;

    for (size_t i = 0; i < side->n; i += stride) {
        double w = (double)side->rows[i].weight;
        double better = sign * (read_row(f, after, &side->rows[i], &v) - read_row(f, before, &side->rows[i], &v));

        total += w;
        sum += w * better;
        squares += w * w * better * better;
        weights += w * w;
    }
    if (!(total > 0))
        return;
    sum /= total;
    out->better += sum;
    out->error += squares / (total * total) - sum * sum * weights / (total * total);
}

struct rv_head_fit_verdict rv_head_fit_compare(struct rv_head_fit *fit, const struct rv_head_adapter *before,
                                               const struct rv_head_adapter *after)
{
    struct rv_head_fit_verdict out = {0};

    compare_side(fit, &fit->up, before, after, 1, &out);
    compare_side(fit, &fit->down, before, after, -1, &out);
    out.error = out.error > 0 ? sqrt(out.error) : 0;
    return out;
}

static double side_gain(struct rv_head_fit *f, const struct rv_head_adapter *x, const struct rv_head_fit_side *side)
{
    struct vectors v = vectors_of(f);
    float inner[MAX_PAIRS];
    struct reading r;
    double sum = 0;

    for (size_t i = 0; i < side->n; i++) {
        const struct rv_head_fit_row *row = &side->rows[i];

        gather(f, &r, row->top, row->token);
        change_state(f, x, row->state, &v, inner);
        read_head(f, &r, v.state, row->scale, r.base);
        read_head(f, &r, v.changed, row->scale, r.now);
        if (r.n)
            sum += (double)row->weight * (double)(r.now[0] - r.base[0]);
    }
    return sum;
}

double rv_head_fit_gain(struct rv_head_fit *fit, const struct rv_head_adapter *adapter)
{
    return side_gain(fit, adapter, &fit->up) - side_gain(fit, adapter, &fit->down);
}

double rv_head_fit_project(struct rv_head_fit *fit, struct rv_head_adapter *adapter, double budget)
{
    size_t n = (size_t)adapter->n_pairs * fit->table->head.n_dims;
    double kl = rv_head_fit_kl(fit, adapter);

    for (int i = 0; i < 20 && kl > budget; i++) {
        rv_vec_scale(adapter->b, (float)(0.99 * sqrt(budget / kl)), n);
        kl = rv_head_fit_kl(fit, adapter);
    }
    return kl;
}

/* ---- fitting -------------------------------------------------------------------------------- */

/* The gradient by A and B of a loss whose gradient by the logits is `by_logit`. */
static void push_back(const struct rv_head_fit *f, const struct rv_head_adapter *x, const struct reading *r,
                      const float *by_logit, const struct vectors *v, const float *inner)
{
    const struct rv_vec_ops *ops = rv_vec_best();
    size_t dims = f->table->head.n_dims;

    memset(v->slope, 0, dims * sizeof(*v->slope));
    for (size_t i = 0; i < r->n; i++) {
        float c = by_logit[i] * r->give[i];

        if (fabsf(c) > 1e-9f)
            ops->add(v->slope, r->rows[i], c, dims);
    }
    for (int32_t k = 0; k < x->n_pairs; k++) {
        size_t at = (size_t)k * dims;

        ops->add(v->grad_b + at, v->slope, inner[k], dims);
        ops->add(v->grad_a + at, v->state, ops->dot(x->b + at, v->slope, dims), dims);
    }
}

/* Adds the gradient of pull x KL on some anchors; the mean KL of those that were drawn. */
static double pull_back(struct rv_head_fit *f, const struct rv_head_adapter *x, const struct vectors *v,
                        struct rv_rng *rng)
{
    float inner[RV_HEAD_ADAPTER_MAX_RANK], by_logit[RV_HEAD_FIT_SET];
    struct reading r;
    double sum = 0;

    for (int i = 0; i < ANCHORS_A_STEP; i++) {
        float weight;
        size_t at = rv_anchor_draw(&f->draw, rng, &weight);

        sum += (double)weight * read_anchor(f, x, at, v, inner, &r);
        for (size_t j = 0; j < r.n; j++)
            by_logit[j] = (float)f->pull * weight / ANCHORS_A_STEP * (expf(r.now[j]) - expf(r.base[j]));
        push_back(f, x, &r, by_logit, v, inner);
    }
    return sum / ANCHORS_A_STEP;
}

/* Adds the gradient of -log p of tokens to raise, or of log p of those to lower. */
static void push_side(struct rv_head_fit *f, const struct rv_head_adapter *x, const struct rv_head_fit_side *side,
                      float sign, const struct vectors *v, struct rv_rng *rng)
{
    float inner[RV_HEAD_ADAPTER_MAX_RANK], by_logit[RV_HEAD_FIT_SET];
    float share = side->strength / fmaxf(f->up.strength, f->down.strength);
    struct reading r;

    for (int i = 0; i < ROWS_A_STEP && side->n > 0; i++) {
        const struct rv_head_fit_row *row = &side->rows[rv_rng_pick(rng, side->sums, side->n)];
        float c = sign * share / ROWS_A_STEP;

        gather(f, &r, row->top, row->token);
        if (r.n == 0)
            continue;
        change_state(f, x, row->state, v, inner);
        read_head(f, &r, v->changed, row->scale, r.now);
        if (sign < 0 && r.now[0] < row->logprob)
            c *= expf(r.now[0] - row->logprob);
        for (size_t j = 0; j < r.n; j++)
            by_logit[j] = c * (expf(r.now[j]) - (j == 0 ? 1.0f : 0.0f));
        push_back(f, x, &r, by_logit, v, inner);
    }
}

/* Pairs whose A gives about 1 on anchors, as many as the rank allows; new ones change nothing yet. */
static void balance(struct rv_head_fit *f, struct rv_head_adapter *x, const struct vectors *v, struct rv_rng *rng)
{
    const struct rv_vec_ops *ops = rv_vec_best();
    size_t dims = f->table->head.n_dims, n = rv_anchors_n_guards(f->anchors);

    while (x->n_pairs < x->rank) {
        float *a = x->a + (size_t)x->n_pairs * dims;

        for (size_t d = 0; d < dims; d++)
            v->changed[d] = (float)rv_rng_normal(rng);
        rv_whitening_apply(f->whitening, v->changed, 1, a);
        memset(x->b + (size_t)x->n_pairs * dims, 0, dims * sizeof(*x->b));
        x->n_pairs++;
    }
    for (int32_t k = 0; k < x->n_pairs; k++) {
        float *a = x->a + (size_t)k * dims;
        double sum = 0, size;

        memcpy(v->changed, a, dims * sizeof(*a));
        for (size_t i = 0; i < n; i++) {
            double inner = (double)ops->dot_bf16(v->changed, f->anchors->states + i * RV_ANCHORS_GUARD * dims, dims);

            sum += inner * inner;
        }
        size = sqrt(sum / (double)n);
        if (!(size > 0))
            continue;
        rv_vec_scale(a, (float)(1 / size), dims);
        rv_vec_scale(x->b + (size_t)k * dims, (float)size, dims);
    }
}

static double state_length(const struct rv_head_fit *f)
{
    size_t n = (size_t)f->anchors->n * f->table->head.n_dims;
    double sum = 0;

    for (size_t i = 0; i < n; i++) {
        double x = (double)rv_vec_from_bf16(f->anchors->states[i]);

        sum += x * x;
    }
    return sqrt(sum / f->anchors->n);
}

static void adam(float *x, const float *grad, float *mean, float *square, size_t n, double step, int t)
{
    double c1 = 1 - pow(MOMENTUM, t), c2 = 1 - pow(SPREAD, t);

    for (size_t i = 0; i < n; i++) {
        double g = (double)grad[i];

        mean[i] = (float)(MOMENTUM * (double)mean[i] + (1 - MOMENTUM) * g);
        square[i] = (float)(SPREAD * (double)square[i] + (1 - SPREAD) * g * g);
        x[i] -= (float)(step * ((double)mean[i] / c1) / (sqrt((double)square[i] / c2) + 1e-12));
    }
}

/* The mean of the later steps' values: steps go to and fro by chance, and what they have in common is what was found.
 */
static void take_mean(struct rv_head_adapter *x, const struct vectors *v, size_t n, int n_late)
{
    if (n_late == 0)
        return;
    memcpy(x->a, v->late_a, n * sizeof(*x->a));
    memcpy(x->b, v->late_b, n * sizeof(*x->b));
    rv_vec_scale(x->a, 1 / (float)n_late, n);
    rv_vec_scale(x->b, 1 / (float)n_late, n);
}

void rv_head_fit_run(struct rv_head_fit *fit, struct rv_head_adapter *adapter, double budget, int n_steps,
                     int64_t until_us)
{
    struct vectors v = vectors_of(fit);
    size_t dims = fit->table->head.n_dims, n = (size_t)fit->rank * dims;
    double step_a, step_b, seen = budget;
    int n_late = 0;
    struct rv_rng rng;

    if (fit->anchors->n < 2 || (fit->up.n == 0 && fit->down.n == 0))
        return;
    rv_rng_init(&rng, (uint64_t)fit->up.n * 1000003 + fit->down.n);
    balance(fit, adapter, &v, &rng);
    memset(v.mean_a, 0, 6 * n * sizeof(float));
    rv_head_fit_kl(fit, adapter); // so that the table has rows to be measured
    step_a = STEP / sqrt((double)dims) / state_length(fit);
    step_b = STEP / sqrt((double)dims) / rv_head_table_length(fit->table);
    for (int t = 1; t <= n_steps && (t % 8 != 0 || rv_clock_us() < until_us); t++) {
        double rest = 1 - 0.9 * (t - 1) / n_steps, off; // steps become shorter towards the end

        if (t % LOOK_EVERY == 1)
            rv_anchor_draw_look(&fit->draw, adapter);
        rv_tail_draw(&fit->tail, &rng);
        memset(v.grad_a, 0, 2 * n * sizeof(float));
        seen += 0.1 * (pull_back(fit, adapter, &v, &rng) - seen);
        push_side(fit, adapter, &fit->up, 1, &v, &rng);
        push_side(fit, adapter, &fit->down, -1, &v, &rng);
        adam(adapter->a, v.grad_a, v.mean_a, v.square_a, n, step_a * rest, t);
        adam(adapter->b, v.grad_b, v.mean_b, v.square_b, n, step_b * rest, t);
        if (2 * t > n_steps) {
            rv_vec_best()->add(v.late_a, adapter->a, 1, n);
            rv_vec_best()->add(v.late_b, adapter->b, 1, n);
            n_late++;
        }
        off = seen / budget - 1;
        fit->pull *= exp(0.03 * (off > 1 ? 1 : off));
        fit->pull = fit->pull < LEAST_PULL ? LEAST_PULL : fit->pull > MOST_PULL ? MOST_PULL : fit->pull;
    }
    take_mean(adapter, &v, n, n_late);
    draw_tail(fit);
    rv_head_fit_project(fit, adapter, budget);
}

void rv_head_fit_each(struct rv_head_fit *fit, const struct rv_head_adapter *adapter, size_t n, rv_head_fit_fn fn,
                      void *user)
{
    struct vectors v = vectors_of(fit);
    size_t n_rows = fit->up.n + fit->down.n, stride = n_rows / (n + 1) + 1;
    float inner[MAX_PAIRS];
    struct reading r;

    for (size_t i = 0; i < n_rows; i += stride) {
        const struct rv_head_fit_row *row = i < fit->up.n ? &fit->up.rows[i] : &fit->down.rows[i - fit->up.n];

        gather(fit, &r, row->top, row->token);
        if (r.n == 0)
            continue;
        change_state(fit, adapter, row->state, &v, inner);
        read_head(fit, &r, v.changed, row->scale, r.now);
        memset(v.slope, 0, fit->table->head.n_dims * sizeof(*v.slope));
        for (size_t j = 0; j < r.n; j++)
            rv_vec_best()->add(v.slope, r.rows[j], r.give[j] * (expf(r.now[j]) - (j == 0 ? 1.0f : 0.0f)),
                               fit->table->head.n_dims);
        fn(user, v.state, v.slope);
    }
}
