/* The tokenizer of a synthetic model: copied from a GGUF that has one, or a small one made up. */
#ifndef RV_TESTS_SUPPORT_MAKER_VOCAB_H
#define RV_TESTS_SUPPORT_MAKER_VOCAB_H

#include "support/maker_spec.h"

struct gguf_context;

/*
 * Writes the tokenizer.* keys of the spec into `gguf` and sets spec->n_vocab to the number of tokens: for a copied
 * vocabulary at least its own size, more when the spec asks for more.
 */
RV_CHECKED ruvllm_status maker_vocab_write(struct gguf_context *gguf, struct maker_spec *spec,
                                           struct ruvllm_error *err);

#endif
