/*
 * An open model: the file, its text processing, its weights on a device, and the state of one conversation. This is
 * what the public `ruvllm_model` is.
 */
#ifndef RV_ENGINE_MODEL_H
#define RV_ENGINE_MODEL_H

#include "engine/backend.h"
#include "engine/constraint.h"
#include "model/adapter.h"
#include "text/chat_template.h"
#include "text/vocab.h"

#include <stdatomic.h>

struct llama_model; // libllama's

struct ruvllm_model {
    struct rv_gguf_file *file;
    struct rv_vocab *vocab;
    struct rv_chat_template *chat_template;  // NULL: none, or one that does not parse
    char *template_source;                   // NULL: none
    struct ruvllm_error template_error;      // why a template that is there cannot be used
    struct rv_constraint_shelf *constraints; // grammars of requests
    const struct rv_backend_ops *backend;    // NULL: a file of vocabulary alone, or one nobody here can compute
    struct rv_hparams hparams;
    struct rv_manifest manifest; // the native backend's
    struct rv_weights weights;   // likewise; empty when opened for its vocabulary only
    struct llama_model *llama;   // the llama backend's; NULL likewise
    struct rv_device *device;    // NULL likewise
    struct rv_backend_state *state;
    struct ruvllm_model_params wishes; // as it was opened; its pointers are no longer valid
    int32_t max_context;
    int32_t max_batch;
    char *name;
    char *architecture;
    const char *quantization; // ggml's name of the type most weight bytes have

    /* Set while a call computes; exchanged with acquire and release, so what the last call wrote is seen. */
    atomic_bool is_busy;

    /* Below: owned by the call that holds is_busy. */
    int32_t *history; // tokens whose state is in the cache, max_context of them
    int32_t n_history;
    int32_t *pos; // scratch of one batch, max_batch each
    int32_t *seq; // all zero: there is one sequence
    int32_t *out_rows;
    struct rv_adapter *adapter; // NULL: none
    struct rv_adapter_mix mix;  // of it
    uint64_t adapter_layers;    // what of it the cache depends on; 0: nothing
};

/* Without `state` there are weights but nothing to compute in: the engine that opens it so brings its own. */
RV_CHECKED ruvllm_status rv_model_open(struct ruvllm_model **out, const char *path,
                                       const struct ruvllm_model_params *params, bool state, struct ruvllm_error *err);
void rv_model_close(struct ruvllm_model *model);
/* Keys and values lie in blocks, which only the CPU reads: tiers, shared prefixes, sessions. */
bool rv_model_has_blocks(const struct ruvllm_model *model);

/* Takes the model for computing; BUSY when another call has it. INVALID for a model without weights. */
RV_CHECKED ruvllm_status rv_model_acquire(struct ruvllm_model *model, struct ruvllm_error *err);
void rv_model_yield(struct ruvllm_model *model);

/*
 * Computes tokens[0..n) at the end of the history, in batches, and appends them to it. Wants results for the last
 * `n_out` of them: each batch's rows are handed to `on_rows` (which may be NULL) in order. Leaves the history
 * as it was when it fails, or empty where the backend cannot go back.
 */
typedef void (*rv_model_rows_fn)(void *user, float *rows, int32_t n_rows);
RV_CHECKED ruvllm_status rv_model_advance(struct ruvllm_model *model, const int32_t *tokens, int32_t n, int32_t n_out,
                                          enum rv_decoder_result result, rv_model_rows_fn on_rows, void *user,
                                          struct ruvllm_error *err);
/*
 * Computes with an adapter, of which a reference is taken, from now on; NULL: with none. `layers` is what the cache
 * depends on of it and of its weight, 0 for nothing; the history ends where that changes.
 */
void rv_model_set_adapter(struct ruvllm_model *model, struct rv_adapter *adapter, float weight, uint64_t layers);
/* Forgets everything from position n on. Returns how much is left: n, or 0 where the backend cannot cut. */
int32_t rv_model_rewind(struct ruvllm_model *model, int32_t n);

/* For backends: settles max_context and max_batch once the numbers are known, and that the vocabulary fits them. */
RV_CHECKED ruvllm_status rv_model_settle_context(struct ruvllm_model *model, const struct ruvllm_model_params *params,
                                                 struct ruvllm_error *err);

#endif
