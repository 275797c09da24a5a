/*
 * One tenant of a learner, for the files of the learner: its state, its place in the log, and what answers. Its lock is
 * held from reading the log to leaving it, across the wait for the disk. Answers do not wait for that: what answers has
 * a lock of its own, held for no longer than it takes to count references, and taken last.
 *
 * A tenant is taken, its log read to the end, an event added, applied and published; then it is left. Who is not used
 * goes from memory and comes back from its log, or from a checkpoint and the rest of it.
 */
#ifndef RV_LEARN_LEARNER_TENANT_H
#define RV_LEARN_LEARNER_TENANT_H

#include "learn/background.h"
#include "learn/learner.h"

#include <pthread.h>

/* What all tenants of a model have in common. */
struct rv_learner {
    struct rv_learner_config config;
    char *model;
    struct rv_whitening whitening;
    struct rv_trace_ring *traces;
    struct rv_reasoning_bank *bank;
    struct rv_tenant_table *tenants;
    struct rv_anchors anchors;
    _Atomic(struct rv_background *) background; // NULL: none yet
    struct rv_learner_follower *follower;       // NULL: none
    _Atomic uint64_t n_missed; // times that anything may have happened to anybody, unheard; see heed_news
    _Atomic double kl_budget;  // nats a token on anchors; 0: no tick has looked at them since the start
};

/* An event of which nobody knows whether it is in the log: writing it failed in a way that leaves that open. */
struct rv_learner_doubt {
    bool is_on;
    int64_t until_us; // who comes later means something new
    int64_t seq;      // where it was found later; 0: not yet
    uint8_t uid[RV_STORE_UID_BYTES];
    enum rv_store_event_kind kind;
    uint64_t about; // the answer, or the generation
    double score;
};

struct rv_learner_tenant {
    struct rv_tenant_link link; // first; the rest is guarded by the tenant's own lock
    const char *name;           // the link's
    pthread_mutex_t lock;       // held while an event is written
    bool is_read;               // its log was, to the end
    bool is_behind;             // the log may have more since
    bool is_lost;               // how the state and the log fit together: it is made anew from the log
    bool is_unpublished;        // the state answers only after another try
    bool is_outrun;             // by others alone: what answers has whatever was acknowledged here all the same
    bool is_paused;             // known once its log was read
    int64_t seq;                // of the last event that is in it
    int64_t n_spooled;          // events in it beyond that, which have no number yet
    int64_t kept_seq;           // of the last checkpoint
    int64_t void_seq;           // of the last wish to go back that came to nothing: others had gone on meanwhile
    int64_t n_forgotten;        // as the store had it before the log was read; see struct rv_store_look
    uint64_t n_missed;          // as the learner's then, or when the store was asked last
    struct rv_learner_doubt doubt;
    struct rv_tenant_learner *state;

    struct rv_deep_shelf deep; // what is below the head
    struct rv_study *study;    // what the background loop goes over; NULL: nothing yet

    /*
     * What others did, as the follower heard. Who has the lock takes these back before he asks the store, which has all
     * that was heard of, so what comes meanwhile is asked for again.
     */
    _Atomic int64_t known_seq; // of the last event that was in it when it was left
    _Atomic int64_t heard_seq; // the log has an event of this number
    _Atomic bool is_changed;   // something was forgotten, or learning paused or resumed

    pthread_mutex_t voice_lock;
    struct rv_learner_voice voice; // what answers: changed with both locks held, so either is enough to read it
    bool is_whole; // guarded by voice_lock: what answers has all that was acknowledged here when it was left last
};

extern const struct rv_tenant_table_ops rv_learner_tenant_ops;

/* The tenant of a name (NULL: "default"), made if need be, locked; to be left again. Its log is read by the next two.
 */
RV_CHECKED ruvllm_status rv_learner_tenant_take(struct rv_learner *learner, const char *name,
                                                struct rv_learner_tenant **out, struct ruvllm_error *err);
void rv_learner_tenant_leave(struct rv_learner *learner, struct rv_learner_tenant *tenant);
/*
 * Who is in memory, n of them, each and all to be freed; a name may be NULL, and all NULL with n 0, for lack of memory.
 * Who comes meanwhile is left out.
 */
char **rv_learner_tenant_names(struct rv_learner *learner, size_t *n);
/* Brings it up to the end of its log. */
RV_CHECKED ruvllm_status rv_learner_tenant_read(struct rv_learner *learner, struct rv_learner_tenant *tenant,
                                                struct ruvllm_error *err);
/* The same, for answers: what was read before goes on answering while the log cannot be read. */
RV_CHECKED ruvllm_status rv_learner_tenant_read_or_go_on(struct rv_learner *learner, struct rv_learner_tenant *tenant,
                                                         struct ruvllm_error *err);
/* What answers, of a tenant that is locked; references of the caller's. */
struct rv_learner_voice rv_learner_tenant_voice(const struct rv_learner_tenant *tenant);
/*
 * As rv_learner_tenant_take, for answers, unless what answers has all that was acknowledged here: then *voice is that,
 * as above, and *out NULL. So answers wait for the store only where the tenant was not read yet.
 */
RV_CHECKED ruvllm_status rv_learner_tenant_take_or_hear(struct rv_learner *learner, const char *name,
                                                        struct rv_learner_tenant **out, struct rv_learner_voice *voice,
                                                        struct ruvllm_error *err);
/* Both: taken and read, or neither. */
RV_CHECKED ruvllm_status rv_learner_tenant_begin(struct rv_learner *learner, const char *name,
                                                 struct rv_learner_tenant **out, struct ruvllm_error *err);
/* Finds out anew whether its learning is paused, as the store has it; there must be one. */
RV_CHECKED ruvllm_status rv_learner_tenant_read_pause(struct rv_learner *learner, struct rv_learner_tenant *tenant,
                                                      struct ruvllm_error *err);

/*
 * Writes an event, with what comes of it (advantage, kl and gain of the result), and waits for the disk. *is_next tells
 * whether it follows on what the state has, and so is to be applied. Where it does not (another process wrote in
 * between, or another model of the tenant's), the log was read instead. `about` is what the same wish is known by when
 * it comes again after a failure that leaves open whether the event was written.
 */
RV_CHECKED ruvllm_status rv_learner_tenant_append(struct rv_learner *learner, struct rv_learner_tenant *tenant,
                                                  struct rv_store_event *event, uint64_t about, bool *is_next,
                                                  struct rv_learner_result *result, struct ruvllm_error *err);
/* After its log was read: whether this very wish was in doubt, and turned out to be done. */
bool rv_learner_tenant_was_done(struct rv_learner_tenant *tenant, enum rv_store_event_kind kind, uint64_t about,
                                double score, struct rv_learner_result *result);
/* After an event that is in the log: it counts, and what cannot be applied or published now is before the next answer.
 */
void rv_learner_tenant_settle(struct rv_learner *learner, struct rv_learner_tenant *tenant, ruvllm_status applied,
                              const struct ruvllm_error *why);
/* Whether events of its, or others that would come before its next one, wait for a database that is away. */
bool rv_learner_tenant_waits(const struct rv_learner *learner, const struct rv_learner_tenant *tenant);
/* True for what teaches: votes, corrections, pairs. */
bool rv_learner_tenant_is_taught_by(enum rv_store_event_kind kind);
/* Whose deep runs. */
struct rv_deep_shelf_place rv_learner_tenant_deep_place(const struct rv_learner *learner,
                                                        const struct rv_learner_tenant *tenant);

#endif
