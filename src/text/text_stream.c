/*
 * The streaming detokenizer. `text` holds valid UTF-8: first what was handed out, then what is held back because it
 * could become a stop string. Bytes of an unfinished character wait in `partial`.
 *
 * Each stop string has a matcher (Knuth, Morris and Pratt 1977) that is fed every byte once and knows how long a
 * beginning of the string the text ends with; the longest of these is what must be held back. So the result does not
 * depend on how the text was cut into tokens, and a push costs the length of its piece times the number of stops.
 */
#include "text/text_stream.h"

#include "base/alloc.h"
#include "base/utf8.h"

#include <string.h>

#define MAX_STOPS 64
#define MAX_STOP_LEN 1024

struct stop {
    char *text;
    size_t len;
    uint16_t *fallback; // fallback[i]: longest proper prefix of text that text[0..i] ends with
    size_t matched;
};

struct rv_text_stream {
    const struct rv_vocab *vocab;
    struct stop *stops;
    size_t n_stops;
    struct rv_buf text;
    size_t n_out;    // bytes of text handed out
    char kept;       // the byte that the NUL after them stands for
    char partial[4]; // start of a character
    size_t partial_len;
    bool strips_space;
    bool shows_control;
    bool stopped;
};

static void build_fallback(struct stop *stop)
{
    size_t matched = 0;

    stop->fallback[0] = 0;
    for (size_t i = 1; i < stop->len; i++) {
        while (matched > 0 && stop->text[i] != stop->text[matched])
            matched = stop->fallback[matched - 1];
        if (stop->text[i] == stop->text[matched])
            matched++;
        stop->fallback[i] = (uint16_t)matched;
    }
}

static ruvllm_status add_stop(struct stop *stop, const char *text, struct ruvllm_error *err)
{
    stop->len = text ? strnlen(text, MAX_STOP_LEN + 1) : 0;
    if (stop->len == 0)
        return rv_fail(err, RUVLLM_INVALID, "stop string is empty");
    if (stop->len > MAX_STOP_LEN)
        return rv_fail(err, RUVLLM_TOO_LARGE, "stop string is longer than %d bytes", MAX_STOP_LEN);
    if (!rv_utf8_valid(text, stop->len))
        return rv_fail(err, RUVLLM_INVALID, "stop string is not UTF-8");
    stop->text = rv_strndup(text, stop->len);
    stop->fallback = rv_calloc(stop->len, sizeof(*stop->fallback));
    if (!stop->text || !stop->fallback)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate stop string");
    build_fallback(stop);
    return RUVLLM_OK;
}

ruvllm_status rv_text_stream_new(struct rv_text_stream **out, const struct rv_vocab *vocab, const char *const *stops,
                                 size_t n_stops, struct ruvllm_error *err)
{
    struct rv_text_stream *stream;
    ruvllm_status rc = RUVLLM_OK;

    *out = NULL;
    if (n_stops > MAX_STOPS)
        return rv_fail(err, RUVLLM_TOO_LARGE, "%zu stop strings are more than %d", n_stops, MAX_STOPS);
    stream = rv_calloc(1, sizeof(*stream));
    if (!stream)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate text stream");
    stream->vocab = vocab;
    rv_buf_init(&stream->text, (size_t)1 << 30);
    if (n_stops > 0 && !(stream->stops = rv_calloc(n_stops, sizeof(*stream->stops))))
        rc = rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %zu stop strings", n_stops);
    for (size_t i = 0; !rc && i < n_stops; i++) {
        stream->n_stops++;
        rc = add_stop(&stream->stops[i], stops[i], err);
    }
    if (!rc && !rv_buf_reserve(&stream->text, 1))
        rc = rv_buf_status(&stream->text, "text", err);
    if (rc) {
        rv_text_stream_free(stream);
        return rc;
    }
    stream->text.data[0] = '\0';
    *out = stream;
    return RUVLLM_OK;
}

void rv_text_stream_free(struct rv_text_stream *stream)
{
    if (!stream)
        return;
    for (size_t i = 0; i < stream->n_stops; i++) {
        rv_free(stream->stops[i].text);
        rv_free(stream->stops[i].fallback);
    }
    rv_free(stream->stops);
    rv_buf_release(&stream->text);
    rv_free(stream);
}

void rv_text_stream_begin_text(struct rv_text_stream *stream)
{
    stream->strips_space = rv_vocab_adds_space(stream->vocab);
}

void rv_text_stream_show_control(struct rv_text_stream *stream)
{
    stream->shows_control = true;
}

ruvllm_status rv_text_stream_reserve(struct rv_text_stream *stream, size_t n_tokens, struct ruvllm_error *err)
{
    size_t n_bytes;

    /* Bytes waiting in `partial` may still become one U+FFFD each. */
    if (!rv_size_mul(n_tokens, rv_vocab_max_piece(stream->vocab), &n_bytes) ||
        !rv_size_add(n_bytes, 3 * sizeof(stream->partial), &n_bytes))
        return rv_fail(err, RUVLLM_TOO_LARGE, "cannot hold the text of %zu tokens", n_tokens);
    if (!rv_buf_reserve(&stream->text, n_bytes))
        return rv_buf_status(&stream->text, "text", err);
    return RUVLLM_OK;
}

