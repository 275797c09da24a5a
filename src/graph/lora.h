/*
 * Adapters in a step: after the product with a matrix W, one node adds what each row's adapters make of the same input,
 * y += weight scale B (A x), on ggml's threads. Any rows may have any adapters. Rows with the same adapters are a
 * group, whose numbers are read once. What a node works on is told before each step, so a graph of the same shape
 * serves any adapters.
 *
 * A row's result does not depend on what the others of the batch have. CPU only; lora_stack.h serves other devices.
 */
#ifndef RV_GRAPH_LORA_H
#define RV_GRAPH_LORA_H

#include "graph/batch.h"
#include "model/adapter.h"

#include <ggml.h>

struct rv_lora;

struct rv_lora_config {
    const struct rv_hparams *hparams;
    int32_t max_rows;
    int32_t n_threads; // most that a step may use
};

RV_CHECKED ruvllm_status rv_lora_new(struct rv_lora **out, const struct rv_lora_config *config,
                                     struct ruvllm_error *err);
void rv_lora_free(struct rv_lora *lora);

/* The nodes that a step's graph needs for its adapters; 0: none. */
enum rv_lora_need {
    RV_LORA_HEAD = 1 << 0,   // at the head's input
    RV_LORA_LAYERS = 1 << 1, // at the matrices of layers
    RV_LORA_GATES = 1 << 2   // weights that tokens choose
};

/* Prepares a step and returns what it needs; the batch and its mixes are read until the step was computed. */
uint32_t rv_lora_begin(struct rv_lora *lora, const struct rv_batch *batch);

/* Before a graph is built: the nodes of the one before are forgotten. */
void rv_lora_begin_graph(struct rv_lora *lora);
/* Node that weighs adapters by the rows of x [n_embd, rows]; gives x, for what comes after it. */
struct ggml_tensor *rv_lora_gate(struct rv_lora *lora, struct ggml_context *ctx, struct ggml_tensor *x);

enum { RV_LORA_MAX_TARGETS = 3 };

/* Products of matrices of one layer with the same x. */
struct rv_lora_targets {
    int32_t layer;
    bool only_out; // the rows are those that are read out
    int32_t n;
    enum rv_part parts[RV_LORA_MAX_TARGETS];
    struct ggml_tensor *y[RV_LORA_MAX_TARGETS]; /* [n_out, rows] each */
};

/*
 * Node that changes the targets, all in place: y[0] becomes its result; the others keep their tensors, and the node is
 * put into the graph here, so whatever is expanded later sees them changed. x is [n_in, rows].
 */
void rv_lora_change(struct rv_lora *lora, struct ggml_context *ctx, struct ggml_cgraph *graph, struct ggml_tensor *x,
                    struct rv_lora_targets *targets);
/* Node for the head's input: x [n_embd, n_out] of the rows read out, and what their adapters add to it. */
struct ggml_tensor *rv_lora_head(struct rv_lora *lora, struct ggml_context *ctx, struct ggml_tensor *x);

#endif
