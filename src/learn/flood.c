#include "learn/flood.h"

#include <math.h>

/* One false alarm in exp(12) votes, some 160,000, at most; a flood rings after 24 votes at the earliest. */
static const double THRESHOLD = 12, MOST = 0.5, LEAST_MEAN = 0.02;

/* How much likelier a vote is where nearly all are good than where `mean` of them are. */
static double evidence(double score, double mean)
{
    double m = mean < LEAST_MEAN ? LEAST_MEAN : mean > 1 - LEAST_MEAN ? 1 - LEAST_MEAN : mean;
    double e = score * log((1 - LEAST_MEAN) / m) + (1 - score) * log(LEAST_MEAN / (1 - m));

    return e < MOST ? e : MOST;
}

static void add(double *sum, int64_t *since, double e, int64_t generation)
{
    if (*sum <= 0)
        *since = generation;
    *sum = *sum + e > 0 ? *sum + e : 0;
}

void rv_flood_add(struct rv_flood *flood, double score, double mean, int64_t generation)
{
    if (flood->n_paused > 0) {
        flood->n_paused--;
        return;
    }
    add(&flood->good, &flood->good_since, evidence(score, mean), generation);
    add(&flood->bad, &flood->bad_since, evidence(1 - score, 1 - mean), generation);
}

bool rv_flood_rings(const struct rv_flood *flood, int64_t *since)
{
    if (flood->n_paused > 0 || (flood->good < THRESHOLD && flood->bad < THRESHOLD))
        return false;
    *since = flood->good >= THRESHOLD ? flood->good_since : flood->bad_since;
    return true;
}

void rv_flood_pause(struct rv_flood *flood)
{
    *flood = (struct rv_flood){.n_paused = RV_FLOOD_PAUSE};
}
