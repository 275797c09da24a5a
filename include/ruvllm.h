/*
 * RuvLLM: run GGUF language models on ggml. The public API of libruvllm. Beside it: ruvllm_kernels.h (numeric kernels
 * and a key-value cache on plain arrays), ruvllm_store.h (keys, witness log, sessions), ruvllm_hub.h (fetching models),
 * ruvllm_adapter.h (low-rank changes of a model, by request), ruvllm_learn.h (votes), ruvllm_learn_log.h (what
 * came of them), ruvllm_sona.h (learning by its parts), ruvllm_train.h (training).
 *
 * How to read it: errors first (every call that can fail reports the same way), then a model is
 * opened, asked about itself, given input (text, a conversation or token ids) and made to generate; then engines that
 * serve many at once.
 *
 *     struct ruvllm_error err;
 *     ruvllm_model *model;
 *     if (ruvllm_model_open(&model, "model.gguf", NULL, &err) != RUVLLM_OK)
 *         die(err.message);
 *     struct ruvllm_input in = {.struct_size = sizeof(in), .text = "Once upon a time", .text_len = 16};
 *     struct ruvllm_response *answer;
 *     if (ruvllm_generate(model, &in, NULL, &answer, &err) == RUVLLM_OK)
 *         puts(answer->text);
 *     ruvllm_response_free(answer);
 *     ruvllm_model_close(model);
 *
 * Ownership: `const T *` arguments are borrowed for the call. What a call hands out through `T **out`
 * is the caller's, returned with the matching `_free`/`_close` or with ruvllm_free(). Strings inside
 * structs that describe a model live as long as the model.
 *
 * Threads: a model belongs to one caller at a time for the calls that compute (generate, forward,
 * embed); a second one is refused with RUVLLM_BUSY, never queued and never undefined. Everything else
 * on an open model may be called from any thread. Different models are independent.
 *
 * Structs that start with `struct_size` may grow at their end: set it to sizeof of what you compiled
 * with, or let the matching `_default()` function do so. A NULL params pointer means all defaults.
 */
#ifndef RUVLLM_H
#define RUVLLM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define RUVLLM_API
#else
#define RUVLLM_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- errors -------------------------------------------------------------------------------- */

/* What went wrong, by what the caller can do about it. Each maps to one HTTP status. */
typedef enum ruvllm_status {
    RUVLLM_OK = 0,
    RUVLLM_INVALID = -1,     // the arguments or the request are wrong: 400
    RUVLLM_NOT_FOUND = -2,   // no such file, model, adapter or session: 404
    RUVLLM_TOO_LARGE = -3,   // over a limit that is stated in the message: 413
    RUVLLM_BUSY = -4,        // try again later: 429
    RUVLLM_CANCELLED = -5,   // stopped because the caller asked for it: 499
    RUVLLM_NO_MEMORY = -6,   // 503
    RUVLLM_UNSUPPORTED = -7, // valid, but not something this build can do: 501
    RUVLLM_IO = -8,          // the operating system said no: 500; of RUVLLM_ERROR_STORAGE, the store is away: 503
    RUVLLM_FORMAT = -9,      // the file is damaged, hostile or not what it claims to be: 500
    RUVLLM_BACKEND = -10,    // ggml or a device failed: 500
    RUVLLM_INTERNAL = -11,   // a bug of ours: 500
    RUVLLM_CONFLICT = -12,   // somebody else changed it first: 409
    RUVLLM_NO_SPACE = -13    // the disk is full; what was asked works again once there is room: 507
} ruvllm_status;

/* Which part it happened in. */
typedef enum ruvllm_error_kind {
    RUVLLM_ERROR_STORAGE,
    RUVLLM_ERROR_SESSION,
    RUVLLM_ERROR_KV_CACHE,
    RUVLLM_ERROR_PAGED_ATTENTION,
    RUVLLM_ERROR_ADAPTER,
    RUVLLM_ERROR_SONA,
    RUVLLM_ERROR_CONFIG,
    RUVLLM_ERROR_OUT_OF_MEMORY,
    RUVLLM_ERROR_INVALID_OPERATION,
    RUVLLM_ERROR_NOT_FOUND,
    RUVLLM_ERROR_BACKEND,
    RUVLLM_ERROR_MODEL,
    RUVLLM_ERROR_TOKENIZATION,
    RUVLLM_ERROR_GENERATION,
    RUVLLM_ERROR_IO
} ruvllm_error_kind;

