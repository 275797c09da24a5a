/*
 * Chat templates are code from a model file. CVE-2024-34359, CVE-2026-5760: code execution through attributes;
 * CVE-2025-61620, CVE-2025-62426: a template or its arguments that never end. Ours reaches nothing but the
 * names listed here, and every bound answers INVALID at once.
 */
#include "support/jinja.h"
#include "text/jinja_builtin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IS_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1
#endif

/* Sanitizers slow everything down and keep freed memory; the promise is made for plain builds. */
#ifdef IS_SANITIZED
#define MAX_BOMB_US 20000000
#define MAX_RSS_KIB (4L << 20)
#else
#define MAX_BOMB_US 1000000
#define MAX_RSS_KIB (256L << 10)
#endif

static void check_names(enum rv_jinja_table table, const char *wanted)
{
    char got[2048] = "";

    for (const struct rv_jinja_builtin *entry = rv_jinja_builtin_table(table); entry->name; entry++) {
        size_t used = strlen(got);

        snprintf(got + used, sizeof(got) - used, "%s%s", used ? " " : "", entry->name);
        assert_non_null(entry->fn);
    }
    assert_string_equal(got, wanted);
}

/* A new builtin is a decision: it has to be written down here too. */
static void every_reachable_builtin_is_on_this_list(void **state)
{
    (void)state;
    check_names(RV_JINJA_GLOBALS, "dict namespace raise_exception range strftime_now");
    check_names(RV_JINJA_FILTERS,
                "abs capitalize count default dictsort first float from_json indent int items join last "
                "length list lower map max min reject rejectattr replace reverse round safe select "
                "selectattr sort string title tojson trim unique upper");
    check_names(RV_JINJA_TESTS,
                "boolean callable defined divisibleby eq equalto even false float in integer iterable lower "
                "mapping ne none number odd sequence string true undefined upper");
    check_names(RV_JINJA_STRING_METHODS, "capitalize count endswith find join lower lstrip replace rsplit rstrip split "
                                         "startswith strip title upper");
    check_names(RV_JINJA_LIST_METHODS, "append pop");
    check_names(RV_JINJA_DICT_METHODS, "get items keys values");
}

static void injected_attributes_lead_nowhere(void **state)
{
    static const char *const empty[] = {
        "{{ ''.__class__ }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ ''.__class__.__base__.__subclasses__ }}",
        "{{ [].__class__ }}{{ {}.__class__ }}{{ (1).__class__ }}{{ none.__class__ }}",
        "{{ range.__globals__ }}{{ namespace.__init__.__globals__ }}{{ dict.__init__ }}",
        "{{ messages.__class__ }}{{ messages.__init__ }}",
        "{{ cycler }}{{ joiner }}{{ lipsum }}{{ self }}{{ config }}{{ request }}{{ url_for }}",
        "{{ cycler.__init__.__globals__.os }}",
        "{{ self._TemplateReference__context }}",
        "{{ x.constructor }}{{ ''.constructor.constructor }}{{ {}.__proto__ }}",
        "{{ ''['__class__'] }}{{ {}['__class__'] }}{{ []['__class__'] }}",
        "{{ ''['__cla' ~ 'ss__'] }}",
        "{% set ns = namespace() %}{{ ns.__class__ }}{{ ns.__dict__ }}",
        "{% for x in [1] %}{{ loop.__class__ }}{{ loop.__init__ }}{% endfor %}",
        "{% macro m() %}{% endmacro %}{{ m.__globals__ }}{{ m.name }}",
    };
    static const char *const failing[] = {
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ ''.__class__.__base__.__subclasses__()[84].load_module('os').system('id') }}",
        "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
        "{{ lipsum.__globals__['os'].popen('id').read() }}",
        "{{ self.__init__.__globals__.__builtins__.__import__('os').system('id') }}",
        "{{ ''|attr('__class__') }}",
        "{{ [1]|map('attr', '__class__')|list }}",
        "{{ 'a'.format() }}{{ 'a'.format_map({}) }}",
        "{{ ''.encode() }}",
        "{{ ''.constructor.constructor('return process')() }}",
        "{{ open('/etc/passwd') }}",
        "{{ eval('1') }}",
        "{{ __import__('os') }}",
        "{% import 'os' as os %}",
        "{% include '/etc/passwd' %}",
        "{% extends '/etc/passwd' %}",
        "{% from 'os' import system %}",
        "{% block x %}{% endblock %}",
        "{% do x %}",
        "{% autoescape true %}{% endautoescape %}",
        "{% set messages.__class__ = 1 %}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(empty) / sizeof(empty[0]); i++)
        test_jinja_renders(empty[i], NULL, "");
    for (size_t i = 0; i < sizeof(failing) / sizeof(failing[0]); i++)
        test_jinja_fails(failing[i], NULL, "cannot ");
}

