/*
 * What the scheduler knows of a request: its tokens so far, how far they are computed, whose it is and how urgent.
 * Sampling and text are the engine's; here a request is a sequence that wants its next token.
 *
 *     OUT --submitted--> WAITING --admitted--> RUNNING --removed--> OUT
 *                           ^                     |
 *                           +-----preempted-------+
 *
 * Blocks are held while RUNNING only; what it had when it was preempted may lie in the spill file while it is WAITING.
 * OUT is what a zeroed struct says.
 *
 * Single owner: the engine thread.
 */
#ifndef RV_SCHED_REQUEST_H
#define RV_SCHED_REQUEST_H

#include "graph/batch.h"
#include "kv/kv_seq.h"
#include "kv/prefix_tree.h"
#include "kv/spill_file.h"

enum rv_request_state { RV_REQUEST_OUT, RV_REQUEST_WAITING, RV_REQUEST_RUNNING };

struct rv_request {
    /* Set by the engine before submitting. */
    struct rv_prefix_scope scope; // its tenant too
    int32_t priority;             // higher is sooner; 0 is usual
    float share;                  // weight of its tenant in the fair share; 0 is 1
    int64_t arrived_us;
    int32_t *tokens; // prompt, then what was generated; borrowed, room for all there will be
    int32_t n_prompt;
    int32_t n_tokens;
    int32_t n_guessed;   // the last so many tokens are guesses, set between steps while it decodes; see speculate.h
    bool wants_all_rows; // a result for every row of the prompt, not only the last (embedding, scoring)
    bool no_cache;       // neither takes blocks from the prefix tree nor enters its own
    struct rv_kv_seq kv; // initialised, empty
    struct rv_adapter_mix mix; // kept alive by the engine

    /* The scheduler's, for the engine to read. */
    enum rv_request_state state;
    int32_t slot;        // while RUNNING: a number below max_running that no other running one has
    int32_t n_cached;    // prompt tokens found in the prefix tree when it was first admitted
    int32_t n_preempted; // how often it lost its blocks
    bool was_admitted;

    /* The scheduler's own. */
    uint64_t ticket;                // counts up with every request submitted
    int32_t tenant;                 // row of the fair share
    int32_t i_waiting;              // place among the waiting, or -1
    int32_t n_rows;                 // in the step being planned
    int32_t n_entered;              // tokens whose full blocks were offered to the tree
    int32_t n_given;                // positions whose results were given out; counted for wants_all_rows
    int64_t served_us;              // when it last had a turn; before that, when it arrived
    struct rv_prefix_cursor cursor; // which of its blocks are in the tree
    struct rv_spill_run spilled;    // its first blocks, while it waits for room again
    int32_t n_spilled;              // tokens in them
    struct rv_request *next_lost;   // among those preempted in the same plan
};

/* Tokens known or guessed but not computed: 1 while decoding without guesses, more while its prompt, or what a
 * preemption cost, is computed. */
static inline int32_t rv_request_n_pending(const struct rv_request *request)
{
    return request->n_tokens - (request->n_spilled > request->kv.len ? request->n_spilled : request->kv.len);
}

/* True when it waits for its next token, whatever is guessed beyond it. */
static inline bool rv_request_is_decoding(const struct rv_request *request)
{
    return rv_request_n_pending(request) - request->n_guessed == 1;
}

/* True while its prompt, or what a preemption cost, is computed. */
static inline bool rv_request_is_prompting(const struct rv_request *request)
{
    return rv_request_n_pending(request) - request->n_guessed > 1;
}

/* Takes guesses back until n are left. */
static inline void rv_request_drop_guesses(struct rv_request *request, int32_t n)
{
    request->n_tokens -= request->n_guessed - n;
    request->n_guessed = n;
}

/* How urgent it is apart from waiting: losing its blocks counts, so that it does not happen to the same one for ever.
 */
static inline int32_t rv_request_rank(const struct rv_request *request)
{
    return request->priority + request->n_preempted;
}

#endif
