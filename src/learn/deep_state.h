/* Where a training run is, and how that is kept in a file (GGUF, so that one reader checks all files). */
#ifndef RV_LEARN_DEEP_STATE_H
#define RV_LEARN_DEEP_STATE_H

#include "base/sha256.h"
#include "learn/adamw.h"

struct rv_deep_state {
    bool has_begun;
    int32_t epoch;
    int32_t best_epoch; // -1: nothing was better than what was there before
    int32_t n_worse;    // epochs since the best
    size_t at;          // samples of the epoch's order that were used
    double held_out_before;
    double best_loss;
    double kl_scale; // what the config's kl_weight is multiplied with
};

/* The whole of it; arrays have adamw->n numbers. */
struct rv_deep_state_file {
    char fingerprint[RV_SHA256_HEX_LEN + 1]; // of what must be the same for the run to go on
    struct rv_deep_state *state;
    struct rv_adamw *adamw;
    float *values;
    float *best;
};

RV_CHECKED ruvllm_status rv_deep_state_write(const struct rv_deep_state_file *file, const char *path,
                                             struct ruvllm_error *err);
/* Fills what `file` points to; on failure all of that is as it was. INVALID for another run's file. */
RV_CHECKED ruvllm_status rv_deep_state_read(const struct rv_deep_state_file *file, const char *path,
                                            struct ruvllm_error *err);

#endif
