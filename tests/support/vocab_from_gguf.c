/* Opens the file, keeps it open beside the vocabulary that points into it. */
#include "support/vocab_from_gguf.h"

#include "engine/vocab_loader.h"
#include "model/gguf_file.h"
#include "support/test.h"

void test_vocab_open(struct test_vocab *vocab, const char *path)
{
    *vocab = (struct test_vocab){0};
    test_need_file(path);
    assert_ok(rv_gguf_file_open(&vocab->file, path, err));
    assert_ok(rv_vocab_loader_open(vocab->file, &vocab->vocab, err));
}

void test_vocab_close(struct test_vocab *vocab)
{
    rv_vocab_free(vocab->vocab);
    rv_gguf_file_close(vocab->file);
    *vocab = (struct test_vocab){0};
}
