/*
 * What each token id is: its text in the file, its attributes, the bytes it stands for, whether it ends an answer.
 * Built once, then immutable.
 *
 * Ordinary tokens are those that words of any text may become. Control, unknown and byte tokens are not: whatever
 * merging could spell, their ids come only from trusted text (special_split.h) or from byte fallback.
 */
#ifndef RV_TEXT_TOKEN_TABLE_H
#define RV_TEXT_TOKEN_TABLE_H

#include "base/str_map.h"
#include "text/vocab.h"

/* Bounds on what a file may claim. Published vocabularies have 262,144 tokens of up to 256 bytes at most. */
#define RV_TOKEN_TABLE_MAX_TOKENS (1u << 24)
#define RV_TOKEN_TABLE_MAX_TOKEN_LEN 4096
#define RV_TOKEN_TABLE_MAX_SPECIAL_LEN 512

/* One bit for each rv_token_type, at its number, and these. */
enum rv_token_attr {
    RV_TOKEN_ATTR_RSTRIP = 1 << 8, // swallows white space after it
    RV_TOKEN_ATTR_END = 1 << 9,    // ends an answer
};
#define RV_TOKEN_ATTR(type) (1u << (type))

struct rv_token_table {
    size_t n_tokens;
    struct rv_str *texts;  // as in the file, borrowed from there
    struct rv_str *pieces; // bytes shown for the token, also for control tokens
    uint16_t *attrs;
    struct rv_str_map ordinary;
    int32_t byte_tokens[256]; // tokens spelled <0x00> to <0xFF>; -1 where there is none
    bool glue[256];           // last bytes after which an ordinary token goes on with U+2581 inside
    size_t max_text_len;      // of ordinary tokens
    size_t max_shown_len;     // of one piece once bytes that are no UTF-8 are shown as U+FFFD
    char *spelled;            // storage of the pieces that differ from their texts
};

/*
 * Reads spec->tokens, types and name. spells_bytes: ordinary tokens are written in GPT-2's alphabet, else with
 * U+2581 for spaces. A failure leaves the table empty.
 */
RV_CHECKED ruvllm_status rv_token_table_init(struct rv_token_table *table, const struct rv_vocab_spec *spec,
                                             bool spells_bytes, struct ruvllm_error *err);
void rv_token_table_release(struct rv_token_table *table);
/* True for what special_split.h looks for: control, unknown and user-defined tokens. */
bool rv_token_table_is_special(const struct rv_token_table *table, int32_t id);
/* True for what only trusted text may spell: control and unknown tokens. */
bool rv_token_table_is_guarded(const struct rv_token_table *table, int32_t id);
/* The ordinary token with this text, or -1. */
int32_t rv_token_table_find(const struct rv_token_table *table, const char *text, size_t len);

#endif
