/* JSON Schema: which values its grammar takes, which keywords are refused and where, and hostile schemas. */
#include "base/alloc.h"
#include "support/grammar_suite.h"

#include <string.h>

static void check(const char *schema, const char *const *good, const char *const *bad)
{
    grammar_suite_check(RV_GRAMMAR_JSON_SCHEMA, schema, good, bad);
}

static void plain_types_take_their_values(void **state)
{
    (void)state;
    check("{\"type\":\"string\"}", LIST("\"\"", "\"a b\"", "\"\\u00e9\\n\"", "\"\\ud83d\\ude00\""),
          LIST("a", "\"", "\"\\x\"", "\"\n\"", "\"\\ud83d\"", "1"));
    check("{\"type\":\"integer\"}", LIST("0", "-1", "123456789012345"), LIST("01", "1.5", "+1", "-", "", "1e3"));
    check("{\"type\":\"number\"}", LIST("0", "-1.5", "1e5", "2.5E-3"), LIST(".5", "1.", "01", "1e", "1e999"));
    check("{\"type\":\"boolean\"}", LIST("true", "false"), LIST("True", "null", "tru"));
    check("{\"type\":\"null\"}", LIST("null"), LIST("nul", "0"));
    check("{\"type\":[\"string\",\"null\"]}", LIST("\"x\"", "null"), LIST("1", "true"));
    check("true", LIST("1", "[{\"a\":[]}]", "\"x\""), LIST("", "]"));
    check("{}", LIST("1", "{}", "{\"a\": 1,\n  \"b\": null}"), LIST("{a:1}", "[1,]"));
    check("{\"description\":\"x\",\"title\":\"y\"}", LIST("1"), LIST("x"));
}

static void constants_are_letters(void **state)
{
    (void)state;
    check("{\"enum\":[\"a\",\"b\\\"c\",1,null]}", LIST("\"a\"", "\"b\\\"c\"", "1", "null"), LIST("\"b\"", "2"));
    check("{\"type\":\"string\",\"enum\":[\"a\",1]}", LIST("\"a\""), LIST("1"));
    check("{\"const\":{\"a\":[1,2]}}", LIST("{\"a\":[1,2]}"), LIST("{}"));
    check("{\"enum\":[\"\xc3\xa9\"]}", LIST("\"\xc3\xa9\""), LIST("\"e\""));
}

static void objects_have_their_properties_in_order(void **state)
{
    (void)state;
    check("{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"string\"}},"
          "\"required\":[\"a\",\"b\"],\"additionalProperties\":false}",
          LIST("{\"a\":1,\"b\":\"x\"}", "{\"a\": 1, \"b\": \"x\"}", "{\n  \"a\": 1,\n  \"b\": \"x\"\n}"),
          LIST("{}", "{\"a\":1}", "{\"b\":\"x\",\"a\":1}", "{\"a\":1,\"b\":\"x\",\"c\":1}", "{\"a\":1,\"b\":\"x\",}"));
    check("{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{},\"c\":{}},\"required\":[\"b\"]}",
          LIST("{\"b\":1}", "{\"a\":1,\"b\":1}", "{\"b\":1,\"c\":1}", "{\"a\":1,\"b\":1,\"c\":1}"),
          LIST("{}", "{\"a\":1}", "{\"a\":1,\"c\":1}", "{\"c\":1}", "{\"b\":1,\"d\":1}"));
    check("{\"properties\":{\"a\":{},\"b\":{}}}", LIST("{}", "{\"a\":1}", "{\"b\":1}", "{\"a\":1,\"b\":1}"),
          LIST("{,}", "{\"a\":1,}", "{\"b\":1,\"a\":1}"));
    check("{\"type\":\"object\",\"additionalProperties\":{\"type\":\"integer\"}}",
          LIST("{}", "{\"x\":1}", "{\"x\":1,\"y\":2}"), LIST("{\"x\":\"1\"}", "{\"x\":1,}"));
    check("{\"type\":\"object\"}", LIST("{}", "{\"x\":[1]}"), LIST("[]"));
    check("{\"type\":\"object\",\"additionalProperties\":false}", LIST("{}", "{ }"), LIST("{\"a\":1}"));
}

