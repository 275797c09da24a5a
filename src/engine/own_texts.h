/*
 * Texts that the model writes by itself, at temperature 1 and with nothing learned: what it would say anyway. Deep runs
 * hold on to them and measure by them what was forgotten. Made once for a model and kept in the store, so that a run
 * that is gone on with has the same.
 */
#ifndef RV_ENGINE_OWN_TEXTS_H
#define RV_ENGINE_OWN_TEXTS_H

#include "engine/engine.h"
#include "store/store.h"

struct rv_own_texts {
    int32_t n, length;
    int32_t *tokens; // n rows of length
    double nll;      // mean -log p of a token
};

/* Asked now and then while they are written; false: CANCELLED, and nothing is kept. */
typedef bool (*rv_own_texts_fn)(void *user);

/* From the store under the model's name, or written now and put there. Seconds to minutes. `goes_on` may be NULL. */
RV_CHECKED ruvllm_status rv_own_texts_get(struct rv_own_texts *out, struct ruvllm_engine *engine,
                                          struct ruvllm_store *store, const char *model, rv_own_texts_fn goes_on,
                                          void *user, struct ruvllm_error *err);
void rv_own_texts_release(struct rv_own_texts *texts);
/* True for the name that they are written under. */
bool rv_own_texts_are_by(const char *tenant);

/* As bytes, and back; *out is the caller's (rv_free). FORMAT for what is none, or of another vocabulary. */
RV_CHECKED ruvllm_status rv_own_texts_pack(const struct rv_own_texts *texts, struct rv_str *out,
                                           struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_own_texts_unpack(struct rv_own_texts *out, struct rv_str bytes, int32_t n_vocab,
                                             struct ruvllm_error *err);

#endif
