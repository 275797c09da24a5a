/* The hub's JSON. A list is read page by page; of every entry only what is understood and safe is kept. */
#include "engine/hub_api.h"

#include "base/alloc.h"
#include "engine/hub_manifest.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yyjson.h>

enum { MAX_PAGES = 64, MAX_FILES = 10000, MAX_URL = 4096 };

static bool tick(void *user, uint64_t uploaded)
{
    const struct rv_hub_retry *retry = user;

    (void)uploaded;
    return !retry->on_pause || retry->on_pause(retry->user, 0);
}

/* Sends until it succeeds or trying again is no use. */
static ruvllm_status send(struct rv_hub_http *http, const struct rv_hub_http_request *request, const char *what,
                          struct rv_hub_retry *retry, struct rv_hub_http_reply *reply, struct ruvllm_error *err)
{
    for (;;) {
        ruvllm_status rc = rv_hub_http_send(http, request, reply, err);

        if (rc == RUVLLM_OK && reply->status >= 200 && reply->status < 300)
            return RUVLLM_OK;
        if (rc == RUVLLM_OK)
            rc = rv_hub_http_fail(reply, what, err);
        rc = rv_hub_retry_pause(retry, rc, reply, err);
        if (rc)
            return rc;
    }
}

ruvllm_status rv_hub_api_post(struct rv_hub_http *http, const char *url, const char *content_type, const char *body,
                              size_t len, const char *what, struct rv_hub_retry *retry, struct rv_hub_http_reply *reply,
                              struct ruvllm_error *err)
{
    char type[96], accept[96];
    const char *headers[] = {type, accept};
    struct rv_hub_http_request request = {
        .method = "POST",
        .url = url,
        .headers = headers,
        .n_headers = 2,
        .body = body,
        .body_len = len,
        .upload_fd = -1,
        .on_tick = tick,
        .user = retry,
    };

    snprintf(type, sizeof(type), "Content-Type: %s", content_type);
    snprintf(accept, sizeof(accept), "Accept: %s", strstr(content_type, "git-lfs") ? content_type : "application/json");
    return send(http, &request, what, retry, reply, err);
}

/* ---- addresses ----------------------------------------------------------------------------- */

/* Revisions may have slashes, which are part of the name and not of the path. */
static void add_revision(struct rv_buf *url, const char *revision)
{
    for (; *revision; revision++) {
        if (*revision == '/')
            rv_buf_add_str(url, "%2F");
        else
            rv_buf_add_char(url, *revision);
    }
}

static ruvllm_status take_url(struct rv_buf *url, char **out, struct ruvllm_error *err)
{
    ruvllm_status rc = rv_buf_status(url, "an address on the hub", err);

    *out = rc ? NULL : rv_buf_take(url, NULL);
    rv_buf_release(url);
    return rc;
}

static ruvllm_status tree_url(const struct rv_hub_http *http, const struct rv_hub_name *name, const char *revision,
                              char **out, struct ruvllm_error *err)
{
    struct rv_buf url;

    rv_buf_init(&url, MAX_URL);
    rv_buf_addf(&url, "%s/api/models/%s/%s/tree/", rv_hub_http_endpoint(http), name->owner, name->name);
    add_revision(&url, revision);
    rv_buf_add_str(&url, "?recursive=true");
    return take_url(&url, out, err);
}

ruvllm_status rv_hub_api_file_url(const struct rv_hub_http *http, const struct rv_hub_name *name, const char *revision,
                                  const char *path, char **out, struct ruvllm_error *err)
{
    struct rv_buf url;

    rv_buf_init(&url, MAX_URL);
    rv_buf_addf(&url, "%s/%s/%s/resolve/", rv_hub_http_endpoint(http), name->owner, name->name);
    add_revision(&url, revision);
    rv_buf_addf(&url, "/%s", path);
    return take_url(&url, out, err);
}

/* ---- the tree ------------------------------------------------------------------------------ */

/* The digest of an entry, in lower case; "" when there is none. */
static void read_sha256(yyjson_val *entry, char out[RV_SHA256_HEX_LEN + 1])
{
    const char *text = yyjson_get_str(yyjson_obj_get(yyjson_obj_get(entry, "lfs"), "oid"));

    out[0] = '\0';
    if (text && strncmp(text, "sha256:", 7) == 0)
        text += 7;
    if (text && rv_hub_manifest_is_sha256(text))
        memcpy(out, text, RV_SHA256_HEX_LEN + 1);
}

static ruvllm_status add_file(struct rv_hub_api_tree *tree, size_t *cap, yyjson_val *entry, const char *path,
                              struct ruvllm_error *err)
{
    struct rv_hub_api_file *file;
    yyjson_val *size = yyjson_obj_get(yyjson_obj_get(entry, "lfs"), "size");

    if (tree->n == MAX_FILES)
        return rv_fail(err, RUVLLM_TOO_LARGE, "the repository has more than %d GGUF files", MAX_FILES);
    if (tree->n == *cap) {
        size_t grown_cap = *cap ? *cap * 2 : 32;
        struct rv_hub_api_file *grown = rv_realloc_array(tree->files, grown_cap, sizeof(*grown));

        if (!grown)
            return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a list of %zu files", grown_cap);
        tree->files = grown;
        *cap = grown_cap;
    }
    file = &tree->files[tree->n];
    file->path = rv_strdup(path);
    if (!file->path)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the name of a file");
    file->n_bytes = yyjson_get_uint(size ? size : yyjson_obj_get(entry, "size"));
    read_sha256(entry, file->sha256);
    tree->n++;
    return RUVLLM_OK;
}

