/*
 * The walk over the layers, and the memory for it.
 *
 * Sequences lie side by side in columns, each from a multiple of 32 on. Columns beyond a sequence's end hold zeros
 * that flow through the layers as any token would; nothing before them sees them, and they have no gradient.
 */
#include "learn/backward.h"

#include "base/alloc.h"
#include "learn/head_loss.h"
#include "learn/train_attention.h"
#include "learn/train_layer.h"

#include <math.h>
#include <string.h>

enum { STRIP = RV_TILE_GEMM_STRIP, MAX_COLUMNS = 8192 };

struct rv_backward {
    struct rv_backward_config config;
    struct rv_product product;
    struct rv_head_loss *head;
    struct rv_train_layer_context c;
    struct rv_train_span *spans; // max_columns / 32
    int32_t *pos;                // max_columns
    float *rope_tables[2];
    float *inputs;       // [n_layers + 1][n_embd][columns]: of the layers, and the last one's output
    float *states;       // n_kept + 1 states: of the last layers, and one for who comes by
    size_t state_floats; // of each
    int32_t n_kept;
    float *hidden; // [n_embd][columns]
    float *grad;   // [n_embd][columns]
    struct rv_head_loss_target *targets;
    struct rv_head_loss_value *values;
    int32_t *target_tokens; // which token of which sequence a target is
    int32_t *target_sequences;
    double *gains; // max_columns / 32: of the sequences that are judged as a whole, then their slopes
    uint64_t n_bytes;
};

/* ---- layout ------------------------------------------------------------------------------------ */

static int32_t round_up(int32_t n)
{
    return (n + STRIP - 1) / STRIP * STRIP;
}

static ruvllm_status check_sequence(const struct rv_backward *b, const int32_t *tokens, int32_t n,
                                    struct ruvllm_error *err)
{
    if (n < 1 || n > b->config.max_columns)
        return rv_fail(err, RUVLLM_TOO_LARGE, "a sequence of %d tokens is not between 1 and %d", n,
                       b->config.max_columns);
    for (int32_t i = 0; i < n; i++) {
        if (tokens[i] < 0 || tokens[i] >= b->config.hparams->n_vocab)
            return rv_fail(err, RUVLLM_INVALID, "token %d is not one of the vocabulary's %d", tokens[i],
                           b->config.hparams->n_vocab);
    }
    return RUVLLM_OK;
}

static ruvllm_status lay_out(struct rv_backward *b, const struct rv_backward_sequence *sequences, int32_t n_sequences,
                             struct ruvllm_error *err)
{
    struct rv_train_layer_context *c = &b->c;

    c->n_columns = 0;
    c->n_spans = 0;
    for (int32_t s = 0; s < n_sequences; s++) {
        int32_t n = sequences[s].n, width;
        ruvllm_status rc = check_sequence(b, sequences[s].tokens, n, err);

        if (rc)
            return rc;
        width = round_up(n);
        if (width > b->config.max_columns - c->n_columns)
            return rv_fail(err, RUVLLM_TOO_LARGE, "%d sequences do not fit %d tokens", n_sequences,
                           b->config.max_columns);
        for (int32_t i = 0; i < width; i++)
            b->pos[c->n_columns + i] = i;
        b->spans[c->n_spans++] = (struct rv_train_span){.first = c->n_columns, .n_columns = width};
        c->n_columns += width;
    }
    for (int i = 0; i < 2; i++)
        rv_train_rope_fill(&c->rope, i == 1, b->pos, c->n_columns, b->rope_tables[i]);
    return RUVLLM_OK;
}

/* ---- forward ----------------------------------------------------------------------------------- */

static float *input_of(const struct rv_backward *b, int32_t layer)
{
    return b->inputs + (size_t)layer * (size_t)b->config.hparams->n_embd * (size_t)b->c.n_columns;
}

static void embed(struct rv_backward *b, const struct rv_backward_sequence *sequences)
{
    const struct rv_hparams *h = b->config.hparams;
    const struct rv_gguf_tensor *t = b->config.manifest->roots[RV_ROOT_EMBEDDING];
    size_t n = (size_t)b->c.n_columns, n_embd = (size_t)h->n_embd, row_bytes = ggml_row_size(t->type, t->ne[0]);
    ggml_to_float_t decode = ggml_get_type_traits(t->type)->to_float;
    float scale = h->arch->scale_embedding ? sqrtf((float)h->n_embd) : 1.0f;
    float *x = b->inputs, *row = b->grad; // not in use yet

    memset(x, 0, n_embd * n * sizeof(*x));
    for (int32_t s = 0; s < b->c.n_spans; s++) {
        for (int32_t i = 0; i < sequences[s].n; i++) {
            const char *at = (const char *)t->data + (size_t)sequences[s].tokens[i] * row_bytes;

            if (t->type == GGML_TYPE_F32)
                memcpy(row, at, row_bytes);
            else
                decode(at, row, h->n_embd);
            for (size_t d = 0; d < n_embd; d++)
                x[d * n + (size_t)(b->spans[s].first + i)] = row[d] * scale;
        }
    }
}

