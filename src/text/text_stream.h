/*
 * From token ids to text that may be shown, while generating: never splits a UTF-8 character, holds back what
 * could still become a stop string, and cuts exactly before one. One per answer.
 */
#ifndef RV_TEXT_TEXT_STREAM_H
#define RV_TEXT_TEXT_STREAM_H

#include "text/vocab.h"

struct rv_text_stream;

/*
 * `stops` are copied; one that is empty or not UTF-8 is INVALID, more than 64 of them or one over 1,024 bytes is
 * TOO_LARGE. Of several stop strings the one that is complete first counts. Text handed out is always UTF-8: bytes
 * that are not become U+FFFD. The vocabulary is borrowed.
 */
RV_CHECKED ruvllm_status rv_text_stream_new(struct rv_text_stream **out, const struct rv_vocab *vocab,
                                            const char *const *stops, size_t n_stops, struct ruvllm_error *err);
void rv_text_stream_free(struct rv_text_stream *stream);
/*
 * Tells that the answer stands at the start of a text, not after a prompt: the space that a SentencePiece vocabulary
 * puts before the first word is left out, as rv_vocab_decode does. Call it before the first push.
 */
void rv_text_stream_begin_text(struct rv_text_stream *stream);
/* From now on control tokens show their names. */
void rv_text_stream_show_control(struct rv_text_stream *stream);
/* Reserves room so that pushing up to n_tokens tokens allocates nothing. */
RV_CHECKED ruvllm_status rv_text_stream_reserve(struct rv_text_stream *stream, size_t n_tokens,
                                                struct ruvllm_error *err);
/*
 * Takes the next token. *piece gets the text that became certain (perhaps empty), NUL-terminated and valid until the
 * next call; *stopped is true when a stop string was found: it and everything after it are dropped, and later calls
 * add nothing. Control tokens show nothing. An id outside the vocabulary is INVALID.
 */
RV_CHECKED ruvllm_status rv_text_stream_push(struct rv_text_stream *stream, int32_t token, struct rv_str *piece,
                                             bool *stopped, struct ruvllm_error *err);
/* The rest, at the end: held-back text, with an unfinished character as U+FFFD. */
RV_CHECKED ruvllm_status rv_text_stream_finish(struct rv_text_stream *stream, struct rv_str *piece,
                                               struct ruvllm_error *err);
/* All text handed out so far. */
struct rv_str rv_text_stream_text(const struct rv_text_stream *stream);

#endif