/* Filled on failure, untouched on success. The layout is frozen. */
struct ruvllm_error {
    ruvllm_status status;
    ruvllm_error_kind kind;
    char message[256]; // one sentence, lower case, no full stop: what was being done and why it failed
};

RUVLLM_API const char *ruvllm_version(void);
RUVLLM_API const char *ruvllm_status_name(ruvllm_status status);
/* The sentence a kind begins with, such as "Tokenization error". */
RUVLLM_API const char *ruvllm_error_kind_prefix(ruvllm_error_kind kind);

/* Frees memory this library handed out. NULL is fine. */
RUVLLM_API void ruvllm_free(void *ptr);

/* ---- log ----------------------------------------------------------------------------------- */

typedef enum ruvllm_log_level {
    RUVLLM_LOG_DEBUG,
    RUVLLM_LOG_INFO,
    RUVLLM_LOG_WARN,
    RUVLLM_LOG_ERROR,
    RUVLLM_LOG_OFF
} ruvllm_log_level;

/* One line without its newline; may be called from any thread. */
typedef void (*ruvllm_log_fn)(void *user, ruvllm_log_level level, const char *line);

/*
 * Where log lines go and from which level on. Call it before the first model is opened; it is the only
 * process-wide setting. Without it nothing is logged. A NULL `fn` writes to standard error.
 */
RUVLLM_API void ruvllm_log_set(ruvllm_log_level level, ruvllm_log_fn fn, void *user);

/* ---- small vocabulary of the field ----------------------------------------------------------- */

typedef enum ruvllm_precision {
    RUVLLM_PRECISION_FP32,
    RUVLLM_PRECISION_FP16,
    RUVLLM_PRECISION_BF16,
    RUVLLM_PRECISION_Q8,
    RUVLLM_PRECISION_Q4,
    RUVLLM_PRECISION_Q4K
} ruvllm_precision;

/* Bits per element with the block scales counted: 32, 16, 16, 8.5, 4.5, 4.5. */
RUVLLM_API double ruvllm_precision_bits(ruvllm_precision precision);

typedef enum ruvllm_model_size {
    RUVLLM_SIZE_TINY,   // under 1 billion parameters
    RUVLLM_SIZE_SMALL,  // 1 to 3
    RUVLLM_SIZE_MEDIUM, // 3 to 13
    RUVLLM_SIZE_LARGE   // over 13
} ruvllm_model_size;

RUVLLM_API ruvllm_model_size ruvllm_model_size_of(uint64_t n_params);
RUVLLM_API const char *ruvllm_model_size_name(ruvllm_model_size size);

/* ---- devices ------------------------------------------------------------------------------- */

struct ruvllm_device_info {
    size_t struct_size;
    const char *name;        // what `device` in the model params takes, such as "CPU" or "CUDA0"
    const char *description; // the hardware's own name
    const char *type;        // "cpu", "gpu", "igpu" or "accel"
    uint64_t memory_total;   // bytes; 0 where the device does not tell
    uint64_t memory_free;
};

/* Devices ggml knows here, in its order. The strings live as long as the process. */
RUVLLM_API size_t ruvllm_device_count(void);
RUVLLM_API ruvllm_status ruvllm_device_at(size_t index, struct ruvllm_device_info *out, struct ruvllm_error *err);

/* ---- models -------------------------------------------------------------------------------- */

typedef struct ruvllm_model ruvllm_model;

/* Load progress from 0 to 1; returning false stops the load with RUVLLM_CANCELLED. */
typedef bool (*ruvllm_progress_fn)(void *user, float fraction);

typedef enum ruvllm_rope_scaling {
    RUVLLM_ROPE_FROM_MODEL, // what the file says
    RUVLLM_ROPE_NONE,
    RUVLLM_ROPE_LINEAR,
    RUVLLM_ROPE_NTK, // raises the frequency base so that `rope_scale` times the context fits
    RUVLLM_ROPE_YARN
} ruvllm_rope_scaling;

