/*
 * What the background loop knows of a tenant beside what the log says: recent answers to go over again, how certain
 * the adapter's numbers are, how hard anchors had to pull. It makes ticks better and is never needed: a tenant without
 * it, as after a restart, begins a new one.
 */
#ifndef RV_LEARN_STUDY_H
#define RV_LEARN_STUDY_H

#include "learn/head_fisher.h"
#include "learn/rehearsal.h"

struct rv_study {
    atomic_int n_refs;
    uint64_t own_bytes;            // without the rehearsal; never changes
    struct rv_rehearsal rehearsal; // guarded by the tenant's lock, as the next four
    int32_t n_new;                 // votes since the last tick that went over them began
    int32_t n_lessons;             // since any tick began
    int64_t n_undone;              // times that something was gone back from
    bool is_busy;                  // a tick is under way; it alone may touch the rest
    struct rv_head_fisher fisher;
    double pull;
};

/* One reference. */
RV_CHECKED ruvllm_status rv_study_new(struct rv_study **out, const struct rv_whitening *whitening, uint64_t max_bytes,
                                      struct ruvllm_error *err);
struct rv_study *rv_study_ref(struct rv_study *study);
void rv_study_unref(struct rv_study *study);
/* What it takes in memory; under the tenant's lock. */
uint64_t rv_study_n_bytes(const struct rv_study *study);

#endif
