/*
 * How long a thread wants to run at a stretch. It changes nothing about how much of the processor it gets, only in what
 * pieces. Since Linux 6.12 who wakes up and wants less than the one that runs takes its place at once, unless it has
 * just had more than its share; of equals, the one that wakes up waits for the next tick of the clock, 4 ms away or 10.
 * So who computes without a pause asks for long slices, and whoever is woken often with little to do, and is waited
 * for, for short ones.
 */
#ifndef RV_BASE_TIME_SLICE_H
#define RV_BASE_TIME_SLICE_H

#include <stdint.h>

enum {
    RV_TIME_SLICE_COMPUTING = 20000, // microseconds
    RV_TIME_SLICE_WAITED_FOR = 100   // the least that there is
};

/*
 * For the calling thread, and the threads it starts from now on. Returns what it was, to be set again; 0 when it is not
 * known, and then nothing is changed: another system or an older one, or a thread with a policy of its own.
 */
int64_t rv_time_slice_set(int64_t us);

#endif
