/*
 * Three slabs of address space, one a precision, and one table of blocks. A place in a slab is either taken by a block,
 * spare (free, but its pages are there: the next block takes it first) or bare (never used, or its pages were given
 * back). Taken and spare places together never cost more than the budget: when they would, spare places of the
 * other slabs are made bare. Besides them there is one block's worth of scratch, for converting in a full pool.
 */
#define _GNU_SOURCE // madvise and anonymous mappings
#include "kv/block_pool.h"

#include "base/alloc.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { POISON = 0xFF }; // a NaN in half precision, as number and as scale

struct slab {
    uint8_t *base;
    size_t mapped;
    size_t k_bytes;     // keys of one head
    size_t head_bytes;  // with its values
    size_t block_bytes; // a whole block, in whole pages
    int32_t n_places;
    int32_t n_touched; // places from here on were never used
    int32_t *spare;    // stack
    int32_t n_spare;
    int32_t *bare; // stack of places below n_touched
    int32_t n_bare;
    int32_t n_taken;
};

struct block {
    int32_t place;
    int32_t refs;
    bool cached;
    bool is_used;
};

struct rv_block_pool {
    struct rv_block_pool_config config;
    struct slab slabs[RV_KV_BLOCK_N_FORMATS];
    struct block *blocks;             // n_ids
    struct rv_attention_block *views; // n_ids
    int32_t *free_ids;                // stack
    int32_t n_free_ids;
    int32_t n_ids;
    int32_t n_idle;
    size_t idle_bytes;
    uint8_t *scratch; // a block of the largest format there is to convert to
    size_t scratch_bytes;
    size_t used;
    size_t resident; // bytes of taken and spare places
};

bool rv_block_pool_can_quantize(const struct rv_block_pool *pool)
{
    return pool->config.head_dim % 32 == 0;
}

/* ---- places -------------------------------------------------------------------------------- */

static void *map_pages(size_t bytes, struct ruvllm_error *err)
{
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (base != MAP_FAILED) {
        /* Attention walks over blocks far apart: larger pages spare it address lookups. Refusal costs only that. */
        (void)madvise(base, bytes, MADV_HUGEPAGE);
        return base;
    }
    (void)rv_fail_kind(err, RUVLLM_NO_MEMORY, RUVLLM_ERROR_KV_CACHE, "cannot reserve %zu bytes for keys and values",
                       bytes);
    return NULL;
}

/* A block of all heads, in whole pages. */
static size_t bytes_of(const struct rv_block_pool_config *c, enum rv_kv_block_format format)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t head = rv_kv_block_k_bytes(format, c->head_dim) + rv_kv_block_v_bytes(format, c->head_dim);
    size_t bytes = head * (size_t)c->n_kv_heads * (size_t)c->n_layers;

    return (bytes + page - 1) / page * page;
}

size_t rv_block_pool_budget_for(const struct rv_block_pool_config *config, int32_t n_blocks)
{
    return (size_t)n_blocks * bytes_of(config, RV_KV_BLOCK_F16);
}

static ruvllm_status open_slab(struct rv_block_pool *pool, enum rv_kv_block_format format, struct ruvllm_error *err)
{
    const struct rv_block_pool_config *c = &pool->config;
    struct slab *s = &pool->slabs[format];

    s->k_bytes = rv_kv_block_k_bytes(format, c->head_dim);
    s->head_bytes = s->k_bytes + rv_kv_block_v_bytes(format, c->head_dim);
    s->block_bytes = bytes_of(c, format);
    s->n_places = (int32_t)(c->budget / s->block_bytes);
    s->spare = rv_calloc((size_t)s->n_places + 1, sizeof(*s->spare));
    s->bare = rv_calloc((size_t)s->n_places + 1, sizeof(*s->bare));
    if (!s->spare || !s->bare)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the table of %d blocks", s->n_places);
    s->mapped = (size_t)s->n_places * s->block_bytes;
    if (s->mapped > 0)
        s->base = map_pages(s->mapped, err);
    return s->mapped == 0 || s->base ? RUVLLM_OK : RUVLLM_NO_MEMORY;
}

static uint8_t *place_data(const struct slab *s, int32_t place)
{
    return s->base + (size_t)place * s->block_bytes;
}

