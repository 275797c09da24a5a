/* A borrowed run of bytes. Not NUL-terminated; may hold NULs. */
#ifndef RV_BASE_STR_H
#define RV_BASE_STR_H

#include <stddef.h>

struct rv_str {
    const char *data;
    size_t len;
};

#endif
