/*
 * A model in doubles, written as plainly as possible: token by token, loop by loop, for every family of the traits
 * table. Slow, and meant to be: it is what gradients are judged by.
 */
#ifndef RV_TESTS_GOLDEN_DOUBLE_MODEL_H
#define RV_TESTS_GOLDEN_DOUBLE_MODEL_H

#include "learn/trainable.h"

struct double_model;

/* Decodes every tensor; fails the running case when memory is out. */
struct double_model *double_model_new(const struct rv_hparams *hparams, const struct rv_manifest *manifest);
void double_model_free(struct double_model *model);

/* Logits [n][n_vocab] of a sequence; with NULL the frozen model's. */
void double_model_logits(struct double_model *model, const struct rv_trainable *trainable, const int32_t *tokens,
                         int32_t n, double *logits);
/* -log p(tokens[i]) times weights[i], and KL(base || model) there times kl_weights[i], summed; the latter may be NULL.
 */
double double_model_loss(struct double_model *model, const struct rv_trainable *trainable, const int32_t *tokens,
                         int32_t n, const float *weights, const float *kl_weights);
/* A tensor's numbers in floats, as they were decoded. */
const float *double_model_root(const struct double_model *model, enum rv_root root);
const float *double_model_part(const struct double_model *model, int32_t layer, enum rv_part part);

#endif
