/*
 * Answers of a model on their way to a client: every prompt and choice is a request of the engine, and their events are
 * merged into one answer, streamed or whole. The three shapes of an answer (chat, completion, response) differ in a
 * table of functions, struct rv_generation_style.
 *
 * A worker starts it; the I/O thread reads events as they come and writes them as long as the client takes them (what
 * it does not take stays with the engine); a worker makes the whole answer, where it was not streamed, and stores the
 * session.
 */
#ifndef RV_SERVER_GENERATION_H
#define RV_SERVER_GENERATION_H

#include "server/call.h"
#include "server/chat_parts.h"

struct rv_generation_choice {
    uint64_t id; // of the engine's request
    int32_t index;
    int32_t i_input;
    bool is_started;
    bool is_done;
    bool has_begun;                   // its first chunk was written
    struct ruvllm_response *response; // when it is done
    int64_t last_us;                  // when its last tokens came; 0: none yet
    size_t text_offset;
    struct rv_chat_parts *parts; // NULL: its text is one piece
};

struct rv_generation {
    const struct rv_generation_style *style;
    struct rv_generation_choice *choices;
    size_t n_choices;
    size_t n_done;
    bool is_streaming; // the head of a stream was written
    bool is_blocked;   // the client takes no more for now
    int64_t submitted_us;
    int64_t first_us; // first token; 0: none yet
    int64_t done_us;
    struct rv_api_head head;
    char id[RV_API_ID_SIZE];
    char item_id[RV_API_ID_SIZE];
    char fingerprint[24];
    struct rv_api_usage usage;       // complete when all are done
    struct rv_api_error failure;     // of finishing; http_status 0: none
    struct rv_api_response response; // the style for responses
    struct rv_buf text;              // likewise: what was streamed
};

/* Each adds to `out`. */
struct rv_generation_style {
    const char *id_prefix;
    /* The first chunk of a choice; may be NULL. */
    void (*begin)(struct rv_call *call, struct rv_generation_choice *choice, struct rv_buf *out);
    void (*piece)(struct rv_call *call, const struct rv_api_choice *piece, struct rv_buf *out);
    /* A piece of an answer with parts; NULL: there are none in this style. */
    void (*parts)(struct rv_call *call, struct rv_chat_parts *parts, const struct rv_api_choice *piece,
                  struct rv_buf *out);
    void (*end)(struct rv_call *call, struct rv_buf *out);
    void (*failed)(struct rv_call *call, const struct rv_api_error *err, struct rv_buf *out);
    /* The whole answer. */
    void (*whole)(struct rv_call *call, const struct rv_api_choice *choices, size_t n_choices, struct rv_buf *out);
};

/* On a worker: submits everything; the result is GENERATE, or an error as the reply with nothing left behind. */
void rv_generation_start(struct rv_call *call, const struct rv_generation_style *style);
/* On the I/O thread: reads and writes what there is. */
void rv_generation_pump(struct rv_call *call);
/* On the I/O thread, after a worker finished it: the end of the answer. */
void rv_generation_end(struct rv_call *call);
/* On a worker: stores the session, makes the whole answer. */
void rv_generation_finish(struct rv_call *call);
/* Ends what still runs. */
void rv_generation_cancel(struct rv_call *call);
void rv_generation_free(struct rv_call *call);

/* Rows of log-probabilities with their texts; released with rv_generation_logprobs_release. False: no memory. */
bool rv_generation_logprobs_init(struct rv_api_logprobs *out, const ruvllm_model *model,
                                 const struct ruvllm_token_logprob *rows, size_t n_rows, size_t per_row);
void rv_generation_logprobs_release(struct rv_api_logprobs *logprobs);

#endif
