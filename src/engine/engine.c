/* Opening, closing, and the doors; what happens behind them is engine_loop.c. */
#include "engine/engine.h"

#include "base/alloc.h"
#include "engine/engine_learn.h"
#include "engine/engine_loop.h"
#include "engine/guess.h"
#include "engine/kv_policy.h"

#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    DEFAULT_CONTEXTS = 8,
    TENANT_FLOOR = 16, // blocks of shared prefixes that a tenant keeps while others have more: 512 tokens
    AGE_MS = 1000,     // of waiting count as much as one more of priority
    MAX_SHARE = 1000,
    MAX_SEQUENCES = 4096,
    MAX_QUEUE = 1 << 16,
    MAX_COUNTED = 1 << 22,      // blocks: 128 million tokens
    SPILL_STEP_BYTES = 64 << 20 // written, and read, between two steps: about a tenth of a second
};

#ifdef RV_POISON_FREED_BLOCKS
static const bool poisons = true;
#else
static const bool poisons = false;
#endif

/* ---- jobs, under the lock ------------------------------------------------------------------- */

static struct rv_job *find(const struct ruvllm_engine *e, uint64_t id)
{
    struct rv_job *job = e->table[id % e->n_slots];

    return job && job->id == id ? job : NULL;
}

/* Ids count up, and tell their slot. */
static void enter(struct ruvllm_engine *e, struct rv_job *job)
{
    size_t slot = (size_t)(e->n_submitted % e->n_slots);

    while (e->table[slot])
        slot = (slot + 1) % e->n_slots;
    job->id = ++e->n_submitted * e->n_slots + slot;
    e->table[slot] = job;
    e->n_jobs++;
    job->n_refs = 2; // the table's and the engine thread's
}

static void put_in_inbox(struct ruvllm_engine *e, struct rv_job *job)
{
    job->next = e->inbox;
    e->inbox = job;
    pthread_cond_signal(&e->work);
}

static void leave(struct ruvllm_engine *e, struct rv_job *job)
{
    e->table[job->id % e->n_slots] = NULL;
    e->n_jobs--;
}

/* ---- doors ---------------------------------------------------------------------------------- */

struct rv_prefix_scope rv_engine_scope(const struct ruvllm_engine *engine, const char *tenant,
                                       const struct rv_tier_policy *policy, uint64_t layers)
{
    int32_t tiers[2 * RV_TIER_MAX + 2] = {policy->n_tiers, policy->keeps_first};
    size_t tenant_len = tenant ? strlen(tenant) : 0;

    for (int32_t i = 0; i < policy->n_tiers; i++) {
        tiers[2 * i + 2] = (int32_t)policy->tiers[i].format;
        tiers[2 * i + 3] = policy->tiers[i].max_age;
    }
    return (struct rv_prefix_scope){.adapter_layers = layers,
                                    .tenant = rv_keyed_hash64(engine->secret, tenant_len ? tenant : "", tenant_len),
                                    .tiers = rv_keyed_hash64(engine->secret, tiers, sizeof(tiers))};
}

/* A parked job's adapters are in memory, or never will be: the engine thread takes it from here. */
static void unpark(struct ruvllm_engine *e, struct rv_job *job)
{
    job->request.mix = job->ticket.mix;
    rv_engine_learn_join(job);
    pthread_mutex_lock(&e->lock);
    job->is_parked = false;
    e->has_cancelled = e->has_cancelled || job->is_cancelled;
    put_in_inbox(e, job);
    pthread_mutex_unlock(&e->lock);
}

static void on_adapters(void *user, struct rv_adapter_ticket *ticket)
{
    unpark(user, ticket->owner);
}

/* Gives a job its generations, which it keeps to its end. */
static ruvllm_status pin_adapters(struct ruvllm_engine *e, struct rv_job *job, const struct ruvllm_request *request,
                                  struct ruvllm_error *err)
{
    ruvllm_status rc = rv_engine_adapters_pin(&e->adapters, request, &job->ticket, err);

    if (rc)
        return rc;
    job->ticket.owner = job;
    job->request.scope.adapter_layers = job->ticket.layers;
    rv_reply_response(job->reply)->adapter_generation = job->ticket.generation;
    return RUVLLM_OK;
}

