/* Strings of a JSON Schema with a "pattern" or a "format", and what else is said about them. */
#ifndef RV_SAMPLE_SCHEMA_PATTERN_H
#define RV_SAMPLE_SCHEMA_PATTERN_H

#include "sample/schema_reader.h"

struct rv_schema_pattern {
    const char *pattern; // NULL: none. It may begin with look-aheads
    size_t pattern_len;
    const char *format; // the expression that stands for it; NULL: none
    const char *length; // the keyword to name; NULL: any length
    int32_t min, max;   // characters; max -1: any number
};

/* With its quotes. What cannot be kept together within the budgets is a failure that names the keywords. */
int32_t rv_schema_pattern_write(struct rv_schema_reader *reader, const struct rv_schema_pattern *wish,
                                const char *path);

#endif
