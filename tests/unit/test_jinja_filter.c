/* Filters, tests and methods, and that each keeps track of whose bytes it moves. */
#include "support/jinja.h"

static void string_filters_and_methods(void **state)
{
    (void)state;
    test_jinja_renders("{{ ' a b ' | trim }}|{{ 'aB c'|upper }}|{{ 'AB'|lower }}|{{ \"they're bill's\"|title }}|{{ "
                       "'aBC'|capitalize }}",
                       NULL, "a b|AB C|ab|They'Re Bill'S|Abc");
    test_jinja_renders("{{ '\xc3\xa9\xc3\x9f'.upper() }}|{{ '\xe3\x80\x80x\xc2\xa0'.strip() }}|{{ 'xxaxx'.strip('x') "
                       "}}|{{ '\n a'.lstrip('\n') }}|{{ 'a\n'.rstrip('\n') }}",
                       NULL, "\xc3\x89\xe1\xba\x9e|x|a| a|a");
    test_jinja_renders("{{ 'a,b,,c'.split(',') }}{{ ' a  b '.split() }}{{ 'a,b,c'.split(',', 1) }}{{ 'a b "
                       "c'.split(none, 1) }}{{ 'a,b,c'.rsplit(',', 1) }}",
                       NULL,
                       "[\"a\", \"b\", \"\", \"c\"][\"a\", \"b\"][\"a\", \"b,c\"][\"a\", \"b c\"][\"a,b\", \"c\"]");
    test_jinja_renders("{{ 'aXbX'.replace('X', '-') }}{{ 'aXbX'|replace('X', '', 1) }}{{ 'ab'.replace('', '.') }}{{ "
                       "'aXbX'|replace('X', '+', count=1) }}",
                       NULL, "a-b-abX.a.b.a+bX");
    test_jinja_renders("{{ 'abc'.startswith('ab') }}{{ 'abc'.endswith(('x', 'bc')) }}{{ 'abcb'.find('b') }}{{ "
                       "'abcb'.find('z') }}{{ 'abcb'.count('b') }}{{ ','.join(['a', 'b']) }}",
                       NULL, "truetrue1-12a,b");
    test_jinja_renders("{{ 'a\nb\n\nc'|indent }}|{{ 'a\nb'|indent(2, true) }}|{{ 'a\n\nb'|indent(1, blank=true) }}",
                       NULL, "a\n    b\n\n    c|  a\n  b|a\n \n b");
    test_jinja_fails("{{ 'a'.split('') }}", NULL, "cannot split on an empty string");
    test_jinja_fails("{{ 'a'.startswith(1) }}", NULL, "take strings");
    test_jinja_fails("{{ 5|upper }}", NULL, "upper: expected a string, got integer");
    test_jinja_fails("{{ 'a'|nope }}", NULL, "there is no filter 'nope'");
    test_jinja_fails("{{ 'a' is nope }}", NULL, "there is no test 'nope'");
}

static void list_and_dict_filters(void **state)
{
    const char *json =
        "{\"l\":[{\"n\":\"b\",\"v\":2},{\"n\":\"A\",\"v\":1},{\"n\":\"c\"}],\"d\":{\"b\":1,\"A\":3,\"c\":2}}";

    (void)state;
    test_jinja_renders("{{ l|map(attribute='n')|join('-') }} {{ l|sort(attribute='n')|map(attribute='n')|join }} {{ "
                       "l|map(attribute='v', default=0)|list }}",
                       json, "b-A-c Abc [2, 1, 0]");
    test_jinja_renders("{{ l|selectattr('v')|list|length }}{{ l|selectattr('n', 'equalto', 'c')|list|length }}{{ "
                       "l|rejectattr('v', 'defined')|map(attribute='n')|first }}",
                       json, "21c");
    test_jinja_renders("{% for k, v in d|dictsort %}{{ k }}{{ v }} {% endfor %}{% for k, v in d|dictsort(by='value', "
                       "reverse=true) %}{{ k }}{% endfor %}",
                       json, "A3 b1 c2 Acb");
    test_jinja_renders("{{ [3,1,2]|sort }}{{ ['b','A']|sort(case_sensitive=true) }}{{ [1,2]|sort(reverse=true) }}{{ "
                       "[1,2,1]|unique|list }}{{ [1,2]|reverse|list }}",
                       NULL, "[1, 2, 3][\"A\", \"b\"][2, 1][1, 2][2, 1]");
    test_jinja_renders("{{ [2,3,1]|min }}{{ [2,3,1]|max }}{{ [1,2]|first }}{{ [1,2]|last }}{{ 'ab'|first }}{{ []|first "
                       "}}{{ 'ab'|list }}",
                       NULL, "1312a[\"a\", \"b\"]");
    test_jinja_renders("{{ [1,2,3]|select('odd')|list }}{{ [1,2]|reject('eq', 1)|list }}{{ ['a']|map('upper')|list "
                       "}}{{ [0,1]|select|list }}",
                       NULL, "[1, 3][2][\"A\"][1]");
    test_jinja_renders("{{ d.get('b') }}{{ d.get('z') is none }}{{ d.get('z', 9) }}{{ d.keys()|list }}{{ "
                       "d.values()|list }}{{ d|items|first }}",
                       json, "1true9[\"b\", \"A\", \"c\"][1, 3, 2][\"b\", 1]");
    test_jinja_renders("{% set q = [1] %}{% set _ = q.append(2) %}{{ q.pop(0) }}{{ q }}{{ dict(a=1)|length }}{{ "
                       "dict({'x': 1}, y=2) }}",
                       NULL, "1[2]1{\"x\": 1, \"y\": 2}");
    test_jinja_renders("{{ '12 x'|int }}{{ 'x'|int(7) }}{{ 3.9|int }}{{ '1.5'|float }}{{ 2|float }}{{ -2|abs }}{{ "
                       "2.567|round(1) }}{{ true|int }}",
                       NULL, "12731.52.022.61");
    test_jinja_fails("{{ [1, 'a']|sort }}", NULL, "cannot compare");
    test_jinja_fails("{{ [].pop() }}", NULL, "no such place");
    test_jinja_fails("{{ l|map('map') }}", json, "map needs an attribute");
}

