/*
 * A model that is no GGUF file, laid out in memory as if it were one: a head with metadata and descriptions, tensors
 * that had to be made, and behind them the pages of other files, in which the other tensors stay where they are.
 * The result is one run of addresses that gguf_parse reads like any file, so everything else knows one format only.
 *
 *     init, metadata and tensors in any order, map, release
 *
 * Memory that runs out in between is reported by map.
 */
#ifndef RV_MODEL_GGUF_IMAGE_H
#define RV_MODEL_GGUF_IMAGE_H

#include "base/buf.h"
#include "model/gguf_map.h"
#include "model/gguf_value.h"

/* Writes a tensor that is made, n_bytes of it, to `to`. */
typedef void (*rv_gguf_image_fill_fn)(const void *user, void *to);

struct rv_gguf_image_tensor {
    char name[GGML_MAX_NAME];
    enum ggml_type type;
    int n_dims;
    int64_t ne[4];
    int i_source;       // the file it lies in; -1: it is made
    uint64_t source_at; // its place there
    rv_gguf_image_fill_fn fill;
    const void *user; // must stay until the image is mapped
    uint64_t n_bytes; // set by rv_gguf_image_tensor
    uint64_t at;      // its place in the image, set by rv_gguf_image_map
};

/* A file whose pages become part of the image. */
struct rv_gguf_image_source {
    int fd;
    uint64_t n_bytes;
};

struct rv_gguf_image {
    struct rv_buf kvs;
    uint64_t n_kvs;
    struct rv_gguf_image_tensor *tensors;
    size_t n_tensors;
    size_t tensors_cap;
};

void rv_gguf_image_init(struct rv_gguf_image *image);
void rv_gguf_image_release(struct rv_gguf_image *image);

void rv_gguf_image_u32(struct rv_gguf_image *image, const char *key, uint32_t value);
void rv_gguf_image_f32(struct rv_gguf_image *image, const char *key, float value);
void rv_gguf_image_bool(struct rv_gguf_image *image, const char *key, bool value);
void rv_gguf_image_str(struct rv_gguf_image *image, const char *key, struct rv_str value);
/* An array of n elements, each of which is added right after by the function for its type. */
void rv_gguf_image_array(struct rv_gguf_image *image, const char *key, enum rv_gguf_type type, size_t n);
void rv_gguf_image_add_str(struct rv_gguf_image *image, struct rv_str value);
void rv_gguf_image_add_f32(struct rv_gguf_image *image, float value);
void rv_gguf_image_add_i32(struct rv_gguf_image *image, int32_t value);

/* INVALID for a name that is too long or a shape that is impossible. The description is copied. */
RV_CHECKED ruvllm_status rv_gguf_image_tensor(struct rv_gguf_image *image, const struct rv_gguf_image_tensor *tensor,
                                              struct ruvllm_error *err);

/* True when a tensor may stay at this place of a source. */
bool rv_gguf_image_can_stay(uint64_t source_at);

/* Lays everything out and maps it; *map has no descriptor and is closed with rv_gguf_map_close. */
RV_CHECKED ruvllm_status rv_gguf_image_map(struct rv_gguf_image *image, const struct rv_gguf_image_source *sources,
                                           size_t n_sources, struct rv_gguf_map *map, struct ruvllm_error *err);

#endif
