/*
 * What came of an event is noted with it before it has its number. Where others taught in between, or it waited in the
 * spool, another generation came of it than the note says: who reads the log finds that out, and sets the note right
 * for those who read the history and go back by it.
 */
#ifndef RV_LEARN_ERRATA_H
#define RV_LEARN_ERRATA_H

#include "store/store.h"

enum { RV_ERRATA_MAX = 64 }; // of one reading

struct rv_errata {
    int64_t seqs[RV_ERRATA_MAX];
    struct rv_str deltas[RV_ERRATA_MAX];
    size_t n;
};

/* The generations before and after an event. Beyond the most that are kept, the next reading sees to it. */
void rv_errata_see(struct rv_errata *errata, const struct rv_store_event *event, int64_t before, int64_t after);
/* Sets right what was seen, as far as the store lets it, and keeps nothing of it. */
void rv_errata_write(struct rv_errata *errata, struct ruvllm_store *store, const char *tenant);

#endif
