/*
 * What one tenant's model has learned: a head adapter, a memory, and the running picture of its votes. A state is the
 * result of the tenant's events in order, and of nothing else; applying the same events to an empty state gives the
 * same bits.
 *
 * Every event makes a generation: 1, 2, 3, ... Going back to one is an event too.
 */
#ifndef RV_LEARN_TENANT_LEARNER_H
#define RV_LEARN_TENANT_LEARNER_H

#include "base/str.h"
#include "learn/flood.h"
#include "learn/head_adapter.h"
#include "learn/memory.h"
#include "learn/trace.h"

enum { RV_TENANT_LEARNER_SNAPSHOTS = 32 }; // generations that are kept in memory to go back to

/* What a generation consists of: plain numbers, which a checkpoint copies as they are, and the adapter, which is last.
 */
struct rv_tenant_state {
    int64_t generation;
    int64_t n_votes;
    double mean; // of scores, running
    double variance;
    double spent_kl;   // of all steps that are in it
    int64_t deep;      // number of the deep run whose result answers below the head; 0: none
    int64_t n_lessons; // corrections and pairs that are in it
    double anchor_kl;  // on anchors, when the last tick looked; nats a token
    double kl_budget;  // what that may be, as the last tick had it, also one that was gone back from; 0: not known
    int64_t n_ticks;   // that are in it
    int64_t root;      // generation of the last return to an earlier one: ticks that began before it are void
    struct rv_flood flood;
    struct rv_head_adapter adapter;
    struct rv_memory *memory; // a reference; NULL: nothing
};

struct rv_tenant_learner {
    const struct rv_whitening *whitening;
    struct rv_tenant_state now;
    struct rv_tenant_state snapshots[RV_TENANT_LEARNER_SNAPSHOTS]; // by generation modulo their number; 0: empty
    float *scratch;
};

/* What a vote, or a lesson (lesson.h), would do: made without changing anything, kept in the log, then applied. */
struct rv_tenant_vote {
    bool is_lesson; // it has no score
    double score;
    double advantage;
    struct rv_head_step step;
    uint16_t *memory;            // of the step
    struct rv_memory_page *keys; // what it remembers; NULL: nothing
};

RV_CHECKED ruvllm_status rv_tenant_learner_new(struct rv_tenant_learner **out, const struct rv_whitening *whitening,
                                               int32_t rank, struct ruvllm_error *err);
void rv_tenant_learner_free(struct rv_tenant_learner *learner);
/* What it takes in memory. */
uint64_t rv_tenant_learner_n_bytes(const struct rv_tenant_learner *learner);
/*
 * Room for the snapshot of a generation. Where there is room for the next one, making that one cannot fail: ask before
 * the event goes to the log.
 */
RV_CHECKED ruvllm_status rv_tenant_learner_make_room(struct rv_tenant_learner *learner, int64_t generation,
                                                     struct ruvllm_error *err);
/* For one whose snapshots were read from elsewhere: goes on from this one, which it has. */
void rv_tenant_learner_resume(struct rv_tenant_learner *learner, int64_t generation);

/*
 * Weighs a score of 0 to 1 against the tenant's others (so floods of equal votes come to nothing) and makes the step.
 * How far it goes on the answer itself, in nats a token: the first vote 0.012 up or 0.024 down, the n-th 3 / (n + 3) of
 * that, but at least 7 %; and by the square of how surprising it is. A bad vote that is a surprise also remembers a
 * few tokens that were not the only choice, as not to be chosen again there.
 */
RV_CHECKED ruvllm_status rv_tenant_learner_weigh(struct rv_tenant_learner *learner, const struct rv_trace *trace,
                                                 double score, struct rv_tenant_vote *vote, struct ruvllm_error *err);
/* Room for the step of a vote of that width; zeroes the rest. */
RV_CHECKED ruvllm_status rv_tenant_learner_init_vote(struct rv_tenant_vote *vote, int32_t n_dims,
                                                     struct ruvllm_error *err);
void rv_tenant_learner_release_vote(struct rv_tenant_vote *vote);
/* A vote as bytes of an event, and back. FORMAT for bytes that are none, or of another width. */
RV_CHECKED ruvllm_status rv_tenant_learner_write_vote(const struct rv_tenant_vote *vote, int32_t n_dims,
                                                      struct rv_str *out, struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_tenant_learner_read_vote(struct rv_tenant_vote *out, int32_t n_dims, double score,
                                                     struct rv_str bytes, struct ruvllm_error *err);

/* The next generation, by a vote or by going back; NOT_FOUND for a generation that is not in memory. */
RV_CHECKED ruvllm_status rv_tenant_learner_apply(struct rv_tenant_learner *learner, const struct rv_tenant_vote *vote,
                                                 struct ruvllm_error *err);
/* The next generation, by a deep run's result (0: none answers any more), without the keys it has made superfluous. */
RV_CHECKED ruvllm_status rv_tenant_learner_set_deep(struct rv_tenant_learner *learner, int64_t deep,
                                                    struct rv_str distilled, struct ruvllm_error *err);
/* The next generation by an event that was forgotten: it changes nothing, and later ones keep their numbers. */
RV_CHECKED ruvllm_status rv_tenant_learner_skip(struct rv_tenant_learner *learner, struct ruvllm_error *err);
bool rv_tenant_learner_has(const struct rv_tenant_learner *learner, int64_t generation);
RV_CHECKED ruvllm_status rv_tenant_learner_go_back(struct rv_tenant_learner *learner, int64_t generation,
                                                   struct ruvllm_error *err);

/*
 * The next generation: the change that a tick made of generation `base`, on top of what came since. NOT_FOUND when
 * `base` is not in memory any more, or was gone back from. `kl` is what anchors say.
 */
RV_CHECKED ruvllm_status rv_tenant_learner_tick(struct rv_tenant_learner *learner, const struct rv_head_adapter *made,
                                                int64_t base, double kl, struct ruvllm_error *err);
bool rv_tenant_learner_can_tick(const struct rv_tenant_learner *learner, int64_t base);
/* The generation itself, or the oldest after it that is left. */
int64_t rv_tenant_learner_kept_since(const struct rv_tenant_learner *learner, int64_t generation);
/* After an alarm: back to a generation (or to the oldest that is left after it), and votes teach nothing for a while.
 */
RV_CHECKED ruvllm_status rv_tenant_learner_pause(struct rv_tenant_learner *learner, int64_t generation,
                                                 struct ruvllm_error *err);

#endif
