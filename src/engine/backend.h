/*
 * Who computes a model: a small table of functions for each of two. `native` is the engine's own graph over its own
 * blocks. `llama` is libllama, for architectures that are not in our table; it keeps keys and values itself, so without
 * tiers, shared prefixes, sessions and learning. Text, sampling and scheduling are the engine's for both.
 *
 * Three things are told apart: an open model (struct ruvllm_model) has weights; a state beside it has keys, values and
 * scratch, of one conversation or of all an engine serves; a batch (graph/batch.h) is what one step computes.
 */
#ifndef RV_ENGINE_BACKEND_H
#define RV_ENGINE_BACKEND_H

#include "graph/decoder.h"

struct ruvllm_model;
struct rv_backend_ops;

/* What every backend's own state begins with. */
struct rv_backend_state {
    const struct rv_backend_ops *ops;
};

struct rv_backend_state_config {
    struct rv_block_pool *pool; // an engine's; NULL: one conversation, number 0, for which the backend finds the room
    int32_t n_slots;            // sequences at a time; 1 without a pool
    int32_t max_rows;           // largest batch
    int32_t max_context;        // of one sequence
    const char *attention;      // without a pool: whose, as in the model's params
};

struct rv_backend_ops {
    const char *name;
    bool can_learn;
    bool has_adapters; // on the CPU, rows are computed with adapters
    bool has_blocks;   // on the CPU, keys and values lie in the pool's blocks: tiers, shared prefixes, sessions

    /* The model's numbers, checked; no weights. The file is open and its architecture read. */
    ruvllm_status (*describe)(struct ruvllm_model *model, const struct ruvllm_model_params *params,
                              struct ruvllm_error *err);
    /* The weights, on model->device, which is open. */
    ruvllm_status (*load)(struct ruvllm_model *model, const struct ruvllm_model_params *params,
                          struct ruvllm_error *err);
    /* Also of a model that was not loaded, or only half. */
    void (*unload)(struct ruvllm_model *model);

    /* The model outlives its states. */
    ruvllm_status (*open)(struct rv_backend_state **out, struct ruvllm_model *model,
                          const struct rv_backend_state_config *config, struct ruvllm_error *err);
    void (*close)(struct rv_backend_state *state);
    /*
     * Computes a batch and keeps its keys and values. On success *rows points at n_out rows of n_vocab logits or n_embd
     * states (NULL when n_out is 0), valid and writable until the next call. HIDDEN wants results for all rows. After a
     * failure the sequences of the batch must be trimmed. With a pool, places of all rows are reserved, and advancing
     * the tables is the caller's.
     */
    ruvllm_status (*run)(struct rv_backend_state *state, const struct rv_batch *batch, enum rv_decoder_result result,
                         float **rows, struct ruvllm_error *err);
    /*
     * Forgets everything of a sequence from position `len` on and returns how much is left of it: len, or 0 where
     * what a model keeps cannot be cut. With a pool, tables are the caller's to trim and `seq` is a slot.
     */
    int32_t (*trim)(struct rv_backend_state *state, int32_t seq, int32_t len);
    /* States the head read in the last run that gave logits, as its rows; NULL: this one has none to read, or never. */
    const float *(*states)(const struct rv_backend_state *state);
    uint64_t (*kv_bytes)(const struct rv_backend_state *state);      // of keys and values, as far as it is known
    uint64_t (*scratch_bytes)(const struct rv_backend_state *state); // likewise
};

extern const struct rv_backend_ops rv_backend_native_ops;
extern const struct rv_backend_ops rv_backend_llama_ops; // builds with RUVLLM_LLAMA only

/*
 * Picks by the checked name and describes the model with it, into model->backend. "native" and "llama" are that one or
 * an error that says what to do; NULL and "hybrid" are native, or llama for architectures outside our table and for
 * mixtures of experts. A file of a family we know that is wrong in any other way is never handed on.
 */
RV_CHECKED ruvllm_status rv_backend_choose(struct ruvllm_model *model, const struct ruvllm_model_params *params,
                                           struct ruvllm_error *err);
/* INVALID for a name that is none of the above. */
RV_CHECKED ruvllm_status rv_backend_check_name(const char *name, struct ruvllm_error *err);

#endif
