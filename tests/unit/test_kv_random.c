/*
 * Pool, tree, sequences, spill file and scheduler under random use: many tenants, few blocks, requests that come, go,
 * fork, are cut back, fail a step, leave while it is computed; blocks that go to the file and come back, from a file
 * that is full, damaged or broken now and then. After every operation all walkers walk; contents of blocks are read
 * back.
 *
 *     RUVLLM_KV_RANDOM_OPS    operations, 20000 unless told (make kv-random: a million)
 *     RUVLLM_KV_RANDOM_SEED   which ones, 1 unless told
 */
#include "base/rng.h"
#include "support/sched_fixture.h"
#include "support/spill_fixture.h"
#include "support/test.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 24, SPILLED = 40, STEP_BYTES = 1 << 18, SLOTS = 32, FORKS = 4, TENANTS = 5, TEXTS = 2, N_POLICIES = 3 };

/* A sequence that somebody outside the scheduler holds. */
struct fork {
    struct rv_kv_seq kv;
    int32_t *tokens; // NULL: free
    struct rv_spill_run run;
    int32_t n_parked; // tokens in the run; then it holds no blocks
};

struct driver {
    struct sched_fixture f;
    struct rv_rng rng;
    struct sched_request slots[SLOTS]; // without tokens: free
    struct fork forks[FORKS];
    uint64_t n_finished;
    uint64_t n_cached;
    uint64_t n_refused;
    uint64_t n_parked; // forks that went to the spill file
    uint64_t n_fetched;
    uint64_t n_damaged;
    uint64_t n_broken;
};

static int32_t below(struct driver *d, int32_t n)
{
    return (int32_t)rv_rng_below(&d->rng, (uint64_t)n);
}

static uint64_t setting(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);

    return text && *text ? strtoull(text, NULL, 10) : fallback;
}

/* ---- requests ------------------------------------------------------------------------------- */

static struct sched_request *random_slot(struct driver *d, bool is_free)
{
    int32_t first = below(d, SLOTS);

    for (int32_t i = 0; i < SLOTS; i++) {
        struct sched_request *r = &d->slots[(first + i) % SLOTS];

        if ((r->tokens == NULL) == is_free)
            return r;
    }
    return NULL;
}

static struct sched_request *random_running(struct driver *d)
{
    struct sched_request *r = random_slot(d, false);

    return r && r->request.state == RV_REQUEST_RUNNING ? r : NULL;
}

static void submit(struct driver *d)
{
    static const enum rv_kv_block_format formats[2] = {RV_KV_BLOCK_F16, RV_KV_BLOCK_Q4};
    struct sched_request *r = random_slot(d, true);
    int32_t n_prompt = 1 + below(d, below(d, 4) ? 100 : 600), n_more = 1 + below(d, below(d, 2) ? 20 : 300);
    int32_t policy = below(d, N_POLICIES);
    uint64_t tenant = (uint64_t)below(d, TENANTS);
    ruvllm_status rc;

    if (!r)
        return;
    d->f.policy = policy == 0 ? rv_tier_policy_default() : rv_tier_policy_single(formats[policy - 1]);
    sched_request_init(&d->f, r, tenant, n_prompt, n_prompt + n_more);
    sched_request_begin_with(r, below(d, TEXTS), below(d, 2) ? n_prompt : below(d, n_prompt + 1));
    r->request.scope.tiers = (uint64_t)policy;
    r->request.priority = below(d, 3);
    r->request.no_cache = below(d, 10) == 0;
    r->request.wants_all_rows = below(d, 10) == 0;
    rc = rv_scheduler_submit(d->f.scheduler, &r->request, r->max_tokens, NULL);
    if (rc == RUVLLM_OK)
        return;
    assert_true(rc == RUVLLM_BUSY || rc == RUVLLM_TOO_LARGE);
    d->n_refused++;
    sched_fixture_end(&d->f, r);
}

static void cancel(struct driver *d)
{
    struct sched_request *r = random_slot(d, false);

    if (r)
        sched_fixture_end(&d->f, r);
}