struct ruvllm_model_params {
    size_t struct_size;
    int32_t max_context; // tokens; 4096, lowered to what the model was trained for; 0: all of that
    int32_t max_batch;   // prompt tokens computed at once; 512
    int32_t n_threads;   // 0: one per physical core this process may use
    const char *device;  // NULL or "auto": the best installed one; else a name from ruvllm_device_at
    bool use_mmap;       // true: weights stay in the file's pages where the device reads them as they are
    bool repack;         // true: weights are laid out anew where that is faster on this device
    bool vocab_only;     // read text processing and numbers, leave the weights alone: nothing computes
    ruvllm_rope_scaling rope_scaling;
    float rope_scale;               // context multiplier for rope_scaling; 0: the file's
    float rope_freq_base;           // 0: the file's
    int32_t rope_original_context;  // YaRN: context the model was trained with; 0: the file's
    float yarn_extrapolation;       // mix factor; negative: the default of the scaling kind
    float yarn_attention;           // magnitude scale; 0: the file's or 1
    float yarn_beta_fast;           // 0: 32
    float yarn_beta_slow;           // 0: 1
    const char *template_sha256;    // hex; when set, a model whose chat template hashes otherwise is refused
    ruvllm_progress_fn on_progress; // may be NULL
    void *progress_user;
    const char *backend;   // "native": our own code; "llama": libllama; NULL or "hybrid": native for the
                           // architectures it knows, else libllama where this build has it
    const char *attention; // "own": our kernel, on the CPU only; "ggml": ggml's, which rounds as llama.cpp does, for
                           // comparing; NULL or "auto": own where it can be. An engine on the CPU always has its own
};

RUVLLM_API struct ruvllm_model_params ruvllm_model_params_default(void);

/*
 * Opens the GGUF file, or the Hugging Face folder, at `path` and makes it ready to generate. On failure *out is NULL
 * and `err` names the file and the reason; nothing is left behind.
 */
RUVLLM_API ruvllm_status ruvllm_model_open(ruvllm_model **out, const char *path,
                                           const struct ruvllm_model_params *params, struct ruvllm_error *err);
RUVLLM_API void ruvllm_model_close(ruvllm_model *model);

struct ruvllm_model_info {
    size_t struct_size;
    const char *name;         // general.name, or "" when the file has none
    const char *architecture; // "llama", "qwen2", ...
    const char *quantization; // the type most weight bytes have, such as "Q4_K"
    const char *tokenizer;    // "bpe" or "spm", and the pre-tokenizer: "bpe/qwen2"
    const char *device;
    const char *template_sha256; // hex, or "" when the file has no chat template
    uint64_t n_params;
    uint64_t file_bytes;
    int32_t n_layers;
    int32_t n_embd;
    int32_t n_heads;
    int32_t n_kv_heads;
    int32_t head_dim;
    int32_t n_vocab;
    int32_t trained_context;
    int32_t context;        // what this handle can hold
    int32_t sliding_window; // 0: none
    int32_t bos_token;      // -1: none
    int32_t eos_token;
    ruvllm_model_size size;
    bool has_chat_template;
    bool tied_embeddings;
    const char *backend; // "native" or "llama"; "" when only the vocabulary was read and nothing here could compute it
    bool can_learn;      // feedback can change it: ruvllm_learn.h
    bool has_tiers;      // an engine keeps old keys and values in fewer bits, shares prefixes and saves sessions
    int32_t n_threads;   // that compute; 0 when only the vocabulary was read
};

RUVLLM_API ruvllm_status ruvllm_model_info_get(const ruvllm_model *model, struct ruvllm_model_info *out,
                                               struct ruvllm_error *err);
/* The model's own chat template, NUL-terminated; NULL when it has none. Lives with the model. */
RUVLLM_API const char *ruvllm_model_chat_template(const ruvllm_model *model);

struct ruvllm_memory_stats {
    size_t struct_size;
    uint64_t weights_mapped;    // bytes read straight from the file's pages; libllama's all count so, or as allocated
    uint64_t weights_allocated; // bytes copied or laid out anew in device memory
    uint64_t kv_bytes;          // of keys and values: in use on the CPU, reserved on other devices
    uint64_t compute_bytes;     // scratch for one step; 0 under libllama, which does not tell
    uint64_t process_rss;       // resident bytes of the whole process; 0 where the system does not tell
};

