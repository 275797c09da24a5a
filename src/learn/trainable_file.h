/* What was learned, as an adapter file. */
#ifndef RV_LEARN_TRAINABLE_FILE_H
#define RV_LEARN_TRAINABLE_FILE_H

#include "learn/trainable.h"
#include "model/adapter_file.h"

/* Whole or not at all, in 32 bits. INVALID when a number is not finite. */
RV_CHECKED ruvllm_status rv_trainable_file_write(const struct rv_trainable *trainable, const struct rv_hparams *hparams,
                                                 const struct rv_manifest *manifest, const char *path,
                                                 ruvllm_adapter_format format, struct ruvllm_error *err);

#endif
