/*
 * Operators follow Python, with the two exceptions chat templates have come to rely on: a string plus a
 * number is a string, and anything `in` undefined is false. Integers that would overflow fail.
 */
#include "text/jinja_operator.h"

#include <math.h>
#include <string.h>

static ruvllm_status unfit(struct rv_jinja_run *run, const char *what, struct rv_jinja_value a, struct rv_jinja_value b)
{
    return rv_jinja_fail(run, "cannot %s %s and %s", what, rv_jinja_type_name(a), rv_jinja_type_name(b));
}

static ruvllm_status concat(struct rv_jinja_run *run, struct rv_jinja_value a, struct rv_jinja_value b,
                            struct rv_jinja_value *out)
{
    size_t mark = rv_jinja_mark(run);
    struct rv_jinja_string string;
    ruvllm_status rc = rv_jinja_emit_value(run, a);

    if (rc == RUVLLM_OK)
        rc = rv_jinja_emit_value(run, b);
    if (rc == RUVLLM_OK)
        rc = rv_jinja_cut(run, mark, &string);
    if (rc == RUVLLM_OK)
        *out = rv_jinja_text(string);
    return rc;
}

static ruvllm_status add_lists(struct rv_jinja_run *run, const struct rv_jinja_list *a, const struct rv_jinja_list *b,
                               struct rv_jinja_value *out)
{
    size_t len = a->len + b->len;
    ruvllm_status rc = rv_jinja_charge(run, len / 8);

    if (rc == RUVLLM_OK)
        rc = rv_jinja_list_new(run, len, out);
    if (rc)
        return rc;
    if (a->len)
        memcpy(out->as.list->items, a->items, a->len * sizeof(*a->items));
    if (b->len)
        memcpy(out->as.list->items + a->len, b->items, b->len * sizeof(*b->items));
    out->as.list->len = len;
    return RUVLLM_OK;
}

static ruvllm_status repeat(struct rv_jinja_run *run, struct rv_jinja_value value, int64_t times,
                            struct rv_jinja_value *out)
{
    size_t mark = rv_jinja_mark(run);
    struct rv_jinja_string string;
    ruvllm_status rc = RUVLLM_OK;

    for (int64_t i = 0; rc == RUVLLM_OK && i < times; i++) {
        rc = rv_jinja_charge(run, 1);
        if (rc == RUVLLM_OK)
            rc = rv_jinja_emit(run, value.as.string);
    }
    if (rc == RUVLLM_OK)
        rc = rv_jinja_cut(run, mark, &string);
    if (rc == RUVLLM_OK)
        *out = rv_jinja_text(string);
    return rc;
}

/* Rounds towards minus infinity, the remainder having the sign of the divisor. */
static ruvllm_status divide_integers(struct rv_jinja_run *run, enum rv_jinja_op op, int64_t x, int64_t y,
                                     struct rv_jinja_value *out)
{
    int64_t quotient, remainder;

    if (y == 0 || (x == INT64_MIN && y == -1))
        return rv_jinja_fail(run, "cannot divide by %lld", (long long)y);
    quotient = x / y;
    remainder = x % y;
    if (remainder != 0 && (remainder < 0) != (y < 0)) {
        quotient--;
        remainder += y;
    }
    *out = rv_jinja_integer(op == RV_JINJA_OP_MOD ? remainder : quotient);
    return RUVLLM_OK;
}

static ruvllm_status raise_integer(struct rv_jinja_run *run, int64_t x, int64_t y, struct rv_jinja_value *out)
{
    int64_t power = 1;

    /* Of the bases that never overflow, only the parity of y matters; of all others, 64 rounds overflow. */
    if (x >= -1 && x <= 1 && y > 2)
        y = 2 - y % 2;
    for (; y > 0; y--)
        if (__builtin_mul_overflow(power, x, &power))
            return rv_jinja_fail(run, "a power is too large for an integer");
    *out = rv_jinja_integer(power);
    return RUVLLM_OK;
}

static ruvllm_status integer_op(struct rv_jinja_run *run, enum rv_jinja_op op, int64_t x, int64_t y,
                                struct rv_jinja_value *out)
{
    int64_t result = 0;
    bool overflow;

