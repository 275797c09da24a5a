/* Reads the parts in the order in which one bounds the next: config, tensors, then a vocabulary for the embedding. */
#include "model/hf_folder.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "model/hf_config.h"
#include "model/hf_specials.h"
#include "model/hf_tensors.h"
#include "model/hf_tokenizer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <yyjson.h>

#define CONFIG_MAX ((size_t)4 << 20)
#define INDEX_MAX ((size_t)64 << 20)

enum { MAX_SHARDS = 1000, MAX_SHARD_NAME = 200, MAX_VOCAB = 1 << 24 };

static const char SINGLE_NAME[] = "model.safetensors", INDEX_NAME[] = "model.safetensors.index.json";

struct folder {
    const char *path;
    int fd;
    struct rv_gguf_image image;
    struct rv_hf_config config;
    struct rv_hf_tensors tensors;
    struct rv_json_file index; // of shards; empty when there is one file
    struct rv_str names[MAX_SHARDS];
    struct rv_safetensors *shards[MAX_SHARDS];
    size_t n_shards;
};

/* ---- config -------------------------------------------------------------------------------- */

static bool has_file(const struct folder *f, const char *name)
{
    return faccessat(f->fd, name, F_OK, 0) == 0;
}

static ruvllm_status check_kind(const struct folder *f, struct ruvllm_error *err)
{
    if (has_file(f, "config.json"))
        return RUVLLM_OK;
    if (has_file(f, "adapter_config.json"))
        return rv_fail(err, RUVLLM_INVALID, "the folder holds an adapter, not a model");
    return rv_fail(err, RUVLLM_INVALID, "not a regular file, and no model folder: it has no 'config.json'");
}

static ruvllm_status read_config(struct folder *f, struct ruvllm_error *err)
{
    struct rv_json_file json, generation = {0};
    ruvllm_status rc = rv_json_file_read(&json, f->fd, "config.json", CONFIG_MAX, err);

    if (rc)
        return rc;
    rc = rv_hf_config_read(&f->config, &json, &f->image, err);
    if (!rc && has_file(f, "generation_config.json"))
        rc = rv_json_file_read(&generation, f->fd, "generation_config.json", CONFIG_MAX, err);
    if (!rc && generation.root)
        rc = rv_hf_config_read_ends(&f->config, &generation, err);
    if (!rc && f->config.n_ends == 0) // the generation config goes before
        rc = rv_hf_config_read_ends(&f->config, &json, err);
    rv_json_file_release(&generation);
    rv_json_file_release(&json);
    return rc;
}

/* ---- shards -------------------------------------------------------------------------------- */

/* A plain name in this folder: nothing that leads elsewhere. */
static bool is_plain_name(struct rv_str name)
{
    static const char suffix[] = ".safetensors";

    if (!name.data || name.len <= sizeof(suffix) - 1 || name.len > MAX_SHARD_NAME || name.data[0] == '.' ||
        memcmp(name.data + name.len - (sizeof(suffix) - 1), suffix, sizeof(suffix) - 1) != 0)
        return false;
    for (size_t i = 0; i < name.len; i++) {
        char c = name.data[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
              c == '-'))
            return false;
    }
    return true;
}

static int find_shard(const struct folder *f, struct rv_str name)
{
    for (size_t i = 0; i < f->n_shards; i++) {
        if (f->names[i].len == name.len && memcmp(f->names[i].data, name.data, name.len) == 0)
            return (int)i;
    }
    return -1;
}

