/*
 * A tenant's log as samples of a deep run: corrections and votes with their questions, pairs of answers. What was gone
 * back from, or forgotten, is not among them; nor is what has no tokens.
 */
#ifndef RV_ENGINE_DEEP_EVENTS_H
#define RV_ENGINE_DEEP_EVENTS_H

#include "learn/deep.h"
#include "store/store.h"

/* A key that an event has put into memory for a token. */
struct rv_deep_events_key {
    size_t sample; // whose answer it is of
    int32_t last;  // the token before
    int32_t token;
    uint64_t name; // distil.h
};

struct rv_deep_events {
    struct rv_deep_sample *items; // tokens, weights and what was rejected are their own
    size_t n;
    struct rv_deep_events_key *keys; // in the order of samples
    size_t n_keys, cap_keys;
    int64_t n_votes;
    int64_t n_corrections;
    int64_t n_pairs;
    int64_t n_unused;   // events that say nothing, or whose tokens were not kept
    int64_t n_cut;      // shortened to max_tokens
    int64_t last_seq;   // of the log
    int64_t generation; // that it came to
    int64_t n_taught;   // events of feedback in it, used or not, that are not forgotten
};

struct rv_deep_events_config {
    struct ruvllm_store *store;
    const char *tenant;
    const char *model; // as events have it
    int32_t n_vocab;
    int32_t n_dims; // of states
    int32_t max_tokens;
};

/* On failure nothing is left to release. */
RV_CHECKED ruvllm_status rv_deep_events_init(struct rv_deep_events *out, const struct rv_deep_events_config *config,
                                             struct ruvllm_error *err);
void rv_deep_events_release(struct rv_deep_events *events);

#endif
