/*
 * Addresses for the whole are reserved first; then memory is put at their beginning and each file behind it, all at
 * multiples of a page. Unmapping the run at once gives everything back.
 *
 *     | head | made tensors | file 0 | file 1 | ...
 */
#define _GNU_SOURCE // MAP_ANONYMOUS, MAP_NORESERVE
#include "model/gguf_image.h"

#include "base/alloc.h"
#include "model/gguf_parse.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define KVS_MAX ((size_t)1 << 30)

/* Tensors of other files are aligned as their writers pleased, so the image asks for the least there is. */
enum { ALIGNMENT = RV_GGUF_PARSE_MIN_ALIGNMENT, MADE_ALIGNMENT = 64 };

void rv_gguf_image_init(struct rv_gguf_image *image)
{
    *image = (struct rv_gguf_image){0};
    rv_buf_init(&image->kvs, KVS_MAX);
    rv_gguf_image_u32(image, "general.alignment", ALIGNMENT);
}

void rv_gguf_image_release(struct rv_gguf_image *image)
{
    rv_buf_release(&image->kvs);
    rv_free(image->tensors);
    image->tensors = NULL;
}

/* ---- metadata ------------------------------------------------------------------------------ */

static void add_u32(struct rv_buf *buf, uint32_t value)
{
    rv_buf_add(buf, &value, sizeof(value));
}

static void add_u64(struct rv_buf *buf, uint64_t value)
{
    rv_buf_add(buf, &value, sizeof(value));
}

static void add_str(struct rv_buf *buf, const char *text, size_t len)
{
    add_u64(buf, len);
    rv_buf_add(buf, text, len);
}

static void add_key(struct rv_gguf_image *image, const char *key, enum rv_gguf_type type)
{
    add_str(&image->kvs, key, strlen(key));
    add_u32(&image->kvs, (uint32_t)type);
    image->n_kvs++;
}

void rv_gguf_image_u32(struct rv_gguf_image *image, const char *key, uint32_t value)
{
    add_key(image, key, RV_GGUF_U32);
    add_u32(&image->kvs, value);
}

void rv_gguf_image_f32(struct rv_gguf_image *image, const char *key, float value)
{
    add_key(image, key, RV_GGUF_F32);
    rv_buf_add(&image->kvs, &value, sizeof(value));
}

void rv_gguf_image_bool(struct rv_gguf_image *image, const char *key, bool value)
{
    add_key(image, key, RV_GGUF_BOOL);
    rv_buf_add_char(&image->kvs, value ? 1 : 0);
}

void rv_gguf_image_str(struct rv_gguf_image *image, const char *key, struct rv_str value)
{
    add_key(image, key, RV_GGUF_STRING);
    add_str(&image->kvs, value.data, value.len);
}

void rv_gguf_image_array(struct rv_gguf_image *image, const char *key, enum rv_gguf_type type, size_t n)
{
    add_key(image, key, RV_GGUF_ARRAY);
    add_u32(&image->kvs, (uint32_t)type);
    add_u64(&image->kvs, n);
}

void rv_gguf_image_add_str(struct rv_gguf_image *image, struct rv_str value)
{
    add_str(&image->kvs, value.data, value.len);
}

void rv_gguf_image_add_f32(struct rv_gguf_image *image, float value)
{
    rv_buf_add(&image->kvs, &value, sizeof(value));
}

void rv_gguf_image_add_i32(struct rv_gguf_image *image, int32_t value)
{
    rv_buf_add(&image->kvs, &value, sizeof(value));
}

/* ---- tensors ------------------------------------------------------------------------------- */

bool rv_gguf_image_can_stay(uint64_t source_at)
{
    return source_at % ALIGNMENT == 0;
}

ruvllm_status rv_gguf_image_tensor(struct rv_gguf_image *image, const struct rv_gguf_image_tensor *tensor,
                                   struct ruvllm_error *err)
{
    struct rv_gguf_image_tensor copy = *tensor;

    RV_ASSERT(memchr(copy.name, '\0', sizeof(copy.name)));
    if (!rv_gguf_parse_tensor_bytes(copy.type, copy.ne, &copy.n_bytes))
        return rv_fail(err, RUVLLM_INVALID, "tensor '%s' has an impossible shape", copy.name);
    if (image->n_tensors == image->tensors_cap) {
        size_t cap = image->tensors_cap ? 2 * image->tensors_cap : 256;
        struct rv_gguf_image_tensor *grown = rv_realloc_array(image->tensors, cap, sizeof(*grown));

        if (!grown)
            return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %zu tensor descriptions", cap);
        image->tensors = grown;
        image->tensors_cap = cap;
    }
    image->tensors[image->n_tensors++] = copy;
    return RUVLLM_OK;
}

static uint64_t round_up(uint64_t value, uint64_t step)
{
    return (value + step - 1) / step * step;
}

/* Bytes of header, metadata and descriptions. */
static uint64_t head_bytes(const struct rv_gguf_image *image)
{
    uint64_t n = 4 + 4 + 8 + 8 + image->kvs.len;

    for (size_t i = 0; i < image->n_tensors; i++)
        n += 8 + strlen(image->tensors[i].name) + 4 + 8 * (uint64_t)image->tensors[i].n_dims + 4 + 8;
    return n;
}

