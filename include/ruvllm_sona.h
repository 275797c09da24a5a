/*
 * Learning by its parts, under the names of the seed documents: `ruvllm_microlora` is a small adapter for callers with
 * a model of their own, `ruvllm_sona` a tenant's learning in an engine, by texts; beside them what was judged before is
 * found again. All is the code that ruvllm_learn.h learns with, seen from another side.
 */
#ifndef RUVLLM_SONA_H
#define RUVLLM_SONA_H

#include "ruvllm_learn.h"
#include "ruvllm_train.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- a small adapter ------------------------------------------------------------------------- */

/*
 * What a module computes, y = W x, becomes y + (alpha / rank) B (A x). A and B are learned from inputs x, each with the
 * gradient of a loss by y and a judgement of how good it was. One caller at a time.
 */
typedef struct ruvllm_microlora ruvllm_microlora;

typedef enum ruvllm_target_module {
    RUVLLM_TARGET_Q,
    RUVLLM_TARGET_K,
    RUVLLM_TARGET_V,
    RUVLLM_TARGET_O,
    RUVLLM_TARGET_GATE,
    RUVLLM_TARGET_UP,
    RUVLLM_TARGET_DOWN,
    RUVLLM_TARGET_HEAD // the input of the head, where engines learn
} ruvllm_target_module;

enum { RUVLLM_N_TARGETS = 8 };

struct ruvllm_microlora_config {
    size_t struct_size;
    int32_t in_features;     // 1 to 65536, as the next
    int32_t out_features;    // of every module
    int32_t rank;            // 1 to 8; 2
    float alpha;             // as rank, so that alpha / rank is 1
    float dropout;           // of an input's numbers, this share is left out where it is learned from; 0
    uint32_t target_modules; // bits 1 << module, each with an adapter of its own; HEAD alone
    int32_t max_pending;     // inputs of a module that may wait for apply_updates; 1000
    uint64_t seed;           // of dropout; 1
};

/* Everything by default, with in_features and out_features as given. */
RUVLLM_API struct ruvllm_microlora_config ruvllm_microlora_config_for_hidden_dim(int32_t hidden_dim);

/* On failure *out is NULL. */
RUVLLM_API ruvllm_status ruvllm_microlora_new(ruvllm_microlora **out, const struct ruvllm_microlora_config *config,
                                              struct ruvllm_error *err);
RUVLLM_API void ruvllm_microlora_free(ruvllm_microlora *lora);

/*
 * Says what inputs of a module usually are: [n][in_features], some hundred of them. From then on updates keep away
 * from where those lie, so that what is learned changes little else. Without it all directions count as equally usual.
 */
RUVLLM_API ruvllm_status ruvllm_microlora_calibrate(ruvllm_microlora *lora, ruvllm_target_module module,
                                                    const float *inputs, size_t n, struct ruvllm_error *err);

struct ruvllm_microlora_feedback {
    size_t struct_size;
    double quality;              // 0 (bad) to 1 (good), weighed against the qualities before it
    const float *gradient;       // [out_features], of -log p of what was done, by y; must be given
    ruvllm_target_module module; // HEAD
    bool has_reward;             // `reward` takes the place of the weighed quality
    double reward;               // -2 to 2
};

/*
 * A quality alone, for `gradient` to be filled in. There is no learning without: a quality says how much, and only the
 * gradient says where to.
 */
RUVLLM_API struct ruvllm_microlora_feedback ruvllm_microlora_feedback_from_quality(double quality);

/*
 * Keeps an input [in_features] with its feedback for the next update. What was good is to become likelier, what was bad
 * less so; what is neither better nor worse than usual changes nothing. RUVLLM_INVALID for numbers that are not finite
 * and for feedback without a gradient, RUVLLM_BUSY when max_pending wait already.
 */
RUVLLM_API ruvllm_status ruvllm_microlora_adapt(ruvllm_microlora *lora, const float *input,
                                                const struct ruvllm_microlora_feedback *feedback,
                                                struct ruvllm_error *err);
/*
 * Learns from what waits. `learning_rate` is how far this may go on the inputs themselves, for the clearest feedback:
 * half the mean square of what the outputs gain along their gradients, which is a KL divergence in nats where the
 * gradient is of -log p. The seeds' 0.01 is about what a first vote on an answer may do in an engine.
 */
RUVLLM_API ruvllm_status ruvllm_microlora_apply_updates(ruvllm_microlora *lora, float learning_rate,
                                                        struct ruvllm_error *err);

/* How much a module's outputs matter to what it could do before. */
struct ruvllm_ewc_state {
    size_t struct_size;
    ruvllm_target_module module;
    const float *fisher; // [out_features], none negative: see ruvllm_ewc_update
};

/*
 * Lets a running mean of squares follow gradients of -log p by a module's outputs, the p being the model's own:
 * fisher = decay fisher + (1 - decay) gradient^2, n numbers. EWC++.
 */
