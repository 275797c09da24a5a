/*
 * One request on its way through the server: a slot with all it needs, from its headers until its answer was sent and
 * its last helper let go of it.
 *
 * A call is owned by one thread at a time, and `owner` says by which kind:
 *
 *     I/O thread --rv_call_hand_over--> worker --gives back--> I/O thread --...--> free
 *                                         `--waits for a model--> loader --> worker
 *
 * Everything but the fields marked otherwise belongs to the owner. Three things happen at any time and touch only
 * atomics or the I/O thread's own fields:
 *   - the client goes away: `exchange` becomes NULL and `is_gone` true; whoever owns the call finds out and the slot is
 *     freed when it comes back;
 *   - an engine posts the slot (on_event), also once more after its last event or a cancel: slots live as long as the
 *     server, `post` is never rewritten, and a post only means "look": a slot that is free, taken again or with a
 * worker finds nothing to do;
 *   - the server drains: nothing changes for calls that are under way.
 */
#ifndef RV_SERVER_CALL_H
#define RV_SERVER_CALL_H

#include "server/adapter_choice.h"
#include "server/api/api_reply.h"
#include "server/route_table.h"
#include "server/server.h"
#include "server/trace_context.h"

#include <stdatomic.h>

enum rv_call_owner { RV_CALL_IO, RV_CALL_WORKER };

/* How far it is, as the I/O thread sees it. */
enum rv_call_stage {
    RV_CALL_FREE,
    RV_CALL_OPEN,       // its body is being read
    RV_CALL_WORKING,    // with a worker for the first time
    RV_CALL_GENERATING, // the engine has it
    RV_CALL_FINISHING,  // with a worker for the end of its answer
    RV_CALL_ANSWERED    // nothing is left to do but sending
};

/* What a worker made of it. */
enum rv_call_result {
    RV_CALL_REPLY,   // reply, reply_status and reply_type are the answer
    RV_CALL_GENERATE // `generation` is under way
};

struct rv_generation;

struct rv_call {
    struct rv_server *server;
    struct rv_http_post post;
    struct rv_work work;
    struct rv_model_set_waiter waiter;
    struct rv_call *next_free;
    struct rv_call *next_slot;
    _Atomic int owner;    // released by who gives, acquired by who takes
    _Atomic bool is_gone; // a hint to stop early; relaxed

    /* The I/O thread's, whoever owns the rest. */
    struct rv_http_exchange *exchange; // NULL: it ended
    enum rv_call_stage stage;
    bool is_inside; // one of its functions runs: what ends it meanwhile is settled afterwards
    enum rv_http_end end;
    int64_t ended_us;
    int status; // that was sent; 0: none

    /* Settled before a worker sees the call. */
    const struct rv_route *route; // NULL: none
    enum rv_http_method method;
    struct rv_auth_key key;
    struct rv_trace_context trace;
    int64_t arrived_us;
    char id[RV_API_ID_SIZE];
    char path[129]; // the beginning of it, for the log
    char peer[64];
    char arg[RV_ROUTE_ARG];
    char query[257];
    char *body;
    size_t body_len;

    /* The owner's. */
    enum rv_call_result result;
    struct rv_api_request *request;    // parsed body; NULL: not yet, or there is none
    int32_t i_model;                   // -1: not known
    struct rv_adapter_choice adapters; // of the request; n 0: none
    ruvllm_engine *engine;             // leased; NULL: not yet
    struct rv_generation *generation;
    struct rv_buf reply;
    int reply_status;
    const char *reply_type;
    int32_t retry_after; // seconds; 0: no such header
    bool has_feedback;   // something was learned, in this time
    int64_t feedback_compute_us;
    int64_t feedback_commit_us;
    char cause[200]; // of a failure the client is not told; for the log
};

/* ---- the I/O thread ----------------------------------------------------------------------------- */

/* A slot for an exchange; NULL: all are taken. */
struct rv_call *rv_call_new(struct rv_server *server, struct rv_http_exchange *exchange);
/* Gives it to a worker, which will run `work` of its route. */
void rv_call_hand_over(struct rv_call *call);
/* Sends a whole answer; nothing when the client has gone. */
void rv_call_send(struct rv_call *call, int status, const char *type, const void *body, size_t len);
void rv_call_send_error(struct rv_call *call, const struct rv_api_error *err);
/* The exchange ended. */
void rv_call_on_end(struct rv_call *call, enum rv_http_end why);
/* Hands it to a worker to finish its generation, which becomes a reply or the end of a stream. */
void rv_call_finish(struct rv_call *call);
/*
 * After I/O and workers have ended: lets go of what every slot holds; then, when no engine is left that could post one,
 * of the slots too.
 */
void rv_call_free_all(struct rv_server *server, bool with_slots);

/* ---- a worker, inside `work` -------------------------------------------------------------------- */

/*
 * `work` returns true when the call is ready to go back, with `result` set; false when it waits for a model: then it is
 * somebody else's already, and `work` will be run again from the start.
 */
enum rv_call_ready {
    RV_CALL_READY,
    RV_CALL_FAILED, // the reply is an error: return true
    RV_CALL_WAITS   // return false and touch nothing
};

/* Parses the body, finds the model and leases its engine. Does what was not done yet. */
enum rv_call_ready rv_call_prepare(struct rv_call *call, enum rv_api_kind kind);
/* Leases the engine of a model by name. */
enum rv_call_ready rv_call_take_model(struct rv_call *call, const char *name);
/* Makes an error the reply. */
void rv_call_fail(struct rv_call *call, const struct rv_api_error *err);
void rv_call_fail_from(struct rv_call *call, const struct ruvllm_error *cause);
/* Makes `reply` (JSON) the answer with status 200; a buffer that failed becomes an error. */
void rv_call_reply_json(struct rv_call *call);
/* The tenant as the engine and the store know it. */
const char *rv_call_tenant(const struct rv_call *call);

#endif
