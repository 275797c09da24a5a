#include "engine/engine_feedback.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/utf8.h"
#include "engine/engine_learn.h"
#include "engine/teacher.h"
#include "learn/lesson_tokens.h"

#include <string.h>

enum { MAX_TEXT = 256 * 1024, MAX_REASON = 8192, MAX_DECODED = 1 << 20 };

/* One of the texts of a lesson: given, or the answer itself. */
struct side {
    int32_t *tokens;
    int32_t n_tokens;
    struct rv_trace *trace;
};

struct lesson {
    struct ruvllm_engine *engine;
    const char *tenant;
    struct rv_learner *learner;
    struct rv_trace *trace;        // of the answer
    struct rv_learner_voice voice; // what the texts are read with
    struct side good, bad;
    struct rv_buf prompt, answer;
    struct rv_str tokens;
};

/* ---- what is said --------------------------------------------------------------------------- */

static ruvllm_status check_text(const char *text, const char *what, size_t max, struct ruvllm_error *err)
{
    size_t len = text ? strnlen(text, max + 1) : 0;

    if (len > max)
        return rv_fail_kind(err, RUVLLM_TOO_LARGE, RUVLLM_ERROR_SONA, "'%s' is longer than %zu bytes", what, max);
    if (text && !rv_utf8_valid(text, len))
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_SONA, "'%s' is not UTF-8", what);
    return RUVLLM_OK;
}

static ruvllm_status check(const struct ruvllm_feedback *f, struct ruvllm_error *err)
{
    bool is_pair = f->preferred || f->rejected;
    ruvllm_status rc;

    if (f->has_score + (f->correction != NULL) + is_pair != 1)
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_SONA,
                            "feedback is a score, or a correction, or a pair of what is preferred and rejected");
    rc = check_text(f->correction, "correction", MAX_TEXT, err);
    if (!rc)
        rc = check_text(f->preferred, "preferred", MAX_TEXT, err);
    if (!rc)
        rc = check_text(f->rejected, "rejected", MAX_TEXT, err);
    if (!rc)
        rc = check_text(f->reason, "reason", MAX_REASON, err);
    return rc;
}

static struct rv_str text_of(const char *text)
{
    return (struct rv_str){.data = text, .len = text ? strlen(text) : 0};
}

/* ---- reading texts -------------------------------------------------------------------------- */

static ruvllm_status read_tokens(struct lesson *l, const int32_t *tokens, int32_t n, struct side *side,
                                 struct ruvllm_error *err)
{
    const struct rv_teacher_text text = {.tenant = l->tenant,
                                         .prompt = l->trace->prompt,
                                         .n_prompt = l->trace->n_prompt,
                                         .target = tokens,
                                         .n_target = n,
                                         .voice = &l->voice};

    return rv_teacher_trace(l->engine, &text, &side->trace, err);
}

/*
 * The answer, as it was said. A deep run since then has other states for the same words, so they are read again;
 * likewise when only its words are left.
 */
static ruvllm_status read_answer(struct lesson *l, struct side *side, struct ruvllm_error *err)
{
    if ((l->trace->layers != l->voice.layers || !rv_trace_has_rows(l->trace)) && l->trace->n_rows > 0)
        return read_tokens(l, l->trace->tokens, l->trace->n_rows, side, err);
    side->trace = rv_trace_ref(l->trace);
    return RUVLLM_OK;
}

/* A text as the model would have had to say it; NULL: the answer. */
static ruvllm_status read_side(struct lesson *l, const char *text, struct side *side, struct ruvllm_error *err)
{
    ruvllm_status rc;

    if (!text)
        return read_answer(l, side, err);
    rc = rv_teacher_tokens(l->engine->model, l->trace, text, strlen(text), &side->tokens, &side->n_tokens, err);
    if (rc)
        return rc;
    if (side->n_tokens == 0)
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_SONA, "an empty text teaches nothing");
    return read_tokens(l, side->tokens, side->n_tokens, side, err);
}

static ruvllm_status read_texts(struct lesson *l, const struct ruvllm_feedback *f, struct ruvllm_error *err)
{
    ruvllm_status rc;

    if (l->trace->has_adapters)
        return rv_fail_kind(err, RUVLLM_UNSUPPORTED, RUVLLM_ERROR_SONA,
                            "the answer was made with adapters by name: only votes are learned from those");
    if (!l->trace->prompt)
        return rv_fail_kind(err, RUVLLM_TOO_LARGE, RUVLLM_ERROR_SONA,
                            "the question has %d tokens; corrections are learned for up to %d", (int)l->trace->n_prompt,
                            RV_TRACE_MAX_PROMPT);
    rc = rv_learner_voice(l->learner, l->tenant, &l->voice, err);
    if (rc)
        return rc;
    rc = read_side(l, f->correction ? f->correction : f->preferred, &l->good, err);
    if (!rc && !f->correction)
        rc = read_side(l, f->rejected, &l->bad, err);
    return rc;
}

