/* Time that never runs backwards. */
#ifndef RV_BASE_CLOCK_H
#define RV_BASE_CLOCK_H

#include <stdint.h>

int64_t rv_clock_us(void);

#endif
