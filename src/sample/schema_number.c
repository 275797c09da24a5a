/*
 * A range of numbers of the same length is a few sequences of digits: those that leave the lower bound upwards at each
 * place, those between, and those that leave the upper bound downwards.
 */
#include "sample/schema_number.h"

#include <math.h>
#include <stdio.h>

enum { MAX_DIGITS = 20, FRACTION = 15, SLACK = 6, EXACT = 15 }; // exact: numbers of so many digits are all different

static int32_t digit(struct rv_syntax *s, char lo, char hi)
{
    struct rv_syntax_range range = {(uint8_t)lo, (uint8_t)hi};

    return rv_syntax_class(s, &range, 1);
}

static int32_t digits(struct rv_syntax *s, int32_t min, int32_t max)
{
    return rv_syntax_repeat(s, digit(s, '0', '9'), min, max);
}

/* text[0..n), then a digit from lo to hi, then `rest` any digits. */
static void add_edge(struct rv_syntax *s, int32_t ways, const char *text, int n, char lo, char hi, int rest)
{
    int32_t way;

    if (lo > hi)
        return;
    way = rv_syntax_seq(s);
    rv_syntax_add(s, way, rv_syntax_literal(s, text, (size_t)n));
    rv_syntax_add(s, way, digit(s, lo, hi));
    if (rest > 0)
        rv_syntax_add(s, way, digits(s, rest, rest));
    rv_syntax_add(s, ways, way);
}

/* Numbers lo to hi written with exactly `width` digits. */
static int32_t fixed(struct rv_syntax *s, uint64_t lo, uint64_t hi, int width)
{
    char a[MAX_DIGITS + 2], b[MAX_DIGITS + 2];
    int32_t ways = rv_syntax_alt(s);
    int first = 0;

    snprintf(a, sizeof(a), "%0*llu", width, (unsigned long long)lo);
    snprintf(b, sizeof(b), "%0*llu", width, (unsigned long long)hi);
    while (first < width && a[first] == b[first])
        first++;
    rv_syntax_add(s, ways, rv_syntax_literal(s, a, (size_t)width));
    if (first == width)
        return ways;
    rv_syntax_add(s, ways, rv_syntax_literal(s, b, (size_t)width));
    add_edge(s, ways, a, first, (char)(a[first] + 1), (char)(b[first] - 1), width - first - 1);
    for (int i = first + 1; i < width; i++) {
        add_edge(s, ways, a, i, (char)(a[i] + 1), '9', width - i - 1);
        add_edge(s, ways, b, i, '0', (char)(b[i] - 1), width - i - 1);
    }
    return ways;
}

/* Without leading zeros. */
static int32_t natural(struct rv_syntax *s, uint64_t lo, uint64_t hi)
{
    int32_t ways = rv_syntax_alt(s);
    uint64_t first = 0, last = 9;

    for (int width = 1; width < MAX_DIGITS && first <= hi; width++) {
        uint64_t from = lo > first ? lo : first, to = hi < last ? hi : last;

        if (from <= to)
            rv_syntax_add(s, ways, fixed(s, from, to, width));
        first = last + 1;
        last = 10 * last + 9;
    }
    return ways;
}

static int32_t negative(struct rv_syntax *s, int32_t node)
{
    int32_t seq = rv_syntax_seq(s);

    rv_syntax_add(s, seq, rv_syntax_literal(s, "-", 1));
    rv_syntax_add(s, seq, node);
    return seq;
}

static int32_t optional(struct rv_syntax *s, int32_t node)
{
    return rv_syntax_repeat(s, node, 0, 1);
}

static uint64_t magnitude(int64_t value)
{
    return value < 0 ? (uint64_t)0 - (uint64_t)value : (uint64_t)value;
}

