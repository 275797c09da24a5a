/* Threads: the engine's way runs its pieces as errands on the engine's thread, see aside.h. */
#include "engine/embedding.h"

#include "base/alloc.h"
#include "engine/aside.h"

#include <math.h>

struct pooling {
    double *sum;
    size_t n_embd;
};

static void add_rows(void *user, float *rows, int32_t n_rows)
{
    struct pooling *p = user;

    for (int32_t row = 0; row < n_rows; row++) {
        for (size_t i = 0; i < p->n_embd; i++)
            p->sum[i] += (double)rows[(size_t)row * p->n_embd + i];
    }
}

static ruvllm_status begin(struct pooling *p, const struct ruvllm_model *model, size_t n_tokens,
                           struct ruvllm_error *err)
{
    *p = (struct pooling){.n_embd = (size_t)model->hparams.n_embd};
    if (n_tokens == 0)
        return rv_fail(err, RUVLLM_INVALID, "there is nothing to embed");
    if (n_tokens > (size_t)model->max_context)
        return rv_fail_kind(err, RUVLLM_TOO_LARGE, RUVLLM_ERROR_KV_CACHE,
                            "the input has %zu tokens, the context holds %d", n_tokens, model->max_context);
    p->sum = rv_calloc(p->n_embd, sizeof(*p->sum));
    return p->sum ? RUVLLM_OK : rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate an embedding");
}

/* Writes the result of a success and releases either way. */
static ruvllm_status end(struct pooling *p, ruvllm_status rc, float *out)
{
    double length = 0;

    for (size_t i = 0; i < p->n_embd && !rc; i++)
        length += p->sum[i] * p->sum[i];
    length = length > 0 ? sqrt(length) : 1;
    for (size_t i = 0; i < p->n_embd && !rc; i++)
        out[i] = (float)(p->sum[i] / length);
    rv_free(p->sum);
    return rc;
}

ruvllm_status rv_embedding_by_model(struct ruvllm_model *model, const int32_t *tokens, size_t n_tokens, float *out,
                                    struct ruvllm_error *err)
{
    struct pooling p;
    ruvllm_status rc = begin(&p, model, n_tokens, err);

    if (!rc) {
        (void)rv_model_rewind(model, 0);
        rc =
            rv_model_advance(model, tokens, (int32_t)n_tokens, (int32_t)n_tokens, RV_DECODER_HIDDEN, add_rows, &p, err);
    }
    return end(&p, rc, out);
}

/* ---- beside what an engine serves ------------------------------------------------------------ */

struct task {
    struct pooling pooling;
    struct rv_aside aside;
    struct rv_aside_piece piece;
    ruvllm_status rc;
    struct ruvllm_error err;
};

static void run_piece(struct ruvllm_engine *e, void *arg)
{
    struct task *t = arg;
    float *rows;

    t->rc = rv_aside_run(e, &t->aside, &t->piece, &rows, &t->err);
    if (!t->rc)
        add_rows(&t->pooling, rows, t->piece.n);
}

static void give_back(struct ruvllm_engine *e, void *arg)
{
    struct task *t = arg;

    rv_aside_give_back(e, &t->aside);
}

static ruvllm_status run_pieces(struct ruvllm_engine *e, struct task *t, const int32_t *tokens, int32_t n_tokens,
                                struct ruvllm_error *err)
{
    struct rv_aside_piece *p = &t->piece;
    bool is_open = true;

    *p = (struct rv_aside_piece){.result = RV_DECODER_HIDDEN, .is_read = true};
    for (int32_t done = 0; done < n_tokens && is_open && !t->rc; done += p->n) {
        p->tokens = tokens + done;
        p->n = n_tokens - done < t->aside.max_rows ? n_tokens - done : t->aside.max_rows;
        is_open = rv_engine_call(e, run_piece, t);
    }
    if (is_open)
        (void)rv_engine_call(e, give_back, t); // an engine that closes drops them anyway
    if (!is_open)
        return rv_fail(err, RUVLLM_CANCELLED, "the engine closes");
    if (t->rc && err)
        *err = t->err;
    return t->rc;
}

ruvllm_status rv_embedding_by_engine(struct ruvllm_engine *engine, const char *tenant, const int32_t *tokens,
                                     size_t n_tokens, float *out, struct ruvllm_error *err)
{
    struct task task = {.rc = RUVLLM_OK};
    ruvllm_status rc = begin(&task.pooling, engine->model, n_tokens, err);

    if (!rc)
        rc = rv_aside_init(&task.aside, engine, tenant, n_tokens, err);
    if (!rc)
        rc = run_pieces(engine, &task, tokens, (int32_t)n_tokens, err);
    rv_aside_release(&task.aside);
    return end(&task.pooling, rc, out);
}
