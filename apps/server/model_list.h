/* Which models a server offers: those named on the command line and every .gguf file of a folder. */
#ifndef RV_SERVER_MODEL_LIST_H
#define RV_SERVER_MODEL_LIST_H

#include "server/access_log.h"
#include "server/model_set.h"
#include "server/serve.h"

struct rv_model_list {
    struct rv_model_set_model models[RV_MODEL_SET_MAX];
    size_t n;
};

/* NOT_FOUND when there is no model at all. Names and paths belong to the list; what is left out goes to the log. */
RV_CHECKED ruvllm_status rv_model_list_init(struct rv_model_list *list, const struct rv_serve_config *config,
                                            struct rv_access_log *log, struct ruvllm_error *err);
void rv_model_list_release(struct rv_model_list *list);

#endif
