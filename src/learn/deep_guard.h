/*
 * How a run keeps to what it may forget: how often the guard is asked, where it is to be, how much anchors weigh then,
 * and how far values go back. Numbers to numbers; deep.c measures and moves.
 */
#ifndef RV_LEARN_DEEP_GUARD_H
#define RV_LEARN_DEEP_GUARD_H

#include "learn/deep.h"

/* How often in an epoch, its end included. Runs of few epochs ask more often; without a limit it is 1. */
int32_t rv_deep_guard_rounds(const struct rv_deep_config *config);

/*
 * The guard's divergence, nats a token, that is aimed at when so many epochs (and parts of one) are done; 0 without a
 * limit. In long runs there is more room at first (guard_slack): facts are learned with room, and what they cost is
 * then taken back, for which there are too few epochs in a short run.
 */
double rv_deep_guard_aim(const struct rv_deep_config *config, double n_done);

/* What anchors' weight is to be multiplied with, where it was `scale` until the guard said guard_kl. */
double rv_deep_guard_scale(const struct rv_deep_config *config, double scale, double guard_kl, double aim);

/*
 * How much of the way from the first values is to stay when the guard, with kl_first at those, says guard_kl and is to
 * say no more than `most`: divergence goes with the square of the way. 0: even the first values are too far.
 */
double rv_deep_guard_share(double kl_first, double guard_kl, double most);

/* Whether the guard is so far beyond the aim that weight alone does not bring it back in time. */
bool rv_deep_guard_is_lost(double guard_kl, double aim);

#endif
