/* Engines under test, and what is asked of them. Part of suites that include test.h. */
#ifndef RV_TESTS_SUPPORT_SERVING_BED_H
#define RV_TESTS_SUPPORT_SERVING_BED_H

#include "support/test.h"

enum { BED_CONTEXT = 512, BED_MAX_PROMPT = 2048, BED_N_BEGINNINGS = 8 };

/* Two where threads matter; on models this small one is as fast, and a busy machine does not slow it down. */
extern int32_t bed_n_threads;
extern const char *const bed_beginnings[BED_N_BEGINNINGS];

/* An engine of a model of the test data. */
ruvllm_engine *bed_open(const char *name, const struct ruvllm_engine_params *wishes);
struct ruvllm_generate_params bed_greedy(int32_t max_tokens);
struct ruvllm_request bed_request(const struct ruvllm_input *input, const char *tenant);
uint64_t bed_submit(ruvllm_engine *engine, const char *text, const char *tenant,
                    const struct ruvllm_generate_params *params);
/* Reads to the end; the pieces must add up to the answer. */
struct ruvllm_response *bed_drain(ruvllm_engine *engine, uint64_t id);
struct ruvllm_engine_stats bed_stats(ruvllm_engine *engine);
/* Statistics are copied after each step, so they may lag behind the last event by a moment. */
void bed_wait_until_idle(ruvllm_engine *engine);
/*
 * Compares answers token by token up to a first difference, which only a near tie excuses: ggml multiplies one row and
 * many with different kernels, and what that does to a log-probability is the noise, measured on the tokens that agree.
 */
size_t bed_compare(const struct ruvllm_response *alone, const struct ruvllm_response *mixed, double *noise);
/* A text of that many sentences; the caller frees it. */
char *bed_long_text(int n_sentences);

#endif
