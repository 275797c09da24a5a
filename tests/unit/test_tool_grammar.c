/* Calls of tools in every family's style; what is refused; and memory that runs out, one allocation after the other. */
#include "alloc_meter.h"
#include "support/grammar_suite.h"

#include <string.h>

#define WEATHER                                                                                                        \
    "{\"type\":\"function\",\"function\":{\"name\":\"weather\",\"parameters\":{\"type\":\"object\",\"properties\":{"   \
    "\"city\":{\"type\":\"string\",\"maxLength\":9},\"days\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":7}},"     \
    "\"required\":[\"city\"],\"additionalProperties\":false}}}"
#define NOW "{\"type\":\"function\",\"function\":{\"name\":\"now\"}}"
#define TOOLS "[" WEATHER "," NOW "]"

/* The style of a template that has these signs in it. */
static const struct rv_tool_style *style_of(const char *signs)
{
    const struct rv_tool_style *style = rv_tool_style_of(signs);

    assert_non_null(style);
    return style;
}

static const struct rv_tool_style *mistral(void)
{
    return style_of("{{ tools }} [TOOL_CALLS]");
}

static const struct rv_tool_style *phi(void)
{
    return style_of("{{ tools }} <|tool|> <|/tool|>");
}

static const struct rv_tool_style *granite(void)
{
    return style_of("{{ tools }} <|start_of_role|> <|tool_call|>");
}

static const struct rv_tool_style *llama3(void)
{
    return style_of("{{ tools }} <|start_header_id|> \"parameters\": ");
}

static const struct rv_tool_style *gemma(void)
{
    return style_of("<start_of_turn>");
}

static const struct rv_tool_style *hermes(void)
{
    return style_of("{{ tools }} <tool_call> \"arguments\": ");
}

static struct rv_grammar_source source_of(struct rv_tool_grammar_wish wish, const char *tools)
{
    return (struct rv_grammar_source){.kind = RV_GRAMMAR_TOOLS, .text = tools, .len = strlen(tools), .tools = wish};
}

/* Whether an answer of that wish may be `text`. */
static bool may_answer(struct rv_tool_grammar_wish wish, const char *text)
{
    struct rv_grammar_source source = source_of(wish, TOOLS);
    struct rv_grammar *grammar;
    bool taken;

    assert_ok(rv_grammar_new(&grammar, &source, grammar_suite.trie, err));
    taken = grammar_fixture_takes(grammar, text);
    rv_grammar_unref(grammar);
    return taken;
}

static void lists_of_calls_stand_behind_one_mark(void **state)
{
    struct rv_tool_grammar_wish must = {.style = mistral(), .must_call = true};

    (void)state;
    assert_true(may_answer(must, "[TOOL_CALLS][{\"name\": \"now\", \"arguments\": {}}]"));
    assert_true(may_answer(must, "[TOOL_CALLS][{\"name\": \"weather\", \"arguments\": {\"city\":\"Rome\",\"days\":3}}, "
                                 "{\"name\": \"now\", \"arguments\": {}}]"));
    assert_false(may_answer(must, "[TOOL_CALLS][]"));
    assert_false(may_answer(must, "[{\"name\": \"now\", \"arguments\": {}}]"));
    assert_false(may_answer(must, "[TOOL_CALLS][{\"name\": \"now\", \"arguments\": {}}"));
    assert_false(
        may_answer(must, "[TOOL_CALLS][{\"name\": \"weather\", \"arguments\": {\"city\":\"Rome\",\"days\":8}}]"));
    must.style = phi();
    assert_true(may_answer(must, "<|tool_call|>[{\"name\": \"now\", \"arguments\": {}}, {\"name\": \"now\", "
                                 "\"arguments\": {}}]<|/tool_call|>"));
    assert_false(may_answer(must, "<|tool_call|>[{\"name\": \"now\", \"arguments\": {}}]"));
    must.style = granite();
    assert_true(may_answer(must, "<|tool_call|>[{\"name\": \"now\", \"arguments\": {}}]"));
    assert_false(may_answer(must, "<|tool_call|>[{\"name\": \"now\", \"arguments\": {}}]<|/tool_call|>"));
    must.style = phi();
    must.is_single = true;
    assert_true(may_answer(must, "<|tool_call|>[{\"name\": \"now\", \"arguments\": {}}]<|/tool_call|>"));
    assert_false(may_answer(must, "<|tool_call|>[{\"name\": \"now\", \"arguments\": {}}, {\"name\": \"now\", "
                                  "\"arguments\": {}}]<|/tool_call|>"));
}

static void check_without_marks(const struct rv_tool_style *style)
{
    struct rv_tool_grammar_wish wish = {.style = style, .must_call = true};

    assert_true(may_answer(wish, "{\"name\": \"weather\", \"parameters\": {\"city\":\"Rome\"}}"));
    assert_false(may_answer(wish, "{\"name\": \"weather\", \"arguments\": {\"city\":\"Rome\"}}"));
    assert_false(may_answer(wish, "{\"name\": \"now\", \"parameters\": {}}{\"name\": \"now\", \"parameters\": {}}"));
    assert_false(may_answer(wish, "It is late."));
    wish.must_call = false;
    assert_true(may_answer(wish, "It is late."));
    assert_true(may_answer(wish, "{\"name\": \"now\", \"parameters\": {}}"));
    assert_false(may_answer(wish, "{\"name\": \"never\", \"parameters\": {}}"));
    /* Who reads the answer passes over white space, too. */
    assert_true(may_answer(wish, ""));
    assert_true(may_answer(wish, " \n"));
    assert_true(may_answer(wish, "\nLate: {\"name\": \"never\"}"));
    assert_true(may_answer(wish, "\n\n{\"name\": \"now\", \"parameters\": {}}"));
    assert_false(may_answer(wish, "\n{\"name\": \"never\", \"parameters\": {}}"));
    assert_false(may_answer(wish, " {\"late\": true}"));
}

