/*
 * Blocks of keys and values in a file, with the tokens they stand for: what a session is kept as. The file is tied to
 * what made the blocks and says so; it is written whole beside the old one and then put in its place, so a crash
 * leaves the old one or the new one, never half of either.
 *
 *     header (magic, version, identity, sizes, count) | tokens | formats | a hash of each block | a hash of all this |
 * blocks
 *
 * In the byte order of the machine that wrote it; another one's is refused by the version word.
 */
#ifndef RV_KV_KV_SNAPSHOT_H
#define RV_KV_KV_SNAPSHOT_H

#include "base/error.h"
#include "kernels/kv_block.h"

/* What keys and values depend on besides tokens; all of it must be equal on loading. */
struct rv_kv_snapshot_identity {
    uint64_t model;          // hash of the file's header and of the settings that change keys (RoPE, rotation)
    uint64_t adapter_layers; // content of the adapters' layer parts; 0: none
    uint64_t chat_template;  // hash of the chat template: the conversation was rendered by it
    uint64_t tenant;         // hash of its name
};

struct rv_kv_snapshot {
    struct rv_kv_snapshot_identity identity;
    uint64_t block_bytes[RV_KV_BLOCK_N_FORMATS];
    int32_t n_blocks;
    const int32_t *tokens; // 32 a block
    const uint8_t *formats;
    const uint8_t *const *blocks; // n_blocks, each block_bytes[format] long
};

/* Writes the file at `path`, replacing the one that is there only when the new one is on disk. */
RV_CHECKED ruvllm_status rv_kv_snapshot_save(const struct rv_kv_snapshot *snapshot, const char *path,
                                             struct ruvllm_error *err);

/* A snapshot that owns what it points to. */
struct rv_kv_snapshot_file;

/*
 * Reads a file and checks it. NOT_FOUND when there is none, FORMAT when it is damaged, INVALID when it belongs to
 * another model, adapter, template or tenant, with a sentence telling which.
 */
RV_CHECKED ruvllm_status rv_kv_snapshot_load(struct rv_kv_snapshot_file **out, const char *path,
                                             const struct rv_kv_snapshot_identity *identity,
                                             const uint64_t block_bytes[RV_KV_BLOCK_N_FORMATS],
                                             struct ruvllm_error *err);
const struct rv_kv_snapshot *rv_kv_snapshot_of(const struct rv_kv_snapshot_file *file);
void rv_kv_snapshot_close(struct rv_kv_snapshot_file *file);

/*
 * The reading part, on the bytes of a file: fills `out`, which then points into `data` but for `blocks`, an array of
 * the caller's to rv_free. Allocates no more than the bytes can account for. FORMAT when anything does not add up or a
 * hash is wrong.
 */
RV_CHECKED ruvllm_status rv_kv_snapshot_parse(const uint8_t *data, size_t len, struct rv_kv_snapshot *out,
                                              struct ruvllm_error *err);

#endif
