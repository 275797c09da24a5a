/* Writing is: temporary file, fsync, rename, fsync of the folder. Reading trusts nothing before its hash was right. */
#include "kv/kv_snapshot.h"

#include "base/alloc.h"
#include "base/keyed_hash.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC "RVKV"

enum { VERSION = 2, TOKENS = RV_KV_BLOCK_TOKENS, MAX_BLOCKS = 1 << 20 };

struct header {
    char magic[4];
    uint32_t version;
    struct rv_kv_snapshot_identity identity;
    uint64_t block_bytes[RV_KV_BLOCK_N_FORMATS];
    uint64_t n_blocks;
};

/* The parts of a file before the blocks, in order; all but the formats keep the next one aligned. */
struct layout {
    size_t tokens, hashes, formats, head_hash, blocks; // offsets
};

struct rv_kv_snapshot_file {
    uint8_t *data;
    struct rv_kv_snapshot snapshot;
};

/* Not a secret: these hashes tell damage, not malice. */
static const uint8_t no_key[RV_KEYED_HASH_KEY];

static struct layout layout_of(size_t n_blocks)
{
    struct layout at = {.tokens = sizeof(struct header)};

    at.hashes = at.tokens + n_blocks * TOKENS * sizeof(int32_t);
    at.formats = at.hashes + n_blocks * sizeof(struct rv_keyed_hash);
    at.head_hash = (at.formats + n_blocks + 7) / 8 * 8;
    at.blocks = at.head_hash + sizeof(struct rv_keyed_hash);
    return at;
}

static bool same_hash(struct rv_keyed_hash a, const uint8_t *stored)
{
    struct rv_keyed_hash b;

    memcpy(&b, stored, sizeof(b));
    return a.words[0] == b.words[0] && a.words[1] == b.words[1];
}

/* ---- reading ------------------------------------------------------------------------------- */

static ruvllm_status parse_header(const uint8_t *data, size_t len, struct header *h, struct ruvllm_error *err)
{
    if (len < sizeof(*h))
        return rv_fail(err, RUVLLM_FORMAT, "the file is too short");
    memcpy(h, data, sizeof(*h));
    if (memcmp(h->magic, MAGIC, 4) != 0)
        return rv_fail(err, RUVLLM_FORMAT, "the file is no session");
    if (h->version != VERSION)
        return rv_fail(err, RUVLLM_FORMAT, "the file has version %u, this library reads %d", (unsigned)h->version,
                       VERSION);
    if (h->n_blocks == 0 || h->n_blocks > MAX_BLOCKS || layout_of((size_t)h->n_blocks).blocks > len)
        return rv_fail(err, RUVLLM_FORMAT, "the file is cut off");
    return RUVLLM_OK;
}

/* Finds each block and compares its hash. */
static ruvllm_status find_blocks(const uint8_t *data, size_t len, const struct header *h, const uint8_t **blocks,
                                 struct ruvllm_error *err)
{
    struct layout at = layout_of((size_t)h->n_blocks);
    size_t offset = at.blocks;

    for (size_t i = 0; i < h->n_blocks; i++) {
        uint8_t format = data[at.formats + i];
        size_t bytes = format < RV_KV_BLOCK_N_FORMATS ? (size_t)h->block_bytes[format] : 0;

        if (bytes == 0 || bytes > len - offset)
            return rv_fail(err, RUVLLM_FORMAT, "block %zu is cut off", i);
        if (!same_hash(rv_keyed_hash(no_key, data + offset, bytes),
                       data + at.hashes + i * sizeof(struct rv_keyed_hash)))
            return rv_fail(err, RUVLLM_FORMAT, "block %zu is damaged", i);
        blocks[i] = data + offset;
        offset += bytes;
    }
    return offset == len ? RUVLLM_OK : rv_fail(err, RUVLLM_FORMAT, "the file goes on after its last block");
}

