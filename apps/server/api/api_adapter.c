/* What clients say of adapters and what they are told. */
#include "server/api/api_adapter.h"

#include "server/api/api_json.h"

#include <stdio.h>
#include <string.h>

enum { MAX_PART = 64 };

#define MAX_WEIGHT 8.0

const struct rv_api_field rv_api_adapter_fields[] = {{.name = "adapter"}, {.name = NULL}};

static const char id_wanted[] = "'%s' must be the id of an adapter: 'name' or 'tenant/name' of letters, digits, '.', "
                                "'_' and '-', neither beginning with '.'";

bool rv_api_adapter_is_id(const char *id)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    const char *slash = strchr(id, '/');
    const char *name = slash ? slash + 1 : id;
    size_t tenant_len = slash ? (size_t)(slash - id) : 0, name_len = strlen(name);

    if (slash && (tenant_len == 0 || tenant_len > MAX_PART || id[0] == '.' || strspn(id, allowed) != tenant_len))
        return false;
    return name_len > 0 && name_len <= MAX_PART && name[0] != '.' && strspn(name, allowed) == name_len &&
           strlen(id) <= RV_API_MAX_ADAPTER;
}

/* ---- in a request ------------------------------------------------------------------------------ */

static void check_id(struct rv_api_reader *reader, const char *id, const char *path)
{
    if (!reader->failed && !rv_api_adapter_is_id(id))
        rv_api_fields_fail(reader, path, "invalid_value", id_wanted, path);
}

static void read_use(struct rv_api_reader *reader, yyjson_val *value, size_t i, struct rv_api_adapter_use *out)
{
    static const struct rv_api_field known[] = {
        {.name = "id"}, {.name = "weight"}, {.name = "generation"}, {.name = NULL}};
    static const struct rv_api_field *const tables[] = {known};
    struct rv_api_fields use;
    char path[32];

    snprintf(path, sizeof(path), "adapter[%zu]", i);
    if (!rv_api_fields_init(&use, reader, value, path))
        return;
    rv_api_fields_only(&use, tables, 1);
    rv_api_fields_require(&use, "id");
    rv_api_fields_string(&use, "id", 1, RV_API_MAX_ADAPTER, &out->id);
    snprintf(path, sizeof(path), "adapter[%zu].id", i);
    check_id(reader, out->id, path);
    rv_api_fields_float(&use, "weight", -MAX_WEIGHT, MAX_WEIGHT, &out->weight);
    rv_api_fields_int(&use, "generation", 1, INT64_MAX, &out->generation);
}

static void check_twice(struct rv_api_reader *reader, const struct rv_api_adapter_use *uses, size_t i)
{
    for (size_t k = 0; !reader->failed && k < i; k++)
        if (strcmp(uses[k].id, uses[i].id) == 0)
            rv_api_fields_fail(reader, "adapter", "invalid_value",
                               "'adapter' names \"%s\" twice; add the weights up and name it once", uses[i].id);
}

void rv_api_adapter_read(struct rv_api_fields *body, struct rv_api_request *request)
{
    yyjson_val *value = rv_api_fields_value(body, "adapter");
    struct rv_api_adapter_use *uses;
    yyjson_arr_iter iter;
    size_t n = 1;

    if (yyjson_is_arr(value))
        value = rv_api_fields_array(body, "adapter", 1, RV_API_MAX_ADAPTERS, &n);
    uses = value ? rv_api_fields_alloc(body->reader, n, sizeof(*uses)) : NULL;
    if (!uses)
        return;
    uses[0].weight = 1;
    if (yyjson_is_arr(value)) {
        iter = yyjson_arr_iter_with(value);
        for (size_t i = 0; i < n; i++) {
            uses[i].weight = 1;
            read_use(body->reader, yyjson_arr_iter_next(&iter), i, &uses[i]);
            check_twice(body->reader, uses, i);
        }
    } else if (rv_api_fields_string(body, "adapter", 1, RV_API_MAX_ADAPTER, &uses[0].id)) {
        check_id(body->reader, uses[0].id, "adapter");
    }
    request->adapters = uses;
    request->n_adapters = n;
}

/* ---- loading one --------------------------------------------------------------------------------- */

