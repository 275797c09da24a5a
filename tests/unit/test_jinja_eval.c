/* Statements and expressions by small templates: what they write, and how they fail. */
#include "support/jinja.h"

#include <string.h>

static void undefined_prints_nothing_and_is_false(void **state)
{
    (void)state;
    test_jinja_renders("[{{ x }}{{ x.y }}{{ none }}]", NULL, "[]");
    test_jinja_renders("{{ x is undefined }} {{ x is defined }} {{ 'a' in x }} {{ 'b' if x }}", NULL,
                       "true false false ");
    test_jinja_renders("{{ x|default('d') }}{{ ''|default('e', true) }}{{ ''|default('f') }}", NULL, "de");
    test_jinja_renders("{{ x == none }} {{ x == y }} {{ none == none }}", NULL, "false true true");
    test_jinja_fails("a\n{{ 'a' + x }}", NULL, "cannot render chat template: line 2: cannot join string and undefined");
    test_jinja_fails("{{ x|length }}", NULL, "line 1: length: undefined has no length");
    test_jinja_fails("{% for i in x %}{% endfor %}", NULL, "cannot loop over undefined");
    test_jinja_fails("{{ x() }}", NULL, "cannot call 'x', which is undefined");
    test_jinja_fails("{{ x[0] }}", NULL, "cannot index undefined with integer");
}

static void loops_know_where_they_are(void **state)
{
    (void)state;
    test_jinja_renders(
        "{% for x in [4,5,6] %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}"
        "{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }};{% endfor %}",
        NULL, "1032truefalse35;2121falsefalse346;3210falsetrue35;");
    test_jinja_renders("{% for k, v in d.items() %}{{ k }}={{ v }},{% endfor %}{% for k in d %}{{ k }}{% endfor %}",
                       "{\"d\":{\"b\":1,\"a\":2}}", "b=1,a=2,ba");
    test_jinja_renders("{% for x in [1,2,3,4] if x is odd %}{{ x }}/{{ loop.length }} {% endfor %}", NULL, "1/2 3/2 ");
    test_jinja_renders("{% for x in [] %}a{% else %}none{% endfor %}", NULL, "none");
    test_jinja_renders("{% for x in range(9) %}{% if x == 1 %}{% continue %}{% endif %}{% if x > 3 %}{% break %}"
                       "{% endif %}{{ x }}{% endfor %}",
                       NULL, "023");
    test_jinja_renders(
        "{% for a in [1,2] %}{% set o = loop %}{% for b in 'x' if 0 else [3] %}{{ o.index }}{{ loop.index }} "
        "{% endfor %}{% endfor %}",
        NULL, "11 21 ");
    test_jinja_fails("{% for a, b in [[1]] %}{% endfor %}", NULL, "cannot unpack list into 2 variables");
}

static void set_in_a_loop_ends_with_the_round(void **state)
{
    (void)state;
    test_jinja_renders("{% set x = 0 %}{% for i in [1,2] %}{{ x }}{% set x = i %}{{ x }} {% endfor %}{{ x }}", NULL,
                       "01 02 0");
    test_jinja_renders("{% for i in [1,2] %}{% if i == 2 %}[{{ y }}]{% endif %}{% set y = i %}{% endfor %}", NULL,
                       "[]");
    test_jinja_renders("{% set x = 0 %}{% if true %}{% set x = 1 %}{% endif %}{{ x }}", NULL, "1");
    test_jinja_renders(
        "{% set ns = namespace(n=0, t='') %}{% for i in [1,2] %}{% set ns.n = ns.n + i %}{% set ns.t %}<{{ i }}>"
        "{% endset %}{% endfor %}{{ ns.n }}{{ ns.t }}",
        NULL, "3<2>");
    test_jinja_renders("{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set c|upper %}x{{ a }}{% endset %}{{ c }}", NULL, "12X1");
    test_jinja_fails("{% set d = {} %}\n{% set d.x = 1 %}", NULL, "line 2: cannot set an attribute of dict");
}

