/*
 * How fast memory can be read: threads go through a buffer far larger than any cache, each its own part, adding up
 * what they see. Decoding one token reads every weight once, so this is the ceiling of its speed.
 *
 *     bench_bandwidth [threads...]         prints bandwidth.t<threads>=<bytes a second / 1e9>, the best of the passes
 *
 * Threads: main makes them for each figure and joins them; they share the buffer, which is only read by then, and
 * meet at a barrier before and after each pass, where the first of them takes the time.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum { N_PASSES = 8, THREADS_MAX = 64, LANES = 32 };
static const size_t buffer_bytes = (size_t)1 << 30;

/* The widest loads the processor has, chosen when the program starts. */
#if defined(__x86_64__) && defined(__GNUC__)
#define WIDEST __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define WIDEST
#endif

struct run {
    const uint64_t *data;
    size_t n_words;
    int n_threads;
    pthread_barrier_t barrier;
    double best; // bytes a second; written by the first thread
};

struct reader {
    struct run *run;
    int index;
    uint64_t sum; // kept, so that the reading cannot be left out
};

/* Eight independent sums of four lanes: enough loads in flight to hide their latency. */
WIDEST static uint64_t read_words(const uint64_t *data, size_t n)
{
    uint64_t lanes[LANES] = {0}, sum = 0;

    for (size_t i = 0; i + LANES <= n; i += LANES)
        for (size_t k = 0; k < LANES; k++)
            lanes[k] += data[i + k];
    for (size_t k = 0; k < LANES; k++)
        sum += lanes[k];
    return sum;
}

static void *read_part(void *arg)
{
    struct reader *reader = arg;
    struct run *run = reader->run;
    size_t part = run->n_words / (size_t)run->n_threads / LANES * LANES;

    for (int pass = 0; pass < N_PASSES; pass++) {
        int64_t start;

        pthread_barrier_wait(&run->barrier);
        start = rv_clock_us();
        reader->sum += read_words(run->data + part * (size_t)reader->index, part);
        pthread_barrier_wait(&run->barrier);
        if (reader->index == 0) {
            double seconds = (double)(rv_clock_us() - start) * 1e-6;
            double rate = (double)(part * (size_t)run->n_threads * sizeof(uint64_t)) / seconds;

            if (rate > run->best)
                run->best = rate;
        }
    }
    return NULL;
}

static int measure(struct run *run, int n_threads)
{
    pthread_t threads[THREADS_MAX];
    struct reader readers[THREADS_MAX];
    uint64_t sum = 0;
    int n_started = 0;

    run->n_threads = n_threads;
    run->best = 0;
    if (pthread_barrier_init(&run->barrier, NULL, (unsigned)n_threads) != 0)
        return 1;
    for (int i = 0; i < n_threads; i++) {
        readers[i] = (struct reader){.run = run, .index = i};
        n_started += pthread_create(&threads[i], NULL, read_part, &readers[i]) == 0;
    }
    if (n_started < n_threads) {
        fprintf(stderr, "bench_bandwidth: cannot start %d threads\n", n_threads);
        exit(1); // those started wait at the barrier for ever
    }
    for (int i = 0; i < n_threads; i++) {
        pthread_join(threads[i], NULL);
        sum += readers[i].sum;
    }
    pthread_barrier_destroy(&run->barrier);
    printf("bandwidth.t%d=%.2f\n", n_threads, run->best * 1e-9);
    return sum == 0; // the buffer holds no zeros
}

int main(int argc, char **argv)
{
    static const char *const usual[] = {"1", "2"};
    const char *const *counts = argc > 1 ? (const char *const *)argv + 1 : usual;
    int n_counts = argc > 1 ? argc - 1 : 2;
    struct run run = {.n_words = buffer_bytes / sizeof(uint64_t)};
    uint64_t *data = malloc(buffer_bytes);

    if (!data) {
        fprintf(stderr, "bench_bandwidth: cannot allocate %zu bytes\n", buffer_bytes);
        return 1;
    }
    memset(data, 1, buffer_bytes);
    run.data = data;
    for (int i = 0; i < n_counts; i++) {
        long n = strtol(counts[i], NULL, 10);

        if (n < 1 || n > THREADS_MAX || measure(&run, (int)n) != 0) {
            fprintf(stderr, "bench_bandwidth: '%s' is no thread count from 1 to %d\n", counts[i], THREADS_MAX);
            free(data);
            return 1;
        }
    }
    free(data);
    return 0;
}
