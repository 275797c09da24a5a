#include "support/learn_fixture.h"

#include "base/rng.h"
#include "base/str_map.h"
#include "kernels/vec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The learner keeps pointers to these. */
static struct rv_hparams *hparams_of(int32_t n_dims)
{
    static struct rv_hparams kept[8];
    size_t i = 0;

    while (i < 7 && kept[i].n_embd != n_dims && kept[i].n_embd)
        i++;
    assert_true(kept[i].n_embd == n_dims || !kept[i].n_embd);
    kept[i].n_embd = n_dims;
    return &kept[i];
}

ruvllm_status learn_fixture_whitening(int32_t n_dims, struct rv_whitening *out, struct ruvllm_error *err)
{
    size_t n = 256 * (size_t)n_dims;
    float *states = malloc(n * sizeof(*states));
    struct rv_rng rng;
    ruvllm_status rc;

    assert_non_null(states);
    rv_rng_init(&rng, 99);
    for (size_t i = 0; i < n; i++)
        states[i] = (float)rv_rng_normal(&rng) * (i % (size_t)n_dims < 4 ? 5.0f : 1.0f);
    rc = rv_whitening_init(out, states, 256, n_dims, err);
    free(states);
    return rc;
}

ruvllm_status learn_fixture_try(const struct learn_fixture *f, struct rv_learner **out, struct ruvllm_error *err)
{
    static const struct rv_manifest manifest;
    struct rv_learner_config config = {.hparams = hparams_of(f->n_dims),
                                       .manifest = &manifest,
                                       .store = f->store,
                                       .model = f->model ? f->model : "m",
                                       .rank = f->rank,
                                       .trace_bytes = (uint64_t)1 << 26,
                                       .tenant_bytes = f->tenant_bytes};
    struct rv_whitening whitening = {0};
    ruvllm_status rc = learn_fixture_whitening(f->n_dims, &whitening, err);

    *out = NULL;
    return rc ? rc : rv_learner_new(out, &config, &whitening, err);
}

struct rv_learner *learn_fixture_open(const struct learn_fixture *fixture)
{
    struct rv_learner *learner;

    assert_ok(learn_fixture_try(fixture, &learner, err));
    return learner;
}

void learn_fixture_answer(struct rv_learner *learner, const struct learn_fixture *f, const char *tenant, uint64_t id)
{
    struct rv_trace *trace;
    struct rv_rng rng;
    size_t n = (size_t)f->n_rows * (size_t)f->n_dims;

    assert_ok(rv_trace_new(&trace, id, tenant, f->n_dims, f->n_rows, err));
    rv_rng_init(&rng, id);
    for (size_t i = 0; i < n; i++) {
        trace->states[i] = rv_vec_to_bf16((float)rv_rng_normal(&rng));
        trace->gradients[i] = rv_vec_to_bf16(0.3f * (float)rv_rng_normal(&rng));
        trace->probes[i] = trace->gradients[i];
    }
    for (int32_t i = 0; i < f->n_rows; i++) {
        trace->tokens[i] = i;
        trace->logprobs[i] = -1.0f - (float)rv_rng_below(&rng, 100) / 50.0f;
    }
    trace->n_rows = f->n_rows;
    rv_trace_ring_add(rv_learner_traces(learner), trace);
}

uint64_t learn_fixture_memory_bits(const struct rv_memory *memory)
{
    uint64_t bits = (uint64_t)rv_memory_n_keys(memory) << 40;
    int32_t n;
    struct rv_memory_page *const *pages = rv_memory_pages(memory, &n);

    for (int32_t i = 0; i < n; i++) {
        size_t len = (size_t)pages[i]->n_keys * (size_t)pages[i]->n_dims * sizeof(uint16_t);

        bits = bits * 31 + rv_str_map_hash(3, (const char *)pages[i]->places, len);
    }
    return bits;
}

uint64_t learn_fixture_bits(struct rv_learner *learner, const char *tenant, int64_t *generation)
{
    struct rv_adapter *adapter;
    struct rv_memory *memory;
    uint64_t bits = 0;
    int64_t mine;

    assert_ok(rv_learner_current(learner, tenant, &adapter, &memory, generation ? generation : &mine, err));
    if (adapter) {
        const struct rv_adapter_pair *head = &adapter->head;
        size_t n = (size_t)head->rank * (size_t)head->n_in * sizeof(uint16_t);

        bits = rv_str_map_hash(1, (const char *)head->a, n) ^ rv_str_map_hash(2, (const char *)head->b, n);
    }
    bits ^= learn_fixture_memory_bits(memory);
    rv_adapter_unref(adapter);
    rv_memory_unref(memory);
    return bits;
}
