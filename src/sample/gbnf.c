/* One pass over the text; names are given numbers when they are first met, whether called or defined. */
#include "sample/gbnf.h"

#include "base/alloc.h"
#include "base/str_map.h"
#include "base/utf8.h"
#include "sample/syntax_stack.h"

#include <string.h>

enum { MAX_CLASS = 1024 };

struct reader {
    struct rv_syntax *syntax;
    const char *text;
    size_t len;
    size_t at;
    struct rv_str_map names; // to rules
    struct ruvllm_error *err;
    struct rv_syntax_stack stack;
};

static ruvllm_status wrong(const struct reader *r, const char *what)
{
    size_t line = 1, end = r->at < r->len ? r->at : r->len;

    for (size_t i = 0; i < end; i++)
        line += r->text[i] == '\n';
    return rv_fail(r->err, RUVLLM_INVALID, "line %zu: %s", line, what);
}

static char peek(const struct reader *r)
{
    return r->at < r->len ? r->text[r->at] : '\0';
}

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

static void skip_space(struct reader *r, bool lines)
{
    while (r->at < r->len) {
        char c = r->text[r->at];

        if (c == '#')
            while (r->at < r->len && r->text[r->at] != '\n')
                r->at++;
        else if (c == ' ' || c == '\t' || c == '\r' || (lines && c == '\n'))
            r->at++;
        else
            return;
    }
}

/* The number of the rule with the name that stands here. */
static int32_t read_name(struct reader *r)
{
    const char *name = r->text + r->at;
    size_t first = r->at;
    int32_t rule;

    while (is_name(peek(r)))
        r->at++;
    rule = rv_str_map_find(&r->names, name, r->at - first);
    if (rule < 0) {
        rule = rv_syntax_rule(r->syntax);
        (void)rv_str_map_add(&r->names, name, r->at - first, rule); // it is not there
    }
    return rule;
}

/* A character of a literal or class, escaped or not. */
static ruvllm_status read_char(struct reader *r, uint32_t *cp)
{
    static const char plain[] = "nrt\\\"[]-";
    static const char meant[] = "\n\r\t\\\"[]-";
    const char *found;
    char c;

    if (peek(r) != '\\') {
        int n = rv_utf8_decode(r->text + r->at, r->len - r->at, cp);

        if (n <= 0)
            return wrong(r, "it is not UTF-8");
        r->at += (size_t)n;
        return RUVLLM_OK;
    }
    r->at++;
    c = peek(r);
    r->at++;
    found = c ? strchr(plain, c) : NULL;
    if (found) {
        *cp = (uint8_t)meant[found - plain];
        return RUVLLM_OK;
    }
    if (c == 'x' || c == 'u' || c == 'U') {
        if (!rv_syntax_stack_hex(r->text, r->len, &r->at, c == 'x' ? 2 : c == 'u' ? 4 : 8, cp))
            return wrong(r, "an escape lacks hexadecimal digits");
        if (*cp > RV_SYNTAX_MAX_CP || (*cp >= 0xD800 && *cp <= 0xDFFF))
            return wrong(r, "an escape names no character");
        return RUVLLM_OK;
    }
    return wrong(r, "an escape is not known");
}

static ruvllm_status read_literal(struct reader *r)
{
    struct rv_buf bytes;
    ruvllm_status rc = RUVLLM_OK;

    rv_buf_init(&bytes, RV_SYNTAX_MAX_BYTES);
    r->at++;
    while (!rc && peek(r) != '"') {
        uint32_t cp = 0;
        char utf8[4];

        if (r->at >= r->len || peek(r) == '\n')
            rc = wrong(r, "a literal is not closed");
        else
            rc = read_char(r, &cp);
        if (!rc)
            rv_buf_add(&bytes, utf8, rv_utf8_encode(cp, utf8));
    }
    r->at++;
    if (!rc)
        rc = rv_buf_status(&bytes, "a literal", r->err);
    if (!rc)
        rv_syntax_stack_item(&r->stack, rv_syntax_literal(r->syntax, bytes.len ? bytes.data : "", bytes.len));
    rv_buf_release(&bytes);
    return rc;
}

static ruvllm_status read_class(struct reader *r)
{
    struct rv_syntax_range *ranges = rv_calloc(MAX_CLASS, sizeof(*ranges));
    ruvllm_status rc = ranges ? RUVLLM_OK : rv_fail(r->err, RUVLLM_NO_MEMORY, "cannot allocate a class");
    bool except = false;
    size_t n = 0;

    r->at++;
    if (peek(r) == '^') {
        except = true;
        r->at++;
    }
    while (!rc && peek(r) != ']') {
        struct rv_syntax_range *range = &ranges[n];

        if (r->at >= r->len || peek(r) == '\n')
            rc = wrong(r, "a class is not closed");
        else if (++n == MAX_CLASS)
            rc = wrong(r, "a class has too many characters");
        else
            rc = read_char(r, &range->lo);
        if (rc)
            break;
        range->hi = range->lo;
        if (peek(r) == '-' && r->at + 1 < r->len && r->text[r->at + 1] != ']') {
            r->at++;
            rc = read_char(r, &range->hi);
            if (!rc && range->hi < range->lo)
                rc = wrong(r, "a range of a class runs backwards");
        }
    }
    r->at++;
    if (!rc)
        rv_syntax_stack_item(&r->stack, except ? rv_syntax_class_except(r->syntax, ranges, n)
                                               : rv_syntax_class(r->syntax, ranges, n));
    rv_free(ranges);
    return rc;
}

