/*
 * Logits to a token. A sampler belongs to one answer: it holds the penalties' window, the random stream and
 * scratch for one row, all allocated when it is made, so that choosing a token allocates nothing.
 *
 * Order of work: logit bias, penalties, (greedy ends here) then temperature, top-k, typical, top-p, min-p, draw.
 */
#ifndef RV_SAMPLE_SAMPLER_H
#define RV_SAMPLE_SAMPLER_H

#include "base/error.h"

struct rv_sampler;

/*
 * `params` is checked field by field: NaN, infinities and values out of range are INVALID naming the field, as are a
 * bias on a token outside the vocabulary and bans that leave no token. Ranges beside those the public header states:
 * temperature up to 100, repetition_penalty 0.01 to 100, penalty_window up to RV_PENALTY_MAX_WINDOW. The text fields
 * (stop) are the text stream's to check. The seed is params->seed when has_seed, else drawn from the system.
 */
RV_CHECKED ruvllm_status rv_sampler_new(struct rv_sampler **out, const struct ruvllm_generate_params *params,
                                        size_t n_vocab, struct ruvllm_error *err);
void rv_sampler_free(struct rv_sampler *sampler);
uint64_t rv_sampler_seed(const struct rv_sampler *sampler);
/* Tells the penalties about a token of the prompt or the answer. */
void rv_sampler_accept(struct rv_sampler *sampler, int32_t token);
/*
 * Chooses from logits[0..n_vocab), which may be changed. Entries that are not finite are never chosen; a row with no
 * finite logit is a BACKEND error. Equal seeds and equal rows give equal tokens on every machine. The caller then calls
 * rv_sampler_accept with the token.
 */
RV_CHECKED ruvllm_status rv_sampler_choose(struct rv_sampler *sampler, float *logits, int32_t *token,
                                           struct ruvllm_error *err);
/*
 * Log-probabilities under the untouched distribution, to be called before rv_sampler_choose changes the row:
 * `n_top` best into `top`, best first (ties by lower id); places beyond the finite logits get token -1. `logsumexp`
 * (may be NULL) is what to subtract from any other logit to get its log-probability; -INFINITY without a finite one.
 */
void rv_sampler_top_logprobs(const float *logits, size_t n_vocab, size_t n_top, struct ruvllm_token_logprob *top,
                             double *logsumexp);

#endif