    if (op == RV_JINJA_OP_FLOOR_DIV || op == RV_JINJA_OP_MOD)
        return divide_integers(run, op, x, y, out);
    if (op == RV_JINJA_OP_POW)
        return raise_integer(run, x, y, out);
    if (op == RV_JINJA_OP_ADD)
        overflow = __builtin_add_overflow(x, y, &result);
    else if (op == RV_JINJA_OP_SUB)
        overflow = __builtin_sub_overflow(x, y, &result);
    else
        overflow = __builtin_mul_overflow(x, y, &result);
    if (overflow)
        return rv_jinja_fail(run, "a result is too large for an integer");
    *out = rv_jinja_integer(result);
    return RUVLLM_OK;
}

static ruvllm_status float_op(struct rv_jinja_run *run, enum rv_jinja_op op, double x, double y,
                              struct rv_jinja_value *out)
{
    double result;

    switch (op) {
    case RV_JINJA_OP_ADD:
        result = x + y;
        break;
    case RV_JINJA_OP_SUB:
        result = x - y;
        break;
    case RV_JINJA_OP_MUL:
        result = x * y;
        break;
    case RV_JINJA_OP_DIV:
        result = x / y;
        break;
    case RV_JINJA_OP_FLOOR_DIV:
        result = floor(x / y);
        break;
    case RV_JINJA_OP_MOD:
        result = x - y * floor(x / y);
        break;
    default:
        result = pow(x, y);
        break;
    }
    if (!isfinite(result))
        return rv_jinja_fail(run, "a result is not a finite number");
    *out = rv_jinja_float(result);
    return RUVLLM_OK;
}

static ruvllm_status arithmetic(struct rv_jinja_run *run, enum rv_jinja_op op, struct rv_jinja_value a,
                                struct rv_jinja_value b, struct rv_jinja_value *out)
{
    bool integers = (a.type == RV_JINJA_T_INTEGER || a.type == RV_JINJA_T_BOOLEAN) &&
                    (b.type == RV_JINJA_T_INTEGER || b.type == RV_JINJA_T_BOOLEAN);
    double x, y;

    if (!rv_jinja_number(a, &x) || !rv_jinja_number(b, &y))
        return unfit(run, "calculate with", a, b);
    if (integers && op != RV_JINJA_OP_DIV && !(op == RV_JINJA_OP_POW && y < 0))
        return integer_op(run, op, a.type == RV_JINJA_T_INTEGER ? a.as.integer : a.as.boolean,
                          b.type == RV_JINJA_T_INTEGER ? b.as.integer : b.as.boolean, out);
    return float_op(run, op, x, y, out);
}

static ruvllm_status contains(struct rv_jinja_run *run, struct rv_jinja_value item, struct rv_jinja_value in, bool *out)
{
    size_t found;
    ruvllm_status rc = RUVLLM_OK;

    *out = false;
    if (in.type == RV_JINJA_T_UNDEFINED)
        return RUVLLM_OK;
    if (in.type == RV_JINJA_T_LIST) {
        for (size_t i = 0; rc == RUVLLM_OK && !*out && i < in.as.list->len; i++)
            rc = rv_jinja_equal(run, item, in.as.list->items[i], out);
        return rc;
    }
    if (item.type == RV_JINJA_T_STRING && in.type == RV_JINJA_T_STRING) {
        rc = rv_jinja_find(run, in.as.string, item.as.string, 0, &found);
        *out = rc == RUVLLM_OK && found != SIZE_MAX;
        return rc;
    }
    if (item.type == RV_JINJA_T_STRING && in.type == RV_JINJA_T_DICT) {
        *out = rv_jinja_dict_find(run, in.as.dict, item.as.string.data, item.as.string.len) != NULL;
        return RUVLLM_OK;
    }
    return unfit(run, "look for one in the other:", item, in);
}

static bool is_missing(struct rv_jinja_value value)
{
    return value.type == RV_JINJA_T_UNDEFINED || value.type == RV_JINJA_T_NONE;
}

static ruvllm_status comparison(struct rv_jinja_run *run, enum rv_jinja_op op, struct rv_jinja_value a,
                                struct rv_jinja_value b, struct rv_jinja_value *out)
{
    bool yes = false;
    int order = 0;
    ruvllm_status rc;

