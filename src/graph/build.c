/* The two steps every part of the graph is made of. */
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
