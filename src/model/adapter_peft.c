/*
 * Names lead to matrices of the model; numbers are copied, because the format promises no alignment and queries and
 * keys may change their order. What is written is read again before it takes its name: the hash must be the same.
 */
#include "model/adapter_peft.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/durable.h"
#include "model/gguf_map.h"
#include "model/gguf_value.h"
#include "model/peft_config.h"
#include "model/peft_name.h"
#include "model/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PREFIX = 8, MAX_CONFIG = 1 << 20, MAX_PATH = 4096, MAX_NAME = 160 };

static const char CONFIG_NAME[] = "adapter_config.json";
static const char TENSORS_NAME[] = "adapter_model.safetensors";

/* ---- reading ------------------------------------------------------------------------------- */

static bool is_float_type(enum ggml_type type)
{
    return type == GGML_TYPE_F32 || type == GGML_TYPE_F16 || type == GGML_TYPE_BF16;
}

static ruvllm_status check_shape(const struct rv_safetensors_tensor *t, const struct rv_adapter_file_pair *pair,
                                 const struct rv_peft_name *place, struct ruvllm_error *err)
{
    bool is_a = place->side == RV_ADAPTER_FILE_A;
    int64_t rank = t->shape[is_a ? 0 : 1], width = t->shape[is_a ? 1 : 0], wanted = is_a ? pair->n_in : pair->n_out;

    if (!is_float_type(t->type))
        return rv_fail(err, RUVLLM_UNSUPPORTED, "its numbers are of type %s", ggml_type_name(t->type));
    if (t->n_dims != 2 || width != wanted)
        return rv_fail(err, RUVLLM_FORMAT,
                       "it is %lldx%lld where the model's matrix has %lld: it was made for another base model",
                       (long long)t->shape[0], (long long)t->shape[1], (long long)wanted);
    if (rank > RV_ADAPTER_MAX_RANK)
        return rv_fail(err, RUVLLM_FORMAT, "rank %lld is more than %d", (long long)rank, RV_ADAPTER_MAX_RANK);
    if (pair->rank && pair->rank != rank)
        return rv_fail(err, RUVLLM_FORMAT, "its A and B have ranks %d and %lld", pair->rank, (long long)rank);
    return RUVLLM_OK;
}

static ruvllm_status take_matrix(struct rv_adapter_file *file, const struct rv_adapter_file_base *base,
                                 const struct rv_peft_config *config, const struct rv_safetensors_tensor *t,
                                 const struct rv_peft_name *place, struct ruvllm_error *err)
{
    struct rv_adapter_file_pair *pair;
    struct rv_adapter_file_matrix *matrix;
    struct rv_adapter_file_view view;
    void *data;
    ruvllm_status rc = rv_adapter_file_pair_at(file, base, place->layer, place->part, &pair, err);

    if (!rc)
        rc = check_shape(t, pair, place, err);
    if (rc)
        return rc;
    matrix = place->side == RV_ADAPTER_FILE_A ? &pair->a : &pair->b;
    if (matrix->data)
        return rv_fail(err, RUVLLM_FORMAT, "another tensor changes the same matrix");
    pair->rank = (int32_t)t->shape[place->side == RV_ADAPTER_FILE_A ? 0 : 1];
    rc = rv_peft_config_scale(config, place->module, pair->rank, &pair->scale, err);
    if (rc)
        return rc;
    data = rv_adapter_file_alloc(file, (size_t)t->n_bytes);
    if (!data)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate its %llu bytes", (unsigned long long)t->n_bytes);
    *matrix = (struct rv_adapter_file_matrix){t->type, data};
    view = rv_adapter_file_side(pair, place->side);
    rv_peft_name_copy_rows(base, place->part, place->side, data, t->data, ggml_row_size(t->type, view.row_len),
                           view.n_rows, true);
    return RUVLLM_OK;
}

static ruvllm_status take_tensors(struct rv_adapter_file *file, const struct rv_adapter_file_base *base,
                                  const struct rv_peft_config *config, const struct rv_safetensors *tensors,
                                  struct ruvllm_error *err)
{
    char label[RV_GGUF_VALUE_LABEL];

