/*
 * A vocabulary and a text out of one input: whatever the vocabulary claims, it is refused with a sentence or
 * tokenises any text into ids of its own, never into a control token that was not asked for, and gives the text back
 * where its tokens allow that.
 *
 * Input: family, flags, special ids, then counted tokens (type, length, bytes) and merges (length, bytes); the rest is
 * the text.
 */
#include "fuzz_target.h"

#include "base/alloc.h"
#include "base/utf8.h"
#include "support/tiny_vocab.h"
#include "text/text_stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FLAG_BASE = 1 << 0, // begin with a token for every byte
    FLAG_PARSE = 1 << 1,
    FLAG_MASK = 1 << 2,
    FLAG_SPECIAL = 1 << 3,
    FLAG_PHI = 1 << 4,
};

struct input {
    const uint8_t *data;
    size_t len;
};

static uint8_t take_byte(struct input *in)
{
    if (in->len == 0)
        return 0;
    in->len--;
    return *in->data++;
}

static struct rv_str take_str(struct input *in)
{
    size_t len = take_byte(in);
    struct rv_str text;

    if (len > in->len)
        len = in->len;
    text = (struct rv_str){.data = (const char *)in->data, .len = len};
    in->data += len;
    in->len -= len;
    return text;
}

static void require(bool promise, const char *what)
{
    if (promise)
        return;
    fprintf(stderr, "broken promise: %s\n", what);
    abort();
}

static void read_family(struct input *in, struct tiny_vocab *tiny, uint8_t flags)
{
    static const char *const pres[] = {"gpt-2",        "llama-bpe",      "qwen2",       "default",
                                       "smollm",       "tekken",         "gpt-4o",      "falcon",
                                       "deepseek-llm", "deepseek-coder", "deepseek-v3", "qwen35"};
    uint8_t family = take_byte(in);

    if (family % 3 == 0)
        tiny_vocab_spm(tiny);
    else
        tiny_vocab_bpe(tiny, pres[family / 3 % (sizeof(pres) / sizeof(pres[0]))]);
    if (family % 3 == 2) {
        tiny_vocab_spm(tiny); // characters and <0x00> bytes, with merges
        tiny->spec.model = (struct rv_str){.data = "gemma4", .len = 6};
        tiny_vocab_add_merge(tiny, "h e");
        tiny_vocab_add_merge(tiny, "a b");
    }
    if (!(flags & FLAG_BASE)) {
        tiny->spec.n_tokens = 0;
        tiny->spec.n_merges = 0;
    }
    if (flags & FLAG_PHI)
        tiny->spec.name = (struct rv_str){.data = "phi3", .len = 4};
}

/* True when only plain tokens were added. */
static bool read_tokens(struct input *in, struct tiny_vocab *tiny)
{
    size_t n = take_byte(in) % 64;
    bool is_plain = true;

    while (n--) {
        size_t id = tiny->spec.n_tokens++;
        tiny->types[id] = take_byte(in) % 9 - 1;
        tiny->scores[id] = (float)(int8_t)take_byte(in);
        tiny->tokens[id] = take_str(in);
        is_plain = is_plain && (tiny->types[id] == RV_TOKEN_NORMAL || tiny->types[id] == RV_TOKEN_CONTROL);
    }
    n = take_byte(in) % 64;
    while (n--)
        tiny->merges[tiny->spec.n_merges++] = take_str(in);
    return is_plain;
}

static void read_settings(struct input *in, struct tiny_vocab *tiny)
{
    uint8_t settings = take_byte(in);

    tiny->spec.bos = (int32_t)(settings & 7) - 2;
    tiny->spec.eos = (int32_t)(settings >> 3 & 7) - 2;
    tiny->spec.add_bos = (enum rv_tristate)(take_byte(in) % 3 - 1);
    tiny->spec.add_eos = (enum rv_tristate)(take_byte(in) % 3 - 1);
    tiny->spec.add_space_prefix = (enum rv_tristate)(take_byte(in) % 3 - 1);
}

