/* The public description of how precision falls with age, checked and made into tiers. */
#ifndef RV_ENGINE_KV_POLICY_H
#define RV_ENGINE_KV_POLICY_H

#include "base/error.h"
#include "kv/tier.h"

/* INVALID naming the field that is out of range. */
RV_CHECKED ruvllm_status rv_kv_policy_tiers(const struct ruvllm_kv_policy *policy, struct rv_tier_policy *out,
                                            struct ruvllm_error *err);

#endif
