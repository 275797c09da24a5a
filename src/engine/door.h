/* What every public call does with its arguments. */
#ifndef RV_ENGINE_DOOR_H
#define RV_ENGINE_DOOR_H

#include "base/error.h"

ruvllm_status rv_door_fail_null(struct ruvllm_error *err, const char *what);
/*
 * Copies a caller's struct, which may be shorter than ours (an older caller) but not longer (a newer one, whose wishes
 * we would silently drop). Both begin with struct_size; `ours` holds the defaults, which NULL leaves as they are.
 */
RV_CHECKED ruvllm_status rv_door_take_struct(void *ours, size_t size, const void *theirs, const char *what,
                                             struct ruvllm_error *err);
/* The other direction: fills as much as the caller has room for. */
RV_CHECKED ruvllm_status rv_door_give_struct(void *theirs, const void *ours, size_t size, const char *what,
                                             struct ruvllm_error *err);

#endif
