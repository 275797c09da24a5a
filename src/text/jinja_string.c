/* Strings as Python has them, over UTF-8. Whitespace is Unicode's; upper and lower are per character. */
#include "text/jinja_string.h"

#include "base/utf8.h"

#include <string.h>

#include <utf8proc.h>

enum letter_case { UPPER, LOWER, TITLE, CAPITAL };

static bool is_space(uint32_t cp)
{
    return (cp >= 9 && cp <= 13) || (cp >= 0x1c && cp <= 0x20) || cp == 0x85 || cp == 0xa0 || cp == 0x1680 ||
           (cp >= 0x2000 && cp <= 0x200a) || cp == 0x2028 || cp == 0x2029 || cp == 0x202f || cp == 0x205f ||
           cp == 0x3000;
}

static bool is_letter(uint32_t cp)
{
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)cp);

    return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

static ruvllm_status emit_cased(struct rv_jinja_run *run, struct rv_jinja_string text, enum letter_case mode)
{
    bool start = true; /* of a word, or of the string */
    ruvllm_status rc = RUVLLM_OK;

    for (size_t pos = 0; rc == RUVLLM_OK && pos < text.len;) {
        uint32_t cp;
        size_t len = rv_jinja_char_len(text, pos, &cp);
        bool raise = mode == UPPER || (mode != LOWER && start);
        char encoded[4];

        if (len == 1 && cp >= 0x80) {
            rc = rv_jinja_emit(run, rv_jinja_substring(text, pos, 1)); /* not UTF-8: left alone */
        } else {
            utf8proc_int32_t mapped =
                raise ? utf8proc_toupper((utf8proc_int32_t)cp) : utf8proc_tolower((utf8proc_int32_t)cp);

            rc = rv_jinja_emit_as(run, encoded, rv_utf8_encode((uint32_t)mapped, encoded),
                                  text.mask ? text.mask[pos] : 0);
        }
        start = mode == TITLE && !is_letter(cp);
        pos += len;
    }
    return rc;
}

static bool is_ascii(struct rv_jinja_string text)
{
    unsigned char all = 0;

    for (size_t i = 0; i < text.len; i++)
        all |= (unsigned char)text.data[i];
    return all < 0x80;
}

/* ASCII keeps its length, so the mask stays as it is. */
static ruvllm_status case_ascii(struct rv_jinja_run *run, struct rv_jinja_string text, enum letter_case mode,
                                struct rv_jinja_string *out)
{
    char *data = rv_arena_alloc(&run->arena, text.len);
    bool start = true;

    if (!data)
        return rv_jinja_no_memory(run);
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];
        bool raise = mode == UPPER || (mode != LOWER && start), is_lower = c >= 'a' && c <= 'z';
        bool is_upper = c >= 'A' && c <= 'Z';

        start = mode == TITLE && !is_lower && !is_upper;
        data[i] = (char)((raise && is_lower) ? c - 32 : (!raise && is_upper) ? c + 32 : c);
    }
    *out = (struct rv_jinja_string){data, text.mask, text.len};
    return rv_jinja_charge(run, text.len / 64);
}

static ruvllm_status to_case(struct rv_jinja_run *run, struct rv_jinja_value self, enum letter_case mode,
                             struct rv_jinja_value *out)
{
    size_t mark = rv_jinja_mark(run);
    struct rv_jinja_string string;
    ruvllm_status rc = rv_jinja_want(run, self, RV_JINJA_T_STRING);

    if (rc)
        return rc;
    if (is_ascii(self.as.string)) {
        rc = case_ascii(run, self.as.string, mode, &string);
    } else {
        rc = rv_jinja_charge(run, self.as.string.len / 4);
        if (rc == RUVLLM_OK)
            rc = emit_cased(run, self.as.string, mode);
        if (rc == RUVLLM_OK)
            rc = rv_jinja_cut(run, mark, &string);
    }
    if (rc == RUVLLM_OK)
        *out = rv_jinja_text(string);
    return rc;
}