RUVLLM_API ruvllm_status ruvllm_ewc_update(float *fisher, const float *gradient, size_t n, float decay,
                                           struct ruvllm_error *err);
/* What EWC holds on to from now on is what the adapter is now; at first it is no change at all. */
RUVLLM_API ruvllm_status ruvllm_microlora_anchor(ruvllm_microlora *lora, struct ruvllm_error *err);
/*
 * The same, then pulls back towards the anchor: each output's distance from it is divided by 1 + lambda f, f being its
 * share of the Fisher information in units of the mean. That is the minimum of the step's loss with EWC's penalty, in
 * the metric of the inputs. A module without a state is not pulled.
 */
RUVLLM_API ruvllm_status ruvllm_microlora_apply_updates_with_ewc(ruvllm_microlora *lora, float learning_rate,
                                                                 const struct ruvllm_ewc_state *states, size_t n_states,
                                                                 float lambda, struct ruvllm_error *err);

/* out = (alpha / rank) B (A input); `out` has out_features numbers. */
RUVLLM_API ruvllm_status ruvllm_microlora_forward(const ruvllm_microlora *lora, ruvllm_target_module module,
                                                  const float *input, float *out, struct ruvllm_error *err);
/* out += that */
RUVLLM_API ruvllm_status ruvllm_microlora_forward_add(const ruvllm_microlora *lora, ruvllm_target_module module,
                                                      const float *input, float *out, struct ruvllm_error *err);
/* As new, but still calibrated. */
RUVLLM_API void ruvllm_microlora_reset(ruvllm_microlora *lora);

struct ruvllm_microlora_stats {
    size_t struct_size;
    int64_t n_samples; // inputs that were taken
    int64_t n_pending; // of them waiting
    int64_t n_updates;
    double mean_quality; // running; 0.5 before the first
    double last_kl;      // of the last update, as learning_rate is measured
    uint64_t n_bytes;
};

RUVLLM_API ruvllm_status ruvllm_microlora_stats_get(const ruvllm_microlora *lora, struct ruvllm_microlora_stats *out,
                                                    struct ruvllm_error *err);

/* ---- the loops of an engine ------------------------------------------------------------------- */

/*
 * One tenant's learning in an engine that learns, by texts in place of answers that the engine has just given: what it
 * learns answers the tenant's next request, is in the log, and can be gone back from, as with votes. The engine
 * outlives it. One caller at a time; the engine serves others meanwhile.
 */
typedef struct ruvllm_sona ruvllm_sona;

struct ruvllm_sona_config {
    size_t struct_size;
    float instant_lr;               // how far one judgement may go; 0.01: as a vote, 0.02: to twice the KL divergence
    int32_t background_interval_ms; // from the end of one maybe_background that worked to the next; 100
    int32_t background_min_samples; // judgements that it waits for; 10
    double deep_trigger_threshold;  // how surprising judgements were, 0 to 2 each: a sum that asks for a deep run; 100
    int32_t max_pending_samples;    // judgements after which one is asked for in any case; 1000
};

RUVLLM_API struct ruvllm_sona_config ruvllm_sona_config_default(void);

/* `tenant` and `config` may be NULL. RUVLLM_INVALID: the engine does not learn (ruvllm_engine_learn). */
RUVLLM_API ruvllm_status ruvllm_sona_new(ruvllm_sona **out, ruvllm_engine *engine, const char *tenant,
                                         const struct ruvllm_sona_config *config, struct ruvllm_error *err);
RUVLLM_API void ruvllm_sona_free(ruvllm_sona *sona);

struct ruvllm_sona_result {
    size_t struct_size;
    bool applied;         // something changed
    int64_t latency_us;   // of learning itself
    int64_t read_us;      // of having the model read the texts, before and after
    int64_t commit_us;    // of waiting for the disk
    int32_t samples_used; // tokens of the response; of a deep run: answers
    double loss_before;   // -log p a token of the response, over the 32 likeliest of each
    double loss_after;    // likewise, by what answers from now on; NaN where it could not be read once more
    double kl;            // nats a token: how far the response was moved
    int64_t generation;   // of what was learned, that answers from now on
};

/*
 * Learns from a request, what was answered (by whomever) and how good that was, 0 to 1. Bad answers teach too. The
 * request is a user's message where the model has a chat template, else the text that the response follows.
 */
RUVLLM_API ruvllm_status ruvllm_sona_instant_adapt(ruvllm_sona *sona, const char *request, const char *response,
                                                   double quality, struct ruvllm_sona_result *result,
                                                   struct ruvllm_error *err);
/*
 * Has the engine's background loop go over what was said to the tenant since it last did, however little, and waits for
 * it: the loop works by itself after every few judgements, so there may be nothing left. In the result `samples_used`
 * are judgements, `kl` is of text that nobody judged, and losses are NaN. RUVLLM_BUSY when the machine has no time for
 * it within a minute.
 */
