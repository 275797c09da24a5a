/* One pass over the expression. It becomes states like any grammar, so matching is linear whatever it says. */
#include "sample/regex.h"

#include "base/alloc.h"
#include "base/utf8.h"
#include "sample/syntax_stack.h"

#include <stdio.h>
#include <string.h>

enum { MAX_CLASS = 512 };

struct reader {
    struct rv_syntax *syntax;
    const char *text;
    size_t len;
    size_t at;
    bool searches;  // a match may stand anywhere unless anchors say otherwise
    bool in_string; // of JSON, where some characters are escaped
    bool ends;      // '$' behind it
    size_t way_at;  // where the outermost alternative begins
    struct ruvllm_error *err;
    struct rv_syntax_stack stack;
    struct rv_syntax_range ranges[MAX_CLASS];
    size_t n_ranges;
};

static ruvllm_status wrong(const struct reader *r, const char *what)
{
    return rv_fail(r->err, RUVLLM_INVALID, "at byte %zu of the expression: %s", r->at, what);
}

static char peek(const struct reader *r)
{
    return r->at < r->len ? r->text[r->at] : '\0';
}

/* ---- characters ----------------------------------------------------------------------------------- */

static bool holds(const struct rv_syntax_range *ranges, size_t n, uint32_t cp)
{
    for (size_t i = 0; i < n; i++)
        if (cp >= ranges[i].lo && cp <= ranges[i].hi)
            return true;
    return false;
}

/* How JSON writes a character that may not stand in a string as it is. */
static size_t spell_escape(uint32_t cp, char out[8])
{
    static const char plain[] = "\"\\\b\f\n\r\t";
    static const char names[] = "\"\\bfnrt";
    const char *found = cp ? strchr(plain, (int)cp) : NULL;

    if (found)
        return (size_t)snprintf(out, 8, "\\%c", names[found - plain]);
    return (size_t)snprintf(out, 8, "\\u%04x", (unsigned)cp);
}

