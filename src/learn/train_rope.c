/*
 * Pair i turns by pos * base^(-2 i / n) / factor_i, times freq_scale; YaRN (arXiv 2309.00071) mixes that with the
 * unscaled angle by how often the pair turns within the original context, and adds 0.1 ln(1 / freq_scale) to the
 * magnitude.
 */
#include "learn/train_rope.h"

#include <math.h>

static const double TURN = 6.28318530717958647692;

/* The pair that turns n_turns times within the original context, as a real number. */
static double pair_turning(const struct rv_rope *r, double base, double n_turns)
{
    return r->n_dims * log(r->original_context / (n_turns * TURN)) / (2 * log(base));
}

/* How much of the unscaled angle pair i keeps. */
static double unscaled_share(const struct rv_rope *r, double base, int32_t i)
{
    double low = fmax(0, floor(pair_turning(r, base, (double)r->beta_fast)));
    double high = fmin(r->n_dims - 1, ceil(pair_turning(r, base, (double)r->beta_slow)));
    double at = (i - low) / fmax(0.001, high - low);

    return (1 - fmin(1, fmax(0, at))) * (double)r->ext_factor;
}

void rv_train_rope_fill(const struct rv_train_rope *rope, bool windowed, const int32_t *pos, int32_t n_columns,
                        float *table)
{
    const struct rv_rope *r = &rope->hparams->rope;
    double base = (double)(windowed ? r->freq_base_window : r->freq_base);
    double scale = (double)(windowed ? r->freq_scale_window : r->freq_scale);
    double magnitude = (double)r->attn_factor;

    if (r->ext_factor != 0.0f)
        magnitude *= 1 + 0.1 * log(1 / scale);
    for (int32_t i = 0; i < r->n_dims / 2; i++) {
        double share = r->ext_factor != 0.0f ? unscaled_share(r, base, i) : 0;
        double turn = pow(base, -2.0 * i / r->n_dims) / (rope->factors ? (double)rope->factors[i] : 1);
        double step = turn * (scale * (1 - share) + share);
        float *cosines = table + (size_t)i * 2 * (size_t)n_columns, *sines = cosines + n_columns;

        for (int32_t t = 0; t < n_columns; t++) {
            cosines[t] = (float)(cos(pos[t] * step) * magnitude);
            sines[t] = (float)(sin(pos[t] * step) * magnitude);
        }
    }
}

void rv_train_rope_apply(const struct rv_train_rope *rope, const float *table, int32_t n_columns, int32_t n_heads,
                         bool back, float *x)
{
    const struct rv_hparams *h = rope->hparams;
    int32_t half = h->rope.n_dims / 2;
    size_t n = (size_t)n_columns;
    size_t apart = h->arch->rope_neox ? (size_t)half : 1, step = h->arch->rope_neox ? 1 : 2;
    float sign = back ? -1.0f : 1.0f;

    for (int32_t head = 0; head < n_heads; head++) {
        float *rows = x + (size_t)head * (size_t)h->head_dim * n;

        for (int32_t i = 0; i < half; i++) {
            float *a = rows + (size_t)i * step * n, *b = a + apart * n;
            const float *cosines = table + (size_t)i * 2 * n, *sines = cosines + n;

            for (size_t t = 0; t < n; t++) {
                float p = a[t], q = b[t], s = sign * sines[t];

                a[t] = p * cosines[t] - q * s;
                b[t] = p * s + q * cosines[t];
            }
        }
    }
}
