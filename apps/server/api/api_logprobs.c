/*
 * Log-probabilities. A token's text may be part of a character: as text it has U+FFFD then, and `bytes` tells what it
 * really is.
 */
#include "server/api/api_logprobs.h"

#include "server/api/api_json.h"

#include <math.h>
#include <string.h>

#define NEVER (-9999.0f) // what clients know as minus infinity, which JSON cannot say

static float finite(float logprob)
{
    return isfinite(logprob) ? logprob : NEVER;
}

static const struct rv_api_token *row_of(const struct rv_api_logprobs *logprobs, size_t i)
{
    return logprobs->tokens + i * (1 + logprobs->n_top);
}

/* A row has fewer alternatives than asked for when the vocabulary is smaller: the rest have no text and no chance. */
static bool is_there(const struct rv_api_token *token)
{
    return token->text != NULL;
}

static void add_token(struct rv_buf *out, const struct rv_api_token *token)
{
    rv_api_json_text(out, "token", token->text, token->text_len);
    rv_api_json_float(out, "logprob", finite(token->logprob));
    rv_api_json_begin(out, "bytes", '[');
    for (size_t i = 0; i < token->text_len; i++)
        rv_api_json_int(out, NULL, (unsigned char)token->text[i]);
    rv_api_json_end(out, ']');
}

static void add_row(struct rv_buf *out, const struct rv_api_token *row, size_t n_top)
{
    rv_api_json_begin(out, NULL, '{');
    add_token(out, row);
    rv_api_json_begin(out, "top_logprobs", '[');
    for (size_t k = 1; k <= n_top && is_there(&row[k]); k++) {
        rv_api_json_begin(out, NULL, '{');
        add_token(out, &row[k]);
        rv_api_json_end(out, '}');
    }
    rv_api_json_end(out, ']');
    rv_api_json_end(out, '}');
}

void rv_api_logprobs_rows(struct rv_buf *out, const char *key, const struct rv_api_logprobs *logprobs)
{
    rv_api_json_begin(out, key, '[');
    for (size_t i = 0; logprobs && i < logprobs->n_rows; i++)
        add_row(out, row_of(logprobs, i), logprobs->n_top);
    rv_api_json_end(out, ']');
}

void rv_api_logprobs_chat(struct rv_buf *out, const char *key, const struct rv_api_logprobs *logprobs)
{
    if (!logprobs) {
        rv_api_json_null(out, key);
        return;
    }
    rv_api_json_begin(out, key, '{');
    rv_api_logprobs_rows(out, "content", logprobs);
    rv_api_json_null(out, "refusal");
    rv_api_json_end(out, '}');
}

/*
 * Characters that begin in this token: each byte that is no continuation byte begins one. Counted so, the parts of a
 * character that two tokens share are one.
 */
static size_t n_chars(const struct rv_api_token *token)
{
    size_t n = 0;

    for (size_t i = 0; i < token->text_len; i++)
        n += ((unsigned char)token->text[i] & 0xC0) != 0x80;
    return n;
}

size_t rv_api_reply_n_chars(const struct rv_api_logprobs *logprobs)
{
    size_t n = 0;

    for (size_t i = 0; i < logprobs->n_rows; i++)
        n += n_chars(row_of(logprobs, i));
    return n;
}

/* How a token is written: bytes that are no characters look alike as text. */
static struct rv_buf written(const struct rv_api_token *token)
{
    struct rv_buf text;

    rv_buf_init(&text, (size_t)1 << 20);
    rv_api_json_text(&text, NULL, token->text, token->text_len);
    return text;
}

/* Whether an alternative before `k` of the row is written the same. */
static bool is_repeated(const struct rv_api_token *row, size_t k)
{
    struct rv_buf text = written(&row[k]);
    bool found = false;

    for (size_t i = 1; i < k && !found; i++) {
        struct rv_buf other = written(&row[i]);

        found = text.len == other.len && (text.len == 0 || memcmp(text.data, other.data, text.len) == 0);
        rv_buf_release(&other);
    }
    rv_buf_release(&text);
    return found;
}

/* An object has no key twice: of two tokens that are written the same the likelier one is told. */
static void add_top(struct rv_buf *out, const struct rv_api_token *row, size_t n_top)
{
    rv_api_json_begin(out, NULL, '{');
    for (size_t k = 1; k <= n_top && is_there(&row[k]); k++) {
        if (is_repeated(row, k))
            continue;
        rv_api_json_key(out, row[k].text, row[k].text_len);
        rv_api_json_float(out, NULL, finite(row[k].logprob));
    }
    rv_api_json_end(out, '}');
}

void rv_api_logprobs_completion(struct rv_buf *out, const char *key, const struct rv_api_logprobs *logprobs)
{
    size_t offset;

    if (!logprobs) {
        rv_api_json_null(out, key);
        return;
    }
    rv_api_json_begin(out, key, '{');
    rv_api_json_begin(out, "tokens", '[');
    for (size_t i = 0; i < logprobs->n_rows; i++)
        rv_api_json_text(out, NULL, row_of(logprobs, i)->text, row_of(logprobs, i)->text_len);
    rv_api_json_end(out, ']');
    rv_api_json_begin(out, "token_logprobs", '[');
    for (size_t i = 0; i < logprobs->n_rows; i++)
        rv_api_json_float(out, NULL, finite(row_of(logprobs, i)->logprob));
    rv_api_json_end(out, ']');
    rv_api_json_begin(out, "top_logprobs", '[');
    for (size_t i = 0; i < logprobs->n_rows; i++)
        add_top(out, row_of(logprobs, i), logprobs->n_top);
    rv_api_json_end(out, ']');
    rv_api_json_begin(out, "text_offset", '[');
    offset = logprobs->text_offset;
    for (size_t i = 0; i < logprobs->n_rows; i++) {
        rv_api_json_int(out, NULL, (int64_t)offset);
        offset += n_chars(row_of(logprobs, i));
    }
    rv_api_json_end(out, ']');
    rv_api_json_end(out, '}');
}
