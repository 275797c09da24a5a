/*
 * Folders that lie: each file of a good folder replaced by something worse. Every one is refused with a sentence that
 * names what is wrong, and nothing outside the folder is opened.
 */
#define _GNU_SOURCE // memmem
#include "model/gguf_file.h"
#include "support/hf_writer.h"
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *model_path(void)
{
    const char *path = test_data("models/stories260K.gguf");

    test_need_file(path);
    return path;
}

static const char *good_folder(int n_shards)
{
    const struct hf_writer_options options = {.n_shards = n_shards};
    const char *folder = hf_writer_folder();

    hf_writer_model(model_path(), folder, &options);
    return folder;
}

static const char *path_in(const char *folder, const char *name)
{
    static char path[512];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static void replace(const char *folder, const char *name, const char *text)
{
    test_write_file(path_in(folder, name), text, strlen(text));
}

/* The first `from` in a file becomes `to`. */
static void edit(const char *folder, const char *name, const char *from, const char *to)
{
    char *text = test_read_file(path_in(folder, name), NULL), *at = strstr(text, from);
    size_t room = strlen(text) + strlen(to) + 1;
    char *changed = malloc(room);

    if (!at)
        fail_msg("'%s' has no '%s'", name, from);
    assert_non_null(changed);
    snprintf(changed, room, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    replace(folder, name, changed);
    free(changed);
    free(text);
}

static void refused(const char *folder, ruvllm_status status, const char *sentence)
{
    struct ruvllm_error fault = {0};
    struct rv_gguf_file *file;

    assert_fails(rv_gguf_file_open(&file, folder, &fault), status, fault, sentence);
    assert_null(file);
}

static void a_good_folder_opens(void **state)
{
    struct rv_gguf_file *file;

    (void)state;
    assert_ok(rv_gguf_file_open(&file, good_folder(1), err));
    rv_gguf_file_close(file);
    assert_ok(rv_gguf_file_open(&file, good_folder(2), err));
    rv_gguf_file_close(file);
}

static void missing_files_are_named(void **state)
{
    static const char *const names[] = {"tokenizer.json", "model.safetensors"};
    const char *folder;

    (void)state;
    refused(hf_writer_folder(), RUVLLM_INVALID, "no 'config.json'");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        folder = good_folder(1);
        unlink(path_in(folder, names[i]));
        refused(folder, RUVLLM_NOT_FOUND, names[i]);
    }
    folder = good_folder(3);
    unlink(path_in(folder, "model-00002-of-00003.safetensors"));
    refused(folder, RUVLLM_NOT_FOUND, "cannot read 'model-00002-of-00003.safetensors'");
    folder = hf_writer_folder();
    replace(folder, "adapter_config.json", "{}");
    refused(folder, RUVLLM_INVALID, "an adapter, not a model");
}

static void an_index_cannot_lead_out_of_the_folder(void **state)
{
    static const char *const names[] = {"../../etc/passwd",
                                        "/etc/passwd",
                                        "../model.safetensors",
                                        "..",
                                        ".safetensors",
                                        ".hidden.safetensors",
                                        "a/b.safetensors",
                                        "a\\\\b.safetensors",
                                        "model.bin",
                                        "model.safetensors\\u0000",
                                        "model\\n.safetensors",
                                        ""};

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *folder = hf_writer_folder();
        char index[256];

        hf_writer_model(model_path(), folder, NULL);
        unlink(path_in(folder, "model.safetensors"));
        snprintf(index, sizeof(index), "{\"weight_map\":{\"model.norm.weight\":\"%s\"}}", names[i]);
        replace(folder, "model.safetensors.index.json", index);
        refused(folder, RUVLLM_FORMAT, "which is no file of safetensors in this folder");
    }
}

static void indexes_that_lie_are_refused(void **state)
{
    const char *folder = good_folder(2);

    (void)state;
    edit(folder, "model.safetensors.index.json", "model.embed_tokens.weight", "model.embed_tokens.weighty");
    refused(folder, RUVLLM_FORMAT, "'model.embed_tokens.weighty' is not in the file");
    replace(folder, "model.safetensors.index.json", "{\"weight_map\":{}}");
    refused(folder, RUVLLM_FORMAT, "no list of tensors");
    replace(folder, "model.safetensors.index.json", "{\"weight_map\":{\"a\":1}}");
    refused(folder, RUVLLM_FORMAT, "no file of safetensors");
    replace(folder, "model.safetensors.index.json", "[");
    refused(folder, RUVLLM_FORMAT, "is no JSON");
}