ruvllm_status rv_jinja_string_upper(struct rv_jinja_run *run, struct rv_jinja_value self,
                                    const struct rv_jinja_args *args, struct rv_jinja_value *out)
{
    (void)args;
    return to_case(run, self, UPPER, out);
}

ruvllm_status rv_jinja_string_lower(struct rv_jinja_run *run, struct rv_jinja_value self,
                                    const struct rv_jinja_args *args, struct rv_jinja_value *out)
{
    (void)args;
    return to_case(run, self, LOWER, out);
}

ruvllm_status rv_jinja_string_title(struct rv_jinja_run *run, struct rv_jinja_value self,
                                    const struct rv_jinja_args *args, struct rv_jinja_value *out)
{
    (void)args;
    return to_case(run, self, TITLE, out);
}

ruvllm_status rv_jinja_string_capitalize(struct rv_jinja_run *run, struct rv_jinja_value self,
                                         const struct rv_jinja_args *args, struct rv_jinja_value *out)
{
    (void)args;
    return to_case(run, self, CAPITAL, out);
}

ruvllm_status rv_jinja_string_fold(struct rv_jinja_run *run, struct rv_jinja_string text, struct rv_jinja_string *out)
{
    struct rv_jinja_value folded;
    ruvllm_status rc = to_case(run, rv_jinja_text(text), LOWER, &folded);

    if (rc == RUVLLM_OK)
        *out = folded.as.string;
    return rc;
}

/* ---- strip ---------------------------------------------------------------------------------- */

/* Is this character one to strip? Without a set, whitespace is. */
static bool is_stripped(uint32_t cp, const struct rv_jinja_string *set)
{
    uint32_t other;

    if (!set)
        return is_space(cp);
    for (size_t pos = 0; pos < set->len;) {
        pos += rv_jinja_char_len(*set, pos, &other);
        if (other == cp)
            return true;
    }
    return false;
}

static size_t last_char(struct rv_jinja_string text, size_t end, uint32_t *cp)
{
    size_t start = end - 1;

    while (start > 0 && end - start < 4 && ((unsigned char)text.data[start] & 0xc0) == 0x80)
        start--;
    if (rv_jinja_char_len(rv_jinja_substring(text, 0, end), start, cp) == end - start)
        return start;
    *cp = (unsigned char)text.data[end - 1];
    return end - 1;
}

static ruvllm_status strip(struct rv_jinja_run *run, struct rv_jinja_value self, const struct rv_jinja_args *args,
                           bool left, bool right, struct rv_jinja_value *out)
{
    const struct rv_jinja_value *arg = rv_jinja_arg(args, 0, "chars");
    const struct rv_jinja_string *set = arg && arg->type == RV_JINJA_T_STRING ? &arg->as.string : NULL;
    struct rv_jinja_string text = self.as.string;
    size_t start = 0, end = text.len;
    uint32_t cp;
    ruvllm_status rc = rv_jinja_want(run, self, RV_JINJA_T_STRING);

    if (rc)
        return rc;
    if (arg && !set && arg->type != RV_JINJA_T_NONE)
        return rv_jinja_fail(run, "the characters to strip must be a string, not %s", rv_jinja_type_name(*arg));
    if (set && set->len > 64)
        return rv_jinja_fail(run, "cannot strip more than 64 bytes of characters");
    while (left && start < end) {
        size_t len = rv_jinja_char_len(text, start, &cp);

        if (!is_stripped(cp, set))
            break;
        start += len;
    }
    while (right && end > start) {
        size_t last = last_char(text, end, &cp);

        if (!is_stripped(cp, set))
            break;
        end = last;
    }
    *out = rv_jinja_text(rv_jinja_substring(text, start, end - start));
    return rv_jinja_charge(run, (text.len - (end - start)) * (set ? set->len + 1 : 1) / 64);
}

ruvllm_status rv_jinja_string_strip(struct rv_jinja_run *run, struct rv_jinja_value self,
                                    const struct rv_jinja_args *args, struct rv_jinja_value *out)
{
    return strip(run, self, args, true, true, out);
}

