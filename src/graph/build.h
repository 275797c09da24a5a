/*
 * What the parts of the graph share while one is built: the model's numbers, the input tensors, the list of views to
 * adjust afterwards. Lives as long as the graph.
 */
#ifndef RV_GRAPH_BUILD_H
#define RV_GRAPH_BUILD_H

#include "graph/lora_stack.h"
#include "graph/paged_attention.h"
#include "kv/kv_cache.h"
#include "model/weights.h"

/* Tensors filled before each step. Rows are the batch's; "out" ones belong to the rows that are read out. */
struct rv_build_inputs {
    struct ggml_tensor *tokens;     /* [n_rows] I32 */
    struct ggml_tensor *pos;        /* [n_rows] I32 */
    struct ggml_tensor *cells;      /* [n_rows] I64: where keys and values go; NULL with block tables, as are masks */
    struct ggml_tensor *mask;       /* [n_kv, n_rows] F16 */
    struct ggml_tensor *window;     /* [n_kv, n_rows] F16: layers with a sliding window; NULL: none has one */
    struct ggml_tensor *out_rows;   /* [n_out] I32; NULL when every row is read out */
    struct ggml_tensor *out_pos;    /* [n_out] I32; NULL likewise */
    struct ggml_tensor *out_mask;   /* [n_kv, n_out] F16; NULL likewise */
    struct ggml_tensor *out_window; /* [n_kv, n_out] F16; NULL likewise */
};

struct rv_build {
    struct ggml_context *ctx;
    struct ggml_cgraph *graph;
    const struct rv_hparams *hparams;
    const struct rv_weights *weights;
    const struct rv_kv_cache *kv;     // cells for all sequences; or
    struct rv_paged_attention *paged; // block tables: one of the two is there
    struct rv_lora *lora;             // adapters by nodes of our own; or
    struct rv_lora_stack *lora_stack; // by ggml's: one of the two is there
    uint32_t lora_needs;              // nodes for adapters: enum rv_lora_need
    struct ggml_tensor *rope_factors; /* [n_rot / 2] or NULL */
    int32_t n_rows;
    int32_t n_out;
    int32_t n_kv;
    struct rv_build_inputs in;
    struct ggml_tensor **kv_views; // 2 a layer: what attention reads; their ne[1] is n_kv
    int32_t n_kv_views;
};

/* Norm of the architecture's kind, times `scale`, plus `bias` where there is one. */
struct ggml_tensor *rv_build_norm(const struct rv_build *b, struct ggml_tensor *x, struct ggml_tensor *scale,
                                  struct ggml_tensor *bias);
/* w x, plus `bias` where there is one. */
struct ggml_tensor *rv_build_linear(const struct rv_build *b, struct ggml_tensor *w, struct ggml_tensor *bias,
                                    struct ggml_tensor *x);
/* Lets adapters change products with x, in a graph that has them; `targets` as for rv_lora_change, whose rows are found
 * here. */
void rv_build_change(const struct rv_build *b, struct ggml_tensor *x, struct rv_lora_targets *targets);
/* The same for one product, which is returned. */
struct ggml_tensor *rv_build_change_one(const struct rv_build *b, int32_t layer, enum rv_part part,
                                        struct ggml_tensor *x, struct ggml_tensor *y);
/* The same for the head's input x [n_embd, n_out]. */
struct ggml_tensor *rv_build_change_head(const struct rv_build *b, struct ggml_tensor *x);

#endif
