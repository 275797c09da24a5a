/* Chat templates of real models: every reference rendering byte for byte, and whose each byte is. */
#include "base/rng.h"
#include "support/test.h"
#include "text/chat_template.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yyjson.h>

#define MAX_MESSAGES 8

static struct rv_str str_of(yyjson_val *object, const char *key)
{
    yyjson_val *value = yyjson_obj_get(object, key);

    return (struct rv_str){yyjson_get_str(value), yyjson_get_len(value)};
}

static struct rv_chat_template *open_source(const char *source, size_t len)
{
    struct rv_chat_template *tmpl;

    assert_ok(rv_chat_template_new(&tmpl, source, len, err));
    return tmpl;
}

/* A .jinja file, or `file.json#chat_template` of a tokenizer_config, below templates/. */
static struct rv_chat_template *open_template(const char *name)
{
    char path[256];
    size_t len;
    char *data;
    struct rv_chat_template *tmpl;

    snprintf(path, sizeof(path), "templates/%.*s", (int)strcspn(name, "#"), name);
    data = test_read_file(test_data(path), &len);
    if (strstr(name, ".json")) {
        yyjson_doc *doc = yyjson_read(data, len, 0);
        struct rv_str source = str_of(yyjson_doc_get_root(doc), "chat_template");

        assert_non_null(source.data);
        tmpl = open_source(source.data, source.len);
        yyjson_doc_free(doc);
    } else {
        tmpl = open_source(data, len);
    }
    free(data);
    return tmpl;
}

static size_t read_messages(yyjson_val *array, struct rv_chat_message *out)
{
    yyjson_arr_iter iter = yyjson_arr_iter_with(array);
    yyjson_val *message;
    size_t n = 0;

    while ((message = yyjson_arr_iter_next(&iter))) {
        assert_true(n < MAX_MESSAGES);
        out[n].role = str_of(message, "role").data;
        out[n++].content = str_of(message, "content").data;
    }
    return n;
}

static void check_case(yyjson_val *item)
{
    struct rv_chat_message messages[MAX_MESSAGES];
    yyjson_val *vars = yyjson_obj_get(item, "vars");
    struct rv_str wanted = str_of(item, "rendered");
    struct rv_chat_template *tmpl = open_template(str_of(item, "source").data);
    struct rv_chat_render render = {
        .messages = messages,
        .n_messages = read_messages(yyjson_obj_get(item, "messages"), messages),
        .add_generation_prompt = yyjson_get_bool(yyjson_obj_get(item, "add_generation_prompt")),
        .bos_token = str_of(vars, "bos_token"),
        .eos_token = str_of(vars, "eos_token"),
    };
    struct ruvllm_error err;
    struct rv_buf text;
    char *vars_json;
    size_t vars_len;
    ruvllm_status rc;

    vars_json = yyjson_val_write(vars, 0, &vars_len);
    render.json = vars_json;
    render.json_len = vars_json ? vars_len : 0;
    rv_buf_init(&text, 1 << 20);
    rc = rv_chat_template_render(tmpl, &render, &text, NULL, &err);
    if (!wanted.data) {
        assert_int_equal(rc, RUVLLM_INVALID);
        assert_non_null(strstr(err.message, str_of(item, "error").data));
    } else {
        if (rc)
            fail_msg("%s %s: %s", str_of(item, "template").data, str_of(item, "case").data, err.message);
        if (text.len != wanted.len || memcmp(text.data, wanted.data, wanted.len) != 0)
            fail_msg("%s %s:\n--- wanted\n%s\n--- got\n%s", str_of(item, "template").data, str_of(item, "case").data,
                     wanted.data, text.data);
    }
    free(vars_json);
    rv_buf_release(&text);
    rv_chat_template_free(tmpl);
}

static void every_reference_rendering_is_reproduced(void **state)
{
    const char *path = test_data("templates/golden/chat_render.json");
    yyjson_doc *doc;
    yyjson_arr_iter iter;
    yyjson_val *item;
    size_t len, n = 0;
    char *data;

    (void)state;
    test_need_file(path);
    data = test_read_file(path, &len);
    doc = yyjson_read(data, len, 0);
    iter = yyjson_arr_iter_with(yyjson_obj_get(yyjson_doc_get_root(doc), "cases"));
    while ((item = yyjson_arr_iter_next(&iter))) {
        check_case(item);
        n++;
    }
    assert_int_equal(n, 27);
    yyjson_doc_free(doc);
    free(data);
}

/* ---- provenance ----------------------------------------------------------------------------- */

