/*
 * The invariant: `have` bytes are in the partial file, and `sha` has seen exactly these. Both only ever grow together,
 * in on_body, or begin anew together, in begin_anew.
 */
#include "engine/hub_download.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/durable.h"
#include "engine/hub_retry.h"
#include "model/gguf_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

enum {
    HASH_BYTES = 1 << 13,
    SPARE_BYTES = 16 << 20, // left free on the disk
    TICK_US = 100000,       // between two reports
    MAX_ATTEMPTS = 1000,    // whatever moves in between
};

struct transfer {
    const struct rv_hub_download *job;
    char partial[RV_HUB_MANIFEST_NAME];
    char state_name[RV_HUB_MANIFEST_NAME];
    struct rv_hub_manifest state;
    int fd;
    uint64_t have;
    struct rv_sha256 sha;
    struct rv_hub_retry retry;
    struct rv_hub_http_reply reply;
    int32_t attempt;
    int64_t start_us; // of this attempt
    uint64_t start;   // `have` then
    int64_t told_us;
    /* Why on_head or on_body said no. */
    ruvllm_status refused;
    struct ruvllm_error reason;
};

/* ---- progress ------------------------------------------------------------------------------ */

static bool tell(struct transfer *t, int64_t wait_ms)
{
    int64_t now = rv_clock_us();
    struct ruvllm_hub_progress progress = {
        .struct_size = sizeof(progress),
        .file = t->job->file,
        .done = t->have,
        .total = t->job->n_bytes,
        .eta_seconds = -1,
        .attempt = t->attempt,
        .wait_ms = wait_ms,
    };

    if (!t->job->on_progress || (now - t->told_us < TICK_US && t->have < t->job->n_bytes))
        return true;
    t->told_us = now;
    if (now - t->start_us > TICK_US && t->have > t->start) {
        progress.bytes_per_second = (double)(t->have - t->start) * 1e6 / (double)(now - t->start_us);
        progress.eta_seconds = (double)(t->job->n_bytes - t->have) / progress.bytes_per_second;
    }
    return t->job->on_progress(t->job->progress_user, &progress);
}

static bool on_tick(void *user, uint64_t uploaded)
{
    (void)uploaded;
    return tell(user, 0);
}

static bool on_hash_tick(void *user)
{
    return tell(user, 0);
}

static bool on_pause(void *user, int64_t left_ms)
{
    return tell(user, left_ms);
}

/* ---- what is there ------------------------------------------------------------------------- */

ruvllm_status rv_hub_download_hash(int fd, struct rv_sha256 *sha, bool (*tick)(void *user), void *user,
                                   struct ruvllm_error *err)
{
    unsigned char bytes[HASH_BYTES];
    off_t at = 0;
    ssize_t n;

    rv_sha256_init(sha);
    for (;;) {
        n = pread(fd, bytes, sizeof(bytes), at);
        if (n < 0)
            return rv_fail_errno(err, errno, "cannot read the file");
        if (n == 0)
            return RUVLLM_OK;
        rv_sha256_add(sha, bytes, (size_t)n);
        at += n;
        if (tick && !tick(user))
            return rv_fail(err, RUVLLM_CANCELLED, "stopped");
    }
}

static ruvllm_status begin_anew(struct transfer *t, struct ruvllm_error *err)
{
    if (ftruncate(t->fd, 0) != 0 || lseek(t->fd, 0, SEEK_SET) != 0)
        return rv_fail_errno(err, errno, "cannot empty '%s'", t->partial);
    t->have = t->start = 0;
    t->state.etag[0] = '\0';
    rv_sha256_init(&t->sha);
    return RUVLLM_OK;
}

static ruvllm_status save_state(struct transfer *t, struct ruvllm_error *err)
{
    return rv_hub_manifest_save(&t->state, t->job->folder, t->state_name, err);
}

