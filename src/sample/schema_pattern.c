/*
 * One expression alone is written as it is. Lengths beside it are worked into the one repetition it has, where it has
 * only one; everything else becomes a machine (text_machine.h).
 */
#include "sample/schema_pattern.h"

#include "base/buf.h"
#include "sample/regex.h"
#include "sample/text_machine.h"

#include <string.h>

enum { MAX_INNER = 8, MAX_CHARS = 1 << 20, MAX_KEY = 1 << 17 };

static int32_t quoted(struct rv_schema_reader *r, int32_t inside)
{
    int32_t seq = rv_syntax_seq(r->syntax);

    rv_syntax_add(r->syntax, seq, rv_schema_reader_text(r, "\""));
    rv_syntax_add(r->syntax, seq, inside);
    rv_syntax_add(r->syntax, seq, rv_schema_reader_text(r, "\""));
    return seq;
}

static const char *main_keyword(const struct rv_schema_pattern *wish)
{
    return wish->pattern ? "pattern" : "format";
}

/* An expression that cannot be read, or a machine that cannot be made. */
static void fail(struct rv_schema_reader *r, const struct rv_schema_pattern *wish, const char *path, ruvllm_status rc,
                 const char *why)
{
    const char *beside = wish->length ? wish->length : wish->pattern && wish->format ? "format" : NULL;

    if (rc != RUVLLM_INVALID)
        r->failed = r->failed ? r->failed : rv_fail(r->err, rc, "%s", why);
    else if (beside)
        rv_schema_reader_fail(r, path, "'%s' beside '%s': %s", main_keyword(wish), beside, why);
    else
        rv_schema_reader_fail(r, path, "'%s': %s", main_keyword(wish), why);
}

/* ---- lengths of a single repetition ------------------------------------------------------------------------- */

/*
 * The characters every text of a node has; -1: they are not always as many, or it is too deep to tell. A literal is the
 * escape of one character: expressions write all others as classes. Goes MAX_INNER levels deep.
 */
static int32_t n_chars(const struct rv_syntax *s, int32_t at, int depth)
{
    const struct rv_syntax_node *node = &s->nodes[at];
    int32_t sum = 0;

    if (node->kind == RV_SYNTAX_EMPTY)
        return 0;
    if (node->kind == RV_SYNTAX_CLASS || node->kind == RV_SYNTAX_LITERAL)
        return 1;
    if (depth == MAX_INNER || node->last < 0 || (node->kind == RV_SYNTAX_REPEAT && node->a != node->b))
        return -1;
    for (int32_t child = node->last; child >= 0; child = s->nodes[child].prev) {
        int32_t n = n_chars(s, child, depth + 1);

        if (n < 0 || (node->kind == RV_SYNTAX_ALT && child != node->last && n != sum))
            return -1;
        sum = node->kind == RV_SYNTAX_ALT ? n : sum + n;
    }
    if (node->kind != RV_SYNTAX_REPEAT)
        return sum;
    return (int64_t)sum * node->a > MAX_CHARS ? -1 : sum * node->a;
}

/* Gives the only repetition of a sequence counts that keep the length. False: it has several, or none that helps. */
static bool fit_way(struct rv_syntax *s, int32_t way, const struct rv_schema_pattern *wish)
{
    int64_t fixed = 0, each, least, most;
    int32_t open = -1;

    for (int32_t child = s->nodes[way].last; child >= 0; child = s->nodes[child].prev) {
        int32_t n = n_chars(s, child, 0);

        if (n < 0 && (open >= 0 || s->nodes[child].kind != RV_SYNTAX_REPEAT))
            return false;
        if (n < 0)
            open = child;
        else
            fixed += n;
    }
    if (open < 0)
        return fixed >= wish->min && (wish->max < 0 || fixed <= wish->max);
    each = n_chars(s, s->nodes[open].last, 0);
    if (each <= 0)
        return false;
    least = wish->min > fixed ? (wish->min - fixed + each - 1) / each : 0;
    least = least > s->nodes[open].a ? least : s->nodes[open].a;
    most = s->nodes[open].b;
    if (wish->max >= 0 && (most < 0 || fixed + most * each > wish->max))
        most = wish->max >= fixed ? (wish->max - fixed) / each : -2;
    if (most == -2 || (most >= 0 && least > most))
        return false;
    s->nodes[open].a = (int32_t)least;
    s->nodes[open].b = (int32_t)most;
    return true;
}