static void check_ids(const struct rv_vocab *vocab, const int32_t *ids, size_t n_ids, uint32_t flags, bool trusted)
{
    for (size_t i = 0; i < n_ids; i++) {
        enum rv_token_type type = rv_vocab_type(vocab, ids[i]);
        bool is_added = flags & RV_ENCODE_ADD_SPECIAL && (i == 0 || i == n_ids - 1);

        require(ids[i] >= 0 && (size_t)ids[i] < rv_vocab_n_tokens(vocab), "ids are tokens");
        if (!is_added && (!(flags & RV_ENCODE_PARSE_SPECIAL) || !trusted))
            require(type != RV_TOKEN_CONTROL, "users never spell control tokens");
    }
}

static void check_round_trip(const struct rv_vocab *vocab, const char *text, size_t len)
{
    struct rv_buf back;
    int32_t *ids;
    size_t n_ids;

    if (rv_vocab_encode(vocab, text, len, NULL, 0, &ids, &n_ids, NULL) != RUVLLM_OK)
        return;
    rv_buf_init(&back, 1 << 24);
    rv_vocab_decode(vocab, ids, n_ids, true, &back);
    require(back.len == len && (len == 0 || memcmp(back.data, text, len) == 0), "the text comes back");
    rv_buf_release(&back);
    rv_free(ids);
}

static void check_stream(const struct rv_vocab *vocab, const int32_t *ids, size_t n_ids)
{
    static const char *const stops[] = {"ab", "\n\n", "<s>"};
    struct rv_text_stream *stream;
    struct rv_str piece;
    bool stopped = false;

    if (rv_text_stream_new(&stream, vocab, stops, 3, NULL) != RUVLLM_OK)
        return;
    for (size_t i = 0; i < n_ids && !stopped; i++) {
        require(rv_text_stream_push(stream, ids[i], &piece, &stopped, NULL) == RUVLLM_OK, "every token streams");
        require(rv_utf8_valid(piece.data, piece.len), "pieces are UTF-8");
    }
    require(rv_text_stream_finish(stream, &piece, NULL) == RUVLLM_OK, "streams end");
    for (size_t i = 0; i < 3; i++)
        require(!strstr(rv_text_stream_text(stream).data, stops[i]), "stop strings are cut");
    rv_text_stream_free(stream);
}

static bool contains_escape(const char *text, size_t len)
{
    for (size_t i = 0; i + 3 <= len; i++) {
        if (memcmp(text + i, "\xE2\x96\x81", 3) == 0)
            return true;
    }
    return false;
}

static void check_text(const struct rv_vocab *vocab, struct input text, uint8_t flags, bool returns)
{
    uint32_t encode_flags =
        (flags & FLAG_PARSE ? RV_ENCODE_PARSE_SPECIAL : 0u) | (flags & FLAG_SPECIAL ? RV_ENCODE_ADD_SPECIAL : 0u);
    const char *bytes = (const char *)text.data;
    uint8_t *mask = malloc(text.len + 1);
    struct ruvllm_error err;
    int32_t *ids;
    size_t n_ids;

    memset(mask, 1, text.len);
    if (rv_vocab_encode(vocab, bytes, text.len, flags & FLAG_MASK ? mask : NULL, encode_flags, &ids, &n_ids, &err))
        require(err.message[0] != '\0', "failures say why");
    else {
        check_ids(vocab, ids, n_ids, encode_flags, !(flags & FLAG_MASK));
        check_stream(vocab, ids, n_ids);
        rv_free(ids);
    }
    if (returns && rv_utf8_valid(bytes, text.len) && !contains_escape(bytes, text.len))
        check_round_trip(vocab, bytes, text.len);
    free(mask);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {.data = data, .len = size};
    struct tiny_vocab *tiny = malloc(sizeof(*tiny));
    struct ruvllm_error err = {0};
    struct rv_vocab *vocab;
    uint8_t flags = take_byte(&in);
    bool is_plain;

    read_family(&in, tiny, flags);
    read_settings(&in, tiny);
    is_plain = read_tokens(&in, tiny);
    if (rv_vocab_new(&vocab, &tiny->spec, &err) == RUVLLM_OK) {
        /* Phi-3's special tokens swallow the blanks that follow them, so text with one does not come back. */
        check_text(vocab, in, flags, flags & FLAG_BASE && !(flags & FLAG_PHI) && is_plain);
        rv_vocab_free(vocab);
    } else {
        require(err.message[0] != '\0', "failures say why");
    }
    free(tiny);
    return 0;
}
