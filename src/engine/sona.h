/*
 * What is behind ruvllm_sona: one tenant's learning in an engine, by texts. A text is read as an answer (teacher.h) and
 * judged as one; everything after that is the learner's.
 */
#ifndef RV_ENGINE_SONA_H
#define RV_ENGINE_SONA_H

#include "engine/engine.h"
#include "ruvllm_sona.h"

/* As the public functions of the same names; arguments were checked for NULL and structs are the library's own. */
RV_CHECKED ruvllm_status rv_sona_new(struct ruvllm_sona **out, struct ruvllm_engine *engine, const char *tenant,
                                     const struct ruvllm_sona_config *config, struct ruvllm_error *err);
void rv_sona_free(struct ruvllm_sona *sona);
RV_CHECKED ruvllm_status rv_sona_instant_adapt(struct ruvllm_sona *sona, const char *request, const char *response,
                                               double quality, struct ruvllm_sona_result *result,
                                               struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_sona_deep_optimize(struct ruvllm_sona *sona, const struct ruvllm_train_sample *samples,
                                               size_t n, const struct ruvllm_deep_params *params,
                                               struct ruvllm_sona_result *result, struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_sona_background(struct ruvllm_sona *sona, struct ruvllm_sona_result *result,
                                            struct ruvllm_error *err);
bool rv_sona_is_background_due(const struct ruvllm_sona *sona);
bool rv_sona_should_trigger_deep(const struct ruvllm_sona *sona);
RV_CHECKED ruvllm_status rv_sona_forward(struct ruvllm_sona *sona, const float *state, float *out,
                                         struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_sona_reset(struct ruvllm_sona *sona, struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_sona_stats(struct ruvllm_sona *sona, struct ruvllm_sona_stats *out,
                                       struct ruvllm_error *err);

#endif
