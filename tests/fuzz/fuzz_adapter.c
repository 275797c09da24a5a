/*
 * Any bytes as an adapter of a small model. The last byte says which model and which format; for PEFT the two bytes
 * before it are the length of the configuration, which comes first. What opens must keep every promise of
 * adapter_file.h, and what came from PEFT must come back to the last byte.
 */
#include "base/alloc.h"
#include "fuzz_target.h"
#include "model/adapter_gguf.h"
#include "model/adapter_norm.h"
#include "model/adapter_peft.h"
#include "support/paper_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { IS_PEFT = 1, IS_PHI3 = 2 };

static void promise(bool kept)
{
    if (!kept)
        abort();
}

static const struct rv_adapter_file_base *base_of(uint8_t flags)
{
    static struct paper_model llama, phi3;

    if (!llama.tensors) {
        paper_model_init(&llama, "llama", 1, false);
        paper_model_init(&phi3, "phi3", 2, false);
    }
    return flags & IS_PHI3 ? &phi3.base : &llama.base;
}

static void check_pairs(const struct rv_adapter_file *file)
{
    promise(file->n_pairs > 0 && strlen(file->hash) == RV_SHA256_HEX_LEN);
    promise(file->n_layer_pairs == file->n_pairs || file->n_layer_pairs + 1 == file->n_pairs);
    for (size_t i = 0; i < file->n_pairs; i++) {
        const struct rv_adapter_file_pair *pair = &file->pairs[i];
        double *change;

        promise(pair->rank >= 1 && pair->rank <= pair->n_in && pair->rank <= pair->n_out);
        promise(pair->rank <= file->max_rank && isfinite(pair->scale));
        promise((pair->layer < 0) == (i == file->n_layer_pairs));
        promise(i == 0 || pair->layer < 0 || pair->layer > pair[-1].layer ||
                (pair->layer == pair[-1].layer && pair->part > pair[-1].part));
        change = paper_adapter_change(pair); // touches every number
        free(change);
    }
}

static void check_memory(const struct rv_adapter_file *file, const struct rv_adapter_file_base *base)
{
    struct rv_adapter_file *again;
    struct rv_adapter *adapter;

    if (rv_adapter_file_adapter(file, base, &adapter, NULL) != RUVLLM_OK) {
        promise(adapter == NULL);
        return;
    }
    promise(adapter->max_rank == file->max_rank && rv_adapter_norm(adapter) >= 0);
    promise(rv_adapter_norm_difference(adapter, adapter) == 0);
    promise(rv_adapter_file_from(&again, adapter, base, NULL) == RUVLLM_OK);
    promise(again->n_pairs == file->n_pairs);
    rv_adapter_file_close(again);
    rv_adapter_unref(adapter);
}

static void check_rebuilt(const struct rv_adapter_file *file, const struct rv_adapter_file_base *base,
                          const struct rv_str *came_from)
{
    unsigned char *bytes;
    size_t len;
    ruvllm_status rc = rv_adapter_peft_rebuild(file, base, &bytes, &len, NULL);

    if (came_from)
        promise(rc == RUVLLM_OK && len == came_from->len && memcmp(bytes, came_from->data, len) == 0);
    promise((rc == RUVLLM_OK) == (bytes != NULL));
    rv_free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct rv_adapter_file_base *base;
    struct rv_str tensors = {0}, config = {0};
    struct rv_adapter_file *file;
    struct ruvllm_error err = {0};
    ruvllm_status rc;

    if (size < 3)
        return 0;
    base = base_of(data[size - 1]);
    if (data[size - 1] & IS_PEFT) {
        size_t split = (size_t)data[size - 3] | (size_t)data[size - 2] << 8;

        split = split < size - 3 ? split : size - 3;
        config = (struct rv_str){(const char *)data, split};
        tensors = (struct rv_str){(const char *)data + split, size - 3 - split};
        rc = rv_adapter_peft_open_memory(&file, config, tensors, base, &err);
    } else {
        rc = rv_adapter_gguf_open_memory(&file, data, size - 1, base, &err);
    }
    promise((rc == RUVLLM_OK) == (file != NULL));
    promise((rc == RUVLLM_OK) == (err.message[0] == '\0'));
    if (file) {
        check_pairs(file);
        check_memory(file, base);
        check_rebuilt(file, base, tensors.data ? &tensors : NULL);
    }
    rv_adapter_file_close(file);
    return 0;
}
