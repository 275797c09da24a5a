/*
 * What a tenant's model has learned, for people: look at it, pause it, have a single piece of feedback forgotten, take
 * it along as a file. The engine learns (ruvllm_learn.h); the log is its store's.
 */
#ifndef RUVLLM_LEARN_LOG_H
#define RUVLLM_LEARN_LOG_H

#include "ruvllm_adapter.h"
#include "ruvllm_learn.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ruvllm_learned_kind {
    RUVLLM_LEARNED_VOTE = 1,
    RUVLLM_LEARNED_CORRECTION,
    RUVLLM_LEARNED_PAIR,
    RUVLLM_LEARNED_TICK,     // of the background, between feedback
    RUVLLM_LEARNED_GATE,     // a tick was left out (generation -1), or votes became all alike and were gone back from
    RUVLLM_LEARNED_ROLLBACK, // somebody went back to a generation
    RUVLLM_LEARNED_DEEP      // a training run
} ruvllm_learned_kind;

/* "vote", "correction", ... */
RUVLLM_API const char *ruvllm_learned_kind_name(ruvllm_learned_kind kind);

/* An event of the log. Numbers that are not known are NaN. Texts are never NULL; long ones end in an ellipsis. */
struct ruvllm_learned_event {
    size_t struct_size;
    int64_t sequence;
    int64_t time_us;    // Unix
    int64_t generation; // that came of it; -1: none, or not known
    int64_t about;      // the generation that had answered, or that was gone back to
    ruvllm_learned_kind kind;
    bool is_forgotten; // all but its number, kind, time and score was removed
    double score;      // of a vote
    double advantage;  // the score, measured against the tenant's others
    double kl;         // how far the answer was moved, in nats a token
    double gain;       // by how much it became likelier, or less likely, as was wanted: estimated, likewise
    const char *prompt;
    const char *answer;
    const char *correction;
    const char *reason;
};

/* `event` is borrowed for the call. False: no more of them. */
typedef bool (*ruvllm_learned_event_fn)(void *user, const struct ruvllm_learned_event *event);

/*
 * Events of a tenant for this engine's model, newest first: up to `max` (1 to 1000) with a sequence below `before`
 * (0: from the newest). *next, which may be NULL, is what `before` has to be for more of them; 0: there are none. A
 * page may be short, even empty, and have more behind it. RUVLLM_UNSUPPORTED without a store.
 */
RUVLLM_API ruvllm_status ruvllm_engine_learn_history(ruvllm_engine *engine, const char *tenant, int64_t before,
                                                     size_t max, ruvllm_learned_event_fn fn, void *user, int64_t *next,
                                                     struct ruvllm_error *err);

/*
 * While paused, feedback of the tenant is refused with RUVLLM_CONFLICT, and so is what a training run under way comes
 * to; answers go on with what was learned before, which nothing changes. With a store it stays so over restarts.
 * ruvllm_engine_learned() says whether it is.
 */
RUVLLM_API ruvllm_status ruvllm_engine_learn_pause(ruvllm_engine *engine, const char *tenant, bool is_paused,
                                                   struct ruvllm_error *err);

/*
 * Removes what an event of feedback said and did. From now on the tenant's answers are what the rest of the log gives;
 * what was computed from it since (background ticks and training runs after it, with their weights) goes too, in the
 * store as well. Generations keep their numbers. RUVLLM_NOT_FOUND; RUVLLM_INVALID for an event that is no feedback;
 * RUVLLM_UNSUPPORTED without a store.
 */
RUVLLM_API ruvllm_status ruvllm_engine_learn_forget(ruvllm_engine *engine, const char *tenant, int64_t sequence,
                                                    struct ruvllm_feedback_result *result, struct ruvllm_error *err);

/*
 * Writes what was learned for the tenant, at the head's input and below it, as an adapter file, which an engine of the
 * same model loads as any other. What is remembered of single states has no place in it. RUVLLM_NOT_FOUND: nothing was
 * learned, or it was gone back from. RUVLLM_UNSUPPORTED for PEFT, which has no word for it, and for RUVLLM_ADAPTER_GGUF
 * where the head is the embedding.
 */
RUVLLM_API ruvllm_status ruvllm_engine_learn_export(ruvllm_engine *engine, const char *tenant, const char *path,
                                                    ruvllm_adapter_format format, struct ruvllm_error *err);

#ifdef __cplusplus
}
#endif
#endif
