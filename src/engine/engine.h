/*
 * The engine: one thread that owns blocks, scheduler and decoder, and the doors other threads reach it by.
 *
 * Threads. Callers make jobs (tokens, sampler, memory) on their own threads and put them in the inbox; the engine
 * thread (engine_loop.c) takes the inbox between steps, and from then on scheduler, blocks, decoder and replies are its
 * alone, without a lock. What it has for the readers goes to each job's outbox. `lock` guards inbox, errands, table of
 * jobs, outboxes and the copied statistics; it is held for copying, never while computing, and no callback runs under
 * it.
 *
 * A job whose adapters are not in memory is parked: in the table, but neither in the inbox nor the engine thread's. Who
 * gets them there, the registry's loader, puts it into the inbox; so does who cancels it before.
 *
 * A job is referred to by the table (until its last event was read or it was cancelled), by the engine thread (until it
 * is done) and by a reader inside a call; the last of them frees it.
 */
#ifndef RV_ENGINE_ENGINE_H
#define RV_ENGINE_ENGINE_H

#include "base/keyed_hash.h"
#include "engine/engine_adapters.h"
#include "engine/job.h"

/* Something the engine thread is to do between two steps while a caller waits. Lives on the caller's stack. */
struct rv_engine_errand {
    void (*run)(struct ruvllm_engine *engine, void *arg);
    void *arg;
    bool is_done; // guarded by lock
    struct rv_engine_errand *next;
};

/* Sequences that can be computed beside the scheduler's, by errands. */
enum { RV_ENGINE_N_ASIDE = 4 };

struct rv_engine_learn;
struct rv_guess;

struct ruvllm_engine {
    struct ruvllm_model *model;
    struct ruvllm_engine_params params;
    struct rv_tier_policy policy;
    struct rv_block_pool *pool;
    struct rv_prefix_tree *tree;
    struct rv_spill_file *spill; // NULL: none
    struct rv_scheduler *scheduler;
    struct rv_backend_state *state;
    struct rv_kv_seq **seqs;             // of a step's parts, max_sequences
    int32_t *slots;                      // likewise
    const struct rv_adapter_mix **mixes; // likewise
    struct rv_engine_adapters adapters;
    _Atomic(struct rv_engine_learn *) learn; // set once; NULL: it does not
    uint8_t secret[RV_KEYED_HASH_KEY];
    pthread_t thread;
    bool has_thread;

    /* The engine thread's. */
    struct rv_job *jobs;                    // everything it was handed and has not ended
    int32_t n_held;                         // blocks that errands hold for a caller
    bool is_aside_taken[RV_ENGINE_N_ASIDE]; // slots max_sequences and up, which no request of the scheduler has
    struct ruvllm_engine_stats totals;
    struct rv_guess *guess; // NULL: nothing is guessed ahead

    pthread_mutex_t lock;
    pthread_cond_t work; // the inbox, an errand, a cancellation, closing
    pthread_cond_t errand_done;
    struct rv_engine_errand *errands; // guarded by lock
    struct rv_job *inbox;             // guarded by lock, newest first
    struct rv_job **table;            // guarded by lock: n_slots
    size_t n_slots;
    size_t n_jobs;                    // guarded by lock: taken slots
    uint64_t n_submitted;             // guarded by lock
    bool has_cancelled;               // guarded by lock: some job of the engine's is
    bool is_closing;                  // guarded by lock
    struct ruvllm_engine_stats stats; // guarded by lock: copied after each step
};

/* Drops a reference, under the lock; true when it was the last and the caller must free the job, outside the lock. */
static inline bool rv_engine_drop_job(struct rv_job *job)
{
    return --job->n_refs == 0;
}

/* As the public functions of the same names; arguments were checked and structs are the library's own. */
RV_CHECKED ruvllm_status rv_engine_open(struct ruvllm_engine **out, const char *path,
                                        const struct ruvllm_engine_params *params,
                                        const struct ruvllm_model_params *model, struct ruvllm_error *err);
void rv_engine_close(struct ruvllm_engine *engine);
const struct ruvllm_model *rv_engine_model(const struct ruvllm_engine *engine);
RV_CHECKED ruvllm_status rv_engine_submit(struct ruvllm_engine *engine, const struct ruvllm_request *request,
                                          const struct ruvllm_input *input, const struct ruvllm_generate_params *params,
                                          uint64_t *id, struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_engine_next_event(struct ruvllm_engine *engine, uint64_t id, int32_t timeout_ms,
                                              struct ruvllm_event *event, struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_engine_cancel(struct ruvllm_engine *engine, uint64_t id, struct ruvllm_error *err);
void rv_engine_stats(struct ruvllm_engine *engine, struct ruvllm_engine_stats *out);

/* Has the engine thread run `run` between two steps and waits for it; false when the engine closes. */
bool rv_engine_call(struct ruvllm_engine *engine, void (*run)(struct ruvllm_engine *engine, void *arg), void *arg);
/* What a request's keys and values depend on besides its tokens. `layers` is its adapters' part in it. */
struct rv_prefix_scope rv_engine_scope(const struct ruvllm_engine *engine, const char *tenant,
                                       const struct rv_tier_policy *policy, uint64_t layers);

#endif
