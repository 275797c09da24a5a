/*
 * Makes one head adapter of several: five ways, for five situations.
 *
 * EWC_MERGE         each number from those that know most about it (by their Fisher information): nothing that only one
 *                   of them learned is thinned out. The default.
 * AVERAGE           the plain mean: noise that each has of its own cancels out.
 * QUALITY_WEIGHTED  the mean by how good each is; one that is no good does not count.
 * BEST_ONLY         the best one alone: when they contradict each other.
 * ENSEMBLE          direction by direction the one that has most to say there, in full: when each has learned something
 *                   else.
 */
#ifndef RV_LEARN_CONSOLIDATE_H
#define RV_LEARN_CONSOLIDATE_H

#include "learn/head_fisher.h"

enum rv_consolidate_strategy {
    RV_CONSOLIDATE_EWC_MERGE,
    RV_CONSOLIDATE_AVERAGE,
    RV_CONSOLIDATE_QUALITY_WEIGHTED,
    RV_CONSOLIDATE_BEST_ONLY,
    RV_CONSOLIDATE_ENSEMBLE,
    RV_CONSOLIDATE_N
};

enum { RV_CONSOLIDATE_MAX = 4 }; // members; with 8 pairs each that is all a basis holds

struct rv_consolidate_member {
    const struct rv_head_adapter *adapter;
    double quality;                      // any measure; 0 or less is no good
    const struct rv_head_fisher *fisher; // for EWC_MERGE; NULL: nothing is known
};

/* "ewc_merge" and so on; NULL for a number that is none. */
const char *rv_consolidate_name(enum rv_consolidate_strategy strategy);
/* `out` may not be one of the members. Leaves it as it was when memory is out. */
RV_CHECKED ruvllm_status rv_consolidate(struct rv_head_adapter *out, enum rv_consolidate_strategy strategy,
                                        const struct rv_consolidate_member *members, int32_t n,
                                        const struct rv_whitening *whitening, struct ruvllm_error *err);

#endif