static void what_is_no_regular_file_is_not_read(void **state)
{
    const char *folder = good_folder(1);

    (void)state;
    unlink(path_in(folder, "tokenizer.json"));
    assert_int_equal(mkfifo(path_in(folder, "tokenizer.json"), 0600), 0);
    refused(folder, RUVLLM_INVALID, "'tokenizer.json' is not a regular file");
    folder = good_folder(1);
    unlink(path_in(folder, "model.safetensors"));
    assert_int_equal(mkfifo(path_in(folder, "model.safetensors"), 0600), 0);
    refused(folder, RUVLLM_INVALID, "not a regular file");
    folder = good_folder(1);
    unlink(path_in(folder, "config.json"));
    assert_int_equal(symlink("/dev/zero", path_in(folder, "config.json")), 0);
    refused(folder, RUVLLM_INVALID, "'config.json' is not a regular file");
}

static void configs_that_lie_are_refused(void **state)
{
    static const struct {
        const char *from, *to;
        ruvllm_status status;
        const char *sentence;
    } cases[] = {
        {"\"LlamaForCausalLM\"", "\"GPT2LMHeadModel\"", RUVLLM_UNSUPPORTED, "architecture 'GPT2LMHeadModel'"},
        {"\"LlamaForCausalLM\"", "7", RUVLLM_FORMAT, "'architectures'"},
        {"\"silu\"", "\"relu\"", RUVLLM_UNSUPPORTED, "activation 'relu'"},
        {"\"num_attention_heads\": 8", "\"num_attention_heads\": 0", RUVLLM_FORMAT, "'num_attention_heads'"},
        {"\"num_attention_heads\": 8", "\"num_attention_heads\": 4294967296", RUVLLM_FORMAT, "'num_attention_heads'"},
        {"\"num_attention_heads\": 8", "\"num_attention_heads\": 16", RUVLLM_FORMAT, "64 rows for 16 heads"},
        {"\"head_dim\": 8", "\"head_dim\": 7", RUVLLM_FORMAT, "7 dimensions"},
        {"\"head_dim\": 8", "\"head_dim\": 4096", RUVLLM_FORMAT, "4096 dimensions"},
        {"\"hidden_size\"", "\"hidden_sighs\"", RUVLLM_FORMAT, "does not say 'hidden_size'"},
        {"\"num_hidden_layers\": 5", "\"num_hidden_layers\": 4", RUVLLM_FORMAT, "beyond the model's 4 layers"},
        {"\"hidden_act\"", "\"quantization_config\": {\"quant_method\": \"gptq\"}, \"hidden_act\"", RUVLLM_UNSUPPORTED,
         "quantised ('gptq')"},
        {"\"hidden_act\"", "\"rope_scaling\": {\"type\": \"dynamic\"}, \"hidden_act\"", RUVLLM_UNSUPPORTED,
         "RoPE scaling 'dynamic'"},
        {"\"hidden_act\"", "\"rope_scaling\": 4, \"hidden_act\"", RUVLLM_FORMAT, "no object"},
        {"\"hidden_act\"", "\"use_sliding_window\": true, \"hidden_act\"", RUVLLM_UNSUPPORTED, "sliding window"},
        {"\"rms_norm_eps\":", "\"rms_norm_eps\": \"small\", \"x\":", RUVLLM_FORMAT, "'rms_norm_eps'"},
        {"\"hidden_act\"", "\"eos_token_id\": \"x\", \"hidden_act\"", RUVLLM_FORMAT, "'eos_token_id'"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *folder = i % 8 ? NULL : good_folder(1);
        static char kept[512];
        char *config;

        if (folder)
            snprintf(kept, sizeof(kept), "%s", folder);
        config = test_read_file(path_in(kept, "config.json"), NULL);
        edit(kept, "config.json", cases[i].from, cases[i].to);
        refused(kept, cases[i].status, cases[i].sentence);
        replace(kept, "config.json", config);
        free(config);
    }
}

static void tensors_that_do_not_belong_are_refused(void **state)
{
    const char *folder = good_folder(1);
    char *bytes, *at;
    size_t len;

    (void)state;
    /* Names of equal length, so that the header stays as long as it was. */
    bytes = test_read_file(path_in(folder, "model.safetensors"), &len);
    at = memmem(bytes, len, "mlp.up_proj", 11);
    assert_non_null(at);
    memcpy(at, "mlp.up_prof", 11);
    test_write_file(path_in(folder, "model.safetensors"), bytes, len);
    refused(folder, RUVLLM_UNSUPPORTED, "is not part of a 'llama' model");
    memcpy(at, "mlp.up_proj", 11);
    at = memmem(bytes, len, "layers.4.", 9);
    assert_non_null(at);
    memcpy(at, "layers.9.", 9);
    test_write_file(path_in(folder, "model.safetensors"), bytes, len);
    refused(folder, RUVLLM_FORMAT, "beyond the model's 5 layers");
    memcpy(at, "layers.3.", 9);
    test_write_file(path_in(folder, "model.safetensors"), bytes, len);
    refused(folder, RUVLLM_FORMAT, "appears twice");
    memcpy(at, "layers.4.", 9);
    test_write_file(path_in(folder, "model.safetensors"), bytes, len - 1);
    refused(folder, RUVLLM_FORMAT, "cannot read 'model.safetensors'");
    free(bytes);
}

static void tokenizers_that_lie_are_refused(void **state)
{
    static const struct {
        const char *from, *to;
        ruvllm_status status;
        const char *sentence;
    } cases[] = {
        {"\"BPE\"", "\"Unigram\"", RUVLLM_UNSUPPORTED, "type 'Unigram'"},
        {"\"Prepend\"", "\"Lowercase\"", RUVLLM_UNSUPPORTED, "normalizer ('Lowercase')"},
        {"\"<0x0A>\": 13", "\"<0x0A>\": 4294967295", RUVLLM_FORMAT, "token 4294967295"},
        {"\"<0x0A>\": 13", "\"<0x0A>\": 512", RUVLLM_FORMAT, "token 512"},
        {"\"<0x0A>\": 13", "\"<0x0A>\": -1", RUVLLM_FORMAT, "without a number"},
        {"\"<0x0A>\": 13", "\"<0x0A>\": 14", RUVLLM_FORMAT, "two tokens of the number 14"},
        {"\"merges\": [", "\"merges\": [\"x\",", RUVLLM_FORMAT, "merge 0"},
        {"\"merges\": [", "\"merges\": [[\"a\"],", RUVLLM_FORMAT, "merge 0"},
        {"\"merges\": [", "\"merges\": [[\"a\", \"b c\"],", RUVLLM_UNSUPPORTED, "has a space in it"},
        {"\"merges\": [", "\"merges\": [\"q q\",", RUVLLM_UNSUPPORTED, "SentencePiece"},
        {"\"byte_fallback\": true", "\"byte_fallback\": false", RUVLLM_UNSUPPORTED, "normalizer"},
        {"\"merges\": [", "\"merges\": {}, \"x\": [", RUVLLM_FORMAT, "no list of merges"},
        {"\"special\": true", "\"special\": true, \"single_word\": true", RUVLLM_UNSUPPORTED, "whole word"},
        {"\"model\": {", "\"post_processor\": {\"type\": \"BertProcessing\"}, \"model\": {", RUVLLM_UNSUPPORTED,
         "post-processor"},
    };
    const char *folder = good_folder(1);
    char *original;

    (void)state;
    original = test_read_file(path_in(folder, "tokenizer.json"), NULL);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        edit(folder, "tokenizer.json", cases[i].from, cases[i].to);
        refused(folder, cases[i].status, cases[i].sentence);
        replace(folder, "tokenizer.json", original);
    }
    free(original);
}

