/* Published vectors of tokenizers: texts in an .inp file, the ids of each on a line of the .out file. */
#ifndef RV_TESTS_SUPPORT_VOCAB_VECTORS_H
#define RV_TESTS_SUPPORT_VOCAB_VECTORS_H

#include "text/vocab.h"

/* Fails the running case at the first text with other ids, or that does not come back; returns how many there are. */
size_t vocab_vectors_check(const struct rv_vocab *vocab, const char *inp_path, const char *out_path, bool round_trip);

#endif
