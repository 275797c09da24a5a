/* Two numbers and a precision to a list of tiers. */
#include "engine/kv_policy.h"

enum { MAX_TOKENS = 1 << 24 };

static void add(struct rv_tier_policy *policy, enum rv_kv_block_format format, int32_t max_age)
{
    policy->tiers[policy->n_tiers++] = (struct rv_tier){.format = format, .max_age = max_age};
}

ruvllm_status rv_kv_policy_tiers(const struct ruvllm_kv_policy *policy, struct rv_tier_policy *out,
                                 struct ruvllm_error *err)
{
    int32_t hot = policy->hot_tokens, warm = policy->warm_tokens;

    if (hot < 0 || hot > MAX_TOKENS || warm < 0 || warm > MAX_TOKENS)
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_CONFIG, "'%s' must be between 0 and %d",
                            hot < 0 || hot > MAX_TOKENS ? "hot_tokens" : "warm_tokens", MAX_TOKENS);
    *out = (struct rv_tier_policy){.keeps_first = policy->keep_first};
    switch (policy->cold) {
    case RUVLLM_PRECISION_FP16:
        add(out, RV_KV_BLOCK_F16, 0);
        return RUVLLM_OK;
    case RUVLLM_PRECISION_Q8:
        if (hot > 0 || policy->keep_first)
            add(out, RV_KV_BLOCK_F16, hot);
        add(out, RV_KV_BLOCK_Q8, 0);
        return RUVLLM_OK;
    case RUVLLM_PRECISION_Q4:
        if (hot > 0 || policy->keep_first)
            add(out, RV_KV_BLOCK_F16, hot);
        if (warm > 0)
            add(out, RV_KV_BLOCK_Q8, hot + warm);
        add(out, RV_KV_BLOCK_Q4, 0);
        return RUVLLM_OK;
    case RUVLLM_PRECISION_FP32:
    case RUVLLM_PRECISION_BF16:
    case RUVLLM_PRECISION_Q4K:
        break;
    }
    return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_CONFIG, "keys and values can be kept in FP16, Q8 or Q4");
}
