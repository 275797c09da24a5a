/*
 * What planning costs: nothing is computed, tokens are invented. Times are medians over steps, in microseconds.
 *
 *     sched.plan.run256                    256 sequences decode
 *     sched.plan.run256_wait4096           4096 more wait, and nobody can be admitted
 *     sched.plan.run255_wait4096           the same with a place free, and a prompt in every step
 *     sched.complete.run256                entering blocks in the tree and migrating included
 *     sched.find.8192                      looking up a prompt of 8192 tokens that is there
 *     sched.evict                          dropping one block of a tree of 32768, half of whose leaves are in use
 *     sched.overload.f16, .tiered          rows computed for each row needed, when half of what is asked for fits
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "sched/scheduler.h"

enum { RUNNING = 256, WAITING = 4096, STEPS = 512, MAX_TOKENS = 2048 };

struct setup {
    struct rv_block_pool *pool;
    struct rv_prefix_tree *tree;
    struct rv_scheduler *scheduler;
};

static void need(bool is_good, const char *what)
{
    if (is_good)
        return;
    (void)fprintf(stderr, "bench_sched: cannot %s\n", what);
    exit(1);
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static double median(int64_t *times, int n)
{
    int64_t *middle = times + n / 2;

    qsort(times, (size_t)n, sizeof(*times), compare);
    return (double)*middle;
}

static void open_setup(struct setup *s, int32_t n_blocks, int32_t max_running)
{
    struct rv_block_pool_config pool = {
        .n_layers = 4, .n_kv_heads = 1, .head_dim = 32, .budget = (size_t)n_blocks * 16384};
    struct rv_prefix_tree_config tree = {.tenant_floor = 4};
    struct rv_scheduler_config config = {
        .max_running = max_running, .max_waiting = 2 * WAITING, .max_rows = 512, .prefill_rows = 128, .age_ms = 1000};

    need(!rv_block_pool_new(&s->pool, &pool, NULL), "make a pool");
    rv_keyed_hash_make_key(tree.secret);
    tree.pool = s->pool;
    tree.max_nodes = rv_block_pool_n_ids(s->pool);
    need(!rv_prefix_tree_new(&s->tree, &tree, NULL), "make a tree");
    config.pool = s->pool;
    config.tree = s->tree;
    need(!rv_scheduler_new(&s->scheduler, &config, NULL), "make a scheduler");
}

static void close_setup(struct setup *s)
{
    rv_scheduler_free(s->scheduler);
    rv_prefix_tree_free(s->tree);
    rv_block_pool_free(s->pool);
}

static struct rv_request *make_request(struct setup *s, uint64_t number, int32_t n_prompt,
                                       const struct rv_tier_policy *policy)
{
    struct rv_request *r = calloc(1, sizeof(*r));

    need(r != NULL, "allocate");
    r->tokens = calloc(MAX_TOKENS, sizeof(*r->tokens));
    need(r->tokens && !rv_kv_seq_init(&r->kv, s->pool, policy, MAX_TOKENS, NULL), "allocate");
    for (int32_t i = 0; i < n_prompt; i++)
        r->tokens[i] = (int32_t)number + i;
    r->scope.tenant = number % 50;
    r->n_prompt = r->n_tokens = n_prompt;
    return r;
}

static void free_request(struct setup *s, struct rv_request *r)
{
    rv_scheduler_remove(s->scheduler, r);
    rv_kv_seq_release(&r->kv);
    free(r->tokens);
    free(r);
}

/* A step; times go to *plan_us and *complete_us. Returns its rows. */
static int32_t run_step(struct setup *s, int64_t *plan_us, int64_t *complete_us)
{
    static int64_t now_us = 0;
    struct rv_scheduler_step step;
    int64_t start = rv_clock_us();

    now_us += 10000;
    if (!rv_scheduler_plan(s->scheduler, now_us, &step))
        return 0;
    *plan_us = rv_clock_us() - start;
    start = rv_clock_us();
    rv_scheduler_complete(s->scheduler, &step);
    *complete_us = rv_clock_us() - start;
    for (int32_t i = 0; i < step.n_parts; i++) {
        struct rv_request *r = step.parts[i].request;

        if (step.parts[i].n_out > 0) {
            r->tokens[r->n_tokens] = r->n_tokens;
            r->n_tokens++;
        }
    }
    return step.n_rows;
}

