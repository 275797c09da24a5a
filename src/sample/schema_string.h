/* Strings of a JSON Schema: "minLength", "maxLength", "pattern", "format". */
#ifndef RV_SAMPLE_SCHEMA_STRING_H
#define RV_SAMPLE_SCHEMA_STRING_H

#include "sample/schema_reader.h"

/* With its quotes. */
int32_t rv_schema_string_write(struct rv_schema_reader *reader, yyjson_val *schema, const char *path);
/* A non-negative integer of the schema; false when there is none, and a failure when it is something else. */
bool rv_schema_string_count(struct rv_schema_reader *reader, yyjson_val *schema, const char *path, const char *keyword,
                            int32_t *out);

#endif