ruvllm_status rv_kv_snapshot_parse(const uint8_t *data, size_t len, struct rv_kv_snapshot *out,
                                   struct ruvllm_error *err)
{
    struct header h;
    struct layout at;
    const uint8_t **blocks;
    ruvllm_status rc = parse_header(data, len, &h, err);

    if (rc)
        return rc;
    at = layout_of((size_t)h.n_blocks);
    if (!same_hash(rv_keyed_hash(no_key, data, at.head_hash), data + at.head_hash))
        return rv_fail(err, RUVLLM_FORMAT, "the file's head is damaged");
    blocks = rv_calloc((size_t)h.n_blocks, sizeof(*blocks));
    if (!blocks)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a table of %zu blocks", (size_t)h.n_blocks);
    rc = find_blocks(data, len, &h, blocks, err);
    if (rc) {
        rv_free(blocks);
        return rc;
    }
    *out = (struct rv_kv_snapshot){.identity = h.identity,
                                   .n_blocks = (int32_t)h.n_blocks,
                                   .tokens = (const int32_t *)(const void *)(data + at.tokens),
                                   .formats = data + at.formats,
                                   .blocks = blocks};
    memcpy(out->block_bytes, h.block_bytes, sizeof(out->block_bytes));
    return RUVLLM_OK;
}

static ruvllm_status read_all(const char *path, uint8_t **data, size_t *len, struct ruvllm_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat info;
    size_t got = 0;
    int reason = 0;

    *data = NULL;
    if (fd < 0)
        return rv_fail_errno(err, errno, "cannot open it");
    if (fstat(fd, &info) != 0 || info.st_size < 0) {
        reason = errno;
    } else {
        *len = (size_t)info.st_size;
        *data = rv_malloc(*len + 1);
    }
    while (*data && got < *len) {
        ssize_t n = read(fd, *data + got, *len - got);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            reason = n < 0 ? errno : EIO;
            break;
        }
        got += (size_t)n;
    }
    close(fd);
    if (reason)
        return rv_fail_errno(err, reason, "cannot read it");
    return *data ? RUVLLM_OK : rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %zu bytes", *len);
}

/* Which of the things a session is tied to is another one now; NULL: none. */
static const char *first_difference(const struct rv_kv_snapshot *s, const struct rv_kv_snapshot_identity *identity,
                                    const uint64_t block_bytes[RV_KV_BLOCK_N_FORMATS])
{
    if (s->identity.model != identity->model || memcmp(s->block_bytes, block_bytes, sizeof(s->block_bytes)) != 0)
        return "model, or to other settings of it";
    if (s->identity.adapter_layers != identity->adapter_layers)
        return "version of the adapter";
    if (s->identity.chat_template != identity->chat_template)
        return "chat template";
    return s->identity.tenant != identity->tenant ? "tenant" : NULL;
}

ruvllm_status rv_kv_snapshot_load(struct rv_kv_snapshot_file **out, const char *path,
                                  const struct rv_kv_snapshot_identity *identity,
                                  const uint64_t block_bytes[RV_KV_BLOCK_N_FORMATS], struct ruvllm_error *err)
{
    struct rv_kv_snapshot_file *file = rv_calloc(1, sizeof(*file));
    const char *difference = NULL;
    size_t len = 0;
    ruvllm_status rc;

    *out = NULL;
    if (!file)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a session");
    rc = read_all(path, &file->data, &len, err);
    if (!rc)
        rc = rv_kv_snapshot_parse(file->data, len, &file->snapshot, err);
    if (!rc)
        difference = first_difference(&file->snapshot, identity, block_bytes);
    if (difference)
        rc = rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_SESSION, "it belongs to another %s", difference);
    if (rc) {
        rv_kv_snapshot_close(file);
        return rv_fail_in(err, rc, "cannot load session '%s'", path);
    }
    *out = file;
    return RUVLLM_OK;
}

const struct rv_kv_snapshot *rv_kv_snapshot_of(const struct rv_kv_snapshot_file *file)
{
    return &file->snapshot;
}

