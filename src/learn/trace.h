/*
 * What an answer leaves behind for learning: for each of its tokens the state the head read and the gradient of its
 * likelihood by that state, in 16 bits. Traces of finished answers wait for feedback in a ring of bounded size. Where
 * there is too little room, the oldest lose their rows and keep their words, by which an answer can be read again; and
 * go much later. Whoever found a trace keeps it alive, and as it is.
 *
 * Threads: a trace is filled by one thread, then put into the ring and never changed again. The ring may be used from
 * any thread.
 */
#ifndef RV_LEARN_TRACE_H
#define RV_LEARN_TRACE_H

#include "base/error.h"

#include <stdatomic.h>

enum {
    RV_TRACE_MAX_ROWS = 512,    // of an answer: what comes later leaves no trace
    RV_TRACE_MAX_PROMPT = 8192, // tokens of a question that are kept for corrections
    RV_TRACE_TOP = 32           // likeliest tokens that a row names
};

struct rv_trace {
    uint64_t id; // of the answer
    char *tenant;
    int64_t generation; // of what had been learned when it was answered
    uint64_t layers;    // what was learned below the head then: other states belong to others; 0: nothing
    double reach;       // how far a judgement of it may go, against what is usual; 0: as usual
    int32_t n_dims;
    int32_t n_prompt;   // tokens that were asked
    int32_t *prompt;    // they; NULL: they were more than are kept
    int32_t asked_last; // the last of them; -1: not told
    bool has_adapters;  // it was answered with adapters that the request named
    int32_t n_rows;
    int32_t cap;
    float scale; // of its logits: 1 / temperature
    int32_t *tokens;
    int32_t *top;        // n_rows of RV_TRACE_TOP: the likeliest, the first first; -1 where there are fewer
    float *logprobs;     // of the tokens, as the head had them
    bool *is_recalled;   // of each: whether memory had a say in it
    uint16_t *states;    // n_rows of n_dims, bfloat16
    uint16_t *gradients; // likewise
    uint16_t *probes;    // likewise: of a token drawn from the same distribution, which says how far a change reaches
    atomic_int n_refs;
    struct rv_trace *next;      // in the ring, newer
    struct rv_trace *next_like; // in the ring, of those whose ids look alike
};

/* Room for an answer of up to max_tokens; one reference. */
RV_CHECKED ruvllm_status rv_trace_new(struct rv_trace **out, uint64_t id, const char *tenant, int32_t n_dims,
                                      int32_t max_tokens, struct ruvllm_error *err);
/* Keeps a copy of what was asked, 1 token or more, unless that is more than RV_TRACE_MAX_PROMPT. */
RV_CHECKED ruvllm_status rv_trace_set_prompt(struct rv_trace *trace, const int32_t *tokens, int32_t n_tokens,
                                             struct ruvllm_error *err);
/* The n tokens that were read before the one of a row was drawn, the last first; -1 where it is not known. */
void rv_trace_context(const struct rv_trace *trace, int32_t row, int32_t *out, int32_t n);
struct rv_trace *rv_trace_ref(struct rv_trace *trace);
void rv_trace_unref(struct rv_trace *trace);
/* False: only the words are left, of question and answer. */
bool rv_trace_has_rows(const struct rv_trace *trace);
/* True when its words say what was answered to what, by the model and what it has learned alone. */
bool rv_trace_can_be_read_again(const struct rv_trace *trace);
uint64_t rv_trace_n_bytes(const struct rv_trace *trace);

struct rv_trace_ring;

RV_CHECKED ruvllm_status rv_trace_ring_new(struct rv_trace_ring **out, uint64_t max_bytes, struct ruvllm_error *err);
void rv_trace_ring_free(struct rv_trace_ring *ring);
/* Changes how much it may hold; what is too much goes at once. */
void rv_trace_ring_resize(struct rv_trace_ring *ring, uint64_t max_bytes);
/* Takes over the reference; gives back the room of tokens that did not come. */
void rv_trace_ring_add(struct rv_trace_ring *ring, struct rv_trace *trace);
/* A reference of the caller's; NULL when it is not, or no longer, there, or is another tenant's. */
struct rv_trace *rv_trace_ring_find(struct rv_trace_ring *ring, uint64_t id, const char *tenant);
/* All that are in `from`, the oldest first, as if each was added to `to`. */
void rv_trace_ring_move(struct rv_trace_ring *to, struct rv_trace_ring *from);

#endif
