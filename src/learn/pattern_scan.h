/*
 * Finding what is alike: states as short vectors of length 1, and the exact best of many by their cosine, one after the
 * other. A hundred thousand are looked through in about the time of a step, so there is no index.
 */
#ifndef RV_LEARN_PATTERN_SCAN_H
#define RV_LEARN_PATTERN_SCAN_H

#include "kernels/vec.h"
#include "learn/whitening.h"

enum { RV_PATTERN_SCAN_MAX_DIMS = RV_WHITENING_MAX_DIRECTIONS, RV_PATTERN_SCAN_MAX_HITS = 64 };

struct rv_pattern_scan_hit {
    float likeness; // cosine
    size_t index;
};

/* Numbers of a vector: as many as the whitening has directions, rounded up to what registers like. */
size_t rv_pattern_scan_n_dims(const struct rv_whitening *whitening);
/*
 * A state in whitened coordinates, so that what all states of a model share counts for little; of length 1, in 16 bits.
 * False for a state that has none.
 */
bool rv_pattern_scan_embed(const struct rv_whitening *whitening, const float *state, uint16_t *out);
/*
 * The up to n_hits rows (of n_dims, length 1) that are most like the query, the best first; of equals the later one.
 * Returns how many there are.
 */
size_t rv_pattern_scan(const struct rv_vec_ops *ops, const uint16_t *rows, size_t n_rows, size_t n_dims,
                       const uint16_t *query, struct rv_pattern_scan_hit *hits, size_t n_hits);

#endif
