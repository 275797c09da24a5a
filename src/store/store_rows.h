/*
 * The rows of a store and how long their parts may be. What a row means (who may see it, what a valid name is, when a
 * key is good) is decided in the store_*.c, how it gets to the disk in the sql_*.c.
 */
#ifndef RV_STORE_STORE_ROWS_H
#define RV_STORE_STORE_ROWS_H

#include "ruvllm_store.h"

#include "base/error.h"
#include "base/secret.h"
#include "base/sha256.h"
#include "base/str.h"

enum {
    RV_STORE_TENANT_MAX = 64, // bytes without the NUL, as the rest
    RV_STORE_KEY_ID_LEN = 8,
    RV_STORE_KEY_NAME_MAX = 128,
    RV_STORE_REQUEST_ID_MAX = 64,
    RV_STORE_MODEL_MAX = 128,
    RV_STORE_ENDPOINT_MAX = 64,
    RV_STORE_FINISH_MAX = 32,
    RV_STORE_SESSION_ID_MAX = 64,
    RV_STORE_TITLE_MAX = 256,
    RV_STORE_SNAPSHOT_MAX = 128,
    RV_STORE_MESSAGES_MAX = 16 * 1024 * 1024,
    RV_STORE_LIMIT_MAX = 1000, // rows of one query
    RV_STORE_UID_BYTES = 16,
    RV_STORE_EVENT_BYTES_MAX = 4 * 1024 * 1024, // of all texts and bytes of an event
    RV_STORE_METRICS_MAX = 4096,
    RV_STORE_EXTRA_MAX = 4096,
    RV_STORE_POLICY_MAX = 128,
    RV_STORE_POLICY_VALUE_MAX = 65536,
    RV_STORE_EMBEDDING_MAX = 65536,
    RV_STORE_PATTERN_TEXT_MAX = 65536,
    RV_STORE_CHECKPOINT_MAX = 16 * 1024 * 1024,
    RV_STORE_BLOB_PART = 4 * 1024 * 1024, // bytes of a blob in one row
    RV_STORE_BLOB_MAX = 1024 * 1024 * 1024
};

struct rv_store_db; // a connection

struct rv_store_key {
    int64_t row; // ascending in the order of creation
    uint8_t hash[RV_SECRET_BYTES];
    struct ruvllm_key_info info;
};

/* That a key was used. */
struct rv_store_touch {
    char id[RV_STORE_KEY_ID_LEN + 1];
    int64_t time; // Unix seconds
};

/* A witness entry with room for its strings. The numbers are in `numbers`, whose own strings are not looked at. */
struct rv_store_witness {
    char tenant[RV_STORE_TENANT_MAX + 1];
    char key_id[RV_STORE_KEY_ID_LEN + 1];
    char request_id[RV_STORE_REQUEST_ID_MAX + 1];
    char model[RV_STORE_MODEL_MAX + 1];
    char endpoint[RV_STORE_ENDPOINT_MAX + 1];
    char finish_reason[RV_STORE_FINISH_MAX + 1];
    struct ruvllm_witness numbers;
};

/* A session as lists have it: without its messages. The numbers are in `numbers`. */
struct rv_store_session {
    char id[RV_STORE_SESSION_ID_MAX + 1];
    char model[RV_STORE_MODEL_MAX + 1];
    char title[RV_STORE_TITLE_MAX + 1];
    char snapshot[RV_STORE_SNAPSHOT_MAX + 1];
    struct ruvllm_session numbers;
};

/* ---- learning ------------------------------------------------------------------------------ */

enum rv_store_event_kind {
    RV_STORE_EVENT_VOTE = 1,
    RV_STORE_EVENT_CORRECTION,
    RV_STORE_EVENT_PAIR,
    RV_STORE_EVENT_TICK,
    RV_STORE_EVENT_GATE,
    RV_STORE_EVENT_ROLLBACK,
    RV_STORE_EVENT_DEEP
};

/* What became of an event that was appended. */
enum rv_store_event_fate {
    RV_STORE_EVENT_ADDED = 1,
    RV_STORE_EVENT_KNOWN,  // the log had one with this uid: nothing was added, seq is that one's
    RV_STORE_EVENT_SPOOLED // on this machine's disk; it gets its number when the database is back
};