/* The state of a layer: its own among the kept ones, or the one that all others share. */
static struct rv_train_layer_state state_of(const struct rv_backward *b, int32_t layer)
{
    int32_t from_last = b->config.hparams->n_layers - 1 - layer;
    size_t index = from_last < b->n_kept ? (size_t)from_last : (size_t)b->n_kept;
    struct rv_train_layer_state s = {0};

    (void)rv_train_layer_state_rows(b->config.hparams, b->config.manifest, b->states + index * b->state_floats,
                                    b->c.n_columns, &s);
    return s;
}

static void forward(struct rv_backward *b, const struct rv_backward_sequence *sequences)
{
    const struct rv_gguf_tensor *const *roots = b->config.manifest->roots;
    int32_t n_layers = b->config.hparams->n_layers;

    embed(b, sequences);
    for (int32_t layer = 0; layer < n_layers; layer++) {
        struct rv_train_layer_state s = state_of(b, layer);

        rv_train_layer_forward(&b->c, layer, input_of(b, layer), &s, input_of(b, layer + 1));
    }
    rv_train_layer_norm(&b->c, roots[RV_ROOT_OUTPUT_NORM], roots[RV_ROOT_OUTPUT_NORM_B], input_of(b, n_layers),
                        b->hidden);
}

/* ---- loss -------------------------------------------------------------------------------------- */

static int32_t collect_targets(struct rv_backward *b, const struct rv_backward_sequence *sequences, int32_t n_sequences)
{
    int32_t n = 0;

    for (int32_t s = 0; s < n_sequences; s++) {
        const struct rv_backward_sequence *q = &sequences[s];

        for (int32_t i = 1; i < q->n; i++) {
            float kl = q->kl_weights ? q->kl_weights[i] : 0.0f;
            struct rv_head_loss_target *t = &b->targets[n];

            if (q->weights[i] == 0.0f && kl == 0.0f && !q->nll)
                continue;
            *t = (struct rv_head_loss_target){.column = b->spans[s].first + i - 1,
                                              .label = q->tokens[i],
                                              .weight = q->weights[i],
                                              .kl_weight = kl,
                                              .is_drawn = q->has_draws,
                                              .seed = q->seed * 0x9E3779B97F4A7C15u + (uint64_t)i,
                                              .has_old = q->old_logp != NULL,
                                              .old_logp = q->old_logp ? q->old_logp[i] : 0.0f};
            if (kl != 0.0f)
                t->reference = q->reference + (size_t)(i - 1) * (size_t)b->config.hparams->n_embd;
            b->target_tokens[n] = i;
            b->target_sequences[n++] = s;
        }
    }
    return n;
}

/* The mean divergence a token, where one is asked for. */
static double mean_kl(const struct rv_backward *b, int32_t n_targets)
{
    double sum = 0;
    int32_t n = 0;

    for (int32_t i = 0; i < n_targets; i++) {
        if (b->targets[i].kl_weight != 0.0f) {
            sum += b->values[i].kl;
            n++;
        }
    }
    return n ? sum / n : 0;
}

/* From gains to slopes, of the sequence at `s` and, where it was chosen, of the one after it. */
static double judge_one(double *gains, const struct rv_backward_sequence *sequences, int32_t s, double point)
{
    const struct rv_preference *p = sequences[s].preference;
    double loss, slope, weight = (double)p->weight, n_tokens = 0;

    if (p->kind == RV_PREFERENCE_CHOSEN) {
        loss = rv_preference_dpo((double)p->beta, gains[s] - gains[s + 1], &slope);
        gains[s + 1] = -weight * slope;
    } else {
        for (int32_t i = 1; i < sequences[s].n; i++)
            n_tokens += (double)sequences[s].weights[i];
        loss = rv_preference_kto((double)p->beta, gains[s], point * n_tokens, p->kind == RV_PREFERENCE_GOOD, &slope);
    }
    gains[s] = weight * slope;
    return weight * loss;
}