/* A place in the table, if there is one; jobs without adapters go on to the inbox. */
static bool take_in(struct ruvllm_engine *e, struct rv_job *job, uint64_t *id)
{
    bool has_room;

    pthread_mutex_lock(&e->lock);
    has_room = e->n_jobs < e->n_slots;
    if (has_room) {
        enter(e, job);
        *id = job->id;
        if (job->trace)
            job->trace->id = job->id;
        job->is_parked = job->ticket.n > 0;
        if (!job->is_parked)
            put_in_inbox(e, job);
    }
    pthread_mutex_unlock(&e->lock);
    return has_room;
}

ruvllm_status rv_engine_submit(struct ruvllm_engine *engine, const struct ruvllm_request *request,
                               const struct ruvllm_input *input, const struct ruvllm_generate_params *params,
                               uint64_t *id, struct ruvllm_error *err)
{
    struct ruvllm_engine *e = engine;
    struct rv_job_config config = {
        .model = e->model, .pool = e->pool, .request = request, .input = input, .params = params, .policy = e->policy};
    struct rv_job *job;
    bool has_adapters;
    ruvllm_status rc = request->kv ? rv_kv_policy_tiers(request->kv, &config.policy, err) : RUVLLM_OK;

    if (rc)
        return rc;
    if (!(request->share >= 0 && request->share <= MAX_SHARE)) // NaN too
        return rv_fail(err, RUVLLM_INVALID, "'share' must be between 0 and %d", MAX_SHARE);
    if (!rv_model_has_blocks(e->model))
        config.policy = e->policy;
    config.scope = rv_engine_scope(e, request->tenant, &config.policy, 0);
    rc = rv_job_new(&job, &config, err);
    if (rc)
        return rc;
    rc = rv_scheduler_check_size(e->scheduler, &job->request, rv_job_max_tokens(job), err);
    if (!rc)
        rc = pin_adapters(e, job, request, err);
    if (!rc)
        rc = rv_engine_learn_begin(e, job, request->tenant, err);
    has_adapters = job->ticket.n > 0;
    if (!rc && !take_in(e, job, id))
        rc = rv_fail(err, RUVLLM_BUSY, "%zu requests are running, waiting or unread; try again later", e->n_slots);
    if (rc) {
        if (has_adapters)
            rv_adapter_registry_release(e->adapters.registry, &job->ticket);
        rv_job_free(job);
        return rc;
    }
    /* The job is in the table, which keeps it until the caller, who does not know its id yet, has read it. */
    if (has_adapters && rv_adapter_registry_enter(e->adapters.registry, &job->ticket))
        unpark(e, job);
    return RUVLLM_OK;
}

/* Waits until there is something to read; false when the time is over. */
static bool wait_for_news(struct ruvllm_engine *e, struct rv_job *job, int32_t timeout_ms)
{
    struct timespec until;
    int rc = 0;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += timeout_ms / 1000;
    until.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    while (rc != ETIMEDOUT && !job->is_done && !job->is_cancelled && job->text.len == job->text_read &&
           job->n_tokens == job->tokens_read)
        rc = timeout_ms < 0 ? pthread_cond_wait(&job->changed, &e->lock)
                            : pthread_cond_timedwait(&job->changed, &e->lock, &until);
    return rc != ETIMEDOUT;
}

/* Moves what is new to the reader's own memory; the end of an answer is read from the answer, which outlives the job.
 */
static void read_news(struct rv_job *job, struct ruvllm_event *event)
{
    const struct ruvllm_response *r = rv_reply_response(job->reply);

    event->text_len = job->text.len - job->text_read;
    if (job->is_done) {
        event->type = RUVLLM_EVENT_DONE;
        event->text = r->text + job->text_read;
    } else {
        rv_buf_clear(&job->piece);
        rv_buf_add(&job->piece, job->text.data + job->text_read, event->text_len);
        rv_buf_add_char(&job->piece, '\0');
        event->type = RUVLLM_EVENT_TEXT;
        event->text = job->piece.data;
    }
    event->tokens = r->tokens + job->tokens_read;
    event->n_tokens = job->n_tokens - job->tokens_read;
    if (r->logprobs) {
        event->logprobs = r->logprobs + job->tokens_read * r->logprobs_per_token;
        event->logprobs_per_token = r->logprobs_per_token;
    }
    job->text_read = job->text.len;
    job->tokens_read = job->n_tokens;
}

ruvllm_status rv_engine_next_event(struct ruvllm_engine *engine, uint64_t id, int32_t timeout_ms,
                                   struct ruvllm_event *event, struct ruvllm_error *err)
{
    struct ruvllm_engine *e = engine;
    ruvllm_status rc = RUVLLM_OK;
    struct rv_job *job;
    bool is_last;

