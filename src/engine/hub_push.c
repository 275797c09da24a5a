/*
 * The order is the protocol's: large files are handed over first, by digest, and only then does a commit name them. A
 * file the hub has already is not sent again.
 */
#include "engine/hub_push.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/sha256.h"
#include "engine/hub_api.h"
#include "engine/hub_card.h"
#include "engine/hub_download.h"
#include "model/gguf_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <yyjson.h>

enum { MAX_HEADERS = 16, MAX_CARD = 1 << 16, MAX_URL = 8192 };

#define LFS_JSON "application/vnd.git-lfs+json"

struct upload {
    const struct rv_hub_push *job;
    const char *file; // base name of the path
    char repository[2 * RV_HUB_NAME_MAX + 2];
    char sha256[RV_SHA256_HEX_LEN + 1];
    uint64_t n_bytes;
    struct rv_gguf_file *model;
    int fd;
    bool has_card;
    struct rv_hub_retry retry;
    struct rv_hub_http_reply reply;
    int64_t start_us;
    int64_t told_us;
};

/* ---- progress ------------------------------------------------------------------------------ */

static bool tell(struct upload *u, uint64_t done, int64_t wait_ms)
{
    int64_t now = rv_clock_us();
    struct ruvllm_hub_progress progress = {
        .struct_size = sizeof(progress),
        .file = u->file,
        .done = done,
        .total = u->n_bytes,
        .eta_seconds = -1,
        .attempt = u->retry.n + 1,
        .wait_ms = wait_ms,
    };

    if (!u->job->on_progress || (now - u->told_us < 100000 && done < u->n_bytes))
        return true;
    u->told_us = now;
    if (done && now > u->start_us) {
        progress.bytes_per_second = (double)done * 1e6 / (double)(now - u->start_us);
        progress.eta_seconds = (double)(u->n_bytes - done) / progress.bytes_per_second;
    }
    return u->job->on_progress(u->job->progress_user, &progress);
}

static bool on_pause(void *user, int64_t left_ms)
{
    return tell(user, 0, left_ms);
}

static bool on_upload_tick(void *user, uint64_t uploaded)
{
    return tell(user, uploaded, 0);
}

static bool on_hash_tick(void *user)
{
    return tell(user, 0, 0);
}

/* ---- the file ------------------------------------------------------------------------------ */

static ruvllm_status open_file(struct upload *u, struct ruvllm_error *err)
{
    const char *slash = strrchr(u->job->path, '/');
    struct rv_sha256 sha;
    struct stat st;
    ruvllm_status rc;

    u->file = slash ? slash + 1 : u->job->path;
    if (!rv_hub_name_is_safe(u->file, strlen(u->file)) || !rv_hub_name_is_gguf(u->file))
        return rv_fail(
            err, RUVLLM_INVALID,
            "the file's name becomes its name on the hub: letters, digits, '.', '_' and '-', ending in .gguf");
    rc = rv_gguf_file_open(&u->model, u->job->path, err);
    if (rc)
        return rc;
    u->fd = open(u->job->path, O_RDONLY | O_CLOEXEC);
    if (u->fd < 0 || fstat(u->fd, &st) != 0)
        return rv_fail_errno(err, errno, "cannot open the file");
    u->n_bytes = (uint64_t)st.st_size;
    rc = rv_hub_download_hash(u->fd, &sha, on_hash_tick, u, err);
    if (rc == RUVLLM_OK)
        rv_sha256_finish(&sha, u->sha256);
    return rc;
}

/* ---- the repository ------------------------------------------------------------------------ */

static ruvllm_status post(struct upload *u, const char *url, const char *type, yyjson_mut_doc *doc, const char *what,
                          struct ruvllm_error *err)
{
    size_t len = 0;
    char *body = yyjson_mut_write(doc, 0, &len);
    ruvllm_status rc;

    if (!body)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a message to the hub");
    rc = rv_hub_api_post(u->job->http, url, type, body, len, what, &u->retry, &u->reply, err);
    free(body);
    return rc;
}

