/* `ruvllm serve --auto`: settings chosen from the machine and the model, and a sentence that says why. */
#ifndef RV_CLI_SERVE_AUTO_H
#define RV_CLI_SERVE_AUTO_H

#include "server/serve.h"

enum { RV_SERVE_AUTO_NOTES = 400 };

/*
 * Sets memory for keys and values and, unless `kv` is NULL, their precision, where the user left them open; `notes`
 * says from what. `model_path` is the default's.
 */
void rv_serve_auto_choose(struct rv_serve_config *config, const char *model_path, struct ruvllm_kv_policy *kv,
                          char notes[RV_SERVE_AUTO_NOTES]);

#endif
