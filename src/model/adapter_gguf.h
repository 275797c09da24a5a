/* Adapters in GGUF files: llama.cpp's LoRA files and our own. */
#ifndef RV_MODEL_ADAPTER_GGUF_H
#define RV_MODEL_ADAPTER_GGUF_H

#include "model/adapter_file.h"

/* Either kind, by its adapter.type. */
RV_CHECKED ruvllm_status rv_adapter_gguf_open(struct rv_adapter_file **out, const char *path,
                                              const struct rv_adapter_file_base *base, struct ruvllm_error *err);
/* The same over bytes the caller keeps alive (tests and fuzzing). */
RV_CHECKED ruvllm_status rv_adapter_gguf_open_memory(struct rv_adapter_file **out, const void *data, size_t len,
                                                     const struct rv_adapter_file_base *base, struct ruvllm_error *err);

/* As llama.cpp reads it. Pairs whose alphas differ have their scales multiplied into B, in 32 bits. */
RV_CHECKED ruvllm_status rv_adapter_gguf_write(const struct rv_adapter_file *file,
                                               const struct rv_adapter_file_base *base, const char *path,
                                               struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_adapter_gguf_write_own(const struct rv_adapter_file *file,
                                                   const struct rv_adapter_file_base *base, const char *path,
                                                   struct ruvllm_error *err);

#endif
