/*
 * Quantising a model file: each matrix is read, turned into the type its mix wants, and written to a new file with the
 * same metadata. Rows are independent, so threads share them; memory is bounded whatever the model's size.
 */
#ifndef RV_MODEL_QUANTIZE_H
#define RV_MODEL_QUANTIZE_H

#include "base/error.h"

#include <ggml.h>

struct rv_quantize_mix;

/* One tensor that was written. */
struct rv_quantize_tensor {
    const char *name;
    const char *from;   // type names
    const char *to;     // what it has now
    const char *wanted; // what the mix wanted; differs from `to` where rows did not fit its blocks
    uint64_t bytes_before;
    uint64_t bytes_after;
};

struct rv_quantize_job {
    const char *in;
    const char *out; // replaced when it exists; never the input itself
    const struct rv_quantize_mix *mix;
    int32_t n_threads; // 1 to 64
    bool is_pure;      // one type for all matrices
    bool allow_requantize;
    /* Both may be NULL. False from on_progress (0 to 1) stops with CANCELLED. */
    bool (*on_progress)(void *user, float fraction);
    void (*on_tensor)(void *user, const struct rv_quantize_tensor *tensor);
    void *user;
};

struct rv_quantize_result {
    uint64_t bytes_in;
    uint64_t bytes_out;
    size_t n_tensors;
    size_t n_converted; // tensors that changed their type
    size_t n_fallback;  // of those, the ones whose rows did not fit the wanted type
};

/*
 * On failure the output is as it was and nothing is left beside it. Weights that are no finite numbers, or too large
 * for the type, are FORMAT and name the tensor; a quantised input without leave for it is INVALID.
 */
RV_CHECKED ruvllm_status rv_quantize_run(const struct rv_quantize_job *job, struct rv_quantize_result *out,
                                         struct ruvllm_error *err);

#endif
