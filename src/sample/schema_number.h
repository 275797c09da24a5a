/* Numbers between bounds, as digits: what json_schema.h writes for "minimum" and its relatives. */
#ifndef RV_SAMPLE_SCHEMA_NUMBER_H
#define RV_SAMPLE_SCHEMA_NUMBER_H

#include "sample/syntax.h"

#define RV_SCHEMA_NUMBER_MAX_INT 999999999999999 // written where there is no bound: exact in a double
#define RV_SCHEMA_NUMBER_MAX_REAL 1e9            // of a bound on numbers that are not integers

struct rv_schema_number_bounds {
    bool has_min, has_max;
    double min, max;
    bool is_min_excluded, is_max_excluded;
};

/* Any number, with fraction and exponent; any integer. Both stay within what a double can hold. */
int32_t rv_schema_number_any(struct rv_syntax *syntax);
int32_t rv_schema_number_any_int(struct rv_syntax *syntax);
/* The integers lo to hi, both included; lo <= hi. */
int32_t rv_schema_number_int(struct rv_syntax *syntax, int64_t lo, int64_t hi);
/*
 * Numbers within the bounds, without exponents. Not all of them: of those outside +-1e9 none, where only one bound is
 * given, and next to a bound that is excluded some are left out. Never one that is outside. False: there is none.
 */
bool rv_schema_number_real(struct rv_syntax *syntax, const struct rv_schema_number_bounds *bounds, int32_t *node);

#endif