    for (size_t i = 0; i < rv_safetensors_n_tensors(tensors); i++) {
        const struct rv_safetensors_tensor *t = rv_safetensors_tensor_at(tensors, i);
        struct rv_peft_name place;
        ruvllm_status rc = rv_peft_name_parse(t->name, base, &place, err);

        if (rc)
            return rc;
        rc = take_matrix(file, base, config, t, &place, err);
        if (rc)
            return rv_fail_in(err, rc, "tensor '%s'", rv_gguf_value_label(t->name.data, t->name.len, label));
    }
    return RUVLLM_OK;
}

static ruvllm_status keep_text(struct rv_adapter_file *file, struct rv_str text, struct rv_str *out,
                               struct ruvllm_error *err)
{
    char *copy = rv_adapter_file_alloc(file, text.len);

    if (!copy)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %zu bytes of its configuration", text.len);
    memcpy(copy, text.data, text.len);
    *out = (struct rv_str){copy, text.len};
    return RUVLLM_OK;
}

/* The header, for writing the same file again. The reader has checked its length. */
static struct rv_str header_of(const struct rv_safetensors *tensors)
{
    const unsigned char *bytes = rv_safetensors_bytes(tensors);

    return (struct rv_str){(const char *)bytes + PREFIX, (size_t)rv_gguf_value_load_u64(bytes)};
}

static ruvllm_status read_all(struct rv_adapter_file **out, struct rv_str config_text,
                              const struct rv_safetensors *tensors, const struct rv_adapter_file_base *base,
                              struct ruvllm_error *err)
{
    struct rv_peft_config config;
    struct rv_adapter_file *file = NULL;
    ruvllm_status rc = rv_peft_config_parse(&config, config_text, err);

    if (rc)
        return rc;
    rc = rv_adapter_file_new(&file, err);
    if (!rc)
        rc = take_tensors(file, base, &config, tensors, err);
    if (!rc)
        rc = keep_text(file, config_text, &file->peft_config, err);
    if (!rc)
        rc = keep_text(file, header_of(tensors), &file->peft_header, err);
    if (!rc)
        rc = rv_adapter_file_seal(file, base, err);
    rv_peft_config_release(&config);
    if (rc) {
        rv_adapter_file_close(file);
        return rc;
    }
    *out = file;
    return RUVLLM_OK;
}

ruvllm_status rv_adapter_peft_open_memory(struct rv_adapter_file **out, struct rv_str config, struct rv_str bytes,
                                          const struct rv_adapter_file_base *base, struct ruvllm_error *err)
{
    struct rv_safetensors *tensors;
    ruvllm_status rc;

    *out = NULL;
    rc = rv_safetensors_open_memory(&tensors, bytes.data, bytes.len, err);
    if (rc)
        return rv_fail_in(err, rc, "cannot read '%s'", TENSORS_NAME);
    rc = read_all(out, config, tensors, base, err);
    rv_safetensors_close(tensors);
    return rc;
}

static ruvllm_status join_path(char *out, const char *folder, const char *name, struct ruvllm_error *err)
{
    int len = snprintf(out, MAX_PATH, "%s/%s", folder, name);

    return len > 0 && len < MAX_PATH ? RUVLLM_OK : rv_fail(err, RUVLLM_INVALID, "its path is too long");
}

static ruvllm_status open_tensors(struct rv_safetensors **out, const char *folder, struct ruvllm_error *err)
{
    char path[MAX_PATH];
    struct stat st;
    ruvllm_status rc = join_path(path, folder, "adapter_model.bin", err);
    bool has_pickle = !rc && stat(path, &st) == 0;

    if (!rc)
        rc = join_path(path, folder, TENSORS_NAME, err);
    if (rc)
        return rc;
    if (has_pickle && stat(path, &st) != 0)
        return rv_fail(err, RUVLLM_UNSUPPORTED,
                       "its numbers are in adapter_model.bin, which could run code: save it as safetensors");
    rc = rv_safetensors_open(out, path, err);
    return rc ? rv_fail_in(err, rc, "cannot read '%s'", TENSORS_NAME) : RUVLLM_OK;
}

