/* Gate and up as one matrix or two; the activation by the architecture. */
#include "graph/feedforward.h"

struct ggml_tensor *rv_feedforward(const struct rv_build *b, int32_t layer, struct ggml_tensor *x)
{
    const struct rv_layer_weights *l = &b->weights->layers[layer];
    bool gelu = b->hparams->arch->activation == RV_ARCH_GELU;

    if (l->gate_up) {
        struct ggml_tensor *both = rv_build_linear(b, l->gate_up, l->gate_up_b, x); /* [2 n_ff, rows]: gate, then up */
        both = rv_build_change_one(b, layer, RV_PART_UP, x, both);
        x = gelu ? ggml_geglu(b->ctx, both) : ggml_swiglu(b->ctx, both);
    } else {
        struct ggml_tensor *up = rv_build_linear(b, l->up, l->up_b, x); /* [n_ff, rows] */
        struct ggml_tensor *gate = rv_build_linear(b, l->gate, l->gate_b, x);
        struct rv_lora_targets targets = {.layer = layer, .n = 2, .parts = {RV_PART_GATE, RV_PART_UP}, .y = {gate, up}};
        rv_build_change(b, x, &targets);
        gate = targets.y[0];
        up = targets.y[1];
        x = gelu ? ggml_geglu_split(b->ctx, gate, up) : ggml_swiglu_split(b->ctx, gate, up);
    }
    return rv_build_change_one(b, layer, RV_PART_DOWN, x,
                               rv_build_linear(b, l->down, l->down_b, x)); /* [n_embd, rows] */
}
