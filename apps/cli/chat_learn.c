#include "chat_learn.h"

#include "answer.h"
#include "interrupt.h"
#include "progress.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

enum { MAX_SAID = 64, N_SHOWN = 10, TEXT_MAX = 16 << 20, TOKENS_MAX = 16 << 20, WAIT_MS = 50 };

/* As a server without keys has it, so that a chat and such a server with the same store teach the same model. */
static const char TENANT[] = "local";

/* Something that was said in this chat and can be taken back. */
struct said {
    int64_t generation;
    int64_t sequence; // 0: there is no log
};

/* The model's first texts are written beside the chat, unless the store has what they come to. */
struct preparation {
    pthread_t thread;
    bool is_on; // there is one
    _Atomic bool is_over;
    _Atomic bool gives_up;
    _Atomic float done; // the share of the texts; after a quarter feedback teaches
    ruvllm_status rc;   // when it is over
    struct ruvllm_error err;
};

struct rv_chat_learn {
    ruvllm_store *store; // NULL: none
    ruvllm_engine *engine;
    struct preparation preparation;
    uint64_t id; // of the last answer
    bool has_answer;
    struct said said[MAX_SAID]; // the newest last; the oldest go
    size_t n_said;
};

/* ---- life --------------------------------------------------------------------------------- */

static ruvllm_status open_engine(struct rv_chat_learn *l, const struct rv_model_options *options,
                                 struct ruvllm_error *err)
{
    struct ruvllm_engine_params params = ruvllm_engine_params_default();
    struct ruvllm_model_params model = options->params;
    struct rv_progress progress;
    char label[64];
    ruvllm_status rc;

    snprintf(label, sizeof(label), "loading %s", rv_model_options_base_name(options->path));
    rv_progress_init(&progress, label);
    model.rope_scaling = (ruvllm_rope_scaling)options->rope_scaling;
    model.on_progress = rv_progress_on_load;
    model.progress_user = &progress;
    params.model = &model;
    params.max_sequences = 16; // the model's first texts are written that many at once
    rc = ruvllm_engine_open(&l->engine, options->path, &params, err);
    rv_progress_clear(&progress);
    return rc;
}

static bool not_now(void *user, float fraction)
{
    (void)user;
    (void)fraction;
    return false;
}

static bool goes_on(void *user, float fraction)
{
    struct preparation *p = user;

    atomic_store(&p->done, fraction);
    return !atomic_load(&p->gives_up);
}

static ruvllm_status learn(struct rv_chat_learn *l, ruvllm_progress_fn on_progress, struct ruvllm_error *err)
{
    struct ruvllm_learn_params params = ruvllm_learn_params_default();

    params.store = l->store;
    params.on_progress = on_progress;
    params.progress_user = &l->preparation;
    return ruvllm_engine_learn(l->engine, &params, err);
}

static void *prepare(void *user)
{
    struct rv_chat_learn *l = user;

    l->preparation.rc = learn(l, goes_on, &l->preparation.err);
    atomic_store(&l->preparation.is_over, true);
    return NULL;
}

static ruvllm_status begin_preparation(struct rv_chat_learn *l, struct ruvllm_error *err)
{
    struct preparation *p = &l->preparation;
    int rc;

    *p = (struct preparation){0};
    rc = pthread_create(&p->thread, NULL, prepare, l);
    p->is_on = rc == 0;
    return rc ? rv_fail_errno(err, rc, "cannot start the thread that prepares learning") : RUVLLM_OK;
}

static void end_preparation(struct rv_chat_learn *l)
{
    atomic_store(&l->preparation.gives_up, true);
    if (l->preparation.is_on)
        pthread_join(l->preparation.thread, NULL);
    l->preparation.is_on = false;
}

/* With what the store knows, at once; else beside the chat. */
static ruvllm_status start_learning(struct rv_chat_learn *l, struct ruvllm_error *err)
{
    ruvllm_status rc = learn(l, not_now, err);

    return rc == RUVLLM_CANCELLED ? begin_preparation(l, err) : rc;
}

