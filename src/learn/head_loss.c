/*
 * With logits z = W h (bent by the cap where there is one), the gradient of -log p(y) is W'(p - e_y), that of the
 * divergence W'(p - p0), each entry times the slope of the cap. p needs the sum over all words, which is known only at
 * the end; so W' exp(z - max) is summed along with sum exp(z - max), both made smaller whenever the maximum rises, as
 * attention does it block by block (arXiv 2205.14135).
 */
#include "learn/head_loss.h"

#include "base/alloc.h"

#include <math.h>
#include <string.h>

enum { STRIP = RV_TILE_GEMM_STRIP, CHUNK = 512, CHUNK_ROWS = 64, GRAD_ROWS = 64, SIDES = 2 };

static const float MIN_RATIO = 0.8f, MAX_RATIO = 1.2f;

/* What is known of a column so far, for the model and for the reference. */
struct column {
    float max[SIDES];
    double sum[SIDES];
    double gap; // sum of exp(z0 - max0) (z0 - z)
    float label_logit;
    float label_slope;
    double best; // of a label that is drawn: the largest logit with its luck
    int32_t drawn;
};

/* The model's own side, and the reference's. */
enum side { OWN, REFERENCE };

struct rv_head_loss {
    struct rv_product *product;
    const struct rv_hparams *hparams;
    struct rv_tile_gemm_matrix w;
    const float *bias;
    int32_t max_columns;
    float *states[SIDES];  // [strips][n_embd][32]: the targets' columns one after the other
    float *logits[SIDES];  // [CHUNK][columns]
    float *weights[SIDES]; // [strips][CHUNK][32]: exp(z - max), times the slope
    float *sums[SIDES];    // [n_embd][columns]: W' of those, over all chunks
    float *row;            // n_embd
    struct column *columns;
};

struct work {
    struct rv_head_loss *l;
    struct rv_tile_gemm_matrix w; // rows of this chunk
    const float *bias;
    const struct rv_head_loss_target *targets;
    int32_t n_targets;
    int32_t n_columns[SIDES]; // whole strips: of the targets, and of those up to the last with a divergence
    int32_t first;            // the chunk's first word
    enum side side;
    bool has_grad;
};

/* ---- one chunk of words ----------------------------------------------------------------------- */

static void logits_part(void *user, int32_t part, int32_t thread)
{
    struct work *w = user;
    int32_t first = part * CHUNK_ROWS, end = first + CHUNK_ROWS < w->w.n_rows ? first + CHUNK_ROWS : w->w.n_rows;
    int32_t n_columns = w->n_columns[w->side];
    float *out = w->l->logits[w->side];

    for (int32_t i = first; i < end; i++)
        for (int32_t t = 0; t < n_columns; t++)
            out[(size_t)i * (size_t)n_columns + (size_t)t] = w->bias ? w->bias[i] : 0.0f;
    rv_tile_gemm_multiply(w->l->product->ops, &w->w, first, end, w->l->states[w->side], n_columns, out,
                          (size_t)n_columns, rv_product_scratch(w->l->product, thread));
}

/* Bends the logits of a strip; returns in `max` the largest of each column so far. */
static void bend(const struct work *w, enum side side, float *z, float max[STRIP])
{
    float cap = w->l->hparams->final_cap;

    for (int32_t i = 0; i < w->w.n_rows; i++) {
        float *row = z + (size_t)i * (size_t)w->n_columns[side];

        if (cap > 0.0f) {
            w->l->product->ops->tanh_scaled(row, 1.0f / cap, row, STRIP);
            for (int t = 0; t < STRIP; t++)
                row[t] *= cap;
        }
        for (int t = 0; t < STRIP; t++)
            max[t] = row[t] > max[t] ? row[t] : max[t];
    }
}

/* A larger maximum makes all that was summed smaller. */
static void raise(const struct work *w, enum side side, int32_t strip, const float max[STRIP])
{
    struct column *c = &w->l->columns[strip];
    float shrink[STRIP];
    bool any = false;

    for (int t = 0; t < STRIP; t++) {
        shrink[t] = max[t] > c[t].max[side] ? expf(c[t].max[side] - max[t]) : 1.0f;
        any = any || shrink[t] < 1.0f;
        c[t].sum[side] *= (double)shrink[t];
        if (side == REFERENCE)
            c[t].gap *= (double)shrink[t];
        c[t].max[side] = max[t];
    }
    for (int32_t i = 0; i < w->l->hparams->n_embd && any && w->has_grad; i++) {
        float *row = w->l->sums[side] + (size_t)i * (size_t)w->n_columns[side] + (size_t)strip;

        for (int t = 0; t < STRIP; t++)
            row[t] *= shrink[t];
    }
}

