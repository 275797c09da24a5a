/*
 * Every template of the test data and the style that is found for it: where there is one, a call that was made is
 * rendered as the style says. Templates that write calls otherwise (XML, names outside of the JSON) have none.
 */
#include "text/tool_style.h"
#include "support/test.h"
#include "text/chat_template.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *file, *style;
} table[] = {
    {"Apertus-8B-Instruct", NULL},
    {"Apriel-1.6-15b-Thinker-fixed", NULL},
    {"Bielik-11B-v3.0-Instruct", "hermes"},
    {"ByteDance-Seed-OSS", NULL},
    {"Cohere2MoE", NULL},
    {"CohereForAI-c4ai-command-r-plus-tool_use", NULL},
    {"CohereForAI-c4ai-command-r7b-12-2024-tool_use", NULL},
    {"GLM-4.6", NULL},
    {"GLM-4.7-Flash", NULL},
    {"GigaChat3-10B-A1.8B", NULL},
    {"GigaChat3.1-10B-A1.8B", NULL},
    {"HuggingFaceTB-SmolLM3-3B", NULL},
    {"Kimi-K2-Instruct", NULL},
    {"Kimi-K2-Thinking", NULL},
    {"Kimi-K3", NULL},
    {"LFM2-8B-A1B", NULL},
    {"LFM2.5-8B-A1B", NULL},
    {"LFM2.5-Instruct", NULL},
    {"MiMo-VL", "hermes"},
    {"MiniMax-M1", NULL},
    {"MiniMax-M2", NULL},
    {"MiniMax-M3", NULL},
    {"Mistral-Small-3.2-24B-Instruct-2506", NULL},
    {"NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", NULL},
    {"NVIDIA-Nemotron-Nano-v2", NULL},
    {"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", "hermes"},
    {"NousResearch-Hermes-3-Llama-3.1-8B-tool_use", "hermes"},
    {"Qwen-QwQ-32B", "hermes"},
    {"Qwen-Qwen2.5-7B-Instruct", "hermes"},
    {"Qwen-Qwen3-0.6B", "hermes"},
    {"Qwen3-Coder", NULL},
    {"Qwen3.5-4B", NULL},
    {"Reka-Edge", "hermes"},
    {"Spark2.5", NULL},
    {"StepFun3.5-Flash", NULL},
    {"deepseek-ai-DeepSeek-R1-Distill-Llama-8B", NULL},
    {"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", NULL},
    {"deepseek-ai-DeepSeek-V3.1", NULL},
    {"deepseek-ai-DeepSeek-V3.2", NULL},
    {"deepseek-ai-DeepSeek-V4", NULL},
    {"deepseek-ai-DeepSeek-V4-Flash-0731", NULL},
    {"fireworks-ai-llama-3-firefunction-v2", NULL},
    {"google-gemma-2-2b-it", "gemma"},
    {"google-gemma-4-31B-it", NULL},
    {"google-gemma-4-31B-it-interleaved", NULL},
    {"ibm-granite-granite-3.3-2B-Instruct", "granite"},
    {"ibm-granite-granite-4.0", "hermes"},
    {"ibm-granite-granite-4.1", "hermes"},
    {"inclusionai-ling-3.0-flash", NULL},
    {"llama-cpp-deepseek-r1", NULL},
    {"llama-cpp-rwkv-world", NULL},
    {"meetkai-functionary-medium-v3.1", NULL},
    {"meetkai-functionary-medium-v3.2", NULL},
    {"meta-llama-Llama-3.1-8B-Instruct", "llama3"},
    {"meta-llama-Llama-3.2-3B-Instruct", "llama3"},
    {"meta-llama-Llama-3.3-70B-Instruct", "llama3"},
    {"microsoft-Phi-3.5-mini-instruct", NULL},
    {"mistralai-Ministral-3-14B-Reasoning-2512", NULL},
    {"mistralai-Mistral-Nemo-Instruct-2407", "mistral"},
    {"moonshotai-Kimi-K2", NULL},
    {"muse-glimmer", NULL},
    {"openai-gpt-oss-120b", NULL},
    {"openbmb-MiniCPM5-1B", NULL},
    {"poolside-Laguna-S-2.1", NULL},
    {"poolside-Laguna-XS-2.1", NULL},
    {"poolside-Laguna-XS.2", NULL},
    {"tencent-Hy3", NULL},
    {"unsloth-Apriel-1.5", NULL},
    {"unsloth-mistral-Devstral-Small-2507", NULL},
    {"upstage-Solar-Open-100B", NULL},
};