/* Until feedback teaches; CANCELLED after Ctrl-C. What failed is tried again with the next wish. */
static ruvllm_status await_learning(struct rv_chat_learn *l, struct ruvllm_error *err)
{
    const struct timespec moment = {.tv_nsec = WAIT_MS * 1000000L};
    struct preparation *p = &l->preparation;
    struct rv_progress progress;
    ruvllm_status rc = RUVLLM_OK;

    if (!ruvllm_engine_learns(l->engine) && !p->is_on)
        rc = begin_preparation(l, err);
    rv_progress_init(&progress, "getting to know the model");
    while (!rc && !ruvllm_engine_learns(l->engine) && !atomic_load(&p->is_over) && !rv_interrupt_seen()) {
        rv_progress_show(&progress, fmin(1, 4 * (double)atomic_load(&p->done)), NULL);
        (void)nanosleep(&moment, NULL);
    }
    rv_progress_clear(&progress);
    if (rc || ruvllm_engine_learns(l->engine))
        return rc;
    if (!atomic_load(&p->is_over))
        return rv_fail(err, RUVLLM_CANCELLED, "not said yet: the model is still being got to know");
    end_preparation(l);
    *err = p->err;
    return p->rc;
}

int rv_chat_learn_open(struct rv_chat_learn **out, const struct rv_model_options *model,
                       const struct rv_store_options *store, struct ruvllm_model_info *info)
{
    struct rv_chat_learn *l = rv_calloc(1, sizeof(*l));
    struct ruvllm_error err = {0};
    int code = RV_EXIT_OK;
    ruvllm_status rc;

    *out = NULL;
    if (!l) {
        rv_output_error(NULL, "cannot allocate the chat");
        return RV_EXIT_FAILURE;
    }
    if (!(store->path && strcmp(store->path, "none") == 0) && !rv_store_options_open(store, false, &l->store, &code)) {
        rv_chat_learn_close(l);
        return code;
    }
    rc = open_engine(l, model, &err);
    if (!rc)
        rc = start_learning(l, &err);
    if (!rc) {
        info->struct_size = sizeof(*info);
        rc = ruvllm_model_info_get(rv_chat_learn_model(l), info, &err);
    }
    if (rc) {
        rv_chat_learn_close(l);
        return rv_output_failure(&err, rc == RUVLLM_UNSUPPORTED ? "without --learn it chats all the same" : NULL);
    }
    *out = l;
    return RV_EXIT_OK;
}

void rv_chat_learn_close(struct rv_chat_learn *learn)
{
    if (!learn)
        return;
    end_preparation(learn);
    ruvllm_engine_close(learn->engine);
    ruvllm_store_close(learn->store);
    rv_free(learn);
}

const ruvllm_model *rv_chat_learn_model(const struct rv_chat_learn *learn)
{
    return ruvllm_engine_model(learn->engine);
}

/* ---- answers ------------------------------------------------------------------------------ */

/* What is known of an answer that was stopped: its words, and how long its question was. */
static ruvllm_status keep_stopped(struct rv_chat_learn *l, const struct ruvllm_input *input, int64_t decode_us,
                                  struct rv_chat_reply *out, struct ruvllm_error *err)
{
    static char empty[] = "";
    int32_t *tokens = NULL;
    size_t n = 0;
    ruvllm_status rc = ruvllm_engine_cancel(l->engine, l->id, err);

