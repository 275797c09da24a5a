/*
 * A request inside an engine: what the scheduler computes, the reply it becomes, and the outbox its reader empties.
 *
 * Threads: made by the submitting thread; then `request` and `reply` are the engine thread's until the job is done; the
 * outbox is guarded by the engine's lock; `reader` belongs to the thread inside ruvllm_engine_next_event.
 */
#ifndef RV_ENGINE_JOB_H
#define RV_ENGINE_JOB_H

#include "engine/adapter_registry.h"
#include "engine/model.h"
#include "engine/reply.h"
#include "learn/memory.h"
#include "learn/trace.h"
#include "sched/scheduler.h"
#include "sched/speculate.h"

#include <pthread.h>

struct rv_job {
    struct rv_request request; // first: the scheduler hands it back, and rv_job_of finds the job
    uint64_t id;
    struct rv_reply *reply;
    int32_t *tokens; // prompt and answer
    void (*on_event)(void *user, uint64_t id);
    void *user;
    int64_t first_us;    // when its first token was chosen; 0: not yet
    struct rv_job *next; // in the inbox, then among the engine's
    struct rv_adapter_ticket ticket;
    struct rv_trace *trace;     // what the engine learns from; NULL: nothing is
    struct rv_adapter *learned; // what the tenant's feedback has taught; NULL: nothing
    struct rv_adapter *deep;    // what a training run on it has; NULL: nothing
    struct rv_memory *memory;   // likewise, what is to be said in which state; NULL: nothing
    float temperature;          // it is drawn with
    struct rv_speculate_record guesses;
    int32_t guess_cut; // number, from 1 on, of the guess that the answer's shape forbade; 0: it forbade none
    bool has_news;     // the engine thread: on_event is to be called

    /* Guarded by the engine's lock. */
    int n_refs;
    pthread_cond_t changed;
    struct rv_buf text; // all that was published; its memory is reserved when the job is made
    size_t n_tokens;    // published ones of the response
    bool is_parked;     // until its adapters are in memory
    bool is_done;
    bool is_cancelled;
    bool has_reader;
    struct ruvllm_error error; // status OK: it went well

    /* The reader's. */
    size_t text_read;
    size_t tokens_read;
    struct rv_buf piece;
};

/* What a job is made of, in the library's own structs. */
struct rv_job_config {
    const struct ruvllm_model *model;
    struct rv_block_pool *pool;
    const struct ruvllm_request *request;
    const struct ruvllm_input *input;
    const struct ruvllm_generate_params *params;
    struct rv_tier_policy policy;
    struct rv_prefix_scope scope;
};

/* Does all that needs no engine: tokens, sampler, memory for the whole answer. */
RV_CHECKED ruvllm_status rv_job_new(struct rv_job **out, const struct rv_job_config *config, struct ruvllm_error *err);
/* Tokens that prompt and answer can come to. */
int32_t rv_job_max_tokens(const struct rv_job *job);
/* Its blocks and adapters must have been returned. */
void rv_job_free(struct rv_job *job);

static inline struct rv_job *rv_job_of(struct rv_request *request)
{
    return (struct rv_job *)(void *)request;
}

#endif
