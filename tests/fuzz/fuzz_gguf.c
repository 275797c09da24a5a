/*
 * Any bytes as a model file: opened, and walked through every getter with every key. What a good file promises is
 * checked too; a broken promise aborts, which the fuzzer reports like a crash.
 */
#include "base/alloc.h"
#include "fuzz_target.h"
#include "model/gguf_parse.h"

#include <stdlib.h>
#include <string.h>

static void promise(bool kept)
{
    if (!kept)
        abort();
}

static bool is_inside(const void *data, size_t len, const uint8_t *bytes, size_t size)
{
    const uint8_t *at = data;

    return at >= bytes && at <= bytes + size && len <= (size_t)(bytes + size - at);
}

static void walk_scalars(const struct rv_gguf_file *file, const char *key, const uint8_t *bytes, size_t size)
{
    struct rv_str text;
    uint64_t u64;
    uint32_t u32;
    float f32;
    bool flag;
    int n_ok = 0;

    if (rv_gguf_file_u64(file, key, &u64, NULL) == RUVLLM_OK) {
        promise((rv_gguf_file_u32(file, key, &u32, NULL) == RUVLLM_OK) == (u64 <= UINT32_MAX));
        n_ok++;
    } else {
        promise(rv_gguf_file_u32(file, key, &u32, NULL) != RUVLLM_OK);
    }
    if (rv_gguf_file_f32(file, key, &f32, NULL) == RUVLLM_OK)
        promise(f32 - f32 == 0.0f); // finite
    if (rv_gguf_file_bool(file, key, &flag, NULL) == RUVLLM_OK)
        n_ok++;
    if (rv_gguf_file_str(file, key, &text, NULL) == RUVLLM_OK) {
        promise(is_inside(text.data, text.len, bytes, size));
        n_ok++;
    }
    promise(n_ok <= 1);
}

static void walk_arrays(const struct rv_gguf_file *file, const char *key, const uint8_t *bytes, size_t size)
{
    enum rv_gguf_type type;
    struct rv_str *strings;
    int32_t *integers;
    float *floats;
    size_t n, n_copied;

    if (rv_gguf_file_array(file, key, &type, &n, NULL) != RUVLLM_OK)
        return;
    if (rv_gguf_file_array_str(file, key, &strings, &n_copied, NULL) == RUVLLM_OK) {
        promise(n_copied == n && type == RV_GGUF_STRING);
        for (size_t i = 0; i < n; i++)
            promise(is_inside(strings[i].data, strings[i].len, bytes, size));
        rv_free(strings);
    }
    if (rv_gguf_file_array_f32(file, key, &floats, &n_copied, NULL) == RUVLLM_OK) {
        promise(n_copied == n);
        rv_free(floats);
    }
    if (rv_gguf_file_array_i32(file, key, &integers, &n_copied, NULL) == RUVLLM_OK) {
        promise(n_copied == n);
        rv_free(integers);
    }
}

static void walk_tensors(const struct rv_gguf_file *file, const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < rv_gguf_file_n_tensors(file); i++) {
        const struct rv_gguf_tensor *t = rv_gguf_file_tensor(file, i);
        char name[GGML_MAX_NAME];

        promise(t->name.len < sizeof(name));
        memcpy(name, t->name.data, t->name.len);
        name[t->name.len] = '\0';
        promise(rv_gguf_file_tensor_find(file, name) == t);
        promise(t->n_bytes > 0 && is_inside(t->data, t->n_bytes, bytes, size));
        promise(t->data == bytes + t->offset);
        promise(t->n_bytes == ggml_row_size(t->type, t->ne[0]) * (uint64_t)(t->ne[1] * t->ne[2] * t->ne[3]));
    }
}

/* The keys come from the parser's own table, since a file handle does not list them. */
static void walk_metadata(const struct rv_gguf_file *file, const uint8_t *bytes, size_t size)
{
    struct rv_gguf_parse parse;
    char key[128];

    promise(rv_gguf_parse_init(&parse, bytes, size, NULL) == RUVLLM_OK);
    for (size_t i = 0; i < parse.n_kvs; i++) {
        size_t len = parse.kvs[i].key_len < sizeof(key) ? parse.kvs[i].key_len : sizeof(key) - 1;

        memcpy(key, parse.kvs[i].key, len);
        key[len] = '\0';
        walk_scalars(file, key, bytes, size);
        walk_arrays(file, key, bytes, size);
    }
    rv_gguf_parse_release(&parse);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rv_gguf_file *file;

    if (rv_gguf_file_open_memory(&file, data, size, NULL) == RUVLLM_OK) {
        walk_metadata(file, data, size);
        walk_tensors(file, data, size);
    } else {
        promise(file == NULL);
    }
    rv_gguf_file_close(file);
    return 0;
}
