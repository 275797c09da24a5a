/* What parses, what does not, and how far nesting goes. */
#include "support/jinja.h"

#include <string.h>

static void precedence_is_jinjas(void **state)
{
    (void)state;
    test_jinja_renders("{{ 1 + 2 * 3 - 4 }}", NULL, "3");
    test_jinja_renders("{{ 2 ** 3 ** 2 }}", NULL, "64");
    test_jinja_renders("{{ (1 + 2) * 3 }}", NULL, "9");
    test_jinja_renders("{{ not false and true or false }}", NULL, "true");
    test_jinja_renders("{{ 1 < 2 and 'a' not in 'bc' }}", NULL, "true");
    test_jinja_renders("{{ 'x' ~ 1 + 2 }}", NULL, "x12");
    test_jinja_renders("{{ -3 | abs }} {{ - 3 }} {{ 5 - 3 }} {{ 5 -3 }}", NULL, "3 -3 2 2");
    test_jinja_renders("{{ x is defined and x is not none }}", "{\"x\":1}", "true");
    test_jinja_renders("{{ 'a' if false else 'b' if false else 'c' }}", NULL, "c");
    test_jinja_renders("{{ [1, 2,][1] }}{{ ('a', 'b')[0] }}{{ {'k': 'v',}.k }}{{ ()|length }}", NULL, "2av0");
    test_jinja_renders("{{ 'side ' 'by' \" side\" }}", NULL, "side by side");
    test_jinja_renders("{{ x.0 }}", "{\"x\":[7]}", "7");
}

static void broken_templates_are_refused_with_their_line(void **state)
{
    (void)state;
    test_jinja_fails("a\n{{ }}", NULL, "cannot parse chat template: line 2: expected an expression, got '}}'");
    test_jinja_fails("{{ (1 }}", NULL, "expected ')'");
    test_jinja_fails("{{ [1 2] }}", NULL, "expected ',' or ']'");
    test_jinja_fails("{{ {1} }}", NULL, "expected ':'");
    test_jinja_fails("{{ a[] }}", NULL, "expected an index");
    test_jinja_fails("{{ a. }}", NULL, "expected a name after '.'");
    test_jinja_fails("{{ a| }}", NULL, "expected the name of a filter");
    test_jinja_fails("{{ f(a=1, 2) }}", NULL, "positional argument after a named one");
    test_jinja_fails("{% if x %}", NULL, "a block is never closed");
    test_jinja_fails("{% endif %}", NULL, "expected a statement, got 'endif'");
    test_jinja_fails("{% for x of y %}{% endfor %}", NULL, "expected 'in'");
    test_jinja_fails("{% for 1 in y %}{% endfor %}", NULL, "expected the name of a variable");
    test_jinja_fails("{% set 1 = 2 %}", NULL, "expected a variable or an attribute");
    test_jinja_fails("{% macro m(a=1, b) %}{% endmacro %}", NULL, "expected a default");
    test_jinja_fails("{% break %}", NULL, "only inside a for loop");
    test_jinja_fails("{% for x in [1] %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}", NULL, "only inside");
    test_jinja_fails("{% unknown %}", NULL, "expected a statement, got 'unknown'");
    test_jinja_fails("{{ 99999999999999999999 }}", NULL, "fewer digits");
    test_jinja_fails("{{ 1 if }}", NULL, "expected an expression");
}

static void statements_that_read_files_do_not_exist(void **state)
{
    (void)state;
    test_jinja_fails("{% include 'x' %}", NULL, "got 'include'");
    test_jinja_fails("{% import 'x' as y %}", NULL, "got 'import'");
    test_jinja_fails("{% from 'x' import y %}", NULL, "got 'from'");
    test_jinja_fails("{% extends 'x' %}", NULL, "got 'extends'");
}

static void long_chains_are_not_deep(void **state)
{
    static char source[200000];
    size_t used;

    (void)state;
    memcpy(source, "{{ (1", 6);
    for (int i = 0; i < 5000; i++)
        memcpy(source + strlen(source), "+1", 3);
    memcpy(source + strlen(source), ") }}", 5);
    test_jinja_renders(source, NULL, "5001");
    memcpy(source, "{% if false %}", 15);
    for (int i = 0; i < 3000; i++)
        memcpy(source + strlen(source), "{% elif false %}", 17);
    memcpy(source + strlen(source), "{% else %}x{% endif %}", 23);
    test_jinja_renders(source, NULL, "x");
    used = 0;
    memcpy(source, "{{ ", 4);
    for (int i = 0; i < 2000; i++) {
        used = strlen(source);
        memcpy(source + used, "0 if false else ", 17);
    }
    memcpy(source + strlen(source), "'end' }}", 9);
    test_jinja_renders(source, NULL, "end");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(precedence_is_jinjas),
        cmocka_unit_test(broken_templates_are_refused_with_their_line),
        cmocka_unit_test(statements_that_read_files_do_not_exist),
        cmocka_unit_test(long_chains_are_not_deep),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
