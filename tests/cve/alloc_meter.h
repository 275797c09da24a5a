/*
 * Counts what is allocated between start and stop, in this process, by whomever. Linked into a program as a source
 * of its own, it takes the place of malloc there. Sanitizers bring their own malloc: then it counts nothing.
 */
#ifndef RV_TESTS_CVE_ALLOC_METER_H
#define RV_TESTS_CVE_ALLOC_METER_H

#include <stdbool.h>
#include <stddef.h>

bool alloc_meter_works(void);
void alloc_meter_start(void);
/* All bytes asked for since the start, whether freed again or not: never less than the peak. */
size_t alloc_meter_stop(void);

#endif
