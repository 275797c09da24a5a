/*
 * Which of a few ways to answer a question suits it: with what was learned or without, by this model or that one, with
 * these keys and values or cheaper ones. Learned from how answers were judged, a ridge regression of the quality on the
 * question for each way, and the one taken that could be the best (LinUCB, arXiv 1003.0146). No chance is involved: the
 * same judgements in the same order give the same choices.
 *
 * A router is plain memory: one thread at a time, copied by assignment. It is kept as a policy of its tenant.
 */
#ifndef RV_LEARN_ROUTER_H
#define RV_LEARN_ROUTER_H

#include "learn/pattern_scan.h"
#include "store/store.h"

enum {
    RV_ROUTER_MAX_ARMS = 4,
    RV_ROUTER_DIMS = 32, // of a question: the directions in which questions differ most
    RV_ROUTER_TERMS = RV_ROUTER_DIMS + 1,
    RV_ROUTER_PACKED = RV_ROUTER_TERMS * (RV_ROUTER_TERMS + 1) / 2
};

struct rv_router_arm {
    int64_t n_votes;
    double inverse[RV_ROUTER_PACKED]; // of I + the sum of x x^T; the lower half, row after row
    double sums[RV_ROUTER_TERMS];     // of quality x
};

struct rv_router {
    int32_t n_arms;
    struct rv_router_arm arms[RV_ROUTER_MAX_ARMS];
};

/* 2 to RV_ROUTER_MAX_ARMS ways, of which the first is taken as long as nothing is known. */
void rv_router_init(struct rv_router *out, int32_t n_arms);
/*
 * The arm for a question (by rv_pattern_scan_embed, n_dims of it). `curiosity` is how much not knowing counts for an
 * arm: 0 takes what is best as far as is known, 0.5 tries what might be better.
 */
int32_t rv_router_choose(const struct rv_router *router, const uint16_t *question, size_t n_dims, double curiosity);
/* What is expected of an arm, and by how much that may be off. */
double rv_router_expect(const struct rv_router *router, int32_t arm, const uint16_t *question, size_t n_dims,
                        double *deviation);
/* An answer by `arm` was judged: quality 0 to 1, else INVALID. */
RV_CHECKED ruvllm_status rv_router_learn(struct rv_router *router, int32_t arm, const uint16_t *question, size_t n_dims,
                                         double quality, struct ruvllm_error *err);

/* As text and back, to the bit. FORMAT for a text that is none. The text is the caller's: rv_free. */
RV_CHECKED ruvllm_status rv_router_write(const struct rv_router *router, char **text, size_t *len,
                                         struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_router_read(struct rv_router *out, const char *text, size_t len, struct ruvllm_error *err);

/* The tenant's policy of that name; as rv_router_init where there is none, INVALID where it has other arms. */
RV_CHECKED ruvllm_status rv_router_load(struct rv_router *out, struct ruvllm_store *store, const char *tenant,
                                        const char *name, int32_t n_arms, struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_router_save(const struct rv_router *router, struct ruvllm_store *store, const char *tenant,
                                        const char *name, struct ruvllm_error *err);

#endif
