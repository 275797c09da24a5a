/*
 * How precision falls with age: a list of tiers, youngest first. Age is counted in tokens from the end of a sequence to
 * the end of a block, and whole blocks move.
 */
#ifndef RV_KV_TIER_H
#define RV_KV_TIER_H

#include "kernels/kv_block.h"

#include <stdbool.h>

enum { RV_TIER_MAX = 3 };

struct rv_tier {
    enum rv_kv_block_format format;
    int32_t max_age; // tokens; the last tier has no limit
};

struct rv_tier_policy {
    int32_t n_tiers;
    struct rv_tier tiers[RV_TIER_MAX];
    bool keeps_first; // the first block, which attention looks at from everywhere, stays in the first tier
};

/* F16 for the last 256 tokens and the first block, Q8 for the next 256, Q4 beyond. */
struct rv_tier_policy rv_tier_policy_default(void);
/* One precision for everything; a block that is still filling is F16 in any case. */
struct rv_tier_policy rv_tier_policy_single(enum rv_kv_block_format format);
/* True when formats fall and ages grow. */
bool rv_tier_policy_is_valid(const struct rv_tier_policy *policy);
/* The precision of block `index` of a sequence of `len` tokens. */
enum rv_kv_block_format rv_tier_format(const struct rv_tier_policy *policy, int32_t index, int32_t len);

#endif
