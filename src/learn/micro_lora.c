#include "learn/micro_lora.h"

#include "base/alloc.h"
#include "base/rng.h"
#include "kernels/vec.h"
#include "learn/head_adapter.h"

#include <math.h>
#include <string.h>

enum { MAX_FEATURES = 65536, MAX_PENDING = 1 << 20 };

/* One module's adapter. All rows are n_dims long; what lies beyond the inputs or outputs is 0. */
struct module {
    struct rv_head_adapter adapter;
    struct rv_head_adapter anchor;
    struct rv_whitening whitening;
    uint16_t *states; // that wait, max_pending rows, as the next two
    uint16_t *gradients;
    float *weights;
    int32_t n_pending;
};

struct ruvllm_microlora {
    struct ruvllm_microlora_config config;
    int32_t n_dims;
    struct module *modules[RUVLLM_N_TARGETS]; // NULL: not a target
    int64_t n_judged;                         // whose qualities are in the next two
    double mean, variance;                    // running
    struct rv_rng rng;
    uint16_t *step_a, *step_b; // room for one step
    float *scratch;
    int64_t n_samples, n_updates;
    double last_kl;
};

/* Every direction as usual as the others; the ridge is 2 % of the mean variance, as everywhere. */
static struct rv_whitening plain_whitening(int32_t n_dims)
{
    return (struct rv_whitening){.n_dims = n_dims, .rest = 1, .ridge = 0.02f};
}

/* ---- judgements: as a tenant's votes are weighed, see tenant_learner.c ------------------------ */

static void forget_judgements(struct ruvllm_microlora *l)
{
    l->n_judged = 0;
    l->mean = 0.5;
    l->variance = 0.05;
}

static double advantage_of(const struct ruvllm_microlora *l, double quality)
{
    double deviation = sqrt(l->variance) > 0.1 ? sqrt(l->variance) : 0.1, a = (quality - l->mean) / deviation;

    return a > 2 ? 2 : a < -2 ? -2 : a;
}

static void count_judgement(struct ruvllm_microlora *l, double quality)
{
    double rate = l->n_judged < 49 ? 1.0 / (double)(l->n_judged + 2) : 0.02, off = quality - l->mean;

    l->variance += rate * (off * off - l->variance);
    l->mean += rate * off;
    l->n_judged++;
}

/* ---- life ----------------------------------------------------------------------------------- */

static void free_module(struct module *m)
{
    if (!m)
        return;
    rv_head_adapter_release(&m->adapter);
    rv_head_adapter_release(&m->anchor);
    rv_whitening_release(&m->whitening);
    rv_free(m->states);
    rv_free(m->gradients);
    rv_free(m->weights);
    rv_free(m);
}

static ruvllm_status new_module(struct module **out, const struct ruvllm_microlora *l, struct ruvllm_error *err)
{
    size_t n = (size_t)l->config.max_pending, n_dims = (size_t)l->n_dims;
    struct module *m = rv_calloc(1, sizeof(*m));
    ruvllm_status rc;

    *out = m;
    if (!m)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate an adapter");
    rc = rv_head_adapter_init(&m->adapter, l->n_dims, l->config.rank, err);
    if (!rc)
        rc = rv_head_adapter_init(&m->anchor, l->n_dims, l->config.rank, err);
    if (rc)
        return rc;
    m->whitening = plain_whitening(l->n_dims);
    m->states = rv_calloc(n * n_dims, sizeof(*m->states));
    m->gradients = rv_calloc(n * n_dims, sizeof(*m->gradients));
    m->weights = rv_calloc(n, sizeof(*m->weights));
    if (!m->states || !m->gradients || !m->weights)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate room for %zu inputs of %zu numbers", n, n_dims);
    return RUVLLM_OK;
}

static ruvllm_status check_config(const struct ruvllm_microlora_config *c, struct ruvllm_error *err)
{
    if (c->in_features < 1 || c->in_features > MAX_FEATURES || c->out_features < 1 || c->out_features > MAX_FEATURES)
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_SONA, "'in_features' and 'out_features' must be 1 to %d",
                            MAX_FEATURES);
    if (c->rank < 1 || c->rank > RV_HEAD_ADAPTER_MAX_RANK)
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_SONA, "'rank' must be 1 to %d, and is %d",
                            RV_HEAD_ADAPTER_MAX_RANK, (int)c->rank);
    if (!isfinite(c->alpha) || !(c->dropout >= 0 && c->dropout < 1))
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_SONA,
                            "'alpha' must be a number and 'dropout' one from 0 to below 1");
    if (c->target_modules == 0 || c->target_modules >> RUVLLM_N_TARGETS)
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_SONA,
                            "'target_modules' names no module, or one too many");
    if (c->max_pending < 1 || c->max_pending > MAX_PENDING)
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_SONA, "'max_pending' must be 1 to %d", MAX_PENDING);
    return RUVLLM_OK;
}

