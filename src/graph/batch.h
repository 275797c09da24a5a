/*
 * What one step computes: rows of tokens, each with its place in a sequence. Rows of different sequences may be
 * mixed; the order within a sequence is by position.
 */
#ifndef RV_GRAPH_BATCH_H
#define RV_GRAPH_BATCH_H

#include <stddef.h>
#include <stdint.h>

struct rv_adapter;
struct rv_kv_seq;

enum {
    RV_ADAPTER_MIX_MAX = 4,                     // that a request names
    RV_ADAPTER_MIX_ALL = RV_ADAPTER_MIX_MAX + 2 // with what was learned: at the head, and below it
};

/*
 * The adapters of a request, whose changes add up; zeroed: none. Whoever fills it keeps the adapters alive until the
 * step was computed.
 */
struct rv_adapter_mix {
    int32_t n_adapters;
    const struct rv_adapter *adapters[RV_ADAPTER_MIX_ALL];
    float weights[RV_ADAPTER_MIX_ALL];
    /*
     * [n_adapters][n_embd], finite: each token's weights are also multiplied with softmax(gates e), e being the token's
     * row of the embedding as the first layer gets it (after X-LoRA, whose gates are read from hidden states). NULL:
     * they are not.
     */
    const float *gates;
};

struct rv_batch {
    int32_t n_rows;
    const int32_t *tokens;         // n_rows
    const int32_t *pos;            // n_rows
    const int32_t *seq;            // n_rows; with block tables an index into seqs, and a sequence's rows are neighbours
    struct rv_kv_seq *const *seqs; // block tables, with the places of all rows reserved; NULL for a cache of cells
    const int32_t *slots;          // of seqs, for who keeps keys and values itself: below max_running; NULL: seq itself
    const int32_t *adapters;       // n_rows: whose adapters a row has, an index into mixes; NULL: none has any
    const struct rv_adapter_mix *const *mixes; // n_mixes, at most as many as a batch may have rows; entries may be NULL
    int32_t n_mixes;
    const int32_t *out_rows; // n_out row numbers, ascending: whose results are wanted
    int32_t n_out;           // 0: only the state of the sequences is wanted
};

/* A row's adapters; NULL: it has none. */
static inline const struct rv_adapter_mix *rv_batch_mix(const struct rv_batch *batch, int32_t row)
{
    int32_t i = batch->adapters ? batch->adapters[row] : -1;
    const struct rv_adapter_mix *mix = i < 0 ? NULL : batch->mixes[i];

    return mix && mix->n_adapters > 0 ? mix : NULL;
}

#endif