static ruvllm_status list_shards(struct folder *f, struct ruvllm_error *err)
{
    yyjson_val *map, *key;
    yyjson_obj_iter iter;
    ruvllm_status rc = rv_json_file_read(&f->index, f->fd, INDEX_NAME, INDEX_MAX, err);

    if (rc)
        return rc;
    map = yyjson_obj_get(f->index.root, "weight_map");
    if (!yyjson_is_obj(map) || yyjson_obj_size(map) == 0)
        return rv_fail(err, RUVLLM_FORMAT, "'%s' has no list of tensors", INDEX_NAME);
    yyjson_obj_iter_init(map, &iter);
    while ((key = yyjson_obj_iter_next(&iter))) {
        yyjson_val *value = yyjson_obj_iter_get_val(key);
        struct rv_str name = {.data = yyjson_get_str(value), .len = yyjson_get_len(value)};
        char label[RV_GGUF_VALUE_LABEL];

        if (!is_plain_name(name))
            return rv_fail(err, RUVLLM_FORMAT, "'%s' names '%s', which is no file of safetensors in this folder",
                           INDEX_NAME,
                           rv_gguf_value_label(name.data ? name.data : "?", name.data ? name.len : 1, label));
        if (find_shard(f, name) >= 0)
            continue;
        if (f->n_shards == MAX_SHARDS)
            return rv_fail(err, RUVLLM_UNSUPPORTED, "'%s' names more than %d files", INDEX_NAME, MAX_SHARDS);
        f->names[f->n_shards++] = name;
    }
    return RUVLLM_OK;
}

/* Every tensor of the index is in the shard it names. One that is in a shard only is read nevertheless. */
static ruvllm_status check_index(const struct folder *f, struct ruvllm_error *err)
{
    yyjson_obj_iter iter;
    yyjson_val *key;

    if (!f->index.root)
        return RUVLLM_OK;
    yyjson_obj_iter_init(yyjson_obj_get(f->index.root, "weight_map"), &iter);
    while ((key = yyjson_obj_iter_next(&iter))) {
        yyjson_val *value = yyjson_obj_iter_get_val(key);
        int i = find_shard(f, (struct rv_str){yyjson_get_str(value), yyjson_get_len(value)});
        char label[RV_GGUF_VALUE_LABEL];

        if (strlen(yyjson_get_str(key)) != yyjson_get_len(key) ||
            !rv_safetensors_find(f->shards[i], yyjson_get_str(key)))
            return rv_fail(err, RUVLLM_FORMAT, "tensor '%s' is not in the file '%.*s' the index names",
                           rv_gguf_value_label(yyjson_get_str(key), yyjson_get_len(key), label), (int)f->names[i].len,
                           f->names[i].data);
    }
    return RUVLLM_OK;
}

static ruvllm_status open_shard(struct folder *f, size_t i, struct ruvllm_error *err)
{
    struct rv_buf path;
    ruvllm_status rc;

    rv_buf_init(&path, 1 << 16);
    rv_buf_addf(&path, "%s/%.*s", f->path, (int)f->names[i].len, f->names[i].data);
    rc = rv_buf_status(&path, "the name of a file", err);
    if (!rc)
        rc = rv_safetensors_open(&f->shards[i], path.data, err);
    if (!rc)
        rc = rv_hf_tensors_add(&f->tensors, f->shards[i], (int)i, err);
    rv_buf_release(&path);
    return rc ? rv_fail_in(err, rc, "cannot read '%.*s'", (int)f->names[i].len, f->names[i].data) : RUVLLM_OK;
}

static ruvllm_status read_tensors(struct folder *f, struct ruvllm_error *err)
{
    ruvllm_status rc = RUVLLM_OK;

    if (has_file(f, SINGLE_NAME)) {
        f->names[0] = (struct rv_str){SINGLE_NAME, sizeof(SINGLE_NAME) - 1};
        f->n_shards = 1;
    } else if (has_file(f, INDEX_NAME)) {
        rc = list_shards(f, err);
    } else {
        rc = rv_fail(err, RUVLLM_NOT_FOUND, "the folder has neither '%s' nor '%s'", SINGLE_NAME, INDEX_NAME);
    }
    for (size_t i = 0; i < f->n_shards && !rc; i++)
        rc = open_shard(f, i, err);
    if (!rc)
        rc = check_index(f, err);
    if (!rc)
        rc = rv_hf_tensors_finish(&f->tensors, err);
    if (!rc && f->tensors.n_vocab > MAX_VOCAB)
        rc = rv_fail(err, RUVLLM_FORMAT, "a vocabulary of %lld tokens is too large", (long long)f->tensors.n_vocab);
    return rc;
}

