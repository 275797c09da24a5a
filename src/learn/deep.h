/*
 * Training low-rank pairs from samples: corrections and votes by weighted cross-entropy (votes also by KTO), pairs of
 * answers by DPO, anchors by the divergence from the frozen model, and a pull towards earlier values where it is known
 * how much they matter (EWC). Some episodes are held out; the values that predicted them best, and moved the guard no
 * further than allowed, are the result.
 *
 * A run is a function of its config, samples and seed: the same on any number of threads, and the same when it was
 * saved, ended and loaded in between.
 */
#ifndef RV_LEARN_DEEP_H
#define RV_LEARN_DEEP_H

#include "learn/adamw.h"
#include "learn/backward.h"

struct rv_deep;

/* Borrowed for as long as the run lives. */
struct rv_deep_sample {
    const int32_t *tokens;
    int32_t n;
    const float *weights;  // n: of -log p of each token, as rv_backward_sequence has them; below 0 to unlearn
    bool is_vote;          // weights are multiplied by the clipped ratio to what the tokens were drawn with:
    const float *old_logp; // n; NULL: with the frozen model
    bool is_anchor;        // the frozen model's distribution over its tokens is to stay; weights are not looked at
    bool is_guard;         // an anchor that is not trained on: what the result forgets is measured by it
    int32_t episode;       // samples of one episode are held out together
    /*
     * Samples that take turns: this one is in the epochs whose number leaves `turn` when divided by n_turns. Of a held-
     * out episode they are not measured. 0 or 1: in every epoch.
     */
    int32_t turn, n_turns;
    /* NULL, or what this one is preferred to; that one's weights, as this one's, say by not being 0 what is judged. */
    const struct rv_deep_sample *rejected;
};

struct rv_deep_progress {
    int32_t epoch; // from 0
    int32_t n_epochs;
    int32_t step; // steps done
    int32_t n_steps;
    double loss;      // of the step: mean over its weights
    double kl;        // mean divergence over the step's anchors; 0 without any. Of a measurement: over the guard
    double length;    // of the gradient
    double step_size; // learning rate
    double held_out;  // at the end of an epoch; else NaN
    double held_out_before;
    double best;
};

/* After each step and each measurement; false stops the run where it is. The run may be saved then. */
typedef bool (*rv_deep_progress_fn)(void *user, const struct rv_deep_progress *progress);

struct rv_deep_config {
    const struct rv_hparams *hparams;
    const struct rv_manifest *manifest; // both outlive the run
    struct rv_team *team;               // likewise
    int32_t rank;
    float alpha;
    uint32_t parts;       // as rv_trainable_shape has them
    int32_t max_tokens;   // the longest sample
    int32_t batch_tokens; // of one step, about
    int32_t n_epochs;
    int32_t patience; // epochs within the guard's limit, but without a better held-out loss, before it ends; 0: never
    float held_out;   // share of the episodes
    float kl_weight;  // of an anchor's token against a training token
    /*
     * Nats a token: values that move the guard further are no result, and where an epoch's do, anchors weigh more in
     * the next. Those of the last epoch are first taken back towards the first ones, by no more than half. 0: no limit.
     */
    float max_guard_kl;
    float guard_slack;       // in runs of more than 20 epochs: so many limits more at first, less and less, then none
    bool has_kto;            // votes are judged as a whole instead of token by token
    float beta;              // of DPO and KTO
    float preference_weight; // of what is judged as a whole against the rest
    const float *start;      // first values, as many as the pairs have numbers; NULL: A by seed, B 0
    float ewc;               // with the two below: ewc / 2 * sum of fisher (value - center)^2
    const float *fisher;     // as many as the pairs have numbers; NULL: none
    const float *center;     // NULL: 0 everywhere
    struct rv_adamw_config adamw; // its n_steps is filled in
    uint64_t seed;
    int32_t context; // as rv_backward_config has them
    uint64_t max_state_bytes;
    rv_deep_progress_fn on_progress; // may be NULL
    void *user;
};

struct rv_deep_result {
    double held_out_before; // loss of what is held out, by the frozen model or `start`; NaN when nothing is
    double held_out_after;  // of the result
    double anchor_kl;       // mean over tokens of up to 64 anchors, of the result; NaN without anchors
    double guard_kl;        // the same over the guard's
    int32_t n_steps;
    int32_t n_epochs; // done
    int32_t best_epoch;
    bool was_stopped;
};

/* What serves a few hundred samples on a small model. */
struct rv_deep_config rv_deep_config_default(void);
/*
 * The step for a run on what a tenant said: a tenth over the width, and 2e-3 at most. A step changes each number by as
 * much, so what a state is changed by grows with how many are summed.
 */
float rv_deep_suited_step(const struct rv_hparams *hparams);

/* INVALID for samples that cannot be used, saying which; nothing to train on is INVALID too. */
RV_CHECKED ruvllm_status rv_deep_open(struct rv_deep **out, const struct rv_deep_config *config,
                                      const struct rv_deep_sample *samples, size_t n_samples, struct ruvllm_error *err);
void rv_deep_close(struct rv_deep *deep);

/* Trains to the end, or until on_progress says stop; the pairs then have the best values so far. */
RV_CHECKED ruvllm_status rv_deep_run(struct rv_deep *deep, struct rv_deep_result *result, struct ruvllm_error *err);
/* The best values so far. */
const struct rv_trainable *rv_deep_trainable(const struct rv_deep *deep);

/*
 * Everything a run needs to go on, whole or not at all. Loading is INVALID when the file is of another run: other
 * samples, another model's shape, another config.
 */
RV_CHECKED ruvllm_status rv_deep_save(const struct rv_deep *deep, const char *path, struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_deep_load(struct rv_deep *deep, const char *path, struct ruvllm_error *err);

#endif
