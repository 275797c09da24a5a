/*
 * Learning from feedback while serving. A vote on an answer, or what it should have been, changes the next answers of
 * the same tenant, and of nobody else: by a small adapter at the input of the model's head and a memory of what is to
 * be said in which state, so that no cached key or value becomes invalid.
 *
 *     ruvllm_engine_learn(engine, NULL, &err);
 *     ... a request is answered; its id is `id` ...
 *     struct ruvllm_feedback feedback = {.struct_size = sizeof(feedback), .id = id, .correction = "It is blue."};
 *     ruvllm_engine_give_feedback(engine, "anna", &feedback, &result, &err);
 *
 * With a store every event is on the disk before the call returns, and what was learned is there again after a restart,
 * bit by bit. Every event makes a generation that can be gone back to.
 */
#ifndef RUVLLM_LEARN_H
#define RUVLLM_LEARN_H

#include "ruvllm_store.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How the background loop makes one adapter of what a tenant has and what it found by going over votes again. */
typedef enum ruvllm_consolidation {
    RUVLLM_CONSOLIDATION_EWC_MERGE,        // each number from the one that knows more about it, by Fisher information
    RUVLLM_CONSOLIDATION_AVERAGE,          // the plain mean: noise that each has of its own cancels out
    RUVLLM_CONSOLIDATION_QUALITY_WEIGHTED, // the mean by what each gains on answers that were held out
    RUVLLM_CONSOLIDATION_BEST_ONLY,        // the better one alone
    RUVLLM_CONSOLIDATION_ENSEMBLE          // direction by direction the one that has more to say there
} ruvllm_consolidation;

/* "ewc_merge" and so on; "unknown" for a number that is none. */
RUVLLM_API const char *ruvllm_consolidation_name(ruvllm_consolidation consolidation);

struct ruvllm_learn_params {
    size_t struct_size;
    ruvllm_store *store;            // must outlive the engine; NULL: what is learned ends with it
    int32_t rank;                   // of a tenant's adapter: 1 to 8; 0: as it was in this store, or else 2
    uint64_t trace_bytes;           // for answers that wait for feedback: of the oldest only words stay; 64 MiB
    ruvllm_progress_fn on_progress; // of what ruvllm_engine_learn does first; false gives up; may be NULL
    void *progress_user;
    uint64_t tenant_bytes; // for what tenants learned: who asks seldom comes back from the store; 0: no end; 512 MiB
    bool no_background;    // votes alone teach: nothing is gone over again between them
    ruvllm_consolidation consolidation; // of the background loop; RUVLLM_CONSOLIDATION_EWC_MERGE
};

RUVLLM_API struct ruvllm_learn_params ruvllm_learn_params_default(void);

/*
 * Makes an engine learn from now on; once. `params` may be NULL. The model first writes some twelve thousand tokens of
 * its own, from which is measured where it usually is: seconds to minutes, unless the store has them already. Requests
 * are answered meanwhile, and can be judged afterwards. After a quarter of them the engine learns
 * (ruvllm_engine_learns); until then feedback is RUVLLM_BUSY. After all of them what was said is also gone over again
 * between votes. Given up on request is RUVLLM_CANCELLED; after that, and after a failure, it may be asked again, and
 * goes on with what there is (answers leave traces meanwhile). The engine must not be closed before it returns.
 * RUVLLM_UNSUPPORTED for a model that does not run in the engine's own graph on the CPU.
 */
RUVLLM_API ruvllm_status ruvllm_engine_learn(ruvllm_engine *engine, const struct ruvllm_learn_params *params,
                                             struct ruvllm_error *err);
/* Whether feedback teaches it by now, for who makes it learn on another thread. False for NULL. */
RUVLLM_API bool ruvllm_engine_learns(const ruvllm_engine *engine);

struct ruvllm_feedback_result {
    size_t struct_size;
    int64_t generation; // of what was learned, that answers the tenant from now on
    int64_t sequence;   // number of the event in the tenant's log; 0 without a store
    double advantage;   // -2 to 2: the score, measured against the tenant's others
    double kl;          // how far the answer itself was moved, in nats a token
    int64_t compute_us;
    int64_t commit_us; // of waiting for the disk
    int64_t read_us;   // of having the model read texts, also an old answer again, beside what it serves
};

