/* By the system calls themselves: the C library has no names for them before 2.41. */
#define _GNU_SOURCE // syscall
#include "base/time_slice.h"

#ifdef __linux__
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The first version of the kernel's struct sched_attr, which every later one takes. */
struct attributes {
    uint32_t size;
    uint32_t policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime_ns; // of an ordinary thread: its slice
    uint64_t deadline_ns;
    uint64_t period_ns;
};

int64_t rv_time_slice_set(int64_t us)
{
    struct attributes attributes = {.size = sizeof(attributes)};
    int64_t before;

    if (syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) != 0 || attributes.policy != SCHED_OTHER)
        return 0;
    before = (int64_t)(attributes.runtime_ns / 1000); // 0 before Linux 6.12
    if (before <= 0 || us <= 0 || before == us)
        return before;
    attributes.runtime_ns = (uint64_t)us * 1000;
    return syscall(SYS_sched_setattr, 0, &attributes, 0) == 0 ? before : 0;
}

#else

int64_t rv_time_slice_set(int64_t us)
{
    (void)us;
    return 0;
}

#endif
