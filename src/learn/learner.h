/*
 * Learning from feedback, for all tenants of one model: a vote finds the trace of its answer, becomes a step, is
 * written to the log, and only then changes what answers next. Without a store nothing outlives the process.
 *
 * Threads: every call may be made from any thread. A tenant's events are handled one after the other, across the wait
 * for the disk; tenants do not wait for each other. What answers is published as an immutable adapter that requests
 * take a reference of, without waiting for an event that is being handled.
 */
#ifndef RV_LEARN_LEARNER_H
#define RV_LEARN_LEARNER_H

#include "learn/background.h"
#include "learn/deep_shelf.h"
#include "learn/history.h"
#include "learn/lesson.h"
#include "learn/reasoning_bank.h"
#include "learn/tenant_table.h"
#include "model/adapter.h"
#include "store/store.h"
#include "store/store_rows.h"

struct rv_learner;

struct rv_learner_config {
    const struct rv_hparams *hparams;
    const struct rv_manifest *manifest;
    struct ruvllm_store *store; // outlives the learner; NULL: memory only
    const char *model;          // what events of this model are known by, up to 128 bytes
    int32_t rank;               // 1 to RV_HEAD_ADAPTER_MAX_RANK
    uint64_t trace_bytes;       // for answers that wait for feedback
    uint64_t tenant_bytes;      // for tenants: who is not used goes, and comes back from the store; 0: nobody goes
    bool studies;               // answers that were voted on are remembered, for rv_learner_study to go over again
    enum rv_consolidate_strategy strategy; // of that
};

/* Takes over the whitening, also when it fails. */
RV_CHECKED ruvllm_status rv_learner_new(struct rv_learner **out, const struct rv_learner_config *config,
                                        struct rv_whitening *whitening, struct ruvllm_error *err);
/* Waits for the follower, which waits for the store: an instant, or as long as a server that does not answer has. */
void rv_learner_free(struct rv_learner *learner);
/*
 * Starts the background loop, once, of a learner that studies; at any time: what was said before it came is gone over
 * then. Takes over the anchors, also when it fails.
 */
RV_CHECKED ruvllm_status rv_learner_study(struct rv_learner *learner, struct rv_anchors *anchors,
                                          struct ruvllm_error *err);
/* Whether it was. From any thread. */
bool rv_learner_has_study(const struct rv_learner *learner);
/*
 * Starts to follow others who share the store, once: what they teach a tenant counts here a moment after it was
 * acknowledged there, or later while the store cannot be listened to. Without a store there is nobody to follow.
 */
RV_CHECKED ruvllm_status rv_learner_follow(struct rv_learner *learner, struct ruvllm_error *err);
/*
 * Has the background loop go over what a tenant said since its last tick, however little, and waits until it did, or
 * until nothing is left to do. *n_used: judgements that were new. BUSY after `wait_us`.
 */
RV_CHECKED ruvllm_status rv_learner_consolidate(struct rv_learner *learner, const char *tenant, int64_t wait_us,
                                                int32_t *n_used, struct ruvllm_error *err);

/* All that a tenant is answered with, of one generation: at the head and below it; each NULL when there is nothing. */
struct rv_learner_voice {
    struct rv_adapter *head;
    struct rv_adapter *deep;
    struct rv_memory *memory;
    uint64_t layers; // what keys and values depend on by `deep`; 0: nothing
    int64_t generation;
};

/*
 * References of the caller's, for rv_learner_release_voice. Reads the tenant's log the first time. Has every event that
 * was acknowledged here before the call, and does not wait for one that is not.
 */
RV_CHECKED ruvllm_status rv_learner_voice(struct rv_learner *learner, const char *tenant, struct rv_learner_voice *out,
                                          struct ruvllm_error *err);
void rv_learner_release_voice(struct rv_learner_voice *voice);
/* The part of it that lies at the head, likewise. */
RV_CHECKED ruvllm_status rv_learner_current(struct rv_learner *learner, const char *tenant, struct rv_adapter **out,
                                            struct rv_memory **memory, int64_t *generation, struct ruvllm_error *err);
/* What it was made with; `model` is its own. */
const struct rv_learner_config *rv_learner_made_with(const struct rv_learner *learner);
struct rv_trace_ring *rv_learner_traces(struct rv_learner *learner);
/* What was asked and how it was judged: every vote adds to it. */
struct rv_reasoning_bank *rv_learner_bank(struct rv_learner *learner);
const struct rv_whitening *rv_learner_whitening(const struct rv_learner *learner);
/* out = B (A state): what a tenant's adapter adds to a state the head reads. */
RV_CHECKED ruvllm_status rv_learner_forward(struct rv_learner *learner, const char *tenant, const float *state,
                                            float *out, struct ruvllm_error *err);
/* Who is in memory. */
void rv_learner_tenants(struct rv_learner *learner, struct rv_tenant_table_stats *out);