/* Gives the pages of one spare place of another slab back; false when none has any. */
static bool give_back(struct rv_block_pool *pool, const struct slab *except)
{
    for (int i = 0; i < RV_KV_BLOCK_N_FORMATS; i++) {
        struct slab *s = &pool->slabs[i];
        int32_t place;

        if (s == except || s->n_spare == 0)
            continue;
        place = s->spare[--s->n_spare];
        /* Cannot fail on memory mapped above; if it did, the pages would only stay a while longer. */
        (void)madvise(place_data(s, place), s->block_bytes, MADV_DONTNEED);
        s->bare[s->n_bare++] = place;
        pool->resident -= s->block_bytes;
        return true;
    }
    return false;
}

static int32_t take_place(struct rv_block_pool *pool, struct slab *s)
{
    int32_t place;

    if (pool->used + s->block_bytes > pool->config.budget)
        return -1;
    if (s->n_spare > 0) {
        place = s->spare[--s->n_spare];
    } else {
        while (pool->resident + s->block_bytes > pool->config.budget && give_back(pool, s))
            continue;
        RV_ASSERT(pool->resident + s->block_bytes <= pool->config.budget);
        RV_ASSERT(s->n_bare > 0 || s->n_touched < s->n_places);
        place = s->n_bare > 0 ? s->bare[--s->n_bare] : s->n_touched++;
        pool->resident += s->block_bytes;
    }
    pool->used += s->block_bytes;
    s->n_taken++;
    return place;
}

static void drop_place(struct rv_block_pool *pool, struct slab *s, int32_t place)
{
    if (pool->config.poison)
        memset(place_data(s, place), POISON, s->block_bytes);
    s->spare[s->n_spare++] = place;
    s->n_taken--;
    pool->used -= s->block_bytes;
}

/* ---- blocks -------------------------------------------------------------------------------- */

static void set_place(struct rv_block_pool *pool, int32_t block, enum rv_kv_block_format format, int32_t place)
{
    pool->blocks[block].place = place;
    pool->views[block].format = format;
    pool->views[block].data = place_data(&pool->slabs[format], place);
}

static const struct block *at(const struct rv_block_pool *pool, int32_t block)
{
    RV_ASSERT(block >= 0 && block < pool->n_ids && pool->blocks[block].is_used);
    return &pool->blocks[block];
}

int32_t rv_block_pool_take(struct rv_block_pool *pool, enum rv_kv_block_format format)
{
    int32_t place = take_place(pool, &pool->slabs[format]), block;

    if (place < 0)
        return -1;
    block = pool->free_ids[--pool->n_free_ids];
    pool->blocks[block] = (struct block){.refs = 1, .is_used = true};
    set_place(pool, block, format, place);
    return block;
}

static void free_block(struct rv_block_pool *pool, int32_t block)
{
    drop_place(pool, &pool->slabs[pool->views[block].format], pool->blocks[block].place);
    pool->blocks[block].is_used = false;
    pool->views[block].data = NULL;
    pool->free_ids[pool->n_free_ids++] = block;
}

static void count_idle(struct rv_block_pool *pool, int32_t block, int sign)
{
    size_t bytes = pool->slabs[pool->views[block].format].block_bytes;

    pool->n_idle += sign;
    pool->idle_bytes = sign > 0 ? pool->idle_bytes + bytes : pool->idle_bytes - bytes;
}

void rv_block_pool_ref(struct rv_block_pool *pool, int32_t block)
{
    struct block *b = &pool->blocks[block];

    (void)at(pool, block);
    if (b->cached && b->refs == 0)
        count_idle(pool, block, -1);
    b->refs++;
}

void rv_block_pool_unref(struct rv_block_pool *pool, int32_t block)
{
    struct block *b = &pool->blocks[block];

    RV_ASSERT(at(pool, block)->refs > 0);
    if (--b->refs > 0)
        return;
    if (b->cached)
        count_idle(pool, block, 1);
    else
        free_block(pool, block);
}

void rv_block_pool_cache(struct rv_block_pool *pool, int32_t block)
{
    RV_ASSERT(!at(pool, block)->cached && pool->blocks[block].refs > 0);
    pool->blocks[block].cached = true;
}

void rv_block_pool_uncache(struct rv_block_pool *pool, int32_t block)
{
    RV_ASSERT(at(pool, block)->cached);
    pool->blocks[block].cached = false;
    if (pool->blocks[block].refs > 0)
        return;
    count_idle(pool, block, -1);
    free_block(pool, block);
}

bool rv_block_pool_is_cached(const struct rv_block_pool *pool, int32_t block)
{
    return at(pool, block)->cached;
}

int32_t rv_block_pool_refs(const struct rv_block_pool *pool, int32_t block)
{
    return at(pool, block)->refs;
}

enum rv_kv_block_format rv_block_pool_format(const struct rv_block_pool *pool, int32_t block)
{
    (void)at(pool, block);
    return pool->views[block].format;
}

