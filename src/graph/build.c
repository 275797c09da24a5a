/* The steps every part of the graph is made of. */
#include "graph/build.h"

struct ggml_tensor *rv_build_norm(const struct rv_build *b, struct ggml_tensor *x, struct ggml_tensor *scale,
                                  struct ggml_tensor *bias)
{
    float eps = b->hparams->norm_eps;

    x = b->hparams->arch->norm == RV_ARCH_NORM_RMS ? ggml_rms_norm(b->ctx, x, eps) : ggml_norm(b->ctx, x, eps);
    x = ggml_mul(b->ctx, x, scale);
    return bias ? ggml_add(b->ctx, x, bias) : x;
}

struct ggml_tensor *rv_build_linear(const struct rv_build *b, struct ggml_tensor *w, struct ggml_tensor *bias,
                                    struct ggml_tensor *x)
{
    x = ggml_mul_mat(b->ctx, w, x);
    return bias ? ggml_add(b->ctx, x, bias) : x;
}

void rv_build_change(const struct rv_build *b, struct ggml_tensor *x, struct rv_lora_targets *targets)
{
    if (!(b->lora_needs & RV_LORA_LAYERS))
        return;
    targets->only_out = x->ne[1] != b->n_rows; // when all are read out, the two are the same
    if (b->lora_stack)
        rv_lora_stack_change(b->lora_stack, b->ctx, x, targets);
    else
        rv_lora_change(b->lora, b->ctx, b->graph, x, targets);
}

struct ggml_tensor *rv_build_change_one(const struct rv_build *b, int32_t layer, enum rv_part part,
                                        struct ggml_tensor *x, struct ggml_tensor *y)
{
    struct rv_lora_targets targets = {.layer = layer, .n = 1, .parts = {part}, .y = {y}};

    rv_build_change(b, x, &targets);
    return targets.y[0];
}

struct ggml_tensor *rv_build_change_head(const struct rv_build *b, struct ggml_tensor *x)
{
    if (!(b->lora_needs & RV_LORA_HEAD))
        return x;
    return b->lora_stack ? rv_lora_stack_head(b->lora_stack, b->ctx, x) : rv_lora_head(b->lora, b->ctx, x);
}