ruvllm_status rv_micro_lora_new(struct ruvllm_microlora **out, const struct ruvllm_microlora_config *config,
                                struct ruvllm_error *err)
{
    struct ruvllm_microlora *l;
    ruvllm_status rc = check_config(config, err);
    size_t n_dims;

    *out = NULL;
    if (rc)
        return rc;
    l = rv_calloc(1, sizeof(*l));
    if (!l)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate an adapter");
    l->config = *config;
    l->n_dims = config->in_features > config->out_features ? config->in_features : config->out_features;
    n_dims = (size_t)l->n_dims;
    forget_judgements(l);
    rv_rng_init(&l->rng, config->seed);
    l->step_a = rv_calloc(2 * RV_HEAD_ADAPTER_STEP_RANK * n_dims, sizeof(*l->step_a));
    l->scratch = rv_calloc(RV_HEAD_ADAPTER_SCRATCH * n_dims, sizeof(*l->scratch));
    if (!l->step_a || !l->scratch)
        rc = rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate an adapter of %zu numbers", n_dims);
    else
        l->step_b = l->step_a + RV_HEAD_ADAPTER_STEP_RANK * n_dims;
    for (int i = 0; i < RUVLLM_N_TARGETS && !rc; i++) {
        if (config->target_modules >> i & 1)
            rc = new_module(&l->modules[i], l, err);
    }
    if (rc) {
        rv_micro_lora_free(l);
        return rc;
    }
    *out = l;
    return RUVLLM_OK;
}

void rv_micro_lora_free(struct ruvllm_microlora *lora)
{
    if (!lora)
        return;
    for (int i = 0; i < RUVLLM_N_TARGETS; i++)
        free_module(lora->modules[i]);
    rv_free(lora->step_a);
    rv_free(lora->scratch);
    rv_free(lora);
}

int32_t rv_micro_lora_n_out(const struct ruvllm_microlora *lora)
{
    return lora->config.out_features;
}

ruvllm_status rv_micro_lora_check_module(const struct ruvllm_microlora *lora, ruvllm_target_module module,
                                         struct ruvllm_error *err)
{
    if ((unsigned)module >= RUVLLM_N_TARGETS || !lora->modules[module])
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_SONA,
                            "module %d is not among those that this adapter was made for", (int)module);
    return RUVLLM_OK;
}

/* ---- what comes in -------------------------------------------------------------------------- */

static bool all_finite(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(x[i]))
            return false;
    }
    return true;
}

ruvllm_status rv_micro_lora_calibrate(struct ruvllm_microlora *lora, ruvllm_target_module module, const float *inputs,
                                      size_t n, struct ruvllm_error *err)
{
    size_t n_in = (size_t)lora->config.in_features, n_dims = (size_t)lora->n_dims, size;
    ruvllm_status rc = rv_micro_lora_check_module(lora, module, err);
    struct rv_whitening fresh = {0};
    float *rows;

    if (rc)
        return rc;
    if (n == 0 || !rv_size_mul(n, n_dims, &size) || !all_finite(inputs, n * n_in))
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_SONA, "usual inputs must be there and finite");
    rows = rv_calloc(size, sizeof(*rows));
    if (!rows)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %zu inputs", n);
    for (size_t i = 0; i < n; i++)
        memcpy(rows + i * n_dims, inputs + i * n_in, n_in * sizeof(*rows));
    rc = rv_whitening_init(&fresh, rows, n, lora->n_dims, err);
    rv_free(rows);
    if (rc)
        return rc;
    rv_whitening_release(&lora->modules[module]->whitening);
    lora->modules[module]->whitening = fresh;
    return RUVLLM_OK;
}

/* How much a judgement weighs, and in which direction. INVALID for one that is none. */
static ruvllm_status judge(const struct ruvllm_microlora *l, const struct ruvllm_microlora_feedback *f, double *weight,
                           struct ruvllm_error *err)
{
    if (!(f->quality >= 0 && f->quality <= 1))
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_SONA, "a quality lies between 0 and 1, and is %g",
                            f->quality);
    if (f->has_reward && !(f->reward >= -2 && f->reward <= 2))
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_SONA, "a reward lies between -2 and 2, and is %g",
                            f->reward);
    *weight = f->has_reward ? f->reward : advantage_of(l, f->quality);
    return RUVLLM_OK;
}

