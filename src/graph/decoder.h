/*
 * Tokens to logits: the decoder graph of a model on its device, driven by the architecture's traits. Owns the
 * graph, the scratch memory and the input tensors; borrows the model and its keys and values.
 *
 * A graph is built when the number of rows or of results changes and reused as long as they stay; how far
 * attention looks back is adjusted in place, so a run of decode steps builds nothing and allocates nothing.
 *
 * Single owner: one thread at a time.
 */
#ifndef RV_GRAPH_DECODER_H
#define RV_GRAPH_DECODER_H

#include "graph/batch.h"
#include "kv/kv_cache.h"
#include "model/weights.h"

struct rv_decoder;

struct rv_decoder_config {
    const struct rv_hparams *hparams;
    const struct rv_weights *weights;
    const struct rv_device *device;
    struct rv_kv_cache *kv;     // cells; or
    struct rv_block_pool *pool; // blocks, on the CPU: batches bring their tables. One of the two
    bool rotates;               // keys and values of blocks are stored rotated
    bool stacks_adapters;       // adapters are ggml's operations on the CPU too, as they are on other devices
    int32_t max_rows;           // largest batch
    int32_t max_context;
};

/* Reserves scratch memory for the largest batch at full context. */
RV_CHECKED ruvllm_status rv_decoder_new(struct rv_decoder **out, const struct rv_decoder_config *config,
                                        struct ruvllm_error *err);
void rv_decoder_free(struct rv_decoder *decoder);
uint64_t rv_decoder_n_bytes(const struct rv_decoder *decoder); // scratch

/* What a step is for. */
enum rv_decoder_result {
    RV_DECODER_LOGITS,
    RV_DECODER_HIDDEN, // states after the final norm, without the head, and without what adapters do to its input
};

/*
 * Computes a batch and keeps its keys and values. On success *rows points at n_out rows of n_vocab logits or
 * n_embd states (NULL when n_out is 0), valid and writable until the next call. A batch that does not fit the cells is
 * TOO_LARGE and changes nothing. After a BACKEND failure the sequences of the batch must be trimmed. Lengths of block
 * tables are the caller's to advance. Mixes of adapters with gates need the CPU.
 */
RV_CHECKED ruvllm_status rv_decoder_run(struct rv_decoder *decoder, const struct rv_batch *batch,
                                        enum rv_decoder_result result, float **rows, struct ruvllm_error *err);

/*
 * The states the head read in the last step that computed logits, before any adapter changed them: n_out rows of
 * n_embd, valid as long as its logits. NULL where they lie on a device.
 */
const float *rv_decoder_states(const struct rv_decoder *decoder);

#endif
