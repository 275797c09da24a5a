/* Tokens, whitespace control and what the lexer refuses. */
#include "support/test.h"
#include "text/jinja_lexer.h"

#include <stdio.h>
#include <string.h>

/* All tokens as text, separated by spaces; texts in brackets. */
static void lex(const char *source, char *out, size_t cap)
{
    struct rv_arena arena;
    struct rv_jinja_tokens tokens;
    size_t used = 0;

    rv_arena_init(&arena, 1 << 20);
    out[0] = '\0';
    assert_ok(rv_jinja_lexer_run(source, strlen(source), &arena, &arena, &tokens, err));
    for (size_t i = 0; i + 1 < tokens.len; i++) {
        const struct rv_jinja_token *t = &tokens.items[i];
        const char *before = t->kind == RV_JINJA_TOKEN_TEXT ? "[" : t->kind == RV_JINJA_TOKEN_STRING ? "'" : "";
        const char *after = t->kind == RV_JINJA_TOKEN_TEXT ? "]" : t->kind == RV_JINJA_TOKEN_STRING ? "' " : " ";

        used += (size_t)snprintf(out + used, cap - used, "%s%.*s%s", before, (int)t->text.len, t->text.data, after);
        assert_true(used < cap);
    }
    assert_int_equal(tokens.items[tokens.len - 1].kind, RV_JINJA_TOKEN_END);
    rv_arena_release(&arena);
}

static void check(const char *source, const char *wanted)
{
    char got[512];

    lex(source, got, sizeof(got));
    assert_string_equal(got, wanted);
}

static void tokens_of_every_kind(void **state)
{
    (void)state;
    check("a{{ b.c['d'] }}", "[a]{{ b . c [ 'd' ] }} ");
    check("{% if x >= 1.5 and not y %}", "{% if x >= 1.5 and not y %} ");
    check("{{ a**b//c~'\\n\\'\\\\' }}", "{{ a ** b // c ~ '\n'\\' }} ");
    check("{{ {'a': {'b': 1}} }}", "{{ { 'a' : { 'b' : 1 } } }} ");
    check("{{-1}}", "{{ 1 }} ");
    check("{{ - 1 }}", "{{ - 1 }} ");
    check("plain { brace } and {", "[plain { brace } and {]");
}

static void dashes_strip_both_sides(void **state)
{
    (void)state;
    check("a \n {{- b -}} \n c", "[a]{{ b }} [c]");
    check("a \n {%- set b = 1 -%} \n c", "[a]{% set b = 1 %} [c]");
    check("a \n {#- note -#} \n c", "[a][c]");
}

static void block_tags_take_their_line(void **state)
{
    (void)state;
    check("a\n  {% x %}\nb", "[a\n]{% x %} [b]");
    check("a\n  {# note #}\nb", "[a\n][b]");
    check("a  {% x %}  b", "[a  ]{% x %} [  b]");
    check("a\n  {{ x }}\nb", "[a\n  ]{{ x }} [\nb]");
    check("  {%+ x %}\n\nb", "[  ]{% x %} [\nb]");
    check("{% x %}\n  {% y %}", "{% x %} {% y %} ");
}

static void one_newline_at_the_end_does_not_count(void **state)
{
    (void)state;
    check("a\n", "[a]");
    check("a\n\n", "[a\n]");
    check("", "");
    check("\n", "");
}

static void raw_blocks_and_generation_marks_leave_text(void **state)
{
    (void)state;
    check("{% raw %}{{ x }}{% y %}{% endraw %}z", "[{{ x }}{% y %}][z]");
    check("a{% generation %}b{% endgeneration %}c", "[a][b][c]");
    check("a {%- generation -%} b {%- endgeneration -%} c", "[a][b][c]");
}

static void refuses(const char *source, const char *message)
{
    struct rv_arena arena;
    struct rv_jinja_tokens tokens;
    struct ruvllm_error err;

    rv_arena_init(&arena, 1 << 20);
    assert_fails(rv_jinja_lexer_run(source, strlen(source), &arena, &arena, &tokens, &err), RUVLLM_INVALID, err,
                 message);
    rv_arena_release(&arena);
}

static void broken_sources_are_refused_with_their_line(void **state)
{
    (void)state;
    refuses("a\n{{ x", "line 2: this tag is never closed");
    refuses("{{ 'x }}", "line 1: this string is never closed");
    refuses("\n\n{# x", "line 3: this comment is never closed");
    refuses("{% raw %}x", "line 1: this raw block is never closed");
    refuses("{{ '\\q' }}", "escape");
    refuses("{{ a ? b }}", "not part of the language");
    refuses("{{ 1a }}", "a number runs into a name");
    refuses("{{ 'x\\", "this string is never closed");
}

static void too_many_tokens_hit_the_ceiling(void **state)
{
    static char source[200000];
    struct rv_arena arena;
    struct rv_jinja_tokens tokens;
    struct ruvllm_error err;

    (void)state;
    memset(source, '(', sizeof(source));
    memcpy(source, "{{", 2);
    rv_arena_init(&arena, 1 << 20);
    assert_fails(rv_jinja_lexer_run(source, sizeof(source), &arena, &arena, &tokens, &err), RUVLLM_INVALID, err,
                 "too many parts");
    rv_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_of_every_kind),
        cmocka_unit_test(dashes_strip_both_sides),
        cmocka_unit_test(block_tags_take_their_line),
        cmocka_unit_test(one_newline_at_the_end_does_not_count),
        cmocka_unit_test(raw_blocks_and_generation_marks_leave_text),
        cmocka_unit_test(broken_sources_are_refused_with_their_line),
        cmocka_unit_test(too_many_tokens_hit_the_ceiling),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
