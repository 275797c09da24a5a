/*
 * Registries of adapters without models and disks: adapters of a model of two narrow layers, and files that are kept in
 * memory, slow or broken as the suite wants them.
 */
#ifndef RV_TESTS_SUPPORT_ADAPTER_SHELF_H
#define RV_TESTS_SUPPORT_ADAPTER_SHELF_H

#include "engine/adapter_registry.h"

#include <pthread.h>
#include <stdatomic.h>

enum { ADAPTER_SHELF_FILES = 4096 };

struct adapter_shelf {
    struct rv_adapter_registry_files files;
    pthread_mutex_t lock;
    struct {
        char hash[RV_SHA256_HEX_LEN + 1]; // "": free
        struct rv_adapter *adapter;
    } kept[ADAPTER_SHELF_FILES];
    int n_files; // guarded by lock
    atomic_bool cannot_write, cannot_read;
    atomic_int read_us; // how long reading takes
    atomic_int n_sources;
    atomic_int n_ready; // tickets that were announced
};

void adapter_shelf_init(struct adapter_shelf *shelf);
/* Fails unless every file was removed and every source closed. */
void adapter_shelf_release(struct adapter_shelf *shelf);
int adapter_shelf_n_files(struct adapter_shelf *shelf);

/* An adapter with a reference of the caller's; the same seeds make the same. A seed of 0 for layers: none. */
struct rv_adapter *adapter_shelf_make(uint64_t layers_seed, uint64_t head_seed);
/* Publishes such an adapter and returns its generation. */
int64_t adapter_shelf_publish(struct rv_adapter_registry *registry, const char *id, uint64_t layers_seed,
                              uint64_t head_seed);
/* A registry with max_layered places over the shelf; NULL: memory only. */
struct rv_adapter_registry *adapter_shelf_open(struct adapter_shelf *shelf, int32_t max_layered, uint64_t max_bytes,
                                               int32_t max_generations);
/* Closes a registry whose numbers add up, and releases the shelf. */
void adapter_shelf_close(struct adapter_shelf *shelf, struct rv_adapter_registry *registry);
struct rv_adapter_registry_stats adapter_shelf_stats(struct rv_adapter_registry *registry);

#endif
