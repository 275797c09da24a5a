#include "support/adapter_shelf.h"

#include "engine/adapter_census.h"
#include "support/adapter_fixture.h"
#include "support/test.h"

#include <string.h>
#include <time.h>

enum { N_LAYERS = 2, WIDTH = 32 };

/* ---- files in memory ------------------------------------------------------------------------- */

/* The place of a hash, or a free one for "". */
static int find(const struct adapter_shelf *s, const char *hash)
{
    for (int i = 0; i < ADAPTER_SHELF_FILES; i++) {
        if (strcmp(s->kept[i].hash, hash) == 0)
            return i;
    }
    return -1;
}

static ruvllm_status shelf_save(void *user, const char *hash, const struct rv_adapter *adapter, void *source,
                                uint64_t *n_bytes, struct ruvllm_error *err)
{
    struct adapter_shelf *s = user;
    int at;

    (void)source;
    if (s->cannot_write)
        return rv_fail(err, RUVLLM_IO, "the shelf is full");
    pthread_mutex_lock(&s->lock);
    at = find(s, hash);
    if (at < 0) {
        at = find(s, "");
        RV_ASSERT(at >= 0);
        s->n_files++;
        memcpy(s->kept[at].hash, hash, sizeof(s->kept[at].hash));
    } else {
        rv_adapter_unref(s->kept[at].adapter);
    }
    s->kept[at].adapter = rv_adapter_ref((struct rv_adapter *)(uintptr_t)adapter);
    *n_bytes = adapter->n_bytes;
    pthread_mutex_unlock(&s->lock);
    return RUVLLM_OK;
}

static ruvllm_status shelf_load(void *user, const char *hash, struct rv_adapter **out, struct ruvllm_error *err)
{
    struct adapter_shelf *s = user;
    const struct timespec pause = {.tv_nsec = 1000L * s->read_us};
    ruvllm_status rc = RUVLLM_OK;
    int at;

    if (s->read_us)
        nanosleep(&pause, NULL);
    *out = NULL;
    pthread_mutex_lock(&s->lock);
    at = find(s, hash);
    if (at < 0 || s->cannot_read)
        rc = rv_fail(err, RUVLLM_IO, "the shelf is broken");
    else
        *out = rv_adapter_ref(s->kept[at].adapter);
    pthread_mutex_unlock(&s->lock);
    return rc;
}

static void shelf_remove(void *user, const char *hash)
{
    struct adapter_shelf *s = user;
    int at;

    pthread_mutex_lock(&s->lock);
    at = find(s, hash);
    RV_ASSERT(at >= 0);
    rv_adapter_unref(s->kept[at].adapter);
    s->kept[at].hash[0] = '\0';
    s->n_files--;
    pthread_mutex_unlock(&s->lock);
}

static void shelf_close_source(void *user, void *source)
{
    struct adapter_shelf *s = user;

    (void)source;
    s->n_sources--;
}

void adapter_shelf_init(struct adapter_shelf *shelf)
{
    memset(shelf, 0, sizeof(*shelf));
    pthread_mutex_init(&shelf->lock, NULL);
    shelf->files = (struct rv_adapter_registry_files){.save = shelf_save,
                                                      .load = shelf_load,
                                                      .remove = shelf_remove,
                                                      .close_source = shelf_close_source,
                                                      .user = shelf};
}

int adapter_shelf_n_files(struct adapter_shelf *shelf)
{
    int n;

    pthread_mutex_lock(&shelf->lock);
    n = shelf->n_files;
    pthread_mutex_unlock(&shelf->lock);
    return n;
}

void adapter_shelf_release(struct adapter_shelf *shelf)
{
    assert_int_equal(shelf->n_files, 0);
    assert_int_equal(shelf->n_sources, 0);
    pthread_mutex_destroy(&shelf->lock);
}

/* ---- adapters -------------------------------------------------------------------------------- */

struct rv_adapter *adapter_shelf_make(uint64_t layers_seed, uint64_t head_seed)
{
    static const struct rv_gguf_tensor matrix = {.n_dims = 2, .ne = {WIDTH, WIDTH, 1, 1}};
    const struct rv_gguf_tensor *layers[N_LAYERS][RV_N_PARTS] = {{NULL}};
    struct rv_manifest manifest = {.layers = layers};
    struct rv_hparams hparams = {.n_layers = N_LAYERS, .n_embd = WIDTH};
    const struct adapter_fixture fixture = {
        .hparams = &hparams, .manifest = &manifest, .rank = 4, .head_rank = 2, .strength = 1};

    layers[0][RV_PART_Q] = &matrix;
    layers[1][RV_PART_DOWN] = &matrix;
    return adapter_fixture_new_of(&fixture, layers_seed, head_seed);
}

int64_t adapter_shelf_publish(struct rv_adapter_registry *registry, const char *id, uint64_t layers_seed,
                              uint64_t head_seed)
{
    struct rv_adapter_offer offer = {.id = id, .expected = -1, .adapter = adapter_shelf_make(layers_seed, head_seed)};
    int64_t generation;

    assert_ok(rv_adapter_registry_publish(registry, &offer, &generation, err));
    rv_adapter_unref(offer.adapter);
    return generation;
}

static void count_ready(void *user, struct rv_adapter_ticket *ticket)
{
    struct adapter_shelf *s = user;

    (void)ticket;
    if (s)
        s->n_ready++;
}

struct rv_adapter_registry *adapter_shelf_open(struct adapter_shelf *shelf, int32_t max_layered, uint64_t max_bytes,
                                               int32_t max_generations)
{
    struct rv_adapter_registry_config config = {.max_layered = max_layered,
                                                .max_bytes = max_bytes,
                                                .max_generations = max_generations,
                                                .files = shelf ? &shelf->files : NULL,
                                                .on_ready = count_ready,
                                                .user = shelf};
    struct rv_adapter_registry *registry;

    assert_ok(rv_adapter_registry_open(&registry, &config, err));
    return registry;
}

void adapter_shelf_close(struct adapter_shelf *shelf, struct rv_adapter_registry *registry)
{
    assert_true(rv_adapter_census_check(registry));
    rv_adapter_registry_close(registry);
    adapter_shelf_release(shelf);
}

struct rv_adapter_registry_stats adapter_shelf_stats(struct rv_adapter_registry *registry)
{
    struct rv_adapter_registry_stats stats;

    rv_adapter_registry_stats_get(registry, &stats);
    return stats;
}