static void end_finished(struct driver *d)
{
    for (int32_t i = 0; i < SLOTS; i++) {
        struct sched_request *r = &d->slots[i];

        if (!r->tokens || !sched_request_is_done(r))
            continue;
        assert_true(kv_fixture_holds(&r->request.kv, r->tokens));
        if (r->request.wants_all_rows)
            assert_int_equal(r->n_results, r->max_tokens);
        d->n_finished++;
        d->n_cached += (uint64_t)r->request.n_cached;
        sched_fixture_end(&d->f, r);
    }
}

/* Takes some tokens back, as a rejected guess would, and goes on with others. */
static void trim(struct driver *d)
{
    struct sched_request *r = random_running(d);
    int32_t len;

    if (!r || r->request.wants_all_rows || r->request.kv.len == 0)
        return;
    len = r->request.kv.len - 1 - below(d, r->request.kv.len < 40 ? r->request.kv.len : 40);
    len = rv_kv_seq_trim(&r->request.kv, len);
    assert_true(rv_kv_seq_check(&r->request.kv));
    r->request.n_tokens = len >= r->request.n_prompt ? len + 1 : r->request.n_prompt;
    sched_request_change(r, len);
}

/* ---- forks ---------------------------------------------------------------------------------- */

static void drop_fork(struct driver *d, struct fork *fork)
{
    if (!fork->tokens)
        return;
    rv_spill_file_drop(d->f.spill, &fork->run);
    fork->n_parked = 0;
    assert_true(rv_kv_seq_check(&fork->kv));
    assert_true(kv_fixture_holds(&fork->kv, fork->tokens));
    rv_kv_seq_release(&fork->kv);
    free(fork->tokens);
    fork->tokens = NULL;
}

static void make_fork(struct driver *d)
{
    struct sched_request *r = random_running(d);
    struct fork *fork = &d->forks[below(d, FORKS)];
    int32_t cap;

    drop_fork(d, fork);
    if (!r || r->request.kv.len == 0)
        return;
    cap = r->request.kv.len + 64;
    assert_ok(rv_kv_seq_init(&fork->kv, d->f.pool, &r->request.kv.policy, cap, err));
    fork->tokens = calloc((size_t)cap, sizeof(*fork->tokens));
    assert_non_null(fork->tokens);
    memcpy(fork->tokens, r->tokens, (size_t)r->request.kv.len * sizeof(*fork->tokens));
    for (int32_t i = r->request.kv.len; i < cap; i++)
        fork->tokens[i] = 1 + below(d, KV_FIXTURE_TOKENS);
    rv_kv_seq_fork(&fork->kv, &r->request.kv);
}

/* It goes on by itself, if there is room. */
static void grow_fork(struct driver *d)
{
    struct fork *fork = &d->forks[below(d, FORKS)];
    int32_t n = 1 + below(d, 8);

    if (!fork->tokens || fork->n_parked > 0 ||
        fork->kv.len + n > fork->kv.cap_blocks * RV_KV_BLOCK_TOKENS - RV_KV_BLOCK_TOKENS)
        return;
    (void)kv_fixture_compute(&fork->kv, fork->tokens, n < rv_kv_seq_room(&fork->kv) ? n : rv_kv_seq_room(&fork->kv));
}

static bool has_fork(const struct driver *d)
{
    for (int i = 0; i < FORKS; i++) {
        if (d->forks[i].tokens && d->forks[i].n_parked == 0)
            return true;
    }
    return false;
}

/* All its blocks go to the file, or none. */
static void park_fork(struct driver *d)
{
    struct fork *fork = &d->forks[below(d, FORKS)];
    struct rv_kv_seq *kv = &fork->kv;

    if (!fork->tokens || fork->n_parked > 0)
        return;
    for (int32_t i = 0; i * RV_KV_BLOCK_TOKENS < kv->len; i++) {
        if (rv_spill_file_put(d->f.spill, &fork->run, kv->blocks[i]))
            continue;
        rv_spill_file_drop(d->f.spill, &fork->run);
        return;
    }
    fork->n_parked = kv->len;
    rv_kv_seq_clear(kv);
    d->n_parked++;
}

