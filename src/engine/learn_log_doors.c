/* The public calls of ruvllm_learn_log.h: arguments checked, then the part that works. */
#include "ruvllm_learn_log.h"

#include "engine/door.h"
#include "engine/engine_learn.h"
#include "learn/learned_adapter.h"
#include "model/adapter_file.h"

#include <math.h>

const char *ruvllm_learned_kind_name(ruvllm_learned_kind kind)
{
    static const char *const names[] = {"vote", "correction", "pair", "tick", "gate", "rollback", "deep"};
    unsigned i = (unsigned)kind - RUVLLM_LEARNED_VOTE;

    return i < sizeof(names) / sizeof(names[0]) ? names[i] : "unknown";
}

/* ---- history -------------------------------------------------------------------------------- */

static struct ruvllm_learned_event event_of(const struct rv_history_row *row)
{
    return (struct ruvllm_learned_event){.struct_size = sizeof(struct ruvllm_learned_event),
                                         .sequence = row->seq,
                                         .time_us = row->time_us,
                                         .generation = row->note.generation,
                                         .about = row->about,
                                         .kind = (ruvllm_learned_kind)row->kind,
                                         .is_forgotten = row->is_forgotten,
                                         .score = row->kind == RV_STORE_EVENT_VOTE ? row->score : NAN,
                                         .advantage = row->note.advantage,
                                         .kl = row->note.kl,
                                         .gain = row->note.gain,
                                         .prompt = row->prompt,
                                         .answer = row->answer,
                                         .correction = row->correction,
                                         .reason = row->reason};
}

ruvllm_status ruvllm_engine_learn_history(ruvllm_engine *engine, const char *tenant, int64_t before, size_t max,
                                          ruvllm_learned_event_fn fn, void *user, int64_t *next,
                                          struct ruvllm_error *err)
{
    struct rv_history history;
    struct rv_learner *learner;
    bool go_on = true;
    ruvllm_status rc;

    if (!engine || !fn)
        return rv_door_fail_null(err, engine ? "fn" : "engine");
    rc = rv_engine_learn_get(engine, &learner, err);
    if (rc)
        return rc;
    rc = rv_learner_history(learner, tenant, before, max, &history, err);
    for (size_t i = 0; !rc && go_on && i < history.n; i++) {
        struct ruvllm_learned_event event = event_of(&history.rows[i]);

        go_on = fn(user, &event);
    }
    if (!rc && next)
        *next = history.next;
    rv_history_release(&history);
    return rc;
}

/* ---- pausing and forgetting ----------------------------------------------------------------- */

ruvllm_status ruvllm_engine_learn_pause(ruvllm_engine *engine, const char *tenant, bool is_paused,
                                        struct ruvllm_error *err)
{
    struct rv_learner *learner;
    ruvllm_status rc;

    if (!engine)
        return rv_door_fail_null(err, "engine");
    rc = rv_engine_learn_get(engine, &learner, err);
    return rc ? rc : rv_learner_pause(learner, tenant, is_paused, err);
}

ruvllm_status ruvllm_engine_learn_forget(ruvllm_engine *engine, const char *tenant, int64_t sequence,
                                         struct ruvllm_feedback_result *result, struct ruvllm_error *err)
{
    struct ruvllm_feedback_result ours = {.struct_size = sizeof(ours)};
    struct rv_learner_result r;
    struct rv_learner *learner;
    ruvllm_status rc;

    if (!engine)
        return rv_door_fail_null(err, "engine");
    rc = rv_engine_learn_get(engine, &learner, err);
    if (!rc)
        rc = rv_learner_forget(learner, tenant, sequence, &r, err);
    if (rc)
        return rc;
    ours.generation = r.generation;
    ours.sequence = r.seq;
    ours.compute_us = r.compute_us;
    ours.commit_us = r.commit_us;
    return result ? rv_door_give_struct(result, &ours, sizeof(ours), "ruvllm_feedback_result", err) : RUVLLM_OK;
}

/* ---- as a file ------------------------------------------------------------------------------ */

/* What was learned at the head and below it; *out is NULL when it is nothing. */
static ruvllm_status take_learned(struct ruvllm_engine *engine, const char *tenant, struct rv_adapter **out,
                                  struct ruvllm_error *err)
{
    struct rv_learner_voice voice = {0}; // for its memory no file has a place
    struct rv_learner *learner;
    ruvllm_status rc = rv_engine_learn_get(engine, &learner, err);

    *out = NULL;
    if (!rc)
        rc = rv_learner_voice(learner, tenant, &voice, err);
    if (!rc && (voice.head || voice.deep))
        rc = rv_learned_adapter_join(out, voice.head, voice.deep, &engine->model->hparams, &engine->model->manifest,
                                     err);
    rv_learner_release_voice(&voice);
    return rc;
}

ruvllm_status ruvllm_engine_learn_export(ruvllm_engine *engine, const char *tenant, const char *path,
                                         ruvllm_adapter_format format, struct ruvllm_error *err)
{
    struct rv_adapter_file_base base;
    struct rv_adapter_file *file = NULL;
    struct rv_adapter *adapter;
    ruvllm_status rc;

    if (!engine || !path)
        return rv_door_fail_null(err, engine ? "path" : "engine");
    if ((unsigned)format > RUVLLM_ADAPTER_OWN)
        return rv_fail(err, RUVLLM_INVALID, "there is no format %d of adapters", (int)format);
    rc = take_learned(engine, tenant, &adapter, err);
    if (!rc && !adapter)
        rc = rv_fail_kind(err, RUVLLM_NOT_FOUND, RUVLLM_ERROR_SONA,
                          "nothing was learned for tenant '%.120s' that a file could hold",
                          tenant && *tenant ? tenant : "default");
    if (!rc) {
        rv_adapter_file_base_init(&base, &engine->model->hparams, &engine->model->manifest);
        rc = rv_adapter_file_from(&file, adapter, &base, err);
    }
    if (!rc)
        rc = rv_adapter_file_write(file, &base, path, format, err);
    rv_adapter_file_close(file);
    rv_adapter_unref(adapter);
    return rc ? rv_fail_in(err, rc, "cannot export what was learned") : RUVLLM_OK;
}
