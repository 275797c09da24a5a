/* How libc arranges the memory of the whole process. */
#ifndef RV_BASE_HEAP_H
#define RV_BASE_HEAP_H

/*
 * For a program that serves for weeks, before its threads: glibc gives each thread a heap of its own, and what one
 * thread takes and another gives back leaves holes in all of them. Two heaps for the whole process; elsewhere nothing.
 */
void rv_heap_share(void);

#endif