/* Takes up what an earlier attempt left, if it is of the same file. */
static ruvllm_status open_partial(struct transfer *t, struct ruvllm_error *err)
{
    const struct rv_hub_download *job = t->job;
    bool is_same = rv_hub_manifest_load(&t->state, job->folder, t->state_name) &&
                   strcmp(t->state.sha256, job->sha256) == 0 && t->state.n_bytes == job->n_bytes;
    struct stat st;
    ruvllm_status rc;

    t->fd = openat(job->folder, t->partial, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (t->fd < 0 || fstat(t->fd, &st) != 0)
        return rv_fail_errno(err, errno, "cannot create '%s/%s'", job->folder_path, t->partial);
    if (!S_ISREG(st.st_mode))
        return rv_fail(err, RUVLLM_INVALID, "'%s/%s' is no regular file; remove it", job->folder_path, t->partial);
    if (!is_same || (uint64_t)st.st_size > job->n_bytes) {
        rc = begin_anew(t, err);
    } else {
        rc = rv_hub_download_hash(t->fd, &t->sha, on_hash_tick, t, err);
        t->have = (uint64_t)st.st_size;
        if (rc == RUVLLM_OK && lseek(t->fd, st.st_size, SEEK_SET) < 0)
            rc = rv_fail_errno(err, errno, "cannot continue '%s'", t->partial);
    }
    if (rc)
        return rc;
    snprintf(t->state.source, sizeof(t->state.source), "%s", job->url);
    snprintf(t->state.revision, sizeof(t->state.revision), "%s", job->revision);
    snprintf(t->state.sha256, sizeof(t->state.sha256), "%s", job->sha256);
    t->state.n_bytes = job->n_bytes;
    t->state.time = (int64_t)time(NULL);
    return save_state(t, err);
}

static ruvllm_status check_space(const struct transfer *t, struct ruvllm_error *err)
{
    uint64_t need = t->job->n_bytes - t->have, room;
    struct statvfs fs;

    if (fstatvfs(t->job->folder, &fs) != 0)
        return RUVLLM_OK; // a system that does not tell; writing will
    if (__builtin_mul_overflow((uint64_t)fs.f_bavail, (uint64_t)fs.f_frsize, &room))
        return RUVLLM_OK;
    if (need > UINT64_MAX - SPARE_BYTES || room < need + SPARE_BYTES)
        return rv_fail(err, RUVLLM_IO, "'%s' needs %" PRIu64 " MiB more, and only %" PRIu64 " MiB are free in '%.120s'",
                       t->job->file, need >> 20, room >> 20, t->job->folder_path);
    return RUVLLM_OK;
}

/* ---- what comes ---------------------------------------------------------------------------- */

static bool refuse(struct transfer *t, ruvllm_status rc)
{
    t->refused = rc;
    return false;
}

/* The rest of the same version, from where we are? */
static bool continues(const struct transfer *t, const struct rv_hub_http_reply *reply)
{
    bool is_other = t->state.etag[0] && reply->etag[0] && strcmp(t->state.etag, reply->etag) != 0;

    return reply->range_start == (int64_t)t->have && reply->range_total == (int64_t)t->job->n_bytes && !is_other;
}

static bool on_head(void *user, const struct rv_hub_http_reply *reply)
{
    struct transfer *t = user;
    int64_t total = reply->status == 206 ? reply->range_total : reply->content_length;
    ruvllm_status rc = RUVLLM_OK;

    if (reply->status == 206 && t->have && !continues(t, reply)) {
        /* Not what was asked for, or of another version: nothing of it can be used. The next attempt asks for all. */
        rc = begin_anew(t, &t->reason);
        return refuse(t, rc ? rc : rv_fail(&t->reason, RUVLLM_BUSY, "'%s' changed on the hub", t->job->file));
    }
    if (reply->status != 206 && t->have)
        rc = begin_anew(t, &t->reason);
    if (rc == RUVLLM_OK && total >= 0 && (uint64_t)total != t->job->n_bytes)
        rc = rv_fail(&t->reason, RUVLLM_FORMAT, "the hub lists '%s' with %" PRIu64 " bytes and sends %" PRId64,
                     t->job->file, t->job->n_bytes, total);
    if (rc)
        return refuse(t, rc);
    if (strcmp(t->state.etag, reply->etag) != 0) {
        memcpy(t->state.etag, reply->etag, sizeof(t->state.etag));
        rc = save_state(t, &t->reason);
    }
    if (reply->commit[0])
        memcpy(t->state.revision, reply->commit, strlen(reply->commit) + 1);
    t->start = t->have;
    t->start_us = rv_clock_us();
    return rc ? refuse(t, rc) : true;
}

static bool on_body(void *user, const void *data, size_t len)
{
    struct transfer *t = user;
    ruvllm_status rc;

    if (len > t->job->n_bytes - t->have)
        return refuse(t, rv_fail(&t->reason, RUVLLM_FORMAT,
                                 "the hub sends more than the %" PRIu64 " bytes it lists for '%s'", t->job->n_bytes,
                                 t->job->file));
    rc = rv_durable_write(t->fd, data, len, &t->reason);
    if (rc)
        return refuse(t, rv_fail_in(&t->reason, rc, "cannot write '%s/%s'", t->job->folder_path, t->partial));
    rv_sha256_add(&t->sha, data, len);
    t->have += len;
    rv_hub_retry_moved(&t->retry);
    return true;
}

/* A weak tag promises too little to join bytes by. */
static bool is_strong(const char *etag)
{
    return etag[0] == '"' && !strpbrk(etag, "\r\n");
}

static ruvllm_status attempt(struct transfer *t, struct ruvllm_error *err)
{
    char range[64], if_range[sizeof(t->state.etag) + 16];
    const char *headers[] = {range, if_range};
    struct rv_hub_http_request request = {
        .method = "GET",
        .url = t->job->url,
        .headers = headers,
        .upload_fd = -1,
        .on_head = on_head,
        .on_body = on_body,
        .on_tick = on_tick,
        .user = t,
    };
    ruvllm_status rc;

    if (t->have) {
        snprintf(range, sizeof(range), "Range: bytes=%" PRIu64 "-", t->have);
        snprintf(if_range, sizeof(if_range), "If-Range: %s", t->state.etag);
        request.n_headers = is_strong(t->state.etag) ? 2 : 1;
    }
    t->attempt++;
    t->refused = RUVLLM_OK;
    rc = rv_hub_http_send(t->job->http, &request, &t->reply, err);
    if (t->refused) {
        t->reply.is_transient = t->refused == RUVLLM_BUSY;
        if (err)
            *err = t->reason;
        return t->refused;
    }
    if (rc)
        return rc;
    if (t->reply.status == 416 && t->have) {
        rc = begin_anew(t, err);
        t->reply.is_transient = rc == RUVLLM_OK;
        return rc ? rc : rv_fail(err, RUVLLM_IO, "the hub has no byte %" PRIu64 " of '%s'", t->have, t->job->file);
    }
    if (t->reply.status != 200 && t->reply.status != 206)
        return rv_hub_http_fail(&t->reply, t->job->file, err);
    if (t->have < t->job->n_bytes) {
        t->reply.is_transient = true;
        return rv_fail(err, RUVLLM_IO, "the hub stopped at byte %" PRIu64 " of %" PRIu64, t->have, t->job->n_bytes);
    }
    return RUVLLM_OK;
}

static ruvllm_status transfer_all(struct transfer *t, struct ruvllm_error *err)
{
    while (t->have < t->job->n_bytes) {
        ruvllm_status rc = attempt(t, err);

        if (rc == RUVLLM_OK)
            return RUVLLM_OK;
        if (t->attempt >= MAX_ATTEMPTS)
            return rv_fail_in(err, rc, "gave up after %d attempts", t->attempt);
        rc = rv_hub_retry_pause(&t->retry, rc, &t->reply, err);
        if (rc) {
            t->told_us = 0;
            (void)tell(t, 0); // what is kept; the answer no longer matters
            return rc;
        }
    }
    return RUVLLM_OK;
}

/* ---- the end ------------------------------------------------------------------------------- */

static void discard(struct transfer *t)
{
    unlinkat(t->job->folder, t->partial, 0);
    unlinkat(t->job->folder, t->state_name, 0);
}

static ruvllm_status check_digest(struct transfer *t, struct ruvllm_error *err)
{
    char hex[RV_SHA256_HEX_LEN + 1];

    rv_sha256_finish(&t->sha, hex);
    if (strcmp(hex, t->job->sha256) == 0)
        return RUVLLM_OK;
    discard(t);
    return rv_fail(err, RUVLLM_FORMAT,
                   "'%s' arrived with the SHA-256 %.16s... instead of %.16s...; it was removed, fetch it again",
                   t->job->file, hex, t->job->sha256);
}

static ruvllm_status check_model(struct transfer *t, struct ruvllm_error *err)
{
    struct rv_gguf_file *gguf = NULL;
    struct rv_buf path;
    ruvllm_status rc;

    rv_buf_init(&path, 1 << 16);
    rv_buf_addf(&path, "%s/%s", t->job->folder_path, t->partial);
    rc = rv_buf_status(&path, "a path", err);
    if (rc == RUVLLM_OK)
        rc = rv_gguf_file_open(&gguf, path.data, err);
    rv_gguf_file_close(gguf);
    rv_buf_release(&path);
    if (rc == RUVLLM_OK || rc == RUVLLM_NO_MEMORY)
        return rc;
    discard(t);
    return rv_fail_in(err, rc, "'%s' is no model this program can read and was removed", t->job->file);
}

static ruvllm_status publish(struct transfer *t, struct ruvllm_error *err)
{
    char manifest[RV_HUB_MANIFEST_NAME];
    ruvllm_status rc = rv_durable_publish(t->fd, t->job->folder, t->partial, t->job->file, err);

    if (rc)
        return rc;
    unlinkat(t->job->folder, t->state_name, 0);
    snprintf(manifest, sizeof(manifest), "%s.json", t->job->file);
    t->state.etag[0] = '\0';
    t->state.time = (int64_t)time(NULL);
    return rv_hub_manifest_save(&t->state, t->job->folder, manifest, err);
}

ruvllm_status rv_hub_download_run(const struct rv_hub_download *download, struct ruvllm_error *err)
{
    struct transfer *t = rv_calloc(1, sizeof(*t));
    ruvllm_status rc;

    if (!t)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a transfer");
    t->job = download;
    t->fd = -1;
    t->retry = (struct rv_hub_retry){.max = download->max_retries, .on_pause = on_pause, .user = t};
    rv_hub_http_reply_init(&t->reply);
    snprintf(t->partial, sizeof(t->partial), "%s.partial", download->file);
    snprintf(t->state_name, sizeof(t->state_name), "%s.partial.json", download->file);
    rc = open_partial(t, err);
    if (rc == RUVLLM_OK)
        rc = check_space(t, err);
    if (rc == RUVLLM_OK)
        rc = transfer_all(t, err);
    if (rc == RUVLLM_OK)
        rc = check_digest(t, err);
    if (rc == RUVLLM_OK)
        rc = check_model(t, err);
    if (rc == RUVLLM_OK)
        rc = publish(t, err);
    if (t->fd >= 0)
        close(t->fd);
    rv_hub_http_reply_release(&t->reply);
    rv_free(t);
    return rc;
}