enum { N_FILES = sizeof(table) / sizeof(table[0]) };

static char *read_template(const char *file, size_t *len)
{
    char name[128];

    snprintf(name, sizeof(name), "templates/jinja/%s.jinja", file);
    return test_read_file(test_data(name), len);
}

static void every_template_has_the_style_of_its_calls(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_FILES; i++) {
        size_t len;
        char *source = read_template(table[i].file, &len);
        const struct rv_tool_style *style = rv_tool_style_of(source);
        const char *name = style ? style->name : "none", *wanted = table[i].style ? table[i].style : "none";

        if (strcmp(name, wanted) != 0)
            fail_msg("'%s' has style %s, not %s", table[i].file, name, wanted);
        free(source);
    }
}

static void no_template_is_left_out(void **state)
{
    DIR *folder = opendir(test_data("templates/jinja"));
    struct dirent *entry;
    size_t n = 0;

    (void)state;
    assert_non_null(folder);
    while ((entry = readdir(folder))) {
        size_t len = strlen(entry->d_name);
        bool is_known = false;

        if (len < 6 || strcmp(entry->d_name + len - 6, ".jinja") != 0)
            continue;
        for (size_t i = 0; i < N_FILES; i++)
            is_known =
                is_known || (strlen(table[i].file) == len - 6 && strncmp(table[i].file, entry->d_name, len - 6) == 0);
        if (!is_known)
            fail_msg("'%s' is not in the table", entry->d_name);
        n++;
    }
    closedir(folder);
    assert_int_equal(n, N_FILES);
}

static void a_call_is_rendered_in_the_style(void **state)
{
    static const char talk[] =
        "{\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":\"d\",\"parameters\":{"
        "\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\",\"description\":\"d\"}}}}}],\"messages\":[{"
        "\"role\":\"user\",\"content\":\"hi\"},{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":"
        "\"call_0123456789\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":{\"a\":1}}}]},{\"role\":"
        "\"tool\",\"tool_call_id\":\"call_0123456789\",\"content\":\"RESULT\"}]}";
    struct rv_chat_render how = {.json = talk,
                                 .json_len = strlen(talk),
                                 .add_generation_prompt = true,
                                 .bos_token = {"<s>", 3},
                                 .eos_token = {"</s>", 4}};

    (void)state;
    for (size_t i = 0; i < N_FILES; i++) {
        struct rv_chat_template *tmpl;
        struct rv_buf text;
        char call[64];
        size_t len;
        char *source;

        if (!table[i].style)
            continue;
        source = read_template(table[i].file, &len);
        snprintf(call, sizeof(call), "{\"name\": \"f\", \"%s\": {\"a\": 1}", rv_tool_style_of(source)->arguments);
        rv_buf_init(&text, 1 << 20);
        assert_ok(rv_chat_template_new(&tmpl, source, len, err));
        assert_ok(rv_chat_template_render(tmpl, &how, &text, NULL, err));
        rv_buf_add_char(&text, '\0');
        if (!strstr(text.data, call) || !strstr(text.data, rv_tool_style_of(source)->open) ||
            !strstr(text.data, "RESULT"))
            fail_msg("'%s' writes no call as %s does:\n%s", table[i].file, table[i].style, text.data);
        rv_buf_release(&text);
        rv_chat_template_free(tmpl);
        free(source);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_template_has_the_style_of_its_calls),
        cmocka_unit_test(no_template_is_left_out),
        cmocka_unit_test(a_call_is_rendered_in_the_style),
    };

    test_need_data();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
