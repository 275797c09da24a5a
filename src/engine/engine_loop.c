/* Everything here runs on the engine's thread; see engine.h for who may touch what. */
#include "engine/engine_loop.h"

#include "base/clock.h"
#include "base/time_slice.h"
#include "engine/engine_learn.h"
#include "engine/guess.h"

static void unlink_job(struct ruvllm_engine *e, struct rv_job *job)
{
    struct rv_job **link = &e->jobs;

    while (*link != job)
        link = &(*link)->next;
    *link = job->next;
}

/* Ends a job: its blocks are free now, its reader is told. */
static void end_job(struct ruvllm_engine *e, struct rv_job *job, const struct ruvllm_error *failure)
{
    void (*on_event)(void *, uint64_t) = job->on_event;
    void *user = job->user;
    uint64_t id = job->id;
    bool is_last, is_heard;

    rv_scheduler_remove(e->scheduler, &job->request);
    unlink_job(e, job);
    if (job->ticket.n > 0)
        rv_adapter_registry_release(e->adapters.registry, &job->ticket);
    pthread_mutex_lock(&e->lock);
    job->is_done = true;
    if (failure)
        job->error = *failure;
    is_heard = !job->is_cancelled;
    pthread_cond_broadcast(&job->changed);
    is_last = rv_engine_drop_job(job);
    pthread_mutex_unlock(&e->lock);
    if (is_last)
        rv_job_free(job);
    if (on_event && is_heard)
        on_event(user, id);
}

static void publish(struct ruvllm_engine *e, struct rv_job *job, const struct rv_reply_piece *piece)
{
    pthread_mutex_lock(&e->lock);
    rv_buf_add(&job->text, piece->text.data, piece->text.len);
    job->n_tokens = rv_reply_response(job->reply)->n_tokens;
    pthread_cond_broadcast(&job->changed);
    pthread_mutex_unlock(&e->lock);
    job->has_news = true;
}

static void finish_job(struct ruvllm_engine *e, struct rv_job *job)
{
    struct ruvllm_response *r = rv_reply_response(job->reply);
    struct rv_reply_piece piece;
    struct ruvllm_error err;
    ruvllm_status rc = rv_reply_finish(job->reply, &piece, &err);

    r->cached_tokens = job->request.n_cached;
    r->prefill_us = (job->first_us ? job->first_us : rv_clock_us()) - job->request.arrived_us;
    r->decode_us = job->first_us ? rv_clock_us() - job->first_us : 0;
    if (!rc)
        publish(e, job, &piece);
    if (!rc && job->trace)
        rv_engine_learn_keep(e, job);
    end_job(e, job, rc ? &err : NULL);
}

/* What the lock guards, taken over in one go. */
struct delivery {
    struct rv_job *inbox; // oldest first
    struct rv_engine_errand *errands;
    bool has_cancelled;
    bool is_closing;
};

static struct delivery take_delivery(struct ruvllm_engine *e, bool is_idle)
{
    struct delivery d = {0};
    struct rv_job *job, *next;

    pthread_mutex_lock(&e->lock);
    while (is_idle && !e->inbox && !e->errands && !e->has_cancelled && !e->is_closing)
        pthread_cond_wait(&e->work, &e->lock);
    for (job = e->inbox; job; job = next) {
        next = job->next;
        job->next = d.inbox;
        d.inbox = job;
    }
    d.errands = e->errands;
    d.has_cancelled = e->has_cancelled;
    d.is_closing = e->is_closing;
    e->inbox = NULL;
    e->errands = NULL;
    e->has_cancelled = false;
    pthread_mutex_unlock(&e->lock);
    return d;
}

static void admit(struct ruvllm_engine *e, struct rv_job *job)
{
    struct ruvllm_error err;

    job->next = e->jobs;
    e->jobs = job;
    if (job->ticket.state == RV_ADAPTER_TICKET_FAILED) {
        err = job->ticket.error;
        end_job(e, job, &err);
    } else if (rv_reply_is_over(job->reply)) { // asked for no token at all
        finish_job(e, job);
    } else if (rv_scheduler_submit(e->scheduler, &job->request, rv_job_max_tokens(job), &err)) {
        end_job(e, job, &err);
    }
}

