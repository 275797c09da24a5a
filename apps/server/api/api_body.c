/* Bytes to a JSON tree. yyjson reads it without recursion; what it does not limit is counted before it begins. */
#include "server/api/api_body.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

enum { FEW_KEYS = 16 }; // compared each with each; more are sorted

/* The byte after the string whose first byte (after the quote) is body[at]; len when it does not end. */
static size_t skip_string(const char *body, size_t at, size_t len)
{
    while (at < len && body[at] != '"')
        at += body[at] == '\\' ? 2 : 1;
    return at < len ? at + 1 : len;
}

/* Every value but the first comes after one of , : [ { so their count is a bound, whatever else is wrong. */
static ruvllm_status check_limits(const char *body, size_t len, struct rv_api_error *err)
{
    size_t depth = 0, n_values = 1;

    for (size_t at = 0; at < len; at++) {
        char c = body[at];

        if (c == '"') {
            at = skip_string(body, at + 1, len) - 1;
            continue;
        }
        depth += c == '[' || c == '{';
        depth -= (c == ']' || c == '}') && depth > 0;
        n_values += c == '[' || c == '{' || c == ',' || c == ':';
        if (depth > RV_API_MAX_DEPTH) {
            rv_api_error_set(err, 400, "invalid_json", NULL, "the body is nested deeper than %d levels",
                             RV_API_MAX_DEPTH);
            return RUVLLM_INVALID;
        }
        if (n_values > RV_API_MAX_VALUES) {
            rv_api_error_set(err, 400, "invalid_json", NULL, "the body has more than %d values; split the request",
                             RV_API_MAX_VALUES);
            return RUVLLM_INVALID;
        }
    }
    return RUVLLM_OK;
}

static int compare_keys(const void *a, const void *b)
{
    const yyjson_val *x = *(yyjson_val *const *)a, *y = *(yyjson_val *const *)b;
    size_t x_len = unsafe_yyjson_get_len((void *)x), y_len = unsafe_yyjson_get_len((void *)y);

    if (x_len != y_len)
        return x_len < y_len ? -1 : 1;
    return x_len ? memcmp(x->uni.str, y->uni.str, x_len) : 0;
}

static yyjson_val *repeated_among_few(yyjson_val *object)
{
    yyjson_val *keys[FEW_KEYS], *key;
    yyjson_obj_iter iter = yyjson_obj_iter_with(object);

    for (size_t n = 0; (key = yyjson_obj_iter_next(&iter)) != NULL; n++) {
        keys[n] = key;
        for (size_t i = 0; i < n; i++)
            if (compare_keys(&keys[i], &keys[n]) == 0)
                return key;
    }
    return NULL;
}

/* Sets *repeated to a key that is there twice, or NULL. */
static ruvllm_status find_repeated(yyjson_val *object, yyjson_val **repeated)
{
    size_t n_keys = yyjson_obj_size(object), n = 0;
    yyjson_obj_iter iter = yyjson_obj_iter_with(object);
    yyjson_val **keys, *key;

    *repeated = NULL;
    if (n_keys <= FEW_KEYS) {
        *repeated = repeated_among_few(object);
        return RUVLLM_OK;
    }
    keys = rv_realloc_array(NULL, n_keys, sizeof(*keys));
    if (!keys)
        return RUVLLM_NO_MEMORY;
    while ((key = yyjson_obj_iter_next(&iter)) != NULL)
        keys[n++] = key;
    qsort(keys, n, sizeof(*keys), compare_keys);
    for (size_t i = 1; i < n && !*repeated; i++)
        if (compare_keys(&keys[i - 1], &keys[i]) == 0)
            *repeated = keys[i];
    rv_free(keys);
    return RUVLLM_OK;
}

static ruvllm_status no_memory(struct rv_api_error *err)
{
    rv_api_error_from(err, &(struct ruvllm_error){.status = RUVLLM_NO_MEMORY});
    return RUVLLM_NO_MEMORY;
}

/* The values of a document lie one after the other in memory, so all objects are found without walking the tree. */
static ruvllm_status check_keys(yyjson_doc *doc, struct rv_api_error *err)
{
    yyjson_val *values = yyjson_doc_get_root(doc);

    for (size_t i = 0; i < yyjson_doc_get_val_count(doc); i++) {
        yyjson_val *repeated;

        if (!yyjson_is_obj(&values[i]))
            continue;
        if (find_repeated(&values[i], &repeated))
            return no_memory(err);
        if (repeated) {
            rv_api_error_set(err, 400, "duplicate_field", yyjson_get_str(repeated),
                             "'%.*s' is given twice in the same object", RV_API_ERROR_NAME, yyjson_get_str(repeated));
            return RUVLLM_INVALID;
        }
    }
    return RUVLLM_OK;
}

static ruvllm_status parse(const char *body, size_t len, yyjson_doc **out, struct rv_api_error *err)
{
    yyjson_read_err why;

    /* Without the flag for reading in place yyjson does not write to its input. */
    *out = yyjson_read_opts((char *)body, len, YYJSON_READ_NOFLAG, NULL, &why);
    if (*out)
        return RUVLLM_OK;
    if (why.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION)
        return no_memory(err);
    rv_api_error_set(err, 400, "invalid_json", NULL, "the body is not valid JSON: %s at byte %zu", why.msg, why.pos);
    return RUVLLM_INVALID;
}

ruvllm_status rv_api_body_read(const char *body, size_t len, yyjson_doc **out, struct rv_api_error *err)
{
    ruvllm_status rc;

    *out = NULL;
    if (len == 0) {
        rv_api_error_set(err, 400, "invalid_json", NULL, "the body is empty; send a JSON object");
        return RUVLLM_INVALID;
    }
    rc = check_limits(body, len, err);
    if (rc == RUVLLM_OK)
        rc = parse(body, len, out, err);
    if (rc == RUVLLM_OK && !yyjson_is_obj(yyjson_doc_get_root(*out))) {
        rv_api_error_set(err, 400, "invalid_json", NULL, "the body must be a JSON object");
        rc = RUVLLM_INVALID;
    }
    if (rc == RUVLLM_OK)
        rc = check_keys(*out, err);
    if (rc) {
        yyjson_doc_free(*out);
        *out = NULL;
    }
    return rc;
}
