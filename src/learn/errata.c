#include "learn/errata.h"

#include "base/alloc.h"
#include "base/log.h"
#include "learn/history.h"
#include "store/store_events.h"

void rv_errata_see(struct rv_errata *errata, const struct rv_store_event *event, int64_t before, int64_t after)
{
    int64_t generation = after > before ? after : -1;
    struct rv_str delta = event->delta;
    struct rv_history_note note;
    struct ruvllm_error err;

    if (errata->n == RV_ERRATA_MAX || !rv_history_take_note(&delta, &note) || note.generation == generation)
        return;
    note.generation = generation;
    if (rv_history_add_note(delta, &note, &errata->deltas[errata->n], &err) == RUVLLM_OK)
        errata->seqs[errata->n++] = event->seq;
}

void rv_errata_write(struct rv_errata *errata, struct ruvllm_store *store, const char *tenant)
{
    struct ruvllm_error err;
    ruvllm_status rc = RUVLLM_OK;

    for (size_t i = 0; i < errata->n; i++) {
        if (!rc)
            rc = rv_store_events_set_delta(store, tenant, errata->seqs[i], errata->deltas[i], &err);
        rv_free((char *)(uintptr_t)errata->deltas[i].data);
    }
    if (rc)
        rv_log(RUVLLM_LOG_WARN, "the history of tenant '%s' has wrong generations: %.200s", tenant, err.message);
    errata->n = 0;
}
