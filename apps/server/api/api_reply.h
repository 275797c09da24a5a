/*
 * Replies as JSON text, added to a buffer of the caller: check it once at the end with rv_buf_status. Functions named
 * `_chunk`, `_event`, `_done` add whole server-sent events ("data: {...}\n\n"), the others one JSON document.
 *
 * A stream of chat completions is: for each choice rv_api_reply_chat_role, any number of rv_api_reply_chat_chunk, the
 * last of them with is_finished; then rv_api_reply_chat_usage when the request asked for it; then rv_api_reply_done.
 * Completions are the same without the role. What fails after the first chunk ends with rv_api_error_event.
 *
 * Any bytes may be given as text: they are escaped, and what is not UTF-8 becomes U+FFFD.
 */
#ifndef RV_API_API_REPLY_H
#define RV_API_API_REPLY_H

#include "server/api/api_request.h"

/* What all parts of one reply share. */
struct rv_api_head {
    const char *id;             // from rv_api_reply_id
    int64_t created;            // seconds since 1970
    const char *model;          // as the client is to see it
    const char *fingerprint;    // of model, adapter and program; NULL: left out
    bool has_usage_chunk;       // include_usage: the other chunks say "usage": null
    int64_t adapter_generation; // of the adapter it was made with, the first of several; 0: none, and left out
    bool has_learned;           // the model learns: the reply says from which generation it is
    int64_t learned_generation; // 0: nothing was learned yet
};

struct rv_api_usage {
    int64_t prompt_tokens;
    int64_t cached_tokens; // of those, not computed again
    int64_t completion_tokens;
    int64_t accepted_tokens; // guessed ahead and right
    int64_t rejected_tokens; // guessed ahead and wrong; no part of the answer
};

/* One token with its text, which is what ruvllm_detokenize gives for it alone; may be part of a character. */
struct rv_api_token {
    const char *text;
    size_t text_len;
    float logprob; // -INFINITY is written as -9999
};

/* Rows of one choice. In each the chosen token first, then `n_top` alternatives, best first, as the engine gives them.
 */
struct rv_api_logprobs {
    const struct rv_api_token *tokens; // n_rows * (1 + n_top)
    size_t n_rows;
    size_t n_top;
    size_t text_offset; // completions: characters of the answer before the first row; grows by rv_api_reply_n_chars
};

/* A call of a tool. */
struct rv_api_call {
    const char *id; // "call_..."
    const char *name;
    const char *arguments; // JSON
    size_t arguments_len;
};

struct rv_api_choice {
    int32_t index;
    const char *text; // the whole answer, or what a chunk adds
    size_t text_len;
    bool is_finished; // chunks; whole answers are
    ruvllm_stop_reason stop_reason;
    const struct rv_api_logprobs *logprobs; // NULL: not asked for
    const char *thought;                    // chat, whole: what was thought before; NULL: nothing
    size_t thought_len;
    const struct rv_api_call *calls; // chat, whole
    size_t n_calls;                  // chat; of a last chunk: how many there were
};

enum { RV_API_ID_SIZE = 48 };
/*
 * "<prefix>-<24 letters and digits>" from 16 random bytes of the caller's, such as "chatcmpl-...". Prefixes in use:
 * chatcmpl, cmpl, resp, msg, call. "resp", "msg" and "call" are joined with '_', as clients know them.
 */
void rv_api_reply_id(char out[RV_API_ID_SIZE], const char *prefix, const uint8_t random[16]);

/* "stop" for EOS and stop strings, "length" for LENGTH and CONTEXT. */
const char *rv_api_reply_finish_reason(ruvllm_stop_reason reason);
/* Characters of the chosen tokens' text, for text_offset of the next chunk. */
size_t rv_api_reply_n_chars(const struct rv_api_logprobs *logprobs);

/* ---- chat completions ------------------------------------------------------------------------- */

void rv_api_reply_chat(struct rv_buf *out, const struct rv_api_head *head, const struct rv_api_choice *choices,
                       size_t n_choices, const struct rv_api_usage *usage);
void rv_api_reply_chat_role(struct rv_buf *out, const struct rv_api_head *head, int32_t index);
/*
 * What a choice gained. With is_finished it is two chunks: the text, where there is any, and the one with the reason.
 * Without text, log-probabilities and reason nothing is added.
 */
void rv_api_reply_chat_chunk(struct rv_buf *out, const struct rv_api_head *head, const struct rv_api_choice *choice);
/* Chunks of an answer with parts: more of a thought; a call that begins; more of its arguments. */
void rv_api_reply_chat_thought(struct rv_buf *out, const struct rv_api_head *head, int32_t index, const char *text,
                               size_t len);
void rv_api_reply_chat_call(struct rv_buf *out, const struct rv_api_head *head, int32_t index, int32_t i_call,
                            const struct rv_api_call *call);
void rv_api_reply_chat_arguments(struct rv_buf *out, const struct rv_api_head *head, int32_t index, int32_t i_call,
                                 const char *text, size_t len);
