/* Pieces end where the question does: of it nothing is read but the last token's row, which the answer's first follows.
 */
#include "engine/teacher.h"

#include "base/alloc.h"
#include "engine/aside.h"
#include "engine/engine_learn.h"

#include <string.h>

enum { MAX_READ = 16 }; // rows of a piece that are read: each costs a row of logits and a gradient of many rows

struct lesson {
    struct rv_aside aside;
    struct rv_aside_piece piece;
    struct rv_adapter_mix mix;
    struct rv_trace *trace;
    const int32_t *next; // what follows the tokens of the piece, where they are read
    ruvllm_status rc;
    struct ruvllm_error err;
};

/* ---- text ----------------------------------------------------------------------------------- */

/*
 * A SentencePiece vocabulary puts a space before the first word of any text. Inside an answer that would be one too
 * many, so the text is encoded behind a line end, whose tokens are then taken off.
 */
static ruvllm_status encode(const struct ruvllm_model *model, const char *text, size_t len, int32_t **tokens,
                            size_t *n_tokens, struct ruvllm_error *err)
{
    int32_t *mark = NULL;
    char *behind;
    size_t n_mark;
    ruvllm_status rc;

    if (!rv_vocab_adds_space(model->vocab))
        return rv_vocab_encode(model->vocab, text, len, NULL, 0, tokens, n_tokens, err);
    behind = rv_malloc(len + 1);
    if (!behind)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %zu bytes", len + 1);
    behind[0] = '\n';
    memcpy(behind + 1, text, len);
    rc = rv_vocab_encode(model->vocab, behind, 1, NULL, 0, &mark, &n_mark, err);
    if (!rc)
        rc = rv_vocab_encode(model->vocab, behind, len + 1, NULL, 0, tokens, n_tokens, err);
    if (!rc && (*n_tokens < n_mark || memcmp(*tokens, mark, n_mark * sizeof(*mark)) != 0))
        rc = rv_fail_kind(err, RUVLLM_UNSUPPORTED, RUVLLM_ERROR_TOKENIZATION,
                          "the model's vocabulary does not keep a line end apart from what follows it");
    if (!rc) {
        *n_tokens -= n_mark;
        memmove(*tokens, *tokens + n_mark, *n_tokens * sizeof(**tokens));
    }
    rv_free(mark);
    rv_free(behind);
    return rc;
}

/* What ends an answer; -1: nothing does. */
static int32_t end_of(const struct ruvllm_model *model, const struct rv_trace *trace)
{
    int32_t last = trace->n_rows ? trace->tokens[trace->n_rows - 1] : -1;

    return last >= 0 && rv_vocab_is_eog(model->vocab, last) ? last : rv_vocab_eos(model->vocab);
}

ruvllm_status rv_teacher_tokens(const struct ruvllm_model *model, const struct rv_trace *trace, const char *text,
                                size_t len, int32_t **tokens, int32_t *n_tokens, struct ruvllm_error *err)
{
    int32_t end = end_of(model, trace), *more;
    size_t n = 0;
    ruvllm_status rc;

    *tokens = NULL;
    *n_tokens = 0;
    rc = encode(model, text, len, tokens, &n, err);
    if (!rc && n > (size_t)model->max_context)
        rc = rv_fail_kind(err, RUVLLM_TOO_LARGE, RUVLLM_ERROR_SONA, "an answer of %zu tokens does not fit the context",
                          n);
    if (rc)
        goto fail;
    more = rv_realloc_array(*tokens, n + 1, sizeof(**tokens));
    if (!more) {
        rc = rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %zu tokens", n + 1);
        goto fail;
    }
    *tokens = more;
    if (end >= 0)
        more[n++] = end;
    *n_tokens = (int32_t)n;
    return RUVLLM_OK;
fail:
    rv_free(*tokens);
    *tokens = NULL;
    return rc;
}

/* ---- the pass ------------------------------------------------------------------------------- */