static void copy(char *out, size_t cap, const char *text)
{
    snprintf(out, cap, "%s", text ? text : "");
}

static void read_load(struct rv_api_fields *body, void *user)
{
    struct rv_api_adapter_load *out = user;
    static const struct rv_api_field known[] = {
        {.name = "id"}, {.name = "path"}, {.name = "model"}, {.name = "expected"}, {.name = NULL}};
    static const struct rv_api_field *const tables[] = {known};
    const char *id = "", *path = "", *model = "";

    rv_api_fields_only(body, tables, 1);
    rv_api_fields_require(body, "id");
    rv_api_fields_require(body, "path");
    rv_api_fields_string(body, "id", 1, RV_API_MAX_ADAPTER, &id);
    check_id(body->reader, id, "id");
    rv_api_fields_string(body, "path", 1, RV_API_MAX_PATH, &path);
    rv_api_fields_string(body, "model", 1, RV_API_MAX_MODEL, &model);
    rv_api_fields_int(body, "expected", -1, INT64_MAX, &out->expected);
    copy(out->id, sizeof(out->id), id);
    copy(out->path, sizeof(out->path), path);
    copy(out->model, sizeof(out->model), model);
}

ruvllm_status rv_api_adapter_load_parse(const char *body, size_t len, struct rv_api_adapter_load *out,
                                        struct rv_api_error *err)
{
    *out = (struct rv_api_adapter_load){.expected = -1};
    return rv_api_fields_parse(body, len, read_load, out, err);
}

/* ---- replies --------------------------------------------------------------------------------------- */

/* A norm is a sum of squares of numbers from a file: it may be too large for what JSON can say in 32 bits. */
static void add_norm(struct rv_buf *out, const char *key, double norm)
{
    char text[40];

    snprintf(text, sizeof(text), "%.9g", norm);
    if (norm >= 0 && norm <= 1e300)
        rv_api_json_raw(out, key, text);
    else
        rv_api_json_null(out, key);
}

void rv_api_adapter_reply(struct rv_buf *out, const char *model, const struct ruvllm_adapter_info *info)
{
    rv_api_json_begin(out, NULL, '{');
    rv_api_json_str(out, "id", info->id);
    rv_api_json_str(out, "object", "adapter");
    rv_api_json_str(out, "model", model);
    rv_api_json_int(out, "generation", info->generation);
    rv_api_json_str(out, "hash", info->hash);
    rv_api_json_int(out, "rank", info->max_rank);
    rv_api_json_int(out, "pairs", info->n_pairs);
    rv_api_json_bool(out, "changes_head", info->changes_head);
    rv_api_json_bool(out, "changes_layers", info->changes_layers);
    rv_api_json_bool(out, "resident", info->is_resident);
    rv_api_json_int(out, "bytes", (int64_t)info->n_bytes);
    rv_api_json_int(out, "file_bytes", (int64_t)info->file_bytes);
    rv_api_json_int(out, "users", info->n_users);
    add_norm(out, "norm", info->norm);
    rv_api_json_end(out, '}');
}

void rv_api_adapter_reply_deleted(struct rv_buf *out, const char *id)
{
    rv_api_json_begin(out, NULL, '{');
    rv_api_json_str(out, "id", id);
    rv_api_json_str(out, "object", "adapter.deleted");
    rv_api_json_bool(out, "deleted", true);
    rv_api_json_end(out, '}');
}

void rv_api_adapter_reply_diff(struct rv_buf *out, const char *id, int64_t from, int64_t to, double norm)
{
    rv_api_json_begin(out, NULL, '{');
    rv_api_json_str(out, "id", id);
    rv_api_json_str(out, "object", "adapter.diff");
    rv_api_json_int(out, "from", from);
    rv_api_json_int(out, "to", to);
    add_norm(out, "norm", norm);
    rv_api_json_end(out, '}');
}

void rv_api_adapter_missing(struct rv_api_error *err, const char *id)
{
    rv_api_error_set(err, 404, "adapter_not_found", "adapter",
                     "there is no adapter '%.*s' for this key; /v1/adapters lists those there are", RV_API_ERROR_NAME,
                     id);
}
