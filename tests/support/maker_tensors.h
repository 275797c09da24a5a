/*
 * The tensors of a synthetic model: names and shapes as the architecture has them, and the numbers in them.
 *
 * How numbers are chosen. With unit-size input after a norm, a matrix of spread g/sqrt(columns) gives outputs of
 * spread g. Queries and keys get sqrt(attn_gain) each, so scores spread by attn_gain and attention picks few
 * tokens; the head gets logit_gain, so distributions are peaked and an error shows in them. Norm weights vary
 * around their size; those before a tied head have random signs, or every model would repeat its last token.
 */
#ifndef RV_TESTS_SUPPORT_MAKER_TENSORS_H
#define RV_TESTS_SUPPORT_MAKER_TENSORS_H

#include <ggml.h>

#include "support/maker_spec.h"

enum maker_fill {
    MAKER_FILL_NORMAL, // around zero
    MAKER_FILL_NORM,   // around the scale, a quarter up and down
    MAKER_FILL_SIGNED, // the same with random signs
    MAKER_FILL_CONST,  // the scale itself
    MAKER_FILL_LLAMA3, // rope frequency factors, computed from the spec
    MAKER_FILL_LONG,
    MAKER_FILL_SHORT
};

enum { MAKER_CONV_LENGTH = 4 }; // mamba: tokens that its convolution sees

struct maker_tensor {
    char name[64];
    char seed_name[64]; // "": its own; else the tensor whose numbers it shares
    enum ggml_type type;
    int64_t ne[2]; // columns, rows
    int n_dims;
    int32_t n_stacked; // matrices of ne[1] / n_stacked rows along a third dimension; 0: there are two
    enum maker_fill fill;
    float scale;
    int64_t part_start[2]; // fused matrices: rows where the second and the third part begin; 0: one part
    float part_scale[2];   // their spreads
};

struct maker_tensors {
    struct maker_tensor *items;
    size_t n_items;
    size_t cap;
    bool failed; // memory ran out
};

/* All tensors of the spec, in file order. */
RV_CHECKED ruvllm_status maker_tensors_list(struct maker_tensors *list, const struct maker_spec *spec,
                                            struct ruvllm_error *err);
void maker_tensors_release(struct maker_tensors *list);

struct rv_rng;
/* Starts the stream of numbers that belongs to this tensor. */
void maker_tensor_seed(const struct maker_tensor *tensor, const struct maker_spec *spec, struct rv_rng *rng);
/* The next row: ne[0] floats. Rows must be taken in order, each once. */
void maker_tensor_row(const struct maker_tensor *tensor, const struct maker_spec *spec, int64_t row, struct rv_rng *rng,
                      float *out);

#endif
