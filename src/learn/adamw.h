/*
 * AdamW (arXiv 1711.05101) with the gradient's length limited, and how the step size goes over a run.
 */
#ifndef RV_LEARN_ADAMW_H
#define RV_LEARN_ADAMW_H

#include "base/error.h"

typedef enum rv_adamw_schedule {
    RV_ADAMW_CONSTANT,
    RV_ADAMW_COSINE,   // from the full step down to nothing
    RV_ADAMW_ONE_CYCLE // up to the full step over the first 30 %, then down as cosine (arXiv 1708.07120)
} rv_adamw_schedule;

struct rv_adamw_config {
    float step;  // learning rate
    float beta1; // 0.9
    float beta2; // 0.99
    float eps;   // 1e-8
    float decay; // weight decay, times the step size
    float clip;  // the gradient's length is cut to this; 0: never
    rv_adamw_schedule schedule;
    int32_t n_warmup; // steps that grow evenly to the full size before the schedule begins; not with ONE_CYCLE
    int32_t n_steps;  // of the whole run, for schedules
};

struct rv_adamw {
    struct rv_adamw_config config;
    size_t n;
    float *mean;   // of gradients
    float *square; // of their squares
    int32_t step;  // done so far
};

/* What serves LoRA runs of a few hundred steps. */
struct rv_adamw_config rv_adamw_config_default(void);
/* INVALID, naming the field, for numbers that make no sense. */
RV_CHECKED ruvllm_status rv_adamw_init(struct rv_adamw *out, const struct rv_adamw_config *config, size_t n,
                                       struct ruvllm_error *err);
void rv_adamw_release(struct rv_adamw *adamw);

/* The step size of step number `step`, from 0. */
float rv_adamw_step_size(const struct rv_adamw_config *config, int32_t step);
/*
 * One step down the gradient; grads are only read. *length is the gradient's before it was cut. With one that is not a
 * finite number nothing changes and the result is false.
 */
bool rv_adamw_step(struct rv_adamw *adamw, float *values, const float *grads, double *length);

#endif