/* Feeds one byte to a matcher; true when the stop string is complete. */
static bool advance(struct stop *stop, char c)
{
    while (stop->matched > 0 && stop->text[stop->matched] != c)
        stop->matched = stop->fallback[stop->matched - 1];
    if (stop->text[stop->matched] == c)
        stop->matched++;
    return stop->matched == stop->len;
}

/* Adds whole characters to the text, up to the first stop string that becomes complete. */
static void add_text(struct rv_text_stream *stream, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len && !stream->stopped; i++) {
        size_t cut = 0; // of stop strings that end here the longest starts first
        rv_buf_add_char(&stream->text, bytes[i]);
        for (size_t j = 0; j < stream->n_stops; j++) {
            if (advance(&stream->stops[j], bytes[i]) && stream->stops[j].len > cut)
                cut = stream->stops[j].len;
        }
        if (cut > 0) {
            stream->text.len -= cut;
            stream->stopped = true;
        }
    }
}

static void add_replacement(struct rv_text_stream *stream)
{
    add_text(stream, "\xEF\xBF\xBD", 3);
}

/* Moves what is certain from `partial` to the text: a whole character, or U+FFFD for bytes that cannot become one. */
static void settle_partial(struct rv_text_stream *stream)
{
    while (stream->partial_len > 0) {
        uint32_t cp;
        int n = rv_utf8_decode(stream->partial, stream->partial_len, &cp);

        if (n < 0)
            return;
        if (n > 0)
            add_text(stream, stream->partial, (size_t)n);
        else
            add_replacement(stream);
        n = n > 0 ? n : 1;
        stream->partial_len -= (size_t)n;
        memmove(stream->partial, stream->partial + n, stream->partial_len);
    }
}

static void add_bytes(struct rv_text_stream *stream, struct rv_str bytes)
{
    for (size_t i = 0; i < bytes.len; i++) {
        stream->partial[stream->partial_len++] = bytes.data[i];
        settle_partial(stream);
    }
}

/* Hands out the text up to `end`. The NUL after it stands where held-back text may go on. */
static void hand_out(struct rv_text_stream *stream, size_t end, struct rv_str *piece)
{
    *piece = (struct rv_str){.data = stream->text.data + stream->n_out, .len = end - stream->n_out};
    stream->n_out = end;
    stream->kept = stream->text.data[end];
    stream->text.data[end] = '\0';
}

static void restore(struct rv_text_stream *stream)
{
    if (stream->n_out < stream->text.len)
        stream->text.data[stream->n_out] = stream->kept;
}

/* How much of the end of the text could be the beginning of a stop string. */
static size_t held_back(const struct rv_text_stream *stream)
{
    size_t held = 0;

    for (size_t i = 0; i < stream->n_stops && !stream->stopped; i++) {
        if (stream->stops[i].matched > held)
            held = stream->stops[i].matched;
    }
    return held;
}

ruvllm_status rv_text_stream_push(struct rv_text_stream *stream, int32_t token, struct rv_str *piece, bool *stopped,
                                  struct ruvllm_error *err)
{
    struct rv_str bytes;

    *piece = (struct rv_str){.data = "", .len = 0};
    *stopped = stream->stopped;
    if (token < 0 || (size_t)token >= rv_vocab_n_tokens(stream->vocab))
        return rv_fail(err, RUVLLM_INVALID, "token %d is not in the vocabulary", (int)token);
    bytes = rv_vocab_piece(stream->vocab, token, stream->shows_control);
    restore(stream);
    if (stream->strips_space && bytes.len > 0) {
        if (bytes.data[0] == ' ') {
            bytes.data++;
            bytes.len--;
        }
        stream->strips_space = false;
    }
    add_bytes(stream, bytes);
    if (stream->text.failed)
        return rv_buf_status(&stream->text, "text", err);
    *stopped = stream->stopped;
    hand_out(stream, stream->text.len - held_back(stream), piece);
    return RUVLLM_OK;
}

ruvllm_status rv_text_stream_finish(struct rv_text_stream *stream, struct rv_str *piece, struct ruvllm_error *err)
{
    *piece = (struct rv_str){.data = "", .len = 0};
    restore(stream);
    if (stream->partial_len > 0)
        add_replacement(stream);
    stream->partial_len = 0;
    if (stream->text.failed)
        return rv_buf_status(&stream->text, "text", err);
    hand_out(stream, stream->text.len, piece);
    return RUVLLM_OK;
}

struct rv_str rv_text_stream_text(const struct rv_text_stream *stream)
{
    return (struct rv_str){.data = stream->text.data, .len = stream->n_out};
}
