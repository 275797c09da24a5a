/*
 * What the background loop keeps in a store, out of any bytes: events of ticks and gates, and anchors. Refused with a
 * sentence, or read into numbers that are numbers. The first byte says which.
 */
#include "fuzz_target.h"

#include "kernels/vec.h"
#include "learn/anchors_store.h"
#include "learn/tick_event.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { DIMS = 4, VOCAB = 100 };

static void need(bool is_kept, const char *promise)
{
    if (is_kept)
        return;
    fprintf(stderr, "broken promise: %s\n", promise);
    abort();
}

static void read_event(struct rv_str bytes)
{
    struct ruvllm_error err = {0};
    struct rv_head_adapter made;
    struct rv_tick_event event;

    if (rv_head_adapter_init(&made, DIMS, 2, &err))
        return;
    if (rv_tick_event_read(&event, &made, bytes, &err))
        need(err.message[0] != '\0', "failures say why");
    else
        need(made.n_pairs <= 2 && event.generation >= 0, "events are within bounds");
    for (int i = 0; i < made.n_pairs * DIMS; i++)
        need(isfinite(made.a[i]) && isfinite(made.b[i]), "numbers are numbers");
    rv_head_adapter_release(&made);
}

static void read_anchors(struct rv_str bytes)
{
    struct ruvllm_error err = {0};
    struct rv_anchors anchors;

    if (rv_anchors_store_unpack(bytes.data, bytes.len, DIMS, VOCAB, &anchors, &err)) {
        need(err.message[0] != '\0' && !anchors.states, "failures say why and leave nothing");
        return;
    }
    for (int32_t i = 0; i < anchors.n * RV_TRACE_TOP; i++)
        need(anchors.top[i] >= -1 && anchors.top[i] < VOCAB, "tokens are the model's");
    rv_anchors_release(&anchors);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rv_str bytes = {.data = (const char *)data + 1, .len = size ? size - 1 : 0};

    if (size == 0)
        return 0;
    if (data[0] & 1)
        read_event(bytes);
    else
        read_anchors(bytes);
    return 0;
}
