/* Checkpoints: a tenant that comes back from one is the tenant that went, and numbers that cannot be are refused. */
#include "base/alloc.h"
#include "learn/tenant_checkpoint.h"
#include "support/learn_fixture.h"
#include "support/test.h"

#include <math.h>

enum { DIMS = 16, RANK = 2 };

static struct rv_tenant_learner *open_learner(struct rv_whitening *whitening)
{
    struct rv_tenant_learner *learner;

    assert_ok(learn_fixture_whitening(DIMS, whitening, err));
    assert_ok(rv_tenant_learner_new(&learner, whitening, RANK, err));
    return learner;
}

/* A vote whose step is of plain numbers. */
static void vote(struct rv_tenant_learner *learner)
{
    uint16_t memory[4 * DIMS];
    struct rv_tenant_vote made = {.score = 1, .step = {.n_pairs = 1, .a = memory, .b = memory + 2 * DIMS}};

    for (int i = 0; i < 4 * DIMS; i++)
        memory[i] = 0x3C00; // a small number as bfloat16
    assert_ok(rv_tenant_learner_apply(learner, &made, err));
}

static void a_tick_from_before_a_return_stays_void(void **state)
{
    struct rv_tenant_learner *learner, *again;
    struct rv_whitening whitening;
    void *bytes;
    size_t len;

    (void)state;
    learner = open_learner(&whitening);
    for (int i = 0; i < 3; i++)
        vote(learner);
    assert_ok(rv_tenant_learner_go_back(learner, 1, err));
    vote(learner);
    assert_ok(rv_tenant_checkpoint_write(learner, &bytes, &len, err));
    assert_ok(rv_tenant_checkpoint_read(&again, bytes, len, &whitening, RANK, err));
    for (int64_t base = 0; base <= learner->now.generation; base++)
        assert_int_equal(rv_tenant_learner_can_tick(again, base), rv_tenant_learner_can_tick(learner, base));
    assert_false(rv_tenant_learner_can_tick(again, 3));
    assert_true(rv_tenant_learner_can_tick(again, 4));
    rv_free(bytes);
    rv_tenant_learner_free(again);
    rv_tenant_learner_free(learner);
    rv_whitening_release(&whitening);
}

static void forge_since(struct rv_tenant_state *s)
{
    s->flood.bad_since = INT64_MIN;
}

static void forge_pause(struct rv_tenant_state *s)
{
    s->flood.n_paused = INT32_MAX;
}

static void forge_sum(struct rv_tenant_state *s)
{
    s->flood.good = (double)INFINITY;
}

static void forge_kl(struct rv_tenant_state *s)
{
    s->anchor_kl = (double)NAN;
}

static void forge_deep(struct rv_tenant_state *s)
{
    s->deep = -1;
}

static void forge_root(struct rv_tenant_state *s)
{
    s->root = 99;
}

static void numbers_that_cannot_be_are_refused(void **state)
{
    static void (*const forgeries[])(struct rv_tenant_state *) = {forge_since, forge_pause, forge_sum,
                                                                  forge_kl,    forge_deep,  forge_root};

    (void)state;
    for (size_t i = 0; i < sizeof(forgeries) / sizeof(forgeries[0]); i++) {
        struct rv_tenant_learner *learner, *again;
        struct rv_whitening whitening;
        struct ruvllm_error failure;
        void *bytes;
        size_t len;

        learner = open_learner(&whitening);
        vote(learner);
        forgeries[i](&learner->snapshots[1]);
        assert_ok(rv_tenant_checkpoint_write(learner, &bytes, &len, err));
        assert_fails(rv_tenant_checkpoint_read(&again, bytes, len, &whitening, RANK, &failure), RUVLLM_FORMAT, failure,
                     "damaged");
        assert_null(again);
        rv_free(bytes);
        rv_tenant_learner_free(learner);
        rv_whitening_release(&whitening);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tick_from_before_a_return_stays_void),
        cmocka_unit_test(numbers_that_cannot_be_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
