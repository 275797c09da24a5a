/*
 * Attention over block tables, as two nodes of the graph that run our own code on ggml's threads: one writes the new
 * keys and values to their places, one attends. What they work on (tables, rows, work items) is told before each
 * step, so a graph of the same shape serves any sequences of any length. CPU only.
 *
 * Keys, values and queries are stored and compared rotated (kernels/hadamard.h) when any tier is quantised; results are
 * rotated back.
 */
#ifndef RV_GRAPH_PAGED_ATTENTION_H
#define RV_GRAPH_PAGED_ATTENTION_H

#include "graph/batch.h"
#include "kv/block_pool.h"
#include "model/hparams.h"

#include <ggml.h>

struct rv_paged_attention;

struct rv_paged_attention_config {
    const struct rv_hparams *hparams;
    struct rv_block_pool *pool;
    bool rotates;
    int32_t max_rows;
    int32_t n_threads; // most that a step may use
};

RV_CHECKED ruvllm_status rv_paged_attention_new(struct rv_paged_attention **out,
                                                const struct rv_paged_attention_config *config,
                                                struct ruvllm_error *err);
void rv_paged_attention_free(struct rv_paged_attention *paged);

/* Prepares a step; the batch and its sequences' tables are read until the step was computed. */
void rv_paged_attention_begin(struct rv_paged_attention *paged, const struct rv_batch *batch);

/*
 * Node that stores k and v [head_dim, kv heads, rows] of all rows of the batch. Its result is a token for
 * rv_paged_attention_attend: what attends must come after it.
 */
struct ggml_tensor *rv_paged_attention_store(struct rv_paged_attention *paged, struct ggml_context *ctx, int32_t layer,
                                             struct ggml_tensor *k, struct ggml_tensor *v);
/* Node for q [head_dim, heads, rows] of all rows, or only of those read out: [heads * head_dim, rows]. */
struct ggml_tensor *rv_paged_attention_attend(struct rv_paged_attention *paged, struct ggml_context *ctx, int32_t layer,
                                              struct ggml_tensor *q, struct ggml_tensor *stored, bool only_out);

#endif
