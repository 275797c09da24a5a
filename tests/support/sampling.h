/* What the sampler's suites share: neutral settings, and draws that leave the row alone. */
#ifndef RV_TESTS_SUPPORT_SAMPLING_H
#define RV_TESTS_SUPPORT_SAMPLING_H

#include "sample/sampler.h"
#include "support/test.h"

/* Everything off, seed 42: plain draws from the softmax. */
struct ruvllm_generate_params sampling_params_off(void);
/* Fails the case when the sampler cannot be made or used. */
struct rv_sampler *sampling_new(const struct ruvllm_generate_params *params, size_t n_vocab);
/* Chooses from a copy, since choosing may change the row; at most 262,144 logits. */
int32_t sampling_choose(struct rv_sampler *s, const float *logits, size_t n);
/* How often each token comes in 3000 draws, after the penalties saw `seen` (unless negative). */
void sampling_count(const struct ruvllm_generate_params *p, const float *logits, int n, int32_t seen, int *drawn);

#endif