static void note_label(const struct work *w, struct column *c, float logit)
{
    float cap = w->l->hparams->final_cap;

    c->label_logit = logit;
    c->label_slope = cap > 0.0f ? 1.0f - logit / cap * (logit / cap) : 1.0f;
}

/* The luck of a word: a Gumbel number, of which the largest sum with a logit is a draw by the softmax. */
static double luck_of(uint64_t seed, int32_t word)
{
    uint64_t x = seed + (uint64_t)(uint32_t)word * 0x9E3779B97F4A7C15u;

    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u; // SplitMix64's mixing
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    x ^= x >> 31;
    return -log(-log(((double)(x >> 11) + 0.5) / 9007199254740992.0));
}

static void draw_label(const struct work *w, int32_t target, const float *z)
{
    struct column *c = &w->l->columns[target];

    for (int32_t i = 0; i < w->w.n_rows; i++) {
        float logit = z[(size_t)i * (size_t)w->n_columns[OWN]];
        double sum = (double)logit + luck_of(w->targets[target].seed, w->first + i);

        if (sum > c->best) {
            c->best = sum;
            c->drawn = w->first + i;
            note_label(w, c, logit);
        }
    }
}

static void note_labels(const struct work *w, int32_t strip, const float *z)
{
    for (int32_t t = 0; t < STRIP && strip + t < w->n_targets; t++) {
        int32_t i = w->targets[strip + t].label - w->first;

        if (w->targets[strip + t].is_drawn)
            draw_label(w, strip + t, z + t);
        else if (i >= 0 && i < w->w.n_rows)
            note_label(w, &w->l->columns[strip + t], z[(size_t)i * (size_t)w->n_columns[OWN] + (size_t)t]);
    }
}

/* Weights of a strip for one side: exp(z - max), summed, and times the slope where gradients are wanted. */
static void weigh(const struct work *w, enum side side, int32_t strip, const float *z, const float *own)
{
    struct column *c = &w->l->columns[strip];
    float *out = w->l->weights[side] + (size_t)strip * (size_t)w->w.n_rows;
    float cap = w->l->hparams->final_cap, max[STRIP];

    for (int t = 0; t < STRIP; t++)
        max[t] = c[t].max[side];
    for (int32_t i = 0; i < w->w.n_rows; i++) {
        const float *row = z + (size_t)i * (size_t)w->n_columns[side];
        const float *bent = own + (size_t)i * (size_t)w->n_columns[OWN];
        float *e = out + (size_t)i * STRIP;

        memcpy(e, row, STRIP * sizeof(*e));
        w->l->product->ops->exp_below(e, max, STRIP);
        for (int t = 0; t < STRIP; t++)
            c[t].sum[side] += (double)e[t];
        for (int t = 0; t < STRIP && side == REFERENCE; t++)
            c[t].gap += (double)(e[t] * (row[t] - bent[t]));
        for (int t = 0; t < STRIP && cap > 0.0f; t++)
            e[t] *= 1.0f - bent[t] / cap * (bent[t] / cap);
    }
}

static void strip_part(void *user, int32_t part, int32_t thread)
{
    struct work *w = user;
    int32_t strip = part * STRIP;
    int n_sides = strip < w->n_columns[REFERENCE] ? SIDES : 1;
    float *own = w->l->logits[OWN] + strip;

    (void)thread;
    for (int side = 0; side < n_sides; side++) {
        float *z = w->l->logits[side] + strip, max[STRIP];

        for (int t = 0; t < STRIP; t++)
            max[t] = w->l->columns[strip + t].max[side];
        bend(w, (enum side)side, z, max);
        raise(w, (enum side)side, strip, max);
    }
    note_labels(w, strip, own);
    for (int side = 0; side < n_sides; side++)
        weigh(w, (enum side)side, strip, w->l->logits[side] + strip, own);
}

static void grad_part(void *user, int32_t part, int32_t thread)
{
    struct work *w = user;
    int32_t unit = w->w.block > GRAD_ROWS ? w->w.block : GRAD_ROWS;
    int32_t first = part * unit, end = first + unit < w->w.n_cols ? first + unit : w->w.n_cols;

    rv_tile_gemm_multiply_transposed(w->l->product->ops, &w->w, first, end, w->l->weights[w->side],
                                     w->n_columns[w->side], w->l->sums[w->side], (size_t)w->n_columns[w->side],
                                     rv_product_scratch(w->l->product, thread));
}