    pthread_mutex_lock(&e->lock);
    job = find(e, id);
    if (!job || job->has_reader) {
        pthread_mutex_unlock(&e->lock);
        return job ? rv_fail(err, RUVLLM_BUSY, "another call reads the events of this request")
                   : rv_fail(err, RUVLLM_NOT_FOUND, "there is no such request, or its last event was read");
    }
    job->n_refs++;
    job->has_reader = true;
    if (wait_for_news(e, job, timeout_ms)) {
        if (job->is_cancelled) {
            rc = rv_fail(err, RUVLLM_CANCELLED, "the request was cancelled");
        } else if (job->is_done && job->error.status != RUVLLM_OK) {
            rc = job->error.status;
            if (err)
                *err = job->error;
        } else {
            read_news(job, event);
        }
        if (job->is_done && !job->is_cancelled) {
            if (!rc)
                event->response = rv_reply_take_response(job->reply);
            leave(e, job);
            (void)rv_engine_drop_job(job); // the table's; this call still has its own
        }
    }
    job->has_reader = false;
    is_last = rv_engine_drop_job(job);
    pthread_mutex_unlock(&e->lock);
    if (is_last)
        rv_job_free(job);
    return rc;
}

ruvllm_status rv_engine_cancel(struct ruvllm_engine *engine, uint64_t id, struct ruvllm_error *err)
{
    struct ruvllm_engine *e = engine;
    struct rv_job *job;
    bool is_last, is_parked;

    pthread_mutex_lock(&e->lock);
    job = find(e, id);
    if (!job) {
        pthread_mutex_unlock(&e->lock);
        return rv_fail(err, RUVLLM_NOT_FOUND, "there is no such request, or its last event was read");
    }
    job->is_cancelled = true;
    e->has_cancelled = true;
    leave(e, job);
    pthread_cond_broadcast(&job->changed);
    pthread_cond_signal(&e->work);
    is_parked = job->is_parked;
    if (is_parked) {
        pthread_mutex_unlock(&e->lock); // the table's reference is still ours
        if (rv_adapter_registry_withdraw(e->adapters.registry, &job->ticket))
            unpark(e, job);
        pthread_mutex_lock(&e->lock);
    }
    is_last = rv_engine_drop_job(job);
    pthread_mutex_unlock(&e->lock);
    if (is_last)
        rv_job_free(job);
    return RUVLLM_OK;
}

bool rv_engine_call(struct ruvllm_engine *engine, void (*run)(struct ruvllm_engine *engine, void *arg), void *arg)
{
    struct rv_engine_errand errand = {.run = run, .arg = arg};

    pthread_mutex_lock(&engine->lock);
    if (!engine->is_closing) {
        errand.next = engine->errands;
        engine->errands = &errand;
        pthread_cond_signal(&engine->work);
        while (!errand.is_done)
            pthread_cond_wait(&engine->errand_done, &engine->lock);
    }
    pthread_mutex_unlock(&engine->lock);
    return errand.is_done;
}

void rv_engine_stats(struct ruvllm_engine *engine, struct ruvllm_engine_stats *out)
{
    pthread_mutex_lock(&engine->lock);
    *out = engine->stats;
    pthread_mutex_unlock(&engine->lock);
    rv_engine_adapters_fill_stats(&engine->adapters, out);
    out->waiting += out->adapters_waiting;
    out->struct_size = sizeof(*out);
}

const struct ruvllm_model *rv_engine_model(const struct ruvllm_engine *engine)
{
    return engine->model;
}

/* ---- life ------------------------------------------------------------------------------------ */

static ruvllm_status check_params(const struct ruvllm_engine_params *p, const struct ruvllm_model *model,
                                  struct ruvllm_error *err)
{
    const char *field = NULL;

    if (p->max_sequences < 1 || p->max_sequences > MAX_SEQUENCES || p->max_sequences > model->max_batch)
        field = "max_sequences";
    else if (p->max_queue < 0 || p->max_queue > MAX_QUEUE)
        field = "max_queue";
    else if (p->prefill_tokens < 1)
        field = "prefill_tokens";
    if (field)
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_CONFIG, "'%s' is out of range", field);
    if (!model->device)
        return rv_fail(err, RUVLLM_INVALID, "an engine needs the model's weights, not only its vocabulary");
    return RUVLLM_OK;
}

