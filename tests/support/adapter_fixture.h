/* Adapters of random numbers, and models with adapters merged into their matrices. Failures fail the running case. */
#ifndef RV_TESTS_SUPPORT_ADAPTER_FIXTURE_H
#define RV_TESTS_SUPPORT_ADAPTER_FIXTURE_H

#include "graph/batch.h"
#include "model/adapter.h"

struct adapter_fixture {
    const struct rv_hparams *hparams;
    const struct rv_manifest *manifest;
    uint64_t seed;
    int32_t rank;      // of every matrix of the layers; 0: none
    int32_t head_rank; // 0: none
    float strength;    // how much is added, against input of size 1
};

/* For rv_adapter_unref. Scales are powers of two between 1/2 and 2. */
struct rv_adapter *adapter_fixture_new(const struct adapter_fixture *fixture);
/* The same with layers of one seed and the head of another, each of the fixture's rank; 0: without them, or it. */
struct rv_adapter *adapter_fixture_new_of(const struct adapter_fixture *fixture, uint64_t layers_seed,
                                          uint64_t head_seed);

/*
 * Writes `model` with all its matrices in F32 and the mix merged into them; NULL: as they are. A change of the head's
 * input goes into output.weight, which a file without one gets.
 */
void adapter_fixture_merge(const struct rv_gguf_file *model, const struct rv_hparams *hparams,
                           const struct rv_manifest *manifest, const struct rv_adapter_mix *mix, const char *out);

#endif
