/* Numbers in requests: every field of every kind at, beyond and far beyond its edges, and as anything but a number. */
#include "support/api_bodies.h"

#include <stdio.h>
#include <string.h>

struct number {
    enum rv_api_kind kind;
    const char *format; // of the field with its value
    const char *param;
    const char *below, *min, *max, *above;
    bool is_int;
    bool needs_value; // null is not "absent" here
};

#define SAMPLING(kind)                                                                                                 \
    {kind, "\"temperature\":%s", "temperature", "-1e-9", "0", "2", "2.0000000001", false, false},                      \
        {kind, "\"top_p\":%s", "top_p", "-0.001", "0", "1", "1.0000000001", false, false},                             \
        {kind, "\"top_k\":%s", "top_k", "-1", "0", "2147483647", "2147483648", true, false},                           \
        {kind, "\"min_p\":%s", "min_p", "-0.001", "0", "1", "1.001", false, false},                                    \
        {kind, "\"typical_p\":%s", "typical_p", "-0.001", "0", "1", "1.001", false, false},                            \
        {kind, "\"repetition_penalty\":%s", "repetition_penalty", "0.0099", "0.01", "100", "100.01", false, false},    \
        {kind, "\"frequency_penalty\":%s", "frequency_penalty", "-2.001", "-2", "2", "2.001", false, false},           \
        {kind, "\"presence_penalty\":%s", "presence_penalty", "-2.001", "-2", "2", "2.001", false, false},             \
        {kind, "\"penalty_window\":%s", "penalty_window", "-2", "-1", "1048576", "1048577", true, false},              \
        {kind,                                                                                                         \
         "\"seed\":%s",                                                                                                \
         "seed",                                                                                                       \
         "-9223372036854775809",                                                                                       \
         "-9223372036854775808",                                                                                       \
         "9223372036854775807",                                                                                        \
         "9223372036854775808",                                                                                        \
         true,                                                                                                         \
         false},                                                                                                       \
        {kind, "\"logit_bias\":{\"5\":%s}", "logit_bias.5", "-100.01", "-100", "100", "100.01", false, true},          \
        {kind, "\"priority\":%s", "priority", "-11", "-10", "10", "11", true, false},                                  \
        {kind, "\"kv\":{\"hot_tokens\":%s}", "kv.hot_tokens", "-1", "0", "16777216", "16777217", true, false},         \
    {                                                                                                                  \
        kind, "\"kv\":{\"warm_tokens\":%s}", "kv.warm_tokens", "-1", "0", "16777216", "16777217", true, false          \
    }

#define LENGTH(kind, name)                                                                                             \
    {                                                                                                                  \
        kind, "\"" name "\":%s", name, "-1", "0", "2147483647", "2147483648", true, false                              \
    }

static const struct number numbers[] = {
    SAMPLING(RV_API_CHAT),
    SAMPLING(RV_API_COMPLETION),
    SAMPLING(RV_API_RESPONSE),
    LENGTH(RV_API_CHAT, "max_tokens"),
    LENGTH(RV_API_CHAT, "max_completion_tokens"),
    LENGTH(RV_API_COMPLETION, "max_tokens"),
    LENGTH(RV_API_RESPONSE, "max_output_tokens"),
    {RV_API_CHAT, "\"n\":%s", "n", "0", "1", "8", "9", true, false},
    {RV_API_COMPLETION, "\"n\":%s", "n", "0", "1", "8", "9", true, false},
    {RV_API_COMPLETION, "\"n\":8,\"best_of\":%s", "best_of", "0", "8", "8", "9", true, false},
    {RV_API_CHAT, "\"logprobs\":true,\"top_logprobs\":%s", "top_logprobs", "-1", "0", "20", "21", true, false},
    {RV_API_RESPONSE, "\"top_logprobs\":%s", "top_logprobs", "-1", "0", "20", "21", true, false},
    {RV_API_COMPLETION, "\"logprobs\":%s", "logprobs", "-1", "0", "5", "6", true, false},
    {RV_API_EMBEDDING, "\"dimensions\":%s", "dimensions", "0", "1", "1048576", "1048577", true, false},
    {RV_API_EMBEDDING, "\"priority\":%s", "priority", "-11", "-10", "10", "11", true, false},
};

