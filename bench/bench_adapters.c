/*
 * A hundred thousand tenants' head adapters: bench_adapters MODEL [N_MEMORY [N_DISK [FOLDER]]]. Adapters of rank 2 on
 * the head's input of the model, 100,000 in memory and 5,000 behind a folder with room for a tenth of them in memory.
 *
 *     adapters.memory.n, .mib, .bytes_each    what the process grew by
 *     adapters.memory.publish_p50_us, _p99    from an adapter in memory to a generation that requests find
 *     adapters.memory.switch_p50_us, _p99     from an id to its adapter, and back: pin, hold, release
 *     adapters.disk.switch_p50_us, _p99       the same for those that are not in memory, files out of the system's
 * cache adapters.disk.cached_p50_us, _p99       the same with the files in it
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"
#include "engine/adapter_depot.h"
#include "engine/model.h"
#include "temp_path.h"

enum { RANK = 2, N_SWITCHES = 200000, N_READS = 2000 };

static void need(bool is_good, const char *what)
{
    if (is_good)
        return;
    (void)fprintf(stderr, "bench_adapters: cannot %s\n", what);
    exit(1);
}

/* ---- figures ---------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static void print_times(const char *name, int64_t *us, size_t n)
{
    if (n == 0)
        return;
    qsort(us, n, sizeof(*us), compare);
    printf("adapters.%s_p50_us=%lld\nadapters.%s_p99_us=%lld\nadapters.%s_max_us=%lld\n", name, (long long)us[n / 2],
           name, (long long)us[n - 1 - n / 100], name, (long long)us[n - 1]);
    (void)fflush(stdout);
}

static uint64_t resident_bytes(void)
{
    char line[128] = "", *rest;
    uint64_t pages;
    FILE *file = fopen("/proc/self/statm", "r");

    need(file && fgets(line, sizeof(line), file), "read the process's size");
    fclose(file);
    (void)strtoull(line, &rest, 10);
    pages = strtoull(rest, NULL, 10);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* ---- adapters --------------------------------------------------------------------------------- */

struct numbers {
    struct rv_rng rng;
    float *a, *b;
    size_t n;
};

static ruvllm_status fill(void *user, int32_t layer, enum rv_part part, struct rv_adapter_numbers *out,
                          struct ruvllm_error *err)
{
    struct numbers *x = user;

    (void)layer;
    (void)part;
    (void)err;
    for (size_t i = 0; i < x->n; i++) {
        uint64_t bits = rv_rng_next(&x->rng);

        x->a[i] = (float)(bits & 0xffff) * 0x1p-16f - 0.5f;
        x->b[i] = (float)(bits >> 16 & 0xffff) * 0x1p-16f - 0.5f;
    }
    *out = (struct rv_adapter_numbers){.a = x->a, .b = x->b};
    return RUVLLM_OK;
}

static struct rv_adapter *make(const struct ruvllm_model *model, struct numbers *x)
{
    struct rv_adapter_shape shape = {
        .hparams = &model->hparams, .manifest = &model->manifest, .head_rank = RANK, .head_scale = 1};
    struct rv_adapter *adapter;

    need(!rv_adapter_new(&adapter, &shape, fill, x, NULL), "make an adapter");
    return adapter;
}

static void name(char id[32], uint64_t i)
{
    (void)snprintf(id, 32, "tenant-%07llu/head", (unsigned long long)i);
}

static void publish_all(struct rv_adapter_registry *r, const struct ruvllm_model *model, size_t n, int64_t *us)
{
    struct numbers x = {.n = (size_t)model->hparams.n_embd * RANK};

    x.a = malloc(x.n * sizeof(*x.a));
    x.b = malloc(x.n * sizeof(*x.b));
    need(x.a && x.b, "allocate");
    rv_rng_init(&x.rng, 1);
    for (size_t i = 0; i < n; i++) {
        struct rv_adapter_offer offer = {.expected = 0, .adapter = make(model, &x)};
        ruvllm_status rc = RUVLLM_BUSY;
        int64_t generation;
        char id[32];

        name(id, i);
        offer.id = id;
        while (rc == RUVLLM_BUSY) { // the clerk has too much to write
            us[i] = -rv_clock_us();
            rc = rv_adapter_registry_publish(r, &offer, &generation, NULL);
            us[i] += rv_clock_us();
            if (rc == RUVLLM_BUSY)
                rv_adapter_registry_settle(r);
        }
        need(rc == RUVLLM_OK, "publish");
        rv_adapter_unref(offer.adapter);
    }
    free(x.a);
    free(x.b);
}

/* ---- parts -------------------------------------------------------------------------------------- */

static void ignore_ready(void *user, struct rv_adapter_ticket *ticket)
{
    (void)user;
    (void)ticket;
}