/* They come back if there is room, and are what they were unless they were damaged. */
static void fetch_fork(struct driver *d)
{
    struct fork *fork = &d->forks[below(d, FORKS)];
    size_t bytes = rv_spill_file_bytes(d->f.spill, &fork->run, 0, INT32_MAX);

    if (!fork->tokens || fork->n_parked == 0)
        return;
    while (rv_block_pool_budget(d->f.pool) - rv_block_pool_used(d->f.pool) < bytes) {
        if (rv_prefix_tree_evict(d->f.tree, 0, 1) == 0)
            return;
    }
    while (fork->run.n_blocks > 0) {
        int32_t block = rv_spill_file_get(d->f.spill, &fork->run), n = fork->n_parked - fork->kv.len;

        if (block < 0) {
            assert_true(d->n_damaged > 0);
            drop_fork(d, fork);
            return;
        }
        rv_kv_seq_append(&fork->kv, block, n < RV_KV_BLOCK_TOKENS ? n : RV_KV_BLOCK_TOKENS);
    }
    assert_int_equal(fork->kv.len, fork->n_parked);
    assert_true(kv_fixture_holds(&fork->kv, fork->tokens));
    fork->n_parked = 0;
    d->n_fetched++;
}

/* Nothing is in the file but what waits for something. */
static void check_spilled(struct driver *d)
{
    int32_t n = 0;

    for (int i = 0; i < SLOTS; i++)
        n += d->slots[i].tokens ? d->slots[i].request.spilled.n_blocks : 0;
    for (int i = 0; i < FORKS; i++)
        n += d->forks[i].tokens ? d->forks[i].run.n_blocks : 0;
    assert_int_equal(n, rv_spill_file_n_blocks(d->f.spill));
}

static void damage(struct driver *d)
{
    off_t size = spill_fixture_size();

    if (size == 0)
        return;
    spill_fixture_damage((off_t)rv_rng_below(&d->rng, (uint64_t)size), 1);
    d->n_damaged++;
}

/* Somebody's blocks fall to their tier, or further. */
static void lower(struct driver *d, bool squeezes)
{
    struct sched_request *r = random_running(d);
    struct fork *fork = &d->forks[below(d, FORKS)];
    struct rv_kv_seq *kv = fork->tokens && below(d, 2) ? &fork->kv : r ? &r->request.kv : NULL;

    if (kv && squeezes)
        (void)rv_kv_seq_squeeze(kv, below(d, BLOCKS));
    else if (kv)
        (void)rv_kv_seq_migrate(kv);
}

/* ---- steps ---------------------------------------------------------------------------------- */

/* As long as nobody outside holds blocks, there is always something that can go on. */
static void step(struct driver *d, bool can_fail)
{
    struct rv_scheduler_step plan;
    bool has_step = sched_fixture_plan(&d->f, &plan);

    if (!has_step) {
        assert_true(has_fork(d) || !random_slot(d, false));
        for (int i = 0; i < FORKS; i++)
            drop_fork(d, &d->forks[i]);
        return;
    }
    if (can_fail && below(d, 20) == 0)
        return;
    if (can_fail && below(d, 20) == 0)
        cancel(d);
    sched_fixture_compute(&d->f, &plan);
    end_finished(d);
    d->f.now_us += below(d, 20000);
}

/* One in which the disk does not work. */
static void broken_step(struct driver *d)
{
    int kept = spill_fixture_break();

    step(d, true);
    spill_fixture_mend(kept);
    d->n_broken++;
}

static void operate(struct driver *d)
{
    int32_t what = below(d, 100);

    if (what < 12)
        submit(d);
    else if (what < 16)
        cancel(d);
    else if (what < 19)
        make_fork(d);
    else if (what < 22)
        drop_fork(d, &d->forks[below(d, FORKS)]);
    else if (what < 26)
        grow_fork(d);
    else if (what < 31)
        lower(d, what < 28);
    else if (what < 34)
        trim(d);
    else if (what == 34)
        (void)rv_prefix_tree_evict(d->f.tree, (uint64_t)below(d, TENANTS), below(d, 5));
    else if (what == 35 && below(d, 20) == 0)
        (void)rv_prefix_tree_forget_tenant(d->f.tree, (uint64_t)below(d, TENANTS));
    else if (what < 38)
        park_fork(d);
    else if (what < 41)
        fetch_fork(d);
    else if (what == 41 && below(d, 20) == 0)
        damage(d);
    else if (what == 42 && below(d, 20) == 0)
        broken_step(d);
    else
        step(d, true);
}

static void look_at_contents(struct driver *d)
{
    struct sched_request *r = random_running(d);

    if (r)
        assert_true(kv_fixture_holds(&r->request.kv, r->tokens));
}

