/*
 * A vocabulary: text to token ids and back. Built once from what the model file says, then immutable, so any
 * number of threads may use one at a time.
 *
 * Two families: byte-level BPE (merge ranks, a pre-tokenizer chosen by name) and SentencePiece-style (scores,
 * byte fallback). Which one, and every rule that differs between models, is data in the spec.
 */
#ifndef RV_TEXT_VOCAB_H
#define RV_TEXT_VOCAB_H

#include "base/buf.h"
#include "base/str.h"

struct rv_vocab;

/* As GGUF numbers them. */
enum rv_token_type {
    RV_TOKEN_UNDEFINED = 0,
    RV_TOKEN_NORMAL = 1,
    RV_TOKEN_UNKNOWN = 2,
    RV_TOKEN_CONTROL = 3,
    RV_TOKEN_USER_DEFINED = 4,
    RV_TOKEN_UNUSED = 5,
    RV_TOKEN_BYTE = 6
};

/* A flag a file may leave unsaid. */
enum rv_tristate { RV_UNSET = -1, RV_NO = 0, RV_YES = 1 };

/*
 * What a vocabulary is made from, as found in the file. The bytes that the token strings point to are borrowed and
 * must outlive the vocabulary (they live in the mapped file); everything else (the arrays, the merges, the names) may
 * be freed once it is made. Token ids are -1 where the file names none.
 */
struct rv_vocab_spec {
    struct rv_str model;        // tokenizer.ggml.model: "gpt2", "llama", "gemma4", ...
    struct rv_str pre;          // tokenizer.ggml.pre; len 0 when absent
    struct rv_str architecture; // general.architecture; len 0 when absent
    struct rv_str name;         // general.name; len 0 when absent (tells Phi-3, whose special tokens swallow spaces)
    const struct rv_str *tokens;
    size_t n_tokens;
    const float *scores;  // n_tokens, or NULL
    const int32_t *types; // n_tokens, or NULL
    const struct rv_str *merges;
    size_t n_merges;
    int32_t bos, eos, eot, eom, unk, pad, sep;
    enum rv_tristate add_bos, add_eos, add_space_prefix;
};

/* Every inconsistency in the spec is a FORMAT error; an unknown model or pre-tokenizer is UNSUPPORTED by name. */
RV_CHECKED ruvllm_status rv_vocab_new(struct rv_vocab **out, const struct rv_vocab_spec *spec,
                                      struct ruvllm_error *err);
void rv_vocab_free(struct rv_vocab *vocab);

enum rv_encode_flags {
    RV_ENCODE_ADD_SPECIAL = 1 << 0,   // BOS and EOS where the model wants them
    RV_ENCODE_PARSE_SPECIAL = 1 << 1, // control tokens spelled in trusted text count
};

/*
 * Tokenises text[0..len). `user_mask`, when not NULL, has len bytes: where it is non-zero the text came from a
 * user and no special token is recognised there, even with RV_ENCODE_PARSE_SPECIAL; a special token counts only if
 * all of its bytes are trusted. Ordinary merging ignores the mask, and never yields a control, unknown or byte token
 * for a word that happens to spell one. User-defined (added, non-control) tokens are matched everywhere, in users'
 * text too, as the model's own tokenizer does.
 * *ids is the caller's (rv_free). Any bytes are accepted; invalid UTF-8 is tokenised as libllama does (where libllama
 * gives up, on code points above U+10FFFF, each byte counts as U+FFFD). Text over 64 MiB is TOO_LARGE.
 */
RV_CHECKED ruvllm_status rv_vocab_encode(const struct rv_vocab *vocab, const char *text, size_t len,
                                         const uint8_t *user_mask, uint32_t flags, int32_t **ids, size_t *n_ids,
                                         struct ruvllm_error *err);

/*
 * The bytes of one token, borrowed from the vocabulary; control tokens are empty unless with_special. Unknown ids:
 * empty.
 */
struct rv_str rv_vocab_piece(const struct rv_vocab *vocab, int32_t id, bool with_special);
/*
 * Appends the text of ids, undoing what encoding added in front (the space a SentencePiece vocabulary puts
 * before the first word, also after BOS). Bytes may be invalid UTF-8 if the ids spell that; unknown ids are skipped.
 */
void rv_vocab_decode(const struct rv_vocab *vocab, const int32_t *ids, size_t n_ids, bool with_special,
                     struct rv_buf *out);

size_t rv_vocab_n_tokens(const struct rv_vocab *vocab);
/* The most bytes one token can add to a text_stream's text. */
size_t rv_vocab_max_piece(const struct rv_vocab *vocab);
/* True for a SentencePiece vocabulary that puts a space before the first word. */
bool rv_vocab_adds_space(const struct rv_vocab *vocab);
enum rv_token_type rv_vocab_type(const struct rv_vocab *vocab, int32_t id);
int32_t rv_vocab_bos(const struct rv_vocab *vocab); // -1: none
int32_t rv_vocab_eos(const struct rv_vocab *vocab);
bool rv_vocab_adds_bos(const struct rv_vocab *vocab);
/* True for every token that ends an answer: EOS, end of turn, end of message and their known spellings. */
bool rv_vocab_is_eog(const struct rv_vocab *vocab, int32_t id);
/* "bpe/qwen2", "spm": for people. Borrowed. */
const char *rv_vocab_description(const struct rv_vocab *vocab);

#endif
