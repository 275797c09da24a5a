/*
 * An answer in the making: rows of logits in, tokens and text out, until something ends it. Everything it needs is
 * allocated when it is made; taking a token allocates nothing. Who computes the rows is not its business.
 */
#ifndef RV_ENGINE_REPLY_H
#define RV_ENGINE_REPLY_H

#include "sample/grammar.h"
#include "text/text_stream.h"

struct rv_reply;

struct rv_reply_config {
    const struct rv_vocab *vocab; // outlives the reply
    size_t n_vocab;               // entries of a row of logits
    const struct ruvllm_generate_params *params;
    const int32_t *prompt; // for the penalties; read during the call
    size_t n_prompt;
    size_t context;             // tokens that prompt and answer may have together
    struct rv_grammar *grammar; // of the answer; NULL: none. A reference is taken
};

/* What a token added to the text. Pointers are the reply's, valid until its next call. */
struct rv_reply_piece {
    struct rv_str text;
    int32_t token;                               // -1: none, only held-back text
    const struct ruvllm_token_logprob *logprobs; // of that token; NULL unless asked for
};

/* INVALID for parameters out of range or an empty prompt; TOO_LARGE for a prompt beyond the context. */
RV_CHECKED ruvllm_status rv_reply_new(struct rv_reply **out, const struct rv_reply_config *config,
                                      struct ruvllm_error *err);
void rv_reply_free(struct rv_reply *reply);

/* Tokens it may still ask for, counted from the start. */
size_t rv_reply_max_tokens(const struct rv_reply *reply);
bool rv_reply_is_over(const struct rv_reply *reply);
/* Ends it from outside; a reply that is over stays as it is. */
void rv_reply_stop(struct rv_reply *reply, ruvllm_stop_reason reason);
/* Chooses the next token from a row, which is changed by it. *token is the one to compute next unless the reply is
 * over. */
RV_CHECKED ruvllm_status rv_reply_take(struct rv_reply *reply, float *logits, int32_t *token,
                                       struct rv_reply_piece *piece, struct ruvllm_error *err);
/* How many of these tokens, one after the other, the answer's shape lets through; all of them where it has none. */
int32_t rv_reply_foresee(struct rv_reply *reply, const int32_t *tokens, int32_t n);
/* The text that was held back, once it is over. */
RV_CHECKED ruvllm_status rv_reply_finish(struct rv_reply *reply, struct rv_reply_piece *piece,
                                         struct ruvllm_error *err);
/* The answer so far, for its caller to add timings to. */
struct ruvllm_response *rv_reply_response(struct rv_reply *reply);
/* Moves the answer, with its text, out of a finished reply. */
struct ruvllm_response *rv_reply_take_response(struct rv_reply *reply);
void rv_reply_response_free(struct ruvllm_response *response);

#endif
