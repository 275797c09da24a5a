/*
 * A session file out of any bytes: refused with a sentence, or read without leaving them. The hashes are made right
 * where the input asks for it, so that the checks behind them are reached too.
 */
#include "fuzz_target.h"

#include "base/alloc.h"
#include "base/keyed_hash.h"
#include "kv/kv_snapshot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where the head's hash belongs when the count of blocks is what the header says; see kv_snapshot.c. */
static void mend_head(uint8_t *data, size_t len)
{
    static const uint8_t no_key[RV_KEYED_HASH_KEY];
    size_t header = 8 + sizeof(struct rv_kv_snapshot_identity) + 8 * RV_KV_BLOCK_N_FORMATS + 8, at;
    struct rv_keyed_hash hash;
    uint64_t n;

    if (len < header)
        return;
    memcpy(&n, data + header - 8, sizeof(n));
    if (n > len)
        return;
    at = header + (size_t)n * (RV_KV_BLOCK_TOKENS * 4 + sizeof(hash) + 1);
    at = (at + 7) / 8 * 8;
    if (at + sizeof(hash) > len)
        return;
    hash = rv_keyed_hash(no_key, data, at);
    memcpy(data + at, &hash, sizeof(hash));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ruvllm_error err = {0};
    struct rv_kv_snapshot out;
    unsigned sum = 0;
    uint8_t *copy = malloc(size + 1);

    if (!copy)
        return 0;
    if (size > 0) {
        memcpy(copy, data + 1, size - 1);
        if (data[0] & 1)
            mend_head(copy, size - 1);
    }
    if (rv_kv_snapshot_parse(copy, size ? size - 1 : 0, &out, &err) == RUVLLM_OK) {
        for (int32_t i = 0; i < out.n_blocks; i++)
            sum += out.blocks[i][0] + out.blocks[i][out.block_bytes[out.formats[i]] - 1] +
                   (unsigned)out.tokens[i * RV_KV_BLOCK_TOKENS + 31];
        rv_free((void *)(uintptr_t)out.blocks);
    } else if (err.message[0] == '\0') {
        fprintf(stderr, "broken promise: failures say why\n");
        abort();
    }
    free(copy);
    return sum == 0xFFFFFFFF; // never: the sum only keeps the reads
}
