/* Checked sizes over libc's allocator. */
#include "base/alloc.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

bool rv_size_mul(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

bool rv_size_add(size_t a, size_t b, size_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

void *rv_malloc(size_t bytes)
{
    return malloc(bytes ? bytes : 1);
}

void *rv_calloc(size_t n, size_t size)
{
    return calloc(n ? n : 1, size ? size : 1);
}

void *rv_realloc_array(void *array, size_t n, size_t size)
{
    size_t bytes;

    if (__builtin_mul_overflow(n, size, &bytes))
        return NULL;
    return realloc(array, bytes ? bytes : 1);
}

char *rv_strndup(const char *text, size_t len)
{
    char *copy = len == SIZE_MAX ? NULL : rv_malloc(len + 1);

    if (!copy)
        return NULL;
    if (len)
        memcpy(copy, text, len);
    copy[len] = '\0';
    return copy;
}

char *rv_strdup(const char *text)
{
    return rv_strndup(text, strlen(text));
}

void rv_free(void *ptr)
{
    free(ptr);
}