/* What somebody has to say about an answer: a score, or a correction, or a pair. Texts are UTF-8 and may be NULL. */
struct ruvllm_feedback {
    size_t struct_size;
    uint64_t id;            // of the answer: what ruvllm_engine_submit gave
    bool has_score;         // it is a vote:
    double score;           // 0 (bad) to 1 (good)
    const char *correction; // what the answer should have been, from its beginning to its end
    const char *preferred;  // which of two answers is the better one; NULL, while the other is there: the answer itself
    const char *rejected;   // likewise
    const char *reason;     // kept in the log, not learned from; with any of the above
};

/*
 * A correction is remembered: asked the same again, the model says that; and what it usually says moves a little in its
 * direction, as for a pair. RUVLLM_NOT_FOUND: there is no such answer, or it is too old. RUVLLM_TOO_LARGE: the question
 * was longer than is kept, or the text does not fit the context with it. RUVLLM_NO_SPACE: the disk is full, nothing was
 * learned. RUVLLM_IO: the store is away, and what the tenant has learned is not in memory; the same given again, when
 * it is back, counts once. RUVLLM_UNSUPPORTED: a text for an answer that was made with adapters by name. RUVLLM_BUSY:
 * learning is being prepared, or there is no room to read the text beside what runs.
 */
RUVLLM_API ruvllm_status ruvllm_engine_give_feedback(ruvllm_engine *engine, const char *tenant,
                                                     const struct ruvllm_feedback *feedback,
                                                     struct ruvllm_feedback_result *result, struct ruvllm_error *err);
/*
 * A score from 0 (bad) to 1 (good) for an answer of this tenant: `id` is what ruvllm_engine_submit gave.
 * RUVLLM_NOT_FOUND: there is no such answer, or it is too old. RUVLLM_NO_SPACE: the disk is full, nothing was learned.
 * RUVLLM_BUSY: learning is being prepared, or there is no room to read an old answer again beside what runs.
 */
RUVLLM_API ruvllm_status ruvllm_engine_feedback(ruvllm_engine *engine, const char *tenant, uint64_t id, double score,
                                                struct ruvllm_feedback_result *result, struct ruvllm_error *err);
/*
 * From now on the tenant's answers are as with `generation`, one of the last 32, or 0: as the model came. That is a new
 * generation itself.
 */
RUVLLM_API ruvllm_status ruvllm_engine_learn_rollback(ruvllm_engine *engine, const char *tenant, int64_t generation,
                                                      struct ruvllm_feedback_result *result, struct ruvllm_error *err);

struct ruvllm_learned_info {
    size_t struct_size;
    int64_t generation;        // that answers the tenant; 0: the model as it came
    int64_t n_votes;           // that are in it
    double mean_score;         // running, of those votes; 0.5 before the first
    int64_t oldest_generation; // that can be gone back to, beside 0, which always can; 0: there is no other
    double spent_kl;           // nats a token, of all steps that are in it
    int64_t n_lessons;         // corrections and pairs that are in it
    int64_t n_keys;            // states that it remembers what to say in, or what not to
    bool is_paused;            // feedback is refused until it is resumed: ruvllm_learn_log.h
    double anchor_kl;          // how far text that nobody voted on was moved, when the background loop last looked
    int64_t n_ticks;           // what the background loop added
    int32_t n_paused;          // votes to come that teach nothing, after votes became all alike; 0: learning goes on
    double kl_budget;          // of anchor_kl: beyond it, ticks pull back what was learned; 0: not known before a tick
    ruvllm_consolidation consolidation; // that the background loop works by
};

/* What a tenant's feedback has come to. RUVLLM_INVALID: this engine does not learn. */
RUVLLM_API ruvllm_status ruvllm_engine_learned(ruvllm_engine *engine, const char *tenant,
                                               struct ruvllm_learned_info *info, struct ruvllm_error *err);

#ifdef __cplusplus
}
#endif
#endif
