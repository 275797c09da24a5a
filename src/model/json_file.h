/*
 * JSON that others wrote, as a tree that is safe to walk: parsed without recursion, its memory bounded by its length.
 * Depth is bounded with it; whoever walks the tree goes only where the format has something.
 */
#ifndef RV_MODEL_JSON_FILE_H
#define RV_MODEL_JSON_FILE_H

#include "base/error.h"

struct yyjson_doc;
struct yyjson_val;

struct rv_json_file {
    struct yyjson_doc *doc;
    struct yyjson_val *root; // an object
};

/*
 * Parses text[0..len), which is not needed afterwards. What is no JSON, no object, or nested so densely that its tree
 * would take more than seven times its length, is FORMAT; `what` is how messages call it.
 */
RV_CHECKED ruvllm_status rv_json_file_parse(struct rv_json_file *out, const char *text, size_t len, const char *what,
                                            struct ruvllm_error *err);
/*
 * The same from a regular file of the open folder `folder`, of at most `max` bytes (else TOO_LARGE). A file that is not
 * there is NOT_FOUND; messages name it.
 */
RV_CHECKED ruvllm_status rv_json_file_read(struct rv_json_file *out, int folder, const char *name, size_t max,
                                           struct ruvllm_error *err);
/* Accepts an empty one. */
void rv_json_file_release(struct rv_json_file *json);

#endif
