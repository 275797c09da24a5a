/*
 * Which type each tensor of a model gets when the model is quantised: the names people know (Q8_0, Q4_K_M, ...) and the
 * rules behind them. The rules are explained in docs/internals/quantize.md.
 */
#ifndef RV_MODEL_QUANTIZE_MIX_H
#define RV_MODEL_QUANTIZE_MIX_H

#include "base/error.h"
#include "base/str.h"

#include <ggml.h>

enum rv_quantize_raise {
    RV_QUANTIZE_RAISE_NONE,
    RV_QUANTIZE_RAISE_OUTER, // in the first and the last quarter of the layers
    RV_QUANTIZE_RAISE_ALL    // in all layers
};

struct rv_quantize_mix {
    const char *name;
    enum ggml_type base;   // what most matrices get
    enum ggml_type raised; // what the value and down projections get in the layers of `where`
    enum ggml_type head;   // what the embedding and the output get
    enum rv_quantize_raise where;
    uint32_t file_type; // general.file_type, as readers of GGUF number it
};

/* The mix at `index` in the order the help shows them; NULL beyond the last. */
const struct rv_quantize_mix *rv_quantize_mix_at(size_t index);
/*
 * By name, whatever its case. A type that needs an importance matrix is UNSUPPORTED, an unknown name INVALID; both
 * messages say what to take instead.
 */
RV_CHECKED ruvllm_status rv_quantize_mix_find(const char *name, const struct rv_quantize_mix **out,
                                              struct ruvllm_error *err);

/* What the rules want for a tensor of a model of n_layers. `is_pure`: the base type for all. */
enum ggml_type rv_quantize_mix_type(const struct rv_quantize_mix *mix, struct rv_str tensor, int n_layers,
                                    bool is_pure);
/* `type` where whole blocks of it make up a row of row_len elements, else the type that takes its place. */
enum ggml_type rv_quantize_mix_fit(enum ggml_type type, int64_t row_len);
/* The layer a tensor belongs to ("blk.7.attn_v.weight": 7); -1 for those of no layer. */
int rv_quantize_mix_layer(struct rv_str tensor);
/* Whether quantising concerns the tensor at all: a matrix people multiply with, no norm, bias, router or adapter. */
bool rv_quantize_mix_applies(struct rv_str tensor, int n_dims);

#endif
