/*
 * A learner without a model: random states make its whitening, and random traces stand for answers. Everything comes
 * from seeds, so two learners that are told the same learn the same bits.
 */
#ifndef RV_TESTS_SUPPORT_LEARN_FIXTURE_H
#define RV_TESTS_SUPPORT_LEARN_FIXTURE_H

#include "learn/learner.h"
#include "support/test.h"

struct learn_fixture {
    int32_t n_dims;
    int32_t n_rows; // of an answer
    int32_t rank;
    uint64_t tenant_bytes; // as rv_learner_config has it
    ruvllm_store *store;   // may be NULL
    const char *model;     // NULL: "m"
};

/* The whitening that all of a width have. */
ruvllm_status learn_fixture_whitening(int32_t n_dims, struct rv_whitening *out, struct ruvllm_error *err);
/* Fails the running case where it cannot. */
struct rv_learner *learn_fixture_open(const struct learn_fixture *fixture);
/* The same, as a status. */
ruvllm_status learn_fixture_try(const struct learn_fixture *fixture, struct rv_learner **out, struct ruvllm_error *err);
/* An answer to this tenant that waits for feedback under `id`, which is also its seed. */
void learn_fixture_answer(struct rv_learner *learner, const struct learn_fixture *fixture, const char *tenant,
                          uint64_t id);
/* Of a memory alone; NULL has 0. */
uint64_t learn_fixture_memory_bits(const struct rv_memory *memory);
/* What answers a tenant: a hash of every bit of it, and the generation. Fails the running case where it cannot. */
uint64_t learn_fixture_bits(struct rv_learner *learner, const char *tenant, int64_t *generation);

#endif