static void a_family_without_marks_calls_once(void **state)
{
    (void)state;
    check_without_marks(llama3());
    check_without_marks(gemma());
}

static void text_may_come_first_where_calling_is_free(void **state)
{
    struct rv_tool_grammar_wish wish = {.style = hermes()};
    const char *call = "Let me see. <tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";

    (void)state;
    assert_true(may_answer(wish, "It is late."));
    assert_true(may_answer(wish, call));
    assert_false(may_answer(wish, "Let me see. <tool_call>\n{}"));
    wish.must_call = true;
    assert_false(may_answer(wish, call));
    assert_true(may_answer(wish, strchr(call, '<')));
    wish.only = "weather";
    assert_false(may_answer(wish, strchr(call, '<')));
}

/* The letters of a mark that is a control token are neither a call nor text that could be taken for one. */
static void letters_of_a_token_are_no_mark(void **state)
{
    struct rv_tool_grammar_wish wish = {.style = mistral()};
    struct rv_grammar_source source = source_of(wish, TOOLS);
    struct rv_token_trie *trie;
    struct rv_grammar *grammar;
    struct tiny_vocab tiny;
    struct rv_vocab *vocab;

    (void)state;
    tiny_vocab_bpe(&tiny, "gpt-2");
    (void)tiny_vocab_add(&tiny, "[TOOL_CALLS]", RV_TOKEN_CONTROL, 0);
    assert_ok(rv_vocab_new(&vocab, &tiny.spec, err));
    assert_ok(rv_token_trie_new(&trie, vocab, err));
    assert_ok(rv_grammar_new(&grammar, &source, trie, err));
    assert_true(grammar_fixture_takes(grammar, "It is [TOOL] late."));
    assert_true(grammar_fixture_takes(grammar, "Late. \xff[TOOL_CALLS]\xff[{\"name\": \"now\", \"arguments\": {}}]"));
    assert_false(
        grammar_fixture_takes(grammar, "Late. \xff[TOOL_CALLS]\xff[{\"name\": \"never\", \"arguments\": {}}]"));
    assert_false(grammar_fixture_takes(grammar, "Late. [TOOL_CALLS][{\"name\": \"never\", \"arguments\": {}}]"));
    assert_false(grammar_fixture_takes(grammar, "Late. [TOOL_CALLS]"));
    rv_grammar_unref(grammar);
    rv_token_trie_free(trie);
    rv_vocab_free(vocab);
}

/* Whatever allocation fails, it is said to be memory that is missing, and the next try works. */
static void running_out_of_memory_is_said_so(void **state)
{
    struct rv_tool_grammar_wish wish = {.style = mistral(), .must_call = true};
    struct rv_grammar_source source = source_of(wish, TOOLS);
    size_t nth = 0;
    bool failed = true;

    (void)state;
    if (!alloc_meter_works()) {
        print_message("sanitizers bring their own malloc: nothing can be made to fail\n");
        return;
    }
    while (failed) {
        struct rv_grammar *grammar = NULL;
        struct ruvllm_error err = {0};
        ruvllm_status rc;

        alloc_meter_fail_at(++nth);
        rc = rv_grammar_new(&grammar, &source, grammar_suite.trie, &err);
        failed = alloc_meter_failed();
        rv_grammar_unref(grammar);
        if (rc != (failed ? RUVLLM_NO_MEMORY : RUVLLM_OK))
            fail_msg("allocation %zu gave %s: %s", nth, ruvllm_status_name(rc), err.message);
        assert_true(!failed || strstr(err.message, "cannot allocate"));
        assert_true(nth < 10000);
    }
    assert_true(nth > 20);
}

static void what_is_no_list_of_tools_is_refused(void **state)
{
    struct rv_tool_grammar_wish wish = {.style = mistral(), .must_call = true, .only = "never"};
    static const struct {
        const char *tools, *message;
    } cases[] = {{"[", "it is not JSON"},
                 {"{}", "'tools' must be an array"},
                 {"[]", "'tools' must be an array"},
                 {"[{\"function\":{\"name\":\"a b\"}}]", "tools[0].function.name"},
                 {"[" NOW "]", "there is no tool 'never'"}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rv_grammar_source source = source_of(wish, cases[i].tools);
        struct rv_grammar *grammar;
        struct ruvllm_error err = {0};

        assert_int_equal(rv_grammar_new(&grammar, &source, grammar_suite.trie, &err), RUVLLM_INVALID);
        if (!strstr(err.message, cases[i].message))
            fail_msg("'%s' is not '%s'", err.message, cases[i].message);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_of_calls_stand_behind_one_mark),
        cmocka_unit_test(a_family_without_marks_calls_once),
        cmocka_unit_test(text_may_come_first_where_calling_is_free),
        cmocka_unit_test(letters_of_a_token_are_no_mark),
        cmocka_unit_test(running_out_of_memory_is_said_so),
        cmocka_unit_test(what_is_no_list_of_tools_is_refused),
    };

    return cmocka_run_group_tests(tests, grammar_suite_set_up, grammar_suite_tear_down);
}