static ruvllm_status create_repository(struct upload *u, struct ruvllm_error *err)
{
    char url[MAX_URL];
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_mut_obj(doc);
    ruvllm_status rc;

    yyjson_mut_doc_set_root(doc, root);
    yyjson_mut_obj_add_str(doc, root, "type", "model");
    yyjson_mut_obj_add_str(doc, root, "organization", u->job->name.owner);
    yyjson_mut_obj_add_str(doc, root, "name", u->job->name.name);
    yyjson_mut_obj_add_bool(doc, root, "private", u->job->is_private);
    snprintf(url, sizeof(url), "%s/api/repos/create", rv_hub_http_endpoint(u->job->http));
    rc = post(u, url, "application/json", doc, "to create the repository", err);
    yyjson_mut_doc_free(doc);
    return rc && u->reply.status == 409 ? RUVLLM_OK : rc; // somebody was faster: it is there
}

/* Finds out whether the repository and its card exist, and creates the one. A hub hides what a token may not see. */
static ruvllm_status prepare_repository(struct upload *u, struct ruvllm_error *err)
{
    struct rv_hub_api_tree tree;
    ruvllm_status rc = rv_hub_api_tree_init(&tree, u->job->http, &u->job->name, u->job->revision, &u->retry, err);

    if (rc == RUVLLM_OK) {
        u->has_card = tree.has_card;
        rv_hub_api_tree_release(&tree);
        return RUVLLM_OK;
    }
    return rc == RUVLLM_NOT_FOUND || rc == RUVLLM_INVALID ? create_repository(u, err) : rc;
}

/* ---- the large file ------------------------------------------------------------------------ */

static ruvllm_status ask_where(struct upload *u, struct ruvllm_error *err)
{
    char url[MAX_URL];
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_mut_obj(doc), *list, *object;
    ruvllm_status rc;

    yyjson_mut_doc_set_root(doc, root);
    yyjson_mut_obj_add_str(doc, root, "operation", "upload");
    list = yyjson_mut_obj_add_arr(doc, root, "transfers");
    yyjson_mut_arr_add_str(doc, list, "basic");
    yyjson_mut_obj_add_str(doc, root, "hash_algo", "sha256");
    list = yyjson_mut_obj_add_arr(doc, root, "objects");
    object = yyjson_mut_arr_add_obj(doc, list);
    yyjson_mut_obj_add_str(doc, object, "oid", u->sha256);
    yyjson_mut_obj_add_uint(doc, object, "size", u->n_bytes);
    snprintf(url, sizeof(url), "%s/%s.git/info/lfs/objects/batch", rv_hub_http_endpoint(u->job->http), u->repository);
    rc = post(u, url, LFS_JSON, doc, "the upload", err);
    yyjson_mut_doc_free(doc);
    return rc;
}

/* "Name: value" lines of an action; false when they are not what a header can be. */
static bool take_headers(yyjson_val *action, struct rv_buf lines[MAX_HEADERS], size_t *n)
{
    yyjson_val *key, *value;
    size_t i, max;

    *n = 0;
    yyjson_obj_foreach(yyjson_obj_get(action, "header"), i, max, key, value)
    {
        const char *text = yyjson_get_str(value);

        if (!text || strpbrk(text, "\r\n") || strpbrk(yyjson_get_str(key), "\r\n:") || *n == MAX_HEADERS)
            return false;
        rv_buf_init(&lines[*n], MAX_URL);
        rv_buf_addf(&lines[*n], "%s: %s", yyjson_get_str(key), text);
        (*n)++;
    }
    return true;
}

/* Sends the bytes; again from the beginning when the connection breaks. */
static ruvllm_status put_file(struct upload *u, const struct rv_hub_http_request *request, struct ruvllm_error *err)
{
    u->start_us = rv_clock_us();
    for (;;) {
        ruvllm_status rc = RUVLLM_OK;

        if (lseek(u->fd, 0, SEEK_SET) != 0)
            return rv_fail_errno(err, errno, "cannot read the file again");
        rc = rv_hub_http_send(u->job->http, request, &u->reply, err);
        if (rc == RUVLLM_OK && u->reply.status >= 200 && u->reply.status < 300)
            return RUVLLM_OK;
        if (rc == RUVLLM_OK)
            rc = rv_hub_http_fail(&u->reply, "the upload", err);
        rc = rv_hub_retry_pause(&u->retry, rc, &u->reply, err);
        if (rc)
            return rc;
    }
}

