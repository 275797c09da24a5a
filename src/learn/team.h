/*
 * Threads that share one computation at a time. Who computes which part is left open, so a part must not care, and what
 * it writes must be its own: then results do not depend on the number of threads.
 */
#ifndef RV_LEARN_TEAM_H
#define RV_LEARN_TEAM_H

#include "base/error.h"

struct rv_team;

/* Part `part` of the work, on thread `thread` (from 0, the caller's, below the team's size). */
typedef void (*rv_team_fn)(void *work, int32_t part, int32_t thread);

/* `n_threads` counts the caller's; `is_idle` gives the others, and none else, the scheduler's lowest priority. */
RV_CHECKED ruvllm_status rv_team_open(struct rv_team **out, int32_t n_threads, bool is_idle, struct ruvllm_error *err);
/* Ends the threads. Accepts NULL. */
void rv_team_close(struct rv_team *team);
int32_t rv_team_n_threads(const struct rv_team *team);

/* Computes parts 0 to n_parts - 1 and returns when all are done. One caller at a time. */
void rv_team_run(struct rv_team *team, int32_t n_parts, rv_team_fn fn, void *work);

#endif
