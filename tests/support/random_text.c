/* Each text is a run of pieces; each piece is drawn from one kind. */
#include "support/random_text.h"

#include "base/utf8.h"

#include <string.h>

static const char *const words[] = {
    "the",       "Hello", " world",   "it's",   "WE'RE",  "don't",    "I'LL",   "they'Ve",  " ' s",
    "'",         "''s",   "naïve",    "für",    " ÜBER",  "привет",   "Мир",    " καλά",    "שלום",
    "مرحبا",     "नमस्ते",  "ไทย",      "한국어", "日本語", "你好世界", "，。！", "カタカナ", "é",
    "e\xCC\x81", "ﬁ",     "İstanbul", "ſ's",    "'ſ",     "Ⅷ½²",      "٣٤٥",    "１２３",   "12345678",
};
static const char *const code[] = {
    "for (int i = 0; i < n; i++) {",
    "\n    return x;\n}",
    "def f(a, b=None):\n\treturn a",
    "a->b.c[\"k\"]",
    "/* note */",
    "#include <stdio.h>\n",
    "x += 1;",
    "<div class=\"a\">",
    "</s>",
    "<0x41>",
    "<unk>",
    "$$\\frac{a}{b}$$",
    "http://a.b/c?d=e&f",
    "||",
    "->",
    ":::",
    "....",
    "-----",
    "====",
    "`~^|<>+=$",
    "%d\\n",
    "\xE2\x96\x81",
    "\xE2\x96\x81\xE2\x96\x81x",
};
static const char *const emoji[] = {
    "😀",      "👍🏽", "👨‍👩‍👧‍👦",
    "🇩🇪",     "☺️",   "🏴󠁧󠁢󠁥󠁮󠁧󠁿",
    "🦙",   "✅",        "🚀",
    "\u200d", "\ufe0f",   "\u2060",
    "\ufeff",
};
static const char *const blanks[] = {
    " ",    "  ",     "   ",      "\n",     "\n\n",   "\r\n",   "\t",     "\t\t",   " \n",    "\n ",  "\x0b",
    "\x0c", "\u00a0", "\xC2\x85", "\u3000", "\u2003", "\u2028", "\u1680", "\u180e", "\u200b", "\x1c", "\x1f",
};
static const char *const broken[] = {
    "\x80",
    "\xBF",
    "\xC3",
    "\xE2",
    "\xE2\x96",
    "\xF0\x9F",
    "\xF0\x9F\x98",
    "\xC0\x80",
    "\xC1\xBC",
    "\xE0\x80\xAF",
    "\xED\xA0\x80",
    "\xED\xBF\xBF",
    "\xF0\x80\x80\xAF",
    "\xFE",
    "\xFF",
    "\xF8\x88\x80\x80\x80",
    "\xC3 ",
    "\xE2 \x96",
    "\xF0\x9F<s>",
};

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))
#define PICK(rng, list) ((list)[rv_rng_below(rng, COUNT(list))])

static void add_code_point(struct rv_rng *rng, struct rv_buf *out)
{
    static const uint32_t limits[] = {0x80, 0x250, 0x800, 0x3000, 0xA000, 0x10000, 0x1F800, 0x32400, 0x110000};
    uint32_t cp = (uint32_t)rv_rng_below(rng, PICK(rng, limits));
    char utf8[4];

    if (cp >= 0xD800 && cp < 0xE000)
        cp = 0x301; // a combining mark instead
    rv_buf_add(out, utf8, rv_utf8_encode(cp, utf8));
}

static void add_ascii(struct rv_rng *rng, struct rv_buf *out)
{
    size_t n = (size_t)rv_rng_below(rng, 8) + 1;

    while (n--)
        rv_buf_add_char(out, (char)(' ' + rv_rng_below(rng, 95)));
}

static void add_snippet(struct random_text *text, struct rv_buf *out)
{
    struct rv_str snippet;
    size_t len;

    if (text->n_snippets == 0)
        return;
    snippet = text->snippets[rv_rng_below(&text->rng, text->n_snippets)];
    len = rv_rng_below(&text->rng, 4) ? snippet.len : (size_t)rv_rng_below(&text->rng, snippet.len + 1);
    rv_buf_add(out, snippet.data, len); // now and then only the beginning of it
}

static void add_piece(struct random_text *text, bool valid, struct rv_buf *out)
{
    struct rv_rng *rng = &text->rng;
    size_t repeat = rv_rng_below(rng, 10) ? 1 : (size_t)rv_rng_below(rng, 24) + 1;
    const char *piece = NULL;

    switch (rv_rng_below(rng, valid ? 9 : 11)) {
    case 0:
    case 1:
        piece = PICK(rng, words);
        break;
    case 2:
        piece = PICK(rng, code);
        break;
    case 3:
        piece = PICK(rng, emoji);
        break;
    case 4:
    case 5:
        piece = PICK(rng, blanks);
        break;
    case 6:
        add_code_point(rng, out);
        return;
    case 7:
        add_ascii(rng, out);
        return;
    case 8:
        add_snippet(text, out);
        return;
    case 9:
        piece = PICK(rng, broken);
        break;
    default:
        rv_buf_add_char(out, (char)rv_rng_below(rng, 256));
        return;
    }
    while (repeat--)
        rv_buf_add_str(out, piece);
}

void random_text_make(struct random_text *text, struct rv_buf *out)
{
    bool valid = rv_rng_below(&text->rng, 4) != 0;
    size_t n = (size_t)rv_rng_below(&text->rng, 16);

    rv_buf_clear(out);
    while (n--)
        add_piece(text, valid, out);
}
