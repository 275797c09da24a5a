/*
 * Counts what is allocated between start and stop, in this process, by whomever, or makes one of these calls fail.
 * Linked into a program as a source of its own, it takes the place of malloc there. Sanitizers bring their own
 * malloc: then it does nothing.
 */
#ifndef RV_TESTS_CVE_ALLOC_METER_H
#define RV_TESTS_CVE_ALLOC_METER_H

#include <stdbool.h>
#include <stddef.h>

bool alloc_meter_works(void);
void alloc_meter_start(void);
/* All bytes asked for since the start, whether freed again or not: never less than the peak. */
size_t alloc_meter_stop(void);
/* Starts, and lets the nth call from now on (1 is the next) find no memory. */
void alloc_meter_fail_at(size_t nth);
/* Stops; whether that call came. */
bool alloc_meter_failed(void);

#endif