static void run_piece(struct ruvllm_engine *e, void *arg)
{
    struct rv_engine_learn *learn = atomic_load(&e->learn);
    struct lesson *l = arg;
    const float *states;
    float *rows;

    l->rc = rv_aside_run(e, &l->aside, &l->piece, &rows, &l->err);
    if (l->rc || !l->piece.is_read)
        return;
    states = e->model->backend->states(e->state);
    for (int32_t i = 0; i < l->piece.n; i++)
        rv_head_gradient_read(&learn->gradient, l->trace, states + (size_t)i * (size_t)e->model->hparams.n_embd,
                              rows + (size_t)i * (size_t)e->model->hparams.n_vocab, l->next[i]);
}

static void give_back(struct ruvllm_engine *e, void *arg)
{
    struct lesson *l = arg;

    rv_aside_give_back(e, &l->aside);
}

/* All of `tokens`, the last of which is followed by nothing; those from `first_read` on are read. */
static ruvllm_status run_pieces(struct ruvllm_engine *e, struct lesson *l, const int32_t *tokens, int32_t n_tokens,
                                int32_t first_read, struct ruvllm_error *err)
{
    struct rv_aside_piece *p = &l->piece;
    bool is_open = true;

    p->result = RV_DECODER_LOGITS;
    p->mix = l->mix.n_adapters ? &l->mix : NULL;
    for (int32_t done = 0; done < n_tokens && is_open && !l->rc; done += p->n) {
        int32_t end, most = l->aside.max_rows;

        p->is_read = done >= first_read;
        end = p->is_read ? n_tokens : first_read;
        most = p->is_read && most > MAX_READ ? MAX_READ : most;
        p->n = end - done < most ? end - done : most;
        p->tokens = tokens + done;
        l->next = tokens + done + 1;
        is_open = rv_engine_call(e, run_piece, l);
    }
    if (is_open)
        (void)rv_engine_call(e, give_back, l); // an engine that closes drops them anyway
    if (!is_open)
        return rv_fail(err, RUVLLM_CANCELLED, "the engine closes");
    if (l->rc && err)
        *err = l->err;
    return l->rc;
}

/* Question and answer in a row; the caller's. */
static int32_t *join(const struct rv_teacher_text *text, int32_t n_target)
{
    size_t n = (size_t)text->n_prompt + (size_t)n_target;
    int32_t *tokens = rv_realloc_array(NULL, n, sizeof(*tokens));

    if (!tokens)
        return NULL;
    memcpy(tokens, text->prompt, (size_t)text->n_prompt * sizeof(*tokens));
    memcpy(tokens + text->n_prompt, text->target, (size_t)n_target * sizeof(*tokens));
    return tokens;
}

ruvllm_status rv_teacher_trace(struct ruvllm_engine *engine, const struct rv_teacher_text *text, struct rv_trace **out,
                               struct ruvllm_error *err)
{
    int32_t n_target = text->n_target < RV_TRACE_MAX_ROWS ? text->n_target : RV_TRACE_MAX_ROWS;
    int32_t n = text->n_prompt + n_target - 1; // nothing is computed after the last token
    struct lesson lesson = {.rc = RUVLLM_OK};
    int32_t *tokens = join(text, n_target);
    ruvllm_status rc;

    *out = NULL;
    rc = tokens ? rv_aside_init(&lesson.aside, engine, text->tenant, (size_t)n, err)
                : rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a text of %d tokens", (int)n + 1);
    if (!rc)
        rc = rv_trace_new(&lesson.trace, 0, text->tenant, engine->model->hparams.n_embd, n_target, err);
    if (!rc)
        rc = rv_trace_set_prompt(lesson.trace, text->prompt, text->n_prompt, err);
    if (!rc) {
        lesson.trace->generation = text->voice->generation;
        lesson.trace->layers = text->voice->layers;
        rv_engine_learn_mix(&lesson.mix, text->voice->head, text->voice->deep);
    }
    if (!rc)
        rc = run_pieces(engine, &lesson, tokens, n, text->n_prompt - 1, err);
    rv_aside_release(&lesson.aside);
    rv_free(tokens);
    if (rc) {
        rv_trace_unref(lesson.trace);
        return rc;
    }
    *out = lesson.trace;
    return RUVLLM_OK;
}
