/*
 * The lexer: one pass, no recursion. Text between tags is trimmed by looking at the source on both sides of it,
 * so nothing has to be rewritten first. Line numbers are those of the source.
 */
#include "text/jinja_lexer.h"

#include "base/alloc.h"

#include <string.h>

struct lexer {
    const char *source;
    size_t len;
    size_t pos;
    int line;
    bool after_dash;  // the tag before ended with a dash: blanks that follow are dropped
    bool after_block; // the tag before was a block or comment: a newline that follows is dropped
    struct rv_arena *arena;
    struct rv_arena *strings;
    struct rv_jinja_token *tokens;
    size_t n_tokens;
    size_t cap;
    struct ruvllm_error *err;
};

static ruvllm_status fail_at(struct lexer *lx, int line, const char *what)
{
    return rv_fail_kind(lx->err, RUVLLM_INVALID, RUVLLM_ERROR_CONFIG, "line %d: %s", line, what);
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c);
}

static char peek(const struct lexer *lx, size_t ahead)
{
    return ahead < lx->len - lx->pos ? lx->source[lx->pos + ahead] : '\0';
}

static bool at(const struct lexer *lx, const char *text)
{
    size_t n = strlen(text);

    return n <= lx->len - lx->pos && memcmp(lx->source + lx->pos, text, n) == 0;
}

static void skip(struct lexer *lx, size_t n)
{
    for (; n && lx->pos < lx->len; n--)
        if (lx->source[lx->pos++] == '\n')
            lx->line++;
}

static void skip_spaces(struct lexer *lx)
{
    while (lx->pos < lx->len && is_space(lx->source[lx->pos]))
        skip(lx, 1);
}

static ruvllm_status push(struct lexer *lx, enum rv_jinja_token_kind kind, int line, const char *text, size_t len)
{
    if (lx->n_tokens == lx->cap) {
        size_t cap = lx->cap ? lx->cap * 2 : 256;
        struct rv_jinja_token *tokens = rv_arena_calloc(lx->arena, cap, sizeof(*tokens));

        if (!tokens)
            return fail_at(lx, line, "the template has too many parts");
        if (lx->n_tokens)
            memcpy(tokens, lx->tokens, lx->n_tokens * sizeof(*tokens));
        lx->tokens = tokens;
        lx->cap = cap;
    }
    lx->tokens[lx->n_tokens++] = (struct rv_jinja_token){.kind = kind, .line = line, .text = {text, len}};
    return RUVLLM_OK;
}

/* Drops what the tag before asks to drop. */
static void begin_text(struct lexer *lx)
{
    if (lx->after_dash)
        skip_spaces(lx);
    else if (lx->after_block && peek(lx, 0) == '\n')
        skip(lx, 1);
    lx->after_dash = false;
    lx->after_block = false;
}

/* How much of the text [start, end) stays, given the tag that begins at `end`. */
static size_t end_of_text(const struct lexer *lx, size_t start, size_t end)
{
    char mark = end + 2 < lx->len ? lx->source[end + 2] : '\0';
    size_t keep = end;

    if (end == lx->len)
        return end;
    if (mark == '-') {
        while (keep > start && is_space(lx->source[keep - 1]))
            keep--;
        return keep;
    }
    if (mark == '+' || lx->source[end + 1] == '{')
        return end;
    while (keep > start && (lx->source[keep - 1] == ' ' || lx->source[keep - 1] == '\t'))
        keep--;
    return keep == 0 || lx->source[keep - 1] == '\n' ? keep : end;
}

static ruvllm_status lex_text(struct lexer *lx)
{
    size_t start, end, keep;
    int line;

    begin_text(lx);
    start = end = lx->pos;
    line = lx->line;
    while (end < lx->len) {
        const char *brace = memchr(lx->source + end, '{', lx->len - end);

        if (!brace || (size_t)(brace - lx->source) + 1 >= lx->len) {
            end = lx->len;
            break;
        }
        end = (size_t)(brace - lx->source);
        if (brace[1] == '{' || brace[1] == '%' || brace[1] == '#')
            break;
        end++;
    }
    keep = end_of_text(lx, start, end);
    skip(lx, end - start);
    return keep > start ? push(lx, RV_JINJA_TOKEN_TEXT, line, lx->source + start, keep - start) : RUVLLM_OK;
}

