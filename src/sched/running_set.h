/*
 * The sequences that hold blocks, most urgent first (priority, then who came first), and how room is made among them
 * when blocks run out. From the least harmful to the worst:
 *
 *     1. idle blocks of the prefix tree are dropped
 *     2. old blocks of running sequences go to their last tier before their time, the least urgent sequence's first
 *     3. the least urgent sequence loses its blocks: they go to the spill file, as far as it takes them
 *
 * Nobody loses blocks for somebody less urgent. So the most urgent one never does, and gets what there is in the end.
 *
 * Nothing allocates after rv_running_set_init.
 */
#ifndef RV_SCHED_RUNNING_SET_H
#define RV_SCHED_RUNNING_SET_H

#include "sched/request.h"

struct rv_running_set {
    struct rv_block_pool *pool;
    struct rv_prefix_tree *tree; // may be NULL
    struct rv_request **requests;
    int32_t n;
    int32_t max;
    int32_t *free_slots; // stack of max - n numbers
    void (*on_vacant)(void *user,
                      int32_t slot); // may be NULL: a member left its slot, and what it had computed is void
    void *user;
    struct rv_request *lost;     // preempted, linked by next_lost; the owner takes them from here
    bool is_dry;                 // nothing is left to squeeze; rv_running_set_begin_plan resets it
    struct rv_spill_file *spill; // may be NULL
    size_t spill_step_bytes;     // bytes to write, and to read, in one plan
    size_t written_bytes;        // in this plan
    size_t read_bytes;
    uint64_t n_preempted;
    uint64_t n_squeezed;
    uint64_t n_evicted;
    uint64_t n_spilled; // blocks
    uint64_t n_restored;
};

RV_CHECKED ruvllm_status rv_running_set_init(struct rv_running_set *set, struct rv_block_pool *pool,
                                             struct rv_prefix_tree *tree, int32_t max, struct ruvllm_error *err);
void rv_running_set_release(struct rv_running_set *set);
/* Lets preempted sequences take their blocks with them; no more than max_bytes are written, and read, in one plan. */
void rv_running_set_spill_to(struct rv_running_set *set, struct rv_spill_file *spill, size_t max_bytes);
/* What is limited by plan counts from here. */
void rv_running_set_begin_plan(struct rv_running_set *set);
/* Marks a request as running and takes it in; there must be room. */
void rv_running_set_add(struct rv_running_set *set, struct rv_request *request);
/* Takes it out; its blocks are left alone. */
void rv_running_set_remove(struct rv_running_set *set, struct rv_request *request);
/* The least urgent one, or NULL. */
struct rv_request *rv_running_set_last(const struct rv_running_set *set);
/* Makes the least urgent one give up its blocks and puts it with the lost. */
void rv_running_set_preempt_last(struct rv_running_set *set);

/* False when another plan has to read what a request has in the spill file; the first one in a plan is always read. */
bool rv_running_set_can_restore(const struct rv_running_set *set, const struct rv_request *request);
/*
 * Gives a request that holds no more than shared blocks those that follow them in the spill file, dropping idle blocks
 * for them. What is missing afterwards (the file failed, or there was no room) is to be computed; in the file nothing
 * is left of it.
 */
void rv_running_set_restore(struct rv_running_set *set, struct rv_request *request);
/* Drops what a request has in the spill file. */
void rv_running_set_forget(struct rv_running_set *set, struct rv_request *request);

/* Bytes that are free or could be by dropping idle blocks. */
size_t rv_running_set_available(const struct rv_running_set *set);
/*
 * Reserves places for up to n more rows of a member; returns how many. Fewer when idle blocks alone do not make enough
 * room; squeezing and preempting are for the case that not even one row fits. 0 when that did not help, and then
 * everybody after the member has been preempted.
 */
int32_t rv_running_set_reserve(struct rv_running_set *set, struct rv_request *request, int32_t n);
/* True when the order and the sequences are sound; for tests. */
bool rv_running_set_check(const struct rv_running_set *set);

#endif
