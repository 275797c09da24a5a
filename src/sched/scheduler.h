/*
 * Who runs in the next step. Continuous batching: every running sequence that waits for its next token gets a row in
 * every step; what is left of the step's token budget goes to prompts, cut into chunks.
 *
 * A prompt's turn comes by priority, which grows while it waits; then by tenant, the one that was served least first;
 * then by what is left of it, least first (turn.h). One prompt takes at most three quarters of a budget that others
 * want too. So a short question does not wait for a long document, and no one waits for ever.
 *
 * When blocks run out: idle blocks of the prefix tree are dropped, then old blocks of running sequences are stored in
 * their last tier before their time, then the least urgent, youngest sequence loses its blocks and waits until they are
 * read back from the spill file, or, as far as they are not there, computed again (running_set.h). A request that the
 * whole pool could not hold is refused when it is submitted. The most urgent running request always goes on, as long as
 * nobody but requests in here and the tree holds blocks.
 *
 * Single owner: the engine thread. Nothing allocates after rv_scheduler_new. No ggml, no clock of its own: time is
 * passed in.
 */
#ifndef RV_SCHED_SCHEDULER_H
#define RV_SCHED_SCHEDULER_H

#include "sched/request.h"

struct rv_scheduler;

struct rv_scheduler_config {
    struct rv_block_pool *pool;
    struct rv_prefix_tree *tree; // NULL: prefixes are not shared
    struct rv_spill_file *spill; // of the same pool; NULL: what was preempted is computed again
    size_t spill_step_bytes;     // to write, and to read, in one plan: it holds up everybody
    int32_t max_running;         // sequences in a step; each gets its row
    int32_t max_waiting;         // beyond it submitting is BUSY
    int32_t max_rows;            // rows of a step; at least max_running
    int32_t prefill_rows;        // prompt rows of a step in which others wait for a token
    int32_t age_ms;              // waiting this long counts as much as one more of priority; 0: never does
    /*
     * May be NULL. Called when a running request leaves its slot, preempted or removed: for who keeps something by slot
     * that blocks do not hold.
     */
    void (*on_vacant)(void *user, int32_t slot);
    void *user; // on_vacant's
};

/* One sequence's part of a step. */
struct rv_scheduler_part {
    struct rv_request *request; // NULL when it was removed after the step was planned
    int32_t first_row;          // of the batch
    int32_t n_rows;
    int32_t first_out; // its results are rows first_out to first_out + n_out - 1 of what comes out
    int32_t n_out;     // 0 while a prompt is not finished; they are the last of its rows
};

/* A step: the batch as the decoder takes it. Pointers are the scheduler's, valid until the next plan. */
struct rv_scheduler_step {
    int32_t n_parts;
    const struct rv_scheduler_part *parts; // in the order of their rows; seq[row] is the part's index
    int32_t n_rows;
    const int32_t *tokens;
    const int32_t *pos;
    const int32_t *seq;
    int32_t n_out;
    const int32_t *out_rows;
};

struct rv_scheduler_stats {
    int32_t n_running;
    int32_t n_waiting;
    uint64_t n_preempted;
    uint64_t n_squeezed; // blocks quantised before their time
    uint64_t n_evicted;  // blocks dropped from the prefix tree for room
    uint64_t n_migrated;
    uint64_t n_spilled;  // blocks written to the spill file
    uint64_t n_restored; // and read back
};

RV_CHECKED ruvllm_status rv_scheduler_new(struct rv_scheduler **out, const struct rv_scheduler_config *config,
                                          struct ruvllm_error *err);
/* Requests still in it are forgotten, not freed; their blocks stay with them. */
void rv_scheduler_free(struct rv_scheduler *scheduler);

/*
 * TOO_LARGE, with a sentence, when max_tokens tokens of a request, which is all there will be of it, could never be
 * held. Looks only at what never changes: the one function here that any thread may call.
 */
RV_CHECKED ruvllm_status rv_scheduler_check_size(const struct rv_scheduler *scheduler, const struct rv_request *request,
                                                 int32_t max_tokens, struct ruvllm_error *err);
/*
 * Takes a request in; it is borrowed until it is removed. BUSY when the queue is full; TOO_LARGE as above.
 */
RV_CHECKED ruvllm_status rv_scheduler_submit(struct rv_scheduler *scheduler, struct rv_request *request,
                                             int32_t max_tokens, struct ruvllm_error *err);
/*
 * Takes it out, waiting or running, finished or given up, at any time between two calls, and returns its blocks (what
 * the tree holds stays there). Does nothing to one that is not in.
 */
void rv_scheduler_remove(struct rv_scheduler *scheduler, struct rv_request *request);

/*
 * Plans the next step: admits, makes room, reserves the blocks of all rows. False when there is nothing to compute.
 * Every running request has at least one token more than it has computed; one that has not is passed over. Between
 * steps the caller may take tokens of a running request back (rv_kv_seq_trim, n_tokens); those of a waiting one stay as
 * they are. With wants_all_rows every position is a result
 * once, also when it is computed twice.
 */
bool rv_scheduler_plan(struct rv_scheduler *scheduler, int64_t now_us, struct rv_scheduler_step *step);
/*
 * After the step was computed: counts its rows as computed, enters full blocks in the tree, moves aged blocks to their
 * tiers. The caller then appends the chosen tokens (request->tokens[n_tokens++]) or removes requests. Not called for a
 * step that failed: its reserved places are reused.
 */
void rv_scheduler_complete(struct rv_scheduler *scheduler, const struct rv_scheduler_step *step);

void rv_scheduler_stats_get(const struct rv_scheduler *scheduler, struct rv_scheduler_stats *out);
/* True when lists, blocks and counters agree; for tests. */
bool rv_scheduler_check(const struct rv_scheduler *scheduler);

#endif