static ruvllm_status send_file(struct upload *u, yyjson_val *action, struct ruvllm_error *err)
{
    struct rv_buf lines[MAX_HEADERS];
    const char *headers[MAX_HEADERS];
    const char *href = yyjson_get_str(yyjson_obj_get(action, "href"));
    struct rv_hub_http_request request = {
        .method = "PUT",
        .url = href,
        .headers = headers,
        .upload_fd = u->fd,
        .upload_len = u->n_bytes,
        .on_tick = on_upload_tick,
        .user = u,
    };
    size_t n;
    ruvllm_status rc = RUVLLM_OK;

    if (!href || !take_headers(action, lines, &n))
        return rv_fail(err, RUVLLM_FORMAT, "the hub does not say where to send the file");
    for (size_t i = 0; i < n; i++) {
        headers[i] = lines[i].data;
        if (rc == RUVLLM_OK)
            rc = rv_buf_status(&lines[i], "a header of the upload", err);
        if (strncmp(headers[i] ? headers[i] : "", "chunk_size:", 11) == 0)
            rc = rv_fail(
                err, RUVLLM_UNSUPPORTED,
                "the hub wants a file of this size in several parts, which is not supported; upload it with the "
                "hub's own tool");
    }
    request.n_headers = n;
    if (rc == RUVLLM_OK)
        rc = put_file(u, &request, err);
    for (size_t i = 0; i < n; i++)
        rv_buf_release(&lines[i]);
    return rc;
}

static ruvllm_status verify_file(struct upload *u, yyjson_val *action, struct ruvllm_error *err)
{
    const char *href = yyjson_get_str(yyjson_obj_get(action, "href"));
    yyjson_mut_doc *doc;
    yyjson_mut_val *root;
    ruvllm_status rc;

    if (!href)
        return RUVLLM_OK; // this hub checks by itself
    doc = yyjson_mut_doc_new(NULL);
    root = yyjson_mut_obj(doc);
    yyjson_mut_doc_set_root(doc, root);
    yyjson_mut_obj_add_str(doc, root, "oid", u->sha256);
    yyjson_mut_obj_add_uint(doc, root, "size", u->n_bytes);
    rc = post(u, href, LFS_JSON, doc, "the check of the upload", err);
    yyjson_mut_doc_free(doc);
    return rc;
}

/* What the hub answered: the file is there, or where to send it, or why not. */
static ruvllm_status follow_answer(struct upload *u, yyjson_val *root, struct ruvllm_error *err)
{
    yyjson_val *object = yyjson_arr_get_first(yyjson_obj_get(root, "objects"));
    yyjson_val *actions = yyjson_obj_get(object, "actions");
    const char *transfer = yyjson_get_str(yyjson_obj_get(root, "transfer"));
    const char *message = yyjson_get_str(yyjson_obj_get(yyjson_obj_get(object, "error"), "message"));
    char label[RV_HUB_NAME_LABEL];
    ruvllm_status rc;

    if (!yyjson_is_obj(object))
        return rv_fail(err, RUVLLM_FORMAT, "the hub's answer about the upload makes no sense");
    if (message)
        return rv_fail(err, RUVLLM_INVALID, "the hub refuses the file: %s", rv_hub_name_label(message, label));
    if (transfer && strcmp(transfer, "basic") != 0)
        return rv_fail(err, RUVLLM_UNSUPPORTED,
                       "the hub wants a file of this size by '%s' transfer, which is not supported; upload it with the "
                       "hub's own tool",
                       rv_hub_name_label(transfer, label));
    if (!yyjson_obj_get(actions, "upload"))
        return RUVLLM_OK;
    rc = send_file(u, yyjson_obj_get(actions, "upload"), err);
    return rc ? rc : verify_file(u, yyjson_obj_get(actions, "verify"), err);
}

static ruvllm_status hand_over(struct upload *u, struct ruvllm_error *err)
{
    ruvllm_status rc = ask_where(u, err);
    yyjson_doc *doc;

    if (rc)
        return rc;
    doc = u->reply.body.len ? yyjson_read(u->reply.body.data, u->reply.body.len, 0) : NULL;
    rc = follow_answer(u, yyjson_doc_get_root(doc), err);
    yyjson_doc_free(doc);
    return rc;
}

/* ---- the commit ---------------------------------------------------------------------------- */

