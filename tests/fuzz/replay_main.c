/*
 * Runs a fuzz target without a fuzzer: on every file of its corpus, then on mutations of them drawn from a fixed
 * seed, so that each run is the same. Inputs are handed over in memory of exactly their size, where ASan sees the
 * first byte read too far.
 *
 *     fuzz_gguf_replay CORPUS-DIR [MUTATIONS [SEED]]
 *     fuzz_gguf_replay FILE                            one input, such as what a fuzzer found
 */
#include "base/rng.h"
#include "fuzz_target.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    MAX_SEEDS = 1024,
    MAX_INPUT = 1 << 20,
};

struct seed {
    char name[256];
    uint8_t *data;
    size_t len;
};

static struct seed seeds[MAX_SEEDS];
static size_t n_seeds;
static uint8_t work[MAX_INPUT];

static void run(const uint8_t *data, size_t len)
{
    uint8_t *exact = malloc(len ? len : 1);

    if (!exact)
        abort();
    memcpy(exact, data, len);
    LLVMFuzzerTestOneInput(exact, len);
    free(exact);
}

static bool load(const char *path, const char *name)
{
    struct seed *seed = &seeds[n_seeds];
    FILE *file = fopen(path, "rb");

    if (!file || n_seeds == MAX_SEEDS)
        return false;
    seed->len = fread(work, 1, sizeof(work), file);
    fclose(file);
    seed->data = malloc(seed->len ? seed->len : 1);
    if (!seed->data)
        return false;
    memcpy(seed->data, work, seed->len);
    snprintf(seed->name, sizeof(seed->name), "%s", name);
    n_seeds++;
    return true;
}

static int by_name(const void *left, const void *right)
{
    const struct seed *a = left, *b = right;

    return strcmp(a->name, b->name);
}

/* All plain files of a folder, in the order of their names, which readdir does not promise. */
static bool load_folder(const char *path)
{
    char file_path[1024];
    struct dirent *entry;
    struct stat st;
    bool ok = true;
    DIR *folder = opendir(path);

    if (!folder)
        return false;
    while (ok && (entry = readdir(folder)) != NULL) {
        snprintf(file_path, sizeof(file_path), "%s/%s", path, entry->d_name);
        if (stat(file_path, &st) == 0 && S_ISREG(st.st_mode))
            ok = load(file_path, entry->d_name);
    }
    closedir(folder);
    qsort(seeds, n_seeds, sizeof(seeds[0]), by_name);
    return ok;
}

/* Overwrites 1, 2, 4 or 8 bytes with a value that sits at an edge. */
static void put_edge(struct rv_rng *rng, size_t len)
{
    static const uint64_t edges[] = {
        0,      1,          2,          0x7F,       0x80,      0xFF,       0x7FFF,
        0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, INT64_MAX, UINT64_MAX, UINT64_C(1) << 63,
        13,     32};
    uint64_t value = edges[rv_rng_below(rng, sizeof(edges) / sizeof(edges[0]))] + rv_rng_below(rng, 3) - 1;
    size_t size = (size_t)1 << rv_rng_below(rng, 4);

    if (len >= size)
        memcpy(work + rv_rng_below(rng, len - size + 1), &value, size);
}

/* One change to work[0..len); returns the new length. */
static size_t mutate(struct rv_rng *rng, size_t len)
{
    const struct seed *other = &seeds[rv_rng_below(rng, n_seeds)];
    size_t from, to, n;

    if (len == 0)
        return 0;
    from = (size_t)rv_rng_below(rng, len);
    to = (size_t)rv_rng_below(rng, len);
    n = 1 + (size_t)rv_rng_below(rng, 64);
    switch (rv_rng_below(rng, 8)) {
    case 0: // cut short
        return from;
    case 1: // take bytes out
        n = n < len - from ? n : len - from;
        memmove(work + from, work + from + n, len - from - n);
        return len - n;
    case 2: // repeat bytes
        n = n < len - from ? n : len - from;
        n = n < MAX_INPUT - len ? n : MAX_INPUT - len;
        memmove(work + from + n, work + from, len - from);
        return len + n;
    case 3: // copy bytes from elsewhere in it
        n = n < len - from ? n : len - from;
        memmove(work + to, work + from, n < len - to ? n : len - to);
        return len;
    case 4: // go on as another input does from there
        if (from >= other->len)
            return len;
        memcpy(work + from, other->data + from, other->len - from);
        return other->len;
    case 5:
        work[from] = (uint8_t)rv_rng_next(rng);
        return len;
    case 6:
        work[from] ^= (uint8_t)(1u << rv_rng_below(rng, 8));
        return len;
    default:
        put_edge(rng, len);
        return len;
    }
}

int main(int argc, char **argv)
{
    unsigned long n_mutations = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    struct rv_rng rng;
    struct stat st;

    rv_rng_init(&rng, argc > 3 ? strtoull(argv[3], NULL, 10) : 1);
    if (argc < 2 || stat(argv[1], &st) != 0 || !(S_ISDIR(st.st_mode) ? load_folder(argv[1]) : load(argv[1], argv[1])) ||
        n_seeds == 0) {
        fprintf(stderr, "usage: %s CORPUS-DIR-OR-FILE [MUTATIONS [SEED]]; the corpus must not be empty\n", argv[0]);
        return 2;
    }
    for (size_t i = 0; i < n_seeds; i++)
        run(seeds[i].data, seeds[i].len);
    for (unsigned long i = 0; i < n_mutations; i++) {
        const struct seed *seed = &seeds[rv_rng_below(&rng, n_seeds)];
        size_t len = seed->len;

        memcpy(work, seed->data, len);
        for (uint64_t j = 0, n = 1 + rv_rng_below(&rng, 4); j < n; j++)
            len = mutate(&rng, len);
        run(work, len);
    }
    printf("%zu corpus files and %lu mutations replayed\n", n_seeds, n_mutations);
    for (size_t i = 0; i < n_seeds; i++)
        free(seeds[i].data);
    return 0;
}
