/* How far two rows of logits are apart. All in double: at 1e-4 nats a float sum over a vocabulary is noise. */
#ifndef RV_TESTS_GOLDEN_DIVERGENCE_H
#define RV_TESTS_GOLDEN_DIVERGENCE_H

#include <stddef.h>
#include <stdint.h>

/* Sums over rows; the means are for the caller to take. */
struct divergence {
    size_t n_rows;
    double kl_sum; // KL(reference || candidate), nats
    double kl_max;
    double entropy_sum; // of the reference
    size_t n_top1_equal;
};

/* KL(softmax(reference) || softmax(candidate)); *entropy, if wanted, is the reference's. */
double divergence_kl(const float *reference, const float *candidate, size_t n_vocab, double *entropy);
void divergence_add(struct divergence *sum, const float *reference, const float *candidate, size_t n_vocab,
                    size_t n_rows);
double divergence_mean_kl(const struct divergence *sum);
double divergence_mean_entropy(const struct divergence *sum);
double divergence_top1(const struct divergence *sum);
/* Natural logarithm of a token's probability. */
double divergence_logprob(const float *logits, size_t n_vocab, int32_t token);
/* The first index of the largest logit. */
int32_t divergence_argmax(const float *logits, size_t n_vocab);

#endif
