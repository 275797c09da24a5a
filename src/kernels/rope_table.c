/*
 * Pair i of d/2 turns by position * base^(-2 i / d). Linear scaling divides that angle by the factor. NTK-aware scaling
 * raises the base so that only the slowest pair is divided by the factor. YaRN (arXiv 2309.00071, section 3.2) leaves
 * pairs that turn often within the original context alone, divides those that never complete a turn, mixes between, and
 * multiplies everything by 0.1 ln(factor) + 1.
 */
#include "kernels/rope_table.h"

#include "base/alloc.h"

#include <math.h>

enum { MAX_POSITIONS = 1 << 24, MAX_DIM = 1 << 14 };

static const double PI = 3.14159265358979323846;

struct ruvllm_rope_table {
    int32_t dim;
    int32_t n_positions;
    float *values; // [n_positions][dim]: dim / 2 cosines, then as many sines
};

/* What a position's angles are made of. */
struct angles {
    double base;
    double low, high; // YaRN: pairs up to `low` keep their angle, from `high` on it is divided
    double scale;     // 1 / factor
    double magnitude;
    bool mixes;
};

static bool is_at_least(float x, float least)
{
    return x >= least && isfinite(x);
}

/* The name of the first field that makes no sense, or NULL. */
static const char *wrong_field(const struct ruvllm_rope_config *c)
{
    if (c->dim < 2 || c->dim > MAX_DIM || c->dim % 2)
        return "dim";
    if (c->max_positions < 1 || c->max_positions > MAX_POSITIONS)
        return "max_positions";
    if (!is_at_least(c->base, 1.0f) || c->base == 1.0f) // whose logarithm YaRN divides by
        return "base";
    if (c->scaling < RUVLLM_ROPE_NONE || c->scaling > RUVLLM_ROPE_YARN)
        return "scaling";
    if (c->scaling == RUVLLM_ROPE_NTK && c->dim == 2) // the slowest pair is the fastest
        return "dim";
    if (!is_at_least(c->factor, 1.0f))
        return "factor";
    if (c->scaling == RUVLLM_ROPE_YARN && c->original_context < 1)
        return "original_context";
    if (!is_at_least(c->yarn_attention, 0.0f))
        return "yarn_attention";
    if (!is_at_least(c->yarn_beta_fast, 0.0f))
        return "yarn_beta_fast";
    return is_at_least(c->yarn_beta_slow, 0.0f) ? NULL : "yarn_beta_slow";
}

/* The pair that turns n_turns times within the original context, as a real number. */
static double pair_turning(const struct ruvllm_rope_config *c, double n_turns)
{
    return c->dim * log(c->original_context / (n_turns * 2 * PI)) / (2 * log((double)c->base));
}

static struct angles angles_of(const struct ruvllm_rope_config *c)
{
    struct angles a = {.base = (double)c->base, .scale = 1, .magnitude = 1};
    double factor = (double)c->factor;

    switch (c->scaling) {
    case RUVLLM_ROPE_FROM_MODEL: // refused by wrong_field()
    case RUVLLM_ROPE_NONE:
        break;
    case RUVLLM_ROPE_LINEAR:
        a.scale = 1 / factor;
        break;
    case RUVLLM_ROPE_NTK:
        a.base *= pow(factor, c->dim / (c->dim - 2.0));
        break;
    case RUVLLM_ROPE_YARN:
        a.scale = 1 / factor;
        a.mixes = true;
        a.magnitude = (c->yarn_attention > 0.0f ? (double)c->yarn_attention : 1) * (1 + 0.1 * log(factor));
        a.low = floor(pair_turning(c, c->yarn_beta_fast > 0.0f ? (double)c->yarn_beta_fast : 32));
        a.high = ceil(pair_turning(c, c->yarn_beta_slow > 0.0f ? (double)c->yarn_beta_slow : 1));
        a.low = fmax(a.low, 0);
        a.high = fmin(a.high, c->dim - 1);
        break;
    }
    return a;
}

/* Turn of pair i from one position to the next. */
static double step_of(const struct angles *a, int32_t i, int32_t dim)
{
    double turn = pow(a->base, -2.0 * i / dim);
    double divided;

    if (!a->mixes)
        return turn * a->scale;
    divided = (i - a->low) / fmax(0.001, a->high - a->low);
    divided = fmin(1, fmax(0, divided));
    return turn * (a->scale * divided + (1 - divided));
}

static void fill(struct ruvllm_rope_table *t, const struct angles *a)
{
    int32_t half = t->dim / 2;

    for (int32_t i = 0; i < half; i++) {
        double step = step_of(a, i, t->dim);

        for (int32_t pos = 0; pos < t->n_positions; pos++) {
            float *row = t->values + (size_t)pos * (size_t)t->dim;

            row[i] = (float)(cos(pos * step) * a->magnitude);
            row[half + i] = (float)(sin(pos * step) * a->magnitude);
        }
    }
}

ruvllm_status rv_rope_table_new(struct ruvllm_rope_table **out, const struct ruvllm_rope_config *config,
                                struct ruvllm_error *err)
{
    struct ruvllm_rope_table *t;
    struct angles angles;
    const char *field = wrong_field(config);

    *out = NULL;
    if (field)
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_CONFIG, "'%s' is out of range", field);
    t = rv_calloc(1, sizeof(*t));
    if (t) {
        t->dim = config->dim;
        t->n_positions = config->max_positions;
        t->values = rv_calloc((size_t)t->n_positions, (size_t)t->dim * sizeof(*t->values));
    }
    if (!t || !t->values) {
        rv_rope_table_free(t);
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a table of %d positions", config->max_positions);
    }
    angles = angles_of(config);
    fill(t, &angles);
    *out = t;
    return RUVLLM_OK;
}

void rv_rope_table_free(struct ruvllm_rope_table *table)
{
    if (!table)
        return;
    rv_free(table->values);
    rv_free(table);
}

int32_t rv_rope_table_dim(const struct ruvllm_rope_table *table)
{
    return table->dim;
}

int32_t rv_rope_table_n_positions(const struct ruvllm_rope_table *table)
{
    return table->n_positions;
}

void rv_rope_table_rotate(const struct ruvllm_rope_table *table, int32_t position, ruvllm_rope_pairing pairing,
                          float *rows, int32_t n_heads, int32_t head_dim)
{
    int32_t half = table->dim / 2;
    int32_t apart = pairing == RUVLLM_ROPE_PAIRING_NEOX ? half : 1;
    int32_t stride = pairing == RUVLLM_ROPE_PAIRING_NEOX ? 1 : 2;
    const float *cosines = table->values + (size_t)position * (size_t)table->dim, *sines = cosines + half;

    for (int32_t head = 0; head < n_heads; head++) {
        float *row = rows + (size_t)head * (size_t)head_dim;

        for (int32_t i = 0; i < half; i++) {
            float a = row[i * stride], b = row[i * stride + apart];

            row[i * stride] = a * cosines[i] - b * sines[i];
            row[i * stride + apart] = a * sines[i] + b * cosines[i];
        }
    }
}