/* ---- the whole ----------------------------------------------------------------------------- */

/* The folder's own name, for people. Phi-3 is told by its name to those who treat its special tokens differently. */
static void write_name(struct folder *f, bool swallows_space)
{
    const char *end = f->path + strlen(f->path), *start;
    char name[128];

    while (end > f->path && end[-1] == '/')
        end--;
    start = end;
    while (start > f->path && start[-1] != '/')
        start--;
    if (end - start > 0 && end - start < 100 && start[0] != '.')
        snprintf(name, sizeof(name), "%.*s", (int)(end - start), start);
    else
        snprintf(name, sizeof(name), "model");
    if (swallows_space && strcmp(f->config.arch, "phi3") == 0)
        snprintf(name, sizeof(name), "Phi-3");
    rv_gguf_image_str(&f->image, "general.name", (struct rv_str){name, strlen(name)});
}

static ruvllm_status read_text(struct folder *f, struct ruvllm_error *err)
{
    struct rv_hf_tokenizer tokenizer;
    ruvllm_status rc = rv_hf_tokenizer_read(&tokenizer, f->fd, f->tensors.n_vocab, &f->image, err);

    if (!rc)
        rc = rv_hf_specials_read(&tokenizer, &f->config, f->fd, &f->image, err);
    if (!rc)
        write_name(f, tokenizer.swallows_space);
    rv_hf_tokenizer_release(&tokenizer);
    return rc;
}

static ruvllm_status map_image(struct folder *f, struct rv_gguf_map *map, struct ruvllm_error *err)
{
    struct rv_gguf_image_source *sources = rv_calloc(f->n_shards, sizeof(*sources));
    ruvllm_status rc;

    if (!sources)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a list of %zu files", f->n_shards);
    for (size_t i = 0; i < f->n_shards; i++)
        sources[i] = (struct rv_gguf_image_source){.fd = rv_safetensors_fd(f->shards[i]),
                                                   .n_bytes = rv_safetensors_n_bytes(f->shards[i])};
    rc = rv_gguf_image_map(&f->image, sources, f->n_shards, map, err);
    rv_free(sources);
    return rc;
}

static ruvllm_status read_folder(struct folder *f, struct rv_gguf_map *map, struct ruvllm_error *err)
{
    ruvllm_status rc = check_kind(f, err);

    if (!rc)
        rc = read_config(f, err);
    if (!rc)
        rc = read_tensors(f, err);
    if (!rc)
        rc = read_text(f, err);
    return rc ? rc : map_image(f, map, err);
}

static void close_folder(struct folder *f)
{
    for (size_t i = 0; i < f->n_shards; i++)
        rv_safetensors_close(f->shards[i]);
    rv_json_file_release(&f->index);
    rv_hf_tensors_release(&f->tensors);
    rv_gguf_image_release(&f->image);
    if (f->fd >= 0)
        close(f->fd);
    rv_free(f);
}

ruvllm_status rv_hf_folder_map(struct rv_gguf_map *map, const char *path, struct ruvllm_error *err)
{
    struct folder *f = rv_calloc(1, sizeof(*f));
    ruvllm_status rc;

    *map = (struct rv_gguf_map){.fd = -1};
    if (!f)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a folder");
    f->path = path;
    rv_gguf_image_init(&f->image);
    rv_hf_tensors_init(&f->tensors, &f->config, &f->image);
    f->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    rc = f->fd < 0 ? rv_fail_errno(err, errno, "cannot open the folder") : read_folder(f, map, err);
    close_folder(f);
    return rc;
}