    switch (op) {
    case RV_JINJA_OP_EQ:
    case RV_JINJA_OP_NE:
        rc = rv_jinja_equal(run, a, b, &yes);
        yes = yes == (op == RV_JINJA_OP_EQ);
        break;
    case RV_JINJA_OP_IN:
    case RV_JINJA_OP_NOT_IN:
        rc = contains(run, a, b, &yes);
        yes = yes == (op == RV_JINJA_OP_IN);
        break;
    default:
        rc = rv_jinja_compare(run, a, b, &order);
        yes = op == RV_JINJA_OP_LT   ? order < 0
              : op == RV_JINJA_OP_LE ? order <= 0
              : op == RV_JINJA_OP_GT ? order > 0
                                     : order >= 0;
        break;
    }
    *out = rv_jinja_boolean(yes);
    return rc;
}

ruvllm_status rv_jinja_binary(struct rv_jinja_run *run, enum rv_jinja_op op, struct rv_jinja_value a,
                              struct rv_jinja_value b, struct rv_jinja_value *out)
{
    if (op >= RV_JINJA_OP_EQ && op <= RV_JINJA_OP_NOT_IN)
        return comparison(run, op, a, b, out);
    if (is_missing(a) || is_missing(b))
        return unfit(run, op == RV_JINJA_OP_ADD || op == RV_JINJA_OP_CONCAT ? "join" : "calculate with", a, b);
    if (op == RV_JINJA_OP_CONCAT)
        return concat(run, a, b, out);
    if (op == RV_JINJA_OP_ADD && ((a.type == RV_JINJA_T_STRING && b.type < RV_JINJA_T_LIST) ||
                                  (b.type == RV_JINJA_T_STRING && a.type < RV_JINJA_T_LIST)))
        return concat(run, a, b, out);
    if (op == RV_JINJA_OP_ADD && a.type == RV_JINJA_T_LIST && b.type == RV_JINJA_T_LIST)
        return add_lists(run, a.as.list, b.as.list, out);
    if (op == RV_JINJA_OP_MUL && a.type == RV_JINJA_T_STRING && b.type == RV_JINJA_T_INTEGER)
        return repeat(run, a, b.as.integer, out);
    return arithmetic(run, op, a, b, out);
}

ruvllm_status rv_jinja_unary(struct rv_jinja_run *run, enum rv_jinja_op op, struct rv_jinja_value a,
                             struct rv_jinja_value *out)
{
    if (op == RV_JINJA_OP_NOT) {
        *out = rv_jinja_boolean(!rv_jinja_truth(a));
        return RUVLLM_OK;
    }
    return arithmetic(run, op, rv_jinja_integer(0), a, out);
}

/* ---- parts of lists and strings ------------------------------------------------------------- */

/* Byte offset of character n; the length when there are fewer. */
static size_t offset_of(struct rv_jinja_string text, size_t n)
{
    size_t pos = 0;
    uint32_t cp;

    while (n-- > 0 && pos < text.len)
        pos += rv_jinja_char_len(text, pos, &cp);
    return pos;
}

ruvllm_status rv_jinja_index(struct rv_jinja_run *run, struct rv_jinja_value value, struct rv_jinja_value index,
                             struct rv_jinja_value *out)
{
    const struct rv_jinja_value *found;
    struct rv_jinja_string text;
    uint32_t cp;
    int64_t len, i;

    *out = rv_jinja_undefined();
    if (index.type == RV_JINJA_T_STRING) {
        if (value.type != RV_JINJA_T_DICT && value.type != RV_JINJA_T_NAMESPACE)
            return RUVLLM_OK;
        found = rv_jinja_dict_find(run, value.as.dict, index.as.string.data, index.as.string.len);
        if (found)
            *out = *found;
        return RUVLLM_OK;
    }
    if (index.type != RV_JINJA_T_INTEGER || (value.type != RV_JINJA_T_LIST && value.type != RV_JINJA_T_STRING))
        return rv_jinja_fail(run, "cannot index %s with %s", rv_jinja_type_name(value), rv_jinja_type_name(index));
    text = value.as.string;
    len = (int64_t)(value.type == RV_JINJA_T_LIST ? value.as.list->len : rv_jinja_char_count(text));
    i = index.as.integer < 0 ? index.as.integer + len : index.as.integer;
    if (i < 0 || i >= len)
        return RUVLLM_OK;
    if (value.type == RV_JINJA_T_LIST) {
        *out = value.as.list->items[i];
        return RUVLLM_OK;
    }
    len = (int64_t)offset_of(text, (size_t)i);
    *out = rv_jinja_text(rv_jinja_substring(text, (size_t)len, rv_jinja_char_len(text, (size_t)len, &cp)));
    return rv_jinja_charge_bytes(run, text.len);
}

