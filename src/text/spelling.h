/*
 * How vocabularies spell what they cannot hold as it is: GPT-2's alphabet of 256 printable characters that stand
 * for bytes, SentencePiece's U+2581 for the space, and what becomes of text that is not UTF-8.
 */
#ifndef RV_TEXT_SPELLING_H
#define RV_TEXT_SPELLING_H

#include "base/buf.h"

#define RV_SPELLING_SPACE "\xE2\x96\x81"
#define RV_SPELLING_SPACE_LEN 3

/* The character (below U+0144) that stands for a byte, and back: -1 for one that stands for none. */
uint32_t rv_spelling_byte_char(uint8_t byte);
int rv_spelling_char_byte(uint32_t cp);
/* Writes the character for a byte as UTF-8: 1 or 2 bytes. */
size_t rv_spelling_byte_utf8(uint8_t byte, char out[2]);

/* Appends the bytes that text spells in GPT-2's alphabet; false, adding nothing, when a character is not of it. */
bool rv_spelling_add_bytes(struct rv_buf *out, const char *text, size_t len);
/* Appends text with spaces as U+2581, and with U+2581 as spaces. */
void rv_spelling_add_escaped(struct rv_buf *out, const char *text, size_t len);
void rv_spelling_add_unescaped(struct rv_buf *out, const char *text, size_t len);
/* True when text + i starts with U+2581. */
bool rv_spelling_is_space(const char *text, size_t len, size_t i);

/*
 * Length of the symbol that text starts with, told by its first byte alone and never beyond the text: how BPE and
 * SentencePiece cut text into characters, UTF-8 or not. len is at least 1.
 */
size_t rv_spelling_symbol_len(const char *text, size_t len);
/*
 * Appends text as byte-level BPE sees it: a byte that starts no character becomes U+FFFD, overlong forms become the
 * shortest, surrogates stay. Valid UTF-8 is unchanged.
 */
void rv_spelling_add_repaired(struct rv_buf *out, const char *text, size_t len);

#endif
