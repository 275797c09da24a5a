/* One thread measures at a time; the counter is atomic only because other threads may allocate meanwhile. */
#include "alloc_meter.h"

#include <stdatomic.h>
#include <stdlib.h>

#if defined(__has_feature)
#define SANITIZER(name) __has_feature(name)
#else
#define SANITIZER(name) 0
#endif

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) &&                           \
    !SANITIZER(address_sanitizer) && !SANITIZER(thread_sanitizer) && !SANITIZER(memory_sanitizer)

static atomic_bool is_running;
static atomic_size_t total;

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *ptr, size_t bytes);

static void count(size_t bytes)
{
    if (atomic_load(&is_running))
        atomic_fetch_add(&total, bytes);
}

void *malloc(size_t bytes)
{
    count(bytes);
    return __libc_malloc(bytes);
}

void *calloc(size_t n, size_t size)
{
    count(n * size);
    return __libc_calloc(n, size);
}

void *realloc(void *ptr, size_t bytes)
{
    count(bytes);
    return __libc_realloc(ptr, bytes);
}

bool alloc_meter_works(void)
{
    return true;
}

void alloc_meter_start(void)
{
    atomic_store(&total, 0);
    atomic_store(&is_running, true);
}

size_t alloc_meter_stop(void)
{
    atomic_store(&is_running, false);
    return atomic_load(&total);
}

#else

bool alloc_meter_works(void)
{
    return false;
}

void alloc_meter_start(void)
{
}

size_t alloc_meter_stop(void)
{
    return 0;
}

#endif