RUVLLM_API ruvllm_status ruvllm_sona_background_consolidate(ruvllm_sona *sona, struct ruvllm_sona_result *result,
                                                            struct ruvllm_error *err);
/* The same if it is due by the config; *was_due says whether it was, and `result` is untouched if not. */
RUVLLM_API ruvllm_status ruvllm_sona_maybe_background(ruvllm_sona *sona, bool *was_due,
                                                      struct ruvllm_sona_result *result, struct ruvllm_error *err);
/*
 * Judges all samples (a prompt, a response and a score each; NaN: right) as instant_adapt does, then has a deep run
 * learn from everything that was said to the tenant so far; `params` as ruvllm_engine_learn_deep has them, may be NULL.
 * Minutes, while the engine serves. In the result `applied` says whether what was learned passed and answers from now
 * on; losses are of feedback that was held out, `kl` is of the model's own text. The engine needs a store.
 */
RUVLLM_API ruvllm_status ruvllm_sona_deep_optimize(ruvllm_sona *sona, const struct ruvllm_train_sample *samples,
                                                   size_t n_samples, const struct ruvllm_deep_params *params,
                                                   struct ruvllm_sona_result *result, struct ruvllm_error *err);
/* Whether enough was said since the last deep run of this handle for another one. */
RUVLLM_API bool ruvllm_sona_should_trigger_deep(const ruvllm_sona *sona);
/* out = B (A state), both of the model's n_embd numbers: what the tenant's adapter adds to a state the head reads. */
RUVLLM_API ruvllm_status ruvllm_sona_forward(ruvllm_sona *sona, const float *state, float *out,
                                             struct ruvllm_error *err);
/* From now on the tenant is answered by the model as it came; that is a generation of its own. */
RUVLLM_API ruvllm_status ruvllm_sona_reset(ruvllm_sona *sona, struct ruvllm_error *err);

struct ruvllm_sona_stats {
    size_t struct_size;
    int64_t n_instant;    // of this handle
    int64_t n_background; // likewise, as the next
    int64_t n_deep;
    int64_t n_pending;      // judgements since the last of those
    double surprise;        // of those, as deep_trigger_threshold is measured
    double mean_latency_us; // of learning, an instant_adapt
    double mean_quality;    // running, of all the tenant's votes
    int64_t generation;
    double spent_kl; // nats a token, of all steps that are in it
};

RUVLLM_API ruvllm_status ruvllm_sona_stats_get(ruvllm_sona *sona, struct ruvllm_sona_stats *out,
                                               struct ruvllm_error *err);

/* ---- what was asked and how it went ----------------------------------------------------------- */

/*
 * The ReasoningBank of an engine that learns (ruvllm_engine_learn): every answer that was voted on leaves a pattern,
 * its question and how good it was, for its tenant alone; the newest 100,000 are kept, in the store if there is one. A
 * new question finds those that are like it, all of them being compared.
 */
typedef enum ruvllm_verdict {
    RUVLLM_VERDICT_BAD = 1, // a quality of at most 0.4
    RUVLLM_VERDICT_MIXED,
    RUVLLM_VERDICT_GOOD // at least 0.6
} ruvllm_verdict;

struct ruvllm_pattern {
    size_t struct_size;
    int64_t sequence; // of the event in the tenant's log; 0 without a store
    int64_t time_us;  // since 1970
    double quality;   // 0 to 1
    ruvllm_verdict verdict;
    int64_t n_used;  // times it was found since the process has it in memory
    double likeness; // -1 to 1: how alike the model finds the two questions; 1 in lists
};

/* Borrowed for the call. False: no more of them. */
typedef bool (*ruvllm_pattern_fn)(void *user, const struct ruvllm_pattern *pattern);

/*
 * Up to `max` (64 at most) patterns of questions that are like `input`, the most alike first. The engine reads the
 * question; a request that follows with the same finds that done.
 */
RUVLLM_API ruvllm_status ruvllm_patterns_recall(ruvllm_engine *engine, const char *tenant,
                                                const struct ruvllm_input *input, size_t max, ruvllm_pattern_fn fn,
                                                void *user, struct ruvllm_error *err);
/* The newest `max` (1,000 at most), newest first. */
RUVLLM_API ruvllm_status ruvllm_patterns_list(ruvllm_engine *engine, const char *tenant, size_t max,
                                              ruvllm_pattern_fn fn, void *user, struct ruvllm_error *err);
/* Removes all of a tenant, also from the store. What was learned from them stays. */
RUVLLM_API ruvllm_status ruvllm_patterns_forget(ruvllm_engine *engine, const char *tenant, struct ruvllm_error *err);

#ifdef __cplusplus
}
#endif
#endif