ruvllm_status rv_micro_lora_adapt(struct ruvllm_microlora *lora, const float *input,
                                  const struct ruvllm_microlora_feedback *feedback, struct ruvllm_error *err)
{
    size_t n_in = (size_t)lora->config.in_features, n_out = (size_t)lora->config.out_features;
    ruvllm_status rc = rv_micro_lora_check_module(lora, feedback->module, err);
    float dropout = lora->config.dropout, *row = lora->scratch;
    struct module *m;
    double weight = 0;
    size_t at;

    if (rc)
        return rc;
    m = lora->modules[feedback->module];
    if (!feedback->gradient)
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_SONA,
                            "a quality says how much to learn but not what: feedback needs a gradient");
    rc = judge(lora, feedback, &weight, err);
    if (rc)
        return rc;
    if (!all_finite(input, n_in) || !all_finite(feedback->gradient, n_out))
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_SONA, "an input or its gradient is not finite");
    if (m->n_pending == lora->config.max_pending)
        return rv_fail_kind(err, RUVLLM_BUSY, RUVLLM_ERROR_SONA,
                            "%d inputs wait to be learned from already: apply the updates first", (int)m->n_pending);
    for (size_t i = 0; i < n_in; i++)
        row[i] = dropout > 0 && rv_rng_uniform(&lora->rng) < (double)dropout ? 0 : input[i] / (1 - dropout);
    at = (size_t)m->n_pending * (size_t)lora->n_dims; // beyond the inputs and outputs it is 0 for ever
    for (size_t i = 0; i < n_in; i++)
        m->states[at + i] = rv_vec_to_bf16(row[i]);
    for (size_t i = 0; i < n_out; i++)
        m->gradients[at + i] = rv_vec_to_bf16(feedback->gradient[i]);
    m->weights[m->n_pending++] = (float)weight;
    count_judgement(lora, feedback->quality);
    lora->n_samples++;
    return RUVLLM_OK;
}

/* ---- learning ------------------------------------------------------------------------------- */

static void update(struct ruvllm_microlora *l, struct module *m, double learning_rate)
{
    struct rv_head_rows rows = {.n = (size_t)m->n_pending,
                                .states = m->states,
                                .gradients = m->gradients,
                                .probes = m->gradients,
                                .weights = m->weights};
    struct rv_head_step step = {.a = l->step_a, .b = l->step_b};
    double square = 0;

    for (int32_t i = 0; i < m->n_pending; i++)
        square += (double)m->weights[i] * (double)m->weights[i] / m->n_pending;
    rv_head_adapter_step(&step, &rows, &m->whitening, learning_rate * square / 4, RV_HEAD_ADAPTER_STEP_RANK,
                         l->scratch);
    rv_head_adapter_fold(&m->adapter, &step, 1, &m->whitening, l->scratch);
    l->last_kl = step.kl;
    m->n_pending = 0;
}

ruvllm_status rv_micro_lora_apply(struct ruvllm_microlora *lora, float learning_rate, struct ruvllm_error *err)
{
    if (!(learning_rate > 0) || !isfinite(learning_rate))
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_SONA, "a learning rate is above 0, and is %g",
                            (double)learning_rate);
    for (int i = 0; i < RUVLLM_N_TARGETS; i++) {
        struct module *m = lora->modules[i];

        if (!m || m->n_pending == 0)
            continue;
        update(lora, m, (double)learning_rate);
        lora->n_updates++;
    }
    return RUVLLM_OK;
}

/* Adds the anchor's part (1 - keep) to an adapter whose outputs were multiplied with keep, two pairs at a time. */
static void add_anchor(struct ruvllm_microlora *l, struct module *m, const float *keep)
{
    size_t n_dims = (size_t)l->n_dims;

    for (int32_t first = 0; first < m->anchor.n_pairs; first += RV_HEAD_ADAPTER_STEP_RANK) {
        int32_t rest = m->anchor.n_pairs - first;
        struct rv_head_step step = {.a = l->step_a, .b = l->step_b};

        step.n_pairs = rest < RV_HEAD_ADAPTER_STEP_RANK ? rest : RV_HEAD_ADAPTER_STEP_RANK;
        for (size_t i = 0; i < (size_t)step.n_pairs * n_dims; i++) {
            size_t from = (size_t)first * n_dims + i;

            step.a[i] = rv_vec_to_bf16(m->anchor.a[from]);
            step.b[i] = rv_vec_to_bf16(m->anchor.b[from] * (1 - keep[i % n_dims]));
        }
        rv_head_adapter_fold(&m->adapter, &step, 1, &m->whitening, l->scratch);
    }
}