int32_t rv_block_pool_copy(struct rv_block_pool *pool, int32_t block)
{
    int32_t copy;

    RV_ASSERT(rv_block_pool_format(pool, block) == RV_KV_BLOCK_F16);
    copy = rv_block_pool_take(pool, RV_KV_BLOCK_F16);
    if (copy >= 0)
        memcpy(rv_block_pool_data(pool, copy), rv_block_pool_data(pool, block),
               pool->slabs[RV_KV_BLOCK_F16].block_bytes);
    return copy;
}

static void convert_heads(const struct rv_block_pool *pool, int32_t block, enum rv_kv_block_format format, uint8_t *out)
{
    enum rv_kv_block_format old = pool->views[block].format;
    const struct slab *from = &pool->slabs[old], *to = &pool->slabs[format];
    int32_t n_heads = pool->config.n_layers * pool->config.n_kv_heads;

    for (int32_t i = 0; i < n_heads; i++) {
        const uint8_t *k = pool->views[block].data + (size_t)i * from->head_bytes;
        uint8_t *k_out = out + (size_t)i * to->head_bytes;

        rv_kv_block_convert(old, k, k + from->k_bytes, format, k_out, k_out + to->k_bytes, pool->config.head_dim);
    }
}

void rv_block_pool_convert(struct rv_block_pool *pool, int32_t block, enum rv_kv_block_format format)
{
    enum rv_kv_block_format old = rv_block_pool_format(pool, block);
    struct slab *from = &pool->slabs[old], *to = &pool->slabs[format];
    bool is_idle = pool->blocks[block].refs == 0;
    int32_t place = take_place(pool, to);

    RV_ASSERT(format > old && rv_block_pool_can_quantize(pool));
    if (is_idle)
        count_idle(pool, block, -1);
    if (place >= 0) {
        convert_heads(pool, block, format, place_data(to, place));
        drop_place(pool, from, pool->blocks[block].place);
    } else {
        convert_heads(pool, block, format, pool->scratch);
        drop_place(pool, from, pool->blocks[block].place);
        place = take_place(pool, to);
        RV_ASSERT(place >= 0); // a lower precision never takes more than what was just dropped
        memcpy(place_data(to, place), pool->scratch, to->block_bytes);
    }
    set_place(pool, block, format, place);
    if (is_idle)
        count_idle(pool, block, 1);
}

const struct rv_attention_block *rv_block_pool_blocks(const struct rv_block_pool *pool)
{
    return pool->views;
}

uint8_t *rv_block_pool_data(struct rv_block_pool *pool, int32_t block)
{
    return place_data(&pool->slabs[rv_block_pool_format(pool, block)], pool->blocks[block].place);
}

size_t rv_block_pool_k_offset(const struct rv_block_pool *pool, enum rv_kv_block_format format, int32_t layer,
                              int32_t head)
{
    return pool->slabs[format].head_bytes * (size_t)(layer * pool->config.n_kv_heads + head);
}

size_t rv_block_pool_v_offset(const struct rv_block_pool *pool, enum rv_kv_block_format format, int32_t layer,
                              int32_t head)
{
    return rv_block_pool_k_offset(pool, format, layer, head) + pool->slabs[format].k_bytes;
}

/* ---- counts -------------------------------------------------------------------------------- */

size_t rv_block_pool_block_bytes(const struct rv_block_pool *pool, enum rv_kv_block_format format)
{
    return pool->slabs[format].block_bytes;
}

size_t rv_block_pool_budget(const struct rv_block_pool *pool)
{
    return pool->config.budget;
}

size_t rv_block_pool_used(const struct rv_block_pool *pool)
{
    return pool->used;
}

int32_t rv_block_pool_n_used(const struct rv_block_pool *pool, enum rv_kv_block_format format)
{
    return pool->slabs[format].n_taken;
}

int32_t rv_block_pool_n_free(const struct rv_block_pool *pool)
{
    return (int32_t)((pool->config.budget - pool->used) / pool->slabs[RV_KV_BLOCK_F16].block_bytes);
}

int32_t rv_block_pool_n_idle(const struct rv_block_pool *pool)
{
    return pool->n_idle;
}

size_t rv_block_pool_idle_bytes(const struct rv_block_pool *pool)
{
    return pool->idle_bytes;
}

int32_t rv_block_pool_n_ids(const struct rv_block_pool *pool)
{
    return pool->n_ids;
}

/* ---- life ---------------------------------------------------------------------------------- */