static void members_are_counted(void **state)
{
    (void)state;
    check("{\"properties\":{\"a\":{},\"b\":{},\"c\":{}},\"minProperties\":2}",
          LIST("{\"a\":1,\"b\":1}", "{\"a\":1,\"c\":1}", "{\"b\":1,\"c\":1}", "{\"a\":1,\"b\":1,\"c\":1}"),
          LIST("{}", "{\"a\":1}", "{\"c\":1}", "{\"a\":1,}"));
    check("{\"properties\":{\"a\":{},\"b\":{},\"c\":{}},\"maxProperties\":1}",
          LIST("{}", "{\"a\":1}", "{\"b\":1}", "{ \"c\":1 }"), LIST("{\"a\":1,\"b\":1}", "{\"b\":1,\"c\":1}"));
    check("{\"properties\":{\"a\":{},\"b\":{},\"c\":{}},\"required\":[\"b\"],\"minProperties\":2,\"maxProperties\":2}",
          LIST("{\"a\":1,\"b\":1}", "{\"b\":1,\"c\":1}"),
          LIST("{\"b\":1}", "{\"a\":1,\"c\":1}", "{\"a\":1,\"b\":1,\"c\":1}"));
    check("{\"type\":\"object\",\"maxProperties\":0}", LIST("{}", "{ }"), LIST("{\"a\":1}"));
    check("{\"type\":\"object\",\"minProperties\":1,\"maxProperties\":2}", LIST("{\"a\":1}", "{\"a\":1,\"b\":1}"),
          LIST("{}", "{\"a\":1,\"b\":1,\"c\":1}"));
    check("{\"properties\":{\"a\":{},\"b\":{}},\"additionalProperties\":{\"const\":1},\"maxProperties\":3}",
          LIST("{}", "{\"x\":1,\"y\":1,\"z\":1}", "{\"b\":1,\"x\":1,\"y\":1}", "{\"a\":1,\"b\":1,\"x\":1}"),
          LIST("{\"w\":1,\"x\":1,\"y\":1,\"z\":1}", "{\"a\":1,\"b\":1,\"x\":1,\"y\":1}"));
    /* A name that stands twice is one property, so further ones count as one, however many they are. */
    check("{\"properties\":{\"a\":{},\"b\":{}},\"additionalProperties\":{\"const\":1},\"minProperties\":2}",
          LIST("{\"a\":1,\"b\":1}", "{\"a\":1,\"x\":1}", "{\"b\":1,\"x\":1,\"y\":1}"),
          LIST("{\"a\":1}", "{\"x\":1}", "{\"x\":1,\"x\":1}"));
    /* Of several bounds the tighter ones hold. */
    check("{\"allOf\":[{\"properties\":{\"a\":{}},\"minProperties\":2,\"maxProperties\":2},{\"properties\":{\"b\":{},"
          "\"c\":{}},"
          "\"minProperties\":1,\"maxProperties\":3}]}",
          LIST("{\"a\":1,\"b\":1}", "{\"b\":1,\"c\":1}"), LIST("{\"a\":1}", "{\"a\":1,\"b\":1,\"c\":1}"));
    check("{\"allOf\":[{\"properties\":{\"a\":{}},\"minProperties\":1,\"maxProperties\":3},{\"properties\":{\"b\":{},"
          "\"c\":{}},"
          "\"minProperties\":2,\"maxProperties\":2}]}",
          LIST("{\"a\":1,\"b\":1}", "{\"b\":1,\"c\":1}"), LIST("{\"a\":1}", "{\"a\":1,\"b\":1,\"c\":1}"));
}

