/* Facts about a file. Everything printed here may come from a hostile file, so nothing goes out unescaped. */
#include "file_facts.h"

#include "base/alloc.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

enum { TYPES_MAX = 16, VALUE_WIDTH = 72 };

static uint64_t shape_elements(yyjson_val *tensor)
{
    yyjson_val *shape = yyjson_obj_get(tensor, "shape"), *side;
    yyjson_arr_iter iter = yyjson_arr_iter_with(shape);
    size_t n = 1;

    while ((side = yyjson_arr_iter_next(&iter)) != NULL) {
        if (!rv_size_mul(n, yyjson_get_uint(side), &n))
            return 0;
    }
    return n;
}

ruvllm_status rv_file_facts_init(struct rv_file_facts *facts, const char *path, struct ruvllm_error *err)
{
    yyjson_val *root, *tensors, *tensor;
    yyjson_arr_iter iter;
    char *json;
    ruvllm_status rc;

    *facts = (struct rv_file_facts){0};
    rc = ruvllm_inspect(path, &json, err);
    if (rc)
        return rc;
    facts->doc = yyjson_read(json, strlen(json), YYJSON_READ_NOFLAG);
    ruvllm_free(json);
    root = yyjson_doc_get_root(facts->doc);
    if (!yyjson_is_obj(root)) {
        rv_file_facts_release(facts);
        return rv_fail(err, RUVLLM_INTERNAL, "cannot read the description of '%s'", path);
    }
    facts->damage = yyjson_get_str(yyjson_obj_get(root, "error"));
    facts->version = yyjson_get_uint(yyjson_obj_get(root, "version"));
    facts->n_bytes = yyjson_get_uint(yyjson_obj_get(root, "n_bytes"));
    facts->n_metadata = yyjson_obj_size(yyjson_obj_get(root, "metadata"));
    tensors = yyjson_obj_get(root, "tensors");
    facts->n_tensors = yyjson_arr_size(tensors);
    iter = yyjson_arr_iter_with(tensors);
    while ((tensor = yyjson_arr_iter_next(&iter)) != NULL)
        facts->n_params += shape_elements(tensor);
    return RUVLLM_OK;
}

void rv_file_facts_release(struct rv_file_facts *facts)
{
    yyjson_doc_free(facts->doc);
    *facts = (struct rv_file_facts){0};
}

struct type_count {
    const char *name;
    size_t n;
};

static size_t count_types(const struct rv_file_facts *facts, struct type_count counts[TYPES_MAX])
{
    yyjson_arr_iter iter = yyjson_arr_iter_with(yyjson_obj_get(yyjson_doc_get_root(facts->doc), "tensors"));
    yyjson_val *tensor;
    size_t n = 0;

    while ((tensor = yyjson_arr_iter_next(&iter)) != NULL) {
        const char *type = yyjson_get_str(yyjson_obj_get(tensor, "type"));
        size_t i = 0;

        if (!type)
            continue;
        while (i < n && strcmp(counts[i].name, type) != 0)
            i++;
        if (i == TYPES_MAX)
            continue;
        if (i == n)
            counts[n++] = (struct type_count){.name = type};
        counts[i].n++;
        for (; i > 0 && counts[i].n > counts[i - 1].n; i--) {
            struct type_count swapped = counts[i];

            counts[i] = counts[i - 1];
            counts[i - 1] = swapped;
        }
    }
    return n;
}

void rv_file_facts_types(const struct rv_file_facts *facts, char *out, size_t out_size)
{
    struct type_count counts[TYPES_MAX];
    size_t n = count_types(facts, counts), used = 0;

    out[0] = '\0';
    for (size_t i = 0; i < n && used < out_size; i++)
        used += (size_t)snprintf(out + used, out_size - used, "%s%s ×%zu", i ? ", " : "", counts[i].name, counts[i].n);
}

/* A metadata value on one line, cut where it gets long. */
static void print_value(yyjson_val *value)
{
    size_t len;
    char *json;

    if (yyjson_is_str(value)) {
        const char *text = yyjson_get_str(value);

        len = yyjson_get_len(value);
        putchar('"');
        rv_output_field(stdout, text, len < VALUE_WIDTH ? len : rv_utf8_complete_len(text, VALUE_WIDTH));
        fputs(len < VALUE_WIDTH ? "\"" : "\"…", stdout);
        return;
    }
    json = yyjson_val_write(value, YYJSON_WRITE_NOFLAG, &len);
    if (!json)
        return;
    rv_output_field(stdout, json, len < VALUE_WIDTH ? len : rv_utf8_complete_len(json, VALUE_WIDTH));
    fputs(len < VALUE_WIDTH ? "" : "…", stdout);
    free(json);
}

void rv_file_facts_print_metadata(const struct rv_file_facts *facts)
{
    yyjson_obj_iter iter = yyjson_obj_iter_with(yyjson_obj_get(yyjson_doc_get_root(facts->doc), "metadata"));
    yyjson_val *key;

    while ((key = yyjson_obj_iter_next(&iter)) != NULL) {
        size_t len = yyjson_get_len(key);

        fputs("  ", stdout);
        rv_output_field(stdout, yyjson_get_str(key), len);
        printf("%*s  ", len < 44 ? (int)(44 - len) : 0, "");
        print_value(yyjson_obj_iter_get_val(key));
        putchar('\n');
    }
}

void rv_file_facts_print_tensors(const struct rv_file_facts *facts)
{
    yyjson_arr_iter iter = yyjson_arr_iter_with(yyjson_obj_get(yyjson_doc_get_root(facts->doc), "tensors"));
    yyjson_val *tensor;

    while ((tensor = yyjson_arr_iter_next(&iter)) != NULL) {
        yyjson_val *name = yyjson_obj_get(tensor, "name"), *side;
        yyjson_arr_iter sides = yyjson_arr_iter_with(yyjson_obj_get(tensor, "shape"));
        const char *type = yyjson_get_str(yyjson_obj_get(tensor, "type"));
        size_t len = yyjson_get_len(name), used = 0;
        char shape[96] = "", bytes[24];

        while ((side = yyjson_arr_iter_next(&sides)) != NULL && used < sizeof(shape))
            used += (size_t)snprintf(shape + used, sizeof(shape) - used, "%s%llu", used ? " × " : "",
                                     (unsigned long long)yyjson_get_uint(side));
        fputs("  ", stdout);
        rv_output_field(stdout, yyjson_get_str(name), len);
        printf("%*s  %-8s %10s  %s\n", len < 36 ? (int)(36 - len) : 0, "", type ? type : "?",
               rv_output_bytes(yyjson_get_uint(yyjson_obj_get(tensor, "n_bytes")), bytes), shape);
    }
}

void rv_file_facts_json(const struct rv_file_facts *facts, bool with_tensors, yyjson_mut_doc *doc,
                        yyjson_mut_val *object)
{
    yyjson_val *root = yyjson_doc_get_root(facts->doc);

    if (facts->version)
        yyjson_mut_obj_add_uint(doc, object, "version", facts->version);
    yyjson_mut_obj_add_uint(doc, object, "n_bytes", facts->n_bytes);
    yyjson_mut_obj_add_uint(doc, object, "n_params", facts->n_params);
    yyjson_mut_obj_add_uint(doc, object, "n_tensors", facts->n_tensors);
    rv_output_json_add(doc, object, "metadata", yyjson_val_mut_copy(doc, yyjson_obj_get(root, "metadata")));
    if (with_tensors)
        rv_output_json_add(doc, object, "tensors", yyjson_val_mut_copy(doc, yyjson_obj_get(root, "tensors")));
}