static ruvllm_status string_lstrip(struct rv_jinja_run *run, struct rv_jinja_value self,
                                   const struct rv_jinja_args *args, struct rv_jinja_value *out)
{
    return strip(run, self, args, true, false, out);
}

static ruvllm_status string_rstrip(struct rv_jinja_run *run, struct rv_jinja_value self,
                                   const struct rv_jinja_args *args, struct rv_jinja_value *out)
{
    return strip(run, self, args, false, true, out);
}

/* ---- searching ------------------------------------------------------------------------------ */

static bool ends_match(struct rv_jinja_string text, struct rv_jinja_string part, bool at_start)
{
    if (part.len > text.len)
        return false;
    return part.len == 0 || memcmp(at_start ? text.data : text.data + text.len - part.len, part.data, part.len) == 0;
}

static ruvllm_status match_end(struct rv_jinja_run *run, struct rv_jinja_value self, const struct rv_jinja_args *args,
                               bool at_start, struct rv_jinja_value *out)
{
    const struct rv_jinja_value *arg = rv_jinja_arg(args, 0, NULL);
    struct rv_jinja_value single, *items = &single;
    size_t n = 1;

    if (!arg)
        return rv_jinja_fail(run, "startswith() and endswith() need an argument");
    single = *arg;
    if (arg->type == RV_JINJA_T_LIST) {
        items = arg->as.list->items;
        n = arg->as.list->len;
    }
    *out = rv_jinja_boolean(false);
    for (size_t i = 0; i < n; i++) {
        ruvllm_status rc;

        if (items[i].type != RV_JINJA_T_STRING)
            return rv_jinja_fail(run, "startswith() and endswith() take strings, not %s", rv_jinja_type_name(items[i]));
        rc = rv_jinja_charge_bytes(run, items[i].as.string.len + 256);
        if (rc)
            return rc;
        if (ends_match(self.as.string, items[i].as.string, at_start))
            *out = rv_jinja_boolean(true);
    }
    return RUVLLM_OK;
}

static ruvllm_status string_startswith(struct rv_jinja_run *run, struct rv_jinja_value self,
                                       const struct rv_jinja_args *args, struct rv_jinja_value *out)
{
    return match_end(run, self, args, true, out);
}

static ruvllm_status string_endswith(struct rv_jinja_run *run, struct rv_jinja_value self,
                                     const struct rv_jinja_args *args, struct rv_jinja_value *out)
{
    return match_end(run, self, args, false, out);
}

static ruvllm_status string_find(struct rv_jinja_run *run, struct rv_jinja_value self, const struct rv_jinja_args *args,
                                 struct rv_jinja_value *out)
{
    struct rv_jinja_string part = {.data = ""};
    ruvllm_status rc = rv_jinja_arg_string(run, args, 0, NULL, &part);
    size_t found = SIZE_MAX;

    if (rc == RUVLLM_OK)
        rc = rv_jinja_find(run, self.as.string, part, 0, &found);
    if (rc)
        return rc;
    *out = rv_jinja_integer(-1);
    if (found != SIZE_MAX)
        *out = rv_jinja_integer((int64_t)rv_jinja_char_count(rv_jinja_substring(self.as.string, 0, found)));
    return RUVLLM_OK;
}

static ruvllm_status string_count(struct rv_jinja_run *run, struct rv_jinja_value self,
                                  const struct rv_jinja_args *args, struct rv_jinja_value *out)
{
    struct rv_jinja_string part = {.data = ""};
    ruvllm_status rc = rv_jinja_arg_string(run, args, 0, NULL, &part);
    size_t from = 0;
    int64_t n = 0;

    if (rc == RUVLLM_OK && part.len == 0)
        return rv_jinja_fail(run, "count() needs a string that is not empty");
    while (rc == RUVLLM_OK) {
        rc = rv_jinja_find(run, self.as.string, part, from, &from);
        if (rc || from == SIZE_MAX)
            break;
        from += part.len;
        n++;
    }
    *out = rv_jinja_integer(n);
    return rc;
}