static void add_base64(struct rv_buf *out, const char *data, size_t len)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    for (size_t i = 0; i < len; i += 3) {
        size_t n = len - i < 3 ? len - i : 3;
        uint32_t bits = 0;

        for (size_t k = 0; k < 3; k++)
            bits = bits << 8 | (k < n ? (unsigned char)data[i + k] : 0u);
        for (size_t k = 0; k < 4; k++)
            rv_buf_add_char(out, k <= n ? digits[bits >> (18 - 6 * k) & 63] : '=');
    }
}

/* Three lines of JSON; every name in them is one of ours or was checked, so nothing needs escaping. */
static ruvllm_status write_commit(struct upload *u, struct rv_buf *out, struct ruvllm_error *err)
{
    struct rv_hub_card card = {u->model, u->repository, u->file, u->sha256, u->n_bytes};
    struct rv_buf page;
    ruvllm_status rc = RUVLLM_OK;

    rv_buf_addf(out, "{\"key\":\"header\",\"value\":{\"summary\":\"Upload %s\",\"description\":\"\"}}\n", u->file);
    if (!u->has_card) {
        rv_buf_init(&page, MAX_CARD);
        rv_hub_card_write(&card, &page);
        rc = rv_buf_status(&page, "the model card", err);
        rv_buf_add_str(out,
                       "{\"key\":\"file\",\"value\":{\"path\":\"README.md\",\"encoding\":\"base64\",\"content\":\"");
        if (rc == RUVLLM_OK)
            add_base64(out, page.data, page.len);
        rv_buf_add_str(out, "\"}}\n");
        rv_buf_release(&page);
    }
    rv_buf_addf(out,
                "{\"key\":\"lfsFile\",\"value\":{\"path\":\"%s\",\"algo\":\"sha256\",\"oid\":\"%s\",\"size\":%llu}}\n",
                u->file, u->sha256, (unsigned long long)u->n_bytes);
    return rc ? rc : rv_buf_status(out, "the commit", err);
}

static ruvllm_status commit(struct upload *u, struct ruvllm_error *err)
{
    char url[MAX_URL];
    struct rv_buf body;
    ruvllm_status rc;

    rv_buf_init(&body, 4 * MAX_CARD);
    rc = write_commit(u, &body, err);
    snprintf(url, sizeof(url), "%s/api/models/%s/commit/%s", rv_hub_http_endpoint(u->job->http), u->repository,
             u->job->revision);
    if (rc == RUVLLM_OK)
        rc = rv_hub_api_post(u->job->http, url, "application/x-ndjson", body.data, body.len, "the commit", &u->retry,
                             &u->reply, err);
    rv_buf_release(&body);
    return rc;
}

static ruvllm_status make_url(const struct upload *u, char **url, struct ruvllm_error *err)
{
    struct rv_buf text;

    rv_buf_init(&text, MAX_URL);
    rv_buf_addf(&text, "%s/%s/blob/%s/%s", rv_hub_http_endpoint(u->job->http), u->repository, u->job->revision,
                u->file);
    *url = rv_buf_take(&text, NULL);
    rv_buf_release(&text);
    return *url ? RUVLLM_OK : rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the file's address");
}

ruvllm_status rv_hub_push_run(const struct rv_hub_push *push, char **url, struct ruvllm_error *err)
{
    struct upload u = {.job = push, .fd = -1, .start_us = rv_clock_us()};
    ruvllm_status rc;

    u.retry = (struct rv_hub_retry){.max = push->max_retries, .on_pause = on_pause, .user = &u};
    rv_hub_http_reply_init(&u.reply);
    rv_hub_name_repository(&push->name, u.repository);
    rc = open_file(&u, err);
    if (rc == RUVLLM_OK && !rv_hub_http_has_token(push->http))
        rc = rv_fail(err, RUVLLM_INVALID, "uploading needs a token with the right to write: set HF_TOKEN");
    if (rc == RUVLLM_OK)
        rc = prepare_repository(&u, err);
    if (rc == RUVLLM_OK)
        rc = hand_over(&u, err);
    if (rc == RUVLLM_OK)
        rc = commit(&u, err);
    if (rc == RUVLLM_OK)
        rc = make_url(&u, url, err);
    if (u.fd >= 0)
        close(u.fd);
    rv_gguf_file_close(u.model);
    rv_hub_http_reply_release(&u.reply);
    return rc ? rv_fail_in(err, rc, "cannot upload '%s'", push->path) : RUVLLM_OK;
}
