/*
 * How a tokenizer.json cuts text before merging: its normalizer and pre-tokenizer, recognised as one of the ways this
 * engine cuts (text/pretokenize.c). A pattern that is not one of the known ones is refused: running it would mean
 * running somebody's regular expression over users' text, and a near miss would give other tokens.
 */
#ifndef RV_MODEL_HF_SPLITTER_H
#define RV_MODEL_HF_SPLITTER_H

#include "base/error.h"

struct yyjson_val;

struct rv_hf_splitter {
    bool is_byte_level; // bytes spelled as characters; else pieces with U+2581 for the space, and bytes as a fallback
    bool adds_space;    // pieces: a space before the first word
    const char *pre;    // byte level: name of the pre-tokenizer
};

/* `root` is the tokenizer.json. UNSUPPORTED names the part that is not known. */
RV_CHECKED ruvllm_status rv_hf_splitter_read(struct rv_hf_splitter *out, struct yyjson_val *root,
                                             struct ruvllm_error *err);

#endif
