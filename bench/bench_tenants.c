/*
 * Many tenants of one model: what they take in memory, and how long one that was let go takes to come back.
 *
 *     bench_tenants STORE [tenants [MiB [width [rank]]]]
 *
 * Every tenant votes once, one in a thousand a hundred times; then thousands of them come back in no order. STORE is a
 * path where there is nothing yet. tenants.<what>=value; bit-equality is what test_learner checks.
 */
#include "base/clock.h"
#include "base/rng.h"
#include "kernels/vec.h"
#include "learn/learner.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { ROWS = 4, N_THREADS = 16, N_STATES = 512, N_BACK = 4000, MANY = 100, RARE = 1000 };

struct crowd {
    struct rv_learner *learner;
    int32_t n_dims;
    int64_t n_tenants;
    atomic_llong next;
};

static void die(const char *what, const struct ruvllm_error *err)
{
    (void)fprintf(stderr, "bench_tenants: %s: %s\n", what, err ? err->message : "failed");
    exit(1);
}

static void *need(void *memory)
{
    if (!memory)
        die("memory", NULL);
    return memory;
}

static double resident_mb(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    long pages = 0, resident = 0;

    if (!file || fscanf(file, "%ld %ld", &pages, &resident) != 2)
        die("/proc/self/statm", NULL);
    (void)fclose(file);
    return (double)resident * 4096 / 1e6;
}

static struct rv_learner *open_learner(ruvllm_store *store, int32_t n_dims, int32_t rank, uint64_t bytes)
{
    static struct rv_hparams hparams;
    static const struct rv_manifest manifest;
    struct rv_learner_config config = {.hparams = &hparams,
                                       .manifest = &manifest,
                                       .store = store,
                                       .model = "m",
                                       .rank = rank,
                                       .trace_bytes = (uint64_t)64 << 20,
                                       .tenant_bytes = bytes};
    float *states = need(malloc((size_t)N_STATES * (size_t)n_dims * sizeof(*states)));
    struct rv_whitening whitening;
    struct rv_learner *learner = NULL;
    struct ruvllm_error err;
    struct rv_rng rng;

    hparams.n_embd = n_dims;
    rv_rng_init(&rng, 5);
    for (size_t i = 0; i < (size_t)N_STATES * (size_t)n_dims; i++)
        states[i] = (float)rv_rng_normal(&rng);
    if (rv_whitening_init(&whitening, states, N_STATES, n_dims, &err) ||
        rv_learner_new(&learner, &config, &whitening, &err))
        die("learner", &err);
    free(states);
    return learner;
}

static void vote(struct crowd *c, const char *tenant, uint64_t id, struct rv_rng *rng)
{
    size_t n = (size_t)ROWS * (size_t)c->n_dims;
    struct rv_learner_result result;
    struct rv_trace *trace;
    struct ruvllm_error err;

    if (rv_trace_new(&trace, id, tenant, c->n_dims, ROWS, &err))
        die("trace", &err);
    for (size_t i = 0; i < n; i++) {
        trace->states[i] = rv_vec_to_bf16((float)rv_rng_uniform(rng) - 0.5f);
        trace->gradients[i] = rv_vec_to_bf16((float)rv_rng_uniform(rng) - 0.5f);
        trace->probes[i] = trace->gradients[i];
    }
    for (int i = 0; i < ROWS; i++) {
        trace->tokens[i] = i;
        trace->logprobs[i] = -1;
    }
    trace->n_rows = ROWS;
    rv_trace_ring_add(rv_learner_traces(c->learner), trace);
    if (rv_learner_vote(c->learner, tenant, id, (double)(id % 2), &result, &err))
        die("vote", &err);
}

static void name(char out[16], int64_t i)
{
    (void)snprintf(out, 16, "t%lld", (long long)i);
}

static void *vote_for_many(void *arg)
{
    struct crowd *c = arg;
    struct rv_rng rng;
    char tenant[16];
    int64_t i;

    while ((i = atomic_fetch_add(&c->next, 1)) < c->n_tenants) {
        rv_rng_init(&rng, (uint64_t)i + 1);
        name(tenant, i);
        for (int k = 0; k < (i % RARE == 0 ? MANY : 1); k++)
            vote(c, tenant, (uint64_t)i * MANY + (uint64_t)k + 1, &rng);
    }
    return NULL;
}

