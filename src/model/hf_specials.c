/* The tokenizer's own word counts most, then the model's: a tokenizer's EOS is what its chat template writes. */
#include "model/hf_specials.h"

#include "base/alloc.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <yyjson.h>

#define CONFIG_MAX ((size_t)32 << 20)
#define TEMPLATE_MAX ((size_t)1 << 20)

struct reader {
    const struct rv_hf_tokenizer *tokenizer;
    const struct rv_hf_config *config;
    yyjson_val *own; // tokenizer_config.json; NULL: there is none
    struct rv_gguf_image *image;
    int32_t first, last; // what the post-processor puts before and behind a text; -1: nothing
};

static yyjson_val *member(yyjson_val *object, const char *name)
{
    yyjson_val *value = yyjson_obj_get(object, name);

    return yyjson_is_null(value) ? NULL : value;
}

/* A token named in tokenizer_config.json, as a string or an object; -1 when it says none. */
static ruvllm_status find_named(const struct reader *r, const char *name, int32_t *id, struct ruvllm_error *err)
{
    yyjson_val *value = member(r->own, name);

    *id = -1;
    if (yyjson_is_obj(value))
        value = member(value, "content");
    if (!value)
        return RUVLLM_OK;
    if (!yyjson_is_str(value))
        return rv_fail(err, RUVLLM_FORMAT, "'%s' of 'tokenizer_config.json' is no token", name);
    *id = rv_hf_tokenizer_find(r->tokenizer, yyjson_get_str(value), yyjson_get_len(value));
    return RUVLLM_OK;
}

/* ---- the post-processor -------------------------------------------------------------------- */

static ruvllm_status fail_processor(struct ruvllm_error *err)
{
    return rv_fail(err, RUVLLM_UNSUPPORTED,
                   "the post-processor of 'tokenizer.json' does more than put a token before and behind the text");
}

static ruvllm_status read_template_step(struct reader *r, yyjson_val *step, bool *has_text, struct ruvllm_error *err)
{
    yyjson_val *id = member(member(step, "SpecialToken"), "id");
    int32_t *slot = *has_text ? &r->last : &r->first;

    if (member(step, "Sequence")) {
        if (*has_text)
            return fail_processor(err);
        *has_text = true;
        return RUVLLM_OK;
    }
    if (!yyjson_is_str(id) || *slot >= 0)
        return fail_processor(err);
    *slot = rv_hf_tokenizer_find(r->tokenizer, yyjson_get_str(id), yyjson_get_len(id));
    return *slot >= 0 ? RUVLLM_OK
                      : rv_fail(err, RUVLLM_FORMAT, "the post-processor of 'tokenizer.json' names a token it has not");
}

static ruvllm_status read_template(struct reader *r, yyjson_val *processor, struct ruvllm_error *err)
{
    yyjson_val *steps = member(processor, "single"), *step;
    yyjson_arr_iter iter;
    bool has_text = false;
    ruvllm_status rc = RUVLLM_OK;

    if (!yyjson_is_arr(steps) || r->first >= 0 || r->last >= 0)
        return fail_processor(err);
    yyjson_arr_iter_init(steps, &iter);
    while (!rc && (step = yyjson_arr_iter_next(&iter)))
        rc = read_template_step(r, step, &has_text, err);
    return rc || has_text ? rc : fail_processor(err);
}

static ruvllm_status read_processor(struct reader *r, yyjson_val *processor, struct ruvllm_error *err)
{
    if (yyjson_equals_str(member(processor, "type"), "ByteLevel"))
        return RUVLLM_OK; // concerns where tokens lie in the text only
    if (yyjson_equals_str(member(processor, "type"), "TemplateProcessing"))
        return read_template(r, processor, err);
    return fail_processor(err);
}

static ruvllm_status read_processors(struct reader *r, struct ruvllm_error *err)
{
    yyjson_val *processor = member(r->tokenizer->json.root, "post_processor"), *each;
    yyjson_arr_iter iter;
    ruvllm_status rc = RUVLLM_OK;

    if (!processor)
        return RUVLLM_OK;
    if (!yyjson_equals_str(member(processor, "type"), "Sequence"))
        return read_processor(r, processor, err);
    yyjson_arr_iter_init(member(processor, "processors"), &iter);
    while (!rc && (each = yyjson_arr_iter_next(&iter)))
        rc = read_processor(r, each, err);
    return rc;
}

/* ---- tokens -------------------------------------------------------------------------------- */

static void write_id(struct reader *r, const char *key, int32_t id)
{
    if (id >= 0)
        rv_gguf_image_u32(r->image, key, (uint32_t)id);
}

/* tokenizer_config.json's flag, or else what the post-processor does. */
static bool adds(const struct reader *r, const char *name, int32_t processed)
{
    yyjson_val *flag = member(r->own, name);

    return yyjson_is_bool(flag) ? yyjson_get_bool(flag) : processed >= 0;
}

static ruvllm_status write_beginning(struct reader *r, struct ruvllm_error *err)
{
    bool adds_bos = adds(r, "add_bos_token", r->first);
    int32_t bos;
    ruvllm_status rc = find_named(r, "bos_token", &bos, err);

    if (rc)
        return rc;
    if (adds_bos && r->first >= 0)
        bos = r->first;
    if (bos < 0)
        bos = r->config->bos;
    write_id(r, "tokenizer.ggml.bos_token_id", bos);
    rv_gguf_image_bool(r->image, "tokenizer.ggml.add_bos_token", adds_bos);
    return RUVLLM_OK;
}