/* ---- splitting and joining ------------------------------------------------------------------ */

static ruvllm_status push_part(struct rv_jinja_run *run, struct rv_jinja_value list, struct rv_jinja_string text,
                               size_t start, size_t end)
{
    ruvllm_status rc = rv_jinja_charge(run, 1);

    return rc ? rc : rv_jinja_list_push(run, list.as.list, rv_jinja_text(rv_jinja_substring(text, start, end - start)));
}

static ruvllm_status split_on_space(struct rv_jinja_run *run, struct rv_jinja_string text, int64_t max,
                                    struct rv_jinja_value list)
{
    ruvllm_status rc = rv_jinja_charge_bytes(run, text.len);
    size_t pos = 0;
    uint32_t cp;

    while (rc == RUVLLM_OK) {
        size_t start, len = 0;

        while (pos < text.len && (len = rv_jinja_char_len(text, pos, &cp), is_space(cp)))
            pos += len;
        if (pos == text.len)
            break;
        if (max == 0)
            return push_part(run, list, text, pos, text.len);
        for (start = pos; pos < text.len && (len = rv_jinja_char_len(text, pos, &cp), !is_space(cp));)
            pos += len;
        rc = push_part(run, list, text, start, pos);
        max -= max > 0;
    }
    return rc;
}

static ruvllm_status split_on(struct rv_jinja_run *run, struct rv_jinja_string text, struct rv_jinja_string sep,
                              int64_t max, struct rv_jinja_value list)
{
    size_t start = 0, found;
    ruvllm_status rc;

    for (;; start = found + sep.len, max -= max > 0) {
        found = SIZE_MAX;
        rc = max == 0 ? RUVLLM_OK : rv_jinja_find(run, text, sep, start, &found);
        if (rc)
            return rc;
        if (found == SIZE_MAX)
            return push_part(run, list, text, start, text.len);
        rc = push_part(run, list, text, start, found);
        if (rc)
            return rc;
    }
}

static ruvllm_status string_split(struct rv_jinja_run *run, struct rv_jinja_value self,
                                  const struct rv_jinja_args *args, struct rv_jinja_value *out)
{
    const struct rv_jinja_value *arg = rv_jinja_arg(args, 0, "sep");
    struct rv_jinja_string sep = {.data = NULL};
    int64_t max = -1;
    ruvllm_status rc = rv_jinja_arg_integer(run, args, 1, "maxsplit", &max);

    if (rc == RUVLLM_OK && arg && arg->type != RV_JINJA_T_NONE)
        rc = rv_jinja_arg_string(run, args, 0, "sep", &sep);
    if (rc == RUVLLM_OK)
        rc = rv_jinja_list_new(run, 0, out);
    if (rc)
        return rc;
    if (!sep.data)
        return split_on_space(run, self.as.string, max < 0 ? -1 : max, *out);
    if (sep.len == 0)
        return rv_jinja_fail(run, "cannot split on an empty string");
    return split_on(run, self.as.string, sep, max < 0 ? -1 : max, *out);
}

/* Splits everywhere, then joins the parts at the front that are too many: they are neighbours in the text. */
static ruvllm_status string_rsplit(struct rv_jinja_run *run, struct rv_jinja_value self,
                                   const struct rv_jinja_args *args, struct rv_jinja_value *out)
{
    struct rv_jinja_string sep = {.data = ""}, text = self.as.string;
    struct rv_jinja_value all;
    int64_t max = -1;
    size_t extra;
    ruvllm_status rc = rv_jinja_arg_string(run, args, 0, "sep", &sep);

    if (rc == RUVLLM_OK)
        rc = rv_jinja_arg_integer(run, args, 1, "maxsplit", &max);
    if (rc == RUVLLM_OK && sep.len == 0)
        return rv_jinja_fail(run, "rsplit() needs a separator");
    if (rc == RUVLLM_OK)
        rc = rv_jinja_list_new(run, 0, &all);
    if (rc == RUVLLM_OK)
        rc = split_on(run, text, sep, -1, all);
    if (rc)
        return rc;
    *out = all;
    if (max < 0 || (size_t)max + 1 >= all.as.list->len)
        return RUVLLM_OK;
    extra = all.as.list->len - (size_t)max - 1;
    all.as.list->items[extra].as.string = rv_jinja_substring(
        text, 0,
        (size_t)(all.as.list->items[extra].as.string.data - text.data) + all.as.list->items[extra].as.string.len);
    all.as.list->items += extra;
    all.as.list->len -= extra;
    all.as.list->cap -= extra;
    return RUVLLM_OK;
}

