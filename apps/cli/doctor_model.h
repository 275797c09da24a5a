/* The part of `ruvllm doctor` that tries a model. */
#ifndef RV_CLI_DOCTOR_MODEL_H
#define RV_CLI_DOCTOR_MODEL_H

#include "doctor_report.h"
#include "model_options.h"

/* Opens the model and checks tokenizer, template, memory and a short answer, adding a finding for each. */
void rv_doctor_model_check(struct rv_doctor_report *report, const struct rv_model_options *options,
                           uint64_t memory_available);

#endif
