/*
 * render_template <file.jinja>: reads {"messages": [...], "add_generation_prompt": bool, "bos_token": "...",
 * "eos_token": "...", ...} from standard input, one object a line, and writes each rendering, or `ERROR: ` and
 * the reason, with a NUL after it. It stands between our renderer and the reference in template_reference.mjs.
 */
#include "text/chat_template.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yyjson.h>

static char *read_all(FILE *file, size_t *len)
{
    struct rv_buf buf;
    char chunk[4096];
    size_t n;

    rv_buf_init(&buf, (size_t)64 << 20);
    while ((n = fread(chunk, 1, sizeof(chunk), file)) > 0)
        rv_buf_add(&buf, chunk, n);
    return rv_buf_take(&buf, len);
}

static struct rv_str member(yyjson_val *object, const char *key)
{
    yyjson_val *value = yyjson_obj_get(object, key);

    return (struct rv_str){yyjson_get_str(value), yyjson_get_len(value)};
}

static void render(const struct rv_chat_template *tmpl, const char *json, size_t json_len)
{
    struct ruvllm_error err;
    yyjson_doc *doc = yyjson_read(json, json_len, 0);
    yyjson_val *root = yyjson_doc_get_root(doc);
    struct rv_chat_render options = {.json = json, .json_len = json_len};
    struct rv_buf text;

    rv_buf_init(&text, (size_t)2 << 20);
    options.add_generation_prompt = yyjson_get_bool(yyjson_obj_get(root, "add_generation_prompt"));
    options.bos_token = member(root, "bos_token");
    options.eos_token = member(root, "eos_token");
    if (rv_chat_template_render(tmpl, &options, &text, NULL, &err))
        printf("ERROR: %s", err.message);
    else
        fwrite(text.data, 1, text.len, stdout);
    putchar(0);
    rv_buf_release(&text);
    yyjson_doc_free(doc);
}

static void render_lines(const char *source, size_t source_len, const char *lines, size_t len)
{
    struct ruvllm_error err;
    struct rv_chat_template *tmpl;
    ruvllm_status rc = rv_chat_template_new(&tmpl, source, source_len, &err);

    for (const char *line = lines, *end; line < lines + len; line = end + 1) {
        end = memchr(line, '\n', (size_t)(lines + len - line));
        if (!end)
            end = lines + len;
        if (rc)
            printf("ERROR: %s%c", err.message, 0);
        else
            render(tmpl, line, (size_t)(end - line));
    }
    rv_chat_template_free(tmpl);
}

int main(int argc, char **argv)
{
    FILE *file = argc == 2 ? fopen(argv[1], "rb") : NULL;
    char *source, *json;
    size_t source_len, json_len;

    if (!file) {
        fprintf(stderr, "usage: render_template <file.jinja> < variables.json\n");
        return 2;
    }
    source = read_all(file, &source_len);
    fclose(file);
    json = read_all(stdin, &json_len);
    if (source && json)
        render_lines(source, source_len, json, json_len);
    free(source);
    free(json);
    return 0;
}