    if (!rc)
        rc = ruvllm_tokenize(rv_chat_learn_model(l), input, &tokens, &n, err);
    ruvllm_free(tokens);
    if (!rc)
        rc = rv_buf_status(&out->text, "the answer", err);
    if (!rc)
        rc = rv_buf_status(&out->tokens, "the answer", err);
    if (rc)
        return rc;
    out->stopped = (struct ruvllm_response){.text = out->text.data ? out->text.data : empty,
                                            .text_len = out->text.len,
                                            .tokens = (int32_t *)(void *)out->tokens.data,
                                            .n_tokens = out->tokens.len / sizeof(int32_t),
                                            .stop_reason = RUVLLM_STOP_CALLBACK,
                                            .prompt_tokens = (int32_t)n,
                                            .decode_us = decode_us};
    return RUVLLM_OK;
}

ruvllm_status rv_chat_learn_answer(struct rv_chat_learn *learn, const struct ruvllm_input *input,
                                   const struct ruvllm_generate_params *params, bool show, struct rv_chat_reply *out,
                                   struct ruvllm_error *err)
{
    struct ruvllm_request request = {
        .struct_size = sizeof(request), .input = input, .params = params, .tenant = TENANT};
    struct ruvllm_event event = {.struct_size = sizeof(event)};
    struct rv_answer_view view = {.show = show};
    int64_t first_us = 0;
    ruvllm_status rc;

    *out = (struct rv_chat_reply){0};
    rv_buf_init(&out->text, TEXT_MAX);
    rv_buf_init(&out->tokens, TOKENS_MAX);
    learn->has_answer = false;
    rc = ruvllm_engine_submit(learn->engine, &request, &learn->id, err);
    rv_answer_view_begin(&view);
    while (!rc && event.type != RUVLLM_EVENT_DONE && !rv_interrupt_seen()) {
        rc = ruvllm_engine_next_event(learn->engine, learn->id, WAIT_MS, &event, err);
        if (rc || event.type == RUVLLM_EVENT_NONE)
            continue;
        first_us = first_us ? first_us : rv_clock_us();
        rv_answer_view_text(&view, event.text, event.text_len);
        rv_buf_add(&out->text, event.text, event.text_len);
        rv_buf_add(&out->tokens, event.tokens, event.n_tokens * sizeof(*event.tokens));
    }
    rv_answer_view_end(&view, rc == RUVLLM_OK);
    if (rc)
        return rc;
    if (event.type != RUVLLM_EVENT_DONE)
        return keep_stopped(learn, input, first_us ? rv_clock_us() - first_us : 0, out, err);
    out->whole = event.response;
    learn->has_answer = true;
    return RUVLLM_OK;
}

const struct ruvllm_response *rv_chat_learn_response(const struct rv_chat_reply *reply)
{
    return reply->whole ? reply->whole : &reply->stopped;
}

void rv_chat_learn_release(struct rv_chat_reply *reply)
{
    ruvllm_response_free(reply->whole);
    rv_buf_release(&reply->text);
    rv_buf_release(&reply->tokens);
}

/* ---- judging ------------------------------------------------------------------------------ */

void rv_chat_learn_clear(struct rv_chat_learn *learn)
{
    learn->has_answer = false;
}

static void note_said(struct rv_chat_learn *l, const struct ruvllm_feedback_result *result)
{
    if (l->n_said == MAX_SAID)
        memmove(l->said, l->said + 1, --l->n_said * sizeof(*l->said));
    l->said[l->n_said++] = (struct said){result->generation, result->sequence};
}

static ruvllm_status say(struct rv_chat_learn *l, struct ruvllm_feedback *feedback,
                         struct ruvllm_feedback_result *result, struct ruvllm_error *err)
{
    ruvllm_status rc = l->has_answer ? RUVLLM_OK : rv_fail(err, RUVLLM_INVALID, "there is no whole answer to judge");

    feedback->id = l->id;
    if (!rc)
        rc = await_learning(l, err);
    if (!rc)
        rc = ruvllm_engine_give_feedback(l->engine, TENANT, feedback, result, err);
    if (!rc)
        note_said(l, result);
    return rc;
}

ruvllm_status rv_chat_learn_vote(struct rv_chat_learn *learn, double score, struct ruvllm_feedback_result *result,
                                 struct ruvllm_error *err)
{
    struct ruvllm_feedback feedback = {.struct_size = sizeof(feedback), .has_score = true, .score = score};

