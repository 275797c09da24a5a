/*
 * The file is cut into places as large as a block of the lowest precision; one of higher precision takes several, not
 * necessarily neighbours. So any place serves any block, and what is freed can always be used again: no area for each
 * precision, no holes to punch. The price is what a block leaves unused of its last place.
 *
 * A place is free (in a list), the first of a block, or one more of it. All that is known of a block is kept with its
 * first place, in memory.
 */
#define _GNU_SOURCE // O_TMPFILE and mkostemp
#include "kv/spill_file.h"

#include "base/alloc.h"
#include "base/keyed_hash.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NONE = -1 };

enum use { USE_FREE, USE_FIRST, USE_MORE };

struct place {
    int32_t next;              // of the same block, or of the free ones
    int32_t next_block;        // of the run; this and the rest are known of a first place only
    struct rv_keyed_hash hash; // of the whole block
    enum rv_kv_block_format format;
    enum use use;
};

struct rv_spill_file {
    struct rv_block_pool *pool;
    int fd;
    size_t place_bytes;
    struct place *places;
    int32_t n_places;
    int32_t n_touched; // places from here on were never used
    int32_t first_free;
    int32_t n_free; // below n_touched
    int32_t n_blocks;
    uint64_t n_failed;
    uint8_t key[RV_KEYED_HASH_KEY];
};

/* ---- reading and writing -------------------------------------------------------------------- */

/* Counts a failure; the first is told, the others would tell the same. `reason` is an errno, 0 for changed bytes. */
static void count_failure(struct rv_spill_file *spill, int reason, const char *what)
{
    struct ruvllm_error err;

    if (spill->n_failed++ > 0)
        return;
    if (reason)
        (void)rv_fail_errno(&err, reason, "cannot %s the spill file", what);
    else
        (void)rv_fail(&err, RUVLLM_IO, "the spill file gives back other bytes than were written");
    rv_log(RUVLLM_LOG_WARN, "%s; blocks it should keep are computed again, and this is said once", err.message);
}

static bool move_all(int fd, uint8_t *data, size_t len, off_t offset, bool writes)
{
    while (len > 0) {
        ssize_t n = writes ? pwrite(fd, data, len, offset) : pread(fd, data, len, offset);

        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            errno = EIO; // a file that was cut off, or takes nothing
        if (n <= 0)
            return false;
        data += n;
        len -= (size_t)n;
        offset += n;
    }
    return true;
}

/* Writes a block to its places, or reads it from them. */
static bool transfer(const struct rv_spill_file *spill, int32_t first, uint8_t *data, bool writes)
{
    size_t left = rv_block_pool_block_bytes(spill->pool, spill->places[first].format);

    for (int32_t i = first; i != NONE; i = spill->places[i].next) {
        size_t n = left < spill->place_bytes ? left : spill->place_bytes;
        off_t offset = (off_t)i * (off_t)spill->place_bytes;

        if (!move_all(spill->fd, data, n, offset, writes))
            return false;
        data += n;
        left -= n;
    }
    return true;
}

/* ---- places --------------------------------------------------------------------------------- */

static int32_t n_places_of(const struct rv_spill_file *spill, enum rv_kv_block_format format)
{
    size_t bytes = rv_block_pool_block_bytes(spill->pool, format);

    return (int32_t)((bytes + spill->place_bytes - 1) / spill->place_bytes);
}

static int32_t take_place(struct rv_spill_file *spill)
{
    int32_t place = spill->first_free;

    if (place == NONE)
        return spill->n_touched++;
    spill->first_free = spill->places[place].next;
    spill->n_free--;
    return place;
}

/* The places of one block; NONE when there are not enough. */
static int32_t take_places(struct rv_spill_file *spill, enum rv_kv_block_format format)
{
    int32_t n = n_places_of(spill, format), first = NONE, last = NONE;

    if (n > spill->n_free + (spill->n_places - spill->n_touched))
        return NONE;
    for (int32_t i = 0; i < n; i++) {
        int32_t place = take_place(spill);

        spill->places[place] = (struct place){.next = NONE, .next_block = NONE, .format = format, .use = USE_MORE};
        *(i > 0 ? &spill->places[last].next : &first) = place;
        last = place;
    }
    spill->places[first].use = USE_FIRST;
    spill->n_blocks++;
    return first;
}

