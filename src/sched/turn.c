/* A bounded list in order: nearly everything added is no better than its last and costs one comparison. */
#include "sched/turn.h"

#include <string.h>

enum { SLOWER = 60 };

struct rv_turn rv_turn_of(struct rv_request *request)
{
    return (struct rv_turn){.request = request,
                            .ticket = request->ticket,
                            .served_us = request->served_us,
                            .rank = rv_request_rank(request),
                            .tenant = request->tenant,
                            .n_left = rv_request_n_pending(request)};
}

bool rv_turn_before(const struct rv_turn *a, const struct rv_turn *b)
{
    if (a->urgency != b->urgency)
        return a->urgency > b->urgency;
    if (a->share != b->share)
        return a->share < b->share;
    if (a->n_left != b->n_left)
        return a->n_left < b->n_left;
    return a->ticket < b->ticket;
}

/* Whole steps of age; a clock that was set back ages nobody. */
static int32_t steps_waited(const struct rv_turn_list *list, int64_t served_us)
{
    int64_t waited = list->now_us - served_us;

    if (list->age_us <= 0 || waited < list->age_us)
        return 0;
    waited /= list->age_us;
    return waited < INT32_MAX / 2 ? (int32_t)waited : INT32_MAX / 2;
}

void rv_turn_list_add(struct rv_turn_list *list, const struct rv_turn *turn)
{
    struct rv_turn new = *turn;
    int32_t i;

    new.share = list->share->tenants[turn->tenant].served / list->quantum;
    new.urgency = turn->rank + steps_waited(list, turn->served_us) / (new.share > list->least ? SLOWER : 1);
    if (list->n == list->max) {
        if (!rv_turn_before(&new, &list->turns[list->n - 1]))
            return;
        list->n--;
    }
    for (i = list->n++; i > 0 && rv_turn_before(&new, &list->turns[i - 1]); i--)
        list->turns[i] = list->turns[i - 1];
    list->turns[i] = new;
}
