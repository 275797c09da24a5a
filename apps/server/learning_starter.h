/*
 * Has loaded models begin to learn. Where the store knows what that takes, before anybody is answered; else, and while
 * the store is away, on a thread of its own beside the answers, again and again until it is done. Learning is on as
 * soon as feedback teaches, which is before everything is prepared.
 *
 * Threads: any may call; one lock, never held while a model prepares. The thread has a lease of the model it works on.
 */
#ifndef RV_SERVER_LEARNING_STARTER_H
#define RV_SERVER_LEARNING_STARTER_H

#include "ruvllm_learn.h"
#include "server/access_log.h"
#include "server/model_set.h"

struct rv_learning_starter;

enum rv_learning_stage {
    RV_LEARNING_OFF,       // not loaded, or it cannot learn
    RV_LEARNING_PREPARING, // answers leave traces; feedback has to wait
    RV_LEARNING_ON
};

/* Models, log and what the parameters point to outlive it; on_progress is its own. */
RV_CHECKED ruvllm_status rv_learning_starter_open(struct rv_learning_starter **out, struct rv_model_set *models,
                                                  const struct ruvllm_learn_params *params, struct rv_access_log *log,
                                                  struct ruvllm_error *err);
/* Who prepares gives up soon, and nobody waits any more: for a server that ends. Accepts NULL. */
void rv_learning_starter_stop(struct rv_learning_starter *starter);
/* The same, and ends. Accepts NULL. */
void rv_learning_starter_close(struct rv_learning_starter *starter);

/* An engine was opened that nobody can take yet: begins with what is known. */
void rv_learning_starter_try(struct rv_learning_starter *starter, size_t i_model, ruvllm_engine *engine);
/* Now it can be taken: goes on with what is not known yet. */
void rv_learning_starter_go_on(struct rv_learning_starter *starter, size_t i_model);
enum rv_learning_stage rv_learning_starter_stage(const struct rv_learning_starter *starter, size_t i_model);
/* The same after waiting for it to be on, up to `wait_ms`; unless many wait already. */
enum rv_learning_stage rv_learning_starter_await(struct rv_learning_starter *starter, size_t i_model, int32_t wait_ms);

#endif
