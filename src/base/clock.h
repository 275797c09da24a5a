/* Time that never runs backwards, and the time of day. */
#ifndef RV_BASE_CLOCK_H
#define RV_BASE_CLOCK_H

#include <stdint.h>

int64_t rv_clock_us(void);
/* Microseconds since 1970, as the system believes. May jump: for records, never for measuring. */
int64_t rv_clock_unix_us(void);

#endif
