/* JSON on disk. What is read here was perhaps written by others, so every field is checked like a hub's. */
#include "engine/hub_manifest.h"

#include "base/durable.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <yyjson.h>

enum { MAX_BYTES = 8192 };

bool rv_hub_manifest_is_sha256(const char *text)
{
    return strlen(text) == RV_SHA256_HEX_LEN && strspn(text, "0123456789abcdef") == RV_SHA256_HEX_LEN;
}

/* The file's text; its length, or -1. */
static ssize_t read_small(int folder, const char *name, char text[MAX_BYTES])
{
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    ssize_t len = -1;

    if (fd < 0)
        return -1;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        len = read(fd, text, MAX_BYTES);
    close(fd);
    return len;
}

/* A string of printable ASCII that fits; "" for anything else. */
static void take_text(yyjson_val *root, const char *key, char *out, size_t room)
{
    yyjson_val *value = yyjson_obj_get(root, key);
    const char *text = yyjson_get_str(value);
    size_t len = yyjson_get_len(value);

    out[0] = '\0';
    if (!text || len >= room)
        return;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < 0x20 || text[i] >= 0x7F)
            return;
    }
    memcpy(out, text, len);
    out[len] = '\0';
}

bool rv_hub_manifest_load(struct rv_hub_manifest *out, int folder, const char *name)
{
    char text[MAX_BYTES];
    ssize_t len = read_small(folder, name, text);
    yyjson_doc *doc = len > 0 ? yyjson_read(text, (size_t)len, 0) : NULL;
    yyjson_val *root = yyjson_doc_get_root(doc);

    *out = (struct rv_hub_manifest){0};
    if (!yyjson_is_obj(root)) {
        yyjson_doc_free(doc);
        return false;
    }
    take_text(root, "source", out->source, sizeof(out->source));
    take_text(root, "revision", out->revision, sizeof(out->revision));
    take_text(root, "sha256", out->sha256, sizeof(out->sha256));
    take_text(root, "etag", out->etag, sizeof(out->etag));
    out->n_bytes = yyjson_get_uint(yyjson_obj_get(root, "n_bytes"));
    out->time = (int64_t)(yyjson_get_uint(yyjson_obj_get(root, "time")) & INT64_MAX);
    yyjson_doc_free(doc);
    if (!rv_hub_manifest_is_sha256(out->sha256))
        out->sha256[0] = '\0';
    return true;
}

ruvllm_status rv_hub_manifest_save(const struct rv_hub_manifest *manifest, int folder, const char *name,
                                   struct ruvllm_error *err)
{
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_mut_obj(doc);
    ruvllm_status rc;
    char *text = NULL;
    size_t len = 0;

    if (root) {
        yyjson_mut_doc_set_root(doc, root);
        yyjson_mut_obj_add_str(doc, root, "source", manifest->source);
        yyjson_mut_obj_add_str(doc, root, "revision", manifest->revision);
        yyjson_mut_obj_add_str(doc, root, "sha256", manifest->sha256);
        if (manifest->etag[0])
            yyjson_mut_obj_add_str(doc, root, "etag", manifest->etag);
        yyjson_mut_obj_add_uint(doc, root, "n_bytes", manifest->n_bytes);
        yyjson_mut_obj_add_int(doc, root, "time", manifest->time);
        text = yyjson_mut_write(doc, YYJSON_WRITE_PRETTY, &len);
    }
    yyjson_mut_doc_free(doc);
    if (!text)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate '%s'", name);
    rc = rv_durable_save(folder, name, text, len, err);
    free(text);
    return rc;
}
