#include "learn/pattern_scan.h"

#include <math.h>
#include <string.h>

enum { STRIDE = 64 }; // numbers a round of the widest variant takes

size_t rv_pattern_scan_n_dims(const struct rv_whitening *whitening)
{
    return ((size_t)whitening->n_directions + STRIDE - 1) / STRIDE * STRIDE;
}

bool rv_pattern_scan_embed(const struct rv_whitening *whitening, const float *state, uint16_t *out)
{
    const struct rv_vec_ops *ops = rv_vec_best();
    float parts[RV_PATTERN_SCAN_MAX_DIMS] = {0};
    size_t n = (size_t)whitening->n_directions, n_dims = (size_t)whitening->n_dims;
    double length;

    for (size_t i = 0; i < n; i++)
        parts[i] = ops->dot(whitening->directions + i * n_dims, state, n_dims) /
                   sqrtf(whitening->variances[i] + whitening->ridge);
    length = rv_vec_norm(parts, n);
    if (!(length > 0) || !isfinite(length))
        return false;
    rv_vec_scale(parts, (float)(1 / length), n);
    for (size_t i = 0; i < rv_pattern_scan_n_dims(whitening); i++)
        out[i] = rv_vec_to_bf16(parts[i]);
    return true;
}

/* Into a short list that is in order; what is not better than its last has been left out before. */
static size_t insert(struct rv_pattern_scan_hit *hits, size_t n, size_t n_hits, float likeness, size_t index)
{
    size_t at = n < n_hits ? n++ : n - 1;

    for (; at > 0 && hits[at - 1].likeness <= likeness; at--)
        hits[at] = hits[at - 1];
    hits[at] = (struct rv_pattern_scan_hit){.likeness = likeness, .index = index};
    return n;
}

size_t rv_pattern_scan(const struct rv_vec_ops *ops, const uint16_t *rows, size_t n_rows, size_t n_dims,
                       const uint16_t *query, struct rv_pattern_scan_hit *hits, size_t n_hits)
{
    float wanted[RV_PATTERN_SCAN_MAX_DIMS];
    size_t n = 0;

    if (n_hits == 0)
        return 0;
    for (size_t i = 0; i < n_dims; i++)
        wanted[i] = rv_vec_from_bf16(query[i]);
    for (size_t i = 0; i < n_rows; i++) {
        float likeness = ops->dot_bf16(wanted, rows + i * n_dims, n_dims);

        if (n < n_hits || likeness >= hits[n - 1].likeness)
            n = insert(hits, n, n_hits, likeness, i);
    }
    return n;
}