ruvllm_status rv_adapter_peft_open(struct rv_adapter_file **out, const char *path,
                                   const struct rv_adapter_file_base *base, struct ruvllm_error *err)
{
    struct rv_gguf_map config = {.fd = -1};
    struct rv_safetensors *tensors = NULL;
    char config_path[MAX_PATH];
    ruvllm_status rc = join_path(config_path, path, CONFIG_NAME, err);

    *out = NULL;
    if (!rc) {
        rc = rv_gguf_map_open(&config, config_path, err);
        if (!rc && config.len > MAX_CONFIG)
            rc = rv_fail(err, RUVLLM_TOO_LARGE, "it has %zu bytes, more than %d", config.len, MAX_CONFIG);
        if (rc)
            rc = rv_fail_in(err, rc, "cannot read '%s'", CONFIG_NAME);
    }
    if (!rc)
        rc = open_tensors(&tensors, path, err);
    if (!rc)
        rc = read_all(out, (struct rv_str){config.data ? config.data : "", config.len}, tensors, base, err);
    rv_safetensors_close(tensors);
    rv_gguf_map_close(&config);
    return rc;
}

/* ---- writing what came from PEFT ------------------------------------------------------------ */

static size_t pair_bytes(const struct rv_adapter_file_pair *pair)
{
    return rv_adapter_file_bytes(&pair->a, pair->n_in, pair->rank) +
           rv_adapter_file_bytes(&pair->b, pair->rank, pair->n_out);
}

static const struct rv_adapter_file_pair *find_pair(const struct rv_adapter_file *file,
                                                    const struct rv_peft_name *place)
{
    for (size_t i = 0; i < file->n_layer_pairs; i++) {
        if (file->pairs[i].layer == place->layer && file->pairs[i].part == place->part)
            return &file->pairs[i];
    }
    return NULL;
}

/* Puts each side where the header wants it; `bytes` is the whole file, its data still empty. */
static ruvllm_status fill_data(const struct rv_adapter_file *file, const struct rv_adapter_file_base *base,
                               unsigned char *bytes, const struct rv_safetensors *layout, struct ruvllm_error *err)
{
    for (size_t i = 0; i < rv_safetensors_n_tensors(layout); i++) {
        const struct rv_safetensors_tensor *t = rv_safetensors_tensor_at(layout, i);
        const struct rv_adapter_file_pair *pair;
        struct rv_adapter_file_view view;
        struct rv_peft_name place;
        ruvllm_status rc = rv_peft_name_parse(t->name, base, &place, err);

        if (rc)
            return rc;
        pair = find_pair(file, &place);
        if (pair)
            view = rv_adapter_file_side(pair, place.side);
        if (!pair || rv_adapter_file_bytes(view.matrix, view.row_len, view.n_rows) != t->n_bytes)
            return rv_fail(err, RUVLLM_FORMAT, "the PEFT header it carries is not that of its content");
        rv_peft_name_copy_rows(base, place.part, place.side, bytes + ((const unsigned char *)t->data - bytes),
                               view.matrix->data, ggml_row_size(view.matrix->type, view.row_len), view.n_rows, false);
    }
    return RUVLLM_OK;
}

/* Reads what would be written, and asks whether it is the same adapter. */
static ruvllm_status check_same(const struct rv_adapter_file *file, const struct rv_adapter_file_base *base,
                                const unsigned char *bytes, size_t len, struct ruvllm_error *err)
{
    struct rv_adapter_file *again;
    ruvllm_status rc =
        rv_adapter_peft_open_memory(&again, file->peft_config, (struct rv_str){(const char *)bytes, len}, base, err);

    if (!rc && memcmp(again->hash, file->hash, sizeof(file->hash)) != 0)
        rc = rv_fail(err, RUVLLM_FORMAT, "the PEFT configuration it carries is not that of its content");
    rv_adapter_file_close(again);
    return rc;
}