static void further_names_are_not_those_of_properties(void **state)
{
    (void)state;
    check(
        "{\"properties\":{\"ab\":{\"type\":\"null\"},\"abc\":{\"type\":\"null\"},\"x\":{\"type\":\"null\"},"
        "\"\":{\"type\":\"null\"}},\"additionalProperties\":{\"type\":\"integer\"}}",
        LIST("{\"a\":1}", "{\"abcd\":1}", "{\"abd\":1,\"y\":2}", "{\"ab\":null,\"z\":1}", "{\"xx\":1}", "{\"\":null}"),
        LIST("{\"ab\":1}", "{\"abc\":1}", "{\"x\":1}", "{\"\":1}", "{\"\\u0061b\":1}", "{\"z\":1,\"ab\":null}"));
    check("{\"type\":\"object\",\"propertyNames\":{\"pattern\":\"^[a-z]$\"},\"additionalProperties\":{\"const\":1}}",
          LIST("{}", "{\"a\":1}", "{\"a\":1,\"b\":1}"), LIST("{\"A\":1}", "{\"ab\":1}"));
    check("{\"type\":\"object\",\"propertyNames\":{\"type\":\"string\"},\"additionalProperties\":{\"const\":1}}",
          LIST("{\"Any\":1}"), LIST("{\"Any\":2}"));
}

static void arrays_have_items_and_counts(void **state)
{
    (void)state;
    check("{\"type\":\"array\",\"items\":{\"type\":\"integer\"}}", LIST("[]", "[1]", "[1, 2,3]"),
          LIST("[\"a\"]", "[1,]"));
    check("{\"type\":\"array\",\"items\":{\"const\":1},\"minItems\":2,\"maxItems\":3}", LIST("[1,1]", "[1,1,1]"),
          LIST("[]", "[1]", "[1,1,1,1]"));
    check("{\"type\":\"array\",\"prefixItems\":[{\"const\":1},{\"const\":2}],\"items\":false}",
          LIST("[]", "[1]", "[1,2]"), LIST("[2]", "[1,2,3]"));
    check("{\"type\":\"array\",\"prefixItems\":[{\"const\":1},{\"const\":2}],\"items\":{\"const\":3},\"minItems\":2}",
          LIST("[1,2]", "[1,2,3,3]"), LIST("[1]", "[1,3]"));
    check("{\"type\":\"array\",\"prefixItems\":[{\"const\":1},{\"const\":2}],\"minItems\":3}", LIST("[1,2,\"x\"]"),
          LIST("[1,2]"));
    check("{\"type\":\"array\",\"maxItems\":0}", LIST("[]"), LIST("[1]"));
    check("{\"type\":\"array\"}", LIST("[1,\"a\",[null]]"), LIST("{}"));
}

static void strings_are_counted_in_characters(void **state)
{
    char exact[202], more[203], less[201];

    (void)state;
    check("{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}",
          LIST("\"ab\"", "\"abc\"", "\"\xc3\xa9\xe2\x82\xac\"", "\"\\n\\u0041\\ud83d\\ude00\""),
          LIST("\"a\"", "\"abcd\"", "\"\xc3\xa9\""));
    memset(exact, 'x', sizeof(exact));
    memcpy(more, exact, sizeof(exact));
    memcpy(less, exact, sizeof(less) - 1);
    exact[0] = exact[200] = more[0] = more[201] = less[0] = less[199] = '"';
    exact[201] = more[202] = less[200] = '\0';
    more[200] = 'x';
    check("{\"type\":\"string\",\"minLength\":199,\"maxLength\":199}", LIST(exact), LIST(more, less));
    check("{\"type\":\"string\",\"maxLength\":199}", LIST(exact, less, "\"\"", "\"xx\""), LIST(more));
    check("{\"type\":\"string\",\"minLength\":199}", LIST(exact, more), LIST(less));
    check("{\"minLength\":1}", LIST("\"a\""), LIST("\"\""));
}

