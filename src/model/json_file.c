/* yyjson with a ceiling: an allocator that refuses a piece larger than the text could honestly need. */
#include "model/json_file.h"

#include "base/alloc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <yyjson.h>

/*
 * A value takes 16 bytes of memory. Two a key of `"a":1,` are the densest thing real files have: 5.3 times its length,
 * and the parser grows in steps of a half.
 */
enum { MAX_RATIO = 7, SLACK = 1 << 16 };

struct ceiling {
    size_t max;
    bool is_reached;
};

static void *limited_realloc(void *user, void *memory, size_t old_size, size_t size)
{
    struct ceiling *ceiling = user;

    (void)old_size;
    if (size > ceiling->max) {
        ceiling->is_reached = true;
        return NULL;
    }
    return rv_realloc_array(memory, size, 1);
}

static void *limited_malloc(void *user, size_t size)
{
    return limited_realloc(user, NULL, 0, size);
}

static void limited_free(void *user, void *memory)
{
    (void)user;
    rv_free(memory);
}

ruvllm_status rv_json_file_parse(struct rv_json_file *out, const char *text, size_t len, const char *what,
                                 struct ruvllm_error *err)
{
    struct ceiling ceiling = {.max = len > SIZE_MAX / 16 ? SIZE_MAX : len * MAX_RATIO + SLACK};
    yyjson_alc allocator = {
        .malloc = limited_malloc, .realloc = limited_realloc, .free = limited_free, .ctx = &ceiling};
    yyjson_read_err fault = {0};
    yyjson_doc *doc;

    *out = (struct rv_json_file){0};
    /* Without the flag for reading in place the text is copied, not written to. */
    doc = yyjson_read_opts((char *)(void *)(uintptr_t)text, len, YYJSON_READ_NOFLAG, &allocator, &fault);
    if (!doc && ceiling.is_reached)
        return rv_fail(err, RUVLLM_FORMAT, "%s is nested too densely", what);
    if (!doc && fault.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the tree of %s", what);
    if (!doc)
        return rv_fail(err, RUVLLM_FORMAT, "%s is no JSON: %s at byte %zu", what, fault.msg, fault.pos);
    if (!yyjson_is_obj(yyjson_doc_get_root(doc))) {
        yyjson_doc_free(doc);
        return rv_fail(err, RUVLLM_FORMAT, "%s is no JSON object", what);
    }
    out->doc = doc;
    out->root = yyjson_doc_get_root(doc);
    return RUVLLM_OK;
}

/* The whole of a regular file; *text is the caller's. */
static ruvllm_status read_all(int fd, const char *name, size_t max, char **text, size_t *len, struct ruvllm_error *err)
{
    struct stat st;
    size_t at = 0;

    if (fstat(fd, &st) != 0)
        return rv_fail_errno(err, errno, "cannot tell what '%s' is", name);
    if (!S_ISREG(st.st_mode))
        return rv_fail(err, RUVLLM_INVALID, "'%s' is not a regular file", name);
    if (st.st_size < 0 || (uint64_t)st.st_size > max)
        return rv_fail(err, RUVLLM_TOO_LARGE, "'%s' has %lld bytes, more than %zu", name, (long long)st.st_size, max);
    *text = rv_malloc((size_t)st.st_size + 1);
    if (!*text)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate '%s'", name);
    while (at < (size_t)st.st_size) {
        ssize_t n = read(fd, *text + at, (size_t)st.st_size - at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            ruvllm_status rc = n < 0 ? rv_fail_errno(err, errno, "cannot read '%s'", name)
                                     : rv_fail(err, RUVLLM_IO, "'%s' became shorter while it was read", name);

            rv_free(*text);
            *text = NULL;
            return rc;
        }
        at += (size_t)n;
    }
    *len = at;
    return RUVLLM_OK;
}

ruvllm_status rv_json_file_read(struct rv_json_file *out, int folder, const char *name, size_t max,
                                struct ruvllm_error *err)
{
    /* O_NONBLOCK so that opening a pipe nobody writes to does not wait. */
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    char *text = NULL, what[80];
    size_t len = 0;
    ruvllm_status rc;

    *out = (struct rv_json_file){0};
    if (fd < 0)
        return rv_fail_errno(err, errno, "cannot open '%s'", name);
    rc = read_all(fd, name, max, &text, &len, err);
    close(fd);
    if (rc)
        return rc;
    snprintf(what, sizeof(what), "'%s'", name);
    rc = rv_json_file_parse(out, text, len, what, err);
    rv_free(text);
    return rc;
}

void rv_json_file_release(struct rv_json_file *json)
{
    yyjson_doc_free(json->doc);
    *json = (struct rv_json_file){0};
}