RUVLLM_API ruvllm_status ruvllm_memory_stats_get(const ruvllm_model *model, struct ruvllm_memory_stats *out,
                                                 struct ruvllm_error *err);

/* ---- a look into a file, also a broken one --------------------------------------------------- */

/*
 * Describes the GGUF file at `path` as JSON: header, metadata (long arrays shortened, and said so),
 * tensors. A damaged file gives a JSON object too, with "error" telling what is wrong and everything
 * read before it; only failing to open or read the file at all is a failure of the call.
 * *json is the caller's, freed with ruvllm_free().
 */
RUVLLM_API ruvllm_status ruvllm_inspect(const char *path, char **json, struct ruvllm_error *err);

/* ---- text ---------------------------------------------------------------------------------- */

/* One turn of a conversation. `role` is what the model's template knows: system, user, assistant. */
struct ruvllm_message {
    const char *role;
    const char *content;
};

/* What a model is given: set exactly one of text, messages, tokens, conversation. */
struct ruvllm_input {
    size_t struct_size;
    const char *text; // UTF-8; never parsed for special tokens; BOS added if the model wants it
    size_t text_len;
    const struct ruvllm_message *messages; // rendered with the model's own chat template
    size_t n_messages;
    const int32_t *tokens; // used as they are
    size_t n_tokens;
    bool text_is_trusted;     // text only: special tokens spelled in it do count (never for a user's words)
    bool no_bos;              // text only: leave BOS out
    const char *conversation; // or a JSON object for the chat template: {"messages": [...], "tools": [...]}
    size_t conversation_len;
};

/*
 * Token ids of `input`. *tokens is the caller's, freed with ruvllm_free(). Contents of messages are
 * never read as special tokens, whatever they spell.
 */
RUVLLM_API ruvllm_status ruvllm_tokenize(const ruvllm_model *model, const struct ruvllm_input *input, int32_t **tokens,
                                         size_t *n_tokens, struct ruvllm_error *err);
/* Text of `tokens`, NUL-terminated; special tokens are spelled out only when asked for. */
RUVLLM_API ruvllm_status ruvllm_detokenize(const ruvllm_model *model, const int32_t *tokens, size_t n_tokens,
                                           bool with_special, char **text, size_t *text_len, struct ruvllm_error *err);
/*
 * The conversation as the model's chat template renders it, ending where the assistant is to speak.
 * A model without a template, or one whose template fails, is an error: nothing is put in its place.
 */
RUVLLM_API ruvllm_status ruvllm_apply_template(const ruvllm_model *model, const struct ruvllm_message *messages,
                                               size_t n_messages, char **text, size_t *text_len,
                                               struct ruvllm_error *err);

/* ---- generation ---------------------------------------------------------------------------- */

struct ruvllm_logit_bias {
    int32_t token;
    float bias; // added to the logit; -INFINITY bans the token
};

/* Whether the model may think, between "<think>" and "</think>", before the part of an answer that has a shape. */
typedef enum ruvllm_thought {
    RUVLLM_THOUGHT_NONE,
    RUVLLM_THOUGHT_ALLOWED, // the answer may begin with it
    RUVLLM_THOUGHT_OPEN     // the prompt ends with "<think>": the answer begins inside
} ruvllm_thought;

struct ruvllm_generate_params {
    size_t struct_size;
    int32_t max_tokens;       // 256; 0 or more
    float temperature;        // 0.7; 0 is greedy
    float top_p;              // 0.9; 1 is off
    int32_t top_k;            // 0 is off
    float min_p;              // 0 is off
    float typical_p;          // 1 is off
    float repetition_penalty; // 1.1; 1 is off
    float frequency_penalty;  // 0; -2 to 2
    float presence_penalty;   // 0; -2 to 2
    int32_t penalty_window;   // how many last tokens the penalties see; 64; -1: all
    const struct ruvllm_logit_bias *logit_bias;
    size_t n_logit_bias;
    const char *const *stop; // generation ends before any of these strings; the string is not returned
    size_t n_stop;
    bool has_seed; // false: a seed is drawn and reported in the response
    uint64_t seed;
    int32_t n_logprobs; // -1: none; 0: the chosen token's; up to 20 alternatives beside it
    bool ignore_eos;    // go on after end-of-text (for measuring)