/* Cut anywhere, each file of a folder makes it a clean error. */
static void every_truncation_is_refused(void **state)
{
    static const char *const names[] = {"config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"};
    const char *folder = good_folder(1);

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        size_t len;
        char *bytes = test_read_file(path_in(folder, names[i]), &len);

        for (size_t cut = 0; cut + 2 < len; cut += 1 + len / 40) {
            struct ruvllm_error fault = {0};
            struct rv_gguf_file *file;

            test_write_file(path_in(folder, names[i]), bytes, cut);
            assert_int_not_equal(rv_gguf_file_open(&file, folder, &fault), RUVLLM_OK);
            assert_null(file);
            assert_true(fault.message[0] != '\0');
        }
        test_write_file(path_in(folder, names[i]), bytes, len);
        free(bytes);
    }
    a_good_folder_opens(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_folder_opens),
        cmocka_unit_test(missing_files_are_named),
        cmocka_unit_test(an_index_cannot_lead_out_of_the_folder),
        cmocka_unit_test(indexes_that_lie_are_refused),
        cmocka_unit_test(what_is_no_regular_file_is_not_read),
        cmocka_unit_test(configs_that_lie_are_refused),
        cmocka_unit_test(tensors_that_do_not_belong_are_refused),
        cmocka_unit_test(tokenizers_that_lie_are_refused),
        cmocka_unit_test(every_truncation_is_refused),
    };

    test_need_data();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
