/*
 * A low-rank change of a model's matrices, as it is computed with: W x becomes W x + scale B (A x), and the state the
 * head reads, h, becomes h + scale B (A h). Immutable once made; shared by counting references, from any thread.
 *
 * A is stored as its rows, rank of n_in numbers; B rank-major: its columns, rank of n_out numbers. Both in 16 bits.
 * Files keep more (adapter_file.h); this is what steps read.
 */
#ifndef RV_MODEL_ADAPTER_H
#define RV_MODEL_ADAPTER_H

#include "model/manifest.h"

enum { RV_ADAPTER_MAX_RANK = 256 };

struct rv_adapter_pair {
    int32_t rank; // 0: the matrix stays as it is
    int32_t n_in;
    int32_t n_out;
    float scale;       // alpha / rank, or alpha / sqrt(rank)
    const uint16_t *a; // [rank][n_in] F16
    const uint16_t *b; // [rank][n_out] F16
};

struct rv_adapter {
    int32_t n_layers;
    struct rv_adapter_pair (*layers)[RV_N_PARTS]; // n_layers of them; NULL: nothing below the head is changed
    struct rv_adapter_pair head;                  // n_embd to n_embd
    int32_t max_rank;
    uint64_t n_bytes; // of memory, all of it
    struct rv_adapter_storage *storage;
};

/* Makes room for a change of a model with these numbers: `pairs` says rank and scale of each, the rest is filled in. */
struct rv_adapter_shape {
    const struct rv_hparams *hparams;
    const struct rv_manifest *manifest;
    const struct rv_adapter_pair (*layers)[RV_N_PARTS]; // rank and scale are read; NULL: none
    int32_t head_rank;
    float head_scale;
};

/* The numbers are given in 32 bits, A as rows, B as the matrix [n_out][rank]; INVALID where one is not finite in 16. */
struct rv_adapter_numbers {
    const float *a;
    const float *b;
};

/*
 * *out has one reference. `numbers` is asked for each pair of rank > 0, in the order of layers and parts, the head last
 * (layer -1); what it points to is copied before the next call. INVALID for a rank above RV_ADAPTER_MAX_RANK or a part
 * that is no matrix of the model.
 */
typedef ruvllm_status (*rv_adapter_numbers_fn)(void *user, int32_t layer, enum rv_part part,
                                               struct rv_adapter_numbers *out, struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_adapter_new(struct rv_adapter **out, const struct rv_adapter_shape *shape,
                                        rv_adapter_numbers_fn numbers, void *user, struct ruvllm_error *err);
struct rv_adapter *rv_adapter_ref(struct rv_adapter *adapter);
/* Frees it with the last reference. Accepts NULL. */
void rv_adapter_unref(struct rv_adapter *adapter);

#endif
