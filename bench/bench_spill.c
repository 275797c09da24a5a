/*
 * What it costs to have blocks leave the pool and come back: bench_spill [FOLDER]. The shape is TinyLlama's; times are
 * of 64 MiB, the most that an engine writes or reads between two steps, in milliseconds, medians over rounds. The file
 * is in the system's cache when it is read, as it is when memory for blocks is short but the machine's is not.
 *
 *     spill.64mib.write, .read             hashing included
 *     spill.64mib.hash                     that alone
 *     spill.64mib.write_cpu, ...           what of it the processor spent, which a busy machine does not change
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/keyed_hash.h"
#include "kv/spill_file.h"
#include "temp_path.h"

enum { ROUNDS = 9, TOTAL = 64 << 20 };

static void need(bool is_good, const char *what)
{
    if (is_good)
        return;
    (void)fprintf(stderr, "bench_spill: cannot %s\n", what);
    exit(1);
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* One figure: time that passed, and time that was spent. */
struct watch {
    int64_t wall_us[ROUNDS];
    int64_t cpu_us[ROUNDS];
    int n;
};

static int64_t cpu_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void start(struct watch *w)
{
    w->wall_us[w->n] = -rv_clock_us();
    w->cpu_us[w->n] = -cpu_us();
}

static void stop(struct watch *w)
{
    w->wall_us[w->n] += rv_clock_us();
    w->cpu_us[w->n++] += cpu_us();
}

static double median_ms(int64_t *times)
{
    const int64_t *middle = times + ROUNDS / 2;

    qsort(times, ROUNDS, sizeof(*times), compare);
    return (double)*middle / 1e3;
}

static void print(struct watch *w, const char *name)
{
    printf("spill.64mib.%s=%.1f\n", name, median_ms(w->wall_us));
    printf("spill.64mib.%s_cpu=%.1f\n", name, median_ms(w->cpu_us));
}

/* Bytes that do not repeat. */
static void fill(uint8_t *data, size_t n)
{
    uint64_t z = 1;

    for (size_t i = 0; i < n; i++) {
        z = z * UINT64_C(6364136223846793005) + 1442695040888963407;
        data[i] = (uint8_t)(z >> 56);
    }
}

int main(int argc, char **argv)
{
    struct rv_block_pool_config shape = {.n_layers = 22, .n_kv_heads = 4, .head_dim = 64, .budget = TOTAL};
    struct rv_spill_file_config config = {.dir = argc > 1 ? argv[1] : temp_path_folder(),
                                          .budget = 2 * (uint64_t)TOTAL};
    struct watch writing = {0}, reading = {0}, hashing = {0};
    const uint8_t key[RV_KEYED_HASH_KEY] = {1};
    struct rv_block_pool *pool;
    struct rv_spill_file *spill;
    int32_t blocks[1024], n;
    size_t bytes;
    uint64_t sum = 0;

    need(!rv_block_pool_new(&pool, &shape, NULL), "make a pool");
    config.pool = pool;
    need(!rv_spill_file_open(&spill, &config, NULL), "make a spill file");
    bytes = rv_block_pool_block_bytes(pool, RV_KV_BLOCK_F16);
    n = rv_block_pool_n_free(pool);
    need(n > 0 && n <= 1024, "have so many blocks");
    for (int32_t i = 0; i < n; i++) {
        blocks[i] = rv_block_pool_take(pool, RV_KV_BLOCK_F16);
        fill(rv_block_pool_data(pool, blocks[i]), bytes);
    }
    for (int round = 0; round < ROUNDS; round++) {
        struct rv_spill_run run = {0};

        start(&writing);
        for (int32_t i = 0; i < n; i++)
            need(rv_spill_file_put(spill, &run, blocks[i]), "write");
        stop(&writing);
        for (int32_t i = 0; i < n; i++)
            rv_block_pool_unref(pool, blocks[i]);
        start(&reading);
        for (int32_t i = 0; i < n; i++) {
            blocks[i] = rv_spill_file_get(spill, &run);
            need(blocks[i] >= 0, "read");
        }
        stop(&reading);
        start(&hashing);
        for (int32_t i = 0; i < n; i++)
            sum += rv_keyed_hash64(key, rv_block_pool_data(pool, blocks[i]), bytes);
        stop(&hashing);
    }
    need(sum != 0, "hash");
    print(&writing, "write");
    print(&reading, "read");
    print(&hashing, "hash");
    rv_spill_file_close(spill);
    rv_block_pool_free(pool);
    return 0;
}
