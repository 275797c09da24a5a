/*
 * What a GGUF file says about itself, whole or damaged: ruvllm_inspect's JSON, held as a document and shown to
 * people.
 */
#ifndef RV_CLI_FILE_FACTS_H
#define RV_CLI_FILE_FACTS_H

#include "output.h"

struct rv_file_facts {
    yyjson_doc *doc;
    const char *damage; // what is wrong with the file; NULL when nothing is. Lives in doc
    uint64_t version;   // 0: could not be read
    uint64_t n_bytes;
    uint64_t n_params; // elements of all tensors that could be read
    size_t n_tensors;
    size_t n_metadata;
};

/* Fails only when the file cannot be opened or read at all. */
RV_CHECKED ruvllm_status rv_file_facts_init(struct rv_file_facts *facts, const char *path, struct ruvllm_error *err);
void rv_file_facts_release(struct rv_file_facts *facts);

/* "f16 ×43, f32 ×13", most tensors first. */
void rv_file_facts_types(const struct rv_file_facts *facts, char *out, size_t out_size);
/* Tables on standard output. */
void rv_file_facts_print_metadata(const struct rv_file_facts *facts);
void rv_file_facts_print_tensors(const struct rv_file_facts *facts);
/* Adds version, n_bytes, n_tensors, metadata and, if asked for, tensors to an object. */
void rv_file_facts_json(const struct rv_file_facts *facts, bool with_tensors, yyjson_mut_doc *doc,
                        yyjson_mut_val *object);

#endif