int32_t rv_schema_number_int(struct rv_syntax *syntax, int64_t lo, int64_t hi)
{
    int32_t ways = rv_syntax_alt(syntax);

    if (hi >= 0)
        rv_syntax_add(syntax, ways, natural(syntax, lo > 0 ? (uint64_t)lo : 0, (uint64_t)hi));
    if (lo < 0)
        rv_syntax_add(syntax, ways, negative(syntax, natural(syntax, hi < -1 ? magnitude(hi) : 1, magnitude(lo))));
    return ways;
}

int32_t rv_schema_number_any_int(struct rv_syntax *syntax)
{
    return rv_schema_number_int(syntax, -RV_SCHEMA_NUMBER_MAX_INT, RV_SCHEMA_NUMBER_MAX_INT);
}

int32_t rv_schema_number_any(struct rv_syntax *syntax)
{
    static const struct rv_syntax_range e[] = {{'e', 'e'}, {'E', 'E'}}, sign[] = {{'+', '+'}, {'-', '-'}};
    int32_t seq = rv_syntax_seq(syntax), fraction = rv_syntax_seq(syntax), exponent = rv_syntax_seq(syntax);

    rv_syntax_add(syntax, fraction, rv_syntax_literal(syntax, ".", 1));
    rv_syntax_add(syntax, fraction, digits(syntax, 1, FRACTION));
    rv_syntax_add(syntax, exponent, rv_syntax_class(syntax, e, 2));
    rv_syntax_add(syntax, exponent, optional(syntax, rv_syntax_class(syntax, sign, 2)));
    rv_syntax_add(syntax, exponent, digits(syntax, 1, 2)); // far from the largest double
    rv_syntax_add(syntax, seq, optional(syntax, rv_syntax_literal(syntax, "-", 1)));
    rv_syntax_add(syntax, seq, natural(syntax, 0, RV_SCHEMA_NUMBER_MAX_INT));
    rv_syntax_add(syntax, seq, optional(syntax, fraction));
    rv_syntax_add(syntax, seq, optional(syntax, exponent));
    return seq;
}

/* ---- numbers with a fraction --------------------------------------------------------------------------- */

/* whole "." the `width` digits lo to hi, and more digits if `goes_on`. */
static void add_fraction(struct rv_syntax *s, int32_t ways, uint64_t whole, uint64_t lo, uint64_t hi, int width,
                         bool goes_on)
{
    int32_t way = rv_syntax_seq(s);

    rv_syntax_add(s, way, natural(s, whole, whole));
    rv_syntax_add(s, way, rv_syntax_literal(s, ".", 1));
    rv_syntax_add(s, way, fixed(s, lo, hi, width));
    if (goes_on)
        rv_syntax_add(s, way, digits(s, 0, SLACK));
    rv_syntax_add(s, ways, way);
}

/* Fractions of fewer than `width` digits, next to the bounds lo and hi, which are in units of 10^-width. */
static void add_short(struct rv_syntax *s, int32_t ways, uint64_t lo, uint64_t hi, int width)
{
    uint64_t step = 10, unit = 1; // of the short ones: 10^-n is `step` units; the whole is `unit` of theirs

    for (int n = width - 1; n > 0; n--, step *= 10) {
        uint64_t from = (lo + step - 1) / step, to = hi / step;

        unit = 1;
        for (int i = 0; i < n; i++)
            unit *= 10;
        if (from > to)
            continue;
        if (from / unit == to / unit) {
            add_fraction(s, ways, to / unit, from % unit, to % unit, n, false);
            continue;
        }
        add_fraction(s, ways, from / unit, from % unit, unit - 1, n, false);
        add_fraction(s, ways, to / unit, 0, to % unit, n, false);
    }
}

