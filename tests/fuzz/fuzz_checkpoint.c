/*
 * Any bytes as the checkpoint of a tenant of a small model. The sum over them is set right first: it tells what was
 * damaged, and whoever forges a checkpoint forges it too. What is read is written back the same, and goes on learning.
 */
#include "base/alloc.h"
#include "fuzz_target.h"
#include "learn/tenant_checkpoint.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DIMS = 16, RANK = 2 };

static void promise(bool kept)
{
    if (!kept)
        abort();
}

static const struct rv_whitening *whitening_of(void)
{
    static struct rv_whitening whitening;
    float states[64 * DIMS];

    if (whitening.directions)
        return &whitening;
    for (int i = 0; i < 64 * DIMS; i++)
        states[i] = (float)((i * 37) % 101) - 50.0f;
    promise(rv_whitening_init(&whitening, states, 64, DIMS, NULL) == RUVLLM_OK);
    return &whitening;
}

/* The same bytes come of it again and again. */
static void check_round(const struct rv_tenant_learner *learner)
{
    struct rv_tenant_learner *again;
    void *first, *second;
    size_t first_len, second_len;

    promise(rv_tenant_checkpoint_write(learner, &first, &first_len, NULL) == RUVLLM_OK);
    promise(rv_tenant_checkpoint_read(&again, first, first_len, whitening_of(), RANK, NULL) == RUVLLM_OK);
    promise(rv_tenant_checkpoint_write(again, &second, &second_len, NULL) == RUVLLM_OK);
    promise(first_len == second_len && memcmp(first, second, first_len) == 0);
    promise(again->now.generation == learner->now.generation);
    rv_tenant_learner_free(again);
    rv_free(first);
    rv_free(second);
}

/* A vote whose step is of plain numbers, and the way back. */
static void go_on(struct rv_tenant_learner *learner)
{
    uint16_t memory[4 * DIMS];
    struct rv_tenant_vote vote = {
        .score = 1, .advantage = 1, .step = {.n_pairs = 1, .a = memory, .b = memory + 2 * DIMS, .kl = 0.01}};
    int64_t before = learner->now.generation;

    for (int i = 0; i < 4 * DIMS; i++)
        memory[i] = 0x3C00; // a small number as bfloat16
    promise(rv_tenant_learner_apply(learner, &vote, NULL) == RUVLLM_OK);
    promise(learner->now.generation == before + 1 && rv_tenant_learner_has(learner, before + 1));
    promise(rv_tenant_learner_go_back(learner, before, NULL) == RUVLLM_OK);
    promise(rv_tenant_learner_go_back(learner, 0, NULL) == RUVLLM_OK);
    promise(learner->now.adapter.n_pairs == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rv_tenant_learner *learner;
    struct ruvllm_error err = {0};
    uint8_t *bytes = malloc(size ? size : 1);
    ruvllm_status rc;

    promise(bytes != NULL);
    if (size)
        memcpy(bytes, data, size);
    rv_tenant_checkpoint_seal(bytes, size);
    rc = rv_tenant_checkpoint_read(&learner, bytes, size, whitening_of(), RANK, &err);
    if (rc) {
        promise(rc == RUVLLM_FORMAT && err.message[0] && !learner);
    } else {
        promise(learner->now.generation > 0 && rv_tenant_learner_has(learner, learner->now.generation));
        check_round(learner);
        go_on(learner);
        rv_tenant_learner_free(learner);
    }
    free(bytes);
    return 0;
}
