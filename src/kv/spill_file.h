/*
 * Blocks that had to leave the pool, in a file until there is room for them again. What comes back is what went, byte
 * for byte and in the same precision; reading it takes milliseconds where computing it again takes seconds.
 *
 * The blocks of one sequence are a run: blocks are appended to its end and taken from its beginning.
 *
 * The file has no name, so that nobody can open it and nothing of it outlives the process; whoever can read the disk
 * itself can read it. Places are reused, and it never grows beyond its budget. Each block has a keyed hash: bytes that
 * were changed are not taken for keys and values.
 *
 * Failing here is no error: what cannot be written or read is computed again. It is counted, and logged once.
 *
 * Single owner: the thread that runs the graph. Nothing allocates after rv_spill_file_open.
 */
#ifndef RV_KV_SPILL_FILE_H
#define RV_KV_SPILL_FILE_H

#include "kv/block_pool.h"

struct rv_spill_file;

struct rv_spill_file_config {
    struct rv_block_pool *pool; // whose blocks they are; outlives the file
    const char *dir;            // an existing folder
    uint64_t budget;            // bytes the file may take; at least one F16 block
};

/* Blocks of one sequence, oldest first. All zero when it is empty. */
struct rv_spill_run {
    int32_t first; // the file's
    int32_t last;
    int32_t n_blocks;
};

/* NOT_FOUND or IO when no file can be made in the folder, INVALID for a budget that is no use. */
RV_CHECKED ruvllm_status rv_spill_file_open(struct rv_spill_file **out, const struct rv_spill_file_config *config,
                                            struct ruvllm_error *err);
/* Runs that are not empty are forgotten. */
void rv_spill_file_close(struct rv_spill_file *spill);

/*
 * Writes a block of the pool to the end of a run; the block stays as it is. False, with the run unchanged, when the
 * file is full or cannot be written.
 */
bool rv_spill_file_put(struct rv_spill_file *spill, struct rv_spill_run *run, int32_t block);
/*
 * Moves the first block of a run, which is not empty, back to the pool: returns a new block with one reference. -1 when
 * the pool has no room for it, or the bytes cannot be read or are not those that were written. The run is then
 * unchanged, and good for nothing but dropping unless room was all that was missing.
 */
int32_t rv_spill_file_get(struct rv_spill_file *spill, struct rv_spill_run *run);
/* Forgets the first block of a run that is not empty. */
void rv_spill_file_skip(struct rv_spill_file *spill, struct rv_spill_run *run);
/* Forgets all of it. */
void rv_spill_file_drop(struct rv_spill_file *spill, struct rv_spill_run *run);

/* Bytes that n_blocks of a run, from block `from` on, take in the pool; as many as there are when there are fewer. */
size_t rv_spill_file_bytes(const struct rv_spill_file *spill, const struct rv_spill_run *run, int32_t from,
                           int32_t n_blocks);
/* Blocks of all runs. */
int32_t rv_spill_file_n_blocks(const struct rv_spill_file *spill);
/* How often writing or reading failed, for another reason than that there was no room. */
uint64_t rv_spill_file_n_failed(const struct rv_spill_file *spill);
/* Walks all places and compares with the counters; for tests. */
bool rv_spill_file_check(const struct rv_spill_file *spill);

#endif
