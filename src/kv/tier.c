/* Tiers are data; this is all there is to compute about them. */
#include "kv/tier.h"

struct rv_tier_policy rv_tier_policy_default(void)
{
    return (struct rv_tier_policy){.n_tiers = 3,
                                   .tiers = {{.format = RV_KV_BLOCK_F16, .max_age = 256},
                                             {.format = RV_KV_BLOCK_Q8, .max_age = 512},
                                             {.format = RV_KV_BLOCK_Q4}},
                                   .keeps_first = true};
}

struct rv_tier_policy rv_tier_policy_single(enum rv_kv_block_format format)
{
    return (struct rv_tier_policy){.n_tiers = 1, .tiers = {{.format = format}}};
}

bool rv_tier_policy_is_valid(const struct rv_tier_policy *policy)
{
    if (policy->n_tiers < 1 || policy->n_tiers > RV_TIER_MAX)
        return false;
    for (int32_t i = 0; i < policy->n_tiers; i++) {
        if ((unsigned)policy->tiers[i].format >= RV_KV_BLOCK_N_FORMATS)
            return false;
        if (i > 0 && policy->tiers[i].format <= policy->tiers[i - 1].format)
            return false;
        if (i + 1 < policy->n_tiers && policy->tiers[i].max_age <= (i > 0 ? policy->tiers[i - 1].max_age : -1))
            return false;
    }
    return true;
}

enum rv_kv_block_format rv_tier_format(const struct rv_tier_policy *policy, int32_t index, int32_t len)
{
    int32_t age = len - (index + 1) * RV_KV_BLOCK_TOKENS;
    int32_t tier = 0;

    if (age < 0)
        return RV_KV_BLOCK_F16; // still filling
    if (index == 0 && policy->keeps_first)
        return policy->tiers[0].format;
    while (tier + 1 < policy->n_tiers && age >= policy->tiers[tier].max_age)
        tier++;
    return policy->tiers[tier].format;
}