static void run_chunk(struct work *w, int32_t first)
{
    struct rv_head_loss *l = w->l;
    struct rv_team *team = l->product->team;
    int n_sides = w->n_columns[REFERENCE] > 0 ? SIDES : 1;
    int32_t unit = l->w.block > GRAD_ROWS ? l->w.block : GRAD_ROWS;

    w->first = first;
    w->w = l->w;
    w->w.data = (const char *)l->w.data + (size_t)first * l->w.row_bytes;
    w->w.n_rows = l->w.n_rows - first < CHUNK ? l->w.n_rows - first : CHUNK;
    w->bias = l->bias ? l->bias + first : NULL;
    for (int side = 0; side < n_sides; side++) {
        w->side = (enum side)side;
        rv_team_run(team, (w->w.n_rows + CHUNK_ROWS - 1) / CHUNK_ROWS, logits_part, w);
    }
    rv_team_run(team, w->n_columns[OWN] / STRIP, strip_part, w);
    for (int side = 0; side < n_sides && w->has_grad; side++) {
        w->side = (enum side)side;
        rv_team_run(team, (l->w.n_cols + unit - 1) / unit, grad_part, w);
    }
}

/* ---- before and after ------------------------------------------------------------------------- */

static int32_t whole_strips(int32_t n)
{
    return (n + STRIP - 1) / STRIP * STRIP;
}

/* The states of the targets, strip by strip; what is beyond the last target is 0. */
static void gather(struct work *w, const float *hidden, int32_t n_columns)
{
    struct rv_head_loss *l = w->l;
    size_t n = (size_t)l->hparams->n_embd;

    for (int side = 0; side < SIDES; side++)
        memset(l->states[side], 0, n * (size_t)w->n_columns[side] * sizeof(float));
    for (int32_t i = 0; i < w->n_targets; i++) {
        const struct rv_head_loss_target *t = &w->targets[i];
        size_t at = (size_t)(i / STRIP) * n * STRIP + (size_t)(i % STRIP);

        for (size_t d = 0; d < n; d++) {
            l->states[OWN][at + d * STRIP] = hidden[d * (size_t)n_columns + (size_t)t->column];
            if (t->kl_weight != 0.0f)
                l->states[REFERENCE][at + d * STRIP] = t->reference[d];
        }
    }
    for (int32_t i = 0; i < w->n_columns[OWN]; i++)
        l->columns[i] = (struct column){.max = {-INFINITY, -INFINITY}, .best = -INFINITY};
    for (int side = 0; side < SIDES && w->has_grad; side++)
        memset(l->sums[side], 0, n * (size_t)w->n_columns[side] * sizeof(float));
}

/* The targets up to the last with a divergence. */
static int32_t n_referred(const struct rv_head_loss_target *targets, int32_t n_targets)
{
    while (n_targets > 0 && targets[n_targets - 1].kl_weight == 0.0f)
        n_targets--;
    return n_targets;
}

static float effective_weight(const struct rv_head_loss_target *t, double nll)
{
    double ratio = t->has_old ? exp(-nll - (double)t->old_logp) : 1;

    ratio = fmin(fmax(ratio, (double)MIN_RATIO), (double)MAX_RATIO);
    return t->has_old ? t->weight * (float)ratio : t->weight;
}

static void decode_row(const struct rv_head_loss *l, int32_t row, float *out)
{
    const char *at = (const char *)l->w.data + (size_t)row * l->w.row_bytes;

    if (l->w.decode)
        l->w.decode(at, out, l->w.n_cols);
    else
        memcpy(out, at, l->w.row_bytes);
}

static double log_sum_of(const struct column *c, enum side side)
{
    return (double)c->max[side] + log(c->sum[side]);
}

static struct rv_head_loss_value value_of(const struct rv_head_loss_target *t, const struct column *c)
{
    struct rv_head_loss_value v = {.nll = log_sum_of(c, OWN) - (double)c->label_logit,
                                   .label = t->is_drawn ? c->drawn : t->label};

    if (t->kl_weight != 0.0f)
        v.kl = c->gap / c->sum[REFERENCE] - log_sum_of(c, REFERENCE) + log_sum_of(c, OWN);
    return v;
}

void rv_head_loss_run(struct rv_head_loss *loss, const float *hidden, int32_t n_columns,
                      const struct rv_head_loss_target *targets, int32_t n_targets, bool has_grad,
                      struct rv_head_loss_value *values)
{
    struct work w = {.l = loss, .targets = targets, .n_targets = n_targets, .has_grad = has_grad};

