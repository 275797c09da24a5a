/*
 * Typed readers for the fields of a JSON object. Failure sticks: the first one fills the error and sets `failed`, and
 * every read after it does nothing and returns false, so a run of reads is checked once at its end. A field that is
 * absent or null is not a failure: the reader returns false and leaves what it was given as it was. A reader that
 * returns true has written a value of the right type within the range.
 *
 * Strings belong to the JSON tree and hold no NUL.
 */
#ifndef RV_API_API_FIELDS_H
#define RV_API_API_FIELDS_H

#include "base/arena.h"
#include "server/api/api_request.h"

#include <yyjson.h>

struct rv_api_reader {
    struct rv_arena *arena;
    struct rv_api_error *err;
    ruvllm_status failed;
};

enum { RV_API_PATH_SIZE = 96 };

struct rv_api_fields {
    struct rv_api_reader *reader;
    yyjson_val *object;
    char path[RV_API_PATH_SIZE]; // what errors put before a key: "", "kv.", "messages[2]."
};

/*
 * A field an object may have. Those with neither test nor `fails` are read elsewhere. Those with a test do nothing, and
 * may be there only with values that ask for nothing: `only` says which. Those that fail always are not supported yet.
 */
struct rv_api_field {
    const char *name;
    bool (*asks_nothing)(yyjson_val *value);
    const char *only;
    bool fails;
};

/* Takes `value` as an object; false and a failure naming `path` when it is none. `path` goes without its dot. */
bool rv_api_fields_init(struct rv_api_fields *fields, struct rv_api_reader *reader, yyjson_val *value,
                        const char *path);
/* Fails for a key that is in none of the tables, or whose field is not supported with this value. */
void rv_api_fields_only(struct rv_api_fields *fields, const struct rv_api_field *const *tables, size_t n_tables);

/* The value, or NULL: absent, null, or failed before. */
yyjson_val *rv_api_fields_value(struct rv_api_fields *fields, const char *name);
/* 1.0 is an integer, 1.5 is not. */
bool rv_api_fields_int(struct rv_api_fields *fields, const char *name, int64_t min, int64_t max, int64_t *out);
bool rv_api_fields_int32(struct rv_api_fields *fields, const char *name, int32_t min, int32_t max, int32_t *out);
bool rv_api_fields_float(struct rv_api_fields *fields, const char *name, double min, double max, float *out);
bool rv_api_fields_bool(struct rv_api_fields *fields, const char *name, bool *out);
bool rv_api_fields_string(struct rv_api_fields *fields, const char *name, size_t min_len, size_t max_len,
                          const char **out);
/* The index of the string among `words`. */
bool rv_api_fields_word(struct rv_api_fields *fields, const char *name, const char *const *words, size_t n_words,
                        size_t *out);
bool rv_api_fields_object(struct rv_api_fields *fields, const char *name, struct rv_api_fields *out);
/* Its length in *n, which must lie between min and max. */
yyjson_val *rv_api_fields_array(struct rv_api_fields *fields, const char *name, size_t min, size_t max, size_t *n);
/* A failure unless the field is there. */
void rv_api_fields_require(struct rv_api_fields *fields, const char *name);

/* The same for values that have no name of their own, such as elements of arrays; `path` is theirs. */
bool rv_api_fields_is_int(struct rv_api_reader *reader, yyjson_val *value, const char *path, int64_t min, int64_t max,
                          int64_t *out);
bool rv_api_fields_is_string(struct rv_api_reader *reader, yyjson_val *value, const char *path, size_t min_len,
                             size_t max_len, const char **out);

/* Sets the failure, unless there is one already. `path` is the whole of it. */
void rv_api_fields_fail(struct rv_api_reader *reader, const char *path, const char *code, const char *format, ...)
    RV_PRINTF(4, 5);
/* Fails with "'path' must be <wanted>, and is <what value is>". */
void rv_api_fields_wrong(struct rv_api_reader *reader, yyjson_val *value, const char *path, const char *wanted);
/* Zeroed memory that lives as long as the request; NULL is a failure that is set. */
void *rv_api_fields_alloc(struct rv_api_reader *reader, size_t n, size_t size);

/* The value as JSON text of at most max_len bytes, which lives as long as the request; NULL is a failure. */
char *rv_api_fields_json(struct rv_api_reader *reader, yyjson_val *value, const char *path, size_t max_len);

/*
 * Reads a body that is one small object: `read` takes what it wants into `out`, which keeps nothing of the body. For
 * requests whose words must outlive it there is api_request.h.
 */
RV_CHECKED ruvllm_status rv_api_fields_parse(const char *body, size_t len,
                                             void (*read)(struct rv_api_fields *fields, void *out), void *out,
                                             struct rv_api_error *err);

#endif