    /*
     * The shape of the answer: at most one of these. Only tokens that keep it are chosen, and the answer ends when it
     * is complete; one that max_tokens or the context cut off is a beginning of it. At most 64 KiB; what cannot be
     * understood or is not supported is RUVLLM_INVALID, naming it.
     */
    const char *grammar;     // rules in GBNF; the answer is its `root`
    const char *regex;       // a regular expression that the whole answer matches
    const char *json_schema; // JSON Schema, draft 2020-12, that the answer satisfies
    bool json_object;        // any JSON object
    const char *tools; // a JSON array of tools, as chat completions have them: the answer is text or calls of them,
                       // in the way of the model's chat template (ruvllm_tool_style_get)
    ruvllm_thought thought; // with one of the above
    bool must_call_tool;    // with tools: at least one call
    bool one_tool_call;     // at most one
    const char *tool_name;  // the only one that may be called; NULL: any
};

RUVLLM_API struct ruvllm_generate_params ruvllm_generate_params_default(void);

/*
 * Reads the shape that `params` ask for, as generating would, and keeps it for the request to come: RUVLLM_INVALID for
 * one that cannot be understood or is not supported. Without a shape there is nothing to do.
 */
RUVLLM_API ruvllm_status ruvllm_shape_check(const ruvllm_model *model, const struct ruvllm_generate_params *params,
                                            struct ruvllm_error *err);

/* How the model's chat template has calls of tools written. The strings live as long as the process. */
struct ruvllm_tool_style {
    size_t struct_size;
    const char *name;      // "hermes", "mistral", "phi", "granite", "llama3" or "gemma"
    const char *open;      // stands before a call, or before a list of them; "": nothing does
    const char *close;     // stands behind; "": nothing does
    const char *arguments; // a call is {"name": "...", "<this>": {...}}
    bool is_list;          // calls stand in one array; else each has its own `open` and `close`
};

/*
 * RUVLLM_UNSUPPORTED for a model whose template calls tools in no way that is known, or has no place for them; but for
 * Gemma's, whose models are told of them in turns of the user, where the conversation is given as JSON.
 */
RUVLLM_API ruvllm_status ruvllm_tool_style_get(const ruvllm_model *model, struct ruvllm_tool_style *out,
                                               struct ruvllm_error *err);

typedef enum ruvllm_stop_reason {
    RUVLLM_STOP_EOS,     // the model ended its answer
    RUVLLM_STOP_LENGTH,  // max_tokens reached
    RUVLLM_STOP_CONTEXT, // the context is full
    RUVLLM_STOP_STRING,  // a stop string appeared
    RUVLLM_STOP_CALLBACK // the callback returned false
} ruvllm_stop_reason;

RUVLLM_API const char *ruvllm_stop_reason_name(ruvllm_stop_reason reason);

struct ruvllm_token_logprob {
    int32_t token;
    float logprob; // natural logarithm under the model's own distribution, before any sampling setting
};

/* A piece of the answer, as it becomes certain. */
struct ruvllm_chunk {
    const char *text; // whole UTF-8 characters, NUL-terminated; may be empty while a character or stop string forms
    size_t text_len;
    int32_t token;                               // -1 in a last piece that was held back until the end
    const struct ruvllm_token_logprob *logprobs; // the chosen token first, then the alternatives, best first
    size_t n_logprobs;
};

/* Returning false ends the generation with RUVLLM_STOP_CALLBACK; what was generated is kept. */
typedef bool (*ruvllm_chunk_fn)(void *user, const struct ruvllm_chunk *chunk);

struct ruvllm_response {
    char *text; // NUL-terminated
    size_t text_len;
    int32_t *tokens; // the generated ones, without the end-of-text token
    size_t n_tokens;
    struct ruvllm_token_logprob *logprobs; // n_tokens rows of logprobs_per_token; NULL unless asked for
    size_t logprobs_per_token;
    ruvllm_stop_reason stop_reason;
    int32_t prompt_tokens;
    int32_t cached_tokens; // prompt tokens whose state was reused from the call before
    uint64_t seed;         // what was used: give it back to repeat this answer
    int64_t prefill_us;
    int64_t decode_us;
    int64_t adapter_generation; // of the request's adapter, the first of several; 0: it had none
    int64_t learned_generation; // of what the tenant's feedback has taught (ruvllm_learn.h); 0: nothing yet
    int32_t drafted_tokens;     // that were guessed ahead
    int32_t accepted_tokens;    // and were what the model says
};

