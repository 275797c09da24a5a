/*
 * What the parts of a JSON Schema's reading share: a rule for every schema met, the list of those still to be written,
 * the rules of JSON itself, references, and the first failure, which sticks. Schemas are written one after the other
 * from the list, so nothing recurses, however deep or circular they are.
 */
#ifndef RV_SAMPLE_SCHEMA_READER_H
#define RV_SAMPLE_SCHEMA_READER_H

#include "base/arena.h"
#include "sample/syntax.h"

#include <yyjson.h>

/* A schema and the rule that is to be written for it. */
struct rv_schema_reader_entry {
    yyjson_val *schema; // NULL: a free place of the table
    const char *path;
    int32_t rule;
};

/* Conditions on strings that have become a machine (schema_pattern.h), and its rule. */
struct rv_schema_reader_machine {
    const char *key;
    size_t len;
    int32_t rule;
};

#define RV_SCHEMA_READER_MACHINES 64      // different ones of a schema
#define RV_SCHEMA_READER_STATES (1 << 14) // of all of them

struct rv_schema_reader {
    struct rv_syntax *syntax;
    yyjson_doc *doc;
    yyjson_val *root;
    struct rv_arena arena;
    struct rv_schema_reader_entry *table; // by schema; a power of two
    size_t table_size;
    struct rv_schema_reader_entry *list; // in the order they were met
    size_t n_list, max_list;
    size_t n_written;
    int32_t rules[8]; // of JSON itself, by enum rv_schema_reader_json; -1: not written yet
    struct rv_schema_reader_machine machines[RV_SCHEMA_READER_MACHINES];
    size_t n_machines;
    int32_t state_budget;
    struct ruvllm_error *err;
    ruvllm_status failed;
};

enum rv_schema_reader_json {
    RV_SCHEMA_JSON_SPACE, // between parts: nothing, a space, or a line break and some spaces
    RV_SCHEMA_JSON_STRING,
    RV_SCHEMA_JSON_NUMBER,
    RV_SCHEMA_JSON_INTEGER,
    RV_SCHEMA_JSON_VALUE,
    RV_SCHEMA_JSON_OBJECT,
    RV_SCHEMA_JSON_ARRAY,
};

/* `text` NULL: there is no schema, only JSON itself. */
RV_CHECKED ruvllm_status rv_schema_reader_init(struct rv_schema_reader *reader, struct rv_syntax *syntax,
                                               const char *text, size_t len, struct ruvllm_error *err);
void rv_schema_reader_release(struct rv_schema_reader *reader);
/* Sticks unless another failure has; the message begins with the path of the schema. */
void rv_schema_reader_fail(struct rv_schema_reader *reader, const char *path, const char *format, ...) RV_PRINTF(3, 4);
/* The rule of a schema, which is put on the list when it is met for the first time. */
int32_t rv_schema_reader_rule(struct rv_schema_reader *reader, yyjson_val *schema, const char *path);
/* A call of it. */
int32_t rv_schema_reader_call(struct rv_schema_reader *reader, yyjson_val *schema, const char *path);
/* The next schema to be written; NULL: all are. */
const struct rv_schema_reader_entry *rv_schema_reader_next(struct rv_schema_reader *reader);
/* path + "/" + key, for messages: long ones are cut. */
const char *rv_schema_reader_path(struct rv_schema_reader *reader, const char *path, const char *key, size_t len);
const char *rv_schema_reader_item_path(struct rv_schema_reader *reader, const char *path, const char *key,
                                       size_t index);
/* What "$ref" names, through several of them; NULL, and a failure, when there is no such thing here. */
yyjson_val *rv_schema_reader_follow(struct rv_schema_reader *reader, yyjson_val *schema, const char *path);
/* True for keywords that say nothing about the value. */
bool rv_schema_reader_is_note(const char *keyword);

int32_t rv_schema_reader_json(struct rv_schema_reader *reader, enum rv_schema_reader_json what);
int32_t rv_schema_reader_call_json(struct rv_schema_reader *reader, enum rv_schema_reader_json what);
/* A character of a string, written out. */
int32_t rv_schema_reader_char(struct rv_schema_reader *reader);
/* A value of the schema's own, letter by letter. */
int32_t rv_schema_reader_constant(struct rv_schema_reader *reader, yyjson_val *value);
int32_t rv_schema_reader_text(struct rv_schema_reader *reader, const char *text);

#endif
