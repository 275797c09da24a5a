/* UTF-8, strictly: overlong forms, surrogates and code points above U+10FFFF are invalid. */
#ifndef RV_BASE_UTF8_H
#define RV_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Decodes one character of text[0..len). Returns its length (1..4) and sets *cp; 0 when the bytes are invalid;
 * -1 when they could become valid with more bytes. len 0 gives -1.
 */
int rv_utf8_decode(const char *text, size_t len, uint32_t *cp);
/* Writes cp (a valid scalar value) and returns its length, 1..4. */
size_t rv_utf8_encode(uint32_t cp, char out[4]);
/* How many bytes from the start are whole, valid characters or bytes that can never become one: what may be shown. */
size_t rv_utf8_complete_len(const char *text, size_t len);
bool rv_utf8_valid(const char *text, size_t len);

#endif
