/* Checking first leaves the result untouched when a number is wrong. */
#include "kernels/gather.h"

#include <string.h>

size_t rv_gather_first_bad(const int32_t *ids, size_t n_ids, size_t n_rows)
{
    size_t i = 0;

    while (i < n_ids && ids[i] >= 0 && (size_t)ids[i] < n_rows)
        i++;
    return i;
}

void rv_gather_rows(const float *table, size_t dim, const int32_t *ids, size_t n_ids, float *out)
{
    for (size_t i = 0; i < n_ids; i++)
        memcpy(out + i * dim, table + (size_t)ids[i] * dim, dim * sizeof(float));
}
