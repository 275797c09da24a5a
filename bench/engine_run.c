#include "engine_run.h"

#include <stdio.h>
#include <stdlib.h>

_Noreturn void engine_run_die(const char *what, const struct ruvllm_error *err)
{
    (void)fprintf(stderr, "%s: %s\n", what, err ? err->message : "failed");
    exit(1);
}

struct ruvllm_response *engine_run_drain(ruvllm_engine *engine, uint64_t id)
{
    struct ruvllm_event event = {.struct_size = sizeof(event)};
    struct ruvllm_error err;

    do {
        if (ruvllm_engine_next_event(engine, id, -1, &event, &err))
            engine_run_die("cannot read an answer", &err);
    } while (event.type != RUVLLM_EVENT_DONE);
    return event.response;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double engine_run_median(double *values, size_t n)
{
    qsort(values, n, sizeof(*values), by_value);
    return values[n / 2];
}