static ruvllm_status lex_comment(struct lexer *lx)
{
    int line = lx->line;

    skip(lx, 2);
    while (lx->pos < lx->len && !at(lx, "#}"))
        skip(lx, 1);
    if (lx->pos == lx->len)
        return fail_at(lx, line, "this comment is never closed");
    lx->after_dash = lx->source[lx->pos - 1] == '-';
    lx->after_block = true;
    skip(lx, 2);
    return RUVLLM_OK;
}

/* The tag at the cursor when it is just {% name %}: its length, and whether it ends with a dash. */
static size_t simple_tag(const struct lexer *lx, size_t pos, const char *name, bool *dash)
{
    size_t i = pos + 2, n = strlen(name);

    if (pos + 2 > lx->len || memcmp(lx->source + pos, "{%", 2) != 0)
        return 0;
    if (i < lx->len && (lx->source[i] == '-' || lx->source[i] == '+'))
        i++;
    while (i < lx->len && is_space(lx->source[i]))
        i++;
    if (n > lx->len - i || memcmp(lx->source + i, name, n) != 0)
        return 0;
    i += n;
    while (i < lx->len && is_space(lx->source[i]))
        i++;
    *dash = i < lx->len && lx->source[i] == '-';
    if (*dash)
        i++;
    if (lx->len - i < 2 || memcmp(lx->source + i, "%}", 2) != 0)
        return 0;
    return i + 2 - pos;
}

/* Everything up to {% endraw %} is text. */
static ruvllm_status lex_raw(struct lexer *lx, size_t tag, bool dash)
{
    int line = lx->line;
    size_t start, end, end_tag = 0, keep;

    skip(lx, tag);
    lx->after_dash = dash;
    lx->after_block = true;
    begin_text(lx);
    start = lx->pos;
    for (end = start; end < lx->len; end++) {
        if (lx->source[end] == '{')
            end_tag = simple_tag(lx, end, "endraw", &dash);
        if (end_tag)
            break;
    }
    if (!end_tag)
        return fail_at(lx, line, "this raw block is never closed");
    keep = end_of_text(lx, start, end);
    skip(lx, end - start + end_tag);
    lx->after_dash = dash;
    lx->after_block = true;
    return keep > start ? push(lx, RV_JINJA_TOKEN_TEXT, line, lx->source + start, keep - start) : RUVLLM_OK;
}

static char escape_of(char c)
{
    static const char names[] = "ntrbfv'\"\\", values[] = "\n\t\r\b\f\v'\"\\";
    const char *found = c ? strchr(names, c) : NULL;

    return found ? values[found - names] : '\0';
}

static ruvllm_status lex_string(struct lexer *lx)
{
    char quote = peek(lx, 0), *copy = NULL;
    size_t start = lx->pos + 1, end = start, len = 0;
    int line = lx->line;
    bool escaped = false;

    for (; end < lx->len && lx->source[end] != quote; end++)
        if (lx->source[end] == '\\') {
            escaped = true;
            end++;
        }
    if (end >= lx->len)
        return fail_at(lx, line, "this string is never closed");
    if (escaped) {
        copy = rv_arena_alloc(lx->strings, end - start);
        if (!copy)
            return fail_at(lx, line, "the template has too many parts");
        for (size_t i = start; i < end; i++) {
            char c = lx->source[i];

            if (c == '\\') {
                c = escape_of(lx->source[++i]);
                if (!c)
                    return fail_at(lx, line, "this string has an escape that is not known");
            }
            copy[len++] = c;
        }
    } else {
        len = end - start;
    }
    skip(lx, end + 1 - lx->pos);
    return push(lx, RV_JINJA_TOKEN_STRING, line, copy ? copy : lx->source + start, len);
}

static ruvllm_status lex_number(struct lexer *lx)
{
    size_t start = lx->pos;
    enum rv_jinja_token_kind kind = RV_JINJA_TOKEN_INTEGER;

    while (is_digit(peek(lx, 0)))
        lx->pos++;
    if (peek(lx, 0) == '.' && is_digit(peek(lx, 1))) {
        kind = RV_JINJA_TOKEN_FLOAT;
        lx->pos++;
        while (is_digit(peek(lx, 0)))
            lx->pos++;
    }
    if (is_word(peek(lx, 0)))
        return fail_at(lx, lx->line, "a number runs into a name");
    return push(lx, kind, lx->line, lx->source + start, lx->pos - start);
}