static ruvllm_status read_repeat(struct reader *r, char c)
{
    int32_t min = c == '+', max = c == '?' ? 1 : -1;

    if (c == '{') {
        if (!rv_syntax_stack_counts(r->text, r->len, &r->at, &min, &max))
            return wrong(r, "the counts of a repetition are wrong or too large");
    } else {
        r->at++;
    }
    return rv_syntax_stack_repeat(&r->stack, min, max) ? RUVLLM_OK : wrong(r, "there is nothing to repeat");
}

/* At the end of a line outside of groups: true when the rule goes on, because the next line begins with '|'. */
static bool goes_on(struct reader *r)
{
    size_t at = r->at;

    skip_space(r, true);
    if (peek(r) == '|')
        return true;
    r->at = at;
    return false;
}

/* One item, operator or bracket. */
static ruvllm_status read_part(struct reader *r)
{
    char c = peek(r);

    switch (c) {
    case '"':
        return read_literal(r);
    case '[':
        return read_class(r);
    case '.':
        r->at++;
        rv_syntax_stack_item(&r->stack, rv_syntax_class_except(r->syntax, NULL, 0));
        return RUVLLM_OK;
    case '(':
        r->at++;
        return rv_syntax_stack_open(&r->stack) ? RUVLLM_OK : wrong(r, "groups are nested deeper than 100");
    case ')':
        r->at++;
        return rv_syntax_stack_close(&r->stack) ? RUVLLM_OK : wrong(r, "')' closes no group");
    case '|':
        r->at++;
        skip_space(r, true);
        rv_syntax_stack_or(&r->stack);
        return RUVLLM_OK;
    case '*':
    case '+':
    case '?':
    case '{':
        return read_repeat(r, c);
    default:
        if (!is_name(c))
            return wrong(r, "a character stands where none of a rule's parts begins");
        rv_syntax_stack_item(&r->stack, rv_syntax_call(r->syntax, read_name(r)));
        return RUVLLM_OK;
    }
}

static ruvllm_status read_rule(struct reader *r)
{
    ruvllm_status rc = RUVLLM_OK;
    int32_t rule;

    if (!is_name(peek(r)))
        return wrong(r, "a rule must begin with its name");
    rule = read_name(r);
    skip_space(r, false);
    if (r->len - r->at < 3 || memcmp(r->text + r->at, "::=", 3) != 0)
        return wrong(r, "'::=' must follow the name of a rule");
    r->at += 3;
    if (!r->syntax->failed && r->syntax->rules[rule] >= 0)
        return wrong(r, "a rule is defined twice");
    rv_syntax_stack_init(&r->stack, r->syntax);
    skip_space(r, true);
    while (!rc && !r->syntax->failed) {
        skip_space(r, r->stack.depth > 0);
        if (r->at >= r->len || (peek(r) == '\n' && !goes_on(r)))
            break;
        rc = read_part(r);
    }
    if (!rc && r->stack.depth > 0)
        return wrong(r, "a group is not closed");
    if (!rc)
        rv_syntax_define(r->syntax, rule, rv_syntax_stack_end(&r->stack));
    return rc;
}

/* Every name that was called must have been defined. */
static ruvllm_status check_names(const struct reader *r, int32_t *root)
{
    for (size_t i = 0; i < r->names.n_slots; i++) {
        const struct rv_str_map_slot *slot = &r->names.slots[i];

        if (slot->key && r->syntax->rules[slot->value] < 0)
            return rv_fail(r->err, RUVLLM_INVALID, "the rule '%.*s' is not defined",
                           slot->len < 60 ? (int)slot->len : 60, slot->key);
    }
    *root = rv_str_map_find(&r->names, "root", 4);
    return *root >= 0 ? RUVLLM_OK : rv_fail(r->err, RUVLLM_INVALID, "there is no rule 'root'");
}

ruvllm_status rv_gbnf_read(struct rv_syntax *syntax, const char *text, size_t len, int32_t *rule,
                           struct ruvllm_error *err)
{
    struct reader *r;
    ruvllm_status rc;

    if (len > RV_SYNTAX_MAX_BYTES)
        return rv_fail(err, RUVLLM_INVALID, "it has %zu bytes, more than %zu", len, RV_SYNTAX_MAX_BYTES);
    r = rv_calloc(1, sizeof(*r));
    if (!r)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a reader");
    r->syntax = syntax;
    r->text = text;
    r->len = len;
    r->err = err;
    rc = rv_str_map_init(&r->names, len / 2 + 8, err);
    if (!rc)
        skip_space(r, true);
    while (!rc && r->at < r->len && !syntax->failed) {
        rc = read_rule(r);
        skip_space(r, true);
    }
    if (!rc)
        rc = rv_syntax_status(syntax, err);
    if (!rc)
        rc = check_names(r, rule);
    rv_str_map_release(&r->names);
    rv_free(r);
    return rc;
}