/* A tenant's state in numbers; the fields as ruvllm_learned_info has them. Reads the log the first time. */
struct rv_learner_summary {
    int64_t generation;
    int64_t n_votes;
    double mean;
    int64_t oldest;
    double spent_kl;
    int64_t n_lessons;
    int64_t n_keys;
    bool is_paused;
    double anchor_kl;
    double kl_budget;
    int64_t n_ticks;
    int32_t n_paused;
};

RV_CHECKED ruvllm_status rv_learner_sum_up(struct rv_learner *learner, const char *tenant,
                                           struct rv_learner_summary *out, struct ruvllm_error *err);

/* What came of an event. */
struct rv_learner_result {
    int64_t generation; // that answers from now on
    int64_t seq;        // of the log; 0 without a store
    double advantage;   // -2 to 2: the score against the tenant's others
    double kl;          // nats a token of that answer
    double gain;        // by how much that answer became likelier, or less likely, as was wanted: likewise
    int64_t compute_us;
    int64_t commit_us; // the wait for the disk
    int64_t read_us;   // of texts by the model, before; not the learner's to fill
};

/*
 * NOT_FOUND: the tenant has no such answer, or it is too old. INVALID: a score that is none. Whatever fails before the
 * event is in the log changes nothing.
 */
RV_CHECKED ruvllm_status rv_learner_vote(struct rv_learner *learner, const char *tenant, uint64_t answer, double score,
                                         struct rv_learner_result *result, struct ruvllm_error *err);
/* What somebody has to say about an answer, with the texts that the log keeps. */
struct rv_learner_lesson {
    enum rv_store_event_kind kind; // VOTE, CORRECTION or PAIR
    double score;                  // of a vote
    struct rv_lesson lesson;       // of a vote: `good` is the answer as it was
    int64_t generation;            // that answered
    struct rv_str prompt;          // UTF-8 without NUL, as the next three; may be empty
    struct rv_str answer;
    struct rv_str correction;
    struct rv_str reason;
    struct rv_str tokens; // bytes: of question and texts, see lesson_tokens.h; may be empty
};

/* As rv_learner_vote, whatever is taught. */
RV_CHECKED ruvllm_status rv_learner_teach(struct rv_learner *learner, const char *tenant,
                                          const struct rv_learner_lesson *lesson, struct rv_learner_result *result,
                                          struct ruvllm_error *err);
/* Back to a generation, as the newest; 0: to the model as it came. NOT_FOUND when it is not kept. */
RV_CHECKED ruvllm_status rv_learner_go_back(struct rv_learner *learner, const char *tenant, int64_t generation,
                                            struct rv_learner_result *result, struct ruvllm_error *err);

/* What the last deep run has left, to go on from; *found false: there was none. */
RV_CHECKED ruvllm_status rv_learner_deep_content(struct rv_learner *learner, const char *tenant,
                                                 struct rv_deep_content *out, bool *found, struct ruvllm_error *err);
/*
 * A deep run's result answers from now on: kept in the store by its hash, an event refers to it. CONFLICT, and nothing
 * is kept, when something that it has read was gone back from or forgotten since, or learning is paused. UNSUPPORTED
 * without a store.
 */
struct rv_learner_deepening {
    struct rv_str content;
    struct rv_str distilled; // names of keys that go (distil.h)
    int64_t applied_seq;     // the last event it has read
    int64_t generation;      // what the log came to, up to that event
    int64_t n_taught;        // events of feedback up to it that were not forgotten
    const char *metrics;     // JSON
};

RV_CHECKED ruvllm_status rv_learner_deepen(struct rv_learner *learner, const char *tenant,
                                           const struct rv_learner_deepening *by, struct rv_learner_result *result,
                                           struct ruvllm_error *err);
/*
 * While paused, feedback is refused with CONFLICT, and what ticks and deep runs under way come to counts for nothing;
 * what was learned goes on answering. With a store it stays so over restarts.
 */
RV_CHECKED ruvllm_status rv_learner_pause(struct rv_learner *learner, const char *tenant, bool is_paused,
                                          struct ruvllm_error *err);
/*
 * Removes what an event of feedback said and did: the state becomes what the log gives without it, and without what was
 * computed from it since (ticks and deep runs after it). Generations keep their numbers. NOT_FOUND; INVALID for an
 * event that is no feedback; UNSUPPORTED without a store. Where the log cannot be read anew, what was forgotten stays
 * so, and the next call reads again.
 */
RV_CHECKED ruvllm_status rv_learner_forget(struct rv_learner *learner, const char *tenant, int64_t seq,
                                           struct rv_learner_result *result, struct ruvllm_error *err);
/* A page of the tenant's log for this model, as rv_history_read. UNSUPPORTED without a store. */
RV_CHECKED ruvllm_status rv_learner_history(struct rv_learner *learner, const char *tenant, int64_t before, size_t max,
                                            struct rv_history *out, struct ruvllm_error *err);

#endif
