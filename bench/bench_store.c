/*
 * What it costs to keep events: bench_store [PATH|URL] [SECONDS]. Sixteen threads add events, each waiting for its
 * acknowledgement, which comes after the commit is on the disk. The store is made anew at PATH (default
 * ./bench-store.db) and removed in the end; a URL's database is used as it is.
 *
 *     store.events.<bytes>.rate          events a second, with an update of so many bytes each
 *     store.events.<bytes>.ack.p50, .p99 milliseconds until the acknowledgement
 *     store.events.<bytes>.batch         events a commit
 *     store.events.paced.ack.p99         the same at 5000 events a second, if the disk allows so many
 *     store.disk.fsync.p50, .p99         milliseconds of one write of 4 KiB and fdatasync: what no store can go below
 */
#include "base/clock.h"
#include "store/store_events.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { N_WRITERS = 16, MAX_TIMES = 1 << 20, PACE = 5000 };

static void need(ruvllm_status rc, const struct ruvllm_error *err)
{
    if (!rc)
        return;
    (void)fprintf(stderr, "bench_store: %s\n", err->message);
    exit(1);
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static double at(const int64_t *sorted, size_t n, double share)
{
    return n ? (double)sorted[(size_t)((double)(n - 1) * share)] / 1e3 : 0;
}

struct load {
    ruvllm_store *store;
    size_t n_bytes;
    int64_t end_us;
    int64_t begin_us;
    atomic_long n_begun; // paced: the nth event is due at begin + n / PACE
    bool is_paced;
    atomic_long n_done;
    int64_t *times; // of each acknowledgement
};

static void wait_for_turn(struct load *load)
{
    int64_t due = load->begin_us + atomic_fetch_add(&load->n_begun, 1) * 1000000 / PACE;
    int64_t left = due - rv_clock_us();
    struct timespec pause = {.tv_sec = left / 1000000, .tv_nsec = left % 1000000 * 1000};

    if (left > 0)
        nanosleep(&pause, NULL);
}

static void *add_events(void *arg)
{
    static const char bytes[65536] = {1};
    struct load *load = arg;
    struct ruvllm_error err;
    char tenant[16];

    while (rv_clock_us() < load->end_us) {
        struct rv_store_event e = {.tenant = tenant,
                                   .model = "bench",
                                   .response_id = "resp",
                                   .kind = RV_STORE_EVENT_VOTE,
                                   .score = 1,
                                   .delta = {.data = bytes, .len = load->n_bytes}};
        int64_t began;
        long i;

        if (load->is_paced)
            wait_for_turn(load);
        began = rv_clock_us();
        (void)snprintf(tenant, sizeof(tenant), "t%d", (int)(began % 1000));
        need(rv_store_events_append(load->store, &e, 1, &err), &err);
        i = atomic_fetch_add(&load->n_done, 1);
        if (i < MAX_TIMES)
            load->times[i] = rv_clock_us() - began;
    }
    return NULL;
}

static void run(ruvllm_store *store, size_t n_bytes, bool is_paced, int seconds, int64_t *times)
{
    struct load load = {.store = store, .n_bytes = n_bytes, .is_paced = is_paced, .times = times};
    struct rv_event_writer_stats before, after;
    struct ruvllm_error err;
    pthread_t threads[N_WRITERS];
    char name[32];
    size_t n;

    need(rv_store_events_stats(store, &before, &err), &err);
    load.begin_us = rv_clock_us();
    load.end_us = load.begin_us + (int64_t)seconds * 1000000;
    for (int i = 0; i < N_WRITERS; i++) {
        if (pthread_create(&threads[i], NULL, add_events, &load))
            exit(1);
    }
    for (int i = 0; i < N_WRITERS; i++)
        pthread_join(threads[i], NULL);
    need(rv_store_events_stats(store, &after, &err), &err);
    n = (size_t)load.n_done < MAX_TIMES ? (size_t)load.n_done : MAX_TIMES;
    qsort(times, n, sizeof(*times), compare);
    (void)snprintf(name, sizeof(name), is_paced ? "paced" : "%zu", n_bytes);
    printf("store.events.%s.rate=%.0f\n", name, (double)load.n_done * 1e6 / (double)(rv_clock_us() - load.begin_us));
    printf("store.events.%s.ack.p50=%.2f\n", name, at(times, n, 0.5));
    printf("store.events.%s.ack.p99=%.2f\n", name, at(times, n, 0.99));
    printf("store.events.%s.batch=%.1f\n", name,
           (double)(after.n_events - before.n_events) / (double)(after.n_batches - before.n_batches));
    (void)fflush(stdout);
}

/* Writes over the same pages, as a log that was brought into its file does. */
static void time_disk(const char *path, int64_t *times)
{
    static const char page[4096] = {1};
    enum { ROUNDS = 300 };
    char name[512];
    int fd;

    (void)snprintf(name, sizeof(name), "%s.fsync", path);
    fd = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    for (int i = -64; i < ROUNDS; i++) {
        int64_t began = rv_clock_us();

        if (pwrite(fd, page, sizeof(page), ((i + 64) % 64) * (off_t)sizeof(page)) != (ssize_t)sizeof(page) ||
            fdatasync(fd) != 0)
            exit(1);
        if (i >= 0)
            times[i] = rv_clock_us() - began;
    }
    close(fd);
    remove(name);
    qsort(times, ROUNDS, sizeof(*times), compare);
    printf("store.disk.fsync.p50=%.2f\nstore.disk.fsync.p99=%.2f\n", at(times, ROUNDS, 0.5), at(times, ROUNDS, 0.99));
}

static void remove_store(const char *path)
{
    static const char *const ends[] = {"", "-wal", "-shm"};
    char name[512];

    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(name, sizeof(name), "%s%s", path, ends[i]);
        (void)remove(name);
    }
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {0, 7168, 16384}; // rank 2: no update, 896 and 2048 wide
    const char *path = argc > 1 ? argv[1] : "bench-store.db";
    int seconds = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 10;
    bool is_file = !strstr(path, "://");
    int64_t *times = calloc(MAX_TIMES, sizeof(*times));
    struct ruvllm_error err;
    ruvllm_store *store;

    if (!times)
        return 1;
    if (is_file) {
        remove_store(path);
        time_disk(path, times);
    }
    need(ruvllm_store_open(&store, path, NULL, &err), &err);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        run(store, sizes[i], false, seconds, times);
    run(store, 0, true, seconds, times);
    ruvllm_store_close(store);
    if (is_file)
        remove_store(path);
    free(times);
    return 0;
}
