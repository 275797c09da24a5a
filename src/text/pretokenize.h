/*
 * Cutting text into words before BPE merges inside each: the rules each model family published with its tokenizer,
 * chosen by the name in the file (tokenizer.ggml.pre). Immutable once made, so any number of threads may use one.
 */
#ifndef RV_TEXT_PRETOKENIZE_H
#define RV_TEXT_PRETOKENIZE_H

#include "base/buf.h"
#include "base/str.h"

/* What goes with a name besides its patterns. */
struct rv_pretokenize_rules {
    const char *name;
    const char *const *patterns; // applied one after the other to the pieces the one before left; NULL ends the list
    bool whole_words;            // a word that is a token as it stands is not merged ("ignore_merges")
    bool adds_bos;               // BOS is added unless the file says otherwise
    bool always_adds_bos;        // whatever the file says
    bool raw_utf8;               // symbols are characters with U+2581 for the space, not bytes spelled as characters
};

struct rv_pretokenizer;

/* The name "" means "default". An unknown one is UNSUPPORTED, naming it. */
RV_CHECKED ruvllm_status rv_pretokenize_new(struct rv_pretokenizer **out, struct rv_str name, struct ruvllm_error *err);
void rv_pretokenize_free(struct rv_pretokenizer *pre);
const struct rv_pretokenize_rules *rv_pretokenize_rules(const struct rv_pretokenizer *pre);
/*
 * Appends the end offset of each word of text[0..len) to `ends`, as uint32_t; len is below 4 GiB. The text is UTF-8,
 * where surrogates are allowed too. A pattern that fails to run is an error, never another split.
 */
RV_CHECKED ruvllm_status rv_pretokenize_split(const struct rv_pretokenizer *pre, const char *text, size_t len,
                                              struct rv_buf *ends, struct ruvllm_error *err);

#endif
