/*
 * Adapters as PEFT keeps them: a folder with adapter_config.json and adapter_model.safetensors, tensors named after the
 * modules of the Hugging Face model. Queries and keys of families whose GGUF files have them in another order (those
 * that rotate neighbours: llama) get the rows of their B in that order here, and back when writing.
 *
 * Names are those of the model's own modules: where the base has queries, keys and values in one matrix (phi3), so has
 * PEFT, and names of split ones are refused, as fused names are on a base with split ones.
 */
#ifndef RV_MODEL_ADAPTER_PEFT_H
#define RV_MODEL_ADAPTER_PEFT_H

#include "model/adapter_file.h"

RV_CHECKED ruvllm_status rv_adapter_peft_open(struct rv_adapter_file **out, const char *path,
                                              const struct rv_adapter_file_base *base, struct ruvllm_error *err);
/* The folder's two files in memory (tests and fuzzing). */
RV_CHECKED ruvllm_status rv_adapter_peft_open_memory(struct rv_adapter_file **out, struct rv_str config,
                                                     struct rv_str tensors, const struct rv_adapter_file_base *base,
                                                     struct ruvllm_error *err);
/*
 * The bytes of the safetensors file an adapter came from, for the caller to rv_free(): the same to the last. FORMAT
 * when the header and configuration it carries, which a file may claim anything in, are not those of its content.
 */
RV_CHECKED ruvllm_status rv_adapter_peft_rebuild(const struct rv_adapter_file *file,
                                                 const struct rv_adapter_file_base *base, unsigned char **out,
                                                 size_t *len, struct ruvllm_error *err);
/* What came from PEFT is written as it came, to the bit; anything else in its own types, quantised ones in 32 bits. */
RV_CHECKED ruvllm_status rv_adapter_peft_write(const struct rv_adapter_file *file,
                                               const struct rv_adapter_file_base *base, const char *path,
                                               struct ruvllm_error *err);

#endif