static void json_is_written_as_the_reference_writes_it(void **state)
{
    const char *json = "{\"d\":{\"b\":[1,2.5,true,null,\"a\\n\\u00e9\\\"<\\u0001\"],\"a\":{}}}";

    (void)state;
    test_jinja_renders("{{ d|tojson }}", json,
                       "{\"b\": [1, 2.5, true, null, \"a\\n\xc3\xa9\\\"<\\u0001\"], \"a\": {}}");
    test_jinja_renders("{{ d|tojson(sort_keys=true, separators=(',', ':'), ensure_ascii=true) }}", json,
                       "{\"a\":{},\"b\":[1,2.5,true,null,\"a\\n\\u00e9\\\"<\\u0001\"]}");
    test_jinja_renders("{{ {'k': [1], 'e': []}|tojson(indent=2) }}", NULL,
                       "{\n  \"k\": [\n    1\n  ],\n  \"e\": []\n}");
    test_jinja_renders("{{ '\xf0\x9f\x99\x82'|tojson(ensure_ascii=true) }}{{ x|tojson }}", NULL,
                       "\"\\ud83d\\ude42\"null");
    test_jinja_renders("{{ ('{\"a\": [1, \"x\"]}'|from_json).a[1] }}", NULL, "x");
    test_jinja_fails("{{ '{'|from_json }}", NULL, "cannot read this text as JSON");
    test_jinja_fails("{{ range|tojson }}", NULL, "cannot write a function");
}

static void tests_look_at_types(void **state)
{
    (void)state;
    test_jinja_renders("{{ 'a' is string }}{{ 1 is number }}{{ 1.5 is float }}{{ 1 is integer }}{{ true is boolean "
                       "}}{{ none is none }}",
                       NULL, "truetruetruetruetruetrue");
    test_jinja_renders("{{ [] is iterable }}{{ {} is mapping }}{{ 'a' is sequence }}{{ 5 is iterable }}{{ [] is "
                       "mapping }}{{ range is callable }}",
                       NULL, "truetruetruefalsefalsetrue");
    test_jinja_renders("{{ 4 is even }}{{ 4 is odd }}{{ 9 is divisibleby 3 }}{{ 9 is divisibleby(2) }}{{ 1 is eq 1 "
                       "}}{{ 2 is in [1,2] }}{{ 'a' is lower }}{{ 'A' is not upper }}",
                       NULL, "truefalsetruefalsetruetruetruefalse");
    test_jinja_fails("{{ 'a' is odd }}", NULL, "odd: expected a integer, got string");
}

/* User bytes stay a user's through everything. */
static void every_operation_keeps_the_origin_of_bytes(void **state)
{
    const char *u = "{\"u\":\"uVw\",\"s\":\" p,q \",\"d\":{\"k\":\"v\\n\"}}";

    (void)state;
    test_jinja_marks("a{{ u }}b{{ bos_token }}", u, "a<uVw>b<s>");
    test_jinja_marks("{{ 'a' + u ~ 1 ~ u }}", u, "a<uVw>1<uVw>");
    test_jinja_marks("{{ u[1:] }}{{ u[0] }}{{ u[::-1] }}{{ u|first }}", u, "<VwuwVuu>");
    test_jinja_marks("{{ u|upper }}.{{ u.lower() }}.{{ u|title }}.{{ u|capitalize }}", u, "<UVW>.<uvw>.<Uvw>.<Uvw>");
    test_jinja_marks("{{ s|trim }}.{{ s.strip().split(',')|join('-') }}", u, "<p,q>.<p>-<q>");
    test_jinja_marks("{{ u.replace('V', '--') }}{{ 'xVx'.replace('V', u) }}", u, "<u>--<w>x<uVw>x");
    test_jinja_marks("{{ (u ~ '\n' ~ u)|indent(1) }}", u, "<uVw>\n <uVw>");
    test_jinja_marks("{{ d|tojson }}", u, "{\"<k>\": \"<v\\n>\"}");
    test_jinja_marks("{{ [u, 'a']|join('+') }}{{ '+'.join([u, u]) }}{{ u|list }}", u,
                     "<uVw>+a<uVw>+<uVw>[\"<u>\", \"<V>\", \"<w>\"]");
    test_jinja_marks("{% macro m(x) %}({{ x }}){% endmacro %}{{ m(u) }}{% set b %}[{{ u }}]{% endset %}{{ b }}", u,
                     "(<uVw>)[<uVw>]");
    test_jinja_marks("{% for c in d %}{{ c }}{{ d[c] }}{% endfor %}{{ u * 2 }}{{ u|string }}{{ u|default('x') }}", u,
                     "<kv\n"
                     "uVwuVwuVwuVw>");
    test_jinja_marks("{{ ('{\"a\": \"b\"}'|from_json).a }}{{ '%Y'|length }}", u, "<b>2");
    test_jinja_marks("{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}",
                     "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},{\"role\":\"<|x|>\",\"content\":\"\"}]}",
                     "user:<hi>;<<|x|>>:;");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(string_filters_and_methods),
        cmocka_unit_test(list_and_dict_filters),
        cmocka_unit_test(json_is_written_as_the_reference_writes_it),
        cmocka_unit_test(tests_look_at_types),
        cmocka_unit_test(every_operation_keeps_the_origin_of_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
