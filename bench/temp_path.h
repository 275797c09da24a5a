/* Where benches put what they do not keep. */
#ifndef RV_BENCH_TEMP_PATH_H
#define RV_BENCH_TEMP_PATH_H

#include <stddef.h>

/* TMPDIR, or /tmp. */
const char *temp_path_folder(void);
/* "<that>/<name>"; ends the program where it does not fit. */
void temp_path_of(char *out, size_t size, const char *name);

#endif
