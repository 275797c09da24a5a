/* Neutral sampler settings and draws from copies. */
#include "support/sampling.h"

#include <string.h>

struct ruvllm_generate_params sampling_params_off(void)
{
    return (struct ruvllm_generate_params){
        .struct_size = sizeof(struct ruvllm_generate_params),
        .max_tokens = 256,
        .temperature = 1.0f,
        .top_p = 1.0f,
        .typical_p = 1.0f,
        .repetition_penalty = 1.0f,
        .penalty_window = 64,
        .n_logprobs = -1,
        .has_seed = true,
        .seed = 42,
    };
}

struct rv_sampler *sampling_new(const struct ruvllm_generate_params *params, size_t n_vocab)
{
    struct rv_sampler *s = NULL;

    assert_ok(rv_sampler_new(&s, params, n_vocab, err));
    return s;
}

int32_t sampling_choose(struct rv_sampler *s, const float *logits, size_t n)
{
    static float row[262144];
    int32_t token = -1;

    memcpy(row, logits, n * sizeof(row[0]));
    assert_ok(rv_sampler_choose(s, row, &token, err));
    return token;
}

void sampling_count(const struct ruvllm_generate_params *p, const float *logits, int n, int32_t seen, int *drawn)
{
    struct rv_sampler *s = sampling_new(p, (size_t)n);

    memset(drawn, 0, (size_t)n * sizeof(*drawn));
    if (seen >= 0)
        rv_sampler_accept(s, seen);
    for (int i = 0; i < 3000; i++)
        drawn[sampling_choose(s, logits, (size_t)n)]++;
    rv_sampler_free(s);
}