static void in_memory(const struct ruvllm_model *model, size_t n)
{
    struct rv_adapter_registry_config config = {
        .max_layered = 64, .max_bytes = (uint64_t)1 << 40, .max_generations = 16, .on_ready = ignore_ready};
    int64_t *us = malloc((n > N_SWITCHES ? n : N_SWITCHES) * sizeof(*us));
    uint64_t before = resident_bytes(), grown;
    struct rv_adapter_registry *r = NULL;
    struct rv_rng rng;

    need(us && !rv_adapter_registry_open(&r, &config, NULL), "open a registry");
    publish_all(r, model, n, us);
    grown = resident_bytes() - before;
    printf("adapters.memory.n=%zu\nadapters.memory.mib=%.1f\nadapters.memory.bytes_each=%.0f\n", n,
           (double)grown / 1048576, (double)grown / (double)n);
    print_times("memory.publish", us, n);
    rv_rng_init(&rng, 2);
    for (size_t i = 0; i < N_SWITCHES; i++) {
        struct rv_adapter_choice choice = {.weight = 1};
        struct rv_adapter_ticket ticket = {0};
        char id[32];

        name(id, rv_rng_below(&rng, n));
        choice.id = id;
        us[i] = -rv_clock_us();
        need(!rv_adapter_registry_pin(r, &ticket, &choice, 1, NULL) && rv_adapter_registry_enter(r, &ticket), "hold");
        rv_adapter_registry_release(r, &ticket);
        us[i] += rv_clock_us();
    }
    print_times("memory.switch", us, N_SWITCHES);
    free(us);
    rv_adapter_registry_close(r);
}

/* Has the system forget what it holds of the files. */
static void drop_files(const char *dir)
{
    for (int i = 0; i < 256; i++) {
        const struct dirent *entry;
        char path[512];
        DIR *folder;

        (void)snprintf(path, sizeof(path), "%s/%02x", dir, i);
        folder = opendir(path);
        while (folder && (entry = readdir(folder))) {
            int fd = openat(dirfd(folder), entry->d_name, O_RDONLY);

            if (fd < 0)
                continue;
            (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
            close(fd);
        }
        if (folder)
            closedir(folder);
    }
}

/* Times of those that had to be read. */
static size_t read_some(struct rv_adapter_registry *r, size_t n, int64_t *us)
{
    struct rv_adapter_registry_stats stats;
    struct rv_rng rng;
    size_t n_timed = 0;

    rv_rng_init(&rng, 3);
    for (size_t i = 0; i < N_READS; i++) {
        struct rv_adapter_choice choice = {.weight = 1};
        struct rv_adapter_ticket ticket;
        uint64_t n_loaded;
        char id[32];

        name(id, rv_rng_below(&rng, n));
        choice.id = id;
        rv_adapter_registry_stats_get(r, &stats);
        n_loaded = stats.n_loaded;
        us[n_timed] = -rv_clock_us();
        need(!rv_adapter_registry_fetch(r, &ticket, &choice, 1, NULL), "read an adapter");
        us[n_timed] += rv_clock_us();
        rv_adapter_registry_release(r, &ticket);
        rv_adapter_registry_stats_get(r, &stats);
        n_timed += stats.n_loaded > n_loaded;
    }
    return n_timed;
}

static void on_disk(const struct ruvllm_model *model, size_t n, const char *dir)
{
    struct rv_adapter_registry_config config = {.max_layered = 64, .max_generations = 16, .on_ready = ignore_ready};
    int64_t *us = malloc((n > N_READS ? n : N_READS) * sizeof(*us)), start = rv_clock_us();
    struct rv_adapter_file_base base;
    struct rv_adapter_registry *r;
    struct rv_adapter_depot *depot;
    size_t n_timed;

    need(us, "allocate");
    rv_adapter_file_base_init(&base, &model->hparams, &model->manifest);
    need(!rv_adapter_depot_open(&depot, dir, &base, NULL), "open the folder");
    config.files = rv_adapter_depot_files(depot);
    config.max_bytes = (uint64_t)n / 10 * ((uint64_t)model->hparams.n_embd * RANK * 4 + 512);
    need(!rv_adapter_registry_open(&r, &config, NULL), "open a registry");
    publish_all(r, model, n, us);
    rv_adapter_registry_settle(r);
    printf("adapters.disk.n=%zu\nadapters.disk.writes_per_s=%.0f\n", n,
           (double)n * 1e6 / (double)(rv_clock_us() - start));
    print_times("disk.publish", us, n);
    drop_files(dir);
    n_timed = read_some(r, n, us);
    print_times("disk.switch", us, n_timed);
    n_timed = read_some(r, n, us);
    print_times("disk.cached", us, n_timed);
    free(us);
    rv_adapter_registry_close(r);
    rv_adapter_depot_close(depot);
}

int main(int argc, char **argv)
{
    struct ruvllm_model_params params = ruvllm_model_params_default();
    char folder[512];
    size_t n_memory = argc > 2 ? strtoull(argv[2], NULL, 10) : 100000;
    size_t n_disk = argc > 3 ? strtoull(argv[3], NULL, 10) : 5000;
    struct ruvllm_error err = {0};
    struct ruvllm_model *model;

    if (argc < 2) {
        (void)fprintf(stderr, "usage: bench_adapters MODEL [N_MEMORY [N_DISK [FOLDER]]]\n");
        return 2;
    }
    temp_path_of(folder, sizeof(folder), "bench_adapters");
    params.vocab_only = true; // shapes are all that is needed
    need(!rv_model_open(&model, argv[1], &params, false, &err), err.message);
    printf("adapters.width=%d\nadapters.rank=%d\n", model->hparams.n_embd, RANK);
    if (n_memory > 0)
        in_memory(model, n_memory);
    if (n_disk >= 100)
        on_disk(model, n_disk, argc > 4 ? argv[4] : folder);
    rv_model_close(model);
    return 0;
}