/*
 * Answers `input`. The state of the longest common beginning with the call before is reused, so a growing
 * conversation is not computed again. A prompt that does not fit the context is RUVLLM_TOO_LARGE with
 * both numbers; nothing is ever cut off silently.
 */
RUVLLM_API ruvllm_status ruvllm_generate(ruvllm_model *model, const struct ruvllm_input *input,
                                         const struct ruvllm_generate_params *params, struct ruvllm_response **out,
                                         struct ruvllm_error *err);
/* The same, handing out each piece as it comes. `out` may be NULL. */
RUVLLM_API ruvllm_status ruvllm_generate_stream(ruvllm_model *model, const struct ruvllm_input *input,
                                                const struct ruvllm_generate_params *params, ruvllm_chunk_fn on_chunk,
                                                void *user, struct ruvllm_response **out, struct ruvllm_error *err);
RUVLLM_API void ruvllm_response_free(struct ruvllm_response *response);

/*
 * Logits of `tokens` as one fresh sequence, for positions `first`..n_tokens-1: (n_tokens - first) rows of
 * n_vocab floats into `logits`, which has room for `logits_cap` floats.
 */
RUVLLM_API ruvllm_status ruvllm_forward(ruvllm_model *model, const int32_t *tokens, size_t n_tokens, size_t first,
                                        float *logits, size_t logits_cap, struct ruvllm_error *err);

/*
 * Embedding of `input`: final hidden states averaged over its tokens, scaled to length 1; n_embd floats into `out`.
 */
RUVLLM_API ruvllm_status ruvllm_embed(ruvllm_model *model, const struct ruvllm_input *input, float *out, size_t out_cap,
                                      struct ruvllm_error *err);

/* ---- serving many -------------------------------------------------------------------------- */

/*
 * An engine runs one model for many requests at once: every step computes the next token of each running sequence and
 * some of the prompts that wait. It has a thread of its own; requests are submitted and their events read from any
 * thread. Several engines may run in one process.
 *
 *     ruvllm_engine_open(&engine, "model.gguf", NULL, &err);
 *     ruvllm_engine_submit(engine, &request, &id, &err);
 *     do {
 *         ruvllm_engine_next_event(engine, id, -1, &event, &err);
 *         fwrite(event.text, 1, event.text_len, stdout);
 *     } while (event.type != RUVLLM_EVENT_DONE);
 *     ruvllm_response_free(event.response);
 *
 * A model that runs through libllama (`backend` of its info) is served without tiers, shared prefixes and sessions:
 * `kv` and `share_prefixes` have no effect, the memory of `kv_bytes` is taken at once, and max_sequences is at most
 * 252.
 */
typedef struct ruvllm_engine ruvllm_engine;

/*
 * In which precision keys and values are kept, by age: the newest tokens in 16 bits, the next in 8, the rest in `cold`.
 * Whole blocks of 32 tokens move, when a sequence's length reaches a multiple of 128.
 */
struct ruvllm_kv_policy {
    size_t struct_size;
    int32_t hot_tokens;    // 256
    int32_t warm_tokens;   // 256; 0: there is no tier between
    ruvllm_precision cold; // Q4; or Q8; or FP16: everything stays in 16 bits
    bool keep_first;       // true: the first 32 tokens, which attention looks at from everywhere, stay in 16 bits
};

RUVLLM_API struct ruvllm_kv_policy ruvllm_kv_policy_default(void);

