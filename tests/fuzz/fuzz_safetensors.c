/*
 * Any bytes as a safetensors file. What opened keeps its promises: tensors inside the bytes, one behind the other, each
 * as large as its type and shape ask for and found by its name. A broken promise aborts.
 */
#include "fuzz_target.h"
#include "model/safetensors.h"

#include <stdlib.h>
#include <string.h>

static void promise(bool kept)
{
    if (!kept)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ruvllm_error err = {0};
    struct rv_safetensors *file;
    ruvllm_status rc = rv_safetensors_open_memory(&file, data, size, &err);
    const uint8_t *end = NULL;

    if (rc) {
        promise(!file && err.message[0] && (rc == RUVLLM_FORMAT || rc == RUVLLM_UNSUPPORTED));
        return 0;
    }
    for (size_t i = 0; i < rv_safetensors_n_tensors(file); i++) {
        const struct rv_safetensors_tensor *t = rv_safetensors_tensor_at(file, i);
        const uint8_t *at = t->data;
        uint64_t n = ggml_type_size(t->type);
        char name[513];

        promise(at >= data + 8 && (!end || at == end) && t->n_bytes <= (uint64_t)(data + size - at));
        end = at + t->n_bytes;
        for (int j = 0; j < 4; j++) {
            promise(t->shape[j] >= 1 && (j < t->n_dims || t->shape[j] == 1));
            n *= (uint64_t)t->shape[j];
        }
        promise(n == t->n_bytes && t->name.len > 0 && t->name.len < sizeof(name));
        memcpy(name, t->name.data, t->name.len);
        name[t->name.len] = '\0';
        promise(rv_safetensors_find(file, name) == t);
    }
    promise(!end || end == data + size);
    (void)rv_safetensors_metadata(file, "format");
    rv_safetensors_close(file);
    return 0;
}