    return say(learn, &feedback, result, err);
}

ruvllm_status rv_chat_learn_correct(struct rv_chat_learn *learn, const char *text,
                                    struct ruvllm_feedback_result *result, struct ruvllm_error *err)
{
    struct ruvllm_feedback feedback = {.struct_size = sizeof(feedback), .correction = text};

    return say(learn, &feedback, result, err);
}

/* With a log just that is forgotten; without, what answered before it comes back. */
ruvllm_status rv_chat_learn_undo(struct rv_chat_learn *learn, struct ruvllm_error *err)
{
    const struct said *last;
    ruvllm_status rc;

    if (learn->n_said == 0)
        return rv_fail(err, RUVLLM_INVALID, "nothing was said in this chat that could be taken back");
    last = &learn->said[learn->n_said - 1];
    if (!last->sequence && learn->store)
        return rv_fail(err, RUVLLM_CONFLICT,
                       "that was said while the database was away: 'ruvllm learn history' tells its number by now, and "
                       "'ruvllm learn rollback' goes back to before it");
    if (last->sequence)
        rc = ruvllm_engine_learn_forget(learn->engine, TENANT, last->sequence, NULL, err);
    else
        rc = ruvllm_engine_learn_rollback(learn->engine, TENANT, last->generation - 1, NULL, err);
    if (!rc)
        learn->n_said--;
    return rc;
}

/* ---- looking ------------------------------------------------------------------------------ */

static bool print_event(void *user, const struct ruvllm_learned_event *event)
{
    bool is_vote = event->kind == RUVLLM_LEARNED_VOTE, is_gate = event->kind == RUVLLM_LEARNED_GATE;
    char date[32];

    (void)user;
    printf("  %s  ", rv_store_options_date(event->time_us / 1000000, date));
    if (event->generation >= 0)
        printf("%5lld  ", (long long)event->generation);
    else
        printf("    -  ");
    if (event->is_forgotten)
        printf("forgotten\n");
    else if (event->kind == RUVLLM_LEARNED_ROLLBACK || (is_gate && event->generation >= 0))
        printf("back to %lld%s\n", (long long)event->about, is_gate ? ": votes became all alike" : "");
    else if (isfinite(event->kl))
        printf("%-10s  gained %.3g, moved %.3g\n",
               !is_vote            ? ruvllm_learned_kind_name(event->kind)
               : event->score >= 1 ? "good"
               : event->score <= 0 ? "bad"
                                   : "scored",
               event->gain, event->kl);
    else
        printf("%s\n", ruvllm_learned_kind_name(event->kind));
    return true;
}

ruvllm_status rv_chat_learn_print(struct rv_chat_learn *learn, struct ruvllm_error *err)
{
    struct ruvllm_learned_info info = {.struct_size = sizeof(info)};
    ruvllm_status rc = await_learning(learn, err);

    if (!rc)
        rc = ruvllm_engine_learned(learn->engine, TENANT, &info, err);
    if (rc)
        return rc;
    printf("  generation  %lld%s\n", (long long)info.generation, info.is_paused ? ", paused" : "");
    printf("  votes       %lld, mean score %.2f\n", (long long)info.n_votes, info.mean_score);
    printf("  moved       %.3g nats a token in all\n", info.spent_kl);
    if (learn->preparation.is_on && atomic_load(&learn->preparation.is_over) && learn->preparation.rc)
        printf("  votes are not gone over again: %s\n", learn->preparation.err.message);
    if (!learn->store) {
        puts("  kept        in memory only: it ends with this chat");
        return RUVLLM_OK;
    }
    if (info.generation == 0)
        return RUVLLM_OK;
    puts("");
    return ruvllm_engine_learn_history(learn->engine, TENANT, 0, N_SHOWN, print_event, NULL, NULL, err);
}
