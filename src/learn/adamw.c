/* One pass over all numbers. The gradient's length is summed in doubles, in order: the same on every run. */
#include "learn/adamw.h"

#include "base/alloc.h"

#include <math.h>
#include <stdbool.h>

static const double PI = 3.14159265358979323846;
static const double CYCLE_RISE = 0.3; // share of a one-cycle run that climbs
static const double CYCLE_START = 0.04;

struct rv_adamw_config rv_adamw_config_default(void)
{
    return (struct rv_adamw_config){.step = 1e-3f,
                                    .beta1 = 0.9f,
                                    .beta2 = 0.99f,
                                    .eps = 1e-8f,
                                    .clip = 1.0f,
                                    .schedule = RV_ADAMW_COSINE,
                                    .n_warmup = 10,
                                    .n_steps = 1000};
}

static bool is_between(float x, float low, float high)
{
    return x >= low && x <= high && isfinite(x);
}

/* The name of the first field that makes no sense, or NULL. */
static const char *wrong_field(const struct rv_adamw_config *c)
{
    if (!is_between(c->step, 0.0f, 1e3f))
        return "step";
    if (!is_between(c->beta1, 0.0f, 0.99999f))
        return "beta1";
    if (!is_between(c->beta2, 0.0f, 0.99999f))
        return "beta2";
    if (!is_between(c->eps, 1e-30f, 1.0f))
        return "eps";
    if (!is_between(c->decay, 0.0f, 1e3f))
        return "decay";
    if (!is_between(c->clip, 0.0f, 1e9f))
        return "clip";
    if (c->schedule < RV_ADAMW_CONSTANT || c->schedule > RV_ADAMW_ONE_CYCLE)
        return "schedule";
    if (c->n_warmup < 0)
        return "n_warmup";
    return c->n_steps >= 1 ? NULL : "n_steps";
}

ruvllm_status rv_adamw_init(struct rv_adamw *out, const struct rv_adamw_config *config, size_t n,
                            struct ruvllm_error *err)
{
    const char *field = wrong_field(config);

    *out = (struct rv_adamw){.config = *config, .n = n};
    if (field)
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_CONFIG, "'%s' of the optimiser is out of range", field);
    out->mean = rv_calloc(n, sizeof(*out->mean));
    out->square = rv_calloc(n, sizeof(*out->square));
    if (!out->mean || !out->square) {
        rv_adamw_release(out);
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the optimiser's state");
    }
    return RUVLLM_OK;
}

void rv_adamw_release(struct rv_adamw *adamw)
{
    rv_free(adamw->mean);
    rv_free(adamw->square);
    *adamw = (struct rv_adamw){0};
}

static double cosine(double done)
{
    return 0.5 * (1 + cos(PI * fmin(1, done)));
}

float rv_adamw_step_size(const struct rv_adamw_config *config, int32_t step)
{
    const struct rv_adamw_config *c = config;
    double n = c->n_steps, share = 1;

    if (c->schedule == RV_ADAMW_ONE_CYCLE) {
        double rise = fmax(1, floor(CYCLE_RISE * n));

        if (step < rise)
            share = CYCLE_START + (1 - CYCLE_START) * (1 - cosine((step + 1) / rise));
        else
            share = cosine((step - rise) / fmax(1, n - rise));
        return (float)((double)c->step * share);
    }
    if (step < c->n_warmup)
        return (float)((double)c->step * (step + 1) / (c->n_warmup + 1));
    if (c->schedule == RV_ADAMW_COSINE)
        share = cosine((step - c->n_warmup) / fmax(1, n - c->n_warmup));
    return (float)((double)c->step * share);
}

bool rv_adamw_step(struct rv_adamw *adamw, float *values, const float *grads, double *length)
{
    const struct rv_adamw_config *c = &adamw->config;
    float size = rv_adamw_step_size(c, adamw->step), cut = 1.0f, by_mean, by_square;
    double square = 0;

    for (size_t i = 0; i < adamw->n; i++)
        square += (double)grads[i] * (double)grads[i];
    *length = sqrt(square);
    if (!isfinite(*length))
        return false;
    if (c->clip > 0.0f && *length > (double)c->clip)
        cut = (float)((double)c->clip / *length);
    adamw->step++;
    by_mean = (float)(1 / (1 - pow((double)c->beta1, adamw->step)));
    by_square = (float)(1 / (1 - pow((double)c->beta2, adamw->step)));
    for (size_t i = 0; i < adamw->n; i++) {
        float g = cut * grads[i];

        adamw->mean[i] += (1.0f - c->beta1) * (g - adamw->mean[i]);
        adamw->square[i] += (1.0f - c->beta2) * (g * g - adamw->square[i]);
        values[i] -=
            size * (adamw->mean[i] * by_mean / (sqrtf(adamw->square[i] * by_square) + c->eps) + c->decay * values[i]);
    }
    return true;
}