static void drop_places(struct rv_spill_file *spill, int32_t first)
{
    int32_t next;

    for (int32_t i = first; i != NONE; i = next) {
        next = spill->places[i].next;
        spill->places[i].use = USE_FREE;
        spill->places[i].next = spill->first_free;
        spill->first_free = i;
        spill->n_free++;
    }
    spill->n_blocks--;
}

/* ---- runs ----------------------------------------------------------------------------------- */

bool rv_spill_file_put(struct rv_spill_file *spill, struct rv_spill_run *run, int32_t block)
{
    enum rv_kv_block_format format = rv_block_pool_format(spill->pool, block);
    uint8_t *data = rv_block_pool_data(spill->pool, block);
    int32_t first = take_places(spill, format);

    if (first == NONE)
        return false;
    if (!transfer(spill, first, data, true)) {
        count_failure(spill, errno, "write to");
        drop_places(spill, first);
        return false;
    }
    spill->places[first].hash = rv_keyed_hash(spill->key, data, rv_block_pool_block_bytes(spill->pool, format));
    if (run->n_blocks == 0)
        run->first = first;
    else
        spill->places[run->last].next_block = first;
    run->last = first;
    run->n_blocks++;
    return true;
}

static bool is_intact(const struct rv_spill_file *spill, const struct place *place, const uint8_t *data)
{
    struct rv_keyed_hash hash = rv_keyed_hash(spill->key, data, rv_block_pool_block_bytes(spill->pool, place->format));

    return hash.words[0] == place->hash.words[0] && hash.words[1] == place->hash.words[1];
}

int32_t rv_spill_file_get(struct rv_spill_file *spill, struct rv_spill_run *run)
{
    const struct place *place = &spill->places[run->first];
    uint8_t *data;
    int32_t block;
    bool is_read;

    RV_ASSERT(run->n_blocks > 0 && place->use == USE_FIRST);
    block = rv_block_pool_take(spill->pool, place->format);
    if (block < 0)
        return -1;
    data = rv_block_pool_data(spill->pool, block);
    is_read = transfer(spill, run->first, data, false);
    if (!is_read || !is_intact(spill, place, data)) {
        count_failure(spill, is_read ? 0 : errno, "read from");
        rv_block_pool_unref(spill->pool, block);
        return -1;
    }
    rv_spill_file_skip(spill, run);
    return block;
}

void rv_spill_file_skip(struct rv_spill_file *spill, struct rv_spill_run *run)
{
    int32_t first = run->first;

    RV_ASSERT(run->n_blocks > 0 && spill->places[first].use == USE_FIRST);
    run->first = spill->places[first].next_block;
    if (--run->n_blocks == 0)
        *run = (struct rv_spill_run){0};
    drop_places(spill, first);
}

void rv_spill_file_drop(struct rv_spill_file *spill, struct rv_spill_run *run)
{
    while (run->n_blocks > 0)
        rv_spill_file_skip(spill, run);
}

/* ---- counts --------------------------------------------------------------------------------- */

size_t rv_spill_file_bytes(const struct rv_spill_file *spill, const struct rv_spill_run *run, int32_t from,
                           int32_t n_blocks)
{
    int32_t place = run->first;
    size_t bytes = 0;

    for (int32_t i = 0; i < run->n_blocks && i - from < n_blocks; i++) {
        if (i >= from)
            bytes += rv_block_pool_block_bytes(spill->pool, spill->places[place].format);
        place = spill->places[place].next_block;
    }
    return bytes;
}

int32_t rv_spill_file_n_blocks(const struct rv_spill_file *spill)
{
    return spill->n_blocks;
}

uint64_t rv_spill_file_n_failed(const struct rv_spill_file *spill)
{
    return spill->n_failed;
}

/* Places of a block, or -1 when they are not what they should be. */
static int32_t walk_block(const struct rv_spill_file *spill, int32_t first)
{
    int32_t n = 1, expected = n_places_of(spill, spill->places[first].format);

    for (int32_t i = spill->places[first].next; i != NONE && n <= expected; i = spill->places[i].next) {
        if (i < 0 || i >= spill->n_touched || spill->places[i].use != USE_MORE)
            return -1;
        n++;
    }
    return n == expected ? n : -1;
}