static void formats_are_checked(void **state)
{
    (void)state;
    check("{\"type\":\"string\",\"format\":\"date\"}", LIST("\"2024-02-28\"", "\"1999-12-31\""),
          LIST("\"2024-13-01\"", "\"2024-02-30\"", "\"24-01-01\""));
    check("{\"type\":\"string\",\"format\":\"date-time\"}",
          LIST("\"2024-02-28T23:59:59Z\"", "\"2024-02-28T23:59:59.5+02:00\""),
          LIST("\"2024-02-28\"", "\"2024-02-28T24:00:00Z\"", "\"2024-02-28T23:59:59\""));
    check("{\"type\":\"string\",\"format\":\"uuid\"}", LIST("\"123e4567-e89b-12d3-a456-426614174000\""),
          LIST("\"123e4567\""));
    check("{\"type\":\"string\",\"format\":\"ipv4\"}", LIST("\"192.168.0.255\""), LIST("\"256.1.1.1\"", "\"1.1.1\""));
    check("{\"type\":\"string\",\"format\":\"email\"}", LIST("\"a.b@c.de\""),
          LIST("\"a@b\"", "\"@c.de\"", "\"a..b@c.de\""));
}

static void conditions_on_a_string_hold_together(void **state)
{
    (void)state;
    /* Worked into the one repetition. */
    check("{\"pattern\":\"^[a-z]+$\",\"minLength\":2,\"maxLength\":3}", LIST("\"ab\"", "\"abc\""),
          LIST("\"a\"", "\"abcd\"", "\"1b\""));
    check("{\"pattern\":\"^x[ab]{2}(?:cd)*$\",\"maxLength\":8}", LIST("\"xab\"", "\"xaacd\"", "\"xaacdcd\""),
          LIST("\"xa\"", "\"xaacdcdcd\"", "\"xaac\""));
    check("{\"pattern\":\"[0-9]$\",\"minLength\":3,\"maxLength\":4}", LIST("\"ab1\"", "\"\\n231\"", "\"\\\"\\u00011\""),
          LIST("\"1\"", "\"abcd1\"", "\"abc\""));
    /* A machine. */
    check("{\"pattern\":\"a\",\"minLength\":2,\"maxLength\":3}",
          LIST("\"ab\"", "\"bba\"", "\"\\\"a\"",
               "\"\xc3\xa9\xc3\xa9"
               "a\""),
          LIST("\"a\"", "\"bb\"", "\"bbba\"", "\"\"a\""));
    check("{\"pattern\":\"^[ab]*c[ab]*$\",\"minLength\":3}", LIST("\"abc\"", "\"cab\"", "\"aacaaaaaaaa\""),
          LIST("\"ac\"", "\"aaa\"", "\"accb\""));
    check("{\"pattern\":\"^(ab|c)*$\",\"minLength\":3,\"maxLength\":3}", LIST("\"abc\"", "\"cab\"", "\"ccc\""),
          LIST("\"abab\"", "\"cc\"", "\"aba\""));
    check("{\"pattern\":\"^(a|bc)$|^d+$\",\"maxLength\":1}", LIST("\"a\"", "\"d\""), LIST("\"bc\"", "\"dd\""));
    check("{\"format\":\"date\",\"pattern\":\"^20.*1$\"}", LIST("\"2024-02-21\""),
          LIST("\"1924-02-21\"", "\"2024-02-22\"", "\"20x1\""));
    check("{\"format\":\"email\",\"maxLength\":8}", LIST("\"a@b.cd\"", "\"ab@cd.ef\""),
          LIST("\"abc@cd.ef\"", "\"ab@cdef\""));
    check("{\"format\":\"uuid\",\"minLength\":36,\"maxLength\":36}", LIST("\"123e4567-e89b-12d3-a456-426614174000\""),
          LIST("\"\""));
}

static void look_aheads_at_the_beginning_are_conditions(void **state)
{
    (void)state;
    check("{\"pattern\":\"^(?!\\\\.)(?!.*\\\\.\\\\.)[a-z.]*@[a-z.]+$\"}", LIST("\"a.b@c\"", "\"@c.d\""),
          LIST("\".a@c\"", "\"a..b@c\"", "\"a@c..d\"", "\"a\""));
    check("{\"pattern\":\"^(?=.*[A-Z])(?=.*[0-9]).{4,6}$\"}", LIST("\"aB3d\"", "\"3BBBBB\""),
          LIST("\"aB3\"", "\"abc3\"", "\"ABCd\"", "\"aB3defg\""));
    check("{\"pattern\":\"^(?![)(|]|x)a*x?$\"}", LIST("\"a\"", "\"aax\"", "\"\""), LIST("\"x\"", "\"ab\""));
}