ruvllm_status rv_adapter_peft_rebuild(const struct rv_adapter_file *file, const struct rv_adapter_file_base *base,
                                      unsigned char **out, size_t *len, struct ruvllm_error *err)
{
    uint64_t header_len = file->peft_header.len;
    struct rv_safetensors *layout = NULL;
    unsigned char *bytes;
    ruvllm_status rc;

    *out = NULL;
    *len = PREFIX + file->peft_header.len;
    for (size_t i = 0; i < file->n_pairs; i++)
        *len += pair_bytes(&file->pairs[i]);
    bytes = rv_calloc(*len, 1);
    if (!bytes)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a file of %zu bytes", *len);
    memcpy(bytes, &header_len, sizeof(header_len));
    if (header_len)
        memcpy(bytes + PREFIX, file->peft_header.data, file->peft_header.len);
    rc = rv_safetensors_open_memory(&layout, bytes, *len, err);
    if (!rc)
        rc = fill_data(file, base, bytes, layout, err);
    rv_safetensors_close(layout);
    if (!rc)
        rc = check_same(file, base, bytes, *len, err);
    if (rc) {
        rv_free(bytes);
        return rc;
    }
    *out = bytes;
    return RUVLLM_OK;
}

static ruvllm_status write_as_it_came(const struct rv_adapter_file *file, const struct rv_adapter_file_base *base,
                                      int folder, struct ruvllm_error *err)
{
    unsigned char *bytes = NULL;
    size_t len = 0;
    ruvllm_status rc = rv_adapter_peft_rebuild(file, base, &bytes, &len, err);

    if (!rc)
        rc = rv_durable_save(folder, TENSORS_NAME, bytes, len, err);
    if (!rc)
        rc = rv_durable_save(folder, CONFIG_NAME, file->peft_config.data, file->peft_config.len, err);
    rv_free(bytes);
    return rc;
}

/* ---- writing what did not -------------------------------------------------------------------- */

struct draft {
    struct rv_safetensors_tensor *tensors; // two of each pair
    char (*names)[MAX_NAME];
    void **copies; // their data
    size_t n;
};

static void draft_release(struct draft *draft)
{
    for (size_t i = 0; draft->copies && i < draft->n; i++)
        rv_free(draft->copies[i]);
    rv_free(draft->copies);
    rv_free(draft->names);
    rv_free(draft->tensors);
}

static ruvllm_status draft_side(struct draft *draft, const struct rv_adapter_file_base *base,
                                const struct rv_adapter_file_pair *pair, enum rv_adapter_file_side side,
                                struct ruvllm_error *err)
{
    struct rv_adapter_file_view view = rv_adapter_file_side(pair, side);
    struct rv_adapter_file_matrix floats = {is_float_type(view.matrix->type) ? view.matrix->type : GGML_TYPE_F32, NULL};
    const char *module = rv_peft_name_module(base, pair->part);
    size_t n_bytes = rv_adapter_file_bytes(&floats, view.row_len, view.n_rows), i = draft->n;
    void *copy = rv_malloc(n_bytes), *read = NULL;

    if (!module) {
        rv_free(copy);
        return rv_fail(err, RUVLLM_UNSUPPORTED, "it changes a matrix PEFT has no name for");
    }
    draft->copies[draft->n++] = copy;
    if (floats.type != view.matrix->type)
        read = rv_malloc(n_bytes);
    if (!copy || (floats.type != view.matrix->type && !read))
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %zu bytes of numbers", n_bytes);
    if (read)
        rv_adapter_file_floats(view.matrix, view.row_len, 0, view.n_rows, read);
    rv_peft_name_copy_rows(base, pair->part, side, copy, read ? read : view.matrix->data,
                           ggml_row_size(floats.type, view.row_len), view.n_rows, false);
    rv_free(read);
    snprintf(draft->names[i], MAX_NAME, "base_model.model.model.layers.%d.%s.lora_%c.weight", pair->layer, module,
             side == RV_ADAPTER_FILE_A ? 'A' : 'B');
    draft->tensors[i] = (struct rv_safetensors_tensor){
        .name = {draft->names[i], strlen(draft->names[i])},
        .type = floats.type,
        .n_dims = 2,
        .shape = {view.n_rows, view.row_len, 1, 1},
        .n_bytes = n_bytes,
        .data = copy,
    };
    return RUVLLM_OK;
}

