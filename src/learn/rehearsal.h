/*
 * A tenant's recent answers that were voted on, kept to be gone over again: the good ones and the others apart, so that
 * what is rare is not crowded out. Some of either kind are held out: nothing is learned from them, they only say
 * whether what was learned helps elsewhere.
 *
 * Threads: the rehearsal belongs to whoever holds its tenant; answers are immutable, and whoever has a reference may
 * read them.
 */
#ifndef RV_LEARN_REHEARSAL_H
#define RV_LEARN_REHEARSAL_H

#include "learn/trace.h"

enum {
    RV_REHEARSAL_MAX = 128,   // answers of either kind
    RV_REHEARSAL_HELD_OUT = 5 // every fifth is
};

struct rv_rehearsal_answer {
    atomic_int n_refs;
    double score;
    double advantage;   // when the vote came
    int64_t generation; // that came of the vote
    bool is_held_out;
    int32_t n_dims;
    int32_t n_rows;
    float scale; // of the logits it was drawn from
    int32_t *tokens;
    int32_t *top; // n_rows of RV_TRACE_TOP
    float *logprobs;
    uint16_t *states; // n_rows of n_dims
};

struct rv_rehearsal_kind {
    struct rv_rehearsal_answer *answers[RV_REHEARSAL_MAX]; // a ring
    size_t n;
    uint64_t n_seen;
    size_t oldest;
};

struct rv_rehearsal {
    struct rv_rehearsal_kind good, bad;
    uint64_t n_bytes;
    uint64_t max_bytes;
};

void rv_rehearsal_init(struct rv_rehearsal *out, uint64_t max_bytes);
/* Forgets everything; ready for reuse. */
void rv_rehearsal_clear(struct rv_rehearsal *rehearsal);
/* Copies what is needed of a trace. What is too much goes, the oldest of the larger kind first. */
RV_CHECKED ruvllm_status rv_rehearsal_add(struct rv_rehearsal *rehearsal, const struct rv_trace *trace, double score,
                                          double advantage, int64_t generation, struct ruvllm_error *err);
/* Forgets votes that later generations came of: they were taken back. */
void rv_rehearsal_drop_after(struct rv_rehearsal *rehearsal, int64_t generation);
/* References of the caller's to all answers, good ones first; out has room for 2 x RV_REHEARSAL_MAX. */
size_t rv_rehearsal_take(const struct rv_rehearsal *rehearsal, struct rv_rehearsal_answer **out);
void rv_rehearsal_unref(struct rv_rehearsal_answer *answer);

#endif
