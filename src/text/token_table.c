/* The table of tokens: attributes by the file and by spelling, pieces, and the index of ordinary texts. */
#include "text/token_table.h"

#include "base/alloc.h"
#include "base/utf8.h"
#include "text/spelling.h"
#include "text/token_names.h"

#include <string.h>

#define CONTROL RV_TOKEN_ATTR(RV_TOKEN_CONTROL)
#define UNKNOWN RV_TOKEN_ATTR(RV_TOKEN_UNKNOWN)
#define USER_DEFINED RV_TOKEN_ATTR(RV_TOKEN_USER_DEFINED)
#define NORMAL RV_TOKEN_ATTR(RV_TOKEN_NORMAL)
#define BYTE RV_TOKEN_ATTR(RV_TOKEN_BYTE)

static bool contains_nocase(struct rv_str text, const char *word)
{
    size_t len = strlen(word);

    for (size_t i = 0; i + len <= text.len; i++) {
        size_t j = 0;
        while (j < len && (text.data[i + j] == word[j] || text.data[i + j] + ('a' - 'A') == word[j]))
            j++;
        if (j == len)
            return true;
    }
    return false;
}

static ruvllm_status check_spec(const struct rv_vocab_spec *spec, struct ruvllm_error *err)
{
    if (spec->n_tokens == 0 || !spec->tokens)
        return rv_fail(err, RUVLLM_FORMAT, "vocabulary has no tokens");
    if (spec->n_tokens > RV_TOKEN_TABLE_MAX_TOKENS)
        return rv_fail(err, RUVLLM_FORMAT, "vocabulary of %zu tokens is larger than %u", spec->n_tokens,
                       RV_TOKEN_TABLE_MAX_TOKENS);
    for (size_t i = 0; i < spec->n_tokens; i++) {
        if (spec->tokens[i].len > RV_TOKEN_TABLE_MAX_TOKEN_LEN)
            return rv_fail(err, RUVLLM_FORMAT, "token %zu is %zu bytes long, more than %d", i, spec->tokens[i].len,
                           RV_TOKEN_TABLE_MAX_TOKEN_LEN);
        if (spec->types && (spec->types[i] < RV_TOKEN_UNDEFINED || spec->types[i] > RV_TOKEN_BYTE))
            return rv_fail(err, RUVLLM_FORMAT, "token %zu has unknown type %d", i, (int)spec->types[i]);
    }
    return RUVLLM_OK;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The byte that "<0xAB>" names, or -1. */
static int spelled_byte(struct rv_str text)
{
    int high, low;

    if (text.len != 6 || memcmp(text.data, "<0x", 3) != 0 || text.data[5] != '>')
        return -1;
    high = hex_digit(text.data[3]);
    low = hex_digit(text.data[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/* The token of that text among the ones spelling gave a role, or -1. */
static int32_t find_end(const struct rv_token_table *table, const char *name)
{
    for (size_t i = 0; i < table->n_tokens; i++) {
        if (table->attrs[i] & RV_TOKEN_ATTR_END && rv_token_names_equal(table->texts[i], name))
            return (int32_t)i;
    }
    return -1;
}

static bool has_end(const struct rv_token_table *table, const char *name)
{
    return find_end(table, name) >= 0;
}

/*
 * Spellings that mean something else in the company of others: <|end|> closes only a part of an answer where
 * <|return|> or <|flush|> closes the whole, and </s> is plain text in a vocabulary with <|tool_response>.
 */
static void settle_ends(struct rv_token_table *table, const struct rv_vocab_spec *spec)
{
    int32_t end = find_end(table, "<|end|>"), s = find_end(table, "</s>");

    if (end >= 0 && ((has_end(table, "<|return|>") && (has_end(table, "<|call|>") || has_end(table, "<|calls|>"))) ||
                     (has_end(table, "<|flush|>") && (has_end(table, "<|call|>") || has_end(table, "<|calls|>")))))
        table->attrs[end] &= (uint16_t)~RV_TOKEN_ATTR_END;
    if (s >= 0 && s != spec->eos && has_end(table, "<|tool_response>"))
        table->attrs[s] = (uint16_t)(spec->types ? RV_TOKEN_ATTR(spec->types[s]) : NORMAL);
}

static void read_attrs(struct rv_token_table *table, const struct rv_vocab_spec *spec)
{
    /* Phi-3 alone was trained on special tokens that swallow the white space after them. */
    bool rstrip = contains_nocase(spec->name, "phi-3") || contains_nocase(spec->name, "phi3");

    for (size_t i = 0; i < table->n_tokens; i++) {
        struct rv_str text = table->texts[i];
        uint32_t role = rv_token_names_role(text);
        uint32_t attr = spec->types ? RV_TOKEN_ATTR(spec->types[i]) : NORMAL;
        int byte = spelled_byte(text);

        if (role & RV_TOKEN_ROLE_CONTROL)
            attr |= CONTROL;
        if (role & RV_TOKEN_ROLE_END)
            attr |= RV_TOKEN_ATTR_END;
        if (rstrip && attr & (CONTROL | UNKNOWN | USER_DEFINED) && !rv_token_names_equal(text, "<unk>") &&
            !rv_token_names_equal(text, "<s>") && !rv_token_names_equal(text, "<|endoftext|>"))
            attr |= RV_TOKEN_ATTR_RSTRIP;
        table->attrs[i] = (uint16_t)attr;
        if (byte >= 0 && !(attr & (CONTROL | UNKNOWN)))
            table->byte_tokens[byte] = (int32_t)i;
    }
    settle_ends(table, spec);
}

/* Notes after which bytes this text goes on with U+2581 (other than one more U+2581). */
static void note_glue(struct rv_token_table *table, struct rv_str text)
{
    for (size_t i = 1; i + RV_SPELLING_SPACE_LEN <= text.len; i++) {
        if (rv_spelling_is_space(text.data, text.len, i) &&
            !(i >= RV_SPELLING_SPACE_LEN && rv_spelling_is_space(text.data, text.len, i - RV_SPELLING_SPACE_LEN)))
            table->glue[(unsigned char)text.data[i - 1]] = true;
    }
}

static ruvllm_status index_texts(struct rv_token_table *table, struct ruvllm_error *err)
{
    ruvllm_status rc = rv_str_map_init(&table->ordinary, table->n_tokens, err);

    for (size_t i = 0; !rc && i < table->n_tokens; i++) {
        struct rv_str text = table->texts[i];
        if (text.len == 0 || table->attrs[i] & (CONTROL | UNKNOWN | BYTE))
            continue;
        if (!rv_str_map_add(&table->ordinary, text.data, text.len, (int32_t)i))
            return rv_fail(err, RUVLLM_FORMAT, "token %zu repeats the text of token %d", i,
                           (int)rv_str_map_find(&table->ordinary, text.data, text.len));
        if (text.len > table->max_text_len)
            table->max_text_len = text.len;
        note_glue(table, text);
    }
    return rc;
}

/* Appends the bytes of a token to `out`, or returns false when they are its text as it stands. */
static bool spell(const struct rv_token_table *table, size_t id, bool spells_bytes, struct rv_buf *out)
{
    struct rv_str text = table->texts[id];
    uint32_t attr = table->attrs[id];
    int byte = spelled_byte(text);

    if (attr & (CONTROL | UNKNOWN | USER_DEFINED))
        return false;
    if (attr & NORMAL && spells_bytes)
        return rv_spelling_add_bytes(out, text.data, text.len);
    if (attr & NORMAL)
        rv_spelling_add_unescaped(out, text.data, text.len);
    else if (attr & BYTE && byte >= 0)
        rv_buf_add_char(out, (char)byte);
    return true; // unused and undefined tokens show nothing
}

/* How long the piece is when each byte outside a whole character is shown as U+FFFD. */
static size_t shown_len(struct rv_str piece)
{
    size_t len = 0;
    uint32_t cp;

    for (size_t i = 0; i < piece.len;) {
        int n = rv_utf8_decode(piece.data + i, piece.len - i, &cp);
        len += n > 0 ? (size_t)n : 3;
        i += n > 0 ? (size_t)n : 1;
    }
    return len;
}

static ruvllm_status make_pieces(struct rv_token_table *table, bool spells_bytes, struct ruvllm_error *err)
{
    struct rv_buf out;
    ruvllm_status rc;
    size_t at = 0;

    rv_buf_init(&out, SIZE_MAX / 2);
    for (size_t i = 0; i < table->n_tokens; i++) {
        size_t before = out.len;
        table->pieces[i] = table->texts[i];
        if (spell(table, i, spells_bytes, &out))
            table->pieces[i] = (struct rv_str){.data = NULL, .len = out.len - before};
    }
    rc = rv_buf_status(&out, "token texts", err);
    if (!rc && !(table->spelled = rv_buf_take(&out, NULL)))
        rc = rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate token texts");
    rv_buf_release(&out);
    for (size_t i = 0; !rc && i < table->n_tokens; i++) {
        size_t shown;
        if (!table->pieces[i].data) {
            table->pieces[i].data = table->spelled + at;
            at += table->pieces[i].len;
        }
        shown = shown_len(table->pieces[i]);
        if (shown > table->max_shown_len)
            table->max_shown_len = shown;
    }
    return rc;
}

ruvllm_status rv_token_table_init(struct rv_token_table *table, const struct rv_vocab_spec *spec, bool spells_bytes,
                                  struct ruvllm_error *err)
{
    ruvllm_status rc;

    *table = (struct rv_token_table){0};
    rc = check_spec(spec, err);
    if (rc)
        return rc;
    table->n_tokens = spec->n_tokens;
    table->texts = rv_calloc(spec->n_tokens, sizeof(*table->texts));
    table->pieces = rv_calloc(spec->n_tokens, sizeof(*table->pieces));
    table->attrs = rv_calloc(spec->n_tokens, sizeof(*table->attrs));
    if (!table->texts || !table->pieces || !table->attrs)
        rc = rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a table of %zu tokens", spec->n_tokens);
    if (!rc) {
        for (size_t i = 0; i < spec->n_tokens; i++)
            table->texts[i] = spec->tokens[i].len ? spec->tokens[i] : (struct rv_str){.data = "", .len = 0};
        memset(table->byte_tokens, -1, sizeof(table->byte_tokens));
        read_attrs(table, spec);
        rc = index_texts(table, err);
    }
    if (!rc)
        rc = make_pieces(table, spells_bytes, err);
    if (rc)
        rv_token_table_release(table);
    return rc;
}

void rv_token_table_release(struct rv_token_table *table)
{
    rv_free(table->texts);
    rv_free(table->pieces);
    rv_free(table->attrs);
    rv_free(table->spelled);
    rv_str_map_release(&table->ordinary);
    *table = (struct rv_token_table){0};
}

bool rv_token_table_is_special(const struct rv_token_table *table, int32_t id)
{
    return table->attrs[id] & (CONTROL | UNKNOWN | USER_DEFINED);
}

bool rv_token_table_is_guarded(const struct rv_token_table *table, int32_t id)
{
    return table->attrs[id] & (CONTROL | UNKNOWN);
}

int32_t rv_token_table_find(const struct rv_token_table *table, const char *text, size_t len)
{
    return len > table->max_text_len ? -1 : rv_str_map_find(&table->ordinary, text, len);
}