/* Ranks and alphas that are not the first pair's, as patterns. */
static void add_pattern(struct rv_buf *json, const struct rv_adapter_file *file,
                        const struct rv_adapter_file_base *base, bool is_alpha)
{
    const struct rv_adapter_file_pair *first = &file->pairs[0];
    const char *comma = "";

    rv_buf_addf(json, "  \"%s\": {", is_alpha ? "alpha_pattern" : "rank_pattern");
    for (size_t i = 0; i < file->n_pairs; i++) {
        const struct rv_adapter_file_pair *pair = &file->pairs[i];
        double alpha = (double)pair->scale * pair->rank;

        if (is_alpha ? alpha == (double)first->scale * first->rank : pair->rank == first->rank)
            continue;
        rv_buf_addf(json, "%s\n    \"model.layers.%d.%s\": ", comma, pair->layer,
                    rv_peft_name_module(base, pair->part));
        if (is_alpha)
            rv_buf_addf(json, "%.17g", alpha);
        else
            rv_buf_addf(json, "%d", pair->rank);
        comma = ",";
    }
    rv_buf_add_str(json, *comma ? "\n  },\n" : "},\n");
}

/* Names of the modules that are changed anywhere, each once. */
static void add_targets(struct rv_buf *json, const struct rv_adapter_file *file,
                        const struct rv_adapter_file_base *base)
{
    bool is_changed[RV_N_PARTS] = {false};
    const char *comma = "";

    for (size_t i = 0; i < file->n_pairs; i++)
        is_changed[file->pairs[i].part] = true;
    rv_buf_add_str(json, "  \"target_modules\": [");
    for (int part = 0; part < RV_N_PARTS; part++) {
        const char *name = is_changed[part] ? rv_peft_name_module(base, (enum rv_part)part) : NULL;

        if (!name)
            continue;
        rv_buf_addf(json, "%s\"%s\"", comma, strchr(name, '.') + 1);
        comma = ", ";
    }
    rv_buf_add_str(json, "]\n");
}

static ruvllm_status save_config(const struct rv_adapter_file *file, const struct rv_adapter_file_base *base,
                                 int folder, struct ruvllm_error *err)
{
    struct rv_buf json;
    ruvllm_status rc;

    rv_buf_init(&json, MAX_CONFIG);
    rv_buf_add_str(&json, "{\n  \"base_model_name_or_path\": null,\n  \"bias\": \"none\",\n"
                          "  \"fan_in_fan_out\": false,\n  \"inference_mode\": true,\n");
    add_pattern(&json, file, base, true);
    add_pattern(&json, file, base, false);
    rv_buf_addf(&json, "  \"lora_alpha\": %.17g,\n  \"lora_dropout\": 0.0,\n  \"peft_type\": \"LORA\",\n  \"r\": %d,\n",
                (double)file->pairs[0].scale * file->pairs[0].rank, file->pairs[0].rank);
    rv_buf_add_str(&json, "  \"task_type\": \"CAUSAL_LM\",\n  \"use_dora\": false,\n  \"use_rslora\": false,\n");
    add_targets(&json, file, base);
    rv_buf_add_str(&json, "}\n");
    rc = rv_buf_status(&json, "the configuration", err);
    if (!rc)
        rc = rv_durable_save(folder, CONFIG_NAME, json.data, json.len, err);
    rv_buf_release(&json);
    return rc;
}

