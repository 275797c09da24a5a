/* The gated feed-forward network of one layer. */
#ifndef RV_GRAPH_FEEDFORWARD_H
#define RV_GRAPH_FEEDFORWARD_H

#include "graph/build.h"

/* down(act(gate x) * up x) for x [n_embd, rows]. */
struct ggml_tensor *rv_feedforward(const struct rv_build *b, int32_t layer, struct ggml_tensor *x);

#endif
