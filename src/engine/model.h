/*
 * An open model: the file, its text processing, its weights on a device, and the state of one conversation. This is
 * what the public `ruvllm_model` is.
 */
#ifndef RV_ENGINE_MODEL_H
#define RV_ENGINE_MODEL_H

#include "engine/own_kv.h"
#include "graph/decoder.h"
#include "text/chat_template.h"
#include "text/vocab.h"

#include <stdatomic.h>

struct ruvllm_model {
    struct rv_gguf_file *file;
    struct rv_vocab *vocab;
    struct rv_chat_template *chat_template; // NULL: none, or one that does not parse
    char *template_source;                  // NULL: none
    struct ruvllm_error template_error;     // why a template that is there cannot be used
    struct rv_hparams hparams;
    struct rv_manifest manifest;
    struct rv_weights weights; // empty when opened for its vocabulary only
    struct rv_device *device;  // NULL likewise
    struct rv_own_kv kv;
    struct rv_decoder *decoder;
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
};

/* Without `state` there are weights but no cache and no decoder: the engine that opens it so brings its own. */
RV_CHECKED ruvllm_status rv_model_open(struct ruvllm_model **out, const char *path,
                                       const struct ruvllm_model_params *params, bool state, struct ruvllm_error *err);
void rv_model_close(struct ruvllm_model *model);

/* Takes the model for computing; BUSY when another call has it. INVALID for a model without weights. */
RV_CHECKED ruvllm_status rv_model_acquire(struct ruvllm_model *model, struct ruvllm_error *err);
void rv_model_yield(struct ruvllm_model *model);

/*
 * Computes tokens[0..n) at the end of the history, in batches, and appends them to it. Wants results for the last
 * `n_out` of them: each batch's rows are handed to `on_rows` (which may be NULL) in order. Leaves the history
 * as it was when it fails.
 */
typedef void (*rv_model_rows_fn)(void *user, float *rows, int32_t n_rows);
RV_CHECKED ruvllm_status rv_model_advance(struct ruvllm_model *model, const int32_t *tokens, int32_t n, int32_t n_out,
                                          enum rv_decoder_result result, rv_model_rows_fn on_rows, void *user,
                                          struct ruvllm_error *err);
/* Forgets everything from position n on. */
void rv_model_rewind(struct ruvllm_model *model, int32_t n);

#endif