static ruvllm_status add_entry(struct rv_hub_api_tree *tree, size_t *cap, yyjson_val *entry, struct ruvllm_error *err)
{
    yyjson_val *value = yyjson_obj_get(entry, "path");
    const char *path = yyjson_get_str(value), *type = yyjson_get_str(yyjson_obj_get(entry, "type")), *base;

    if (!path || !type || strcmp(type, "file") != 0)
        return RUVLLM_OK;
    if (strcmp(path, "README.md") == 0)
        tree->has_card = true;
    if (!rv_hub_name_is_gguf(path))
        return RUVLLM_OK;
    if (strlen(path) != yyjson_get_len(value) || !rv_hub_name_is_safe_path(path, &base)) {
        if (tree->n_unsafe++ == 0)
            rv_hub_name_label(path, tree->unsafe);
        return RUVLLM_OK;
    }
    return add_file(tree, cap, entry, path, err);
}

static ruvllm_status add_page(struct rv_hub_api_tree *tree, size_t *cap, const struct rv_buf *body,
                              struct ruvllm_error *err)
{
    yyjson_doc *doc = body->len ? yyjson_read(body->data, body->len, 0) : NULL;
    yyjson_val *root = yyjson_doc_get_root(doc), *entry;
    ruvllm_status rc = RUVLLM_OK;
    size_t i, n;

    if (!yyjson_is_arr(root))
        rc = rv_fail(err, RUVLLM_FORMAT, "the hub's list of files is no JSON list; is this the address of a hub?");
    yyjson_arr_foreach(root, i, n, entry)
    {
        if (rc == RUVLLM_OK)
            rc = add_entry(tree, cap, entry, err);
    }
    yyjson_doc_free(doc);
    return rc;
}

static int compare_files(const void *left, const void *right)
{
    const struct rv_hub_api_file *a = left, *b = right;

    return strcmp(a->path, b->path);
}

static ruvllm_status read_pages(struct rv_hub_api_tree *tree, struct rv_hub_http *http, const char *url,
                                const char *what, struct rv_hub_retry *retry, struct rv_hub_http_reply *reply,
                                struct ruvllm_error *err)
{
    char next[sizeof(reply->next)];
    const char *endpoint = rv_hub_http_endpoint(http);
    size_t cap = 0;

    for (int page = 0; page < MAX_PAGES; page++) {
        struct rv_hub_http_request request = {
            .method = "GET", .url = page ? next : url, .upload_fd = -1, .on_tick = tick, .user = retry};
        ruvllm_status rc = send(http, &request, what, retry, reply, err);

        if (rc == RUVLLM_OK)
            rc = add_page(tree, &cap, &reply->body, err);
        if (rc || !reply->next[0])
            return rc;
        if (strncmp(reply->next, endpoint, strlen(endpoint)) != 0 || reply->next[strlen(endpoint)] != '/')
            return rv_fail(err, RUVLLM_FORMAT, "the hub continues its list on another host; refused");
        memcpy(next, reply->next, sizeof(next));
    }
    return rv_fail(err, RUVLLM_TOO_LARGE, "the hub's list of files has more than %d pages", MAX_PAGES);
}

ruvllm_status rv_hub_api_tree_init(struct rv_hub_api_tree *out, struct rv_hub_http *http,
                                   const struct rv_hub_name *name, const char *revision, struct rv_hub_retry *retry,
                                   struct ruvllm_error *err)
{
    struct rv_hub_http_reply reply;
    char what[2 * RV_HUB_NAME_MAX + 16], repository[2 * RV_HUB_NAME_MAX + 2];
    char *url = NULL;
    ruvllm_status rc;

    *out = (struct rv_hub_api_tree){0};
    rv_hub_http_reply_init(&reply);
    rv_hub_name_repository(name, repository);
    snprintf(what, sizeof(what), "model '%s'", repository);
    rc = tree_url(http, name, revision, &url, err);
    if (rc == RUVLLM_OK)
        rc = read_pages(out, http, url, what, retry, &reply, err);
    if (rc == RUVLLM_OK && out->n)
        qsort(out->files, out->n, sizeof(*out->files), compare_files);
    if (rc)
        rv_hub_api_tree_release(out);
    rv_hub_http_reply_release(&reply);
    rv_free(url);
    return rc;
}

void rv_hub_api_tree_release(struct rv_hub_api_tree *tree)
{
    for (size_t i = 0; i < tree->n; i++)
        rv_free(tree->files[i].path);
    rv_free(tree->files);
    *tree = (struct rv_hub_api_tree){0};
}

ruvllm_status rv_hub_api_tree_choose(const struct rv_hub_api_tree *tree, const char *wanted, size_t *index,
                                     struct ruvllm_error *err)
{
    const char **files;
    ruvllm_status rc;

    if (tree->n == 0 && tree->n_unsafe)
        return rv_fail(err, RUVLLM_FORMAT, "the hub offers only files with unsafe names, such as '%s'; refused",
                       tree->unsafe);
    files = rv_calloc(tree->n + 1, sizeof(*files));
    if (!files)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a list of files");
    for (size_t i = 0; i < tree->n; i++)
        files[i] = tree->files[i].path;
    rc = rv_hub_name_choose(files, tree->n, wanted, index, err);
    if (rc == RUVLLM_OK && !tree->files[*index].sha256[0])
        rc = rv_fail(
            err, RUVLLM_UNSUPPORTED,
            "the hub states no SHA-256 for '%s', so nobody could tell whether it arrived well; choose another file",
            tree->files[*index].path);
    rv_free(files);
    return rc;
}
