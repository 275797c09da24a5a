/* Answers taken apart: the same parts however the text is cut, and every family's way of calling. */
#include "server/answer_parts.h"
#include "support/test.h"

#include <stdio.h>
#include <string.h>

static char seen[1024];

static void note(const char *what, const char *text, size_t len)
{
    size_t used = strlen(seen), n_what = strlen(what);
    bool goes_on = used >= 1 && strrchr(seen, '|') && strncmp(strrchr(seen, '|') + 1, what, n_what) == 0;

    snprintf(seen + used, sizeof(seen) - used, "%s%s%.*s", goes_on ? "" : "|", goes_on ? "" : what, (int)len, text);
}

static void thought(void *user, const char *text, size_t len)
{
    (void)user;
    note("T:", text, len);
}

static void said(void *user, const char *text, size_t len)
{
    (void)user;
    note("S:", text, len);
}

static void called(void *user, int32_t index, const char *name)
{
    char what[100];

    (void)user;
    snprintf(what, sizeof(what), "|%d %s", (int)index, name);
    snprintf(seen + strlen(seen), sizeof(seen) - strlen(seen), "%s", what);
}

static void arguments(void *user, int32_t index, const char *text, size_t len)
{
    char what[16];

    (void)user;
    snprintf(what, sizeof(what), "A%d:", (int)index);
    note(what, text, len);
}

static const struct ruvllm_tool_style hermes = {
    .open = "<tool_call>", .close = "</tool_call>", .arguments = "arguments"};
static const struct ruvllm_tool_style mistral = {
    .open = "[TOOL_CALLS]", .close = "", .arguments = "arguments", .is_list = true};
static const struct ruvllm_tool_style llama3 = {.open = "", .close = "", .arguments = "parameters"};

/* In pieces of every length. */
static void check(const struct ruvllm_tool_style *style, bool may_think, bool is_thinking, const char *text,
                  const char *expected)
{
    const struct rv_answer_parts_sink sink = {
        .thought = thought, .said = said, .called = called, .arguments = arguments};
    size_t len = strlen(text);

    for (size_t step = 1; step <= len + 1; step++) {
        struct rv_answer_parts parts;

        seen[0] = '\0';
        rv_answer_parts_init(&parts, style, may_think, is_thinking);
        for (size_t i = 0; i < len; i += step)
            rv_answer_parts_add(&parts, text + i, i + step < len ? step : len - i, &sink);
        rv_answer_parts_end(&parts, &sink);
        if (strcmp(seen, expected) != 0)
            fail_msg("'%s' in pieces of %zu is '%s', not '%s'", text, step, seen, expected);
    }
}

static void text_alone_is_said(void **state)
{
    (void)state;
    check(NULL, false, false, "a <b> c", "|S:a <b> c");
    check(&hermes, false, false, "a <tool_cal <tool", "|S:a <tool_cal <tool");
    check(&llama3, false, false, "hello {", "|S:hello {");
}

static void calls_of_every_style_are_found(void **state)
{
    (void)state;
    check(&hermes, false, false,
          "ok <tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"}\\\"{\", \"b\": [1]}}\n</tool_call>\n"
          "<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>",
          "|S:ok |0 f|A0:{\"a\": \"}\\\"{\", \"b\": [1]}|1 g|A1:{}");
    check(&mistral, false, false,
          "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"g\", \"arguments\": {\"x\":1}}]",
          "|0 f|A0:{}|1 g|A1:{\"x\":1}");
    check(&llama3, false, false, "{\"name\": \"f\", \"parameters\": {\"x\": {}}}", "|0 f|A0:{\"x\": {}}");
    check(&hermes, false, false, "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"b", "|0 f|A0:{\"a\": \"b");
}

static void thoughts_are_split_off(void **state)
{
    (void)state;
    check(NULL, true, false, "<think>hm </thin </think>\n\nyes", "|T:hm </thin |S:yes");
    check(NULL, true, false, "<thinly", "|S:<thinly");
    check(NULL, true, false, "yes", "|S:yes");
    check(NULL, false, true, "hm</think> yes", "|T:hm|S:yes");
    check(&hermes, true, false, "<think>x</think>\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>",
          "|T:x|0 f|A0:{}");
    check(&llama3, true, false, "<think>x</think>{\"name\": \"f\", \"parameters\": {}}", "|T:x|0 f|A0:{}");
    check(NULL, true, false, "<think>cut", "|T:cut");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_alone_is_said),
        cmocka_unit_test(calls_of_every_style_are_found),
        cmocka_unit_test(thoughts_are_split_off),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
