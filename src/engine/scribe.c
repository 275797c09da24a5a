#include "engine/scribe.h"

#include "engine/reply.h"

#include <time.h>

enum {
    AT_ONCE = 16,        // where nobody else waits for a step
    BESIDE_OTHERS = 8,   // which a batch computes hardly slower than one
    PRIORITY = -1000000, // behind everybody, however long it waits
    NAP_MS = 50,         // until there may be a place
    LOOK_MS = 200        // between questions whether to go on
};

int32_t rv_scribe_first_token(const struct ruvllm_engine *engine)
{
    int32_t bos = rv_vocab_bos(engine->model->vocab), eos = rv_vocab_eos(engine->model->vocab);

    return bos >= 0 ? bos : eos >= 0 ? eos : 0;
}

static ruvllm_status submit(struct ruvllm_engine *e, const struct rv_scribe_task *task, int32_t i, uint64_t *id,
                            struct ruvllm_error *err)
{
    struct ruvllm_generate_params params = ruvllm_generate_params_default();
    int32_t first = rv_scribe_first_token(e);
    struct ruvllm_input input = {.struct_size = sizeof(input), .tokens = &first, .n_tokens = 1};
    struct ruvllm_request request = {
        .struct_size = sizeof(request), .tenant = task->tenant, .priority = PRIORITY, .no_shared_prefix = true};

    params.temperature = 1;
    params.top_p = 1;
    params.repetition_penalty = 1;
    params.max_tokens = task->n_tokens;
    params.ignore_eos = true;
    params.n_logprobs = task->has_logprobs ? 0 : params.n_logprobs;
    params.has_seed = true;
    params.seed = task->seed + (uint64_t)i;
    return rv_engine_submit(e, &request, &input, &params, id, err);
}

static bool goes_on(const struct rv_scribe_task *task, int32_t n_done)
{
    return !task->goes_on || task->goes_on(task->user, (float)n_done / (float)task->n_texts);
}

static ruvllm_status give_up(struct ruvllm_error *err)
{
    return rv_fail(err, RUVLLM_CANCELLED, "writing texts was given up");
}

static ruvllm_status collect(struct ruvllm_engine *e, const struct rv_scribe_task *task, uint64_t id, int32_t n_done,
                             struct ruvllm_error *err)
{
    struct ruvllm_event event = {.struct_size = sizeof(event)};
    ruvllm_status rc;

    do {
        event.type = RUVLLM_EVENT_NONE;
        rc = rv_engine_next_event(e, id, LOOK_MS, &event, err);
        if (!rc && event.type != RUVLLM_EVENT_DONE && !goes_on(task, n_done))
            return give_up(err);
    } while (!rc && event.type != RUVLLM_EVENT_DONE);
    if (rc)
        return rc;
    task->on_text(task->user, id, event.response);
    rv_reply_response_free(event.response);
    return RUVLLM_OK;
}

/* Half of the places are left to others. */
static int32_t at_once(struct ruvllm_engine *e)
{
    size_t n = e->n_slots / 2, most;

    pthread_mutex_lock(&e->lock);
    most = e->n_jobs > 0 ? BESIDE_OTHERS : AT_ONCE;
    pthread_mutex_unlock(&e->lock);
    return n < 1 ? 1 : n < most ? (int32_t)n : (int32_t)most;
}

/* As many as there is room for, up to at_once: *n_done more are written. */
static ruvllm_status write_some(struct ruvllm_engine *e, const struct rv_scribe_task *task, int32_t *n_done,
                                struct ruvllm_error *err)
{
    int32_t n_left = task->n_texts - *n_done, n_most = at_once(e), n_wanted = n_left < n_most ? n_left : n_most;
    int32_t n = 0, n_read = 0;
    uint64_t ids[AT_ONCE];
    ruvllm_status rc = RUVLLM_OK;

    while (n < n_wanted && !rc) {
        rc = submit(e, task, *n_done + n, &ids[n], err);
        n += !rc;
    }
    if (rc == RUVLLM_BUSY) // the rest comes later
        rc = RUVLLM_OK;
    for (; n_read < n && !rc; n_read += !rc)
        rc = collect(e, task, ids[n_read], *n_done + n_read, err);
    for (; n_read < n; n_read++) { // nobody else would read them
        struct ruvllm_error gone;

        if (rv_engine_cancel(e, ids[n_read], &gone)) // it failed, and was forgotten
            continue;
    }
    *n_done += n;
    return rc;
}

ruvllm_status rv_scribe_write(struct ruvllm_engine *engine, const struct rv_scribe_task *task, struct ruvllm_error *err)
{
    const struct timespec nap = {.tv_nsec = NAP_MS * 1000000L};
    ruvllm_status rc = RUVLLM_OK;

    for (int32_t n = 0; n < task->n_texts && !rc;) {
        int32_t before = n;

        if (!goes_on(task, n))
            return give_up(err);
        rc = write_some(engine, task, &n, err);
        if (!rc && n == before)
            (void)nanosleep(&nap, NULL);
    }
    return rc;
}