int32_t rv_regex_string_class(struct rv_syntax *syntax, const struct rv_syntax_range *ranges, size_t n, bool except)
{
    static const struct rv_syntax_range escaped[] = {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
    struct rv_syntax_range *plain = rv_calloc(2 * n + 8, sizeof(*plain));
    int32_t ways = rv_syntax_alt(syntax);
    size_t n_plain = 0;

    if (!plain) {
        syntax->failed = RUVLLM_NO_MEMORY;
        return 0;
    }
    if (except) { // none of them, and none that needs an escape
        if (n)
            memcpy(plain, ranges, n * sizeof(*plain));
        memcpy(plain + n, escaped, sizeof(escaped));
        rv_syntax_add(syntax, ways, rv_syntax_class_except(syntax, plain, n + 3));
    } else { // the parts of each that need none
        static const struct rv_syntax_range free_of[] = {
            {0x20, '"' - 1}, {'"' + 1, '\\' - 1}, {'\\' + 1, RV_SYNTAX_MAX_CP}};

        for (size_t k = 0; k < 3; k++) {
            n_plain = 0;
            for (size_t i = 0; i < n; i++) {
                uint32_t lo = ranges[i].lo > free_of[k].lo ? ranges[i].lo : free_of[k].lo;
                uint32_t hi = ranges[i].hi < free_of[k].hi ? ranges[i].hi : free_of[k].hi;

                if (lo <= hi)
                    plain[n_plain++] = (struct rv_syntax_range){lo, hi};
            }
            if (n_plain)
                rv_syntax_add(syntax, ways, rv_syntax_class(syntax, plain, n_plain));
        }
    }
    for (uint32_t cp = 0; cp <= '\\'; cp++) {
        char spelled[8];

        if (holds(escaped, 3, cp) && holds(ranges, n, cp) != except)
            rv_syntax_add(syntax, ways, rv_syntax_literal(syntax, spelled, spell_escape(cp, spelled)));
    }
    rv_free(plain);
    return ways;
}

static void add_item(struct reader *r, bool except)
{
    int32_t node = r->in_string ? rv_regex_string_class(r->syntax, r->ranges, r->n_ranges, except)
                   : except     ? rv_syntax_class_except(r->syntax, r->ranges, r->n_ranges)
                                : rv_syntax_class(r->syntax, r->ranges, r->n_ranges);

    rv_syntax_stack_item(&r->stack, node);
}

static ruvllm_status add_range(struct reader *r, uint32_t lo, uint32_t hi)
{
    if (r->n_ranges == MAX_CLASS)
        return wrong(r, "a class has too many characters");
    r->ranges[r->n_ranges++] = (struct rv_syntax_range){lo, hi};
    return RUVLLM_OK;
}

/* \d, \w, \s, or what they leave out. */
static ruvllm_status add_named_class(struct reader *r, char name)
{
    static const struct rv_syntax_range digits[] = {{'0', '9'}};
    static const struct rv_syntax_range words[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    static const struct rv_syntax_range spaces[] = {
        {9, 13},          {32, 32},         {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
        {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
    bool except = name >= 'A' && name <= 'Z';
    char kind = except ? (char)(name - 'A' + 'a') : name;
    const struct rv_syntax_range *list = kind == 'd' ? digits : kind == 'w' ? words : spaces;
    size_t n = kind == 'd' ? 1 : kind == 'w' ? 4 : sizeof(spaces) / sizeof(spaces[0]);
    ruvllm_status rc = RUVLLM_OK;
    uint32_t next = 0;

    for (size_t i = 0; i < n && !rc; i++) {
        if (!except)
            rc = add_range(r, list[i].lo, list[i].hi);
        else if (list[i].lo > next)
            rc = add_range(r, next, list[i].lo - 1);
        next = list[i].hi + 1;
    }
    return rc || !except ? rc : add_range(r, next, RV_SYNTAX_MAX_CP);
}

static ruvllm_status read_code(struct reader *r, char kind, uint32_t *cp)
{
    bool read = false;

    if (kind == 'u' && peek(r) == '{') {
        size_t end = r->at + 1;

        while (end < r->len && r->text[end] != '}')
            end++;
        r->at++;
        read = end < r->len && end - r->at >= 1 && end - r->at <= 6 &&
               rv_syntax_stack_hex(r->text, r->len, &r->at, (int)(end - r->at), cp);
        r->at++;
    } else {
        read = rv_syntax_stack_hex(r->text, r->len, &r->at, kind == 'x' ? 2 : 4, cp);
    }
    if (!read || *cp > RV_SYNTAX_MAX_CP || (*cp >= 0xD800 && *cp <= 0xDFFF))
        return wrong(r, "an escape names no character");
    return RUVLLM_OK;
}

/* What follows a backslash: one character, or (*is_class) several that are in `ranges` now. */
static ruvllm_status read_escape(struct reader *r, uint32_t *cp, bool *is_class)
{
    static const char plain[] = "tnrfv0";
    static const char meant[] = "\t\n\r\f\v";
    char c = peek(r);
    const char *found = c ? strchr(plain, c) : NULL;

    *is_class = false;
    if (!c)
        return wrong(r, "a backslash stands at the end");
    r->at++;
    if (strchr("dwsDWS", c)) {
        *is_class = true;
        return add_named_class(r, c);
    }
    if (found && !(c == '0' && peek(r) >= '0' && peek(r) <= '9')) {
        *cp = (uint8_t)meant[found - plain];
        return RUVLLM_OK;
    }
    if (c == 'x' || c == 'u')
        return read_code(r, c, cp);
    if (c == 'b' || c == 'B')
        return wrong(r, "'\\b' and '\\B' are not supported");
    if (c == 'p' || c == 'P')
        return wrong(r, "'\\p' is not supported");
    if (c >= '0' && c <= '9')
        return wrong(r, "back references are not supported");
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
        return wrong(r, "an escape is not known");
    *cp = (uint8_t)c;
    return (uint8_t)c < 0x80 ? RUVLLM_OK : wrong(r, "an escape is not known");
}

static ruvllm_status read_char(struct reader *r, uint32_t *cp, bool *is_class)
{
    int n;

    *is_class = false;
    if (peek(r) == '\\') {
        r->at++;
        return read_escape(r, cp, is_class);
    }
    n = rv_utf8_decode(r->text + r->at, r->len - r->at, cp);
    if (n <= 0)
        return wrong(r, "it is not UTF-8");
    r->at += (size_t)n;
    return RUVLLM_OK;
}

static ruvllm_status read_class(struct reader *r)
{
    bool except = false, is_class, is_class_too;
    ruvllm_status rc = RUVLLM_OK;

    r->at++;
    r->n_ranges = 0;
    if (peek(r) == '^') {
        except = true;
        r->at++;
    }
    while (!rc && peek(r) != ']') {
        uint32_t lo = 0, hi;

        if (r->at >= r->len)
            return wrong(r, "a class is not closed");
        if (r->text[r->at] == '\\' && r->at + 1 < r->len && r->text[r->at + 1] == 'b') { // here it is a backspace
            r->at += 2;
            rc = add_range(r, '\b', '\b');
            continue;
        }
        rc = read_char(r, &lo, &is_class);
        hi = lo;
        if (!rc && !is_class && peek(r) == '-' && r->at + 1 < r->len && r->text[r->at + 1] != ']') {
            r->at++;
            rc = read_char(r, &hi, &is_class_too);
            if (!rc && (is_class_too || hi < lo))
                return wrong(r, "a range of a class is wrong");
        }
        if (!rc && !is_class)
            rc = add_range(r, lo, hi);
    }
    r->at++;
    if (!rc)
        add_item(r, except);
    return rc;
}

/* ---- structure --------------------------------------------------------------------------------------- */

static ruvllm_status read_open(struct reader *r)
{
    r->at++;
    if (peek(r) == '?') {
        char c = r->at + 1 < r->len ? r->text[r->at + 1] : '\0';
        char d = r->at + 2 < r->len ? r->text[r->at + 2] : '\0';

        if (c == ':') {
            r->at += 2;
        } else if (c == '<' && d != '=' && d != '!') {
            while (r->at < r->len && r->text[r->at] != '>')
                r->at++;
            if (r->at == r->len)
                return wrong(r, "the name of a group is not closed");
            r->at++;
        } else {
            return wrong(r, "look-around and flags are not supported");
        }
    }
    return rv_syntax_stack_open(&r->stack) ? RUVLLM_OK : wrong(r, "groups are nested deeper than 100");
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
    if (!rv_syntax_stack_repeat(&r->stack, min, max))
        return wrong(r, "there is nothing to repeat");
    if (peek(r) == '?') // a lazy one matches the same texts
        r->at++;
    if (peek(r) && strchr("*+?", peek(r)))
        return wrong(r, "a repetition is repeated; put it into a group");
    return RUVLLM_OK;
}

static int32_t any_number(struct reader *r)
{
    int32_t any =
        r->in_string ? rv_regex_string_class(r->syntax, NULL, 0, true) : rv_syntax_class_except(r->syntax, NULL, 0);

    return rv_syntax_repeat(r->syntax, any, 0, -1);
}

/* What may stand behind a match: an outermost alternative is over. */
static void end_way(struct reader *r)
{
    if (r->searches && !r->ends)
        rv_syntax_stack_item(&r->stack, any_number(r));
}

static void begin_way(struct reader *r)
{
    r->ends = false;
    r->way_at = r->at;
    if (!r->searches)
        return;
    if (peek(r) == '^') {
        r->at++;
    } else {
        rv_syntax_stack_item(&r->stack, any_number(r));
        rv_syntax_stack_item(&r->stack, rv_syntax_literal(r->syntax, "", 0)); // that is not to be repeated
    }
}

static ruvllm_status read_anchor(struct reader *r, char c)
{
    bool is_outer = r->stack.depth == 0;
    char next = r->at + 1 < r->len ? r->text[r->at + 1] : '|';

    if (c == '$' && is_outer && next == '|') {
        r->ends = true;
        r->at++;
        return RUVLLM_OK;
    }
    if (c == '^' && is_outer && r->at == r->way_at) {
        r->at++;
        return RUVLLM_OK;
    }
    return wrong(r, "'^' and '$' are supported only at the ends of the expression and of its alternatives");
}

static ruvllm_status read_part(struct reader *r)
{
    static const struct rv_syntax_range lines[] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
    bool is_class;
    uint32_t cp = 0;
    ruvllm_status rc;
    char c = peek(r);

    switch (c) {
    case '(':
        return read_open(r);
    case ')':
        r->at++;
        return rv_syntax_stack_close(&r->stack) ? RUVLLM_OK : wrong(r, "')' closes no group");
    case '|':
        r->at++;
        if (r->stack.depth == 0)
            end_way(r);
        rv_syntax_stack_or(&r->stack);
        if (r->stack.depth == 0)
            begin_way(r);
        return RUVLLM_OK;
    case '*':
    case '+':
    case '?':
    case '{':
        return read_repeat(r, c);
    case '^':
    case '$':
        return read_anchor(r, c);
    case '[':
        return read_class(r);
    case '.':
        r->at++;
        memcpy(r->ranges, lines, sizeof(lines));
        r->n_ranges = 3;
        add_item(r, true);
        return RUVLLM_OK;
    default:
        r->n_ranges = 0;
        rc = read_char(r, &cp, &is_class);
        if (!rc && !is_class)
            rc = add_range(r, cp, cp);
        if (!rc)
            add_item(r, false);
        return rc;
    }
}

static ruvllm_status read_all(struct reader *r, int32_t *rule)
{
    ruvllm_status rc = RUVLLM_OK;

    *rule = rv_syntax_rule(r->syntax);
    rv_syntax_stack_init(&r->stack, r->syntax);
    begin_way(r);
    while (!rc && r->at < r->len && !r->syntax->failed)
        rc = read_part(r);
    if (!rc && r->stack.depth > 0)
        rc = wrong(r, "a group is not closed");
    if (rc)
        return rc;
    end_way(r);
    rv_syntax_define(r->syntax, *rule, rv_syntax_stack_end(&r->stack));
    return rv_syntax_status(r->syntax, r->err);
}

static ruvllm_status read_expression(struct rv_syntax *syntax, const char *text, size_t len, bool searches,
                                     bool in_string, int32_t *rule, struct ruvllm_error *err)
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
    r->searches = searches;
    r->in_string = in_string;
    r->err = err;
    rc = read_all(r, rule);
    rv_free(r);
    return rc;
}

ruvllm_status rv_regex_read(struct rv_syntax *syntax, const char *text, size_t len, int32_t *rule,
                            struct ruvllm_error *err)
{
    return read_expression(syntax, text, len, false, false, rule, err);
}

ruvllm_status rv_regex_read_in_string(struct rv_syntax *syntax, const char *text, size_t len, int32_t *rule,
                                      struct ruvllm_error *err)
{
    return read_expression(syntax, text, len, true, true, rule, err);
}

ruvllm_status rv_regex_read_in_value(struct rv_syntax *syntax, const char *text, size_t len, int32_t *rule,
                                     struct ruvllm_error *err)
{
    return read_expression(syntax, text, len, true, false, rule, err);
}
