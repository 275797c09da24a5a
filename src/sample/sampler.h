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
 * `params` is checked field by field: NaN, infinities and values out of range are INVALID naming the field.
 * The seed is params->seed when has_seed, else drawn from the system.
 */
RV_CHECKED ruvllm_status rv_sampler_new(struct rv_sampler **out, const struct ruvllm_generate_params *params,
                                        size_t n_vocab, struct ruvllm_error *err);
void rv_sampler_free(struct rv_sampler *sampler);
uint64_t rv_sampler_seed(const struct rv_sampler *sampler);
/* Tells the penalties about a token of the prompt or the answer. */
void rv_sampler_accept(struct rv_sampler *sampler, int32_t token);
/*
 * Chooses from logits[0..n_vocab), which may be changed. A row with no finite logit is a BACKEND error. The
 * caller then calls rv_sampler_accept with the token.
 */
RV_CHECKED ruvllm_status rv_sampler_choose(struct rv_sampler *sampler, float *logits, int32_t *token,
                                           struct ruvllm_error *err);
/*
 * Log-probabilities under the untouched distribution, to be called before rv_sampler_choose changes the row:
 * `n_top` best into `top`, best first (ties by lower id).
 */
void rv_sampler_top_logprobs(const float *logits, size_t n_vocab, size_t n_top, struct ruvllm_token_logprob *top,
                             double *logsumexp);

#endif