struct ruvllm_engine_params {
    size_t struct_size;
    const struct ruvllm_model_params *model; // NULL: defaults; max_batch is the rows of one step
    uint64_t kv_bytes;                       // for keys and values of all sequences; 0: eight full contexts in 16 bits
    const struct ruvllm_kv_policy *kv;       // NULL: default
    int32_t max_sequences;                   // computed at once; 64
    int32_t max_queue;                       // waiting beyond those; more is RUVLLM_BUSY; 256
    int32_t prefill_tokens;                  // prompt tokens of a step while others wait for their next token; 128
    bool share_prefixes;                     // true: requests of a tenant that begin alike are computed once
    const char *spill_dir;                   // folder for what has to give way to others, in a file without a name;
                                             // NULL: there is none, and it is computed again, as always where
                                             // another library keeps the keys and values
    uint64_t spill_bytes;                    // that file's largest size; 0: there is none
    const char *adapter_dir;  // folder of this engine alone for adapters that are not in memory; what an engine before
                              // has left there is removed. NULL: all stay in memory, as many as fit
    int32_t max_adapters;     // with changes of layers, in memory at once; 64; at least 4
    uint64_t adapter_bytes;   // of memory for adapters; 0: a quarter of the machine's
    int32_t keep_generations; // of an adapter; older ones are forgotten when no request uses them; 16
    bool speculate;           // guess tokens ahead from what an answer's text has had before, as far as it pays; false
    const char *draft_model;  // path of a small model with the same vocabulary that guesses instead; NULL: none does
};

RUVLLM_API struct ruvllm_engine_params ruvllm_engine_params_default(void);

RUVLLM_API ruvllm_status ruvllm_engine_open(ruvllm_engine **out, const char *path,
                                            const struct ruvllm_engine_params *params, struct ruvllm_error *err);
/* Ends all requests, then the thread. No other call may be under way or follow. */
RUVLLM_API void ruvllm_engine_close(ruvllm_engine *engine);
/* The engine's model, for everything that does not compute: info, tokenize, templates. Lives as long as the engine. */
RUVLLM_API const ruvllm_model *ruvllm_engine_model(const ruvllm_engine *engine);

/* One of several adapters of a request, whose changes add up. */
struct ruvllm_adapter_use {
    const char *id;
    int64_t generation; // 0: the newest
    float weight;       // of its changes; 1: as they are
};

struct ruvllm_request {
    size_t struct_size;
    const struct ruvllm_input *input;
    const struct ruvllm_generate_params *params; // NULL: defaults
    const char *tenant;                        // whose it is; NULL: nobody's in particular. Never shares with another's
    int32_t priority;                          // higher is sooner; 0
    const struct ruvllm_kv_policy *kv;         // NULL: the engine's
    bool no_shared_prefix;                     // compute all of it, leave nothing behind
    void (*on_event)(void *user, uint64_t id); // called on the engine's thread when an event waits; must return at once
    void *user;
    const char *adapter;                       // id of an adapter (ruvllm_adapter.h); NULL: none
    int64_t adapter_generation;                // 0: the newest there is now
    const struct ruvllm_adapter_use *adapters; // in place of `adapter`: up to 4 at once
    size_t n_adapters;
    float share; // of the engine among tenants that wait: tokens count as their number divided by it; 0 is 1; to 1000
};

/*
 * Hands in a request; *id names it from now on. Everything is copied. RUVLLM_BUSY when the queue is full,
 * RUVLLM_TOO_LARGE when prompt and answer could never fit, RUVLLM_NOT_FOUND when there is no such adapter. One whose
 * adapter is not in memory waits until it is, also when requests that run hold every place there.
 */
RUVLLM_API ruvllm_status ruvllm_engine_submit(ruvllm_engine *engine, const struct ruvllm_request *request, uint64_t *id,
                                              struct ruvllm_error *err);

typedef enum ruvllm_event_type {
    RUVLLM_EVENT_NONE, // nothing happened in the time given
    RUVLLM_EVENT_TEXT, // more of the answer
    RUVLLM_EVENT_DONE  // the rest of it, and the whole in `response`; the request is gone
} ruvllm_event_type;

struct ruvllm_event {
    size_t struct_size;
    ruvllm_event_type type;
    const char *text; // what became certain since the event before, NUL-terminated; may be empty
    size_t text_len;
    const int32_t *tokens; // likewise
    size_t n_tokens;
    const struct ruvllm_token_logprob *logprobs; // n_tokens rows of logprobs_per_token; NULL unless asked for
    size_t logprobs_per_token;
    struct ruvllm_response *response; // DONE: the caller's, freed with ruvllm_response_free
};

