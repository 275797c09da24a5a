/*
 * Keys of one event: states in which a certain token is to follow, or is not. Immutable once made, shared by all
 * generations of a tenant's memory that have it, and kept in the event as bytes.
 */
#ifndef RV_LEARN_MEMORY_PAGE_H
#define RV_LEARN_MEMORY_PAGE_H

#include "base/str.h"
#include "learn/trace.h"
#include "learn/whitening.h"

#include <stdatomic.h>

enum {
    RV_MEMORY_PAGE_MAX = 96,     // keys
    RV_MEMORY_PAGE_CONTEXT = 32, // tokens before a key that it knows
    RV_MEMORY_PAGE_SCRATCH = 4
};

/* A key is met after the last token of its context only. */
struct rv_memory_key {
    int32_t context[RV_MEMORY_PAGE_CONTEXT]; // tokens read before, the last first; -1: not known
    int32_t token;                           // that is to follow
    float strength;                          // 0 to 1; below 0, down to -1: it is not to follow
    float square;                            // of its length
};

struct rv_memory_page {
    atomic_int n_refs;
    int32_t n_dims;
    int32_t n_keys;
    struct rv_memory_key *keys;
    uint16_t *places; // n_keys rows of n_dims, bfloat16: whitened states
};

/* Which rows of an answer become keys. */
struct rv_memory_page_choice {
    float strength;   // of the keys; below 0: against their tokens
    float least;      // probability of a row's token from which on it becomes one
    float most;       // ... and below which
    int32_t max_keys; // the likeliest go
};

/*
 * Appends keys of a trace to *page, which is made when it is NULL; it stays NULL when no row is chosen, and rows whose
 * state is no number never are. Against tokens
 * that memory itself had said there is one in any case, as long as there is room. A page holds RV_MEMORY_PAGE_MAX at
 * most. `scratch` is RV_MEMORY_PAGE_SCRATCH rows of n_dims. A failure leaves the page as it was.
 */
RV_CHECKED ruvllm_status rv_memory_page_add(struct rv_memory_page **page, const struct rv_trace *trace,
                                            const struct rv_memory_page_choice *choice,
                                            const struct rv_whitening *whitening, float *scratch,
                                            struct ruvllm_error *err);
/* The keys that are wanted, of page->n_keys; *out is the caller's, the page itself when all are, NULL when none is. */
RV_CHECKED ruvllm_status rv_memory_page_pick(struct rv_memory_page **out, struct rv_memory_page *page,
                                             const bool *is_wanted, struct ruvllm_error *err);
/* How many of the tokens before, from the last one on, two contexts share; all, when they also begin together. */
int32_t rv_memory_page_shared(const int32_t *a, const int32_t *b);
/*
 * How much farther than after one token a key reaches when `n_shared` are the same: the same words before make it
 * likelier that the same is meant.
 */
float rv_memory_page_reach(int32_t n_shared);
/* How far a key is believed then, 0 to 1: after one token it is one guess among others. */
float rv_memory_page_trust(int32_t n_shared);
struct rv_memory_page *rv_memory_page_ref(struct rv_memory_page *page);
void rv_memory_page_unref(struct rv_memory_page *page);

/*
 * As bytes of an event, and back; no bytes are no page. What is written can be read: INVALID for a page with a key that
 * reading would refuse. FORMAT for bytes that are none, or of another width.
 */
RV_CHECKED ruvllm_status rv_memory_page_write(const struct rv_memory_page *page, struct rv_str *out,
                                              struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_memory_page_read(struct rv_memory_page **out, int32_t n_dims, struct rv_str bytes,
                                             struct ruvllm_error *err);

#endif
