/*
 * Training: examples in, an adapter out (ruvllm_adapter.h). The model stays as it is; low-rank changes of its
 * projections are learned by gradient descent, on the CPU, from weights of any quantisation.
 */
#ifndef RUVLLM_TRAIN_H
#define RUVLLM_TRAIN_H

#include "ruvllm.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * One example: a conversation, of which every answer of the assistant is learned (role "assistant"), or a text with
 * what follows it. With `is_anchor` it is not learned: what the model makes of it is to stay as it is.
 */
struct ruvllm_train_sample {
    size_t struct_size;
    const struct ruvllm_message *messages;
    size_t n_messages;
    const char *prompt;   // instead of messages; "" or NULL: the response alone
    const char *response; // UTF-8
    float score;          // how good it is, 0 to 1; NaN: nothing is known, it is simply right
    bool is_anchor;
    const char *rejected; // NULL, or an answer to the same that the response, or the last message, is better than
};

struct ruvllm_train_progress {
    size_t struct_size;
    int32_t epoch; // from 1
    int32_t n_epochs;
    int32_t step; // done
    int32_t n_steps;
    double loss;      // of the step, nats a token
    double kl;        // divergence from the frozen model on the step's anchors
    double step_size; // learning rate
    double held_out;  // nats a token, once after each epoch; else NaN
    double held_out_before;
};

/*
 * After each step; false stops the run. A run on a tenant's feedback also calls it before the first one (step and
 * n_steps 0, the loss NaN), while the model writes texts of its own.
 */
typedef bool (*ruvllm_train_progress_fn)(void *user, const struct ruvllm_train_progress *progress);

typedef enum ruvllm_train_schedule {
    RUVLLM_TRAIN_CONSTANT,
    RUVLLM_TRAIN_COSINE,
    RUVLLM_TRAIN_ONE_CYCLE
} ruvllm_train_schedule;

struct ruvllm_train_params {
    size_t struct_size;
    int32_t rank;                   // 8
    float alpha;                    // 16
    const char *modules;            // NULL: all of "q,k,v,o,gate,up,down"; some of them, separated by commas
    int32_t max_tokens;             // longer examples are cut at their end; 512
    int32_t batch_tokens;           // of one step, about; 1024
    int32_t n_epochs;               // 3
    int32_t patience;               // epochs without a better held-out loss before it ends; 0: never ends early; 2
    float step_size;                // learning rate; 1e-3
    float decay;                    // weight decay; 0
    float clip;                     // limit of the gradient's length; 1
    ruvllm_train_schedule schedule; // COSINE
    int32_t n_warmup;               // 10
    float held_out;                 // share of the examples that are not trained on but measured; 0.1
    float kl_weight;                // of anchors; 0.3
    uint64_t seed;                  // 1
    int32_t n_threads;              // 0: one per processor
    uint64_t max_bytes;             // for activations that need not be computed twice; 1 GiB
    const char *checkpoint;         // where a stopped run is kept and found again; NULL: nowhere
    bool keep_if_worse;             // write the adapter even when the held-out loss did not fall
    ruvllm_train_progress_fn on_progress; // may be NULL
    void *user;
    int32_t checkpoint_seconds; // how often a run is kept while it goes on; 0: only when it is stopped; 60
    bool has_kto;               // scored examples are judged as a whole (KTO) instead of token by token
    float beta;                 // of KTO and of pairs (DPO): how soon a difference is enough; 0.1
};

struct ruvllm_train_report {
    size_t struct_size;
    int64_t n_samples; // answers that were used
    int64_t n_cut;     // of them shortened to max_tokens
    int64_t n_tokens;  // trained on, in one epoch
    int32_t n_steps;
    int32_t n_epochs;
    double held_out_before; // nats a token; NaN: nothing was held out
    double held_out_after;
    double anchor_kl; // NaN: no anchors
    bool was_stopped; // by on_progress: no adapter was written
    bool was_resumed; // from the checkpoint
    bool was_written; // false: the held-out loss did not fall, or the run was stopped
};

RUVLLM_API struct ruvllm_train_params ruvllm_train_params_default(void);

/*
 * Trains on the samples and writes an adapter to `out_path` (a GGUF LoRA as llama.cpp reads it). The model may be one
 * that was opened with vocab_only: its weights are read from the file. INVALID for samples that cannot be used, naming
 * the first; UNSUPPORTED for models that the native backend does not run. When the held-out loss did not fall nothing
 * is written, which is no failure: the report says so.
 */
RUVLLM_API ruvllm_status ruvllm_train(const ruvllm_model *model, const struct ruvllm_train_sample *samples,
                                      size_t n_samples, const struct ruvllm_train_params *params, const char *out_path,
                                      struct ruvllm_train_report *report, struct ruvllm_error *err);

/* ---- from what a tenant said ------------------------------------------------------------------- */

struct ruvllm_deep_params {
    size_t struct_size;
    const struct ruvllm_train_params *train; // NULL: ruvllm_deep_train_params_default()
    float max_forgetting; // by how much text of the model's own may become less likely, as a share of its nats; 0.03
    float ewc;     // tokens of such text that one training token is worth, where an earlier run is gone on from; 30
    bool is_fresh; // does not go on from the run before
    bool is_idle;  // computes only while nothing else does
    /*
     * Each correction is also trained on asked in other ways, so many in an epoch: behind other sentences of the
     * model's own, and with words left out that say little. 2; 0: only as it was asked.
     */
    int32_t n_variants;
};

struct ruvllm_deep_report {
    size_t struct_size;
    struct ruvllm_train_report train; // was_written: it answers the tenant now
    int64_t n_votes;
    int64_t n_corrections;
    int64_t n_pairs;
    int64_t n_unused;    // events that say nothing, or of which too little was kept
    double forgetting;   // of the model's own text, held out; a share of its nats; NaN: not known
    int64_t generation;  // that answers the tenant now
    int64_t sequence;    // of the event in the tenant's log; 0: there is none
    int64_t n_distilled; // states that no longer need to be remembered
};

/* step_size is 0: as suits the model, 2e-3 up to a width of 64 and less beyond. */
RUVLLM_API struct ruvllm_train_params ruvllm_deep_train_params_default(void);
RUVLLM_API struct ruvllm_deep_params ruvllm_deep_params_default(void);

/*
 * Trains on all that a tenant has said about this engine's answers, while it serves: votes, corrections and pairs of
 * the log that were not gone back from, beside texts of the model's own, which are to stay as they are. Some feedback
 * is held out; what was learned answers the tenant from now on only if it predicts that better and forgets no more than
 * allowed, as a generation that can be gone back from. Else nothing changes, which is no failure: the report says so.
 * INVALID when there is too little to learn from, or the engine does not learn; UNSUPPORTED without a store; CONFLICT,
 * with nothing changed or kept, while the tenant's learning is paused, or when something that the run learned from was
 * gone back from or forgotten before it ended.
 */
RUVLLM_API ruvllm_status ruvllm_engine_learn_deep(ruvllm_engine *engine, const char *tenant,
                                                  const struct ruvllm_deep_params *params,
                                                  struct ruvllm_deep_report *report, struct ruvllm_error *err);

#ifdef __cplusplus
}
#endif
#endif