/*
 * Waits up to timeout_ms (-1: for ever) for the next event of a request. What `event` points to lives until the next
 * call for the same request. A request that failed gives its failure as the result of this call and is gone. One caller
 * at a time for each request. A reader that is slow gets more text at once; it holds up nobody.
 */
RUVLLM_API ruvllm_status ruvllm_engine_next_event(ruvllm_engine *engine, uint64_t id, int32_t timeout_ms,
                                                  struct ruvllm_event *event, struct ruvllm_error *err);
/* Ends a request and forgets it; its memory is free before the next step. Waiting for it ends with RUVLLM_CANCELLED. */
RUVLLM_API ruvllm_status ruvllm_engine_cancel(ruvllm_engine *engine, uint64_t id, struct ruvllm_error *err);

/*
 * ruvllm_embed beside the requests that run: `request` names input and tenant, and no adapter. The caller waits; others
 * are held up by one piece of prefill_tokens at a time. *n_tokens is the length of the input. RUVLLM_BUSY when keys and
 * values find no room.
 */
RUVLLM_API ruvllm_status ruvllm_engine_embed(ruvllm_engine *engine, const struct ruvllm_request *request, float *out,
                                             size_t out_cap, int32_t *n_tokens, struct ruvllm_error *err);

/*
 * Writes what is computed of a conversation to a file: keys and values of the longest beginning of request->input that
 * the engine holds for request->tenant under request->kv and the request's adapter, with its tokens. To save what was
 * answered too, give the conversation with the answer in it. *n_tokens is how much that is; nothing at all is
 * RUVLLM_NOT_FOUND. An older file is replaced in one go or not at all. The engine computes on meanwhile.
 */
RUVLLM_API ruvllm_status ruvllm_engine_save_session(ruvllm_engine *engine, const struct ruvllm_request *request,
                                                    const char *path, int32_t *n_tokens, struct ruvllm_error *err);
/*
 * Brings a saved session back: the next request of that tenant that begins alike does not compute it again. `request`
 * names tenant, kv and adapter; its input is not looked at. A file of another model, adapter, template or tenant is
 * refused with RUVLLM_INVALID, a damaged one with RUVLLM_FORMAT.
 */
RUVLLM_API ruvllm_status ruvllm_engine_load_session(ruvllm_engine *engine, const struct ruvllm_request *request,
                                                    const char *path, int32_t *n_tokens, struct ruvllm_error *err);

struct ruvllm_engine_stats {
    size_t struct_size;
    int32_t running;
    int32_t waiting;
    uint64_t kv_budget;    // bytes
    uint64_t kv_used;      // bytes of blocks in use, shared prefixes among them; a byte a token without keys and values
    int32_t kv_blocks_f16; // blocks of 32 tokens by precision
    int32_t kv_blocks_q8;
    int32_t kv_blocks_q4;
    int32_t kv_blocks_idle; // kept for requests to come
    uint64_t steps;
    uint64_t prompt_tokens;
    uint64_t cached_tokens; // prompt tokens that were not computed because a prefix was shared
    uint64_t generated_tokens;
    uint64_t blocks_migrated;
    uint64_t blocks_squeezed; // quantised before their time, for room
    uint64_t blocks_evicted;  // shared prefixes dropped for room
    uint64_t preempted;
    int64_t busy_us;           // spent computing
    uint64_t blocks_spilled;   // written to the spill file when their sequence was preempted
    uint64_t blocks_restored;  // and read back when it went on
    uint64_t spill_failures;   // the spill file could not be written or read; what it should keep was computed again
    int32_t adapters;          // ids that requests find
    int32_t adapters_waiting;  // requests that wait for theirs to be in memory; they are counted in `waiting` too
    int32_t adapters_layered;  // contents in memory that change layers
    uint64_t adapter_bytes;    // of memory
    uint64_t adapters_loaded;  // read from the folder
    uint64_t adapters_evicted; // gave way to others
    uint64_t adapter_failures; // attempts to write one to the folder that failed; it is tried again
    uint64_t drafted_tokens;   // guessed ahead
    uint64_t accepted_tokens;  // of them, what the model says
};

RUVLLM_API ruvllm_status ruvllm_engine_stats_get(ruvllm_engine *engine, struct ruvllm_engine_stats *out,
                                                 struct ruvllm_error *err);

#ifdef __cplusplus
}
#endif
#endif
