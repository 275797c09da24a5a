/*
 * Objects of a JSON Schema: "properties", "required", "additionalProperties", "propertyNames", "minProperties",
 * "maxProperties", and "allOf" of such.
 */
#ifndef RV_SAMPLE_SCHEMA_OBJECT_H
#define RV_SAMPLE_SCHEMA_OBJECT_H

#include "sample/schema_reader.h"

/*
 * With its braces. Properties come in the order of the schema; those not required may be left out. Where the schema
 * says nothing of further ones there are none, unless it names no property at all.
 */
int32_t rv_schema_object_write(struct rv_schema_reader *reader, yyjson_val *schema, const char *path);

#endif
