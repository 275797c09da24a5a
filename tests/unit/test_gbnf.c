/* GBNF: what texts its rules take, and what is refused. */
#include "support/grammar_suite.h"

#include <string.h>

static void check(const char *grammar, const char *const *good, const char *const *bad)
{
    grammar_suite_check(RV_GRAMMAR_GBNF, grammar, good, bad);
}

static void literals_classes_and_counts_take_what_they_say(void **state)
{
    (void)state;
    check("root ::= \"yes\" | \"no\"", LIST("yes", "no"), LIST("", "y", "yesno", "maybe"));
    check("root ::= [a-c]+ [^a-c]", LIST("ax", "abcz", "a\xc3\xa9"), LIST("a", "x", "abca", "a\xc3"));
    check("root ::= \"a\"{2,3} \"b\"?", LIST("aa", "aaa", "aab", "aaab"), LIST("a", "aaaa", "b"));
    check("root ::= \"a\"{2} [b]{2,}", LIST("aabb", "aabbbbb"), LIST("aab", "abb"));
    check("root ::= .", LIST("a", "\n", "\xe2\x82\xac", "\xf0\x9f\x98\x80"), LIST("", "ab", "\xff", "\xed\xa0\x80"));
    check("root ::= \"\\x41\\u00e9\\U0001F600\\n\\\"\"", LIST("A\xc3\xa9\xf0\x9f\x98\x80\n\""), LIST("A"));
    check("root ::= [\\]\\[\\-x]*", LIST("", "]-[x"), LIST("y"));
    check("root ::= [zxvtrpnljhfdb97531A-C]*", LIST("", "zb9A", "C1dx"), LIST("y", "a", "0", "2", "D"));
    check("root ::= \"\"", LIST(""), LIST("a"));
    check("root ::= (\"a\" (\"b\" | \"c\"))*", LIST("", "abac"), LIST("a", "abb"));
    check("root ::= ((\"a\"*)*)*", LIST("", "aaa"), LIST("b"));
}

static void rules_call_each_other_and_themselves(void **state)
{
    (void)state;
    check("root ::= list\nlist ::= \"[\" (item (\",\" item)*)? \"]\" # comment\nitem ::= [0-9] | list",
          LIST("[]", "[1]", "[1,[2,[]]]"), LIST("[", "[1", "[,]", "[1]]"));
    check("root ::= a-1 | b_2\n\na-1 ::= \"x\"\n  | \"y\"\nb_2 ::= (\n \"z\"\n | \"w\")\n", LIST("x", "y", "z", "w"),
          LIST("xy", ""));
    check("root ::= \"a\" root | \"b\"", LIST("b", "ab", "aaaaab"), LIST("a", "ba"));
    check("root ::= s\ns ::= \"(\" s \")\" s |", LIST("", "()", "(())()"), LIST("(", ")", "(()"));
}

static void what_never_ends_is_left_out(void **state)
{
    (void)state;
    check("root ::= \"a\" | loop\nloop ::= \"b\" loop", LIST("a"), LIST("b", "bb", ""));
    grammar_fixture_refuses(&grammar_suite, RV_GRAMMAR_GBNF, "root ::= \"b\" root", "no text can ever match");
}

static void mistakes_are_named(void **state)
{
    static const char *const cases[][2] = {
        {"", "no rule 'root'"},
        {"main ::= \"a\"", "no rule 'root'"},
        {"root ::= other", "'other' is not defined"},
        {"root ::= \"a", "line 1: a literal is not closed"},
        {"root ::= \"a\"\nroot ::= \"b\"", "line 2: a rule is defined twice"},
        {"root ::= [a", "a class is not closed"},
        {"root ::= [z-a]", "runs backwards"},
        {"root ::= (\"a\"", "a group is not closed"},
        {"root ::= \"a\")", "closes no group"},
        {"root ::= *", "nothing to repeat"},
        {"root ::= \"a\"{3,2}", "counts of a repetition"},
        {"root ::= \"a\"{999999999}", "counts of a repetition"},
        {"root ::= \"\\q\"", "an escape is not known"},
        {"root ::= \"\\ud800\"", "names no character"},
        {"root = \"a\"", "'::=' must follow"},
        {"::= \"a\"", "must begin with its name"},
        {"root ::= root \"a\" | \"b\"", "begins with itself"},
        {"root ::= e root \"a\" | \"b\"\ne ::= \"x\"?", "begins with itself"},
        {"root ::= a\na ::= b\nb ::= a | \"x\"", "begins with itself"},
        {"root ::= \"\xff\"", "not UTF-8"},
        {"root ::= <[12]>", "a character stands where"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        grammar_fixture_refuses(&grammar_suite, RV_GRAMMAR_GBNF, cases[i][0], cases[i][1]);
}

static void hostile_grammars_are_refused_quickly(void **state)
{
    const struct grammar_suite_refusal cases[] = {
        {grammar_suite_repeat("root ::= ", "(", 60000, ""), "nested deeper"},
        {grammar_suite_repeat("root ::= ", "(", 30000, ")"), "nested deeper"},
        {grammar_suite_repeat("root ::= \"a\"", "{100000}", 40, ""), "too large"},
        {grammar_suite_repeat("root ::= ", "(\"a\"*", 90, ""), "not closed"},
        {grammar_suite_repeat("root ::= \"a\" ", "{50}", 90, ""), "too large"},
        {grammar_suite_repeat("root ::= \"\"", "{100000}", 6, ""), "too large"},
        {grammar_suite_repeat("root ::= ", "a", 70000, ""), "bytes, more than"},
        {grammar_suite_repeat("root ::= [", "a", 5000, "]"), "too many characters"},
    };

    (void)state;
    grammar_suite_refuse(RV_GRAMMAR_GBNF, cases, sizeof(cases) / sizeof(cases[0]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(literals_classes_and_counts_take_what_they_say),
        cmocka_unit_test(rules_call_each_other_and_themselves),
        cmocka_unit_test(what_never_ends_is_left_out),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(hostile_grammars_are_refused_quickly),
    };

    return cmocka_run_group_tests(tests, grammar_suite_set_up, grammar_suite_tear_down);
}