void rv_kv_snapshot_close(struct rv_kv_snapshot_file *file)
{
    if (!file)
        return;
    rv_free((void *)(uintptr_t)file->snapshot.blocks);
    rv_free(file->data);
    rv_free(file);
}

/* ---- writing ------------------------------------------------------------------------------- */

static bool write_all(int fd, const void *data, size_t len)
{
    const uint8_t *next = data;

    while (len > 0) {
        ssize_t n = write(fd, next, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        next += n;
        len -= (size_t)n;
    }
    return true;
}

/* Everything before the blocks, hash included. */
static uint8_t *make_head(const struct rv_kv_snapshot *s, size_t *len)
{
    struct layout at = layout_of((size_t)s->n_blocks);
    struct header h = {.magic = MAGIC, .version = VERSION, .identity = s->identity, .n_blocks = (uint64_t)s->n_blocks};
    uint8_t *head = rv_calloc(at.blocks, 1);
    struct rv_keyed_hash hash;

    if (!head)
        return NULL;
    memcpy(h.block_bytes, s->block_bytes, sizeof(h.block_bytes));
    memcpy(head, &h, sizeof(h));
    memcpy(head + at.tokens, s->tokens, (size_t)s->n_blocks * TOKENS * sizeof(*s->tokens));
    memcpy(head + at.formats, s->formats, (size_t)s->n_blocks);
    for (int32_t i = 0; i < s->n_blocks; i++) {
        hash = rv_keyed_hash(no_key, s->blocks[i], (size_t)s->block_bytes[s->formats[i]]);
        memcpy(head + at.hashes + (size_t)i * sizeof(hash), &hash, sizeof(hash));
    }
    hash = rv_keyed_hash(no_key, head, at.head_hash);
    memcpy(head + at.head_hash, &hash, sizeof(hash));
    *len = at.blocks;
    return head;
}

static ruvllm_status write_file(const struct rv_kv_snapshot *s, const char *path, struct ruvllm_error *err)
{
    size_t head_len;
    uint8_t *head = make_head(s, &head_len);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    int reason = fd < 0 ? errno : 0;

    if (head && fd >= 0) {
        bool is_fine = write_all(fd, head, head_len);

        for (int32_t i = 0; is_fine && i < s->n_blocks; i++)
            is_fine = write_all(fd, s->blocks[i], (size_t)s->block_bytes[s->formats[i]]);
        if (!is_fine || fsync(fd) != 0)
            reason = errno;
    }
    rv_free(head);
    if (fd >= 0 && close(fd) != 0 && !reason)
        reason = errno;
    if (reason)
        return rv_fail_errno(err, reason, "cannot write '%s'", path);
    return head ? RUVLLM_OK : rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the head of a session");
}

/* The new name is on disk only when its folder is. */
static int sync_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? rv_strndup(path, (size_t)(slash - path) + 1) : rv_strdup(".");
    int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    int reason = fd < 0 || fsync(fd) != 0 ? errno : 0;

    if (fd >= 0)
        close(fd);
    rv_free(folder);
    return reason;
}

ruvllm_status rv_kv_snapshot_save(const struct rv_kv_snapshot *snapshot, const char *path, struct ruvllm_error *err)
{
    size_t len = strlen(path) + 32;
    char *temporary = rv_malloc(len);
    ruvllm_status rc;
    int reason;

    if (!temporary)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a file name");
    snprintf(temporary, len, "%s.%ld.new", path, (long)getpid());
    rc = write_file(snapshot, temporary, err);
    if (!rc && rename(temporary, path) != 0)
        rc = rv_fail_errno(err, errno, "cannot rename '%s'", temporary);
    if (rc)
        (void)unlink(temporary); // what is left of it is of no use
    rv_free(temporary);
    if (!rc && (reason = sync_folder(path)) != 0)
        rc = rv_fail_errno(err, reason, "cannot make the new name durable");
    return rc ? rv_fail_in(err, rc, "cannot save session '%s'", path) : RUVLLM_OK;
}