static void choices_and_references_work(void **state)
{
    (void)state;
    check("{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"null\"}]}", LIST("1", "null"), LIST("\"a\""));
    check("{\"oneOf\":[{\"type\":\"object\",\"properties\":{\"k\":{\"const\":\"a\"}},\"required\":[\"k\"]},"
          "{\"type\":\"object\",\"properties\":{\"k\":{\"const\":\"b\"},\"n\":{\"type\":\"integer\"}},\"required\":["
          "\"k\",\"n\"]}]}",
          LIST("{\"k\":\"a\"}", "{\"k\":\"b\",\"n\":1}"), LIST("{\"k\":\"b\"}", "{\"k\":\"c\"}"));
    check("{\"$ref\":\"#/$defs/n\",\"$defs\":{\"n\":{\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"integer\"},"
          "\"next\":{\"anyOf\":[{\"$ref\":\"#/$defs/n\"},{\"type\":\"null\"}]}},\"required\":[\"v\",\"next\"]}}}",
          LIST("{\"v\":1,\"next\":null}", "{\"v\":1,\"next\":{\"v\":2,\"next\":null}}"),
          LIST("{\"v\":1}", "{\"next\":null}"));
    check("{\"type\":\"object\",\"properties\":{\"kids\":{\"type\":\"array\",\"items\":{\"$ref\":\"#\"}}}}",
          LIST("{}", "{\"kids\":[{\"kids\":[]},{}]}"), LIST("{\"kids\":[1]}"));
    check("{\"allOf\":[{\"$ref\":\"#/$defs/a\"},{\"properties\":{\"b\":{\"const\":2}},\"required\":[\"b\"]}],"
          "\"$defs\":{\"a\":{\"type\":\"object\",\"properties\":{\"a\":{\"const\":1}},\"required\":[\"a\"]}}}",
          LIST("{\"a\":1,\"b\":2}"), LIST("{\"a\":1}"));
    check("{\"allOf\":[{\"type\":\"string\"}],\"description\":\"x\"}", LIST("\"s\""), LIST("1"));
}

