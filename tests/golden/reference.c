/* Reading reference.json. */
#include "golden/reference.h"

#include <stdlib.h>
#include <string.h>

#include <yyjson.h>

#include "support/test.h"

static int32_t *read_ids(yyjson_val *array, size_t *n)
{
    int32_t *ids;
    size_t i, max;
    yyjson_val *item;

    assert_true(yyjson_is_arr(array));
    *n = yyjson_arr_size(array);
    ids = calloc(*n + 1, sizeof(*ids));
    assert_non_null(ids);
    yyjson_arr_foreach(array, i, max, item) ids[i] = (int32_t)yyjson_get_sint(item);
    return ids;
}

static void read_case(struct reference_case *out, yyjson_val *item)
{
    const char *stop = yyjson_get_str(yyjson_obj_get(item, "stop"));

    out->prompt = read_ids(yyjson_obj_get(item, "prompt_ids"), &out->n_prompt);
    out->answer = read_ids(yyjson_obj_get(item, "ids"), &out->n_answer);
    out->n_stable = (size_t)yyjson_get_uint(yyjson_obj_get(item, "stable_prefix"));
    assert_true(out->n_stable <= out->n_answer);
    out->ends_stably = out->n_stable == out->n_answer && stop && strncmp(stop, "eog", 3) == 0;
}

void reference_read(struct reference *reference, const char *path, const char *model)
{
    size_t len, i, max;
    char *text = test_read_file(path, &len);
    yyjson_doc *doc = yyjson_read(text, len, 0);
    yyjson_val *item, *cases;

    assert_non_null(doc);
    cases = yyjson_obj_get(yyjson_obj_get(yyjson_obj_get(yyjson_doc_get_root(doc), "models"), model), "cases");
    *reference = (struct reference){.n_cases = yyjson_arr_size(cases)};
    reference->cases = calloc(reference->n_cases + 1, sizeof(*reference->cases));
    assert_non_null(reference->cases);
    yyjson_arr_foreach(cases, i, max, item) read_case(&reference->cases[i], item);
    yyjson_doc_free(doc);
    free(text);
}

void reference_release(struct reference *reference)
{
    for (size_t i = 0; i < reference->n_cases; i++) {
        free(reference->cases[i].prompt);
        free(reference->cases[i].answer);
    }
    free(reference->cases);
    *reference = (struct reference){0};
}
