/* Which keys of a tenant's memory the result of a deep run makes superfluous. */
#ifndef RV_ENGINE_DEEP_DISTIL_H
#define RV_ENGINE_DEEP_DISTIL_H

#include "engine/deep_events.h"

/*
 * Names of keys (distil.h) whose tokens the model with `trainable` gives at least rv_distil_enough wherever their
 * answer has them; out->data is the caller's (rv_free). `config` is that of the run.
 */
RV_CHECKED ruvllm_status rv_deep_distil_names(struct rv_str *out, const struct rv_deep_config *config,
                                              const struct rv_trainable *trainable, const struct rv_deep_events *events,
                                              struct ruvllm_error *err);

#endif