static size_t block_bytes(const struct ruvllm_model *m)
{
    size_t token = m->hparams.kv_token_bytes > 0 ? (size_t)m->hparams.kv_token_bytes : 1;

    return token * RV_KV_BLOCK_TOKENS;
}

static size_t blocks_of_context(const struct ruvllm_model *m)
{
    return ((size_t)m->max_context + RV_KV_BLOCK_TOKENS - 1) / RV_KV_BLOCK_TOKENS;
}

/* Enough for several full contexts, but no more than half the machine's memory. */
static size_t default_budget(const struct ruvllm_model *m)
{
    size_t half = (size_t)sysconf(_SC_PHYS_PAGES) / 2 * (size_t)sysconf(_SC_PAGESIZE);
    size_t blocks = blocks_of_context(m) * DEFAULT_CONTEXTS;
    size_t block = block_bytes(m);

    return blocks < half / block ? (blocks + 1) * block : half;
}

/*
 * For a backend that keeps keys and values itself and takes the memory when it is opened: blocks are only counted, and
 * no more of them than all sequences at full length have. A model without keys and values has a state of one size for
 * each sequence; there a token counts as a byte.
 */
static void count_blocks(const struct ruvllm_engine *e, struct rv_block_pool_config *config)
{
    size_t most = blocks_of_context(e->model) * (size_t)(e->params.max_sequences + RV_ENGINE_N_ASIDE), n;

    config->counted_bytes = block_bytes(e->model);
    n = config->budget / config->counted_bytes;
    most = most < MAX_COUNTED ? most : MAX_COUNTED;
    config->budget = (n < most ? n : most) * config->counted_bytes;
}

static ruvllm_status open_blocks(struct ruvllm_engine *e, struct ruvllm_error *err)
{
    const struct rv_hparams *h = &e->model->hparams;
    struct rv_block_pool_config config = {.n_layers = h->n_layers,
                                          .n_kv_heads = h->n_kv_heads,
                                          .head_dim = h->head_dim,
                                          .poison = poisons,
                                          .budget = e->params.kv_bytes ? e->params.kv_bytes : default_budget(e->model)};
    struct rv_prefix_tree_config tree = {.tenant_floor = TENANT_FLOOR};
    ruvllm_status rc;

    if (!rv_model_has_blocks(e->model))
        count_blocks(e, &config);
    rc = rv_block_pool_new(&e->pool, &config, err);
    if (rc || !e->params.share_prefixes || !rv_model_has_blocks(e->model))
        return rc;
    tree.pool = e->pool;
    tree.max_nodes = rv_block_pool_n_ids(e->pool);
    memcpy(tree.secret, e->secret, sizeof(tree.secret));
    return rv_prefix_tree_new(&e->tree, &tree, err);
}

/* What a backend keeps itself is not in blocks: there is nothing to write. */
static ruvllm_status open_spill(struct ruvllm_engine *e, struct ruvllm_error *err)
{
    struct rv_spill_file_config config = {.pool = e->pool, .dir = e->params.spill_dir, .budget = e->params.spill_bytes};

    if (!config.dir || config.budget == 0 || !e->model->backend->has_blocks)
        return RUVLLM_OK;
    return rv_spill_file_open(&e->spill, &config, err);
}

/* A backend that keeps keys and values by slot drops what the request before has left there. */
static void forget_slot(void *user, int32_t slot)
{
    struct ruvllm_engine *e = user;

    (void)e->model->backend->trim(e->state, slot, 0);
    rv_guess_vacate(e->guess, slot);
}

static ruvllm_status open_state(struct ruvllm_engine *e, struct ruvllm_error *err)
{
    struct ruvllm_model *m = e->model;
    struct rv_backend_state_config config = {.pool = e->pool,
                                             .n_slots = e->params.max_sequences + RV_ENGINE_N_ASIDE,
                                             .max_rows = m->max_batch,
                                             .max_context = m->max_context};
    struct rv_scheduler_config scheduler = {.pool = e->pool,
                                            .tree = e->tree,
                                            .spill = e->spill,
                                            .spill_step_bytes = SPILL_STEP_BYTES,
                                            .max_running = e->params.max_sequences,
                                            .max_waiting = e->params.max_queue + e->params.max_sequences,
                                            .max_rows = m->max_batch,
                                            .prefill_rows = e->params.prefill_tokens,
                                            .age_ms = AGE_MS,
                                            .on_vacant = forget_slot,
                                            .user = e};
    ruvllm_status rc = rv_scheduler_new(&e->scheduler, &scheduler, err);

    return rc ? rc : m->backend->open(&e->state, m, &config, err);
}

