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
static atomic_size_t n_until_failure; // 0: none is to come
static atomic_bool has_failed;

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *ptr, size_t bytes);

/* False when this call is the one to fail. */
static bool count(size_t bytes)
{
    if (!atomic_load(&is_running))
        return true;
    atomic_fetch_add(&total, bytes);
    if (atomic_load(&n_until_failure) == 0 || atomic_fetch_sub(&n_until_failure, 1) != 1)
        return true;
    atomic_store(&has_failed, true);
    return false;
}

void *malloc(size_t bytes)
{
    return count(bytes) ? __libc_malloc(bytes) : NULL;
}

void *calloc(size_t n, size_t size)
{
    return count(n * size) ? __libc_calloc(n, size) : NULL;
}

void *realloc(void *ptr, size_t bytes)
{
    return count(bytes) ? __libc_realloc(ptr, bytes) : NULL;
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

void alloc_meter_fail_at(size_t nth)
{
    atomic_store(&has_failed, false);
    atomic_store(&n_until_failure, nth);
    alloc_meter_start();
}

bool alloc_meter_failed(void)
{
    alloc_meter_stop();
    atomic_store(&n_until_failure, 0);
    return atomic_load(&has_failed);
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

void alloc_meter_fail_at(size_t nth)
{
    (void)nth;
}

bool alloc_meter_failed(void)
{
    return false;
}

#endif
