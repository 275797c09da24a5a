/*
 * An alarm for floods: votes that are suddenly all alike. A cumulative sum of how much likelier the votes are if all
 * are good (or all bad) than by the tenant's mean; it falls back to 0 with the first vote that does not fit. A tenant
 * whose answers really become better goes on having votes of both kinds, and sets off nothing.
 *
 * Part of a tenant's state: a function of its events alone.
 */
#ifndef RV_LEARN_FLOOD_H
#define RV_LEARN_FLOOD_H

#include <stdbool.h>
#include <stdint.h>

enum { RV_FLOOD_PAUSE = 64 }; // votes that teach nothing after an alarm: by then floods weigh nothing anyway

struct rv_flood {
    double good; // nats for "all are good"
    double bad;
    int64_t good_since; // the last generation before they began
    int64_t bad_since;
    int32_t n_paused; // votes to come that teach nothing
};

/* One vote more, at the tenant's mean before it; `generation` is the one before it too. */
void rv_flood_add(struct rv_flood *flood, double score, double mean, int64_t generation);
/* Whether the alarm rings now; then *since is the last generation from before. Not while it is paused. */
bool rv_flood_rings(const struct rv_flood *flood, int64_t *since);
/* Begins the pause, and counts anew. */
void rv_flood_pause(struct rv_flood *flood);

#endif
