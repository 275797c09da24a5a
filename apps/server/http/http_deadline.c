/* Queues of equally long deadlines behind one timer. */
#include "server/http/http_deadline.h"

#include "base/clock.h"

#include <event2/event.h>

/* The timer may stand too early, after its deadline was cleared: then it goes off once for nothing. */
static void set_timer(struct rv_http_deadlines *deadlines, int64_t due_us, int64_t now_us)
{
    int64_t wait_us = due_us > now_us ? due_us - now_us : 0;
    struct timeval wait = {.tv_sec = wait_us / 1000000, .tv_usec = wait_us % 1000000};

    if (due_us >= deadlines->timer_us)
        return;
    deadlines->timer_us = due_us;
    evtimer_add(deadlines->timer, &wait);
}

static void run_queue(struct rv_http_deadlines *deadlines, struct rv_http_deadline_queue *queue, int64_t now_us)
{
    struct rv_http_deadline *due;

    while ((due = queue->first) != NULL && due->due_us <= now_us) {
        rv_http_deadline_clear(deadlines, due);
        queue->fn(due->owner);
    }
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct rv_http_deadlines *deadlines = arg;
    int64_t now_us = rv_clock_us();

    (void)fd;
    (void)what;
    deadlines->timer_us = INT64_MAX;
    for (int kind = 1; kind < RV_HTTP_DEADLINE_N_KINDS; kind++)
        run_queue(deadlines, &deadlines->queues[kind], now_us);
    for (int kind = 1; kind < RV_HTTP_DEADLINE_N_KINDS; kind++)
        if (deadlines->queues[kind].first)
            set_timer(deadlines, deadlines->queues[kind].first->due_us, now_us);
}

bool rv_http_deadlines_init(struct rv_http_deadlines *deadlines, struct event_base *base)
{
    *deadlines = (struct rv_http_deadlines){.timer_us = INT64_MAX};
    deadlines->timer = evtimer_new(base, on_timer, deadlines);
    return deadlines->timer != NULL;
}

void rv_http_deadlines_release(struct rv_http_deadlines *deadlines)
{
    if (deadlines->timer)
        event_free(deadlines->timer);
    deadlines->timer = NULL;
}

void rv_http_deadline_set(struct rv_http_deadlines *deadlines, struct rv_http_deadline *deadline,
                          enum rv_http_deadline_kind kind)
{
    struct rv_http_deadline_queue *queue = &deadlines->queues[kind];
    int64_t now_us = rv_clock_us();

    rv_http_deadline_clear(deadlines, deadline);
    deadline->kind = kind;
    deadline->due_us = now_us + (int64_t)queue->ms * 1000;
    deadline->prev = queue->last;
    deadline->next = NULL;
    if (queue->last)
        queue->last->next = deadline;
    else
        queue->first = deadline;
    queue->last = deadline;
    set_timer(deadlines, deadline->due_us, now_us);
}

void rv_http_deadline_clear(struct rv_http_deadlines *deadlines, struct rv_http_deadline *deadline)
{
    struct rv_http_deadline_queue *queue = &deadlines->queues[deadline->kind];

    if (deadline->kind == RV_HTTP_DEADLINE_NONE)
        return;
    if (deadline->prev)
        deadline->prev->next = deadline->next;
    else
        queue->first = deadline->next;
    if (deadline->next)
        deadline->next->prev = deadline->prev;
    else
        queue->last = deadline->prev;
    deadline->kind = RV_HTTP_DEADLINE_NONE;
}