static ruvllm_status allocate(struct rv_block_pool *pool, struct ruvllm_error *err)
{
    int n_formats = rv_block_pool_can_quantize(pool) ? RV_KV_BLOCK_N_FORMATS : 1;
    ruvllm_status rc = RUVLLM_OK;

    for (int i = 0; !rc && i < n_formats; i++) {
        rc = open_slab(pool, (enum rv_kv_block_format)i, err);
        if (pool->slabs[i].n_places > pool->n_ids)
            pool->n_ids = pool->slabs[i].n_places;
    }
    if (rc)
        return rc;
    if (pool->slabs[RV_KV_BLOCK_F16].n_places == 0)
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_KV_CACHE,
                            "%zu bytes for keys and values are less than one block of %zu", pool->config.budget,
                            pool->slabs[RV_KV_BLOCK_F16].block_bytes);
    pool->scratch_bytes = pool->slabs[RV_KV_BLOCK_Q8].block_bytes; // 0 where nothing can be converted
    if (pool->scratch_bytes > 0) {
        pool->scratch = map_pages(pool->scratch_bytes, err);
        if (!pool->scratch)
            return RUVLLM_NO_MEMORY;
    }
    pool->blocks = rv_calloc((size_t)pool->n_ids, sizeof(*pool->blocks));
    pool->views = rv_calloc((size_t)pool->n_ids, sizeof(*pool->views));
    pool->free_ids = rv_calloc((size_t)pool->n_ids, sizeof(*pool->free_ids));
    if (!pool->blocks || !pool->views || !pool->free_ids)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the table of %d blocks", pool->n_ids);
    while (pool->n_free_ids < pool->n_ids) {
        pool->free_ids[pool->n_free_ids] = pool->n_ids - 1 - pool->n_free_ids;
        pool->n_free_ids++;
    }
    return RUVLLM_OK;
}

ruvllm_status rv_block_pool_new(struct rv_block_pool **out, const struct rv_block_pool_config *config,
                                struct ruvllm_error *err)
{
    struct rv_block_pool *pool = rv_calloc(1, sizeof(*pool));
    ruvllm_status rc;

    *out = NULL;
    if (!pool)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the block pool");
    pool->config = *config;
    rc = allocate(pool, err);
    if (rc) {
        rv_block_pool_free(pool);
        return rc;
    }
    *out = pool;
    return RUVLLM_OK;
}

void rv_block_pool_free(struct rv_block_pool *pool)
{
    if (!pool)
        return;
    for (int i = 0; i < RV_KV_BLOCK_N_FORMATS; i++) {
        if (pool->slabs[i].base)
            (void)munmap(pool->slabs[i].base, pool->slabs[i].mapped);
        rv_free(pool->slabs[i].spare);
        rv_free(pool->slabs[i].bare);
    }
    if (pool->scratch)
        (void)munmap(pool->scratch, pool->scratch_bytes);
    rv_free(pool->blocks);
    rv_free(pool->views);
    rv_free(pool->free_ids);
    rv_free(pool);
}

bool rv_block_pool_check(const struct rv_block_pool *pool)
{
    int32_t n_taken[RV_KV_BLOCK_N_FORMATS] = {0}, n_used = 0, n_idle = 0;
    size_t used = 0, resident = 0, idle_bytes = 0;

    for (int32_t i = 0; i < pool->n_ids; i++) {
        const struct block *b = &pool->blocks[i];
        enum rv_kv_block_format format = pool->views[i].format;

        if (!b->is_used)
            continue;
        if (b->refs < 0 || (b->refs == 0 && !b->cached) || b->place < 0 || b->place >= pool->slabs[format].n_touched ||
            pool->views[i].data != place_data(&pool->slabs[format], b->place))
            return false;
        n_used++;
        n_idle += b->refs == 0;
        idle_bytes += b->refs == 0 ? pool->slabs[format].block_bytes : 0;
        n_taken[format]++;
    }
    for (int i = 0; i < RV_KV_BLOCK_N_FORMATS; i++) {
        const struct slab *s = &pool->slabs[i];

        if (s->n_taken != n_taken[i] || s->n_taken + s->n_spare + s->n_bare != s->n_touched)
            return false;
        used += (size_t)s->n_taken * s->block_bytes;
        resident += (size_t)(s->n_taken + s->n_spare) * s->block_bytes;
    }
    return n_used + pool->n_free_ids == pool->n_ids && n_idle == pool->n_idle && idle_bytes == pool->idle_bytes &&
           used == pool->used && resident == pool->resident && resident <= pool->config.budget;
}