/* Gives the targets of judged sequences the weights that their losses' slopes are; returns the sum of the losses. */
static double judge(struct rv_backward *b, const struct rv_backward_sequence *sequences, int32_t n_sequences,
                    int32_t n_targets)
{
    double point = mean_kl(b, n_targets), sum = 0;

    for (int32_t s = 0; s < n_sequences; s++)
        b->gains[s] = sequences[s].preference ? -sequences[s].preference->reference : 0;
    for (int32_t i = 0; i < n_targets; i++)
        b->gains[b->target_sequences[i]] -= (double)b->targets[i].weight * b->values[i].nll;
    for (int32_t s = 0; s < n_sequences; s++)
        if (sequences[s].preference && sequences[s].preference->kind != RV_PREFERENCE_REJECTED)
            sum += judge_one(b->gains, sequences, s, point);
    for (int32_t i = 0; i < n_targets; i++)
        if (sequences[b->target_sequences[i]].preference) /* a gain is a sum of -nll */
            b->targets[i].weight *= (float)-b->gains[b->target_sequences[i]];
    return sum;
}

static void report(const struct rv_backward *b, const struct rv_backward_sequence *sequences, int32_t n_targets,
                   double preference, struct rv_backward_result *out)
{
    *out = (struct rv_backward_result){.preference = preference};
    for (int32_t i = 0; i < n_targets; i++) {
        const struct rv_backward_sequence *q = &sequences[b->target_sequences[i]];
        const struct rv_head_loss_value *v = &b->values[i];
        int32_t token = b->target_tokens[i];

        out->nll += q->preference ? 0 : (double)b->targets[i].weight * v->nll;
        out->weight += q->preference ? 0 : (double)b->targets[i].weight;
        out->kl += (double)b->targets[i].kl_weight * v->kl;
        out->kl_weight += (double)b->targets[i].kl_weight;
        if (q->nll)
            q->nll[token] = (float)v->nll;
        if (q->kl && b->targets[i].kl_weight != 0.0f)
            q->kl[token] = (float)v->kl;
    }
    out->loss = out->nll + out->kl + preference;
}

/* ---- backward ---------------------------------------------------------------------------------- */

static void walk_back(struct rv_backward *b)
{
    const struct rv_gguf_tensor *norm = b->config.manifest->roots[RV_ROOT_OUTPUT_NORM];
    int32_t n_layers = b->config.hparams->n_layers;

    rv_train_layer_norm_backward(&b->c, norm, input_of(b, n_layers), b->grad, false, b->grad);
    for (int32_t layer = n_layers - 1; layer >= 0; layer--) {
        struct rv_train_layer_state s = state_of(b, layer);

        if (n_layers - 1 - layer >= b->n_kept)
            rv_train_layer_forward(&b->c, layer, input_of(b, layer), &s, input_of(b, layer + 1));
        rv_train_layer_backward(&b->c, layer, input_of(b, layer), &s, layer == 0, b->grad);
    }
}

static bool is_chosen(const struct rv_backward_sequence *q)
{
    return q->preference && q->preference->kind == RV_PREFERENCE_CHOSEN;
}

static bool is_rejected(const struct rv_backward_sequence *q)
{
    return q->preference && q->preference->kind == RV_PREFERENCE_REJECTED;
}

ruvllm_status rv_backward_run(struct rv_backward *backward, const struct rv_trainable *trainable,
                              const struct rv_backward_sequence *sequences, int32_t n_sequences, bool has_gradients,
                              struct rv_backward_result *result, struct ruvllm_error *err)
{
    struct rv_backward *b = backward;
    ruvllm_status rc = lay_out(b, sequences, n_sequences, err);
    int32_t n_targets;

    if (rc)
        return rc;
    for (int32_t s = 0; s < n_sequences; s++)
        RV_ASSERT(!is_chosen(&sequences[s]) || (s + 1 < n_sequences && is_rejected(&sequences[s + 1])));
    RV_ASSERT(trainable || !has_gradients);
    b->c.trainable = trainable;
    forward(b, sequences);
    n_targets = collect_targets(b, sequences, n_sequences);
    rv_head_loss_run(b->head, b->hidden, b->c.n_columns, b->targets, n_targets, has_gradients, b->values);
    report(b, sequences, n_targets, judge(b, sequences, n_sequences, n_targets), result);
    if (!isfinite(result->loss))
        return rv_fail(err, RUVLLM_BACKEND, "the loss is not a finite number");
    if (has_gradients) {
        rv_head_loss_gradient(b->head, b->targets, n_targets, b->values, b->c.n_columns, b->grad);
        walk_back(b);
    }
    return RUVLLM_OK;
}

