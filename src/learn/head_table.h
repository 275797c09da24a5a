/*
 * Rows of the head in 32 bits, decoded from the model's file when they are first asked for and kept. Of a large
 * vocabulary few rows are ever needed: those of tokens that were likely somewhere.
 *
 * One thread at a time.
 */
#ifndef RV_LEARN_HEAD_TABLE_H
#define RV_LEARN_HEAD_TABLE_H

#include "learn/head_gradient.h"

struct rv_head_table {
    struct rv_head_gradient head;
    int32_t *slots; // of each token: its row's number, or -1
    float **chunks;
    size_t n_rows; // decoded
    size_t max_rows;
};

/* `manifest` outlives it. It grows to about max_bytes, at least to 256 rows. */
RV_CHECKED ruvllm_status rv_head_table_init(struct rv_head_table *out, const struct rv_manifest *manifest,
                                            const struct rv_hparams *hparams, size_t max_bytes,
                                            struct ruvllm_error *err);
void rv_head_table_release(struct rv_head_table *table);
/* Forgets all rows when fewer than half of what fits is free. Rows that were given out before are gone then. */
void rv_head_table_settle(struct rv_head_table *table);
/* Stays where it is until settle or release. NULL: no such token, or no room for another. */
const float *rv_head_table_row(struct rv_head_table *table, int32_t token);
/* The mean length of the rows decoded so far; 1 before the first. */
double rv_head_table_length(const struct rv_head_table *table);

#endif
