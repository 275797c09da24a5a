/* Names: what they may look like, and which file they mean. */
#include "engine/hub_name.h"
#include "support/test.h"

#include <string.h>

static struct ruvllm_error fault;

static void good_names_are_taken_apart(void **state)
{
    struct rv_hub_name name;

    (void)state;
    assert_ok(rv_hub_name_parse(&name, "TheBloke/TinyLlama-1.1B-GGUF:Q4_K_M", true, err));
    assert_string_equal(name.owner, "TheBloke");
    assert_string_equal(name.name, "TinyLlama-1.1B-GGUF");
    assert_string_equal(name.wanted, "Q4_K_M");
    assert_ok(rv_hub_name_parse(&name, "a/b", true, err));
    assert_string_equal(name.wanted, "");
    assert_ok(rv_hub_name_parse(&name, "alone:x.gguf", false, err));
    assert_string_equal(name.owner, "");
    assert_string_equal(name.wanted, "x.gguf");
}

static void bad_names_are_refused(void **state)
{
    static const char *const bad[] = {
        "",      "/",       "a/",      "/b",         "a/b/c", "a/b:",     "a/b:c/d", "../b",    "a/..",
        "a/.b",  ".a/b",    "a/b..c",  "a b/c",      "a/b\n", "a/b:../x", "a/b:.x",  "a/b:c:d", "a\\b/c",
        "a/%2e", "~/x",     "a/b\x7f", "\xc3\xa9/b", "a/b?x", "a/b#x",    "a/b&c",   "a/b:c d", "a//b",
        "a/b@c", "$HOME/x", "a/`b`",   "a/b;c",      "a/b|c", "a/*",
    };
    struct rv_hub_name name;
    char label[RV_HUB_NAME_LABEL], longest[300];

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (rv_hub_name_parse(&name, bad[i], true, &fault) != RUVLLM_INVALID)
            fail_msg("'%s' was taken", bad[i]);
    }
    memset(longest, 'x', sizeof(longest));
    longest[1] = '/';
    longest[2 + RV_HUB_NAME_MAX] = '\0';
    assert_ok(rv_hub_name_parse(&name, longest, true, err));
    longest[2 + RV_HUB_NAME_MAX] = 'x';
    longest[3 + RV_HUB_NAME_MAX] = '\0';
    assert_fails(rv_hub_name_parse(&name, longest, true, &fault), RUVLLM_INVALID, fault, "is no name");
    assert_string_equal(rv_hub_name_label("a\x1b[2J\n\xff", label), "a?[2J??");
}

static void paths_are_safe_only_in_every_part(void **state)
{
    const char *base = NULL;

    (void)state;
    assert_true(rv_hub_name_is_safe_path("a/b/c.gguf", &base));
    assert_string_equal(base, "c.gguf");
    assert_false(rv_hub_name_is_safe_path("a/../c.gguf", &base));
    assert_false(rv_hub_name_is_safe_path("/a.gguf", &base));
    assert_false(rv_hub_name_is_safe_path("a/", &base));
    assert_false(rv_hub_name_is_safe_path("", &base));
    assert_true(rv_hub_name_is_safe_revision("refs/pr/1"));
    assert_false(rv_hub_name_is_safe_revision("refs/../1"));
}

static void the_quantisation_is_read_from_the_name(void **state)
{
    static const char *const cases[][2] = {
        {"tinyllama-1.1b.Q4_K_M.gguf", "Q4_K_M"},
        {"stories15M-q8_0.gguf", "Q8_0"},
        {"model-f16.gguf", "F16"},
        {"x-BF16.gguf", "BF16"},
        {"x.IQ4_NL.gguf", "IQ4_NL"},
        {"Qwen2.5-0.5B-Q5_0.gguf", "Q5_0"},
        {"plain.gguf", ""},
        {"Qwen3.gguf", ""},
        {"x-tq1_0.gguf", "TQ1_0"},
        {"x_mxfp4.gguf", "MXFP4"},
        {"", ""},
    };
    char out[RV_HUB_NAME_QUANT];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        rv_hub_name_quantization(cases[i][0], out);
        assert_string_equal(out, cases[i][1]);
    }
}

static void choose(const char *const *files, size_t n, const char *wanted, const char *expected)
{
    size_t index = n;

    assert_ok(rv_hub_name_choose(files, n, wanted, &index, err));
    assert_string_equal(files[index], expected);
}

static void the_wanted_file_is_chosen(void **state)
{
    static const char *const files[] = {"m-F16.gguf", "m-Q4_K_M.gguf", "m-Q4_K_S.gguf", "m-Q8_0.gguf",
                                        "sub/n-Q6_K.gguf"};
    size_t index;

    (void)state;
    choose(files, 5, "", "m-Q4_K_M.gguf");
    choose(files, 1, "", "m-F16.gguf");
    choose(files + 2, 2, "", "m-Q4_K_S.gguf");
    choose(files + 3, 1, "", "m-Q8_0.gguf");
    choose(files, 5, "q4_k_s", "m-Q4_K_S.gguf");
    choose(files, 5, "m-F16.gguf", "m-F16.gguf");
    choose(files, 5, "n-Q6_K.gguf", "sub/n-Q6_K.gguf");
    assert_fails(rv_hub_name_choose(files, 5, "Q4_K", &index, &fault), RUVLLM_NOT_FOUND, fault, "m-Q4_K_M.gguf");
    assert_fails(rv_hub_name_choose(files, 0, "", &index, &fault), RUVLLM_NOT_FOUND, fault, "no GGUF files");
}

static void split_models_are_known(void **state)
{
    static const char *const files[] = {"a-Q8_0-00001-of-00002.gguf", "a-Q8_0-00002-of-00002.gguf"};
    size_t index;

    (void)state;
    assert_true(rv_hub_name_is_split(files[0]));
    assert_false(rv_hub_name_is_split("a-0001-of-00002.gguf"));
    assert_false(rv_hub_name_is_split("x.gguf"));
    assert_fails(rv_hub_name_choose(files, 2, "", &index, &fault), RUVLLM_UNSUPPORTED, fault, "split");
    assert_fails(rv_hub_name_choose(files, 2, "Q8_0", &index, &fault), RUVLLM_UNSUPPORTED, fault, "split");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_names_are_taken_apart),        cmocka_unit_test(bad_names_are_refused),
        cmocka_unit_test(paths_are_safe_only_in_every_part), cmocka_unit_test(the_quantisation_is_read_from_the_name),
        cmocka_unit_test(the_wanted_file_is_chosen),         cmocka_unit_test(split_models_are_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