/* Something that was learned from, with all that is needed to learn it again. Texts and bytes are borrowed. */
struct rv_store_event {
    const char *tenant;
    const char *model;               // up to 128 bytes; NULL counts as ""
    const char *response_id;         // up to 64
    uint8_t uid[RV_STORE_UID_BYTES]; // one a tenant; all 0: append makes one
    int64_t seq;                     // 1, 2, 3, ... a tenant, in the order they were committed
    int64_t time_us;                 // Unix time; append takes 0 as now
    int64_t generation;              // that answered, or that came of it
    enum rv_store_event_kind kind;
    enum rv_store_event_fate fate;
    double score;
    bool is_forgotten;        // its texts and bytes were removed
    struct rv_str prompt;     // UTF-8 without NUL, as the next three
    struct rv_str answer;     // what was answered, or rejected
    struct rv_str correction; // what should have been, or is preferred
    struct rv_str reason;
    struct rv_str result; // bytes: of ticks, gates and rebuilt traces
    struct rv_str memory; // bytes: keys that it put into memory
    struct rv_str delta;  // bytes: its own update, dA and dB in bf16
};

enum rv_store_generation_kind {
    RV_STORE_GENERATION_INSTANT = 1,
    RV_STORE_GENERATION_BACKGROUND,
    RV_STORE_GENERATION_DEEP,
    RV_STORE_GENERATION_IMPORT
};

/* One state of what a tenant's model has learned. Its content is a blob known by its hash. */
struct rv_store_generation {
    char tenant[RV_STORE_TENANT_MAX + 1];
    char model[RV_STORE_MODEL_MAX + 1];
    int64_t generation;  // 1, 2, 3, ... a tenant and model
    int64_t parent;      // 0: the model as it came
    int64_t applied_seq; // events up to this one are in it
    int64_t created_us;
    uint64_t n_bytes;
    enum rv_store_generation_kind kind;
    bool is_active; // at most one of a tenant and model
    char hash[RV_SHA256_HEX_LEN + 1];
    char metrics[RV_STORE_METRICS_MAX + 1]; // JSON
};

/* Where the learning of a tenant's model stands. */
struct rv_store_learner {
    char tenant[RV_STORE_TENANT_MAX + 1];
    char model[RV_STORE_MODEL_MAX + 1];
    int64_t applied_seq;
    int64_t n_votes;
    double mean; // of scores, running, as the next
    double deviation;
    double kl_spent; // nats a token, of the budget
    bool is_paused;
    int64_t updated_us;
    size_t extra_len;
    uint8_t extra[RV_STORE_EXTRA_MAX]; // whatever else the learner wants back
};

/* What was asked and how it went, found again by likeness. Texts and bytes are borrowed. */
struct rv_store_pattern {
    int64_t row; // ascending in the order of creation
    const char *tenant;
    const char *model;
    int64_t seq; // of the event it came from; 0: none
    int64_t time_us;
    double outcome;
    int32_t verdict;
    struct rv_str embedding; // bytes
    struct rv_str text;      // UTF-8 without NUL
};

/* A setting of a tenant that was learned or given. */
struct rv_store_policy {
    char tenant[RV_STORE_TENANT_MAX + 1];
    char name[RV_STORE_POLICY_MAX + 1];
    int64_t updated_us;
    struct rv_str value; // UTF-8 without NUL; borrowed
};

/* A tenant's log, as of one moment. */
struct rv_store_look {
    int64_t last_seq;    // 0: there is none
    int64_t n_forgotten; // times that events of it were emptied
    bool is_paused;      // learning, of the model that was asked for
};

enum rv_store_news_kind {
    RV_STORE_NEWS_EVENTS, // the log of `tenant` has events of `model` up to `seq`
    RV_STORE_NEWS_CHANGE, // of `tenant`: something was forgotten, or learning paused or resumed
    RV_STORE_NEWS_ANY     // something may have happened, anywhere
};

struct rv_store_news {
    enum rv_store_news_kind kind;
    int64_t seq;
    char tenant[RV_STORE_TENANT_MAX + 1];
    char model[RV_STORE_MODEL_MAX + 1];
};

/* Is told of one. */
typedef void (*rv_store_news_fn)(void *user, const struct rv_store_news *news);

#endif