static void copy_states(const struct rv_backward *b, const struct rv_backward_sequence *q, int32_t first)
{
    size_t n_embd = (size_t)b->config.hparams->n_embd;

    for (size_t i = 0; i < (size_t)q->n; i++)
        for (size_t d = 0; d < n_embd; d++)
            q->states[i * n_embd + d] = b->hidden[d * (size_t)b->c.n_columns + (size_t)first + i];
}

ruvllm_status rv_backward_states(struct rv_backward *backward, const struct rv_trainable *trainable,
                                 const struct rv_backward_sequence *sequences, int32_t n_sequences,
                                 struct ruvllm_error *err)
{
    struct rv_backward *b = backward;
    ruvllm_status rc = lay_out(b, sequences, n_sequences, err);

    if (rc)
        return rc;
    b->c.trainable = trainable;
    forward(b, sequences);
    for (int32_t s = 0; s < n_sequences; s++)
        copy_states(b, &sequences[s], b->spans[s].first);
    return RUVLLM_OK;
}

/* ---- life -------------------------------------------------------------------------------------- */

static int32_t largest(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

/* Every matrix that the layers will ask for, tried once. */
static ruvllm_status check_types(const struct rv_backward_config *config, struct ruvllm_error *err)
{
    struct rv_tile_gemm_matrix m;
    ruvllm_status rc = rv_product_matrix(&m, config->manifest->roots[RV_ROOT_EMBEDDING], err);

    for (int32_t layer = 0; layer < config->hparams->n_layers && !rc; layer++) {
        for (int part = 0; part < RV_N_PARTS && !rc; part++) {
            const struct rv_gguf_tensor *t = config->manifest->layers[layer][part];

            if (t && rv_manifest_part_is_matrix((enum rv_part)part))
                rc = rv_product_matrix(&m, t, err);
        }
    }
    return rc;
}

static float *take(struct rv_backward *b, size_t rows)
{
    size_t bytes = (size_t)b->config.max_columns * sizeof(float);

    b->n_bytes += (uint64_t)rows * bytes;
    return rv_calloc(rows, bytes);
}

static bool allocate(struct rv_backward *b)
{
    const struct rv_hparams *h = b->config.hparams;
    size_t columns = (size_t)b->config.max_columns, n_embd = (size_t)h->n_embd, n_ff = (size_t)h->n_ff;
    size_t n_q = (size_t)rv_hparams_n_q(h), n_qkv = n_q + 2 * (size_t)rv_hparams_n_kv(h);
    size_t n_threads = (size_t)rv_team_n_threads(b->config.team);
    size_t state_rows = rv_train_layer_state_rows(h, b->config.manifest, NULL, 0, NULL);
    uint64_t n_fit;

    b->state_floats = state_rows * columns;
    n_fit = b->config.max_state_bytes / ((uint64_t)b->state_floats * sizeof(float));
    b->n_kept = n_fit > (uint64_t)h->n_layers ? h->n_layers : (int32_t)n_fit;
    b->c.normed = take(b, n_embd);
    b->c.wide = take(b, n_ff);
    b->c.grad_wide = take(b, n_ff);
    b->c.grad_pair = take(b, 2 * n_ff > n_qkv ? 2 * n_ff : n_qkv);
    b->c.grad_narrow[0] = take(b, n_embd);
    b->c.grad_narrow[1] = take(b, n_q);
    b->inputs = take(b, ((size_t)h->n_layers + 1) * n_embd);
    b->states = take(b, ((size_t)b->n_kept + 1) * state_rows);
    b->hidden = take(b, n_embd);
    b->grad = take(b, n_embd);
    for (int i = 0; i < 2; i++)
        b->rope_tables[i] = take(b, (size_t)h->rope.n_dims);
    b->c.attention_scratch_each = rv_train_attention_scratch(h, b->config.max_columns);
    b->c.attention_scratch = rv_calloc(n_threads, b->c.attention_scratch_each * sizeof(float));
    b->n_bytes += n_threads * b->c.attention_scratch_each * sizeof(float);
    b->spans = rv_calloc(columns / STRIP, sizeof(*b->spans));
    b->pos = rv_calloc(columns, sizeof(*b->pos));
    b->targets = rv_calloc(columns, sizeof(*b->targets));
    b->values = rv_calloc(columns, sizeof(*b->values));
    b->target_tokens = rv_calloc(columns, sizeof(*b->target_tokens));
    b->target_sequences = rv_calloc(columns, sizeof(*b->target_sequences));
    b->gains = rv_calloc(columns / STRIP, sizeof(*b->gains));
    return b->c.normed && b->c.wide && b->c.grad_wide && b->c.grad_pair && b->c.grad_narrow[0] && b->c.grad_narrow[1] &&
           b->inputs && b->states && b->hidden && b->grad && b->rope_tables[0] && b->rope_tables[1] &&
           b->c.attention_scratch && b->spans && b->pos && b->targets && b->values && b->target_tokens &&
           b->target_sequences && b->gains;
}

/* As the decoder picks them. */
static const float *pick_rope_factors(const struct rv_backward_config *config)
{
    const struct rv_gguf_tensor *const *roots = config->manifest->roots;
    bool is_long = config->context > config->hparams->rope.original_context;
    const struct rv_gguf_tensor *t = roots[RV_ROOT_ROPE_FREQS];

    if (!t)
        t = roots[is_long ? RV_ROOT_ROPE_LONG : RV_ROOT_ROPE_SHORT];
    return t ? t->data : NULL;
}

static ruvllm_status open_parts(struct rv_backward *b, struct ruvllm_error *err)
{
    const struct rv_hparams *h = b->config.hparams;
    int32_t max_rows = largest(largest(h->n_embd, 2 * h->n_ff), rv_hparams_n_q(h) + 2 * rv_hparams_n_kv(h));
    ruvllm_status rc = check_types(&b->config, err);

    if (!rc)
        rc = rv_product_init(&b->product, b->config.team, max_rows, b->config.max_columns, err);
    if (!rc)
        rc = rv_head_loss_new(&b->head, &b->product, h, b->config.manifest, b->config.max_columns, err);
    if (!rc && !allocate(b))
        rc = rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %llu MiB for the activations of %d tokens",
                     (unsigned long long)(b->n_bytes >> 20), b->config.max_columns);
    if (rc)
        return rc;
    b->n_bytes += rv_head_loss_n_bytes(b->head) + (uint64_t)max_rows * (uint64_t)b->config.max_columns * sizeof(float);
    b->c.hparams = h;
    b->c.manifest = b->config.manifest;
    b->c.product = &b->product;
    b->c.rope = (struct rv_train_rope){.hparams = h, .factors = pick_rope_factors(&b->config)};
    b->c.rope_table[0] = b->rope_tables[0];
    b->c.rope_table[1] = b->rope_tables[1];
    b->c.spans = b->spans;
    return RUVLLM_OK;
}