static ruvllm_status string_join(struct rv_jinja_run *run, struct rv_jinja_value self, const struct rv_jinja_args *args,
                                 struct rv_jinja_value *out)
{
    const struct rv_jinja_value *arg = rv_jinja_arg(args, 0, NULL);
    size_t mark = rv_jinja_mark(run);
    struct rv_jinja_string string;
    ruvllm_status rc = RUVLLM_OK;

    if (!arg || arg->type != RV_JINJA_T_LIST)
        return rv_jinja_fail(run, "join() needs a list");
    for (size_t i = 0; rc == RUVLLM_OK && i < arg->as.list->len; i++) {
        rc = rv_jinja_charge(run, 1);
        if (rc == RUVLLM_OK && i)
            rc = rv_jinja_emit(run, self.as.string);
        if (rc == RUVLLM_OK)
            rc = rv_jinja_want(run, arg->as.list->items[i], RV_JINJA_T_STRING);
        if (rc == RUVLLM_OK)
            rc = rv_jinja_emit(run, arg->as.list->items[i].as.string);
    }
    if (rc == RUVLLM_OK)
        rc = rv_jinja_cut(run, mark, &string);
    if (rc == RUVLLM_OK)
        *out = rv_jinja_text(string);
    return rc;
}

ruvllm_status rv_jinja_string_chars(struct rv_jinja_run *run, struct rv_jinja_string text, struct rv_jinja_value *out)
{
    ruvllm_status rc = rv_jinja_list_new(run, 0, out);
    uint32_t cp;

    for (size_t pos = 0, len; rc == RUVLLM_OK && pos < text.len; pos += len) {
        len = rv_jinja_char_len(text, pos, &cp);
        rc = push_part(run, *out, text, pos, pos + len);
    }
    return rc;
}

/* ---- rewriting ------------------------------------------------------------------------------ */

static ruvllm_status emit_replaced(struct rv_jinja_run *run, struct rv_jinja_string text, struct rv_jinja_string from,
                                   struct rv_jinja_string to, int64_t count)
{
    size_t pos = 0, found = 0;
    ruvllm_status rc = RUVLLM_OK;

    /* An empty `from` is found before every character and at the end. */
    while (rc == RUVLLM_OK && count != 0 && pos <= text.len) {
        uint32_t cp;
        size_t step;

        rc = rv_jinja_find(run, text, from, pos, &found);
        if (rc == RUVLLM_OK)
            rc = rv_jinja_charge(run, 1);
        if (rc || found == SIZE_MAX)
            break;
        step = from.len;
        rc = rv_jinja_emit(run, rv_jinja_substring(text, pos, found - pos));
        if (rc == RUVLLM_OK)
            rc = rv_jinja_emit(run, to);
        if (rc == RUVLLM_OK && step == 0) {
            if (found == text.len)
                return RUVLLM_OK;
            step = rv_jinja_char_len(text, found, &cp);
            rc = rv_jinja_emit(run, rv_jinja_substring(text, found, step));
        }
        pos = found + step;
        count -= count > 0;
    }
    return rc || pos >= text.len ? rc : rv_jinja_emit(run, rv_jinja_substring(text, pos, text.len - pos));
}

