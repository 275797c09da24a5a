/* A vocabulary straight from a GGUF file, as the engine loads it. */
#ifndef RV_TESTS_SUPPORT_VOCAB_FROM_GGUF_H
#define RV_TESTS_SUPPORT_VOCAB_FROM_GGUF_H

#include "text/vocab.h"

struct rv_gguf_file;

struct test_vocab {
    struct rv_gguf_file *file;
    struct rv_vocab *vocab;
};

/* Skips the case when the file is not there, fails it when it cannot be used. */
void test_vocab_open(struct test_vocab *vocab, const char *path);
void test_vocab_close(struct test_vocab *vocab);

#endif
