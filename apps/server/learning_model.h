/* The model a call about learning means, on a worker's thread. */
#ifndef RV_SERVER_LEARNING_MODEL_H
#define RV_SERVER_LEARNING_MODEL_H

#include "server/call.h"
#include "server/learning_starter.h"

/* Of a model; OFF where the server does not learn. */
enum rv_learning_stage rv_learning_model_stage(const struct rv_server *server, size_t i_model);
/* False: the reply says that the server does not learn. */
bool rv_learning_model_served(struct rv_call *call);
/* The same for the model whose engine the call has; also while it prepares. */
bool rv_learning_model_learns(struct rv_call *call);
/* The same, and waits some seconds for a model that prepares: for a thread that may wait. */
bool rv_learning_model_comes_to_learn(struct rv_call *call);
/* True while that model prepares, and the reply says so. */
bool rv_learning_model_is_early(struct rv_call *call, size_t i_model);
/* Served and learning, and the engine of the model of that name is leased between them; "": of the default one. */
enum rv_call_ready rv_learning_model_take(struct rv_call *call, const char *name);
/* Something changed that would end with the engine where no store has it: then the engine stays. */
void rv_learning_model_keep(struct rv_call *call);

#endif
