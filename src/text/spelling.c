/* Spelling bytes and spaces. The alphabet is computed: printable Latin-1 stands for itself, the rest for U+0100 on. */
#include "text/spelling.h"

#include "base/utf8.h"

#include <string.h>

uint32_t rv_spelling_byte_char(uint8_t byte)
{
    if (byte <= 0x20)
        return 0x100u + byte;
    if (byte >= 0x7F && byte <= 0xA0)
        return 0x121u + (byte - 0x7Fu);
    return byte == 0xAD ? 0x143 : byte;
}

int rv_spelling_char_byte(uint32_t cp)
{
    if (cp >= 0x100 && cp <= 0x120)
        return (int)(cp - 0x100);
    if (cp >= 0x121 && cp <= 0x142)
        return (int)(cp - 0x121 + 0x7F);
    if (cp == 0x143)
        return 0xAD;
    if ((cp >= 0x21 && cp <= 0x7E) || (cp >= 0xA1 && cp <= 0xFF && cp != 0xAD))
        return (int)cp;
    return -1;
}

size_t rv_spelling_byte_utf8(uint8_t byte, char out[2])
{
    char utf8[4];
    size_t len = rv_utf8_encode(rv_spelling_byte_char(byte), utf8);

    memcpy(out, utf8, len);
    return len;
}

bool rv_spelling_add_bytes(struct rv_buf *out, const char *text, size_t len)
{
    size_t before = out->len;

    for (size_t i = 0; i < len;) {
        uint32_t cp = 0;
        int n = rv_utf8_decode(text + i, len - i, &cp);
        int byte = n > 0 ? rv_spelling_char_byte(cp) : -1;

        if (byte < 0) {
            out->len = before;
            return false;
        }
        rv_buf_add_char(out, (char)byte);
        i += (size_t)n;
    }
    return true;
}

void rv_spelling_add_escaped(struct rv_buf *out, const char *text, size_t len)
{
    for (size_t i = 0; i < len;) {
        const char *space = memchr(text + i, ' ', len - i);
        size_t run = space ? (size_t)(space - (text + i)) : len - i;

        if (run)
            rv_buf_add(out, text + i, run);
        i += run;
        if (space) {
            rv_buf_add(out, RV_SPELLING_SPACE, RV_SPELLING_SPACE_LEN);
            i++;
        }
    }
}

bool rv_spelling_is_space(const char *text, size_t len, size_t i)
{
    return len >= RV_SPELLING_SPACE_LEN && i <= len - RV_SPELLING_SPACE_LEN &&
           memcmp(text + i, RV_SPELLING_SPACE, RV_SPELLING_SPACE_LEN) == 0;
}

void rv_spelling_add_unescaped(struct rv_buf *out, const char *text, size_t len)
{
    for (size_t i = 0; i < len;) {
        if (rv_spelling_is_space(text, len, i)) {
            rv_buf_add_char(out, ' ');
            i += RV_SPELLING_SPACE_LEN;
        } else {
            rv_buf_add_char(out, text[i++]);
        }
    }
}

size_t rv_spelling_symbol_len(const char *text, size_t len)
{
    unsigned char first = (unsigned char)text[0];
    size_t n = first < 0xC0 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;

    return n < len ? n : len;
}

/* One character by bit pattern alone, up to U+10FFFF; 0 when the bytes have none. */
static size_t decode_loosely(const char *text, size_t len, uint32_t *cp)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t n = s[0] < 0x80 ? 1 : s[0] < 0xC0 ? 0 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : s[0] < 0xF8 ? 4 : 0;

    if (n == 0 || n > len)
        return 0;
    *cp = n == 1 ? s[0] : s[0] & (0x7Fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xC0) != 0x80)
            return 0;
        *cp = *cp << 6 | (s[i] & 0x3Fu);
    }
    return *cp <= 0x10FFFF ? n : 0;
}

void rv_spelling_add_repaired(struct rv_buf *out, const char *text, size_t len)
{
    for (size_t i = 0; i < len;) {
        char utf8[4];
        uint32_t cp = 0xFFFD;
        size_t n = decode_loosely(text + i, len - i, &cp);

        if (n == 0) {
            cp = 0xFFFD;
            n = 1;
        }
        rv_buf_add(out, utf8, rv_utf8_encode(cp, utf8));
        i += n;
    }
}