struct layout {
    uint64_t page;
    uint64_t data;  // where the data section begins, from which the format counts
    uint64_t files; // where the first file begins
    uint64_t len;
};

/* Sums cannot overflow: sources are files that are mapped already, made tensors no more than a few times these. */
static struct layout plan(struct rv_gguf_image *image, const struct rv_gguf_image_source *sources, size_t n_sources)
{
    struct layout layout = {.page = (uint64_t)sysconf(_SC_PAGESIZE)};
    uint64_t at;

    layout.data = round_up(head_bytes(image), ALIGNMENT);
    at = layout.data;
    for (size_t i = 0; i < image->n_tensors; i++) {
        struct rv_gguf_image_tensor *t = &image->tensors[i];

        if (t->i_source >= 0)
            continue;
        at = round_up(at, MADE_ALIGNMENT);
        t->at = at;
        at += t->n_bytes;
    }
    layout.files = round_up(at, layout.page);
    layout.len = layout.files;
    for (size_t i = 0; i < n_sources; i++) {
        for (size_t j = 0; j < image->n_tensors; j++) {
            struct rv_gguf_image_tensor *t = &image->tensors[j];

            if (t->i_source == (int)i)
                t->at = layout.len + t->source_at;
        }
        layout.len += round_up(sources[i].n_bytes, layout.page);
    }
    return layout;
}

/* ---- mapping ------------------------------------------------------------------------------- */

static ruvllm_status reserve(const struct layout *layout, char **base, struct ruvllm_error *err)
{
    void *run = mmap(NULL, layout->len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (run == MAP_FAILED)
        return rv_fail_errno(err, errno, "cannot find addresses for %llu bytes", (unsigned long long)layout->len);
    *base = run;
    if (mmap(run, layout->files, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
        MAP_FAILED) {
        munmap(run, layout->len);
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %llu bytes for tensors that are laid out anew",
                       (unsigned long long)layout->files);
    }
    return RUVLLM_OK;
}

static ruvllm_status map_sources(const struct layout *layout, char *base, const struct rv_gguf_image_source *sources,
                                 size_t n_sources, struct ruvllm_error *err)
{
    uint64_t at = layout->files;

    for (size_t i = 0; i < n_sources; i++) {
        if (mmap(base + at, sources[i].n_bytes, PROT_READ, MAP_SHARED | MAP_FIXED, sources[i].fd, 0) == MAP_FAILED)
            return rv_fail_errno(err, errno, "cannot map %llu bytes", (unsigned long long)sources[i].n_bytes);
        at += round_up(sources[i].n_bytes, layout->page);
    }
    return RUVLLM_OK;
}

static void add_description(struct rv_buf *head, const struct rv_gguf_image_tensor *t, uint64_t data)
{
    add_str(head, t->name, strlen(t->name));
    add_u32(head, (uint32_t)t->n_dims);
    for (int i = 0; i < t->n_dims; i++)
        add_u64(head, (uint64_t)t->ne[i]);
    add_u32(head, (uint32_t)t->type);
    add_u64(head, t->at - data);
}

static ruvllm_status write_head(const struct rv_gguf_image *image, const struct layout *layout, char *base,
                                struct ruvllm_error *err)
{
    struct rv_buf head;
    ruvllm_status rc;

    rv_buf_init(&head, layout->data);
    rv_buf_add(&head, "GGUF", 4);
    add_u32(&head, 3);
    add_u64(&head, image->n_tensors);
    add_u64(&head, image->n_kvs);
    rv_buf_add(&head, image->kvs.data, image->kvs.len);
    for (size_t i = 0; i < image->n_tensors; i++)
        add_description(&head, &image->tensors[i], layout->data);
    rc = rv_buf_status(&head, "the model's head", err);
    if (!rc)
        memcpy(base, head.data, head.len);
    rv_buf_release(&head);
    return rc;
}

ruvllm_status rv_gguf_image_map(struct rv_gguf_image *image, const struct rv_gguf_image_source *sources,
                                size_t n_sources, struct rv_gguf_map *map, struct ruvllm_error *err)
{
    ruvllm_status rc = rv_buf_status(&image->kvs, "the model's metadata", err);
    struct layout layout;
    char *base = NULL; // for compilers that cannot see that a failure is not 0

    *map = (struct rv_gguf_map){.fd = -1};
    if (rc)
        return rc;
    layout = plan(image, sources, n_sources);
    rc = reserve(&layout, &base, err);
    if (rc)
        return rc;
    rc = map_sources(&layout, base, sources, n_sources, err);
    if (!rc)
        rc = write_head(image, &layout, base, err);
    for (size_t i = 0; i < image->n_tensors && !rc; i++) {
        const struct rv_gguf_image_tensor *t = &image->tensors[i];

        if (t->i_source < 0)
            t->fill(t->user, base + t->at);
    }
    /* From here on it is read only, like a file. */
    if (!rc && mprotect(base, layout.files, PROT_READ) != 0)
        rc = rv_fail_errno(err, errno, "cannot protect the model's head");
    if (rc) {
        munmap(base, layout.len);
        return rc;
    }
    *map = (struct rv_gguf_map){.data = base, .len = (size_t)layout.len, .fd = -1};
    return RUVLLM_OK;
}
