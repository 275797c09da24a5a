/*
 * Positions turned into queries and keys for training: a table for the columns of a batch, forward and backward. The
 * angles are those of the model's decoder (ggml's), computed in doubles.
 */
#ifndef RV_LEARN_TRAIN_ROPE_H
#define RV_LEARN_TRAIN_ROPE_H

#include "model/hparams.h"

struct rv_train_rope {
    const struct rv_hparams *hparams;
    const float *factors; // [n_dims / 2], each divides a pair's angle; NULL: none
};

/* Fills table[n_dims / 2][2][n_columns], cosines and sines, for layers with a window or those without. */
void rv_train_rope_fill(const struct rv_train_rope *rope, bool windowed, const int32_t *pos, int32_t n_columns,
                        float *table);
/* Turns n_heads heads of rows x [n_heads * head_dim][n_columns] in place; `back` is the transposed map. */
void rv_train_rope_apply(const struct rv_train_rope *rope, const float *table, int32_t n_columns, int32_t n_heads,
                         bool back, float *x);

#endif
