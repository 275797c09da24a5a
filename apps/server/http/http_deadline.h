/*
 * Deadlines for thousands of connections with one timer. All deadlines of a kind are equally far away when they are
 * set, so a queue per kind is sorted by itself: setting, moving and clearing one is a few pointers, and the timer
 * stands at the earliest of the heads.
 */
#ifndef RV_HTTP_HTTP_DEADLINE_H
#define RV_HTTP_HTTP_DEADLINE_H

#include <stdbool.h>
#include <stdint.h>

struct event;
struct event_base;

enum rv_http_deadline_kind {
    RV_HTTP_DEADLINE_NONE,
    RV_HTTP_DEADLINE_HEADER,
    RV_HTTP_DEADLINE_BODY,
    RV_HTTP_DEADLINE_STALL,
    RV_HTTP_DEADLINE_IDLE,
    RV_HTTP_DEADLINE_LINGER,
    RV_HTTP_DEADLINE_PING,
    RV_HTTP_DEADLINE_GRACE,
    RV_HTTP_DEADLINE_N_KINDS
};

/* Part of what has the deadline; zeroed means none is set. */
struct rv_http_deadline {
    struct rv_http_deadline *prev;
    struct rv_http_deadline *next;
    int64_t due_us;
    void *owner;
    enum rv_http_deadline_kind kind;
};

struct rv_http_deadline_queue {
    struct rv_http_deadline *first;
    struct rv_http_deadline *last;
    int32_t ms;
    void (*fn)(void *owner); // the deadline is cleared before
};

struct rv_http_deadlines {
    struct rv_http_deadline_queue queues[RV_HTTP_DEADLINE_N_KINDS];
    struct event *timer;
    int64_t timer_us; // when the timer goes off; INT64_MAX: it is not set
};

/* False when memory is out. Fill `ms` and `fn` of the queues that are used. */
bool rv_http_deadlines_init(struct rv_http_deadlines *deadlines, struct event_base *base);
void rv_http_deadlines_release(struct rv_http_deadlines *deadlines);
/* From now on; replaces what was set before. */
void rv_http_deadline_set(struct rv_http_deadlines *deadlines, struct rv_http_deadline *deadline,
                          enum rv_http_deadline_kind kind);
void rv_http_deadline_clear(struct rv_http_deadlines *deadlines, struct rv_http_deadline *deadline);

#endif