struct slice {
    int64_t start, stop, step;
};

/* Python's rules: negative counts from the end, and everything is clipped to what is there. */
static ruvllm_status read_slice(struct rv_jinja_run *run, const struct rv_jinja_value parts[3], int64_t len,
                                struct slice *out)
{
    int64_t low, high, *fields[3] = {&out->start, &out->stop, &out->step};

    for (int i = 0; i < 3; i++)
        if (!is_missing(parts[i]) && parts[i].type != RV_JINJA_T_INTEGER)
            return rv_jinja_fail(run, "cannot slice with %s", rv_jinja_type_name(parts[i]));
    out->step = is_missing(parts[2]) ? 1 : parts[2].as.integer;
    if (out->step == 0 || out->step == INT64_MIN)
        return rv_jinja_fail(run, "cannot slice in steps of %lld", (long long)out->step);
    low = out->step > 0 ? 0 : -1;
    high = out->step > 0 ? len : len - 1;
    for (int i = 0; i < 2; i++) {
        int64_t at = parts[i].as.integer;

        if (is_missing(parts[i])) {
            *fields[i] = (i == 0) == (out->step > 0) ? low : high;
            continue;
        }
        at = at < 0 ? at + len : at;
        *fields[i] = at < low ? low : at > high ? high : at;
    }
    return RUVLLM_OK;
}

static ruvllm_status slice_list(struct rv_jinja_run *run, const struct rv_jinja_list *list, struct slice s,
                                struct rv_jinja_value *out)
{
    ruvllm_status rc = rv_jinja_list_new(run, 0, out);

    /* In steps from start; a step larger than the list ends it, so that adding cannot overflow. */
    for (int64_t i = s.start; rc == RUVLLM_OK && (s.step > 0 ? i < s.stop : i > s.stop);) {
        rc = rv_jinja_charge(run, 1);
        if (rc == RUVLLM_OK)
            rc = rv_jinja_list_push(run, out->as.list, list->items[i]);
        if (__builtin_add_overflow(i, s.step, &i))
            break;
    }
    return rc;
}

static ruvllm_status slice_string(struct rv_jinja_run *run, struct rv_jinja_string text, struct slice s,
                                  struct rv_jinja_value *out)
{
    size_t mark = rv_jinja_mark(run), start, end;
    struct rv_jinja_string string;
    uint32_t cp;
    ruvllm_status rc = rv_jinja_charge_bytes(run, text.len);

    if (rc)
        return rc;
    if (s.step == 1) {
        start = offset_of(text, (size_t)s.start);
        end = s.stop > s.start ? offset_of(text, (size_t)s.stop) : start;
        *out = rv_jinja_text(rv_jinja_substring(text, start, end - start));
        return RUVLLM_OK;
    }
    for (int64_t i = s.start; rc == RUVLLM_OK && (s.step > 0 ? i < s.stop : i > s.stop);) {
        start = offset_of(text, (size_t)i);
        rc = rv_jinja_charge(run, 1 + start / 64);
        if (rc == RUVLLM_OK)
            rc = rv_jinja_emit(run, rv_jinja_substring(text, start, rv_jinja_char_len(text, start, &cp)));
        if (__builtin_add_overflow(i, s.step, &i))
            break;
    }
    if (rc == RUVLLM_OK)
        rc = rv_jinja_cut(run, mark, &string);
    if (rc == RUVLLM_OK)
        *out = rv_jinja_text(string);
    return rc;
}

ruvllm_status rv_jinja_slice(struct rv_jinja_run *run, struct rv_jinja_value value,
                             const struct rv_jinja_value parts[3], struct rv_jinja_value *out)
{
    struct slice s = {0};
    ruvllm_status rc;

    if (value.type == RV_JINJA_T_LIST) {
        rc = read_slice(run, parts, (int64_t)value.as.list->len, &s);
        return rc ? rc : slice_list(run, value.as.list, s, out);
    }
    if (value.type == RV_JINJA_T_STRING) {
        rc = read_slice(run, parts, (int64_t)rv_jinja_char_count(value.as.string), &s);
        return rc ? rc : slice_string(run, value.as.string, s, out);
    }
    return rv_jinja_fail(run, "cannot slice %s", rv_jinja_type_name(value));
}
