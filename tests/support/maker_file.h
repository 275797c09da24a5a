/* Writes the GGUF file a spec describes. Tensors are made and written row by row: memory stays small at any size. */
#ifndef RV_TESTS_SUPPORT_MAKER_FILE_H
#define RV_TESTS_SUPPORT_MAKER_FILE_H

#include "support/maker_spec.h"

/* On failure no file is left at `path`. */
RV_CHECKED ruvllm_status maker_file_write(const struct maker_spec *spec, const char *path, struct ruvllm_error *err);

#endif
