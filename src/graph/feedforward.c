/* Gate and up as one matrix or two; the activation by the architecture. */
#include "graph/feedforward.h"

struct ggml_tensor *rv_feedforward(const struct rv_build *b, int32_t layer, struct ggml_tensor *x)
{
    const struct rv_layer_weights *l = &b->weights->layers[layer];
    bool gelu = b->hparams->arch->activation == RV_ARCH_GELU;

    if (l->gate_up) {
        x = rv_build_linear(b, l->gate_up, l->gate_up_b, x); /* [2 n_ff, rows]: gate, then up */
        x = gelu ? ggml_geglu(b->ctx, x) : ggml_swiglu(b->ctx, x);
    } else {
        struct ggml_tensor *up = rv_build_linear(b, l->up, l->up_b, x); /* [n_ff, rows] */
        struct ggml_tensor *gate = rv_build_linear(b, l->gate, l->gate_b, x);
        x = gelu ? ggml_geglu_split(b->ctx, gate, up) : ggml_swiglu_split(b->ctx, gate, up);
    }
    return rv_build_linear(b, l->down, l->down_b, x); /* [n_embd, rows] */
}
