/* Engines with adapters under test: made of seeds, asked one question, and answers compared. */
#ifndef RV_GOLDEN_ADAPTER_BED_H
#define RV_GOLDEN_ADAPTER_BED_H

#include "ruvllm_adapter.h"
#include "support/test.h"

#include <stdbool.h>

struct rv_adapter;

enum { ADAPTER_BED_CONTEXT = 256, ADAPTER_BED_ANSWER = 16 };

extern const char *const adapter_bed_model; // in the test data
extern const char *const adapter_bed_text;  // what is asked

/* `wishes` NULL: the defaults. */
ruvllm_engine *adapter_bed_open(const struct ruvllm_engine_params *wishes);
/* A fresh folder for adapters; removing it fails the case when a file is left in it. */
const char *adapter_bed_folder(void);
void adapter_bed_remove_folder(const char *path);
/* With layers of one seed and the head of another; 0: none. For rv_adapter_unref. */
struct rv_adapter *adapter_bed_make(const struct ruvllm_model *model, uint64_t layers_seed, uint64_t head_seed);
/* The generation that comes of it. */
int64_t adapter_bed_publish(ruvllm_engine *engine, const char *id, uint64_t layers_seed, uint64_t head_seed);
/* A file of ours with such an adapter. */
const char *adapter_bed_write(const ruvllm_engine *engine, uint64_t layers_seed, uint64_t head_seed);
struct ruvllm_generate_params adapter_bed_greedy(int32_t max_tokens);
ruvllm_status adapter_bed_submit(ruvllm_engine *engine, const char *adapter, int64_t generation, int32_t max_tokens,
                                 uint64_t *id, struct ruvllm_error *err);
/* Reads to the end. */
struct ruvllm_response *adapter_bed_drain(ruvllm_engine *engine, uint64_t id);
/* Both. */
struct ruvllm_response *adapter_bed_answer(ruvllm_engine *engine, const char *adapter, int64_t generation);
/* What a fresh engine, which has cached nothing, answers. */
struct ruvllm_response *adapter_bed_fresh_answer(uint64_t layers_seed, uint64_t head_seed);
/*
 * The same answer up to what batches of another shape do to the last bits: a first difference where the best two are a
 * hundredth apart at most. Another adapter moves log-probabilities by a tenth and more.
 */
bool adapter_bed_is_same(const struct ruvllm_response *a, const struct ruvllm_response *b);
/* Asks, and compares; `is_cached` tells whether the prompt was to be found in the cache. */
void adapter_bed_check(ruvllm_engine *engine, const char *adapter, int64_t generation,
                       const struct ruvllm_response *expected, bool is_cached);

#endif
