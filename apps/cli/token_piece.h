/* The bytes one token stands for inside a text. */
#ifndef RV_CLI_TOKEN_PIECE_H
#define RV_CLI_TOKEN_PIECE_H

#include "output.h"

/* *piece is the caller's, freed with ruvllm_free(); special tokens are spelled out. */
RV_CHECKED ruvllm_status rv_token_piece(const ruvllm_model *model, int32_t token, char **piece, size_t *len,
                                        struct ruvllm_error *err);
/* Adds "text" and, where the bytes are not UTF-8 by themselves, "bytes" in hexadecimal; nothing on failure. */
void rv_token_piece_json(yyjson_mut_doc *doc, yyjson_mut_val *object, const ruvllm_model *model, int32_t token);

#endif
