/*
 * Memory. Thin on purpose: libc's allocator with checked sizes, so that tests can count and fail calls by
 * interposing malloc. All return NULL when memory is out or the size overflows; rv_free accepts NULL.
 */
#ifndef RV_BASE_ALLOC_H
#define RV_BASE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>

/* *out = a * b; false, with *out untouched, when it does not fit. */
bool rv_size_mul(size_t a, size_t b, size_t *out);
bool rv_size_add(size_t a, size_t b, size_t *out);

void *rv_malloc(size_t bytes);
void *rv_calloc(size_t n, size_t size);
/* Grows or shrinks an array to n elements; the old one stays valid on failure. */
void *rv_realloc_array(void *array, size_t n, size_t size);
/* A copy of len bytes with a NUL after them. */
char *rv_strndup(const char *text, size_t len);
char *rv_strdup(const char *text);
void rv_free(void *ptr);

#endif
