/*
 * Which tokens a score is likely about: those that good answers have and the others have not. A vote is one number for
 * a whole answer; counting over many answers says where in it to look.
 */
#ifndef RV_LEARN_CREDIT_H
#define RV_LEARN_CREDIT_H

#include "base/error.h"

struct rv_credit {
    size_t n_vocab;
    float *good; // of each token: the share of good answers that have it
    float *bad;
    uint32_t *marks; // scratch: the last answer that had it
    uint32_t mark;
    double n_good; // answers of either kind
    double n_bad;
};

RV_CHECKED ruvllm_status rv_credit_init(struct rv_credit *out, size_t n_vocab, struct ruvllm_error *err);
void rv_credit_release(struct rv_credit *credit);
/* Begins anew, for so many answers of either kind. */
void rv_credit_clear(struct rv_credit *credit, double n_good, double n_bad);
/* One answer more, of this share of all that are good (or not). Tokens outside of the vocabulary are passed over. */
void rv_credit_add(struct rv_credit *credit, const int32_t *tokens, int32_t n, bool is_good, float share);
/*
 * 1: in all good answers and in no bad one, -1: the other way round, 0: as often in either. Nearer to 0 the better
 * chance alone explains the difference; 0 below one and a half standard errors.
 */
float rv_credit_of(const struct rv_credit *credit, int32_t token);
/* The tokens of highest credit, the first first; those with none are left out. */
size_t rv_credit_best(const struct rv_credit *credit, int32_t *out, size_t max);

#endif
