#include "learn/lesson_tokens.h"

#include "base/alloc.h"

#include <string.h>

enum { VERSION = 1, HEADER = 4, MAX_TOKENS = 1 << 20 }; // version and three numbers, then the tokens

/* How many words there are with these, the header among them; 0: there is no such lesson. */
static size_t count(const int32_t *header)
{
    size_t n = HEADER;

    for (int i = 1; i < HEADER; i++) {
        if (header[i] < 0 || header[i] > MAX_TOKENS)
            return 0;
        n += (size_t)header[i];
    }
    return header[0] == VERSION ? n : 0;
}

/* Written and read by the same measure. */
static bool is_whole(const int32_t *words, size_t n_words, int32_t n_vocab)
{
    if (count(words) != n_words)
        return false;
    for (size_t i = HEADER; i < n_words; i++) {
        if (words[i] < 0 || words[i] >= n_vocab)
            return false;
    }
    return true;
}

static ruvllm_status refuse(struct ruvllm_error *err)
{
    return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_SONA,
                        "the tokens of a lesson are too many, or some are none of the model's");
}

ruvllm_status rv_lesson_tokens_write(const struct rv_lesson_tokens *tokens, int32_t n_vocab, struct rv_str *out,
                                     struct ruvllm_error *err)
{
    const int32_t *parts[] = {tokens->prompt, tokens->good, tokens->bad};
    int32_t header[HEADER] = {VERSION, tokens->n_prompt, tokens->n_good, tokens->n_bad};
    size_t n = count(header);
    int32_t *words, *at;

    *out = (struct rv_str){0};
    if (n == 0)
        return refuse(err);
    words = rv_realloc_array(NULL, n, sizeof(*words));
    if (!words)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the tokens of a lesson");
    memcpy(words, header, sizeof(header));
    at = words + HEADER;
    for (int i = 1; i < HEADER; i++) {
        if (header[i])
            memcpy(at, parts[i - 1], (size_t)header[i] * sizeof(*at));
        at += header[i];
    }
    if (!is_whole(words, n, n_vocab)) {
        rv_free(words);
        return refuse(err);
    }
    *out = (struct rv_str){.data = (const char *)words, .len = n * sizeof(*words)};
    return RUVLLM_OK;
}

static ruvllm_status fail(struct ruvllm_error *err)
{
    return rv_fail_kind(err, RUVLLM_FORMAT, RUVLLM_ERROR_SONA, "the tokens of a lesson are damaged");
}

ruvllm_status rv_lesson_tokens_read(struct rv_lesson_tokens *out, struct rv_str bytes, int32_t n_vocab,
                                    struct ruvllm_error *err)
{
    size_t n = bytes.len / sizeof(int32_t);
    int32_t *words;

    *out = (struct rv_lesson_tokens){0};
    if (n < HEADER || bytes.len % sizeof(int32_t) != 0 || n > HEADER + 3 * (size_t)MAX_TOKENS)
        return fail(err);
    words = rv_realloc_array(NULL, n, sizeof(*words));
    if (!words)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the tokens of a lesson");
    memcpy(words, bytes.data, bytes.len);
    if (!is_whole(words, n, n_vocab)) {
        rv_free(words);
        return fail(err);
    }
    out->memory = words;
    out->n_prompt = words[1];
    out->n_good = words[2];
    out->n_bad = words[3];
    out->prompt = words + HEADER;
    out->good = out->prompt + out->n_prompt;
    out->bad = out->good + out->n_good;
    return RUVLLM_OK;
}