static int by_size(const void *x, const void *y)
{
    int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;

    return (a > b) - (a < b);
}

/* The time of an answer's first look, of tenants of one kind. */
static void come_back(struct crowd *c, const char *what, int64_t step)
{
    static int64_t us[N_BACK];
    struct rv_rng rng;
    int64_t n = c->n_tenants / step < N_BACK ? c->n_tenants / step : N_BACK;

    rv_rng_init(&rng, 3);
    for (int64_t i = 0; i < n; i++) {
        int64_t at = (int64_t)rv_rng_below(&rng, (uint64_t)(c->n_tenants / step)) * step + (step == 1), start, gen;
        struct rv_adapter *adapter;
        struct rv_memory *memory;
        struct ruvllm_error err;
        char tenant[16];

        name(tenant, at % c->n_tenants);
        start = rv_clock_us();
        if (rv_learner_current(c->learner, tenant, &adapter, &memory, &gen, &err))
            die(tenant, &err);
        us[i] = rv_clock_us() - start;
        rv_adapter_unref(adapter);
        rv_memory_unref(memory);
    }
    qsort(us, (size_t)n, sizeof(us[0]), by_size);
    printf("tenants.back_us_p50.%s=%lld\n", what, (long long)us[n / 2]);
    printf("tenants.back_us_p99.%s=%lld\n", what, (long long)us[n * 99 / 100]);
}

int main(int argc, char **argv)
{
    int64_t n_tenants = argc > 2 ? strtoll(argv[2], NULL, 10) : 100000;
    uint64_t mib = argc > 3 ? strtoull(argv[3], NULL, 10) : 512;
    struct crowd crowd = {.n_dims = argc > 4 ? (int32_t)strtol(argv[4], NULL, 10) : 896, .n_tenants = n_tenants};
    int32_t rank = argc > 5 ? (int32_t)strtol(argv[5], NULL, 10) : 2;
    struct rv_tenant_table_stats stats;
    pthread_t threads[N_THREADS];
    struct ruvllm_error err = {0};
    ruvllm_store *store;
    struct stat facts;
    double before;
    int64_t start;

    if (argc < 2)
        die("usage: bench_tenants STORE [tenants [MiB [width [rank]]]]", NULL);
    if (ruvllm_store_open(&store, argv[1], NULL, &err))
        die(argv[1], &err);
    crowd.learner = open_learner(store, crowd.n_dims, rank, mib << 20);
    before = resident_mb();
    start = rv_clock_us();
    for (int i = 0; i < N_THREADS; i++) {
        if (pthread_create(&threads[i], NULL, vote_for_many, &crowd))
            die("thread", NULL);
    }
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(threads[i], NULL);
    rv_learner_tenants(crowd.learner, &stats);
    printf("tenants.n=%lld\n", (long long)n_tenants);
    printf("tenants.votes_a_second=%.0f\n",
           (double)(n_tenants + n_tenants / RARE * (MANY - 1)) * 1e6 / (double)(rv_clock_us() - start));
    printf("tenants.in_memory=%llu\n", (unsigned long long)stats.n);
    printf("tenants.counted_mb=%.1f\n", (double)stats.n_bytes / 1e6);
    printf("tenants.kb_of_one=%.1f\n", (double)stats.n_bytes / 1e3 / (double)(stats.n ? stats.n : 1));
    printf("tenants.resident_mb=%.1f\n", resident_mb() - before); // beside 64 MiB of traces
    come_back(&crowd, "one_vote", 1);
    come_back(&crowd, "hundred_votes", RARE);
    printf("tenants.store_mb=%.1f\n", stat(argv[1], &facts) == 0 ? (double)facts.st_size / 1e6 : 0.0);
    rv_learner_free(crowd.learner);
    ruvllm_store_close(store);
    return 0;
}