static void bench_plan(const char *name, int32_t n_decoding, int32_t n_waiting)
{
    static struct rv_request *requests[RUNNING + WAITING];
    static int64_t plan_us[STEPS], complete_us[STEPS];
    struct rv_tier_policy policy = rv_tier_policy_default();
    struct setup s;

    open_setup(&s, RUNNING * MAX_TOKENS / 32, RUNNING);
    for (int32_t i = 0; i < n_decoding; i++) {
        requests[i] = make_request(&s, (uint64_t)i, 20, &policy);
        need(!rv_scheduler_submit(s.scheduler, requests[i], MAX_TOKENS, NULL), "submit");
    }
    for (int i = 0; i < 200; i++)
        (void)run_step(&s, plan_us, complete_us);
    for (int32_t i = n_decoding; i < n_decoding + n_waiting; i++) {
        requests[i] = make_request(&s, (uint64_t)i * 10000, 1500, &policy);
        need(!rv_scheduler_submit(s.scheduler, requests[i], MAX_TOKENS, NULL), "submit");
    }
    for (int i = 0; i < STEPS; i++)
        (void)run_step(&s, &plan_us[i], &complete_us[i]);
    printf("sched.plan.%s=%.1f\n", name, median(plan_us, STEPS));
    if (n_waiting == 0)
        printf("sched.complete.%s=%.1f\n", name, median(complete_us, STEPS));
    for (int32_t i = 0; i < n_decoding + n_waiting; i++)
        free_request(&s, requests[i]);
    close_setup(&s);
}

static void bench_tree(void)
{
    enum { CHAINS = 128, DEPTH = 256, DROPPED = CHAINS * DEPTH / 2 };
    struct rv_prefix_scope scope = {.tenant = 1};
    static int32_t tokens[DEPTH * 32], blocks[DEPTH], in_use[CHAINS];
    struct setup s;
    int64_t start;

    open_setup(&s, CHAINS * DEPTH, 1);
    for (int32_t c = 0; c < CHAINS; c++) {
        for (int32_t i = 0; i < DEPTH * 32; i++)
            tokens[i] = c * 100000 + i;
        for (int32_t i = 0; i < DEPTH; i++)
            blocks[i] = rv_block_pool_take(s.pool, RV_KV_BLOCK_F16);
        rv_prefix_tree_insert(s.tree, &scope, tokens, blocks, DEPTH, NULL);
        for (int32_t i = 0; i < DEPTH; i++) {
            if (c % 2 == 0 || i < DEPTH - 1)
                rv_block_pool_unref(s.pool, blocks[i]);
        }
        in_use[c] = c % 2 ? blocks[DEPTH - 1] : -1;
    }
    start = rv_clock_us();
    need(rv_prefix_tree_find(s.tree, &scope, tokens, DEPTH * 32, blocks, NULL) == DEPTH, "find");
    printf("sched.find.8192=%.1f\n", (double)(rv_clock_us() - start));
    start = rv_clock_us();
    for (int32_t i = 0; i < DROPPED; i++)
        need(rv_prefix_tree_evict(s.tree, 2, 1) == 1, "evict");
    printf("sched.evict=%.2f\n", (double)(rv_clock_us() - start) / DROPPED);
    for (int32_t c = 0; c < CHAINS; c++) {
        if (in_use[c] >= 0)
            rv_block_pool_unref(s.pool, in_use[c]);
    }
    close_setup(&s);
}

/* A queue of requests of 400 + 400 tokens, 32 at a time, and blocks for 16 of them. */
static void bench_overload(const char *name, struct rv_tier_policy policy)
{
    enum { N = 200, PROMPT = 400, TOTAL = 800 };
    static struct rv_request *requests[N];
    int64_t n_rows = 0, n_needed = (int64_t)N * TOTAL, unused;
    struct rv_scheduler_stats stats;
    struct setup s;
    int n_left = N;

    open_setup(&s, 16 * TOTAL / 32, 32);
    for (int i = 0; i < N; i++) {
        requests[i] = make_request(&s, (uint64_t)i * 10000, PROMPT, &policy);
        need(!rv_scheduler_submit(s.scheduler, requests[i], TOTAL, NULL), "submit");
    }
    while (n_left > 0) {
        int32_t n = run_step(&s, &unused, &unused);

        need(n > 0, "go on");
        n_rows += n;
        for (int i = 0; i < N; i++) {
            if (requests[i] && requests[i]->kv.len >= TOTAL) {
                free_request(&s, requests[i]);
                requests[i] = NULL;
                n_left--;
            }
        }
    }
    rv_scheduler_stats_get(s.scheduler, &stats);
    printf("sched.overload.%s=%.3f\n", name, (double)n_rows / (double)n_needed);
    printf("sched.overload.%s.preempted=%llu\n", name, (unsigned long long)stats.n_preempted);
    printf("sched.overload.%s.squeezed=%llu\n", name, (unsigned long long)stats.n_squeezed);
    close_setup(&s);
}

int main(void)
{
    bench_plan("run256", RUNNING, 0);
    bench_plan("run256_wait4096", RUNNING, WAITING);
    bench_plan("run255_wait4096", RUNNING - 1, WAITING);
    bench_tree();
    bench_overload("f16", rv_tier_policy_single(RV_KV_BLOCK_F16));
    bench_overload("tiered", rv_tier_policy_default());
    return 0;
}