/*
 * With X the change since the anchor, G the gradient and C the inputs' covariance, the step minimises
 * -<G, X> + tr(X C X^T) / 2; EWC adds lambda / 2 of the sum over outputs i of f_i X_i C X_i^T. C drops out: every row
 * of the minimum is divided by 1 + lambda f_i. After "Overcoming catastrophic forgetting" (1612.00796), with the Fisher
 * information as a product of one part for outputs and one for inputs.
 */
ruvllm_status rv_micro_lora_pull(struct ruvllm_microlora *lora, ruvllm_target_module module, const float *fisher,
                                 float lambda, struct ruvllm_error *err)
{
    struct module *m = lora->modules[module];
    size_t n_out = (size_t)lora->config.out_features, n_dims = (size_t)lora->n_dims;
    double mean = 0;
    float *keep = rv_calloc(n_dims, sizeof(*keep));

    if (!keep)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %zu numbers", n_dims);
    for (size_t i = 0; i < n_out; i++)
        mean += (double)fisher[i] / (double)n_out;
    for (size_t i = 0; i < n_dims; i++)
        keep[i] = i < n_out && mean > 0 ? (float)(1 / (1 + (double)lambda * (double)fisher[i] / mean)) : 1;
    for (size_t i = 0; i < (size_t)m->adapter.n_pairs * n_dims; i++)
        m->adapter.b[i] *= keep[i % n_dims];
    add_anchor(lora, m, keep);
    rv_free(keep);
    return RUVLLM_OK;
}

void rv_micro_lora_anchor(struct ruvllm_microlora *lora)
{
    for (int i = 0; i < RUVLLM_N_TARGETS; i++) {
        struct module *m = lora->modules[i];
        size_t n = m ? (size_t)m->adapter.n_pairs * (size_t)lora->n_dims : 0;

        if (!m)
            continue;
        memcpy(m->anchor.a, m->adapter.a, n * sizeof(float));
        memcpy(m->anchor.b, m->adapter.b, n * sizeof(float));
        m->anchor.n_pairs = m->adapter.n_pairs;
    }
}

/* ---- what it does --------------------------------------------------------------------------- */

ruvllm_status rv_micro_lora_forward(const struct ruvllm_microlora *lora, ruvllm_target_module module,
                                    const float *input, float *out, struct ruvllm_error *err)
{
    const struct rv_vec_ops *ops = rv_vec_best();
    ruvllm_status rc = rv_micro_lora_check_module(lora, module, err);
    size_t n_in = (size_t)lora->config.in_features, n_out = (size_t)lora->config.out_features;
    float scale = lora->config.alpha / (float)lora->config.rank;
    const struct rv_head_adapter *a;

    if (rc)
        return rc;
    a = &lora->modules[module]->adapter;
    for (int32_t i = 0; i < a->n_pairs; i++) {
        size_t at = (size_t)i * (size_t)lora->n_dims;

        ops->add(out, a->b + at, scale * ops->dot(a->a + at, input, n_in), n_out);
    }
    return RUVLLM_OK;
}

void rv_micro_lora_reset(struct ruvllm_microlora *lora)
{
    for (int i = 0; i < RUVLLM_N_TARGETS; i++) {
        if (!lora->modules[i])
            continue;
        rv_head_adapter_clear(&lora->modules[i]->adapter);
        rv_head_adapter_clear(&lora->modules[i]->anchor);
        lora->modules[i]->n_pending = 0;
    }
    forget_judgements(lora);
    rv_rng_init(&lora->rng, lora->config.seed);
    lora->n_samples = lora->n_updates = 0;
    lora->last_kl = 0;
}

void rv_micro_lora_stats(const struct ruvllm_microlora *lora, struct ruvllm_microlora_stats *out)
{
    size_t n_dims = (size_t)lora->n_dims, pairs = (size_t)lora->config.rank + RV_HEAD_ADAPTER_STEP_RANK;

    out->n_samples = lora->n_samples;
    out->n_updates = lora->n_updates;
    out->mean_quality = lora->mean;
    out->last_kl = lora->last_kl;
    out->n_bytes = sizeof(*lora) + (RV_HEAD_ADAPTER_SCRATCH + RV_HEAD_ADAPTER_STEP_RANK) * n_dims * sizeof(float);
    for (int i = 0; i < RUVLLM_N_TARGETS; i++) {
        const struct module *m = lora->modules[i];

        if (!m)
            continue;
        out->n_pending += m->n_pending;
        out->n_bytes +=
            sizeof(*m) + 4 * pairs * n_dims * sizeof(float) +
            (size_t)lora->config.max_pending * (2 * n_dims * sizeof(uint16_t) + sizeof(float)) +
            (size_t)m->whitening.n_directions * (n_dims * (sizeof(float) + sizeof(uint16_t)) + sizeof(float));
    }
}
