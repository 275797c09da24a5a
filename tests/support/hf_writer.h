/*
 * A Hugging Face folder made from a GGUF file: the way back of what model/hf_folder.c does, written apart from it. The
 * matrices must be F32, F16 or BF16.
 */
#ifndef RV_TESTS_SUPPORT_HF_WRITER_H
#define RV_TESTS_SUPPORT_HF_WRITER_H

#include "model/gguf_file.h"

#include <yyjson.h>

struct hf_writer_options {
    int n_shards;          // 0 or 1: one file without an index
    bool merges_as_pairs;  // ["a", "b"] instead of "a b"
    bool norms_as_bf16;    // rounded
    bool metaspace;        // the newer way to say how spaces are marked
    bool repeats_head;     // a copy of the embedding as lm_head, where it is tied
    double yarn_attention; // 0: not said
};

/* A fresh folder, removed with all that is in it when the program ends. */
const char *hf_writer_folder(void);
/* The whole model; fails the running case when it cannot. */
void hf_writer_model(const char *gguf_path, const char *folder, const struct hf_writer_options *options);
/* Only tokenizer.json, tokenizer_config.json. */
void hf_writer_tokenizer(const struct rv_gguf_file *file, const char *folder, const struct hf_writer_options *options);

/* An empty object as the root of a new document, and such a document as a file; it is freed. */
yyjson_mut_val *hf_writer_root(yyjson_mut_doc **doc);
void hf_writer_save(yyjson_mut_doc *doc, const char *folder, const char *name);

#endif