/* Numbers lo to hi, both given in units of 10^-width and not negative. */
static int32_t unsigned_real(struct rv_syntax *s, uint64_t lo, uint64_t hi, int width)
{
    uint64_t unit = 1, first, last, low, high;
    int32_t ways = rv_syntax_alt(s);

    for (int i = 0; i < width; i++)
        unit *= 10;
    first = lo / unit;
    last = hi / unit;
    low = lo % unit;
    high = hi % unit;
    if (first + (low > 0) <= last) // whole numbers
        rv_syntax_add(s, ways, natural(s, first + (low > 0), last));
    if (first + 1 < last) {
        int32_t way = rv_syntax_seq(s);

        rv_syntax_add(s, way, natural(s, first + 1, last - 1));
        rv_syntax_add(s, way, rv_syntax_literal(s, ".", 1));
        rv_syntax_add(s, way, digits(s, 1, FRACTION));
        rv_syntax_add(s, ways, way);
    }
    if (width == 0) {
        int32_t way = rv_syntax_seq(s);

        if (first == last)
            return ways;
        rv_syntax_add(s, way, natural(s, first, first));
        rv_syntax_add(s, way, rv_syntax_literal(s, ".", 1));
        rv_syntax_add(s, way, digits(s, 1, FRACTION));
        rv_syntax_add(s, ways, way);
        return ways;
    }
    add_short(s, ways, lo, hi, width);
    if (first < last)
        add_fraction(s, ways, first, low, unit - 1, width, true);
    if (first < last && high > 0)
        add_fraction(s, ways, last, 0, high - 1, width, true);
    if (first == last && low < high)
        add_fraction(s, ways, first, low, high - 1, width, true);
    add_fraction(s, ways, last, high, high, width, false);
    return ways;
}

/* Whether `width` digits after the point say the number: what they say is read as that very double. */
static bool is_said(double number, int width)
{
    double unit = pow(10, width);

    return round(number * unit) / unit == number;
}

/* The bound in units of 10^-width, rounded into the range: never to what is read as a number beyond it. */
static int64_t scale(double bound, int width, bool is_excluded, bool is_min)
{
    double unit = pow(10, width), scaled = bound * unit, inwards = is_min ? 1 : -1;
    double value = is_said(bound, width) ? round(scaled) : is_min ? ceil(scaled) : floor(scaled);

    while (inwards * (value / unit - bound) < 0 || (is_excluded && value / unit == bound))
        value += inwards;
    return (int64_t)value;
}

/* Digits after the point that say the bound exactly, up to 6. */
static int n_decimals(double bound)
{
    int width = 0;

    while (width < 6 && !is_said(bound, width))
        width++;
    return width;
}

/* How near an excluded number we come: three digits more, as long as what is written is not read as that number. */
static int near_width(int width, double excluded)
{
    int most = EXACT;

    for (double power = 1; power <= excluded; power *= 10)
        most--;
    return width + 3 < most ? width + 3 : most;
}

bool rv_schema_number_real(struct rv_syntax *syntax, const struct rv_schema_number_bounds *bounds, int32_t *node)
{
    double min = bounds->has_min ? bounds->min : -RV_SCHEMA_NUMBER_MAX_REAL;
    double max = bounds->has_max ? bounds->max : RV_SCHEMA_NUMBER_MAX_REAL;
    int width = n_decimals(min) > n_decimals(max) ? n_decimals(min) : n_decimals(max);
    int64_t lo, hi;
    int32_t ways;

    if (bounds->is_min_excluded || bounds->is_max_excluded)
        width =
            near_width(width, fmax(bounds->is_min_excluded ? fabs(min) : 0, bounds->is_max_excluded ? fabs(max) : 0));
    lo = scale(min, width, bounds->is_min_excluded, true);
    hi = scale(max, width, bounds->is_max_excluded, false);
    if (lo > hi)
        return false;
    ways = rv_syntax_alt(syntax);
    if (hi >= 0)
        rv_syntax_add(syntax, ways, unsigned_real(syntax, lo > 0 ? (uint64_t)lo : 0, (uint64_t)hi, width));
    if (lo < 0)
        rv_syntax_add(syntax, ways,
                      negative(syntax, unsigned_real(syntax, hi < 0 ? magnitude(hi) : 0, magnitude(lo), width)));
    *node = ways;
    return true;
}
