/*
 * What one step computes: rows of tokens, each with its place in a sequence. Rows of different sequences may be
 * mixed; the order within a sequence is by position.
 */
#ifndef RV_GRAPH_BATCH_H
#define RV_GRAPH_BATCH_H

#include <stdint.h>

struct rv_kv_seq;

struct rv_batch {
    int32_t n_rows;
    const int32_t *tokens;         // n_rows
    const int32_t *pos;            // n_rows
    const int32_t *seq;            // n_rows; with block tables an index into seqs, and a sequence's rows are neighbours
    struct rv_kv_seq *const *seqs; // block tables, with the places of all rows reserved; NULL for a cache of cells
    const int32_t *slots;          // of seqs, for who keeps keys and values itself: below max_running; NULL: seq itself
    const int32_t *adapters;       // n_rows of adapter slots, -1 for none; NULL: none at all
    const int32_t *out_rows;       // n_out row numbers, ascending: whose results are wanted
    int32_t n_out;                 // 0: only the state of the sequences is wanted
};

#endif