static void refusals_name_the_keyword_and_its_place(void **state)
{
    static const char *const cases[][2] = {
        {"{", "it is not JSON"},
        {"1", "#: a schema must be an object"},
        {"{\"type\":\"str\"}", "'type' names no type"},
        {"{\"not\":{}}", "#: 'not' is not supported"},
        {"{\"properties\":{\"a\":{\"patternProperties\":{}}}}", "#/properties/a: 'patternProperties' is not supported"},
        {"{\"type\":\"array\",\"items\":{\"if\":true}}", "#/items: 'if' is not supported"},
        {"{\"type\":\"array\",\"uniqueItems\":true}", "'uniqueItems'"},
        {"{\"type\":\"array\",\"contains\":{}}", "'contains'"},
        {"{\"type\":\"number\",\"multipleOf\":2}", "'multipleOf'"},
        {"{\"type\":\"object\",\"minProperties\":2}", "#: 'minProperties' is supported up to one more than are named"},
        {"{\"properties\":{\"a\":{}},\"minProperties\":2}", "'minProperties' is more than there may be"},
        {"{\"minProperties\":2,\"maxProperties\":1}", "'minProperties' is more than 'maxProperties'"},
        {"{\"required\":[\"a\",\"b\"],\"maxProperties\":1}", "'maxProperties' is less than are required"},
        {"{\"type\":\"object\",\"maxProperties\":1.5}", "'maxProperties' must be an integer"},
        {"{\"type\":\"string\",\"format\":\"uri\"}", "'format' \"uri\""},
        {"{\"type\":\"string\",\"pattern\":\"(?=a)\"}", "look-around"},
        {"{\"type\":\"string\",\"pattern\":\"^(?=a)b|c$\"}", "look-around"},
        {"{\"type\":\"string\",\"pattern\":\"^a(?=b)\",\"maxLength\":3}", "'pattern' beside 'maxLength': at byte"},
        {"{\"type\":\"string\",\"pattern\":\"^a*b*$\",\"maxLength\":100000}",
         "'pattern' beside 'maxLength': together they need too many states"},
        {"{\"type\":\"string\",\"pattern\":\"^a{9}$\",\"maxLength\":8}", "no text can ever match"},
        {"{\"$ref\":\"http://x\"}", "'$ref' names nothing"},
        {"{\"$ref\":\"#/$defs/x\"}", "'$ref' names nothing"},
        {"{\"$ref\":\"#\"}", "'$ref' leads through"},
        {"{\"anyOf\":[{\"$ref\":\"#\"}]}", "no text can ever match"},
        {"{\"anyOf\":[{\"$ref\":\"#\"},{\"type\":\"null\"}]}", "begins with itself"},
        {"{\"anyOf\":[{}],\"type\":\"string\"}", "'type' beside 'anyOf'"},
        {"{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"number\"}]}", "'oneOf' is supported where"},
        {"{\"allOf\":[{\"type\":\"string\"},{\"minLength\":1}]}", "inside 'allOf'"},
        {"{\"type\":\"object\",\"required\":[\"a\"],\"additionalProperties\":false}", "\"a\" is required"},
        {"{\"type\":\"integer\",\"minimum\":2,\"maximum\":1}", "no integer lies between"},
        {"{\"type\":\"integer\",\"exclusiveMinimum\":1,\"exclusiveMaximum\":2}", "no integer lies between"},
        {"{\"type\":\"string\",\"minLength\":3,\"maxLength\":2}", "'minLength' is more"},
        {"{\"enum\":[]}", "'enum' holds no value"},
        {"false", "no text can ever match"},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#\"}},\"required\":[\"a\"]}",
         "no text can ever match"},
        {"{\"properties\":{\"a\":3}}", "#/properties/a: a schema must be"},
        {"{\"nullable\":true}", "'nullable' is not supported"},
        {"{\"type\":\"integer\",\"minimum\":1e16}", "integers beyond 9e15"},
        {"{\"type\":\"integer\",\"exclusiveMaximum\":-1e300}", "integers beyond 9e15"},
        {"{\"$ref\":\"#/$defs/a\",\"$defs\":{\"a\":{\"$ref\":\"#/$defs/"
         "b\",\"minLength\":2},\"b\":{\"type\":\"string\"}}}",
         "'minLength' beside '$ref'"},
        {"{\"allOf\":[{\"$ref\":\"#/$defs/a\",\"required\":[\"b\"]},{\"type\":\"object\"}],\"$defs\":{\"a\":{\"type\":"
         "\"object\"}}}",
         "'required' beside '$ref'"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        grammar_fixture_refuses(&grammar_suite, RV_GRAMMAR_JSON_SCHEMA, cases[i][0], cases[i][1]);
}

/* What is said of names holds for every one of them, or is refused. */
static void names_are_as_they_are_described(void **state)
{
    static const char *const cases[][2] = {
        {"{\"properties\":{\"a\":{}},\"propertyNames\":{\"pattern\":\"^x\"},\"additionalProperties\":true}",
         "'propertyNames' beside 'properties'"},
        {"{\"properties\":{\"a\":{}},\"propertyNames\":{\"maxLength\":0},\"additionalProperties\":false}",
         "'propertyNames' beside 'properties'"},
        {"{\"required\":[\"a\"],\"propertyNames\":{\"enum\":[\"b\"]},\"additionalProperties\":{}}",
         "'propertyNames' beside 'properties'"},
        {"{\"type\":\"object\",\"propertyNames\":{\"not\":{\"const\":\"a\"}}}", "'not' inside 'propertyNames'"},
        {"{\"type\":\"object\",\"propertyNames\":{\"anyOf\":[{\"pattern\":\"^a\"}]}}",
         "'anyOf' inside 'propertyNames'"},
        {"{\"type\":\"object\",\"propertyNames\":{\"enum\":[1]}}", "'propertyNames' must describe strings"},
        {"{\"type\":\"object\",\"propertyNames\":{\"enum\":[\"a\"],\"maxLength\":0}}",
         "'maxLength' inside 'propertyNames'"},
        {"{\"type\":\"object\",\"propertyNames\":false}", "'propertyNames' must describe strings"},
    };

    (void)state;
    check("{\"type\":\"object\",\"propertyNames\":{\"enum\":[\"a\",\"b\"]},\"additionalProperties\":{\"const\":1}}",
          LIST("{}", "{\"b\":1}"), LIST("{\"c\":1}"));
    check("{\"properties\":{\"a\":{\"const\":1}},\"propertyNames\":{\"type\":\"string\",\"description\":\"x\"}}",
          LIST("{\"a\":1}"), LIST("{\"b\":1}"));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        grammar_fixture_refuses(&grammar_suite, RV_GRAMMAR_JSON_SCHEMA, cases[i][0], cases[i][1]);
}

static void hostile_schemas_are_refused_quickly(void **state)
{
    const struct grammar_suite_refusal cases[] = {
        {grammar_suite_repeat("", "[", 60000, ""), "nested deeper"},
        {grammar_suite_repeat("", "{\"items\":", 5000, ""), "nested deeper"},
        {grammar_suite_repeat("{\"type\":\"string\",\"minLength\":", "9", 7, "}"), "'minLength' must be"},
        {grammar_suite_repeat("{\"type\":\"string\",\"pattern\":\"", "(a", 20000, "\"}"), "nested deeper"},
        {grammar_suite_repeat("{\"type\":\"string\",\"pattern\":\"", "(((((a{90}){90}){90}){90}){90})", 1, "\"}"),
         "too large"},
        {grammar_suite_repeat("{\"type\":\"array\",\"items\":{},\"minItems\":", "1048576", 1, "}"), "too large"},
        {grammar_suite_repeat("{\"enum\":[", "\"a\",", 20000, "1]}"), "bytes, more than"},
        {grammar_suite_repeat("{\"anyOf\":[", "{},", 20000, "{}]}"), "more than 16384 schemas"},
    };

    (void)state;
    grammar_suite_refuse(RV_GRAMMAR_JSON_SCHEMA, cases, sizeof(cases) / sizeof(cases[0]));
}

/* Nearly every value of this text is a schema of its own. */
static void there_is_room_for_as_many_schemas_as_values(void **state)
{
    char *text = grammar_suite_repeat("{\"anyOf\":[", "false,", 3000, "{\"const\":1}]}");

    (void)state;
    check(text, LIST("1"), LIST("2", "false"));
    rv_free(text);
}

static void a_json_object_is_any_object(void **state)
{
    struct rv_grammar *g = grammar_fixture_new(&grammar_suite, RV_GRAMMAR_JSON_OBJECT, "");

    (void)state;
    assert_true(grammar_fixture_takes(g, "{\"a\": {\"b\": [1, 2.5e3, \"x\", null]}}"));
    assert_true(grammar_fixture_takes(g, "{}"));
    assert_false(grammar_fixture_takes(g, "[]"));
    assert_false(grammar_fixture_takes(g, "{} "));
    rv_grammar_unref(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_types_take_their_values),
        cmocka_unit_test(constants_are_letters),
        cmocka_unit_test(objects_have_their_properties_in_order),
        cmocka_unit_test(members_are_counted),
        cmocka_unit_test(further_names_are_not_those_of_properties),
        cmocka_unit_test(arrays_have_items_and_counts),
        cmocka_unit_test(strings_are_counted_in_characters),
        cmocka_unit_test(formats_are_checked),
        cmocka_unit_test(conditions_on_a_string_hold_together),
        cmocka_unit_test(look_aheads_at_the_beginning_are_conditions),
        cmocka_unit_test(choices_and_references_work),
        cmocka_unit_test(refusals_name_the_keyword_and_its_place),
        cmocka_unit_test(names_are_as_they_are_described),
        cmocka_unit_test(hostile_schemas_are_refused_quickly),
        cmocka_unit_test(there_is_room_for_as_many_schemas_as_values),
        cmocka_unit_test(a_json_object_is_any_object),
    };

    return cmocka_run_group_tests(tests, grammar_suite_set_up, grammar_suite_tear_down);
}