void rv_api_reply_chat_usage(struct rv_buf *out, const struct rv_api_head *head, const struct rv_api_usage *usage);

/* ---- completions ------------------------------------------------------------------------------ */

void rv_api_reply_completion(struct rv_buf *out, const struct rv_api_head *head, const struct rv_api_choice *choices,
                             size_t n_choices, const struct rv_api_usage *usage);
void rv_api_reply_completion_chunk(struct rv_buf *out, const struct rv_api_head *head,
                                   const struct rv_api_choice *choice);
void rv_api_reply_completion_usage(struct rv_buf *out, const struct rv_api_head *head,
                                   const struct rv_api_usage *usage);

/* "data: [DONE]\n\n"; chat completions and completions end with it, responses do not. */
void rv_api_reply_done(struct rv_buf *out);

/* ---- responses -------------------------------------------------------------------------------- */

struct rv_api_response {
    struct rv_api_head head;              // id with the prefix "resp"
    const char *item_id;                  // of its message, with the prefix "msg"
    const struct rv_api_request *request; // its settings are told back
    const char *text;                     // all of it so far
    size_t text_len;
    const struct rv_api_logprobs *logprobs; // of all of it; NULL: not asked for
    ruvllm_stop_reason stop_reason;         // when it is over
    const struct rv_api_usage *usage;       // when it is over
    int64_t sequence;                       // number of the next event; begins at 0

    /* Where tools may be called: what it consists of comes to light as it goes, and so do its items in a stream. */
    bool has_tools;
    const struct rv_api_call *calls; // all of them so far
    size_t n_calls;
    bool is_said;    // the stream has an item for its text; without tools it always has
    size_t n_closed; // calls of the stream that are complete
};

/* The finished response. */
void rv_api_reply_response(struct rv_buf *out, const struct rv_api_response *response);
/*
 * response.created, response.in_progress; without tools also response.output_item.added, response.content_part.added,
 * which otherwise come before the first text.
 */
void rv_api_reply_response_begin_event(struct rv_buf *out, struct rv_api_response *response);
/* response.output_text.delta; `logprobs` are the piece's, or NULL. An empty piece adds nothing. */
void rv_api_reply_response_delta_event(struct rv_buf *out, struct rv_api_response *response, const char *text,
                                       size_t text_len, const struct rv_api_logprobs *logprobs);
/* A call has begun, which is the last of `calls`: ends what came before it; response.output_item.added. */
void rv_api_reply_response_call_event(struct rv_buf *out, struct rv_api_response *response);
/* response.function_call_arguments.delta, of the last of `calls`. */
void rv_api_reply_response_arguments_event(struct rv_buf *out, struct rv_api_response *response, const char *text,
                                           size_t text_len);
/*
 * response.output_text.done, response.content_part.done, response.output_item.done (of a last call
 * response.function_call_arguments.done, response.output_item.done), and response.completed, or
 * response.incomplete when the answer was cut off by its length. Text, reason and usage are complete now.
 */
void rv_api_reply_response_end_event(struct rv_buf *out, struct rv_api_response *response);
/* response.failed, with the error in it; the last event of a stream that broke. */
void rv_api_reply_response_failed_event(struct rv_buf *out, struct rv_api_response *response,
                                        const struct rv_api_error *err);

/* ---- embeddings, models, sessions, text ------------------------------------------------------- */

/* `vectors` are n_vectors rows of n_embd. */
void rv_api_reply_embeddings(struct rv_buf *out, const char *model, const float *vectors, size_t n_vectors,
                             size_t n_embd, enum rv_api_encoding encoding, int64_t prompt_tokens);

struct rv_api_model {
    const char *id;
    int64_t created;          // of the file, seconds since 1970
    const char *owned_by;     // NULL: "ruvllm"
    const char *parent;       // of a model with an adapter: the model without it; NULL: it is one
    bool is_loaded;           // the rest is known only of loaded models
    const char *architecture; // NULL where not known
    const char *quantization;
    const char *backend; // "native" or "llama"
    uint64_t n_params;
    int32_t context;
    int32_t n_embd;
    bool has_chat_template;
    bool has_tiers; // keys and values are kept by age in less precision
    bool can_learn; // feedback changes its answers
};

void rv_api_reply_model(struct rv_buf *out, const struct rv_api_model *model);
void rv_api_reply_models(struct rv_buf *out, const struct rv_api_model *models, size_t n_models);

void rv_api_reply_session_deleted(struct rv_buf *out, const char *id);

/* `pieces` (n_tokens of them; logprob unused) may be NULL. */
void rv_api_reply_tokenize(struct rv_buf *out, const char *model, const int32_t *tokens, size_t n_tokens,
                           const struct rv_api_token *pieces);
void rv_api_reply_detokenize(struct rv_buf *out, const char *model, const char *text, size_t text_len);
void rv_api_reply_template(struct rv_buf *out, const char *model, const char *prompt, size_t prompt_len);

#endif
