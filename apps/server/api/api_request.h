/*
 * What a client asks for: request bodies to checked values. Pure functions over memory: no sockets, threads or engine.
 *
 * Everything in an accepted request is in range, and nothing a client wrote was ignored but fields that are known to be
 * harmless: an unknown field, a field not supported yet, a value of another type, a key given twice, nesting over
 * RV_API_MAX_DEPTH and more than RV_API_MAX_VALUES values are 400 errors that name the field. null means absent. Absent
 * sampling fields have the values of ruvllm_generate_params_default().
 *
 *     struct rv_api_request *request;
 *     struct rv_api_error err;
 *     if (rv_api_request_parse(RV_API_CHAT, body, len, &request, &err))
 *         reply(err.http_status, ...);
 *     engine_request.input = &request->inputs[0];
 *     engine_request.params = &request->params;
 *
 * docs/api.md lists every field with its range.
 */
#ifndef RV_API_API_REQUEST_H
#define RV_API_API_REQUEST_H

#include "server/api/api_error.h"

enum rv_api_kind {
    RV_API_CHAT,       // POST /v1/chat/completions
    RV_API_COMPLETION, // POST /v1/completions
    RV_API_EMBEDDING,  // POST /v1/embeddings
    RV_API_RESPONSE,   // POST /v1/responses
    RV_API_TOKENIZE,   // POST /v1/tokenize
    RV_API_DETOKENIZE, // POST /v1/detokenize
    RV_API_TEMPLATE,   // POST /v1/chat/template
};

enum {
    RV_API_MAX_DEPTH = 64,        // of nested arrays and objects
    RV_API_MAX_VALUES = 262144,   // of the whole body: strings, numbers, keys, ...
    RV_API_MAX_PROMPTS = 64,      // prompts of a completion, inputs of embeddings
    RV_API_MAX_N = 8,             // choices for each prompt
    RV_API_MAX_CHOICES = 64,      // prompts times n
    RV_API_MAX_MESSAGES = 4096,   // of a conversation
    RV_API_MAX_PARTS = 4096,      // of one message's content
    RV_API_MAX_STOPS = 16,        // stop strings
    RV_API_MAX_STOP_BYTES = 256,  // of each
    RV_API_MAX_LOGIT_BIAS = 1024, // entries
    RV_API_MAX_METADATA = 16,     // pairs
    RV_API_MAX_NAME = 64,         // bytes of a session's id
    RV_API_MAX_MODEL = 256,       // bytes of a model's name
    RV_API_MAX_ADAPTERS = 4,      // of one request
    RV_API_MAX_ADAPTER = 127,     // bytes of an adapter's id
    RV_API_MAX_PATH = 1024,       // bytes of a path, where an operator may name one
};

enum rv_api_encoding { RV_API_FLOAT, RV_API_BASE64 };

struct rv_api_pair {
    const char *key;
    const char *value;
};

struct rv_api_adapter_use {
    const char *id;
    int64_t generation; // 0: the newest
    float weight;
};

/* Every pointer belongs to the request. */
struct rv_api_request {
    enum rv_api_kind kind;
    const char *model; // 1..RV_API_MAX_MODEL bytes; any text: look it up in a table, never as a path
    const struct rv_api_adapter_use *adapters; // up to RV_API_MAX_ADAPTERS, with ids of the right form, each once
    size_t n_adapters;

    /*
     * What the model is given, 1..RV_API_MAX_PROMPTS of them. Conversations (chat, responses, template, and tokenize
     * when it came with messages) are one input with `messages`; others are text or token ids >= 0.
     * Contents hold no NUL. Detokenize: one input with tokens. Ready for the engine as they are.
     */
    const struct ruvllm_input *inputs;
    size_t n_inputs;

    /*
     * Chat with tools: the input as the template is to have it, {"messages": [...], "tools": [...]}, in place of
     * inputs[0]; NULL: there is none.
     */
    const char *conversation;
    size_t conversation_len;

    /* The field that gives the answer a shape, such as "response_format.json_schema.schema"; NULL: none does. */
    const char *shape_param;

    /* Complete. n_logprobs is -1 unless asked for. Points to this request's stop strings and biases. */
    struct ruvllm_generate_params params;
    bool has_max_tokens; // false: params.max_tokens is INT32_MAX, which the engine lowers to the rest of the context
    int32_t n;           // choices for each input: 1..RV_API_MAX_N
    bool stream;
    bool include_usage; // stream_options.include_usage: a chunk with the usage before [DONE]

    const char *user;    // whom the client says it asks for; NULL: not given; at most 256 bytes
    const char *session; // id of a session, [A-Za-z0-9._-]{1,64}, not beginning with a dot; NULL: none
    bool has_kv;         // false: the engine's policy
    struct ruvllm_kv_policy kv;
    int32_t priority;      // -10..10; 0
    bool no_shared_prefix; // "prompt_cache": false

    enum rv_api_encoding encoding; // embeddings
    int32_t dimensions;            // embeddings; 0: not given; anything but the model's n_embd is the caller's 400

    bool with_special; // detokenize: special tokens are spelled out
    bool with_pieces;  // tokenize: the text of each token is wanted too

    /* Responses: what is told back, as JSON; NULL: nothing was asked for. */
    const char *text_format;
    const char *given_tools;
    const char *given_tool_choice;

    const char *instructions;           // responses; NULL: none. Already the first message of inputs[0]
    const struct rv_api_pair *metadata; // responses, chat
    size_t n_metadata;
};

/*
 * Reads the `len` bytes of `body` (the caller limits them) as a request of this kind. *out is the caller's, freed with
 * rv_api_request_free; the body is not needed any more. On failure *out is NULL and `err` says which field and why:
 * RUVLLM_INVALID with http_status 400, or RUVLLM_NO_MEMORY with 503. What breaks a limit is refused before memory is
 * taken for it; a request uses about 2 * len + 20 * RV_API_MAX_VALUES bytes at most.
 */
RV_CHECKED ruvllm_status rv_api_request_parse(enum rv_api_kind kind, const char *body, size_t len,
                                              struct rv_api_request **out, struct rv_api_error *err);
void rv_api_request_free(struct rv_api_request *request);

/*
 * Walks an accepted request and aborts when a value is outside what this header promises; for tests and fuzzing.
 */
void rv_api_request_check(const struct rv_api_request *request);

#endif
