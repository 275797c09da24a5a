/* An engine under measurement: what fails ends the program with a sentence. */
#ifndef RV_BENCH_ENGINE_RUN_H
#define RV_BENCH_ENGINE_RUN_H

#include "ruvllm.h"

/* Ends the program; `err` may be NULL. */
_Noreturn void engine_run_die(const char *what, const struct ruvllm_error *err);
/* Reads an answer to its end. */
struct ruvllm_response *engine_run_drain(ruvllm_engine *engine, uint64_t id);
/* Sorts them; of an even number the upper one. */
double engine_run_median(double *values, size_t n);

#endif