static ruvllm_status start(struct ruvllm_engine *e, struct ruvllm_error *err)
{
    int rc;

    e->n_slots = (size_t)e->params.max_sequences + (size_t)e->params.max_queue;
    e->table = rv_calloc(e->n_slots, sizeof(struct rv_job *));
    e->seqs = rv_calloc((size_t)e->params.max_sequences, sizeof(struct rv_kv_seq *));
    e->slots = rv_calloc((size_t)e->params.max_sequences, sizeof(*e->slots));
    e->mixes = rv_calloc((size_t)e->params.max_sequences, sizeof(struct rv_adapter_mix *));
    if (!e->table || !e->seqs || !e->slots || !e->mixes)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a table of %zu requests", e->n_slots);
    rv_engine_loop_copy_stats(e);
    rc = pthread_create(&e->thread, NULL, rv_engine_loop, e);
    if (rc)
        return rv_fail_errno(err, rc, "cannot start the engine's thread");
    e->has_thread = true;
    return RUVLLM_OK;
}

ruvllm_status rv_engine_open(struct ruvllm_engine **out, const char *path, const struct ruvllm_engine_params *params,
                             const struct ruvllm_model_params *model, struct ruvllm_error *err)
{
    struct ruvllm_engine *e = rv_calloc(1, sizeof(*e));
    struct ruvllm_kv_policy policy = params->kv ? *params->kv : ruvllm_kv_policy_default();
    ruvllm_status rc;

    *out = NULL;
    if (!e)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate an engine");
    e->params = *params;
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->work, NULL);
    pthread_cond_init(&e->errand_done, NULL);
    rv_keyed_hash_make_key(e->secret);
    rc = rv_kv_policy_tiers(&policy, &e->policy, err);
    if (!rc)
        rc = rv_model_open(&e->model, path, model, false, err);
    if (!rc && rv_model_has_blocks(e->model) && model->attention && strcmp(model->attention, "ggml") == 0)
        rc = rv_fail_kind(err, RUVLLM_UNSUPPORTED, RUVLLM_ERROR_CONFIG,
                          "ggml's attention cannot read an engine's blocks; leave 'attention' out");
    if (!rc)
        rc = check_params(params, e->model, err);
    if (!rc && !rv_model_has_blocks(e->model))
        e->policy = rv_tier_policy_single(RV_KV_BLOCK_F16);
    if (!rc)
        rc = open_blocks(e, err);
    if (!rc)
        rc = open_spill(e, err);
    if (!rc)
        rc = open_state(e, err);
    if (!rc)
        rc = rv_guess_open(&e->guess, e, err);
    if (!rc)
        rc = rv_engine_adapters_open(&e->adapters, e->model, params, on_adapters, e, err);
    if (!rc)
        rc = start(e, err);
    if (rc) {
        rv_engine_close(e);
        return rc;
    }
    *out = e;
    return RUVLLM_OK;
}

void rv_engine_close(struct ruvllm_engine *engine)
{
    struct ruvllm_engine *e = engine;

    if (!e)
        return;
    rv_engine_adapters_stop(&e->adapters); // what waited for one is in the inbox now
    if (e->has_thread) {
        pthread_mutex_lock(&e->lock);
        e->is_closing = true;
        pthread_cond_signal(&e->work);
        pthread_mutex_unlock(&e->lock);
        pthread_join(e->thread, NULL);
    }
    for (size_t i = 0; e->table && i < e->n_slots; i++)
        rv_job_free(e->table[i]); // ended by the thread, unread
    rv_engine_learn_free(atomic_load(&e->learn));
    rv_engine_adapters_close(&e->adapters);
    if (e->state)
        e->model->backend->close(e->state);
    rv_guess_close(e->guess);
    rv_scheduler_free(e->scheduler);
    rv_spill_file_close(e->spill);
    rv_prefix_tree_free(e->tree);
    rv_block_pool_free(e->pool);
    rv_model_close(e->model);
    pthread_mutex_destroy(&e->lock);
    pthread_cond_destroy(&e->work);
    pthread_cond_destroy(&e->errand_done);
    rv_free(e->table);
    rv_free(e->seqs);
    rv_free(e->slots);
    rv_free(e->mixes);
    rv_free(e);
}