/* Time this process computed: others may be busy on the machine. */
static int64_t cpu_us(void)
{
    struct rusage usage;

    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return (int64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 + usage.ru_utime.tv_usec +
           usage.ru_stime.tv_usec;
}

static void fails_quickly(const char *source, const char *json, const char *message)
{
    struct rusage usage;
    int64_t start = cpu_us(), took;

    test_jinja_fails(source, json, message);
    took = cpu_us() - start;
    if (took > MAX_BOMB_US)
        fail_msg("%.100s took %lld us", source, (long long)took);
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    if (usage.ru_maxrss > MAX_RSS_KIB)
        fail_msg("%.100s: the process grew to %ld KiB", source, usage.ru_maxrss);
}

static void cpu_bombs_run_out_of_steps(void **state)
{
    (void)state;
    fails_quickly("{% for a in range(10**9) %}{% endfor %}", NULL, "range() of more than 100000");
    fails_quickly(
        "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}{% endfor %}{% endfor %}"
        "{% endfor %}",
        NULL, "more than 1000000 steps");
    fails_quickly("{% macro m(n) %}{% for i in range(9) %}{{ m(n) if n < 1 }}{% endfor %}{% endmacro %}{{ m(0) }}",
                  NULL, "nests deeper");
    fails_quickly("{% macro m(n) %}{% if n %}{% for i in range(9) %}{{ m(n - 1) }}{% endfor %}{% endif %}{% endmacro "
                  "%}{{ m(9) }}",
                  NULL, "more than");
    fails_quickly("{% set s = 'a' * 500000 %}{% for i in range(99999) %}{% set x = s.count('aaaaaaaab') %}{% endfor %}",
                  NULL, "steps");
    fails_quickly("{% set s = 'a' * 400000 %}{% set t = 'a' * 200000 ~ 'b' %}{{ t in s }}", NULL, "steps");
    fails_quickly("{% set s = 'a' * 400000 %}{% for i in range(99999) %}{{ s is lower and '' }}{% endfor %}", NULL, "");
    fails_quickly(
        "{% for i in range(99999) %}{{ u|upper|length }}{% endfor %}",
        "{\"u\": \"\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\"}", "");
    fails_quickly("{% set s = ' ' * 900000 %}{% for i in range(99999) %}{{ s|trim }}{% endfor %}", NULL, "steps");
    fails_quickly("{% set s = 'a' * 900000 %}{{ s[::-1] }}", NULL, "steps");
    fails_quickly("{{ range(99999)|map('string')|list|unique }}", NULL, "steps");
    fails_quickly("{% set s = '{' * 300000 %}{% for i in range(9999) %}{{ s|from_json }}{% endfor %}", NULL,
                  "cannot read");
}

static void memory_bombs_run_out_of_memory_or_output(void **state)
{
    (void)state;
    fails_quickly("{{ 'a' * 10**9 }}", NULL, "");
    fails_quickly("{% set ns = namespace(s='aaaaaaaaaaaaaaaa') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s "
                  "%}{% endfor %}",
                  NULL, "writes more than 1048576 bytes");
    fails_quickly("{% set ns = namespace(l=[1]) %}{% for i in range(99) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
                  NULL, "more than");
    fails_quickly("{% set s = 'a' * 1000 %}{% for i in range(99999) %}{{ s }}{% endfor %}", NULL, "writes more than");
    fails_quickly("{{ range(99999)|join('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa') }}", NULL, "writes more than");
    fails_quickly("{% set s = 'a' * 10000 %}{{ s.replace('a', s) }}", NULL, "writes more than");
    fails_quickly("{% set s = 'a' * 10000 %}{{ s.replace('', s) }}", NULL, "writes more than");
    fails_quickly("{% set s = '\n' * 10000 %}{{ s|indent(1000, true, true) }}", NULL, "writes more than");
    fails_quickly("{% set l = [] %}{% for i in range(99999) %}{% set _ = l.append(range(999)) %}{% endfor %}", NULL,
                  "more than");
    fails_quickly("{% set s = 'ab' * 200000 %}{% set ns = namespace(k=0) %}{% for i in range(9999) %}{% set ns.k = "
                  "s|upper %}{% endfor %}",
                  NULL, "more than");
    fails_quickly(
        "{% set ns = namespace(l=[]) %}{% for i in range(120) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}",
        NULL, "");
    fails_quickly("{% set ns = namespace(l=[], m=[]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% set "
                  "ns.m = [ns.m, ns.m] %}"
                  "{% endfor %}{{ ns.l == ns.m }}",
                  NULL, "steps");
    fails_quickly("{% set l = [] %}{% set _ = l.append(l) %}{{ l|tojson }}", NULL, "nests deeper");
    fails_quickly("{{ {}|tojson(indent=10**9) }}", NULL, "cannot indent");
}

/* `open` n times, then `middle`, then `close` n times. */
static char *nested(const char *open, const char *middle, const char *close, size_t n)
{
    size_t open_len = strlen(open), close_len = strlen(close), used = 0;
    char *source = malloc(n * (open_len + close_len) + strlen(middle) + 1);

    assert_non_null(source);
    for (size_t i = 0; i < n; i++, used += open_len)
        memcpy(source + used, open, open_len);
    memcpy(source + used, middle, strlen(middle));
    used += strlen(middle);
    for (size_t i = 0; i < n; i++, used += close_len)
        memcpy(source + used, close, close_len);
    source[used] = '\0';
    return source;
}

static void deep(const char *prefix, const char *open, const char *middle, const char *close, const char *suffix,
                 size_t n)
{
    char *inner = nested(open, middle, close, n);
    char *source = malloc(strlen(prefix) + strlen(inner) + strlen(suffix) + 1);

    assert_non_null(source);
    memcpy(source, prefix, strlen(prefix) + 1);
    memcpy(source + strlen(source), inner, strlen(inner) + 1);
    memcpy(source + strlen(source), suffix, strlen(suffix) + 1);
    fails_quickly(source, NULL, "cannot parse chat template");
    free(inner);
    free(source);
}

static void deep_nesting_is_refused_not_recursed_into(void **state)
{
    (void)state;
    deep("{{ ", "(", "1", ")", " }}", 100000);
    deep("{{ ", "[", "", "]", " }}", 100000);
    deep("{{ ", "{'a':", "1", "}", " }}", 40000);
    deep("{{ ", "f(", "1", ")", " }}", 80000);
    deep("{{ ", "a[", "1", "]", " }}", 80000);
    deep("{{ ", "x|f(", "1", ")", " }}", 50000);
    deep("{{ ", "not ", "1", "", " }}", 60000);
    deep("{{ ", "-", "1", "", " }}", 200000);
    deep("{{ ", "(", "", "", "", 100000);
    deep("", "{% if x %}", "", "{% endif %}", "", 12000);
    deep("", "{% for x in y %}", "", "{% endfor %}", "", 9000);
    deep("", "{% macro m() %}", "", "{% endmacro %}", "", 8000);
    deep("", "{% set x %}", "", "{% endset %}", "", 9000);
    deep("", "{% filter trim %}", "", "{% endfilter %}", "", 7000);
    deep("", "{% if x %}", "", "{% endif %}", "", 100000);
}

static void deep_data_is_refused_not_recursed_into(void **state)
{
    char *inner = nested("[", "", "]", 100000);
    char *json = malloc(strlen(inner) + 16);

    (void)state;
    assert_non_null(json);
    snprintf(json, strlen(inner) + 16, "{\"x\":%s}", inner);
    fails_quickly("{{ x }}", json, "nests deeper");
    free(inner);
    free(json);
}

/* Row 7: a changed template is another template, and its name says so. */
static void a_template_is_known_by_its_hash(void **state)
{
    struct rv_chat_template *a, *b, *c;

    (void)state;
    assert_ok(rv_chat_template_new(&a, "abc", 3, err));
    assert_ok(rv_chat_template_new(&b, "abc", 3, err));
    assert_ok(rv_chat_template_new(&c, "abc ", 4, err));
    assert_string_equal(rv_chat_template_sha256(a), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_string_equal(rv_chat_template_sha256(a), rv_chat_template_sha256(b));
    assert_string_not_equal(rv_chat_template_sha256(a), rv_chat_template_sha256(c));
    rv_chat_template_free(a);
    rv_chat_template_free(b);
    rv_chat_template_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_reachable_builtin_is_on_this_list),
        cmocka_unit_test(injected_attributes_lead_nowhere),
        cmocka_unit_test(cpu_bombs_run_out_of_steps),
        cmocka_unit_test(memory_bombs_run_out_of_memory_or_output),
        cmocka_unit_test(deep_nesting_is_refused_not_recursed_into),
        cmocka_unit_test(deep_data_is_refused_not_recursed_into),
        cmocka_unit_test(a_template_is_known_by_its_hash),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
