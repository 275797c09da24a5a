/* Kullback-Leibler divergence, entropy and agreement of logit rows. */
#include "golden/divergence.h"

#include <math.h>

static double log_sum_exp(const float *logits, size_t n)
{
    double max = logits[divergence_argmax(logits, n)], sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += exp(logits[i] - max);
    return max + log(sum);
}

int32_t divergence_argmax(const float *logits, size_t n_vocab)
{
    size_t best = 0;

    for (size_t i = 1; i < n_vocab; i++)
        if (logits[i] > logits[best])
            best = i;
    return (int32_t)best;
}

double divergence_logprob(const float *logits, size_t n_vocab, int32_t token)
{
    return logits[token] - log_sum_exp(logits, n_vocab);
}

double divergence_kl(const float *reference, const float *candidate, size_t n_vocab, double *entropy)
{
    double norm_p = log_sum_exp(reference, n_vocab), norm_q = log_sum_exp(candidate, n_vocab);
    double kl = 0, h = 0;

    for (size_t i = 0; i < n_vocab; i++) {
        double log_p = reference[i] - norm_p, p = exp(log_p);

        if (p <= 0)
            continue;
        kl += p * (log_p - (candidate[i] - norm_q));
        h -= p * log_p;
    }
    if (entropy)
        *entropy = h;
    return kl < 0 ? 0 : kl; // rounding may leave a hair below zero; a NaN stays
}

void divergence_add(struct divergence *sum, const float *reference, const float *candidate, size_t n_vocab,
                    size_t n_rows)
{
    for (size_t row = 0; row < n_rows; row++) {
        const float *p = reference + row * n_vocab, *q = candidate + row * n_vocab;
        double entropy, kl = divergence_kl(p, q, n_vocab, &entropy);

        sum->n_rows++;
        sum->kl_sum += kl;
        /* Written so that a NaN sticks: it must fail every bound. */
        if (!(kl <= sum->kl_max))
            sum->kl_max = kl;
        sum->entropy_sum += entropy;
        sum->n_top1_equal += divergence_argmax(p, n_vocab) == divergence_argmax(q, n_vocab);
    }
}

double divergence_mean_kl(const struct divergence *sum)
{
    return sum->n_rows ? sum->kl_sum / (double)sum->n_rows : 0;
}

double divergence_mean_entropy(const struct divergence *sum)
{
    return sum->n_rows ? sum->entropy_sum / (double)sum->n_rows : 0;
}

double divergence_top1(const struct divergence *sum)
{
    return sum->n_rows ? (double)sum->n_top1_equal / (double)sum->n_rows : 0;
}
