/* Random text of the kinds that break tokenizers, the same for the same seed. */
#ifndef RV_TESTS_SUPPORT_RANDOM_TEXT_H
#define RV_TESTS_SUPPORT_RANDOM_TEXT_H

#include "base/buf.h"
#include "base/rng.h"
#include "base/str.h"

struct random_text {
    struct rv_rng rng;
    const struct rv_str *snippets; // strewn in, such as the spellings of special tokens
    size_t n_snippets;
};

/* Replaces the content of `out` with 0 to about 200 bytes: words, code, scripts, emoji, blanks, sometimes no UTF-8. */
void random_text_make(struct random_text *text, struct rv_buf *out);

#endif