static void macros_take_arguments_and_defaults(void **state)
{
    (void)state;
    test_jinja_renders(
        "{% macro m(a, b='B', c=a) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }} {{ m(1, c=3) }} {{ m(b=2) }}", NULL,
        "1B1 1B3 2");
    test_jinja_renders("{% macro m(n) %}{{ n }}{% if n %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(3) }}", NULL,
                       "3210");
    test_jinja_renders(
        "{% macro m(x) %}{{ caller('c') }}{{ x }}{% endmacro %}{% call(y) m('X') %}[{{ y }}]{% endcall %}", NULL,
        "[c]X");
    test_jinja_renders(
        "{% macro m() %}{{ g }}{{ v }}{% endmacro %}{% set g = 1 %}{% for v in [2] %}{{ m() }}{% endfor %}", NULL, "1");
    test_jinja_renders("{% macro m(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ m(*[1, 2]) }}{{ m(**{'b': 4, 'a': 3}) }}",
                       NULL, "1234");
    test_jinja_fails("{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", NULL, "macro 'm' has no place");
    test_jinja_fails("{% macro m(a) %}{% endmacro %}{{ m(z=2) }}", NULL, "macro 'm' has no place");
    test_jinja_fails("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", NULL, "nests deeper than 128");
}

static void slices_and_indices_are_pythons(void **state)
{
    const char *json = "{\"l\":[0,1,2,3,4],\"s\":\"h\\u00e9llo\"}";

    (void)state;
    test_jinja_renders("{{ l[1:3] }}{{ l[:-3] }}{{ l[-2:] }}{{ l[::2] }}{{ l[::-1] }}{{ l[3:1:-1] }}{{ l[9:] }}", json,
                       "[1, 2][0, 1][3, 4][0, 2, 4][4, 3, 2, 1, 0][3, 2][]");
    test_jinja_renders("{{ s[1] }}{{ s[-1] }}{{ s[1:3] }}{{ s[::-1] }}{{ s[:0] }}{{ s|length }}{{ s[99] }}", json,
                       "\xc3\xa9o\xc3\xa9loll\xc3\xa9h5");
    test_jinja_renders("{{ l[0] }}{{ l[-1] }}{{ l[9] }}{{ {'a': 1}['a'] }}{{ {'a': 1}['b'] }}", json, "041");
    test_jinja_fails("{{ l[::0] }}", json, "cannot slice in steps of 0");
    test_jinja_fails("{{ l['a':] }}", json, "cannot slice with string");
    test_jinja_fails("{{ 5[1:] }}", json, "cannot slice integer");
}

static void arithmetic_is_pythons(void **state)
{
    (void)state;
    test_jinja_renders("{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 4 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }}",
                       NULL, "3 -4 2 3.5 2.0 1024 0.5");
    test_jinja_renders("{{ 0.1 + 0.2 }} {{ 1.0 }} {{ 1 + 1.5 }} {{ 0.1 }}", NULL, "0.30000000000000004 1.0 2.5 0.1");
    test_jinja_renders(
        "{{ 1 == 1.0 }} {{ true == 1 }} {{ '1' == 1 }} {{ [1, {'a': 2}] == [1, {'a': 2}] }} {{ 'a' < 'b' }}", NULL,
        "true true false true true");
    test_jinja_renders("{{ 'ab' * 3 }}{{ 'a' ~ 1 ~ true }}{{ [1] + [2] }}{{ 'n' + 1 }}{{ (-1) ** 1000000001 }}", NULL,
                       "abababa1true[1, 2]n1-1");
    test_jinja_fails("{{ 1 // 0 }}", NULL, "cannot divide by 0");
    test_jinja_fails("{{ 1 / 0 }}", NULL, "not a finite number");
    test_jinja_fails("{{ 9223372036854775807 + 1 }}", NULL, "too large for an integer");
    test_jinja_fails("{{ 10 ** 100 }}", NULL, "a power is too large");
    test_jinja_fails("{{ 'a' + [1] }}", NULL, "cannot calculate with string and list");
    test_jinja_fails("{{ 1 < 'a' }}", NULL, "cannot compare integer with string");
}

