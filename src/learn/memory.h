/*
 * What a tenant's model is to say in certain states, word by word: keys of its events, the newest first to count. A
 * memory is immutable; an event makes the next one, which shares the pages. At decode a row's state is compared with
 * the keys that were met after the same token, and where one lies inside the radius, p becomes (1 - l) p + l q, with q
 * what the keys nearby say and l less the farther they are (kNN-LM's mixture, arXiv 1911.00172, with GRACE's radius,
 * arXiv 2211.11031, both on whitened states). Keys against a token lower its odds.
 *
 * Threads: the functions may be called from any; a memory stays as long as somebody has a reference.
 */
#ifndef RV_LEARN_MEMORY_H
#define RV_LEARN_MEMORY_H

#include "learn/memory_page.h"

enum {
    RV_MEMORY_MAX_KEYS = 8192,     // of a tenant; the oldest go
    RV_MEMORY_MAX_BYTES = 16 << 20 // likewise, of their places: less keys for models of more than 1024 dimensions
};

struct rv_memory;

/*
 * The memory after `page` (NULL: nothing new) was added to `before` (NULL: nothing). What a new key says in its place
 * is said by no older one. *out is the caller's; NULL when it has no keys.
 */
RV_CHECKED ruvllm_status rv_memory_extend(struct rv_memory **out, const struct rv_memory *before,
                                          struct rv_memory_page *page, const struct rv_whitening *whitening,
                                          struct ruvllm_error *err);
/* `before` without the keys that `is_dropped` says; *out is the caller's; NULL when it has no keys. */
typedef bool (*rv_memory_key_fn)(void *user, const struct rv_memory_page *page, int32_t key);
RV_CHECKED ruvllm_status rv_memory_without(struct rv_memory **out, const struct rv_memory *before,
                                           rv_memory_key_fn is_dropped, void *user, struct ruvllm_error *err);
struct rv_memory *rv_memory_ref(struct rv_memory *memory);
void rv_memory_unref(struct rv_memory *memory);
int32_t rv_memory_n_keys(const struct rv_memory *memory); // NULL has 0
/* Its pages, the oldest first; adding them to nothing in this order gives the same memory. */
struct rv_memory_page *const *rv_memory_pages(const struct rv_memory *memory, int32_t *n);

enum { RV_MEMORY_MAX_WORDS = 8 };

/* What a memory says about the next token. */
struct rv_memory_word {
    int32_t token;
    float weight; // share of q; below 0: its odds are to be multiplied with 1 + weight
};

struct rv_memory_answer {
    float share;    // l: 0 when no key that is for a token is near
    float distance; // of the nearest key, in radii
    int32_t n_words;
    struct rv_memory_word words[RV_MEMORY_MAX_WORDS];
};

/*
 * Looks up what follows `tokens` (at least one; the last RV_MEMORY_PAGE_CONTEXT are looked at) in `state`, which has
 * n_dims numbers; false when the memory says nothing. `scratch` is n_dims floats, used only if there are keys after the
 * last token. Allocates nothing.
 */
bool rv_memory_ask(const struct rv_memory *memory, const int32_t *tokens, int32_t n_tokens, const float *state,
                   float *scratch, struct rv_memory_answer *answer);
/* Puts an answer into a row of logits: only those of its tokens change. */
void rv_memory_mix(const struct rv_memory_answer *answer, float *logits, size_t n_vocab);

#endif