static ruvllm_status write_ends(struct reader *r, struct ruvllm_error *err)
{
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    const struct rv_hf_config *c = r->config;
    int32_t eos;
    size_t n = 0;
    ruvllm_status rc = find_named(r, "eos_token", &eos, err);

    if (rc)
        return rc;
    if (eos >= 0)
        write_id(r, keys[n++], eos);
    for (size_t i = 0; i < c->n_ends; i++) {
        if (c->ends[i] == eos)
            continue;
        if (n == sizeof(keys) / sizeof(keys[0]))
            return rv_fail(err, RUVLLM_UNSUPPORTED, "more than %zu tokens end an answer", n);
        write_id(r, keys[n++], c->ends[i]);
    }
    rv_gguf_image_bool(r->image, "tokenizer.ggml.add_eos_token", adds(r, "add_eos_token", r->last));
    return RUVLLM_OK;
}

static ruvllm_status write_others(struct reader *r, struct ruvllm_error *err)
{
    yyjson_val *unknown = member(member(r->tokenizer->json.root, "model"), "unk_token");
    int32_t id;
    ruvllm_status rc = find_named(r, "unk_token", &id, err);

    if (rc)
        return rc;
    if (yyjson_is_str(unknown))
        id = rv_hf_tokenizer_find(r->tokenizer, yyjson_get_str(unknown), yyjson_get_len(unknown));
    write_id(r, "tokenizer.ggml.unknown_token_id", id);
    rc = find_named(r, "pad_token", &id, err);
    if (!rc)
        write_id(r, "tokenizer.ggml.padding_token_id", id);
    return rc;
}

/* ---- the template -------------------------------------------------------------------------- */

static const char TEMPLATE_KEY[] = "tokenizer.chat_template";

/* chat_template.jinja, where there is one. */
static ruvllm_status read_template_file(struct reader *r, int folder, bool *is_there, struct ruvllm_error *err)
{
    static const char name[] = "chat_template.jinja";
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    ruvllm_status rc = RUVLLM_OK;
    struct stat st;
    char *text;
    ssize_t len;

    *is_there = fd >= 0;
    if (fd < 0)
        return errno == ENOENT ? RUVLLM_OK : rv_fail_errno(err, errno, "cannot open '%s'", name);
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size > (off_t)TEMPLATE_MAX) {
        close(fd);
        return rv_fail(err, RUVLLM_INVALID, "'%s' is no regular file of at most %zu bytes", name, TEMPLATE_MAX);
    }
    text = rv_malloc((size_t)st.st_size + 1);
    len = text ? read(fd, text, (size_t)st.st_size) : 0;
    if (!text)
        rc = rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate '%s'", name);
    else if (len != st.st_size)
        rc = rv_fail(err, RUVLLM_IO, "cannot read the whole of '%s'", name);
    else
        rv_gguf_image_str(r->image, TEMPLATE_KEY, (struct rv_str){text, (size_t)len});
    rv_free(text);
    close(fd);
    return rc;
}

/* A string, or a list of named ones of which "default" is meant. */
static ruvllm_status write_template(struct reader *r, int folder, struct ruvllm_error *err)
{
    yyjson_val *value = member(r->own, "chat_template"), *each;
    yyjson_arr_iter iter;
    bool is_there = false;
    ruvllm_status rc = folder >= 0 ? read_template_file(r, folder, &is_there, err) : RUVLLM_OK;

    if (rc || is_there || !value)
        return rc;
    if (yyjson_is_arr(value)) {
        yyjson_val *list = value;

        value = NULL;
        yyjson_arr_iter_init(list, &iter);
        while (!value && (each = yyjson_arr_iter_next(&iter))) {
            if (yyjson_equals_str(member(each, "name"), "default"))
                value = member(each, "template");
        }
        if (!value)
            return RUVLLM_OK;
    }
    if (!yyjson_is_str(value) || yyjson_get_len(value) > TEMPLATE_MAX)
        return rv_fail(err, RUVLLM_FORMAT, "'chat_template' of 'tokenizer_config.json' is no template");
    rv_gguf_image_str(r->image, TEMPLATE_KEY, (struct rv_str){yyjson_get_str(value), yyjson_get_len(value)});
    return RUVLLM_OK;
}

ruvllm_status rv_hf_specials_read(const struct rv_hf_tokenizer *tokenizer, const struct rv_hf_config *config,
                                  int folder, struct rv_gguf_image *image, struct ruvllm_error *err)
{
    struct reader r = {.tokenizer = tokenizer, .config = config, .image = image, .first = -1, .last = -1};
    struct rv_json_file json;
    ruvllm_status rc;

    if (folder >= 0 && faccessat(folder, "tokenizer_config.json", F_OK, 0) == 0)
        rc = rv_json_file_read(&json, folder, "tokenizer_config.json", CONFIG_MAX, err);
    else
        rc = rv_json_file_parse(&json, "{}", 2, "nothing", err);
    if (rc)
        return rc;
    r.own = json.root;
    rc = read_processors(&r, err);
    if (!rc)
        rc = write_beginning(&r, err);
    if (!rc)
        rc = write_ends(&r, err);
    if (!rc)
        rc = write_others(&r, err);
    if (!rc)
        rc = write_template(&r, folder, err);
    rv_json_file_release(&json);
    return rc;
}
