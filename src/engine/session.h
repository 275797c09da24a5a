/*
 * A conversation's keys and values kept in a file. What an engine has computed lies in its prefix tree; saving writes
 * the blocks that begin a given input, loading puts them back in the tree, where the next request that begins alike
 * finds them. The engine goes on computing meanwhile.
 */
#ifndef RV_ENGINE_SESSION_H
#define RV_ENGINE_SESSION_H

#include "engine/engine.h"

/* Which prefix: as a request would have it. */
struct rv_session_key {
    const char *tenant;           // may be NULL
    struct rv_tier_policy policy; // of the requests that made it, and of those to come
    uint64_t adapter_layers;      // likewise
};

/* *n_tokens is how many of the input's tokens were there to be saved; none is NOT_FOUND and writes no file. */
RV_CHECKED ruvllm_status rv_session_save(struct ruvllm_engine *engine, const struct rv_session_key *key,
                                         const struct ruvllm_input *input, const char *path, int32_t *n_tokens,
                                         struct ruvllm_error *err);
/* *n_tokens is how many tokens are there now. BUSY when the blocks do not fit beside what runs. */
RV_CHECKED ruvllm_status rv_session_load(struct ruvllm_engine *engine, const struct rv_session_key *key,
                                         const char *path, int32_t *n_tokens, struct ruvllm_error *err);

/* Tells models apart, by content too: two may have the same numbers and names. */
uint64_t rv_session_model_hash(const struct ruvllm_engine *engine);

#endif