/* For a vote: an answer of which only the words are left is read again, and judged as it would be answered now. */
static ruvllm_status read_old_answer(struct lesson *l, struct ruvllm_error *err)
{
    struct side side = {0};
    ruvllm_status rc;

    if (!rv_trace_can_be_read_again(l->trace))
        return rv_fail_kind(err, RUVLLM_NOT_FOUND, RUVLLM_ERROR_SONA, "the answer is too old to learn from");
    rc = rv_learner_voice(l->learner, l->tenant, &l->voice, err);
    if (!rc)
        rc = read_tokens(l, l->trace->tokens, l->trace->n_rows, &side, err);
    if (rc)
        return rc;
    side.trace->id = l->trace->id;
    side.trace->generation = l->trace->generation;
    rv_trace_unref(l->trace);
    l->trace = side.trace;
    return RUVLLM_OK;
}

/* ---- what the log keeps --------------------------------------------------------------------- */

/* Text of tokens; empty when it is none that the log may have. */
static void decode(const struct lesson *l, const int32_t *tokens, int32_t n, bool with_special, struct rv_buf *out)
{
    rv_vocab_decode(l->engine->model->vocab, tokens, (size_t)n, with_special, out);
    if (out->failed || (out->len && (memchr(out->data, '\0', out->len) || !rv_utf8_valid(out->data, out->len))))
        rv_buf_clear(out);
}

static struct rv_str bytes_of(const struct rv_buf *buf)
{
    return (struct rv_str){.data = buf->data, .len = buf->len};
}

static ruvllm_status write_down(struct lesson *l, const struct ruvllm_feedback *f, struct rv_learner_lesson *out,
                                struct ruvllm_error *err)
{
    const struct side *good = &l->good, *bad = &l->bad;
    const struct rv_trace *t = l->trace;
    struct rv_lesson_tokens tokens = {.prompt = t->prompt,
                                      .n_prompt = t->n_prompt,
                                      .good = good->tokens ? good->tokens : t->tokens,
                                      .n_good = good->tokens ? good->n_tokens : t->n_rows,
                                      .bad = bad->tokens ? bad->tokens : t->tokens,
                                      .n_bad = !bad->trace   ? 0
                                               : bad->tokens ? bad->n_tokens
                                                             : t->n_rows};
    ruvllm_status rc = rv_lesson_tokens_write(&tokens, l->engine->model->hparams.n_vocab, &l->tokens, err);

    if (rc)
        return rc;
    decode(l, t->prompt, t->n_prompt, true, &l->prompt);
    decode(l, t->tokens, t->n_rows, false, &l->answer);
    out->kind = f->correction ? RV_STORE_EVENT_CORRECTION : RV_STORE_EVENT_PAIR;
    out->lesson = (struct rv_lesson){.good = good->trace, .bad = bad->trace};
    out->prompt = bytes_of(&l->prompt);
    out->answer = f->rejected ? text_of(f->rejected) : bytes_of(&l->answer);
    out->correction = f->correction  ? text_of(f->correction)
                      : f->preferred ? text_of(f->preferred)
                                     : bytes_of(&l->answer);
    out->tokens = l->tokens;
    return RUVLLM_OK;
}

/* ---- the door ------------------------------------------------------------------------------- */

static void release(struct lesson *l)
{
    rv_trace_unref(l->good.trace);
    rv_trace_unref(l->bad.trace);
    rv_trace_unref(l->trace);
    rv_learner_release_voice(&l->voice);
    rv_free(l->good.tokens);
    rv_free(l->bad.tokens);
    rv_free((char *)(uintptr_t)l->tokens.data);
    rv_buf_release(&l->prompt);
    rv_buf_release(&l->answer);
}

ruvllm_status rv_engine_feedback_give(struct ruvllm_engine *engine, const char *tenant,
                                      const struct ruvllm_feedback *feedback, struct rv_learner_result *result,
                                      struct ruvllm_error *err)
{
    struct rv_learner_lesson lesson = {.kind = RV_STORE_EVENT_VOTE, .score = feedback->score};
    struct lesson l = {.engine = engine, .tenant = tenant};
    int64_t start = rv_clock_us(), read_us;
    bool has_rows;
    ruvllm_status rc = check(feedback, err);

    *result = (struct rv_learner_result){0};
    if (!rc)
        rc = rv_engine_learn_get(engine, &l.learner, err);
    if (rc)
        return rc;
    rv_buf_init(&l.prompt, MAX_DECODED);
    rv_buf_init(&l.answer, MAX_DECODED);
    l.trace = rv_trace_ring_find(rv_learner_traces(l.learner), feedback->id, tenant);
    if (!l.trace)
        rc = rv_fail_kind(err, RUVLLM_NOT_FOUND, RUVLLM_ERROR_SONA,
                          "there is no such answer, or it is too old to learn from");
    has_rows = !rc && rv_trace_has_rows(l.trace);
    if (!rc && feedback->has_score && !has_rows)
        rc = read_old_answer(&l, err);
    lesson.lesson.good = l.trace;
    if (!rc && !feedback->has_score)
        rc = read_texts(&l, feedback, err);
    if (!rc && !feedback->has_score)
        rc = write_down(&l, feedback, &lesson, err);
    read_us = feedback->has_score && has_rows ? 0 : rv_clock_us() - start;
    if (!rc) {
        lesson.generation = l.trace->generation;
        lesson.reason = text_of(feedback->reason);
        rc = rv_learner_teach(l.learner, tenant, &lesson, result, err);
        result->read_us = read_us;
    }
    release(&l);
    return rc;
}
