/*
 * Numbers of the same length between two bounds: digits follow the lower bound and may leave it upwards at each place,
 * follow the upper one and may leave it downwards, or lie between; then any digits follow. As machines of a few dozen
 * states, so that a schema may have thousands of bounds.
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

/* ---- ranges of whole numbers ----------------------------------------------------------------------------- */

enum { MAX_EDGES = 512 };

/* State 0 is where a number begins; frees[n] where any n digits may follow, -1: not made yet. */
struct machine {
    struct rv_syntax_edge edges[MAX_EDGES];
    size_t n_edges;
    int32_t n_states;
    int32_t frees[MAX_DIGITS + 1];
};

static void machine_init(struct machine *m)
{
    m->n_edges = 0;
    m->n_states = 1;
    for (int i = 0; i <= MAX_DIGITS; i++)
        m->frees[i] = -1;
}

static void add_edge(struct machine *m, int32_t from, int32_t to, char lo, char hi)
{
    RV_ASSERT(m->n_edges < MAX_EDGES);
    if (lo <= hi)
        m->edges[m->n_edges++] = (struct rv_syntax_edge){from, to, (uint8_t)lo, (uint8_t)hi};
}

static int32_t free_digits(struct machine *m, int n)
{
    for (int i = 0; i <= n; i++) {
        if (m->frees[i] >= 0)
            continue;
        m->frees[i] = m->n_states++;
        if (i == 0)
            m->edges[m->n_edges++] = (struct rv_syntax_edge){m->frees[0], -1, 1, 0}; // the number may end
        else
            add_edge(m, m->frees[i], m->frees[i - 1], '0', '9');
    }
    return m->frees[n];
}

/* From `at` on the digits of `text` from place i on, or larger ones (is_low), or smaller ones. */
static void follow_bound(struct machine *m, int32_t at, const char *text, int i, int width, bool is_low)
{
    for (; i < width; i++) {
        int32_t next = i + 1 == width ? free_digits(m, 0) : m->n_states++;

        add_edge(m, at, next, text[i], text[i]);
        add_edge(m, at, free_digits(m, width - i - 1), is_low ? (char)(text[i] + 1) : '0',
                 is_low ? '9' : (char)(text[i] - 1));
        at = next;
    }
}

/* Numbers lo to hi written with exactly `width` digits. */
static void add_fixed(struct machine *m, uint64_t lo, uint64_t hi, int width)
{
    char a[MAX_DIGITS + 2], b[MAX_DIGITS + 2];
    int32_t at = 0, low, high;
    int i = 0;

    snprintf(a, sizeof(a), "%0*llu", width, (unsigned long long)lo);
    snprintf(b, sizeof(b), "%0*llu", width, (unsigned long long)hi);
    for (; i < width && a[i] == b[i]; i++) {
        int32_t next = i + 1 == width ? free_digits(m, 0) : m->n_states++;

        add_edge(m, at, next, a[i], a[i]);
        at = next;
    }
    if (i == width)
        return;
    low = i + 1 == width ? free_digits(m, 0) : m->n_states++;
    high = i + 1 == width ? free_digits(m, 0) : m->n_states++;
    add_edge(m, at, low, a[i], a[i]);
    add_edge(m, at, high, b[i], b[i]);
    add_edge(m, at, free_digits(m, width - i - 1), (char)(a[i] + 1), (char)(b[i] - 1));
    follow_bound(m, low, a, i + 1, width, true);
    follow_bound(m, high, b, i + 1, width, false);
}

static int32_t fixed(struct rv_syntax *s, uint64_t lo, uint64_t hi, int width)
{
    struct machine m;

    machine_init(&m);
    add_fixed(&m, lo, hi, width);
    return rv_syntax_machine(s, m.edges, m.n_edges);
}

/* Without leading zeros. */
static int32_t natural(struct rv_syntax *s, uint64_t lo, uint64_t hi)
{
    uint64_t first = 0, last = 9;
    struct machine m;

    machine_init(&m);
    for (int width = 1; width < MAX_DIGITS && first <= hi; width++) {
        uint64_t from = lo > first ? lo : first, to = hi < last ? hi : last;

        if (width > 1 && from == first && to == last) // all numbers of that many digits
            add_edge(&m, 0, free_digits(&m, width - 1), '1', '9');
        else if (from <= to)
            add_fixed(&m, from, to, width);
        first = last + 1;
        last = 10 * last + 9;
    }
    return rv_syntax_machine(s, m.edges, m.n_edges);
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