ruvllm_status rv_jinja_string_replace(struct rv_jinja_run *run, struct rv_jinja_value self,
                                      const struct rv_jinja_args *args, struct rv_jinja_value *out)
{
    struct rv_jinja_string from = {.data = NULL}, to = {.data = NULL}, string;
    size_t mark = rv_jinja_mark(run);
    int64_t count = -1;
    ruvllm_status rc = rv_jinja_want(run, self, RV_JINJA_T_STRING);

    if (rc == RUVLLM_OK)
        rc = rv_jinja_arg_string(run, args, 0, "old", &from);
    if (rc == RUVLLM_OK)
        rc = rv_jinja_arg_string(run, args, 1, "new", &to);
    if (rc == RUVLLM_OK)
        rc = rv_jinja_arg_integer(run, args, 2, "count", &count);
    if (rc == RUVLLM_OK && (!from.data || !to.data))
        return rv_jinja_fail(run, "replace() needs two strings");
    if (rc == RUVLLM_OK)
        rc = emit_replaced(run, self.as.string, from, to, count < 0 ? -1 : count);
    if (rc == RUVLLM_OK)
        rc = rv_jinja_cut(run, mark, &string);
    if (rc == RUVLLM_OK)
        *out = rv_jinja_text(string);
    return rc;
}

static ruvllm_status emit_indented(struct rv_jinja_run *run, struct rv_jinja_string text, size_t width, bool first,
                                   bool blank)
{
    ruvllm_status rc = RUVLLM_OK;

    for (size_t start = 0; rc == RUVLLM_OK && start <= text.len;) {
        const char *newline = start < text.len ? memchr(text.data + start, '\n', text.len - start) : NULL;
        size_t end = newline ? (size_t)(newline - text.data) : text.len;
        bool indent = (start > 0 || first) && (end > start || blank);

        rc = rv_jinja_charge(run, 1);
        for (size_t i = 0; rc == RUVLLM_OK && indent && i < width; i++)
            rc = rv_jinja_emit_bytes(run, " ", 1);
        if (rc == RUVLLM_OK)
            rc = rv_jinja_emit(run, rv_jinja_substring(text, start, end - start + (newline != NULL)));
        if (!newline)
            break;
        start = end + 1;
    }
    return rc;
}

ruvllm_status rv_jinja_string_indent(struct rv_jinja_run *run, struct rv_jinja_value self,
                                     const struct rv_jinja_args *args, struct rv_jinja_value *out)
{
    struct rv_jinja_string string;
    size_t mark = rv_jinja_mark(run);
    int64_t width = 4;
    bool first = false, blank = false;
    ruvllm_status rc = rv_jinja_want(run, self, RV_JINJA_T_STRING);

    if (rc == RUVLLM_OK)
        rc = rv_jinja_arg_integer(run, args, 0, "width", &width);
    if (rc == RUVLLM_OK)
        rc = rv_jinja_arg_boolean(run, args, 1, "first", &first);
    if (rc == RUVLLM_OK)
        rc = rv_jinja_arg_boolean(run, args, 2, "blank", &blank);
    if (rc == RUVLLM_OK && (width < 0 || width > 1000))
        return rv_jinja_fail(run, "cannot indent by %lld", (long long)width);
    if (rc == RUVLLM_OK)
        rc = emit_indented(run, self.as.string, (size_t)width, first, blank);
    if (rc == RUVLLM_OK)
        rc = rv_jinja_cut(run, mark, &string);
    if (rc == RUVLLM_OK)
        *out = rv_jinja_text(string);
    return rc;
}

const struct rv_jinja_builtin rv_jinja_string_methods[] = {
    {"capitalize", rv_jinja_string_capitalize},
    {"count", string_count},
    {"endswith", string_endswith},
    {"find", string_find},
    {"join", string_join},
    {"lower", rv_jinja_string_lower},
    {"lstrip", string_lstrip},
    {"replace", rv_jinja_string_replace},
    {"rsplit", string_rsplit},
    {"rstrip", string_rstrip},
    {"split", string_split},
    {"startswith", string_startswith},
    {"strip", rv_jinja_string_strip},
    {"title", rv_jinja_string_title},
    {"upper", rv_jinja_string_upper},
    {NULL, NULL},
};