/* Ends jobs that were cancelled, or all of them. */
static void end_cancelled(struct ruvllm_engine *e, bool all)
{
    struct rv_job *job, *next;

    for (job = e->jobs; job; job = next) {
        struct ruvllm_error err;
        bool is_cancelled;

        next = job->next;
        pthread_mutex_lock(&e->lock);
        is_cancelled = job->is_cancelled;
        pthread_mutex_unlock(&e->lock);
        if (!is_cancelled && !all)
            continue;
        (void)rv_fail(&err, RUVLLM_CANCELLED, is_cancelled ? "the request was cancelled" : "the engine closes");
        end_job(e, job, &err);
    }
}

static void run_errands(struct ruvllm_engine *e, struct rv_engine_errand *errand)
{
    while (errand) {
        struct rv_engine_errand *next = errand->next;

        errand->run(e, errand->arg);
        pthread_mutex_lock(&e->lock);
        errand->is_done = true; // from here on it is the caller's again
        pthread_cond_broadcast(&e->errand_done);
        pthread_mutex_unlock(&e->lock);
        errand = next;
    }
}

/* Takes over what was handed in; what was cancelled goes. False when the engine is to close. */
static bool take_work(struct ruvllm_engine *e, bool is_idle)
{
    struct delivery d = take_delivery(e, is_idle);

    while (d.inbox) {
        struct rv_job *job = d.inbox;

        d.inbox = job->next;
        admit(e, job);
    }
    if (d.has_cancelled || d.is_closing)
        end_cancelled(e, d.is_closing);
    run_errands(e, d.errands);
    return !d.is_closing;
}

/* The next token of one sequence, which is put behind its others. False when the job ended with it. */
static bool take_row(struct ruvllm_engine *e, struct rv_job *job, float *row, const float *state)
{
    struct rv_reply_piece piece;
    const float *own = row; // what learning sees of it
    struct ruvllm_error err;
    int32_t token;

    if (job->trace && state)
        own = rv_engine_learn_recall(e, job, state, row);
    if (rv_reply_take(job->reply, row, &token, &piece, &err)) {
        end_job(e, job, &err);
        return false;
    }
    if (job->trace && state)
        rv_engine_learn_capture(e, job, state, own, token);
    if (!job->first_us) {
        job->first_us = rv_clock_us();
        e->totals.prompt_tokens += (uint64_t)job->request.n_prompt;
        e->totals.cached_tokens += (uint64_t)job->request.n_cached;
    }
    if (piece.token >= 0) {
        e->totals.generated_tokens++;
        publish(e, job, &piece);
    }
    if (rv_reply_is_over(job->reply)) {
        finish_job(e, job);
        return false;
    }
    job->request.tokens[job->request.n_tokens++] = token;
    return true;
}

static void count_guesses(struct ruvllm_engine *e, struct rv_job *job, int32_t n_guessed, int32_t n_right)
{
    struct ruvllm_response *r = rv_reply_response(job->reply);

    e->totals.drafted_tokens += (uint64_t)n_guessed;
    e->totals.accepted_tokens += (uint64_t)n_right;
    r->drafted_tokens += n_guessed;
    r->accepted_tokens += n_right;
}

/* One sequence's results: the token that was due and, as long as it is the one that was guessed, those after it. */
static void take_rows(struct ruvllm_engine *e, const struct rv_scheduler_part *part, float *rows, const float *states)
{
    size_t n_vocab = (size_t)e->model->hparams.n_vocab, n_embd = (size_t)e->model->hparams.n_embd;
    struct rv_job *job = rv_job_of(part->request);
    struct rv_request *r = part->request;
    int32_t n_guessed = r->n_guessed, n_right = 0;
    size_t row = (size_t)(part->first_out + part->n_out - 1 - n_guessed);

    rv_request_drop_guesses(r, 0); // they are still there to be compared with, behind the tokens
    count_guesses(e, job, n_guessed, 0);
    for (;;) {
        int32_t guess = n_right < n_guessed ? r->tokens[r->n_tokens] : -1;

        if (!take_row(e, job, rows + row * n_vocab, states ? states + row * n_embd : NULL))
            return;
        if (guess < 0 || r->tokens[r->n_tokens - 1] != guess)
            break;
        count_guesses(e, job, 0, 1);
        n_right++;
        row++;
    }
    rv_guess_note_guesses(e->guess, job, n_right, n_guessed);
    if (n_guessed > 0)
        (void)rv_kv_seq_trim(&r->kv, r->n_tokens - 1);
}

static void fail_step(struct ruvllm_engine *e, const struct rv_scheduler_step *step, const struct ruvllm_error *err)
{
    for (int32_t i = 0; i < step->n_parts; i++)
        end_job(e, rv_job_of(step->parts[i].request), err);
}

