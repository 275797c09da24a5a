/* "oneOf" of a JSON Schema: choices of which no value can satisfy two. */
#ifndef RV_SAMPLE_SCHEMA_CHOICE_H
#define RV_SAMPLE_SCHEMA_CHOICE_H

#include "sample/schema_reader.h"

enum rv_schema_choice_type {
    RV_SCHEMA_NULL = 1,
    RV_SCHEMA_BOOLEAN = 2,
    RV_SCHEMA_INTEGER = 4,
    RV_SCHEMA_NUMBER = 8, // integers are in it, where it stands without RV_SCHEMA_INTEGER too
    RV_SCHEMA_STRING = 16,
    RV_SCHEMA_ARRAY = 32,
    RV_SCHEMA_OBJECT = 64,
    RV_SCHEMA_ALL = 127,
};

/* The type of that name; 0: there is none. */
uint32_t rv_schema_choice_type(const char *name);
/* The type of a value. */
uint32_t rv_schema_choice_type_of(yyjson_val *value);
/* The types that "type" allows: RV_SCHEMA_ALL where it is not there. */
uint32_t rv_schema_choice_types(struct rv_schema_reader *reader, yyjson_val *schema, const char *path);
/* Fails unless the choices exclude each other by type, or by a required property that is constant in both. */
void rv_schema_choice_check(struct rv_schema_reader *reader, yyjson_val *choices, const char *path);

#endif