bool rv_spill_file_check(const struct rv_spill_file *spill)
{
    int32_t n_blocks = 0, n_taken = 0, n_free = 0;

    for (int32_t i = 0; i < spill->n_touched; i++) {
        int32_t n = spill->places[i].use == USE_FIRST ? walk_block(spill, i) : 0;

        if (n < 0)
            return false;
        n_blocks += n > 0;
        n_taken += n;
    }
    for (int32_t i = spill->first_free; i != NONE && n_free <= spill->n_free; i = spill->places[i].next) {
        if (i < 0 || i >= spill->n_touched || spill->places[i].use != USE_FREE)
            return false;
        n_free++;
    }
    return n_blocks == spill->n_blocks && n_free == spill->n_free && n_taken + n_free == spill->n_touched &&
           spill->n_touched <= spill->n_places;
}

/* ---- life ----------------------------------------------------------------------------------- */

/* For file systems that cannot make a file without a name: one whose name is gone at once. */
static int open_and_unlink(const char *dir)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof(path), "%s/ruvllm-spill-XXXXXX", dir), fd;

    if (n < 0 || (size_t)n >= sizeof(path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    fd = mkostemp(path, O_CLOEXEC); // for its owner alone, as the other
    if (fd >= 0 && unlink(path) != 0) {
        int reason = errno;

        close(fd);
        errno = reason;
        return -1;
    }
    return fd;
}

static ruvllm_status open_file(struct rv_spill_file *spill, const char *dir, struct ruvllm_error *err)
{
    /* With O_EXCL it can never be given a name. */
    spill->fd = open(dir, O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (spill->fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR))
        spill->fd = open_and_unlink(dir);
    if (spill->fd < 0)
        return rv_fail_errno(err, errno, "cannot make a spill file in '%s'", dir);
    return RUVLLM_OK;
}

static ruvllm_status allocate(struct rv_spill_file *spill, const struct rv_spill_file_config *config,
                              struct ruvllm_error *err)
{
    size_t block = rv_block_pool_block_bytes(config->pool, RV_KV_BLOCK_F16);

    spill->place_bytes =
        rv_block_pool_can_quantize(config->pool) ? rv_block_pool_block_bytes(config->pool, RV_KV_BLOCK_Q4) : block;
    if (config->budget / spill->place_bytes < (uint64_t)n_places_of(spill, RV_KV_BLOCK_F16))
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_CONFIG,
                            "a spill file of %llu bytes has no room for a block of %zu",
                            (unsigned long long)config->budget, block);
    if (config->budget / spill->place_bytes > INT32_MAX)
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_CONFIG,
                            "a spill file of %llu bytes is more than %d places of %zu",
                            (unsigned long long)config->budget, INT32_MAX, spill->place_bytes);
    spill->n_places = (int32_t)(config->budget / spill->place_bytes);
    spill->places = rv_calloc((size_t)spill->n_places, sizeof(*spill->places));
    if (!spill->places)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the table of %d places of a spill file",
                       spill->n_places);
    return RUVLLM_OK;
}

ruvllm_status rv_spill_file_open(struct rv_spill_file **out, const struct rv_spill_file_config *config,
                                 struct ruvllm_error *err)
{
    struct rv_spill_file *spill = rv_calloc(1, sizeof(*spill));
    ruvllm_status rc;

    *out = NULL;
    if (!spill)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a spill file");
    spill->pool = config->pool;
    spill->fd = -1;
    spill->first_free = NONE;
    rv_keyed_hash_make_key(spill->key);
    rc = allocate(spill, config, err);
    if (!rc)
        rc = open_file(spill, config->dir, err);
    if (rc) {
        rv_spill_file_close(spill);
        return rc;
    }
    *out = spill;
    return RUVLLM_OK;
}

void rv_spill_file_close(struct rv_spill_file *spill)
{
    if (!spill)
        return;
    if (spill->fd >= 0)
        (void)close(spill->fd); // nothing of it is wanted any more
    rv_free(spill->places);
    rv_free(spill);
}