static bool fit(struct rv_syntax *s, int32_t ways, const struct rv_schema_pattern *wish)
{
    if (s->failed || s->nodes[ways].kind != RV_SYNTAX_ALT)
        return false;
    for (int32_t way = s->nodes[ways].last; way >= 0; way = s->nodes[way].prev)
        if (s->nodes[way].kind != RV_SYNTAX_SEQ || !fit_way(s, way, wish))
            return false; // what is changed already is not used any more
    return true;
}

/* ---- look-aheads -------------------------------------------------------------------------------------------- */

/* Where a pattern's next parenthesis or bar outside of classes and escapes is, from `at` on; `len`: there is none. */
static size_t next_mark(const char *text, size_t len, size_t at)
{
    bool in_class = false;

    for (; at < len; at++) {
        if (text[at] == '\\')
            at++;
        else if (in_class)
            in_class = text[at] != ']';
        else if (text[at] == '[')
            in_class = true;
        else if (strchr("()|", text[at]) && text[at])
            return at;
    }
    return len;
}

/* The end of the group that begins at `at`; `len` when it is not closed. */
static size_t end_of_group(const char *text, size_t len, size_t at)
{
    int32_t depth = 0;

    for (; (at = next_mark(text, len, at)) < len; at++) {
        depth += text[at] == '(';
        depth -= text[at] == ')';
        if (depth == 0)
            return at;
    }
    return len;
}

/* Whether there are alternatives outside of groups. */
static bool has_choice(const char *text, size_t len)
{
    int32_t depth = 0;

    for (size_t at = 0; (at = next_mark(text, len, at)) < len; at++) {
        if (text[at] == '|' && depth == 0)
            return true;
        depth += text[at] == '(';
        depth -= text[at] == ')';
    }
    return false;
}

static bool has_look(const struct rv_schema_pattern *wish, size_t at)
{
    return wish->pattern && at + 3 < wish->pattern_len && memcmp(wish->pattern + at, "(?", 2) == 0 &&
           (wish->pattern[at + 2] == '=' || wish->pattern[at + 2] == '!');
}

/*
 * Parts for the look-aheads behind the '^' of a pattern, and one for the rest of it. Where there are alternatives they
 * would belong to the first only: they stay where they are, and are refused.
 */
static ruvllm_status add_pattern(struct rv_text_machine *m, const struct rv_schema_pattern *wish,
                                 struct ruvllm_error *err)
{
    ruvllm_status rc = RUVLLM_OK;
    struct rv_buf rest;
    size_t at = 1;

    if (wish->pattern[0] != '^' || has_choice(wish->pattern, wish->pattern_len))
        return rv_text_machine_match(m, wish->pattern, wish->pattern_len, err);
    while (!rc && has_look(wish, at)) {
        size_t end = end_of_group(wish->pattern, wish->pattern_len, at);

        if (end == wish->pattern_len)
            return rv_fail(err, RUVLLM_INVALID, "a group is not closed");
        rc = rv_text_machine_look(m, wish->pattern + at + 3, end - at - 3, wish->pattern[at + 2] == '!', err);
        at = end + 1;
    }
    if (rc)
        return rc;
    rv_buf_init(&rest, MAX_KEY);
    rv_buf_add_str(&rest, "^");
    rv_buf_add(&rest, wish->pattern + at, wish->pattern_len - at);
    rc = rv_buf_status(&rest, "a pattern", err);
    if (!rc)
        rc = rv_text_machine_match(m, rest.data, rest.len, err);
    rv_buf_release(&rest);
    return rc;
}