static struct driver *open_driver(uint64_t seed)
{
    struct driver *d = calloc(1, sizeof(*d));
    struct rv_scheduler_config config = {.max_running = 6,
                                         .max_waiting = 20,
                                         .max_rows = 160,
                                         .prefill_rows = 48,
                                         .age_ms = 50,
                                         .spill_step_bytes = STEP_BYTES};

    assert_non_null(d);
    sched_fixture_open_spilling(&d->f, BLOCKS, &config, SPILLED);
    rv_rng_init(&d->rng, seed);
    return d;
}

/* Everything is finished; then nothing may be left but what the tree holds, and that can go. */
static void close_driver(struct driver *d)
{
    for (int i = 0; i < FORKS; i++)
        drop_fork(d, &d->forks[i]);
    for (int i = 0; random_slot(d, false); i++) {
        assert_true(i < 100000);
        step(d, false);
        sched_fixture_check(&d->f);
    }
    sched_fixture_close(&d->f);
    free(d);
}

static void random_use_keeps_all_books_straight(void **state)
{
    uint64_t n = setting("RUVLLM_KV_RANDOM_OPS", 20000), seed = setting("RUVLLM_KV_RANDOM_SEED", 1);
    struct driver *d = open_driver(seed);
    struct rv_scheduler_stats s;

    (void)state;
    print_message("%" PRIu64 " operations, seed %" PRIu64 "\n", n, seed);
    for (uint64_t i = 0; i < n; i++) {
        operate(d);
        sched_fixture_check(&d->f);
        check_spilled(d);
        if (i % 16 == 0)
            look_at_contents(d);
    }
    rv_scheduler_stats_get(d->f.scheduler, &s);
    print_message("%" PRIu64 " finished, %" PRIu64 " refused, %" PRIu64 " tokens from the cache; %" PRIu64
                  " preempted, %" PRIu64 " squeezed, %" PRIu64 " evicted, %" PRIu64 " migrated\n",
                  d->n_finished, d->n_refused, d->n_cached, s.n_preempted, s.n_squeezed, s.n_evicted, s.n_migrated);
    print_message("%" PRIu64 " blocks spilled, %" PRIu64 " restored; %" PRIu64 " forks parked, %" PRIu64
                  " fetched; file damaged %" PRIu64 " times, broken %" PRIu64 ", failures %" PRIu64 "\n",
                  s.n_spilled, s.n_restored, d->n_parked, d->n_fetched, d->n_damaged, d->n_broken,
                  rv_spill_file_n_failed(d->f.spill));
    /* The run is worth something only if all of it happened. */
    if (n >= 20000) {
        assert_true(d->n_finished && d->n_refused && d->n_cached && s.n_preempted && s.n_squeezed && s.n_evicted &&
                    s.n_migrated);
        assert_true(s.n_spilled && s.n_restored && d->n_parked && d->n_fetched && d->n_damaged && d->n_broken);
        /* Broken is it for a moment only: a short run need not write or read just then. */
        assert_true(n < 200000 || rv_spill_file_n_failed(d->f.spill));
    }
    close_driver(d);
}

/* ---- cancelling ----------------------------------------------------------------------------- */

static void ten_thousand_cancelled_requests_leave_every_block_as_it_was(void **state)
{
    struct driver *d = open_driver(9);
    int32_t n_free = rv_block_pool_n_free(d->f.pool);
    int n_cancelled = 0;

    (void)state;
    while (n_cancelled < 10000) {
        struct sched_request *r;

        submit(d);
        for (int32_t i = below(d, 4); i > 0; i--)
            step(d, true);
        r = random_slot(d, false);
        if (r && below(d, 3) > 0) {
            sched_fixture_end(&d->f, r);
            n_cancelled++;
        }
    }
    while (random_slot(d, false))
        cancel(d);
    sched_fixture_check(&d->f);
    assert_int_equal(rv_block_pool_n_idle(d->f.pool), rv_prefix_tree_n_nodes(d->f.tree));
    (void)rv_prefix_tree_evict(d->f.tree, 0, INT32_MAX);
    assert_int_equal(rv_block_pool_n_free(d->f.pool), n_free);
    close_driver(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_use_keeps_all_books_straight),
        cmocka_unit_test(ten_thousand_cancelled_requests_leave_every_block_as_it_was),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
