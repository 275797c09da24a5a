/*
 * Adapters in a step on any device, by ggml's own operations: the numbers of several adapters lie stacked in tensors of
 * the device, one pair of stacks for each matrix, and each row names the places of its adapters in them. The graph of a
 * shape serves any adapters that are in the stacks; one that is not is put there before the step, in the place of the
 * one not used for longest, and the stacks are made anew when they are too small.
 *
 * Scales are folded into B, which rounds once more than lora.h does. Single owner: the thread that runs the graph.
 */
#ifndef RV_GRAPH_LORA_STACK_H
#define RV_GRAPH_LORA_STACK_H

#include "graph/lora.h"
#include "model/device.h"

struct rv_lora_stack;

struct rv_lora_stack_config {
    const struct rv_hparams *hparams;
    const struct rv_device *device;
    int32_t max_rows;
};

RV_CHECKED ruvllm_status rv_lora_stack_new(struct rv_lora_stack **out, const struct rv_lora_stack_config *config,
                                           struct ruvllm_error *err);
void rv_lora_stack_free(struct rv_lora_stack *stack);

/* What makes two steps run on the same graph. */
struct rv_lora_stack_shape {
    uint32_t needs;   // enum rv_lora_need; 0: no nodes at all
    int32_t n_used;   // adapters of the row that has most
    uint32_t version; // of the stacks' tensors
};

/* Prepares a step: its adapters are in the stacks afterwards. UNSUPPORTED for mixes with gates. */
RV_CHECKED ruvllm_status rv_lora_stack_begin(struct rv_lora_stack *stack, const struct rv_batch *batch,
                                             struct rv_lora_stack_shape *shape, struct ruvllm_error *err);

/* While a graph is built: its inputs, for n_out rows read out of n_rows; then nodes as in lora.h. */
void rv_lora_stack_begin_graph(struct rv_lora_stack *stack, struct ggml_context *ctx, int32_t n_rows, int32_t n_out);
void rv_lora_stack_change(struct rv_lora_stack *stack, struct ggml_context *ctx, struct ggml_tensor *x,
                          struct rv_lora_targets *targets);
struct ggml_tensor *rv_lora_stack_head(struct rv_lora_stack *stack, struct ggml_context *ctx, struct ggml_tensor *x);
/* Fills the graph's inputs for the step that was begun. */
void rv_lora_stack_set_inputs(struct rv_lora_stack *stack);

#endif
