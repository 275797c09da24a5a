/* Self-attention of one layer over the key-value cache. */
#ifndef RV_GRAPH_ATTENTION_H
#define RV_GRAPH_ATTENTION_H

#include "graph/build.h"

/* Which rows a layer's result is needed for. */
enum rv_attention_rows { RV_ATTENTION_ALL, RV_ATTENTION_OUT, RV_ATTENTION_NONE };

/*
 * From the normalised input x [n_embd, n_rows] of layer `layer`: stores keys and values in the cache and returns the
 * attention's output [n_embd, n_rows or n_out], or NULL for RV_ATTENTION_NONE, where only the cache matters.
 */
struct ggml_tensor *rv_attention(struct rv_build *b, int32_t layer, struct ggml_tensor *x, enum rv_attention_rows rows);

#endif
