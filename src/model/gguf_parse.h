/*
 * The bytes of a GGUF file turned into tables, with every claim checked before it is believed: a count against
 * the bytes its entries need at least, a length against what is left, a tensor against the file and against its
 * neighbours. Names and values are not copied, they point into the bytes, which must stay while the tables do.
 *
 * Memory taken is at most 4 times the file's size (the worst real ratio is 3.2), all of it in four tables whose
 * counts were checked first.
 */
#ifndef RV_MODEL_GGUF_PARSE_H
#define RV_MODEL_GGUF_PARSE_H

#include "model/gguf_file.h"
#include "model/gguf_value.h"

/* Limits of ours where the format itself states none. */
enum {
    RV_GGUF_PARSE_MAX_KEY = 65535, // bytes; what the format's description allows
    RV_GGUF_PARSE_MIN_ALIGNMENT = 8,
    RV_GGUF_PARSE_MAX_ALIGNMENT = 1 << 20,
    RV_GGUF_PARSE_DEFAULT_ALIGNMENT = 32,
};

struct rv_gguf_kv {
    const char *key; // the value's type and bytes follow it in the file
    uint16_t key_len;
};

struct rv_gguf_parse {
    const unsigned char *data;
    uint64_t len;
    uint32_t version; // 0: not reached
    uint64_t alignment;
    struct rv_gguf_kv *kvs; // in the file's order
    size_t n_kvs;
    const struct rv_gguf_kv **kvs_by_key;
    struct rv_gguf_tensor *tensors; // in the file's order; `data` is NULL and `offset` counts from the data
    size_t n_tensors;               // section until all of them were found to lie well
    const struct rv_gguf_tensor **tensors_by_name;
};

/*
 * Parses data[0..len). On failure (FORMAT, UNSUPPORTED or NO_MEMORY) kvs and tensors hold what was read before it;
 * only rv_gguf_parse_release and reading those two tables is allowed then. Release in either case.
 */
RV_CHECKED ruvllm_status rv_gguf_parse_init(struct rv_gguf_parse *parse, const void *data, size_t len,
                                            struct ruvllm_error *err);
void rv_gguf_parse_release(struct rv_gguf_parse *parse);

struct rv_gguf_value rv_gguf_parse_value(const struct rv_gguf_kv *kv);
/* NULL when there is none. */
const struct rv_gguf_kv *rv_gguf_parse_find(const struct rv_gguf_parse *parse, const char *key, size_t len);
const struct rv_gguf_tensor *rv_gguf_parse_find_tensor(const struct rv_gguf_parse *parse, const char *name, size_t len);

/*
 * Bytes of a tensor of a type ggml knows: false when a dimension is under 1, a row is no whole number of blocks,
 * or the number of elements or bytes exceeds INT64_MAX (ggml counts both in 64 bits with a sign).
 */
bool rv_gguf_parse_tensor_bytes(enum ggml_type type, const int64_t ne[4], uint64_t *n_bytes);

#endif
