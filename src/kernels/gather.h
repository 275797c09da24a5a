/* Rows of a table by number, as embeddings are looked up. */
#ifndef RV_KERNELS_GATHER_H
#define RV_KERNELS_GATHER_H

#include <stddef.h>
#include <stdint.h>

/* The first of n_ids that is not between 0 and n_rows - 1; n_ids when all are. */
size_t rv_gather_first_bad(const int32_t *ids, size_t n_ids, size_t n_rows);
/* out[i] = row ids[i] of a table with rows of dim floats. */
void rv_gather_rows(const float *table, size_t dim, const int32_t *ids, size_t n_ids, float *out);

#endif
