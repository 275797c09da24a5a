/* Only glibc has something to set. */
#include "base/heap.h"

#include <stdlib.h> // says which libc it is
#ifdef __GLIBC__
#include <malloc.h>
#endif

#ifdef __GLIBC__
void rv_heap_share(void)
{
    /* Measured on 6,000 mixed requests: 6 MiB more than after the first 1,000 without it, 0.3 MiB with it. */
    (void)mallopt(M_ARENA_MAX, 2);
}
#else
void rv_heap_share(void)
{
}
#endif
