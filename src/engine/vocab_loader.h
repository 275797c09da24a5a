/* From the tokenizer.* keys of a model file to a vocabulary. */
#ifndef RV_ENGINE_VOCAB_LOADER_H
#define RV_ENGINE_VOCAB_LOADER_H

#include "base/error.h"

struct rv_gguf_file;
struct rv_vocab;

/*
 * Keys a file may leave out may be absent; one of the wrong type, or arrays of different lengths, are FORMAT errors
 * that name the key. The vocabulary keeps pointing into the file, which must stay open longer.
 */
RV_CHECKED ruvllm_status rv_vocab_loader_open(const struct rv_gguf_file *file, struct rv_vocab **out,
                                              struct ruvllm_error *err);

#endif