static ruvllm_status lex_operator(struct lexer *lx)
{
    static const char *const operators[] = {"**", "//", "==", "!=", "<=", ">=", "<", ">", "+", "-", "~", "*", "/",
                                            "%",  "=",  "(",  ")",  "[",  "]",  "{", "}", ",", ".", ":", "|"};

    for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++)
        if (at(lx, operators[i])) {
            lx->pos += strlen(operators[i]);
            return push(lx, RV_JINJA_TOKEN_OPERATOR, lx->line, operators[i], strlen(operators[i]));
        }
    return fail_at(lx, lx->line, "a character here is not part of the language");
}

/* The closing mark of a tag at the cursor: its length, or 0. */
static size_t close_mark(const struct lexer *lx, const char *close, bool *dash)
{
    *dash = peek(lx, 0) == '-' && peek(lx, 1) == close[0] && peek(lx, 2) == close[1];
    if (*dash)
        return 3;
    return at(lx, close) ? 2 : 0;
}

static ruvllm_status lex_tag(struct lexer *lx)
{
    bool is_block = peek(lx, 1) == '%', dash;
    const char *close = is_block ? "%}" : "}}";
    int line = lx->line, braces = 0;
    ruvllm_status rc;
    size_t n;

    rc = push(lx, is_block ? RV_JINJA_TOKEN_BLOCK_OPEN : RV_JINJA_TOKEN_OUTPUT_OPEN, line, lx->source + lx->pos, 2);
    skip(lx, 2);
    if (peek(lx, 0) == '-' || (is_block && peek(lx, 0) == '+'))
        skip(lx, 1);
    while (rc == RUVLLM_OK) {
        char c;

        skip_spaces(lx);
        if (lx->pos == lx->len)
            return fail_at(lx, line, "this tag is never closed");
        n = close_mark(lx, close, &dash);
        /* Inside a dict literal two braces close two dicts. */
        if (n && (is_block || braces == 0)) {
            rc = push(lx, is_block ? RV_JINJA_TOKEN_BLOCK_CLOSE : RV_JINJA_TOKEN_OUTPUT_CLOSE, lx->line, close, 2);
            skip(lx, n);
            lx->after_dash = dash;
            lx->after_block = is_block;
            return rc;
        }
        c = peek(lx, 0);
        braces += (c == '{') - (c == '}' && braces > 0);
        if (c == '\'' || c == '"')
            rc = lex_string(lx);
        else if (is_digit(c))
            rc = lex_number(lx);
        else if (is_word(c)) {
            size_t start = lx->pos;

            while (is_word(peek(lx, 0)))
                lx->pos++;
            rc = push(lx, RV_JINJA_TOKEN_NAME, lx->line, lx->source + start, lx->pos - start);
        } else {
            rc = lex_operator(lx);
        }
    }
    return rc;
}

/* A tag that leaves no token: generation marks and raw blocks. 0 in *tag: it is neither. */
static ruvllm_status lex_silent_tag(struct lexer *lx, bool *done)
{
    bool dash;
    size_t tag = simple_tag(lx, lx->pos, "raw", &dash);

    *done = true;
    if (tag)
        return lex_raw(lx, tag, dash);
    tag = simple_tag(lx, lx->pos, "generation", &dash);
    if (!tag)
        tag = simple_tag(lx, lx->pos, "endgeneration", &dash);
    if (tag) {
        skip(lx, tag);
        lx->after_dash = dash;
        lx->after_block = true;
        return RUVLLM_OK;
    }
    *done = false;
    return RUVLLM_OK;
}

ruvllm_status rv_jinja_lexer_run(const char *source, size_t len, struct rv_arena *arena, struct rv_arena *strings,
                                 struct rv_jinja_tokens *out, struct ruvllm_error *err)
{
    struct lexer lx = {.source = source, .len = len, .line = 1, .arena = arena, .strings = strings, .err = err};
    ruvllm_status rc = RUVLLM_OK;

    if (lx.len && source[lx.len - 1] == '\n')
        lx.len--;
    while (rc == RUVLLM_OK) {
        bool done = false;

        rc = lex_text(&lx);
        if (rc || lx.pos == lx.len)
            break;
        if (peek(&lx, 1) == '#') {
            rc = lex_comment(&lx);
            continue;
        }
        rc = lex_silent_tag(&lx, &done);
        if (rc == RUVLLM_OK && !done)
            rc = lex_tag(&lx);
    }
    if (rc == RUVLLM_OK)
        rc = push(&lx, RV_JINJA_TOKEN_END, lx.line, source + lx.len, 0);
    *out = (struct rv_jinja_tokens){lx.tokens, lx.n_tokens};
    return rc;
}