static const char *with_value(const struct number *row, const char *value)
{
    static char text[256];
    const char *hole = strstr(row->format, "%s");

    snprintf(text, sizeof(text), "%.*s%s%s", (int)(hole - row->format), row->format, value, hole + 2);
    return text;
}

static void every_number_is_held_to_its_range(void **state)
{
    (void)state;
    for (size_t i = 0; i < BODY_COUNT(numbers); i++) {
        const struct number *row = &numbers[i];

        body_refused_with(row->kind, with_value(row, row->below), row->param);
        assert_non_null(strstr(body_error.message, "between"));
        body_taken_with(row->kind, with_value(row, row->min));
        body_taken_with(row->kind, with_value(row, row->max));
        body_refused_with(row->kind, with_value(row, row->above), row->param);
        body_refused_with(row->kind, with_value(row, "1e308"), row->param);
        body_refused_with(row->kind, with_value(row, "-1e308"), row->param);
        body_refused_with(row->kind, with_value(row, "18446744073709551616"), row->param);
    }
}

static void no_number_is_a_word_a_string_or_anything_else(void **state)
{
    static const char *const not_json[] = {"NaN", "Infinity", "-Infinity", "1e999", "-1e999", "nan",
                                           "+1",  "0x10",     "1.",        ".5",    "01",     "1_000"};
    static const char *const not_numbers[] = {"\"1\"", "\"\"", "true", "false", "[]", "[1]", "{}", "{\"a\":1}"};

    (void)state;
    for (size_t i = 0; i < BODY_COUNT(numbers); i++) {
        const struct number *row = &numbers[i];

        for (size_t k = 0; k < BODY_COUNT(not_json); k++)
            body_refused_with(row->kind, with_value(row, not_json[k]), "");
        for (size_t k = 0; k < BODY_COUNT(not_numbers); k++)
            body_refused_with(row->kind, with_value(row, not_numbers[k]), row->param);
    }
}

static void null_is_absent(void **state)
{
    (void)state;
    for (size_t i = 0; i < BODY_COUNT(numbers); i++) {
        if (numbers[i].needs_value)
            body_refused_with(numbers[i].kind, with_value(&numbers[i], "null"), numbers[i].param);
        else
            body_taken_with(numbers[i].kind, with_value(&numbers[i], "null"));
    }
    body_taken_with(RV_API_CHAT, "\"stop\":null,\"stream\":null,\"tools\":null,\"kv\":null,\"user\":null,"
                                 "\"logit_bias\":null,\"stream_options\":null,\"audio\":null,\"session\":null");
}

static void an_integer_may_have_a_point_but_no_fraction(void **state)
{
    char value[64];

    (void)state;
    for (size_t i = 0; i < BODY_COUNT(numbers); i++) {
        const struct number *row = &numbers[i];

        if (!row->is_int || strcmp(row->param, "seed") == 0)
            continue;
        snprintf(value, sizeof(value), "%s.0", row->max);
        body_taken_with(row->kind, with_value(row, value));
        snprintf(value, sizeof(value), "%s.5", row->min);
        body_refused_with(row->kind, with_value(row, value), row->param);
    }
    body_taken_with(RV_API_CHAT, "\"seed\":7.0");
    body_refused_with(RV_API_CHAT, "\"seed\":1e17", "seed");
}

static void refusals_say_the_value_and_the_range(void **state)
{
    (void)state;
    body_refused_with(RV_API_CHAT, "\"temperature\":3.5", "temperature");
    assert_string_equal(body_error.message, "'temperature' must be a number between 0 and 2, and is 3.5");
    body_refused_with(RV_API_CHAT, "\"n\":-4", "n");
    assert_string_equal(body_error.message, "'n' must be an integer between 1 and 8, and is -4");
    body_refused_with(RV_API_CHAT, "\"top_p\":\"0.5\"", "top_p");
    assert_string_equal(body_error.message, "'top_p' must be a number between 0 and 1, and is a string of 3 bytes");
    body_refused_with(RV_API_CHAT, "\"n\":18446744073709551615", "n");
    assert_non_null(strstr(body_error.message, "18446744073709551615"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_is_held_to_its_range),
        cmocka_unit_test(no_number_is_a_word_a_string_or_anything_else),
        cmocka_unit_test(null_is_absent),
        cmocka_unit_test(an_integer_may_have_a_point_but_no_fraction),
        cmocka_unit_test(refusals_say_the_value_and_the_range),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
