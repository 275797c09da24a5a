/*
 * JSON Schema (draft 2020-12) to rules: texts that match them are JSON values that the schema accepts. Not always all
 * of those: properties come in the schema's order, white space is bounded, numbers stay within what a double holds.
 * Never one that it does not accept: what is not supported is an error that names the keyword and its place.
 *
 * Supported: type (one or several), enum, const, properties, required, additionalProperties, propertyNames,
 * maxProperties, minProperties (up to one more than are named), items, prefixItems, minItems, maxItems, minLength,
 * maxLength, pattern (regex.h), format (date, time, date-time, uuid, email, ipv4), minimum, maximum, exclusiveMinimum,
 * exclusiveMaximum, anyOf, oneOf (of choices that exclude each other by type or by a property's constant), allOf (of
 * objects), $ref within the schema, also in circles, $defs, and notes.
 */
#ifndef RV_SAMPLE_JSON_SCHEMA_H
#define RV_SAMPLE_JSON_SCHEMA_H

#include "sample/syntax.h"

/* Writes the rules into `syntax`; *rule is the number of the whole value's. */
RV_CHECKED ruvllm_status rv_json_schema_read(struct rv_syntax *syntax, const char *text, size_t len, int32_t *rule,
                                             struct ruvllm_error *err);
/* Any JSON object. */
RV_CHECKED ruvllm_status rv_json_schema_any_object(struct rv_syntax *syntax, int32_t *rule, struct ruvllm_error *err);

#endif