static void run_step(struct ruvllm_engine *e, const struct rv_scheduler_step *step)
{
    struct rv_batch batch = {.n_rows = step->n_rows,
                             .tokens = step->tokens,
                             .pos = step->pos,
                             .seq = step->seq,
                             .seqs = e->seqs,
                             .slots = e->slots,
                             .adapters = step->seq,
                             .mixes = e->mixes,
                             .n_mixes = step->n_parts,
                             .out_rows = step->out_rows,
                             .n_out = step->n_out};
    int64_t start = rv_clock_us();
    struct ruvllm_error err;
    const float *states;
    float *rows;

    for (int32_t i = 0; i < step->n_parts; i++) {
        e->seqs[i] = &step->parts[i].request->kv;
        e->slots[i] = step->parts[i].request->slot;
        e->mixes[i] = &step->parts[i].request->mix;
    }
    if (e->model->backend->run(e->state, &batch, RV_DECODER_LOGITS, &rows, &err)) {
        fail_step(e, step, &err);
        return;
    }
    rv_scheduler_complete(e->scheduler, step);
    states = atomic_load(&e->learn) ? e->model->backend->states(e->state) : NULL;
    for (int32_t i = 0; i < step->n_parts; i++) {
        const struct rv_scheduler_part *part = &step->parts[i];

        if (part->n_out > 0)
            take_rows(e, part, rows, states);
    }
    rv_guess_note_step(e->guess, step, rv_clock_us() - start);
    e->totals.steps++;
    e->totals.busy_us += rv_clock_us() - start;
}

/* Tells readers that listen for it; outside the lock, once a step. */
static void call_listeners(struct ruvllm_engine *e)
{
    for (struct rv_job *job = e->jobs; job; job = job->next) {
        if (job->has_news && job->on_event)
            job->on_event(job->user, job->id);
        job->has_news = false;
    }
}

void rv_engine_loop_copy_stats(struct ruvllm_engine *engine)
{
    struct ruvllm_engine *e = engine;
    struct ruvllm_engine_stats *t = &e->totals;
    struct rv_scheduler_stats s;

    rv_scheduler_stats_get(e->scheduler, &s);
    t->running = s.n_running;
    t->waiting = s.n_waiting;
    t->kv_budget = rv_block_pool_budget(e->pool);
    t->kv_used = rv_block_pool_used(e->pool);
    t->kv_blocks_f16 = rv_block_pool_n_used(e->pool, RV_KV_BLOCK_F16);
    t->kv_blocks_q8 = rv_block_pool_n_used(e->pool, RV_KV_BLOCK_Q8);
    t->kv_blocks_q4 = rv_block_pool_n_used(e->pool, RV_KV_BLOCK_Q4);
    t->kv_blocks_idle = rv_block_pool_n_idle(e->pool);
    t->blocks_migrated = s.n_migrated;
    t->blocks_squeezed = s.n_squeezed;
    t->blocks_evicted = s.n_evicted;
    t->preempted = s.n_preempted;
    t->blocks_spilled = s.n_spilled;
    t->blocks_restored = s.n_restored;
    t->spill_failures = e->spill ? rv_spill_file_n_failed(e->spill) : 0;
    pthread_mutex_lock(&e->lock);
    e->stats = *t;
    pthread_mutex_unlock(&e->lock);
}

/* Nothing runs although somebody waits: a bug, but one that must not turn the thread into a spinning one. */
static void give_up(struct ruvllm_engine *e)
{
    struct rv_job *oldest = e->jobs;
    struct ruvllm_error err;

    while (oldest->next)
        oldest = oldest->next;
    (void)rv_fail(&err, RUVLLM_INTERNAL, "the scheduler found no way to compute the request");
    end_job(e, oldest, &err);
}

void *rv_engine_loop(void *engine)
{
    struct ruvllm_engine *e = engine;
    struct rv_scheduler_step step;
    bool is_idle = true;

    /* It computes as much as the pool's threads. Whoever comes with a request or a vote shall not wait for a step. */
    (void)rv_time_slice_set(RV_TIME_SLICE_COMPUTING);
    while (take_work(e, is_idle)) {
        bool has_step;

        rv_guess_begin(e);
        has_step = rv_scheduler_plan(e->scheduler, rv_clock_us(), &step);

        if (has_step)
            run_step(e, &step);
        else if (e->jobs && e->n_held == 0)
            give_up(e);
        /* With blocks held from outside, room comes with the errand that gives them back. */
        is_idle = !e->jobs || (!has_step && e->n_held > 0);
        call_listeners(e);
        rv_engine_loop_copy_stats(e);
    }
    return NULL;
}