/* ---- machines ----------------------------------------------------------------------------------------------- */

static ruvllm_status write_machine(struct rv_schema_reader *r, const struct rv_schema_pattern *wish, int32_t rule,
                                   struct ruvllm_error *err)
{
    struct rv_text_machine machine;
    ruvllm_status rc = RUVLLM_OK;
    int32_t node = 0;

    rv_text_machine_init(&machine, wish->min, wish->max);
    if (wish->pattern)
        rc = add_pattern(&machine, wish, err);
    if (!rc && wish->format)
        rc = rv_text_machine_match(&machine, wish->format, strlen(wish->format), err);
    if (!rc)
        rc = rv_text_machine_write(&machine, r->syntax, &r->state_budget, &node, err);
    rv_text_machine_release(&machine);
    if (!rc)
        rv_syntax_define(r->syntax, rule, quoted(r, node));
    return rc;
}

/* The rule of a machine; the same conditions have the same one. */
static int32_t machine_rule(struct rv_schema_reader *r, const struct rv_schema_pattern *wish, const char *path)
{
    struct ruvllm_error why;
    struct rv_buf key;
    ruvllm_status rc;
    int32_t rule = -1;
    char *copy;

    rv_buf_init(&key, MAX_KEY);
    rv_buf_addf(&key, "%d %d %s ", (int)wish->min, (int)wish->max, wish->format ? wish->format : "");
    rv_buf_add(&key, wish->pattern ? wish->pattern : "", wish->pattern_len);
    rc = rv_buf_status(&key, "a pattern", &why);
    for (size_t i = 0; i < r->n_machines && !rc; i++)
        if (r->machines[i].len == key.len && memcmp(r->machines[i].key, key.data, key.len) == 0)
            rule = r->machines[i].rule;
    if (!rc && rule < 0) {
        rule = rv_syntax_rule(r->syntax);
        copy = rv_arena_alloc(&r->arena, key.len + 1);
        if (r->n_machines == RV_SCHEMA_READER_MACHINES)
            rc = rv_fail(&why, RUVLLM_INVALID, "there are more than %d such strings", RV_SCHEMA_READER_MACHINES);
        else if (!copy)
            rc = rv_fail(&why, RUVLLM_NO_MEMORY, "cannot allocate a pattern");
        else
            rc = write_machine(r, wish, rule, &why);
        if (!rc) {
            memcpy(copy, key.data, key.len);
            r->machines[r->n_machines++] = (struct rv_schema_reader_machine){copy, key.len, rule};
        }
    }
    rv_buf_release(&key);
    if (rc)
        fail(r, wish, path, rc, why.message);
    return rule;
}

int32_t rv_schema_pattern_write(struct rv_schema_reader *reader, const struct rv_schema_pattern *wish, const char *path)
{
    struct rv_schema_reader *r = reader;
    const char *text = wish->pattern ? wish->pattern : wish->format;
    struct ruvllm_error why;
    int32_t rule = 0;
    ruvllm_status rc;

    if (r->failed)
        return 0;
    if ((wish->pattern && wish->format) || (has_look(wish, 1) && wish->pattern[0] == '^'))
        return rv_syntax_call(r->syntax, machine_rule(r, wish, path));
    rc = rv_regex_read_in_string(r->syntax, text, wish->pattern ? wish->pattern_len : strlen(text), &rule, &why);
    if (rc)
        fail(r, wish, path, rc, why.message);
    if (r->failed || r->syntax->failed)
        return 0;
    if (!wish->length || fit(r->syntax, r->syntax->rules[rule], wish))
        return quoted(r, rv_syntax_call(r->syntax, rule));
    rv_syntax_define(r->syntax, rule, rv_syntax_literal(r->syntax, "", 0)); // nobody calls it
    return rv_syntax_call(r->syntax, machine_rule(r, wish, path));
}