static ruvllm_status write_anew(const struct rv_adapter_file *file, const struct rv_adapter_file_base *base, int folder,
                                const char *path, struct ruvllm_error *err)
{
    static const struct rv_safetensors_note format = {{"format", 6}, {"pt", 2}};
    char tensors_path[MAX_PATH];
    size_t n = file->n_pairs * 2;
    struct draft draft = {
        .tensors = rv_calloc(n, sizeof(*draft.tensors)),
        .names = rv_calloc(n, sizeof(*draft.names)),
        .copies = rv_calloc(n, sizeof(*draft.copies)),
    };
    ruvllm_status rc = join_path(tensors_path, path, TENSORS_NAME, err);

    if (!rc && (!draft.tensors || !draft.names || !draft.copies))
        rc = rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a list of %zu tensors", n);
    for (size_t i = 0; !rc && i < file->n_pairs; i++) {
        rc = draft_side(&draft, base, &file->pairs[i], RV_ADAPTER_FILE_A, err);
        if (!rc)
            rc = draft_side(&draft, base, &file->pairs[i], RV_ADAPTER_FILE_B, err);
    }
    if (!rc)
        rc = rv_safetensors_write_noted(tensors_path, draft.tensors, draft.n, &format, 1, err);
    if (!rc)
        rc = save_config(file, base, folder, err);
    draft_release(&draft);
    return rc;
}

/* ---- the folder ---------------------------------------------------------------------------- */

static void remove_folder(const char *path)
{
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (folder >= 0) {
        unlinkat(folder, CONFIG_NAME, 0);
        unlinkat(folder, TENSORS_NAME, 0);
        close(folder);
    }
    rmdir(path);
}

/* Its name reaches the disk with the folder it is in. */
static ruvllm_status publish_folder(const char *from, const char *to, struct ruvllm_error *err)
{
    char parent[MAX_PATH];
    char *slash;
    int fd;

    if (rename(from, to) != 0)
        return rv_fail_errno(err, errno, "cannot rename '%s' to '%s'", from, to);
    snprintf(parent, sizeof(parent), "%s", to);
    for (size_t len = strlen(parent); len > 1 && parent[len - 1] == '/'; len--)
        parent[len - 1] = '\0';
    slash = strrchr(parent, '/');
    if (slash)
        slash[slash == parent ? 1 : 0] = '\0';
    fd = open(slash ? parent : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) != 0) {
        int why = errno;

        if (fd >= 0)
            close(fd);
        return rv_fail_errno(err, why, "cannot bring the folder of '%s' to the disk", to);
    }
    close(fd);
    return RUVLLM_OK;
}

static ruvllm_status make_folder(const char *partial, const char *path, int *folder, struct ruvllm_error *err)
{
    struct stat st;

    if (lstat(path, &st) == 0)
        return rv_fail(err, RUVLLM_INVALID, "it exists already; give another name");
    remove_folder(partial); // what a crash may have left
    if (mkdir(partial, 0777) != 0)
        return rv_fail_errno(err, errno, "cannot make '%s'", partial);
    *folder = open(partial, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return *folder < 0 ? rv_fail_errno(err, errno, "cannot open '%s'", partial) : RUVLLM_OK;
}

ruvllm_status rv_adapter_peft_write(const struct rv_adapter_file *file, const struct rv_adapter_file_base *base,
                                    const char *path, struct ruvllm_error *err)
{
    char partial[MAX_PATH];
    size_t len = strlen(path);
    int folder = -1;
    ruvllm_status rc;

    if (file->n_layer_pairs < file->n_pairs)
        return rv_fail(err, RUVLLM_UNSUPPORTED, "it changes the head's input, which PEFT has no name for");
    while (len > 1 && path[len - 1] == '/')
        len--;
    if (len + sizeof(".partial") + sizeof(TENSORS_NAME) > sizeof(partial))
        return rv_fail(err, RUVLLM_INVALID, "its path is too long");
    snprintf(partial, sizeof(partial), "%.*s.partial", (int)len, path);
    rc = make_folder(partial, path, &folder, err);
    if (rc)
        return rc;
    if (file->peft_header.len && file->peft_config.len)
        rc = write_as_it_came(file, base, folder, err);
    else
        rc = write_anew(file, base, folder, partial, err);
    if (!rc)
        rc = publish_folder(partial, path, err);
    close(folder);
    if (rc)
        remove_folder(partial);
    return rc;
}