static void empty_containers_are_false(void **state)
{
    (void)state;
    test_jinja_renders("{{ not [] }}{{ not {} }}{{ not '' }}{{ not 0 }}{{ not 0.0 }}{{ not [0] }}", NULL,
                       "truetruetruetruetruefalse");
    test_jinja_renders("{{ [] or 'x' }}{{ 0 and 'y' }}{{ 'a' and 'b' }}", NULL, "x0b");
}

static void a_called_method_wins_over_a_member_of_its_name(void **state)
{
    const char *json = "{\"d\":{\"items\":\"data\",\"x\":1}}";

    (void)state;
    test_jinja_renders("{{ d.items }} {{ d['items'] }} {% for k, v in d.items() %}{{ k }} {% endfor %}", json,
                       "data data items x ");
    test_jinja_renders("{{ d['keys'] is undefined }}", json, "true");
}

static void whitespace_control_as_hugging_face_sets_it(void **state)
{
    (void)state;
    test_jinja_renders("a\n  {% if true %}\nb\n  {% endif %}\nc\n", NULL, "a\nb\nc");
    test_jinja_renders("a\n  {%- if true -%}\n  b\n  {%- endif %}\nc", NULL, "abc");
    test_jinja_renders("{% raw %}{{ x }}{% endraw %}{# gone #}!", NULL, "{{ x }}!");
    test_jinja_renders("{% filter upper|trim %} a{{ 1 }} {% endfilter %}", NULL, "A1");
    test_jinja_renders("x{% generation %}y{% endgeneration %}z", NULL, "xyz");
}

static void dates_are_the_only_thing_from_outside(void **state)
{
    (void)state;
    test_jinja_renders("{{ strftime_now('%Y')|length }}{{ strftime_now('%d %b')|length }}{{ strftime_now('%%%q') }}",
                       NULL, "46%%q");
    test_jinja_fails("{{ raise_exception('No ' ~ 'way') }}", NULL, "line 1: No way");
    test_jinja_fails("{{ raise_exception() }}", NULL, "refuses this conversation");
}

static void bad_variables_are_refused(void **state)
{
    struct rv_chat_message message = {.role = NULL, .content = "x"};
    struct rv_chat_render render = {.messages = &message, .n_messages = 1};
    struct rv_chat_template *tmpl;
    struct ruvllm_error failure;
    struct rv_buf text;

    (void)state;
    test_jinja_fails("x", "[1]", "must be an object");
    test_jinja_fails("x", "{", "not JSON");
    test_jinja_fails("x", "{\"messages\": 5}", "'messages' must be an array");
    test_jinja_fails("x", "{\"messages\": [5]}", "message 0 is not an object");
    rv_buf_init(&text, 100);
    assert_ok(rv_chat_template_new(&tmpl, "x", 1, err));
    assert_fails(rv_chat_template_render(tmpl, &render, &text, NULL, &failure), RUVLLM_INVALID, failure,
                 "message 0 has no role");
    message.role = "user";
    render.json = "{\"messages\": []}";
    render.json_len = strlen(render.json);
    assert_fails(rv_chat_template_render(tmpl, &render, &text, NULL, &failure), RUVLLM_INVALID, failure, "given twice");
    rv_chat_template_free(tmpl);
    rv_buf_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(undefined_prints_nothing_and_is_false),
        cmocka_unit_test(loops_know_where_they_are),
        cmocka_unit_test(set_in_a_loop_ends_with_the_round),
        cmocka_unit_test(macros_take_arguments_and_defaults),
        cmocka_unit_test(slices_and_indices_are_pythons),
        cmocka_unit_test(arithmetic_is_pythons),
        cmocka_unit_test(empty_containers_are_false),
        cmocka_unit_test(a_called_method_wins_over_a_member_of_its_name),
        cmocka_unit_test(whitespace_control_as_hugging_face_sets_it),
        cmocka_unit_test(dates_are_the_only_thing_from_outside),
        cmocka_unit_test(bad_variables_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