    RV_ASSERT(n_targets <= loss->max_columns);
    if (n_targets == 0)
        return;
    w.n_columns[OWN] = whole_strips(n_targets);
    w.n_columns[REFERENCE] = whole_strips(n_referred(targets, n_targets));
    gather(&w, hidden, n_columns);
    for (int32_t first = 0; first < loss->w.n_rows; first += CHUNK)
        run_chunk(&w, first);
    for (int32_t i = 0; i < n_targets; i++)
        values[i] = value_of(&targets[i], &loss->columns[i]);
}

/* One target's column of the gradient. */
static void fill_column(struct rv_head_loss *l, const struct rv_head_loss_target *t, int32_t i,
                        const size_t widths[SIDES], const struct rv_head_loss_value *value, float *grad, size_t stride)
{
    const struct column *c = &l->columns[i];
    float weight = effective_weight(t, value->nll), reference = 0.0f;
    float own = (float)((double)(weight + t->kl_weight) / c->sum[OWN]);

    if (t->kl_weight != 0.0f)
        reference = (float)((double)t->kl_weight / c->sum[REFERENCE]);
    decode_row(l, value->label, l->row);
    for (size_t d = 0; d < (size_t)l->hparams->n_embd; d++) {
        float g = own * l->sums[OWN][d * widths[OWN] + (size_t)i] - weight * c->label_slope * l->row[d];

        if (t->kl_weight != 0.0f)
            g -= reference * l->sums[REFERENCE][d * widths[REFERENCE] + (size_t)i];
        grad[d * stride + (size_t)t->column] = g;
    }
}

void rv_head_loss_gradient(struct rv_head_loss *loss, const struct rv_head_loss_target *targets, int32_t n_targets,
                           const struct rv_head_loss_value *values, int32_t n_columns, float *grad)
{
    const size_t widths[SIDES] = {(size_t)whole_strips(n_targets),
                                  (size_t)whole_strips(n_referred(targets, n_targets))};

    memset(grad, 0, (size_t)loss->hparams->n_embd * (size_t)n_columns * sizeof(*grad));
    for (int32_t i = 0; i < n_targets; i++)
        fill_column(loss, &targets[i], i, widths, &values[i], grad, (size_t)n_columns);
}

/* ---- life -------------------------------------------------------------------------------------- */

ruvllm_status rv_head_loss_new(struct rv_head_loss **out, struct rv_product *product, const struct rv_hparams *hparams,
                               const struct rv_manifest *manifest, int32_t max_columns, struct ruvllm_error *err)
{
    struct rv_head_loss *l = rv_calloc(1, sizeof(*l));
    const struct rv_gguf_tensor *bias = manifest->roots[RV_ROOT_OUTPUT_B];
    size_t n = (size_t)max_columns * sizeof(float);
    bool ok = true;
    ruvllm_status rc;

    *out = NULL;
    if (!l)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the loss");
    rc = rv_product_matrix(&l->w, manifest->roots[RV_ROOT_OUTPUT], err);
    l->product = product;
    l->hparams = hparams;
    l->bias = bias ? bias->data : NULL;
    l->max_columns = max_columns;
    for (int side = 0; side < SIDES; side++) {
        l->states[side] = rv_calloc((size_t)hparams->n_embd, n);
        l->sums[side] = rv_calloc((size_t)hparams->n_embd, n);
        l->logits[side] = rv_calloc(CHUNK, n);
        l->weights[side] = rv_calloc(CHUNK, n);
        ok = ok && l->states[side] && l->sums[side] && l->logits[side] && l->weights[side];
    }
    l->row = rv_calloc((size_t)hparams->n_embd, sizeof(float));
    l->columns = rv_calloc((size_t)max_columns, sizeof(*l->columns));
    if (!rc && (!ok || !l->row || !l->columns))
        rc = rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the loss of %d tokens", max_columns);
    if (rc) {
        rv_head_loss_free(l);
        return rc;
    }
    *out = l;
    return RUVLLM_OK;
}

void rv_head_loss_free(struct rv_head_loss *loss)
{
    if (!loss)
        return;
    for (int side = 0; side < SIDES; side++) {
        rv_free(loss->states[side]);
        rv_free(loss->sums[side]);
        rv_free(loss->logits[side]);
        rv_free(loss->weights[side]);
    }
    rv_free(loss->row);
    rv_free(loss->columns);
    rv_free(loss);
}

uint64_t rv_head_loss_n_bytes(const struct rv_head_loss *loss)
{
    return SIDES * sizeof(float) * (uint64_t)loss->max_columns * (2 * (uint64_t)loss->hparams->n_embd + 2 * CHUNK);
}
