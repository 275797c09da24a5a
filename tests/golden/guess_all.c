/* Takes the choice over: every guess that is found is computed, so that as many as possible are wrong. */
#include "guess_all.h"

#include "sched/speculate.h"

int guess_all_pause;

int32_t __wrap_rv_speculate_choose(struct rv_speculate_record *record, struct rv_speculate_clock *clock,
                                   const struct rv_speculate_offer *offer);

int32_t __wrap_rv_speculate_choose(struct rv_speculate_record *record, struct rv_speculate_clock *clock,
                                   const struct rv_speculate_offer *offer)
{
    (void)clock;
    if (record->n_idle++ < guess_all_pause)
        return 0;
    record->n_idle = 0;
    return offer->n_found;
}
