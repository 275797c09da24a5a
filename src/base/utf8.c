/* Strict UTF-8 decoding by table 3-7 of the Unicode standard (well-formed byte sequences). */
#include "base/utf8.h"

int rv_utf8_decode(const char *text, size_t len, uint32_t *cp)
{
    const unsigned char *s = (const unsigned char *)text;
    unsigned char low = 0x80, high = 0xBF; // bounds of the second byte
    uint32_t value;
    int n, i;

    if (len == 0)
        return -1;
    if (s[0] < 0x80) {
        *cp = s[0];
        return 1;
    }
    if (s[0] >= 0xC2 && s[0] <= 0xDF) {
        n = 2;
        value = s[0] & 0x1Fu;
    } else if (s[0] >= 0xE0 && s[0] <= 0xEF) {
        n = 3;
        value = s[0] & 0x0Fu;
        if (s[0] == 0xE0)
            low = 0xA0;
        if (s[0] == 0xED)
            high = 0x9F;
    } else if (s[0] >= 0xF0 && s[0] <= 0xF4) {
        n = 4;
        value = s[0] & 0x07u;
        if (s[0] == 0xF0)
            low = 0x90;
        if (s[0] == 0xF4)
            high = 0x8F;
    } else {
        return 0;
    }
    for (i = 1; i < n; i++) {
        if ((size_t)i >= len)
            return -1;
        if (s[i] < low || s[i] > high)
            return 0;
        value = value << 6 | (s[i] & 0x3Fu);
        low = 0x80;
        high = 0xBF;
    }
    *cp = value;
    return n;
}

size_t rv_utf8_encode(uint32_t cp, char out[4])
{
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (char)(0xC0 | cp >> 6);
        out[1] = (char)(0x80 | (cp & 0x3F));
        return 2;
    }
    if (cp < 0x10000) {
        out[0] = (char)(0xE0 | cp >> 12);
        out[1] = (char)(0x80 | (cp >> 6 & 0x3F));
        out[2] = (char)(0x80 | (cp & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | cp >> 18);
    out[1] = (char)(0x80 | (cp >> 12 & 0x3F));
    out[2] = (char)(0x80 | (cp >> 6 & 0x3F));
    out[3] = (char)(0x80 | (cp & 0x3F));
    return 4;
}

size_t rv_utf8_complete_len(const char *text, size_t len)
{
    size_t start = len > 3 ? len - 3 : 0;
    uint32_t cp;

    /* Only the last three bytes can belong to an unfinished character. */
    for (size_t i = start; i < len; i++) {
        if (((unsigned char)text[i] & 0xC0) == 0xC0 && rv_utf8_decode(text + i, len - i, &cp) < 0)
            return i;
    }
    return len;
}

bool rv_utf8_valid(const char *text, size_t len)
{
    uint32_t cp;

    for (size_t i = 0; i < len;) {
        int n = rv_utf8_decode(text + i, len - i, &cp);
        if (n <= 0)
            return false;
        i += (size_t)n;
    }
    return true;
}