ruvllm_status rv_backward_new(struct rv_backward **out, const struct rv_backward_config *config,
                              struct ruvllm_error *err)
{
    struct rv_backward *b;
    ruvllm_status rc;

    *out = NULL;
    if (config->max_columns < 1 || config->max_columns > MAX_COLUMNS)
        return rv_fail(err, RUVLLM_INVALID, "%d tokens at once are not between 1 and %d", config->max_columns,
                       MAX_COLUMNS);
    b = rv_calloc(1, sizeof(*b));
    if (!b)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the backward pass");
    b->config = *config;
    b->config.max_columns = round_up(config->max_columns);
    rc = open_parts(b, err);
    if (rc) {
        rv_backward_free(b);
        return rc;
    }
    *out = b;
    return RUVLLM_OK;
}

void rv_backward_free(struct rv_backward *backward)
{
    struct rv_backward *b = backward;

    if (!b)
        return;
    rv_head_loss_free(b->head);
    rv_product_release(&b->product);
    rv_free(b->c.normed);
    rv_free(b->c.wide);
    rv_free(b->c.grad_wide);
    rv_free(b->c.grad_pair);
    rv_free(b->c.grad_narrow[0]);
    rv_free(b->c.grad_narrow[1]);
    rv_free(b->c.attention_scratch);
    rv_free(b->inputs);
    rv_free(b->states);
    rv_free(b->hidden);
    rv_free(b->grad);
    rv_free(b->rope_tables[0]);
    rv_free(b->rope_tables[1]);
    rv_free(b->spans);
    rv_free(b->pos);
    rv_free(b->targets);
    rv_free(b->values);
    rv_free(b->target_tokens);
    rv_free(b->target_sequences);
    rv_free(b->gains);
    rv_free(b);
}

uint64_t rv_backward_n_bytes(const struct rv_backward *backward)
{
    return backward->n_bytes;
}
