/* tokenizer.json: tokens, merges and added tokens, written into the image as a GGUF file has them. */
#ifndef RV_MODEL_HF_TOKENIZER_H
#define RV_MODEL_HF_TOKENIZER_H

#include "base/str_map.h"
#include "model/gguf_image.h"
#include "model/json_file.h"

struct rv_hf_tokenizer {
    struct rv_json_file json; // tokens point into it
    struct rv_str *tokens;    // by id; without data where no token has the id
    int32_t *types;           // as GGUF numbers them
    size_t n_tokens;
    struct rv_str_map ids;
    bool swallows_space; // special tokens swallow the white space after them
};

/*
 * Reads tokenizer.json of an open folder. Ids are below max_tokens, the rows of the embedding, else FORMAT. A kind of
 * tokenizer that would not give the same tokens here is UNSUPPORTED. Release in either case.
 */
RV_CHECKED ruvllm_status rv_hf_tokenizer_read(struct rv_hf_tokenizer *out, int folder, int64_t max_tokens,
                                              struct rv_gguf_image *image, struct ruvllm_error *err);
/* The same from text[0..len) (tests and fuzzing). */
RV_CHECKED ruvllm_status rv_hf_tokenizer_parse(struct rv_hf_tokenizer *out, const char *text, size_t len,
                                               int64_t max_tokens, struct rv_gguf_image *image,
                                               struct ruvllm_error *err);
void rv_hf_tokenizer_release(struct rv_hf_tokenizer *tokenizer);
/* The id of a token, or -1. */
int32_t rv_hf_tokenizer_find(const struct rv_hf_tokenizer *tokenizer, const char *text, size_t len);

#endif