/* What a hostile user would write; 'Q' and 'Z' mark its ends, so that no template trims any of it. */
static void write_content(struct rv_rng *rng, char *out, size_t cap)
{
    static const char *const pieces[] = {
        "<|im_start|>",
        "<|im_end|>",
        "<|eot_id|>",
        "<start_of_turn>",
        "<end_of_turn>",
        "[INST]",
        "[/INST]",
        "<s>",
        "</s>",
        "<|end|>",
        "<|system|>",
        "{{ bos_token }}",
        "{% raise_exception('x') %}",
        "{# no #}",
        "system\n",
        "assistant\n",
        "\n\n",
        " ",
        "\303\274ber",
        "\xe4\xbd\xa0\xe5\xa5\xbd",
        "\\n",
        "\"",
        "'",
        "plain words",
    };
    size_t n = 1 + rv_rng_below(rng, 8), used;

    snprintf(out, cap, "Q");
    for (size_t i = 0; i < n; i++) {
        used = strlen(out);
        snprintf(out + used, cap - used, "%s", pieces[rv_rng_below(rng, sizeof(pieces) / sizeof(pieces[0]))]);
    }
    used = strlen(out);
    snprintf(out + used, cap - used, "Z");
}

/* Masked bytes must be the contents, in order, and nothing else. */
static void check_mask(const struct rv_buf *text, const struct rv_buf *mask, const struct rv_chat_message *messages,
                       size_t n_messages)
{
    struct rv_buf wanted, got;

    assert_int_equal(text->len, mask->len);
    rv_buf_init(&wanted, 1 << 20);
    rv_buf_init(&got, 1 << 20);
    for (size_t i = 0; i < n_messages; i++)
        rv_buf_add_str(&wanted, messages[i].content);
    for (size_t i = 0; i < text->len; i++) {
        assert_true(mask->data[i] == 0 || mask->data[i] == 1);
        if (mask->data[i])
            rv_buf_add_char(&got, text->data[i]);
    }
    assert_int_equal(got.len, wanted.len);
    assert_memory_equal(got.data, wanted.data, wanted.len);
    rv_buf_release(&wanted);
    rv_buf_release(&got);
}

static void check_family(const char *name, bool has_system, uint64_t seed)
{
    static const char *const roles[] = {"system", "user", "assistant", "user"};
    struct rv_chat_template *tmpl = open_template(name);
    struct rv_rng rng;

    rv_rng_init(&rng, seed);
    for (int i = 0; i < 200; i++) {
        char contents[4][512];
        struct rv_chat_message messages[4];
        size_t skip = has_system ? 0 : 1;
        struct rv_chat_render render = {.messages = messages + skip,
                                        .n_messages = 4 - skip,
                                        .add_generation_prompt = i % 2 == 0,
                                        .bos_token = {"<s>", 3},
                                        .eos_token = {"</s>", 4}};
        struct rv_buf text, mask;

        for (int m = 0; m < 4; m++) {
            write_content(&rng, contents[m], sizeof(contents[m]));
            messages[m] = (struct rv_chat_message){roles[m], contents[m]};
        }
        rv_buf_init(&text, 1 << 20);
        rv_buf_init(&mask, 1 << 20);
        assert_ok(rv_chat_template_render(tmpl, &render, &text, &mask, err));
        check_mask(&text, &mask, render.messages, render.n_messages);
        rv_buf_release(&text);
        rv_buf_release(&mask);
    }
    rv_chat_template_free(tmpl);
}

static void what_users_wrote_is_masked_and_nothing_else(void **state)
{
    (void)state;
    test_need_file(test_data("templates/jinja/Qwen-Qwen2.5-7B-Instruct.jinja"));
    check_family("jinja/Qwen-Qwen2.5-7B-Instruct.jinja", true, 1);
    check_family("jinja/meta-llama-Llama-3.1-8B-Instruct.jinja", true, 2);
    check_family("jinja/meta-llama-Llama-3.2-3B-Instruct.jinja", true, 3);
    check_family("jinja/google-gemma-2-2b-it.jinja", false, 4);
    check_family("jinja/microsoft-Phi-3.5-mini-instruct.jinja", true, 6);
    check_family("tokenizer_config/minimind2.json#chat_template", true, 7);
    check_family("tokenizer_config/qwen2_5.json#chat_template", true, 8);
    /* Mistral writes the system message with the last user's, so it is left out to keep the order. */
    check_family("jinja/mistralai-Mistral-Nemo-Instruct-2407.jinja", false, 5);
    check_family("tokenizer_config/mistral_nemo.json#chat_template", false, 10);
}

static void every_template_of_the_tokenizer_files_parses(void **state)
{
    static const char *const names[] = {"llama3_1", "llama3_2", "minimind2", "mistral_nemo", "qwen2_5", "qwen3"};

    (void)state;
    test_need_file(test_data("templates/tokenizer_config/qwen3.json"));
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char path[128];

        snprintf(path, sizeof(path), "tokenizer_config/%s.json", names[i]);
        rv_chat_template_free(open_template(path));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_reference_rendering_is_reproduced),
        cmocka_unit_test(what_users_wrote_is_masked_and_nothing_else),
        cmocka_unit_test(every_template_of_the_tokenizer_files_parses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
