/* Engines that learn under test: of one small model, asked one question at a time, and answers compared to the bit. */
#ifndef RV_GOLDEN_LEARN_BED_H
#define RV_GOLDEN_LEARN_BED_H

#include "ruvllm_learn.h"
#include "support/test.h"

#include <stdbool.h>

extern const char *const learn_bed_model; // in the test data
extern const char *const learn_bed_text;  // what is asked where nothing else is

/* What engines differ in. */
struct learn_bed_wishes {
    ruvllm_store *store;    // NULL: memory only
    int32_t prefill_tokens; // 0: the default
    ruvllm_consolidation consolidation;
    bool no_background;
    bool no_learning;
};

/* A context of 256 and one thread: on a model this small more are no faster. */
ruvllm_engine *learn_bed_open(const struct learn_bed_wishes *wishes);
/* The usual one: it learns, and keeps it in the store, which may be NULL. */
ruvllm_engine *learn_bed_open_with(ruvllm_store *store);
ruvllm_store *learn_bed_open_store(const char *path);

/* A question; what is zero is as by default. */
struct learn_bed_question {
    const char *tenant;
    const char *text; // NULL: learn_bed_text
    const char *adapter;
    float temperature;
    float top_p; // 0: 1
    uint64_t seed;
    int32_t n_tokens; // of the answer at most; 0: 24
    bool may_end;     // before that
};

/* The whole answer, with the likeliest of each token; *id, which may be NULL, is the request's. */
struct ruvllm_response *learn_bed_ask(ruvllm_engine *engine, const struct learn_bed_question *question, uint64_t *id);
/* Tokens and all log-probabilities, bit by bit. */
bool learn_bed_same(const struct ruvllm_response *a, const struct ruvllm_response *b);

#endif
